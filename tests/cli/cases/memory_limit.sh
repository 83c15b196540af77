hasten run $TINY/llama.gguf -p x --memory 1M
