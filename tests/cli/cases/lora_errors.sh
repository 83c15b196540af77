M=$TINY/llama.gguf A=$TINY/lora.gguf
for o in missing.gguf missing.gguf:2 :2 '' $A:nan $A:1e99 $A:x $M $TINY/vocab.gguf:0.5; do
    hasten run $M --raw -p x -n 2 --lora "$o"; echo $?
done
hasten run $TINY/qwen2.gguf --raw -p x -n 2 --lora $A; echo $?
hasten eval $M --ids f --lora $A:nan; echo $?
hasten info $M --lora $TINY/qwen2.gguf; echo $?
hasten bench --roofline --lora $A; echo $?
hasten run $M --raw -p x -n 2 --lora; echo $?
