echo '[1,2' | hasten detokenize $TINY/llama.gguf; echo $?
echo '{"a":1}' | hasten detokenize $TINY/llama.gguf; echo $?
echo '[1,"x"]' | hasten detokenize $TINY/llama.gguf; echo $?
echo '[1,99999]' | hasten detokenize $TINY/llama.gguf; echo $?
echo '[-1]' | hasten detokenize $TINY/llama.gguf; echo $?
