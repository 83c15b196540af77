# Not a terminal: no notes, no colour, no newline of ours; -v explains on stderr.
hasten run $TINY/gemma3.gguf -p hello --raw --reference --temp 0 -n 4 2>err.txt | od -c | head -n 3
cat err.txt
