# --json-schema and --regex: only documents that a schema validates, only texts that an expression matches whole.
printf 'after "<|im_start|>assistant\\n": "maybe" eos\n' >rules
M=script:rules
run() { hasten run $M -p x -s 1 "$@"; echo " $?"; }
cat >user.json <<'END'
{"$defs": {"Role": {"enum": ["admin", "guest"], "type": "string"}},
 "type": "object", "title": "User",
 "properties": {"role": {"$ref": "#/$defs/Role"}, "age": {"type": "integer", "minimum": 18, "maximum": 99}},
 "required": ["role", "age"], "additionalProperties": false}
END
for seed in 1 2 3 4; do
    hasten run $M -p x -s $seed --temp 5 --top-k 0 --top-p 1 --min-p 0 --json-schema user.json |
        tr -d ' \t\n' | grep -cE '^\{"role":"(admin|guest)","age":(1[89]|[2-9][0-9])\}$'
done
run --temp 0 --json-schema-text '{"const": {"a": [1, "b", null]}}' | tr -d ' \t\n'; echo
run --temp 0 --json-schema-text '{"type": "string", "format": "date"}' | grep -cE '^"[0-9]{4}-[0-9]{2}-[0-9]{2}" 0$'
run --temp 0 --json-schema - <<'END'
{"enum": ["yes"]}
END
run --temp 0 --regex 'yes|no'
run --temp 0 --regex '^\d{3}-(a|b)$' | grep -cE '^[0-9]{3}-[ab] 0$'
HASTEN_JSON_SCHEMA_TEXT='{"type":"null"}' hasten run $M -p x -s 1 --temp 0; echo
# a grammar that names a token of the vocabulary
hasten run $M -p x -s 1 --temp 0 --grammar-text 'root ::= "a" <[98]> "c"'; echo
