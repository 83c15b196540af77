M=$TINY/llama.gguf
echo old >out.gguf
try() { hasten imatrix "$@"; echo "$?"; }
try
try $M
try $M -f text
try $M -f missing -o out.gguf
: >empty
try $M -f empty -o out.gguf
echo hello >text
try $M -f text -o text
cp $M in.gguf
try in.gguf -f text -o in.gguf
mkdir folder
try $M -f text -o folder
try $M -f text -o -
try $M -f text -o no/such/out.gguf
try $TINY/vocab.gguf -f text -o out.gguf
hasten imatrix $M -f text -o a.gguf
try a.gguf -f text -o out.gguf
hasten quantize $TINY/gemma3.gguf g.gguf Q4_0 --imatrix a.gguf
echo $?
cmp in.gguf $M && cat out.gguf text && ls
