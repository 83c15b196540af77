# Every bad value is exit 2, names the option, the value and what was expected.
for o in --temp=-1 --temp=nan --temp=x --top-k=-2 --top-k=1.5 --top-p=0 --top-p=2 --min-p=1.5 --repeat-penalty=0 \
    --n-predict=-2 --seed=-1 --seed=9223372036854775808 --threads=99999 --ctx-size=-1 --batch-size=0 --memory=lots \
    --memory=-1 --cache-type=q5 --logprobs=65 --logit-bias=5 --logit-bias=x=1 --logit-bias=5=nan --logit-bias=99999=1 \
    --presence-penalty=inf --json=maybe; do
    hasten run $TINY/llama.gguf -p x -n 1 $o
    [ $? -eq 2 ] || echo "$o: exit status $?"
done
