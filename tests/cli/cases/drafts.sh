# Drafts change no text; methods that stop do; what is wrong with either is said before anything runs.
M=$TINY/qwen2.gguf
hasten run $M --raw -p "a b a b a b a b" -n 20 --temp 1 -s 4 --json >plain.json
for d in lookup adversary:gamma=3 oracle:ids=plain.json; do
    hasten run $M --raw -p "a b a b a b a b" -n 20 --temp 1 -s 4 --json --draft $d --draft verify:ctl=off >drafted.json
    python3 - "$d" <<'END'
import json, sys
plain, drafted = (json.load(open(f)) for f in ("plain.json", "drafted.json"))
t = drafted["timings"]
print(sys.argv[1], all(plain[k] == drafted[k] for k in ("text", "tokens", "finish_reason")), len(drafted["methods"]),
      t["drafted_n"] > 0, t["passes"] + t["accepted_n"] == 19, "oracle" not in sys.argv[1] or t["passes"] == 4)
END
done
printf 'after "Q:": "<think>abcdef</think>Long." eos\nafter "</think>\\n\\n": "Short." eos\n' >thinks.txt
hasten run script:thinks.txt --raw -p Q: -q; echo
hasten run script:thinks.txt --raw -p Q: -q --stop-when 'budget:max=3,open=<think>,close=</think>' --draft lookup; echo
hasten run script:thinks.txt --raw -p Q: -q --stop-when same:n=1,every=sentence; echo
hasten run $M --raw -p a -n 1 --draft lokup
hasten run $M --raw -p a -n 1 --draft lookup:min=4
hasten run $M --raw -p a -n 1 --draft lookup:gamma=65
hasten run $M --raw -p a -n 1 --draft lookup --draft adversary
hasten run $M --raw -p a -n 1 --draft verify:mode=mach
hasten run $M --raw -p a -n 1 --draft oracle
hasten run $M --raw -p a -n 1 --draft oracle:ids=thinks.txt
hasten run $M --raw -p a -n 1 --stop-when budget
hasten run $M --raw -p a -n 1 --stop-when bugdet
hasten run $M --raw -p a -n 1 --draft same
hasten methods budget | head -3
printf 'root ::= "[" item ("," item)* "]"\nitem ::= "alpha" | "beta" [0-9]+\n' >list.gbnf
hasten run $M --raw -p "a b" -n 40 --temp 1 -s 4 --grammar list.gbnf --json | python3 -c 'import json, sys; print(json.load(sys.stdin)["tokens"])' >plain.txt
for d in lookup adversary; do
    hasten run $M --raw -p "a b" -n 40 --temp 1 -s 4 --grammar list.gbnf --json --draft $d --draft verify:ctl=off | python3 -c 'import json, sys; print(json.load(sys.stdin)["tokens"])' | cmp - plain.txt && echo "$d: the same under a grammar"
done
hasten run script:thinks.txt --raw -p Q: --grammar list.gbnf --stop-when same; echo $?
