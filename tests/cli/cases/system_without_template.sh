# A system prompt that nothing would hold is an error, not dropped: a model without a chat template.
LC_ALL=C sed 's/tokenizer.chat_template/tokenizer.chat_tampleta/' $TINY/llama.gguf >plain.gguf
hasten run plain.gguf -p x -sys 'Be brief.'; echo $?
hasten run plain.gguf -p x -sys '' -n 1 >out; echo $?
hasten run plain.gguf -p x -n 1 -v >out 2>err; echo $?
grep template err
