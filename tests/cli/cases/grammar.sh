# --grammar: only what a grammar says is written, and it composes with the rest of the law.
printf 'after "<|im_start|>assistant\\n": "maybe" eos\n' >rules
printf 'root ::= "yes" | "no" # nothing else\n' >g.gbnf
M=script:rules
run() { hasten run $M -p x -s 1 "$@"; echo " $?"; }
run --temp 0
run --temp 0 --grammar g.gbnf
run --temp 0 --grammar-file=g.gbnf
run --temp 0 --grammar - <g.gbnf
run --temp 0 --grammar-text 'root ::= "may" "be"?'
run --temp 0 --grammar g.gbnf --logit-bias 110=-inf
run --temp 0 --grammar g.gbnf --stop o
run --temp 0 --grammar g.gbnf -n 1
run --temp 0 --grammar g.gbnf --ignore-eos
run --temp 0 --grammar-text 'root ::= "ab"+' --ignore-eos -n 7
run --temp 0 --grammar-text 'root ::= ""'
for o in '--mirostat 1' '--mirostat 2' '--temp 5' '--top-k 1' '--min-p 1 --repeat-penalty 1.5' '--xtc-probability 1'; do
    hasten run $M -p x -s 1 $o --grammar g.gbnf | grep -cE '^(yes|no)$'
done
json() { hasten run $M -p x -s 1 --temp 0 --json "$@" | sed 's/"timings".*//'; }
json --grammar g.gbnf
json --grammar g.gbnf --logprobs 0 | sed 's/,"seed.*//'
HASTEN_GRAMMAR=g.gbnf json | sed 's/,"seed.*//'
echo '["a", "b"]' >turns
hasten run $M --turns turns -s 1 --temp 0 --grammar g.gbnf | sed 's/,"tokens.*//'
# a model with weights, its own tokens
hasten run $TINY/llama.gguf --raw -p x -s 3 --grammar-text 'root ::= [a-z]{3} "\n" [^a-z]{2}' | tr '\n' _ | grep -cE '^[a-z]{3}_[^a-z]{2}$'
hasten run $TINY/gemma3.gguf --raw -p x -s 3 --grammar-text 'root ::= "{\"a\": " [0-9]+ "}"' -n 30 | grep -cE '^{"a": [0-9]+}?$'
