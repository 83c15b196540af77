# -p, -f FILE, -f - and plain stdin give the same answer.
echo 'the water is' >f
for how in 1 2 3 4; do
    set -- $TINY/llama.gguf --raw --reference --temp 0 -n 8 --seed 1 --json
    case $how in
    1) hasten run "$@" -p "$(cat f)
" ;;
    2) hasten run "$@" -f f ;;
    3) hasten run "$@" -f - <f ;;
    4) hasten run "$@" <f ;;
    esac | sed 's/"timings":{[^}]*}//'
done
