cp $TINY/llama.gguf model.gguf
echo 'some text' >f
echo '[1,2,3]' >ids
ln -s f link
hasten eval model.gguf --ppl f --logits model.gguf; echo $?
hasten eval model.gguf --ppl f --logits ./link; echo $?
hasten eval model.gguf --ids ids --logits ids; echo $?
cmp model.gguf $TINY/llama.gguf && cat f ids
