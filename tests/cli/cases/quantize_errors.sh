# Whatever is wrong: one line, the documented exit status, the old output untouched and nothing beside it.
M=$TINY/llama.gguf
echo old >out.gguf
try() { hasten quantize "$@"; echo "$?"; }
try
try $M
try $M out.gguf
try $M out.gguf Q4_K_M more
try $M out.gguf Q7_0
try $M out.gguf Q4_K_N
try $M out.gguf gibberish
try missing.gguf out.gguf Q8_0
cp $M in.gguf
ln in.gguf hard.gguf
ln -s in.gguf soft.gguf
try in.gguf in.gguf Q8_0
try in.gguf hard.gguf Q8_0
try soft.gguf ./in.gguf Q8_0
mkdir folder
try $M folder Q8_0
try $M - Q8_0
try $M /dev/null Q8_0
try $M '' Q8_0
try missing.gguf '' Q8_0
try $M no/such/out.gguf Q8_0
try $M out.gguf Q8_0 --tensor blk
try $M out.gguf Q8_0 --tensor =Q4_0
try $M out.gguf Q8_0 --tensor 'blk.*=Q4_9'
try $M out.gguf Q8_0 --tensor 'nothing*=Q4_0'
try $M out.gguf Q8_0 --imatrix missing
try $M out.gguf Q8_0 --imatrix $M
try $M out.gguf Q8_0 --imatrix $CASES/quantize_errors.sh
try $TINY/vocab.gguf out.gguf Q8_0
head -c 4000 $M >cut.gguf
try cut.gguf out.gguf Q8_0
cmp $M in.gguf && cat out.gguf && ls
hasten quantize $TINY/llama.gguf out.gguf tq1_0
hasten quantize $TINY/llama.gguf out.gguf TQ1_1
true
