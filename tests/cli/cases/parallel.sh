# Many answers at once: bench --parallel, its options, and the methods of the stage schedule.
run() {
    hasten bench "$@"
    echo $?
}
hasten bench $TINY/llama.gguf --parallel 1,3 -p 20 -n 8 -r 2 --draft lookup --schedule sjf:age=10 --json |
    grep -oE '"(streams|n_prompt|n_gen|requests_per_stream)": ?[0-9]+'
hasten bench $TINY/llama.gguf --parallel 2 -p 20 -n 8 -r 1 --itl-target 50ms | grep -o 'prompts of.*'
run $TINY/llama.gguf --parallel 0
run $TINY/llama.gguf --parallel 2,x
run $TINY/llama.gguf --parallel 2 -n 0
run $TINY/llama.gguf --parallel 2 --batch 4
run $TINY/llama.gguf --parallel 2 --breakdown
run $TINY/llama.gguf --itl-target 1s
run $TINY/llama.gguf --schedule sjf
run $TINY/llama.gguf --parallel 2 --schedule sfj
run $TINY/llama.gguf --parallel 2 --schedule sjf:age=0
run $TINY/llama.gguf --parallel 2 --schedule sjf --schedule fcfs
run $TINY/llama.gguf --parallel 2 -p 500 -n 20 -c 510
hasten methods fcfs
hasten methods sjf
