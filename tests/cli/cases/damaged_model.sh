echo "this is no model" >bad.gguf
for c in run tokenize detokenize template info 'eval --ppl bad.gguf' bench; do
    hasten $c bad.gguf </dev/null 2>err.txt
    echo "$c $?"
done
head -c 5000 $TINY/llama.gguf >cut.gguf
hasten run cut.gguf -p x
