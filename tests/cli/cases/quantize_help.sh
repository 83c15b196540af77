# What a reader of --help must find: the formats of --tensor, which pattern wins, what the short types mean.
hasten quantize --help >help
for f in F32 F16 BF16 Q8_0 Q6_K Q5_K Q5_0 Q5_1 Q4_K Q4_0 Q4_1 Q3_K Q2_K; do
    grep -A1 'FORMAT of --tensor' help | sed 's/.*FORMAT of/FORMAT of/' | grep -qw "$f" || echo "$f is not listed"
    hasten quantize $TINY/gemma3.gguf out.gguf F32 --tensor "*=$f" || echo "$f is not taken"
done
grep -o 'several patterns that match a matrix the last wins' help
grep -o 'Q3_K, Q4_K and Q5_K mean Q3_K_M, Q4_K_M and Q5_K_M' help
