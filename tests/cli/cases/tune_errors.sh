# What is wrong with a workload, its halves or the output is said before anything is measured.
hasten tune; echo "exit $?"
hasten tune $TINY/llama.gguf; echo "exit $?"
hasten tune $TINY/llama.gguf --workload cod; echo "exit $?"
hasten tune $TINY/llama.gguf --workload code --half old; echo "exit $?"
hasten tune $TINY/llama.gguf --workload code --max-kl -1; echo "exit $?"
hasten tune $TINY/llama.gguf --workload code --budget soon; echo "exit $?"
hasten tune $TINY/llama.gguf --workload code -o no/such/folder/p.yaml; echo "exit $?"
printf 'no items\n' >w.txt
hasten tune $TINY/llama.gguf --workload w.txt; echo "exit $?"
printf '%%%% item a all tune 5\n%%%% user\nx\n%%%% reader\ny\n' >w.txt
hasten bench $TINY/llama.gguf --workload w.txt; echo "exit $?"
printf '%%%% item a all held 5\n%%%% user\nx\n' >w.txt
hasten tune $TINY/llama.gguf --workload w.txt; echo "exit $?"
hasten bench $TINY/llama.gguf --half edit; echo "exit $?"
hasten bench $TINY/llama.gguf --workload code -d 100; echo "exit $?"
hasten bench $TINY/llama.gguf --draft lookup --batch 4; echo "exit $?"
hasten bench $TINY/llama.gguf --draft lookup -n 0; echo "exit $?"
hasten bench $TINY/llama.gguf --draft lookp; echo "exit $?"
hasten eval $TINY/llama.gguf --ppl w.txt --draft lookup; echo "exit $?"
