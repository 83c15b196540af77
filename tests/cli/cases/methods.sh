# The list and the page of methods; what is wrong with a method is said before anything runs.
hasten methods --json | tr ',' '\n' | grep -c '"stage"' >/dev/null && echo listed
hasten methods window
hasten methods windo
hasten run $TINY/qwen2.gguf --raw -p a -n 1 --attend windw
hasten run $TINY/qwen2.gguf --raw -p a -n 1 --attend window:recnt=5
hasten run $TINY/qwen2.gguf --raw -p a -n 1 --attend window:recent=0.5x
hasten run $TINY/qwen2.gguf --raw -p a -n 1 --attend window:layers=0-9999
hasten run $TINY/qwen2.gguf --raw -p a -n 1 --attend window:sink=1,sink=2
hasten run $TINY/qwen2.gguf --raw -p a -n 1 --attend window --attend window:recent=8
hasten run $TINY/qwen2.gguf --raw -p x -n 1 --attend window:layers=0-900
hasten run $TINY/qwen2.gguf --raw -p "a b c d" -n 6 --temp 0 -q >plain.txt
hasten run $TINY/qwen2.gguf --raw -p "a b c d" -n 6 --temp 0 -q --attend window:recent=all | cmp - plain.txt && echo neutral
hasten bench $TINY/qwen2.gguf -p 16 -n 4 -d 100 -r 2 --no-limits --attend quest:budget=16,layers=all --cache stream:keep=40 -q --json | python3 -c '
import json, sys
r = json.load(sys.stdin)["with"]
print(len(r["methods"]), r["decode"]["ratio"]["median"] > 0, 0 < r["decode"]["attend"]["pages_read"] <= r["decode"]["attend"]["pages_all"])'
# Receipts of this machine are shown; what is none is left out.
mkdir -p data/hasten/receipts
export XDG_DATA_HOME=$PWD/data
cat >data/hasten/receipts/a.json <<'END'
{"schema": 1, "method": "attend window:recent=8", "model": "tiny", "date": "2026-01-02",
 "gain": {"decode": {"ratio": {"median": 1.25, "lo": 1.1, "hi": 1.5}}},
 "damage": {"kl": {"value": 0.125}, "top1_agreement": {"value": 0.875}}}
END
echo '{"schema": 1' >data/hasten/receipts/b.json
echo '[]' >data/hasten/receipts/c.json
hasten methods window | tail -3
hasten methods window --json | python3 -c 'import json, sys; print(len(json.load(sys.stdin)["receipts"]))'
hasten methods quest --json | python3 -c 'import json, sys; print(len(json.load(sys.stdin)["receipts"]))'
