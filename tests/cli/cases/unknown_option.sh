hasten run $TINY/llama.gguf --tempp 1 -p x
echo $?
hasten run $TINY/llama.gguf --top_q=1 -p x
echo $?
hasten info $TINY/llama.gguf -z
echo $?
hasten doctor --qiuet
