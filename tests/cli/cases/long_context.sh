# A context beyond the trained one: a note with -v, not otherwise; it runs.
hasten run $TINY/llama.gguf --raw -p x -n 1 -c 100000 -v >out 2>err; echo $?
grep trained err
hasten run $TINY/llama.gguf --raw -p x -n 1 -c 100000 >out; echo $?
