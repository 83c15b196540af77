# A prompt's keys and values in a file: found again by a longer prompt, never with another answer; refused where it does
# not fit, and when it is damaged.
run() { hasten run "$TINY/llama.gguf" --raw -n 4 -s 1 --ignore-eos --json "$@"; }
show() { python3 -c '
import json, sys
v = json.load(sys.stdin)
print(*sys.argv[1:], v["timings"]["cached_n"], "cached,", v["timings"]["prompt_n"], "read, tokens", *v["tokens"])' "$@"; }
run -p "the river runs past the old mill" | show without
run -p "the river runs past the old mill" --prompt-cache p.seq | show first
run -p "the river runs past the old mill" --prompt-cache p.seq | show again
run -p "the river runs past the old mill and the town" --prompt-cache p.seq --prompt-cache-ro | show longer
run -p "the river runs past the old mill and the town" | show without
run -p "the river" --prompt-cache none.seq --prompt-cache-ro | show read-only
ls none.seq 2>/dev/null
run -p "the river runs past the old mill" --prompt-cache all.seq --prompt-cache-all | show all
hasten check all.seq | sed 's/all.seq, [0-9]* bytes/all.seq/; s/, [0-9a-f]\{32\}$/, HASH/'
hasten check --json p.seq | python3 -c '
import json, sys
v = json.load(sys.stdin)["snapshot"]
print(sorted(v), v["tokens"], v["made_by"]["kv"])'
hasten run "$TINY/qwen2.gguf" --raw -p x -n 1 --prompt-cache p.seq
echo $?
hasten run "$TINY/llama.gguf" --raw -p x -n 1 --prompt-cache p.seq -ctk q8
echo $?
hasten run "$TINY/llama.gguf" --raw -p x -n 1 --prompt-cache p.seq --attend window
echo $?
python3 -c '
data = bytearray(open("p.seq", "rb").read())
data[len(data) // 2] ^= 4
open("bad.seq", "wb").write(data)'
hasten run "$TINY/llama.gguf" --raw -p x -n 1 --prompt-cache bad.seq
echo $?
hasten check bad.seq
echo $?
hasten run "$TINY/llama.gguf" --raw -p x -n 1 --prompt-cache-all
echo $?
hasten run "$TINY/llama.gguf" --raw -p x -n 1 -s 1 --prompt-cache no/such/folder.seq >/dev/null
echo $?
