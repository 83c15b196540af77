echo '{"role":"user"}' | hasten template $TINY/llama.gguf; echo $?
echo '[1]' | hasten template $TINY/llama.gguf; echo $?
echo '[{"role":' | hasten template $TINY/llama.gguf; echo $?
echo '[]' | hasten template $TINY/gemma3.gguf; echo $?
