# "-" is stdin or stdout wherever a file is expected; it never becomes a file of that name.
M=$TINY/llama.gguf
echo 'the water is cold and the people are not here' >f
hasten eval $M --ppl f --logits rows --json | sed 's/"ms".*//' >a
hasten eval $M --ppl - --logits - --json <f 2>err >rows2
cmp rows rows2 && sed 's/"ms".*//' err | cmp - a && echo json
hasten eval $M --ppl f --logits - 2>err | cmp - rows && grep -c ppl err
hasten tokenize $M -f f >ids
hasten tokenize $M -f - <f | cmp - ids && echo ids
hasten eval $M --ids - --logits rows3 <ids >/dev/null && cmp rows rows3 && echo ids of eval
hasten detokenize $M -f - <ids | cmp - f && echo detokenize
echo '["one"]' | hasten run $M --turns - -n 2 | grep -c '"text"'
echo '[{"role":"user","content":"x"}]' >m
echo '[]' | hasten template $M -f m --tools - | grep -c im_start
hasten template $M --tools - <m; echo $?
hasten eval $M --ppl f --logits - 2>err >/dev/full; cat err
echo '{' | hasten eval $M --ids -; echo $?
echo '{' | hasten run $M --turns -; echo $?
ls
