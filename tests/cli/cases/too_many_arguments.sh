hasten run $TINY/llama.gguf again -p x
