# --p is no option: letters stand after one dash. Longer spellings of an option stand after two.
M=$TINY/llama.gguf
hasten run $M --p hi; echo $?
hasten run $M -p hi --n 3; echo $?
hasten run $M -p hi --n=3; echo $?
hasten run $M -p hi --sys x; echo $?
hasten eval $M --ppl f --ctk f32; echo $?
HASTEN_P=hi HASTEN_N=junk hasten run $M -p hi -n 1 --raw >out; echo "letters are no variables: $?"
hasten run $M -p hi -n 1 --raw --ctx-size 64 >out; echo $?
# A value that looks like a letter with two dashes is a value.
hasten run $M -p --n -n 1 --raw >out; echo $?
