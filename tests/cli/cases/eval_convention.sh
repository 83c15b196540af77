# The table says what was scored, with a stride and without; help says what -c 0 is.
printf 'the water is cold and the people are not here %.0s' 1 2 3 4 >f
hasten eval $TINY/llama.gguf --ppl f -c 16 | grep convention
hasten eval $TINY/llama.gguf --ppl f -c 16 --stride 8 | grep convention
hasten eval $TINY/llama.gguf --ppl f -c 0 | grep convention
hasten help eval | grep -e --ctx-size
