hasten run nothing.gguf -p x
echo $?
hasten run smollm2 -p x
echo $?
hasten run smolm2 -p x; echo $?
hasten info qwen0.5b; echo $?
hasten run minilmm -p x; echo $?
hasten pull minilmm; echo $?
