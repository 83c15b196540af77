# Adapters: at strength 0 nothing changes, else something does; on the command line, in the environment, in a profile.
M=$TINY/llama.gguf A=$TINY/lora.gguf
say() { hasten run $M --raw -p x -n 16 --temp 0 "$@"; }
say >plain
say --lora $A:0 | cmp - plain && echo 0 is none
say --lora $A >full
cmp -s plain full || echo 1 is not
say --lora $A:1 | cmp - full && echo 1 is the default
say --lora-scaled $A:1.0 | cmp - full && echo --lora-scaled
HASTEN_LORA=$A say | cmp - full && echo HASTEN_LORA
printf 'lora: [%s]\n' "$A" >p
say --profile p | cmp - full && echo a profile
say --lora $A:0.5 --lora $A:-0.5 | cmp - plain && echo one and its opposite
cp $A a:b.gguf
say --lora a:b.gguf | cmp - full && echo a colon in the name
echo some words >f
hasten eval $M --ppl f -c 16 --json | grep -o '"ppl":[0-9.]*' >p1
hasten eval $M --ppl f -c 16 --json --lora $A | grep -o '"ppl":[0-9.]*' >p2
cmp -s p1 p2 || echo eval
hasten embed $M --pooling mean -p x >e1
hasten embed $M --pooling mean -p x --lora $A:0 | cmp - e1 && echo embed
hasten embed $M --pooling mean -p x --lora $A | cmp -s - e1 || echo embed with one
hasten info $M --json | grep -o '"total_bytes":[0-9]*' >t1
hasten info $M --json --lora $A | grep -o '"total_bytes":[0-9]*' >t2
cmp -s t1 t2 || echo info
