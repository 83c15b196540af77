# Modes of bench that exclude each other, and values that mean nothing: exit 2 before anything is measured.
run() {
    hasten bench "$@"
    echo $?
}
run --roofline smollm2
run --kernels -m smollm2
run --roofline --kernels
run --kernels --type q9_k
run --type q4_k $TINY/llama.gguf
run $TINY/llama.gguf --batch 4,
run $TINY/llama.gguf --batch 0
run $TINY/llama.gguf --batch 4x16
run $TINY/llama.gguf --batch 1,2,3,4,5,6,7,8,9
run $TINY/llama.gguf -d 500 -p 20 -n 4 -c 510
run $TINY/llama.gguf --breakdown -p 600 -b 64
run $TINY/llama.gguf -r 0
run --roofline -p 5
run --roofline -ctk f16
run --kernels --repeat 2
run --kernels -c 100
run $TINY/llama.gguf --breakdown --batch 2
run $TINY/llama.gguf --breakdown --no-limits
run $TINY/llama.gguf --batch 1,2,2
run $TINY/llama.gguf -p 0 -n 0
run $TINY/llama.gguf --breakdown -p 0 -n 0
run $TINY/llama.gguf -n 0 --batch 2
run $TINY/llama.gguf --rate 2
run --serve localhost:8642
run --serve http://localhost:8642 --streams 1,0
run --serve http://localhost:8642 -d 100
run --serve http://localhost:8642 --roofline
