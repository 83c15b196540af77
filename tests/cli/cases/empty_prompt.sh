hasten run $TINY/llama.gguf --raw -p ''
