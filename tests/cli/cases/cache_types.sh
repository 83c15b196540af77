# Every type of keys and values runs; q8_0 is q8, q4_0 is q4, for keys, for values, for both; other mixtures are refused.
# `--cache q8` is the same.
for t in f16 f32 bf16 q8 q8_0 q4 q4_0; do
    hasten run $TINY/qwen2.gguf -p "a b c" --raw -n 4 --temp 0 -q -ctk $t >$t.txt || echo "$t: exit status $?"
done
cmp q8.txt q8_0.txt
hasten run $TINY/qwen2.gguf -p "a b c" --raw -n 4 --temp 0 -q -ctk q8 -ctv q8_0 | cmp - q8.txt
hasten run $TINY/qwen2.gguf -p x -n 1 -q -ctk q8 -ctv f16
echo "q8 and f16: exit status $?"
cmp q4.txt q4_0.txt
for t in f16 q8 q4; do
    hasten run $TINY/qwen2.gguf -p "a b c" --raw -n 4 --temp 0 -q --cache $t | cmp - $t.txt
    hasten run $TINY/qwen2.gguf -p "a b c" --raw -n 4 --temp 0 -q --cache $t -ctk $t | cmp - $t.txt
done
hasten run $TINY/qwen2.gguf -p x -n 1 --raw -q --cache q8 --cache stream:keep=40 >/dev/null || echo "with stream: exit status $?"
hasten run $TINY/qwen2.gguf -p x -n 1 -q --cache q8 -ctk q4; echo $?
hasten run $TINY/qwen2.gguf -p x -n 1 -q --cache q8 -ctk f16; echo $?
hasten run $TINY/qwen2.gguf -p x -n 1 -q --cache q8 --cache q4; echo $?
