# A template works on characters; --raw takes any bytes.
printf 'a\377b' >f
hasten run $TINY/llama.gguf -f f -n 2
echo $?
hasten run $TINY/llama.gguf -f f -n 2 --raw --temp 0 >/dev/null
echo $?
