# Nothing asked is an error; only a raw prompt with BOS may be empty.
hasten run $TINY/llama.gguf -p ''; echo $?
hasten run $TINY/llama.gguf </dev/null; echo $?
hasten run $TINY/llama.gguf --raw -p ''; echo $?
hasten run $TINY/gemma3.gguf --raw -p '' -n 1 >out; echo $?
