# A prompt larger than the context is refused; an answer that fills it ends with "length".
hasten run $TINY/llama.gguf -p 'one two three four five six seven eight nine ten' --raw -c 8
echo $?
hasten run $TINY/llama.gguf -p 'one' --raw -c 8 --ignore-eos --json -s 1 >out.json
python3 -c "
import json
r = json.load(open('out.json'))
print(r['finish_reason'], r['timings']['prompt_n'] + r['timings']['predicted_n'])"
