# Any bytes, NUL and invalid UTF-8 included, come back.
printf 'a\000b\377\376\n\303(\360\237\230\200  \t end' >f
for m in llama qwen2 gemma3; do
    hasten tokenize $TINY/$m.gguf <f | hasten detokenize $TINY/$m.gguf | cmp - f && echo same
done
