# _ equals -, = or a space, one dash or two, HASTEN_<OPTION> in the environment; the command line wins.
run() { hasten run $TINY/llama.gguf -p hi --raw --reference --seed 3 "$@"; echo; }
run --n-predict 3
run --n_predict=3
run -n 3
HASTEN_N_PREDICT=3 run
HASTEN_N_PREDICT=9 run -n 3
HASTEN_MODEL=$TINY/llama.gguf hasten run -p hi --raw --reference --seed 3 -n 3
echo
hasten run -m $TINY/llama.gguf -p hi --raw --reference --seed 3 -n 3
