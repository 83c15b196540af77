# HASTEN_CPU names a set of this architecture, or no command starts: another would bound nothing, or everything.
case $(uname -m) in
    x86_64) foreign=neon ;;
    *) foreign=avx2 ;;
esac
for c in "run $TINY/llama.gguf -p hi" "tokenize $TINY/llama.gguf" "info $TINY/llama.gguf" doctor "bench --roofline" "pull --list"; do
    for value in $foreign AVX2 junk; do
        HASTEN_CPU=$value hasten $c </dev/null 2>err
        echo "$? $(sed "s/'$foreign'/foreign/; s/ (.*//" err)"
    done
done
HASTEN_CPU=plain hasten tokenize $TINY/llama.gguf </dev/null
HASTEN_CPU=$foreign hasten doctor --help | head -n 1
