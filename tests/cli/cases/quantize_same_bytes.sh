# Threads do not show; a model in its own formats is copied; the input may be the output of before; silence.
M=$TINY/qwen2.gguf
for t in 1 2 3 8; do hasten quantize $M t$t.gguf Q4_K_M -t $t && cmp t1.gguf t$t.gguf && echo same; done
# nor do they, or the instructions, in the errors reported, to the last digit
for type in Q8_0 Q4_0 Q5_1 Q2_K; do
    for cpu in plain ''; do
        for t in 1 2 5; do
            HASTEN_CPU=$cpu hasten quantize $M e.gguf $type -t $t --json >said || echo "$type does not work"
            python3 -c '
import json
v = json.load(open("said"))
print(v["rms_error"], v["relative_error"])'
        done
    done | sort -u | wc -l
done
rm e.gguf said
hasten quantize t1.gguf again.gguf Q4_K_M && cmp t1.gguf again.gguf && echo copied
hasten quantize $M t1.gguf Q8_0 -v 2>notes && grep -c 'error 0' notes
hasten quantize $M t1.gguf Q4_K_M -q && cmp t1.gguf t2.gguf && echo replaced
hasten quantize $M f32.gguf F32 && hasten quantize f32.gguf f16.gguf F16 && hasten quantize f16.gguf back.gguf F32
hasten quantize f32.gguf b.gguf BF16 && hasten quantize b.gguf b32.gguf F32 && hasten quantize b32.gguf b2.gguf BF16
cmp b.gguf b2.gguf && echo exact
ls
