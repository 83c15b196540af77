HASTEN_TOP_K=many hasten run $TINY/llama.gguf -p x
