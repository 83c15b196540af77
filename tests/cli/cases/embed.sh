printf 'a\nbb\n' | hasten embed $TINY/llama.gguf --pooling last --json | sed 's/\[.*\]/[...]/'
hasten embed $TINY/llama.gguf -p a --pooling mean | tr -cd ',' | wc -c
hasten embed $TINY/llama.gguf -p a; echo $?
hasten embed $TINY/llama.gguf -p a --pooling max; echo $?
hasten embed $TINY/llama.gguf -p a -f b --pooling mean; echo $?
printf 'a\n\nb\n' | hasten embed $TINY/gemma3.gguf --pooling mean | wc -l
printf 'a\n\nb\n' | hasten embed $TINY/llama.gguf --pooling mean; echo $?
hasten embed $TINY/llama.gguf -f missing.txt --pooling mean; echo $?
mkdir folder; hasten info folder; echo $?
echo '{"architectures": ["FalconForCausalLM"]}' > folder/config.json
hasten info folder; echo $?
touch folder/model.safetensors
hasten info folder; echo $?
hasten embed $TINY/llama-00001-of-00002.gguf -p a; echo $?
