# A number has no blanks around it, on either side.
for v in ' 1' '1 ' '	1' '1
' ''; do
    for o in top-k temp seed memory threads top-p; do
        hasten run $TINY/llama.gguf -p x -n 1 --$o "$v" >/dev/null 2>err
        [ $? -eq 2 ] && grep -q expected err || echo "--$o '$v'"
    done
    hasten run $TINY/llama.gguf -p x -n 1 --logit-bias "5=$v" >/dev/null 2>err
    [ $? -eq 2 ] || echo "--logit-bias '5=$v'"
    hasten run $TINY/llama.gguf -p x -n 1 --logit-bias "${v}5=1" >/dev/null 2>err
    [ $? -eq 2 ] || [ "$v" = '' ] || echo "--logit-bias '${v}5=1'"
done
