# --json gives JSON wherever it is taken.
M=$TINY/llama.gguf
hasten tokenize $M -p hello >ids
hasten detokenize $M --json <ids
echo '[{"role":"user","content":"x"}]' | hasten template $M --json
hasten pull --list --json | python3 -c '
import json, sys
for m in json.load(sys.stdin):
    print(sorted(m), m["name"])'
