# Every option with its value and where it came from; without a command, all commands.
some() {
    grep -v '^ .*--\(json\|quiet\|verbose\|profile\|prompt\|file\|raw\|turns\|n-predict\|seed\|min-p\|stop\|.*penalty\|.*last.*\) ' |
        sed -n '/^run/p;/--\(threads\|memory\|cache-type\|temp\|top-[kp]\|logit-bias\|logprobs\|reference\) /p'
}
HASTEN_TOP_K=5 HASTEN_TOPP=1 hasten config run -t 2 --memory 4G --logit-bias 3=1 --no-such
HASTEN_TOP_K=5 HASTEN_TOPP=1 hasten config run -t 2 --memory 4G --logit-bias 3=1 -ctk q8_0 | some
HASTEN_TOPP=1 hasten config run --json -q | head -c 80
echo
hasten config --json | tr '{' '\n' | grep -c '"source":"default"' | awk '{ print ($1 > 100) }'
hasten config | grep -c '^[a-z]' >a
hasten help --json | tr '{' '\n' | grep -c '"synopsis"' | cmp - a
hasten config rnu
echo $?
HASTEN_SEED=x hasten config run
hasten config run --temp 99e99
echo $?
