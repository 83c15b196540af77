# info and a refused run name the same need for the same settings; --memory 0 is no limit.
for m in llama qwen2 gemma3; do
    for c in 256 4096; do
        a=$(hasten info $TINY/$m.gguf -c $c | sed -n 's/^memory  *\([0-9.]*\) MiB.*/\1/p')
        b=$(hasten run $TINY/$m.gguf -c $c -p x --memory 1 2>&1 | sed -n 's/.*needed are \([0-9.]*\) MiB.*/\1/p')
        [ -n "$a" ] && [ "$a" = "$b" ] || echo "$m at $c: info $a, run $b"
    done
done
hasten run $TINY/llama.gguf --raw -p x -n 1 --memory 0 >out; echo "memory 0: $?"
