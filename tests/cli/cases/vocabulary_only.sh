# A file without tensors is good for text, and says why it cannot be run.
hasten info $TINY/vocab.gguf | grep memory
hasten run $TINY/vocab.gguf -p x
