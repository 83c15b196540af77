# Values out of range are exit 2 and say what was expected.
for o in --typical=0 --typical=1.5 --typical=nan --xtc-probability=-0.1 --xtc-probability=2 --xtc-threshold=1.1 \
    --dry-multiplier=-1 --dry-base=0.5 --dry-base=inf --dry-allowed-length=0 --dry-penalty-last-n=-2 --mirostat=3 \
    --mirostat=x --mirostat-tau=0 --mirostat-eta=1.5; do
    hasten run $TINY/llama.gguf -p x -n 1 $o
    [ $? -eq 2 ] || echo "$o: exit status $?"
done
hasten run $TINY/llama.gguf -p x -n 1 --dry-multiplier 1 --dry-sequence-breaker ''
[ $? -eq 2 ] || echo "an empty breaker: exit status $?"
