# Damage against the plain engine: nothing for nothing, something for another cache; what does not go together.
printf 'the water is cold and the people are not here %.0s' 1 2 3 4 5 6 >f
M="$TINY/llama.gguf --ppl f -c 32"
hasten eval $M --damage | grep -e ^variant -e KL -e flips -e 'd*log'
hasten eval $M --damage -ctk q8 | grep -e ^variant -e ^against -e ^scored
hasten eval $M --damage --lora $TINY/lora.gguf --json | grep -c '"variant": *\["lora='
hasten eval $M --against $TINY/qwen2.gguf | grep -c '^against .*qwen2'
hasten eval $M --damage --prefix 32; echo $?
hasten eval $M --damage --rows 65; echo $?
hasten eval $M --damage --logits out; echo $?
hasten eval $M --damage -ctk q8 --memory 1M; echo $?
hasten eval $TINY/llama.gguf --damage; echo $?
