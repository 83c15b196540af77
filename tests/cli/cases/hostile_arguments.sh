# Whatever the arguments: a documented exit status and one line on stderr.
L=$(head -c 100000 /dev/zero | tr '\0' a)
try() {
    "$@" </dev/null >/dev/null 2>err.txt
    echo "$? $(wc -l <err.txt) $(cut -c 1-60 err.txt | head -n 1)"
}
M=$TINY/llama.gguf
try hasten ""
try hasten run ""
try hasten run --
try hasten run - -p x
try hasten run $M --=x
try hasten run $M -p x ---
try hasten run $M -$L
try hasten run $M --$L=1
try hasten $L
try hasten run $L
try hasten run $M -p "$L" -n 1
try hasten run $M -p x --stop ""
try hasten run $M -p x --stop "$L"
try hasten run $M -p x -n 2 --logit-bias "$L"
try hasten run $M -p x -n 2 $(for i in $(seq 70); do echo "--stop s$i"; done)
try hasten run $M -p x -b 4096 -n 1
try hasten run /dev/null -p x
try hasten run /tmp -p x
try hasten run /dev/zero -p x
try hasten tokenize $M -f /tmp
try hasten tokenize $M -f /dev/null
