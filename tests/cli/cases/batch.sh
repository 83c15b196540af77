# A file of requests: answers in order, bad lines as errors, whatever runs together; going on where a run ended.
line() {
    printf '{"custom_id":"%s","method":"POST","url":"/v1/%s","body":%s}\n' "$1" "$2" "$3"
}
{
    for i in 1 2 3 4 5 6; do
        line a$i chat/completions '{"messages":[{"role":"system","content":"You are brief, and '$((i % 2))'."},{"role":"user","content":"Number '$i'"}],"max_tokens":'$((i * 3))',"temperature":0.9}'
    done
    echo '{"custom_id":"cut'
    echo
    line b1 completions '{"prompt":"Once","max_tokens":5,"temperature":0}'
    line b2 completions '{"prompt":"Once","max_tokens":5,"temperature":-1}'
    line b3 nothing '{}'
    line b4 completions '{"prompt":"Once","stream":true}'
    echo '{"url":"/v1/completions","body":{}}'
    line b5 embeddings '{"input":"Once"}'
} > batch.in
M=script:hash=5,length=40
hasten batch $M -i batch.in -o batch.out --alias m
echo "$?"
sed 's/"hasten-[0-9.]*-[a-z0-9]*"/FINGERPRINT/' batch.out
hasten batch $M --alias m -np 1 < batch.in | cmp - batch.out && echo alone the same
head -c 1500 batch.out > batch.part # ends within a line
hasten batch $M --alias m -i batch.in -o batch.part --resume -np 3
cmp batch.out batch.part && echo the same file
hasten batch $M --alias m -i batch.in -o batch.part --resume
echo "$?"
sed 's/"a2"/"a9"/' batch.in > other.in
hasten batch $M --alias m -i other.in -o batch.part --resume
echo "$?"
hasten batch $M --resume < batch.in
echo "$?"
