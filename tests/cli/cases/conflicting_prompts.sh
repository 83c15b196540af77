# At most one of each set of options that exclude each other, and only one model.
echo hi >f
M=$TINY/llama.gguf
hasten run $M -p a -f f; echo $?
hasten run $M -f f --turns f; echo $?
hasten run $M -p a --raw -sys s; echo $?
hasten run -m $M $M -p a; echo $?
hasten tokenize -m $M $M -p a; echo $?
hasten template -m $M $M; echo $?
hasten tokenize $M -p a -f f; echo $?
hasten run $M -p a -q -v; echo $?
hasten run $M -p a -n 1 --quiet=no -v 2>/dev/null >&2; echo $?
hasten run $M -p a --logprobs 2; echo $?
hasten run $M -p a -ctk f16 -ctv f32; echo $?
hasten pull --list smollm2; echo $?
