# The command line beats the environment: by the option itself, or by one that excludes it. What is beaten is not read.
echo 'from the file' >f
M=$TINY/llama.gguf
export HASTEN_N_PREDICT=6 HASTEN_SEED=1 HASTEN_RAW=1 HASTEN_REFERENCE=1 HASTEN_JSON=1
hasten run $M -p hi | sed 's/"timings.*//' >a
HASTEN_FILE=f hasten run $M -p hi | sed 's/"timings.*//' | cmp - a && echo prompt beats file
HASTEN_TURNS=t hasten run $M -p hi | sed 's/"timings.*//' | cmp - a && echo prompt beats turns
hasten run $M -f f | sed 's/"timings.*//' >b
HASTEN_PROMPT=hi hasten run $M -f f | sed 's/"timings.*//' | cmp - b && echo file beats prompt
HASTEN_TEMP=abc hasten run $M -p hi --temp 0.5 >out; echo "bad value beaten: $?"
HASTEN_TEMP=abc hasten run $M -p hi; echo $?
HASTEN_SYSTEM=s hasten run $M -p hi --raw | sed 's/"timings.*//' | cmp - a && echo raw beats system
HASTEN_QUIET=1 hasten run $M -p hi -v 2>&1 >out | grep -c opened
HASTEN_PROMPT=a HASTEN_FILE=f hasten run $M; echo $?
HASTEN_STOP=x HASTEN_LOGIT_BIAS=junk hasten run $M -p hi --logit-bias 5=1 >out; echo "list beaten: $?"
HASTEN_LOGPROBS=2 HASTEN_JSON=0 hasten run $M -p hi >out; echo "without effect: $?"
HASTEN_IDS=nothing hasten eval $M --ppl f --json >out; echo "ppl beats ids: $?"
HASTEN_CPU=avx51 hasten run $M -p hi; echo $?
HASTEN_CPU=avx51 hasten doctor; echo $?
HASTEN_CPU= hasten tokenize $M -p hi >out; echo "empty HASTEN_CPU: $?"
HASTEN_STOP= hasten run $M -p hi; echo $?
# Combinations that no table says: one type for keys and values, a list or names, a system prompt nothing holds.
HASTEN_CACHE_TYPE=f32 hasten run $M -p hi -ctv f16 >out; echo "-ctv beats -ctk: $?"
HASTEN_CACHE_TYPE_V=f32 hasten run $M -p hi -ctk f16 >out; echo "-ctk beats -ctv: $?"
HASTEN_CACHE_TYPE=f16 HASTEN_CACHE_TYPE_V=f32 hasten run $M -p hi; echo $?
HASTEN_LIST=1 hasten pull nothing; echo $?
HASTEN_LIST=1 HASTEN_JSON=0 hasten pull | wc -l
LC_ALL=C sed 's/tokenizer.chat_template/tokenizer.chat_tampleta/' $M >plain.gguf
HASTEN_RAW=0 HASTEN_SYSTEM=s hasten run plain.gguf -p hi | sed 's/"timings.*//' | cmp - a && echo no template: system ignored
HASTEN_RAW=0 HASTEN_SYSTEM=s hasten run $M -p hi | sed 's/"timings.*//' >c
HASTEN_RAW=0 hasten run $M -p hi -sys s | sed 's/"timings.*//' | cmp - c && echo template: system taken
echo '[{"role":"user","content":"hi"}]' >m.json
hasten template $M <m.json >c
HASTEN_TOOLS=- hasten template $M <m.json | cmp - c && echo messages beat tools
HASTEN_TOOLS=- HASTEN_FILE=- hasten template $M <m.json; echo $?
