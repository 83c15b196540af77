hasten run nothing.gguf -p x
echo $?
hasten run smollm2 -p x
