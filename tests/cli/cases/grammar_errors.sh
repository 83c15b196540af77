# What is said of a grammar that is none, before a model is looked at; and of a vocabulary that cannot go on.
printf 'else "a"\n' >rules
printf 'root ::= "yes" |\n  (item\n' >open.gbnf
printf 'root ::= item\n' >undefined.gbnf
printf 'root ::= !<think> .*\n' >token.gbnf
for f in open.gbnf undefined.gbnf token.gbnf none.gbnf; do
    hasten run no-such-model -p x --grammar $f; echo $?
done
hasten run no-such-model -p x --grammar-text 'root ::= [z-a]'; echo $?
hasten run no-such-model -p x --grammar 'root ::= "a"'; echo $?
hasten run no-such-model -p x --grammar open.gbnf --grammar-text 'root ::= "a"'; echo $?
echo x | hasten run no-such-model --grammar -; echo $?
hasten run no-such-model -p x --grammr open.gbnf; echo $?
run() { hasten run script:rules -p x -s 1 --temp 0 --grammar-text 'root ::= "ab" "cd"' "$@"; echo " $?"; }
run --logit-bias 99=-inf
run --logit-bias 99=-inf --json | sed 's/"seed.*//'
run --logit-bias 97=-inf
