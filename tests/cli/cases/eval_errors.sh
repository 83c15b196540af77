echo 'some text' >f
hasten eval $TINY/llama.gguf; echo $?
hasten eval $TINY/llama.gguf --ppl f --ids f; echo $?
hasten eval $TINY/llama.gguf --ppl f -c 1; echo $?
hasten eval $TINY/llama.gguf --ppl f -c 8 --stride 9; echo $?
echo '[1,512]' >ids
hasten eval $TINY/llama.gguf --ids ids; echo $?
echo '[1]' >ids
hasten eval $TINY/llama.gguf --ids ids; echo $?
hasten eval $TINY/llama.gguf --ppl missing; echo $?
hasten eval $TINY/llama.gguf --ppl f --logits no/such/folder/out; echo $?
hasten eval $TINY/llama.gguf --ppl f --logits ''; echo $?
