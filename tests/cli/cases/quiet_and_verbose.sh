hasten run $TINY/gemma3.gguf -p hi --temp 0 -n 2 --reference -q >/dev/null
hasten run $TINY/gemma3.gguf -p hi --temp 0 -n 2 --reference -v >/dev/null
