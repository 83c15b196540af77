# A scripted model (docs/scripted.md) is a MODEL like any other.
cat >rules.txt <<'RULES'
# An assistant that knows one thing.
if "weather" after "<|im_start|>assistant\n": "It rains." eos
after "<|im_start|>assistant\n": "I do not know." eos
after "endless": "and " "on"
else "."
RULES
hasten run script:rules.txt -p 'How is the weather?'
echo
hasten run script:rules.txt -p 'Who are you?' --json -s 1 | grep -o '"finish_reason":"[a-z]*"'
hasten run script:rules.txt --raw -p endless -n 10
echo
hasten run script:rules.txt --raw -p 'no rule' -n 5 --stop ....
echo
hasten run script:hash=7,length=12 -p hi --temp 0 >a.txt
hasten run script:hash=7,length=12 -p hi --temp 0 -b 3 -t 2 -ctk q8 >b.txt
cmp a.txt b.txt && test -s a.txt && echo same
printf 'A b' | hasten tokenize script:hash=1
echo '[72,105]' | hasten detokenize script:hash=1
echo
echo '[{"role":"user","content":"hi"}]' | hasten template script:hash=1 --add-generation-prompt
hasten run script:hash=1,size=3 -p x
echo $?
echo 'when 5' >bad.txt
hasten run script:bad.txt -p x
echo $?
hasten bench script:hash=1 -p 8 -n 1
echo $?
hasten imatrix script:hash=1 -f rules.txt -o out.imatrix
echo $?
