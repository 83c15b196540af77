# Which candidate fits, and whether that is certain: a permuted menu gives permuted scores; exit status 1 for "no".
M=$TINY/llama.gguf
printf 'open the door\nclose the window\n\nread a book\n' >menu
echo '["read a book", "close the window", "open the door"]' >menu.json
hasten decide $M --menu menu -p "please open the door" >a.json; echo $?
hasten decide $M --menu menu.json -p "please open the door" >b.json; echo $?
python3 - <<'END'
import json
a, b = (json.load(open(f)) for f in ("a.json", "b.json"))
by_text = [{c["text"]: (c["score"], c["prob"]) for c in r["candidates"]} for r in (a, b)]
print(by_text[0] == by_text[1], a["text"] == b["text"], a["best"] + b["best"] == 2, a["certain"], sorted(a))
print(abs(sum(c["prob"] for c in a["candidates"]) - 1) < 1e-6, all(-1 <= c["score"] <= 1 for c in a["candidates"]))
END
hasten decide $M --menu menu -p "please open the door" --margin 2 >/dev/null; echo $?
printf 'please open the door' | hasten decide $M --menu menu | cmp - a.json
printf 'please open the door' >text
hasten decide $M --menu menu --state text | cmp - a.json
hasten decide $M --menu menu -p x --decide pool:temperature=0.01,centre=off >/dev/null; echo $?
hasten decide $M -p x; echo $?
echo one >one
hasten decide $M --menu one -p x; echo $?
echo '["a", 1]' >bad.json
hasten decide $M --menu bad.json -p x; echo $?
hasten decide $M --menu menu -p x --decide poool; echo $?
hasten decide $M --menu menu -p x --decide pool:temprature=1; echo $?
hasten decide $M --menu - </dev/null; echo $?
