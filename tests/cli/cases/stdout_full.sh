hasten info $TINY/llama.gguf >/dev/full
echo $?
hasten run $TINY/llama.gguf -p hi -n 4 >/dev/full
