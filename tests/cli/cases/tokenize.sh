for m in llama qwen2 gemma3 vocab; do
    printf 'hello <|im_end|> world' | hasten tokenize $TINY/$m.gguf
    printf 'hello <|im_end|> world' | hasten tokenize $TINY/$m.gguf --special
    printf 'hello' | hasten tokenize $TINY/$m.gguf --no-bos
    printf '' | hasten tokenize $TINY/$m.gguf
done
