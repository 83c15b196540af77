# What is said of schemas and expressions that a grammar cannot keep, before a model is looked at.
run() { hasten run no-such-model -p x "$@"; echo $?; }
echo '{"properties": {"a": {"type": "array", "items": {"not": {}}}}}' >not.json
echo '{"type": "object"' >cut.json
run --json-schema not.json
run --json-schema cut.json
run --json-schema none.json
run --json-schema '{"type": "object"}'
run --json-schema-text '{"type": "strin"}'
run --json-schema-text '{"$ref": "https://example.org/x"}'
run --json-schema-text '{"type": "array", "uniqueItems": true}'
run --json-schema-text '{"type": "string", "pattern": "(?=a)b"}'
run --json-schema-text '{"$defs": {"A": {"type": "object", "properties": {"a": {"$ref": "#/$defs/A"}}, "required": ["a"]}}, "$ref": "#/$defs/A"}'
run --regex '(a)\1'
run --regex 'a{3'
run --regex '[z-a]'
run --regex a --json-schema not.json
echo x | hasten run no-such-model --json-schema -; echo $?
