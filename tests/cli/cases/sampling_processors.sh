# Typical, XTC, DRY and mirostat: each changes the answer, and none of it depends on threads or batches.
run() {
    hasten run $TINY/llama.gguf --reference -s 11 -n 14 --ignore-eos --temp 1.2 --top-k 0 --top-p 1 --min-p 0 -p "a b a b a" --json "$@" |
        sed 's/.*"tokens":\(\[[^]]*\]\).*/\1/'
}
for o in "--typical 1" "--typical 0.3" "--xtc-probability 1 --xtc-threshold 0.01" "--mirostat 1 --mirostat-tau 2" \
    "--mirostat 2 --mirostat-tau 2 --mirostat-eta 0.5" "--logit-bias 35=60 --logit-bias 36=60" \
    "--logit-bias 35=60 --logit-bias 36=60 --dry-multiplier 5 --dry-base 3 --dry-allowed-length 1" \
    "--logit-bias 35=60 --logit-bias 36=60 --dry-multiplier 5 --dry-penalty-last-n 3 --dry-sequence-breaker none"; do
    run $o >first
    run $o -t 2 -b 1 >second
    run $o -t 1 -b 3 --cache-type f32 >third
    cmp first second && cmp first third
    echo "$o: $(cat first)"
done
