echo hi >f
hasten run $TINY/llama.gguf -p a -f f
