# A file of options: precedence, lists, the section of a command, options of other commands, the variable.
cat >mine.yaml <<'END'
# two answers, always the same
n_predict: 3
seed: 7
temp: 0.5
stop: [one, "two words"]
stride: 8
run:
  temp: 0
eval:
  ctx-size: 32
END
value() {
    hasten config "$@" | sed -n 's/^  --\(temp\|stop\|n-predict\|ctx-size\|seed\|prompt\)  */\1 /p'
}
value run --profile mine.yaml -s 9
HASTEN_TEMP=0.25 HASTEN_PROFILE=mine.yaml value run
HASTEN_PROFILE=mine.yaml value eval
hasten run $TINY/llama.gguf --reference --profile mine.yaml -p x --json | grep -o '"seed":7'
printf 'prompt: a\n' >prompt.yaml
HASTEN_FILE=b value run --profile prompt.yaml # the environment excludes the profile's -p
: >empty.yaml
hasten config run --profile empty.yaml | grep -c " profile " || true
