# However the file is read, the answer is the same.
M=$TINY/llama.gguf
hasten run $M --raw -p x -n 8 --temp 0 >a
hasten run $M --raw -p x -n 8 --temp 0 --no-mmap >b
hasten run $M --raw -p x -n 8 --temp 0 --mlock >c
HASTEN_NO_MMAP=1 HASTEN_MLOCK=1 hasten run $M --raw -p x -n 8 --temp 0 -t 1 -v >d 2>log
for f in b c d; do cmp a $f; done
grep -c 'kernels .*, 1 thread, context' log
