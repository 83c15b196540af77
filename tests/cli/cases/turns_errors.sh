echo '{"a":1}' >t
hasten run $TINY/llama.gguf --turns t; echo $?
echo '[5]' >t
hasten run $TINY/llama.gguf --turns t; echo $?
