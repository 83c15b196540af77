# Tasks on a scripted model: the table, what is missing, the sandbox named when it cannot be had.
printf 'after "<|im_start|>assistant\\n": "so it is #### 8" eos\n' >rules
printf '{"question": "2 * 4?", "answer": "#### 8"}\n{"question": "2 * 5?", "answer": "#### 10"}\n' >gsm8k.jsonl
hasten eval script:rules --task gsm8k --data gsm8k.jsonl -t 1 | grep -v engine
hasten eval script:rules --task gsm8k --data gsm8k.jsonl --log log -q >/dev/null; wc -l <log
hasten eval script:rules --task gsm8k --data gsm8k.jsonl --log log | grep -c '; 2 items from log'
hasten eval script:rules --task gsm8k --data gsm8k.jsonl --json >a; hasten eval --compare a a; echo $?
hasten eval script:rules --task gsm8k; echo $?
hasten eval script:rules --task nedle; echo $?
hasten eval script:rules --task humaneval --python ./none --data f; echo $?
hasten eval --compare a; echo $?
hasten eval script:rules a; echo $?
