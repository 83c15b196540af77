# Sequences that are kept: on disk for later runs, in memory between the turns of a conversation; the same answers.
run() { hasten run "$TINY/llama.gguf" --raw -n 4 -s 1 --ignore-eos --json "$@"; }
show() { python3 -c '
import json, sys
for line in sys.stdin:
    v = json.loads(line)
    print(*sys.argv[1:], v["timings"]["cached_n"], "cached, tokens", *v["tokens"])' "$@"; }
long=$(python3 -c 'print("the river runs past the old mill and the town by the sea " * 20)')
run -p "$long one" | show without
run -p "$long one" --store apc:dir=kept | show first
run -p "$long two" --store apc:dir=kept | show second
run -p "$long two" | show without
ls kept | sed 's/^[0-9a-f]\{32\}/HASH/' | sort -u
hasten check --store kept | sed 's/records      [0-9]*,.*/records/'
for f in kept/*.seq; do python3 -c '
import sys
data = bytearray(open(sys.argv[1], "rb").read())
data[len(data) - 30] ^= 4
open(sys.argv[1], "wb").write(data)' "$f"; done
run -p "$long one" --store apc:dir=kept | show damaged
rm -r kept
run -p "$long one" --store apc:dir=kept | show anew
echo garbage >kept/index.sqlite
run -p "$long one" --store apc:dir=kept | show without-index
run -p "$long one" --store apc:dir=kept --attend window:recent=50,phase=both | show other-methods
echo stray >kept/notes.txt
for f in kept/*.seq; do head -c 2000 "$f" >cut; cp cut "$f"; break; done
hasten check --store kept --json | python3 -c 'import json, sys; v = json.load(sys.stdin)["store"]; print(v["damaged"], v["foreign"])'
hasten check --store kept | sed 's/records      [0-9]*,.*/records/'
echo '["tell me", "more"]' >turns.json
hasten run "$TINY/llama.gguf" -n 4 -s 1 --ignore-eos --turns turns.json --store apc:min=1 | show turns
hasten run "$TINY/llama.gguf" -n 4 -s 1 --ignore-eos --turns turns.json | show turns
run -p x --store apc:slots=0
echo $?
run -p x --store apc:dir=/dev/null/x
echo $?
hasten check --store nothing
echo $?
mkdir other
hasten check --store other
echo $? $(ls other)
hasten check --store kept x
echo $?
