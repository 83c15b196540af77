# A weight that is not a number: the tensor and the index are named, whether the tensor is encoded or copied.
hasten quantize $TINY/llama.gguf f32.gguf F32
python3 - <<'PYTHON'
import struct
data = bytearray(open("f32.gguf", "rb").read())
data[-4:] = struct.pack("<f", float("nan"))
open("nan.gguf", "wb").write(data)
PYTHON
echo old >out.gguf
for type in F32 F16 Q8_0 Q4_K_M; do hasten quantize nan.gguf out.gguf $type; echo $?; done
cat out.gguf; ls
