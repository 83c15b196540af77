# HASTEN_PROFILE is kept for a file of options: bench does not take it for its --profile, whatever it says.
for value in x 1 /nowhere; do
    HASTEN_PROFILE=$value hasten bench $TINY/llama.gguf -p 4 -n 2 -r 1 -t 1 --no-limits | sed 's/,.*//; s/  .*//; s/after.*//; s/^TINY.*//' | tail -n 3
done
hasten bench $TINY/llama.gguf --profile -p 4 -n 2 -r 1 | grep -c 'chunk\|token,'
