# A sound file; the same with a NaN in a norm; a file cut short; no file.
field() { hasten info --json --tensors "$TINY/llama.gguf" | python3 -c '
import json, sys
info = json.load(sys.stdin)
print(next(t for t in info["tensors"] if t["name"] == sys.argv[1])["offset"])' "$1"; }
data() { python3 -c '
import json, subprocess, sys
# where tensor data begins: the file ends with the last tensor, padded to 32 bytes
info = json.loads(subprocess.run(["hasten", "info", "--json", "--tensors", sys.argv[1]], capture_output=True).stdout)
end = max(t["offset"] + t["bytes"] for t in info["tensors"])
print(info["file_bytes"] - (end + 31) // 32 * 32)' "$TINY/llama.gguf"; }
hasten check "$TINY/llama.gguf" | sed 's/^file .*llama.gguf/file llama.gguf/; s/^sha256 *[0-9a-f]*$/hashed/'
hasten check --json "$TINY/llama.gguf" | python3 -c '
import hashlib, json, sys
v = json.load(sys.stdin)
print(v["files"][0]["sha256"] == hashlib.sha256(open(v["files"][0]["path"], "rb").read()).hexdigest(), v["non_finite"])'
cp "$TINY/llama.gguf" bad.gguf
at=$(($(data) + $(field blk.1.attn_norm.weight) + 4 * 5))
printf '\000\000\300\177' | dd of=bad.gguf bs=1 seek=$at conv=notrunc 2>/dev/null
hasten check --no-hash bad.gguf
echo $?
hasten check --json -q bad.gguf 2>/dev/null | python3 -c 'import json, sys; print(json.load(sys.stdin)["non_finite"])'
head -c 100000 "$TINY/llama.gguf" >cut.gguf
hasten check cut.gguf
echo $?
hasten check
echo $?
hasten check --json nothing.gguf
