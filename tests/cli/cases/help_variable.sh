# HASTEN_HELP is never read: neither does it turn a command into its help, nor can its value be wrong.
M=$TINY/llama.gguf
echo hi | hasten tokenize $M >want
for value in 1 yes no junk ''; do
    echo hi | HASTEN_HELP=$value hasten tokenize $M | cmp - want && echo same
done
