# Every TYPE on a tiny model: what becomes of its tensors, and that the result runs.
M=$TINY/llama.gguf
show() {
    python3 -c '
import json, sys
v = json.loads(sys.stdin.read())
print(v["type"], v["bytes"], round(v["bits_per_weight"], 2), round(v["relative_error"], 3), v["tensors"], v["fallbacks"])'
}
for type in F32 F16 BF16 Q8_0 Q6_K Q5_0 q5_1 Q5_K_S Q5_K_M Q4_0 Q4_1 Q4_K_S Q4_K_M Q3_K_S Q3_K_M Q3_K_L Q2_K Q4_K; do
    hasten quantize $M out.gguf $type --json | show
    hasten run out.gguf --raw -p abc -n 4 --temp 0 >text || echo "$type does not run"
    test -s text || echo "$type says nothing"
done
hasten quantize $M out.gguf Q4_0 --pure --json | show
hasten quantize $M out.gguf Q8_0 --tensor 'blk.?.ffn_*=Q5_1' --tensor 'blk.1.ffn_up.weight=F16' --json | show
hasten info out.gguf --tensors | grep -c 'ffn.*Q5_1'
hasten info out.gguf --json | python3 -c '
import json, sys
keys = json.load(sys.stdin)["keys"]
print(keys["general.file_type"], keys["general.quantization_version"], keys["general.architecture"])'
ls
