# Every command answers --help with its own usage line, and `help COMMAND` gives the same bytes.
for c in run tokenize detokenize template info check eval bench quantize imatrix pull doctor; do
    hasten $c --help >a.txt || echo "$c: $?"
    hasten help $c | cmp - a.txt
    head -n 1 a.txt
done
