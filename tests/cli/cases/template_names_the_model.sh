# An error of a chat template names the file that holds it, whichever command meets it.
LC_ALL=C sed 's/{% for message/{% fur message/' $TINY/llama.gguf >syntax.gguf
LC_ALL=C sed "s/message\['content'\]/message\['conte'].x/" $TINY/llama.gguf >missing.gguf
echo '[{"role":"user","content":"x"}]' >m
for f in syntax.gguf missing.gguf; do
    cmp -s $f $TINY/llama.gguf && echo "$f is not damaged"
    hasten template $f <m; echo $?
    hasten run $f -p x; echo $?
done
