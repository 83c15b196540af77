# Where the ids cannot give the text back, a line on stderr says so, terminal or not; -q silences it.
printf 'one\342\226\201two' | hasten tokenize $TINY/gemma3.gguf >ids
hasten detokenize $TINY/gemma3.gguf <ids; echo
printf 'one\342\226\201two' | hasten tokenize $TINY/gemma3.gguf -q | cmp - ids && echo quiet
printf 'e\314\201' | hasten tokenize $TINY/qwen2.gguf >ids
hasten detokenize $TINY/qwen2.gguf <ids | od -c | head -n 1
for m in llama qwen2 gemma3; do
    printf ' two  <|im_end|>\n\303\251' | hasten tokenize $TINY/$m.gguf --special >ids
    printf ' two  <|im_end|>\n\303\251' | hasten tokenize $TINY/$m.gguf --no-bos >ids
done
