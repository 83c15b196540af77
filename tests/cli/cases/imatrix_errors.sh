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
try $M -f text -o ''
try missing -f text -o ''
try $M -f text -o no/such/out.gguf
try $TINY/vocab.gguf -f text -o out.gguf
hasten imatrix $M -f text -o a.gguf
try a.gguf -f text -o out.gguf
hasten quantize a.gguf out.gguf Q8_0
echo $?
hasten quantize $TINY/gemma3.gguf g.gguf Q4_0 --imatrix a.gguf
echo $?
# a file that was damaged: the entry and the index are named
python3 - <<'PYTHON'
import struct
good = open("a.gguf", "rb").read()
for name, at, value in (("count", -32, float("nan")), ("sum", -64, -1.0), ("infinite", -60, float("inf")), ("zero", -64, 0.0)):
    data = bytearray(good)
    end = len(data) + at
    data[end:end + 4] = struct.pack("<f", value)
    open(name, "wb").write(data)
PYTHON
for f in count sum infinite zero; do
    hasten quantize $M q.gguf Q4_0 --imatrix $f
    echo "$f $?"
    rm -f q.gguf
done
rm -f count sum infinite zero
cmp in.gguf $M && cat out.gguf text && ls
