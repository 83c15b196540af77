# Importance on a text, and quantising with it; threads and batches do not show.
M=$TINY/llama.gguf
yes 'the quick brown fox jumps over the lazy dog' | head -n 40 >text
show() { python3 -c '
import json, sys
v = json.loads(sys.stdin.read())
for k in ("kernels", "ms", "threads", "rms_error"):
    v.pop(k, None)
v.pop("relative_error", None)
print(v)'; }
hasten imatrix $M -f text -o a.gguf -c 64 --json | show
hasten imatrix $M -f - -o b.gguf -c 64 -t 3 -b 7 <text && python3 - <<'PYTHON'
a, b = open("a.gguf", "rb").read(), open("b.gguf", "rb").read()
print("same sums", a[-2000:] == b[-2000:] and b"stdin" in b)
PYTHON
hasten imatrix $M -f text -o h.gguf -c 64 --head --limit-tokens 64 --json | show
hasten info a.gguf --json | python3 -c '
import json, sys
v = json.load(sys.stdin)
print(v["n_tensors"], {k: x for k, x in v["keys"].items()})'
hasten quantize $M out.gguf Q4_0 --imatrix a.gguf --json | show
hasten quantize $M out.gguf Q4_0 --imatrix h.gguf -v 2>&1 | grep -v ' error '
hasten info out.gguf --json | python3 -c '
import json, sys
print({k: v for k, v in json.load(sys.stdin)["keys"].items() if k.startswith("quantize.")})'
hasten run out.gguf --raw -p abc -n 4 --temp 0 >said && test -s said && echo runs
