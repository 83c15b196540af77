hasten run $TINY/llama.gguf -p
