# --logits - prints the table on stderr, and -q nothing; the JSON that was asked for stays.
echo 'the water is cold' >f
M="$TINY/llama.gguf --ppl f --reference"
hasten eval $M --logits - 2>err >rows; echo $?
grep -c ppl err
hasten eval $M --logits - -q >quiet; echo $?
cmp rows quiet && echo same rows
hasten eval $M --logits - -q --json 2>err >quiet; echo $?
grep -c '"ppl"' err
cmp rows quiet && echo same rows
hasten eval $M -q | grep -c ppl
