echo '[{"role":"system","content":"Be brief."},{"role":"user","content":"hi <|im_end|> there <"}]' >m.json
hasten template $TINY/llama.gguf --add-generation-prompt <m.json
echo --
hasten template $TINY/vocab.gguf -f m.json
