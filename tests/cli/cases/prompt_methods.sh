# Methods around a prompt: vectors before it, a shorter one, a grammar by name, a head of some tokens.
M=$TINY/qwen2.gguf
run() { hasten run $M --raw -p "the river and the sea and the mountain" -n 12 --temp 0 -q "$@"; echo " $?"; }
run >plain
run --context selective:ratio=1 | cmp - plain
run --weights head:first=16777216 | cmp - plain
printf 'root ::= "{" [0-9]+ "}"\n' >g.gbnf
run --grammar g.gbnf >with_grammar
for s in gbnf:file=g.gbnf gbnf:file=g.gbnf,head=full gbnf:file=g.gbnf,engine=scan; do
    run --sample $s | cmp - with_grammar && echo "$s: the same"
done
run --sample gbnf:file=g.gbnf --grammar g.gbnf
run --sample gbnf
run --sample gbnf:file=missing.gbnf
run --sample gbnf:file=g.gbnf --stop-when same
hasten run $M --raw -p "the river and the sea and the mountain" -n 2 --temp 0 --json -s 1 --context selective:ratio=0.5,last=2 |
    python3 -c 'import json, sys; r = json.load(sys.stdin); t = r["timings"]; print(t["dropped_n"] > 0, t["prompt_n"] > 2, r["methods"])'
hasten eval $M --ppl plain --context selective; echo $?
hasten bench $M --sample gbnf:file=g.gbnf; echo $?
run --weights head
run --weights head:ids=missing
echo '[1, 2, 99999999]' >ids
run --weights head:ids=ids
: >empty
run --weights head:text=empty
run --cache h2o:keep=64
run --prompt-cache ''
echo '[40, 41, 42]' >ids
hasten run $M --raw -p x -n 8 --temp 0 --json -s 1 --weights head:ids=ids |
    python3 -c 'import json, sys; r = json.load(sys.stdin); print(r["head_tokens"] < 200, r["methods"])'
python3 -c 'import struct; open("v.f32", "wb").write(struct.pack("<128f", *[i / 128 for i in range(128)]))'
hasten run $M --raw -p x -n 2 --temp 0 --json -s 1 --modality raw:file=v.f32 |
    python3 -c 'import json, sys; r = json.load(sys.stdin); print(r["timings"]["prompt_n"], len(r["tokens"]), r["methods"])'
run --modality raw
run --modality raw:file=g.gbnf
run --modality raw:file=$M,tensor=none
run --modality raw:file=v.f32 --cache stream
