# Options that people know from llama.cpp: those that make sense today work, the others say that they are not there.
M=$TINY/llama.gguf
for o in -hf --cache-ram=x; do
    hasten run $M -p x $o x; echo $?
done
hasten run $M --raw -p x -n 2 --temp 0 -b 3 >a
hasten run $M --raw -p x -n 2 --temp 0 -ub 3 | cmp - a && echo ub
hasten run $M --raw -p x -n 2 --temp 0 -ctk f32 >a
hasten run $M --raw -p x -n 2 --temp 0 -ctk f32 -ctv f32 | cmp - a && echo ctv
hasten run $M -p x --zzz; echo $?
hasten run $M -p x --tmp 1; echo $?
hasten run $M -p x --sedd 1; echo $?
