# Every type of keys and values runs; q8_0 is q8, for keys, for values, for both; other mixtures are refused.
for t in f16 f32 bf16 q8 q8_0; do
    hasten run $TINY/qwen2.gguf -p "a b c" --raw -n 4 --temp 0 -q -ctk $t >$t.txt || echo "$t: exit status $?"
done
cmp q8.txt q8_0.txt
hasten run $TINY/qwen2.gguf -p "a b c" --raw -n 4 --temp 0 -q -ctk q8 -ctv q8_0 | cmp - q8.txt
hasten run $TINY/qwen2.gguf -p x -n 1 -q -ctk q8 -ctv f16
echo "q8 and f16: exit status $?"
