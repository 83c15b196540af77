# Bad JSON, or JSON of the wrong shape, in an input file: 3, and the message names the file.
M=$TINY/llama.gguf
echo '[{"role":"user","content":"x"}]' >good
for bad in '{' '{"a":1}' '"x"' '[1,{}]' '["x",""]' '[null]' 'null'; do
    echo "$bad" >bad
    hasten detokenize $M -f bad; echo $?
    hasten eval $M --ids bad; echo $?
    hasten run $M --turns bad -n 1 >out; echo $?
    hasten template $M -f bad; echo $?
    hasten template $M -f good --tools bad; echo $?
done
