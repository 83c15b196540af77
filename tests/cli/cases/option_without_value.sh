hasten run $TINY/llama.gguf -p
echo $?
hasten run $TINY/llama.gguf -p --temp 0; echo $?
hasten run $TINY/llama.gguf --system --top_k 1 -p x; echo $?
hasten run $TINY/llama.gguf -n 1 --prompt=--temp >/dev/null; echo $?
hasten run $TINY/llama.gguf -n 1 -p --temperate >/dev/null; echo $?
hasten run $TINY/llama.gguf -n 1 -p -v >/dev/null; echo $?
