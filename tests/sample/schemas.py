"""JSON Schemas in the manner of pydantic and of the OpenAI and Anthropic clients, for test_schema.py: documents that fit
and that do not, schemas that are refused, regular expressions. Texts are JSON as it is written, so that white space and
order count."""


def obj(properties, required=None, **more):
    s = {"type": "object", "properties": properties}
    if required is not None:
        s["required"] = required
    return {**s, **more}


STRING, INTEGER, NUMBER, BOOLEAN, NULL = ({"type": t} for t in ("string", "integer", "number", "boolean", "null"))

# name: (schema, texts that fit, texts that do not)
SCHEMAS = {
    "user": (
        obj({"name": {"title": "Name", "type": "string"}, "age": {"type": "integer", "minimum": 0, "maximum": 120},
             "email": {"anyOf": [{"type": "string", "format": "email"}, {"type": "null"}], "default": None}},
            ["name", "age"], title="User", description="Somebody"),
        ['{"name":"a","age":3}', '{"name": "a", "age": 120, "email": null}', '{\n  "name": "",\n  "age": 0,\n  "email": "a.b@c.de"\n}'],
        ['{"age":3,"name":"a"}', '{"name":"a"}', '{"name":"a","age":121}', '{"name":"a","age":3,"x":1}', '{"name":"a","age":3,"email":"x"}',
         '{"name":"a","age":03}', '{"name":"a","age":-1}', '{"name":"a","age":3,}']),
    "empty": ({}, ['1', '"a"', '{"a":[1,{}]}', 'null', '-0.5e3', '[]', '{ }'], ['', '{"a"}', '[1,]', '01', 'nul', '"\n"', '{a:1}']),
    "true": (True, ['1'], ['x']),
    "strings": (STRING, ['""', '"a"', '"\\n\\u00e9\\\\"', '"é"', '"\\ud83d\\ude00"'], ['a', '"', '"\\x"', '"\\ud83d"', '"\\u12"']),
    "integers": (INTEGER, ['0', '-5', '123456789'], ['1.0', '01', '+1', '1e3', '']),
    "numbers": (NUMBER, ['0', '-5.25', '1e3', '0.5E-2'], ['.5', '1.', '01']),
    "booleans": (BOOLEAN, ['true', 'false'], ['True', '1']),
    "null": (NULL, ['null'], ['None']),
    "several types": ({"type": ["string", "null", "integer"]}, ['"a"', 'null', '3'], ['true', '3.5', '[]']),
    "nullable": ({"type": "string", "nullable": True}, ['"a"', 'null'], ['3']),
    "enum": ({"enum": ["red", "green", 3, None, {"a": [1]}]}, ['"red"', '3', 'null', '{"a":[1]}', '{ "a": [ 1 ] }'], ['"blue"', '4', '{}']),
    "enum of a type": ({"type": "string", "enum": ["a", 1, "b\"\n"]}, ['"a"', '"b\\"\\n"'], ['1', '"b"']),
    "const": ({"const": "cat"}, ['"cat"'], ['"ca"', '"cats"']),
    "const number": ({"const": 0.1}, ['0.1'], ['0.10000000000000001', '1']),
    "no members": (obj({}, additionalProperties=False), ['{}', '{ }'], ['{"a":1}']),
    "optional only": (obj({"a": INTEGER, "b": INTEGER, "c": INTEGER}),
                      ['{}', '{"a":1}', '{"b":1}', '{"c":1}', '{"a":1,"b":2}', '{"a":1,"c":2}', '{"b":1,"c":2}', '{"a":1,"b":2,"c":3}'],
                      ['{"b":1,"a":2}', '{,"a":1}', '{"a":1,}', '{"a":1"b":2}', '{"a":1,"a":2}', '{"d":1}']),
    "optional before required": (obj({"a": INTEGER, "b": INTEGER, "c": INTEGER, "d": INTEGER}, ["c"]),
                                 ['{"c":1}', '{"a":1,"c":2}', '{"b":1,"c":2,"d":3}', '{"a":1,"b":2,"c":3,"d":4}'],
                                 ['{}', '{"a":1,"b":2}', '{"d":1}', '{"c":1,"b":2}', '{"a":1,"d":1}']),
    "open object": (obj({"ab": INTEGER, "ac": INTEGER}, ["ab"], additionalProperties=STRING),
                    ['{"ab":1}', '{"ab":1,"x":"y"}', '{"ab":1,"ac":2,"a":"", "abc":"z", "":"e"}', '{"ab":1,"b":"c"}'],
                    ['{"ab":1,"ac":"x"}', '{"ab":1,"x":2}', '{"x":"y"}', '{"ab":1,"ab":"x"}', '{"ab":1,"a\\u0063":"x"}']),
    "any more": (obj({"a": INTEGER}, additionalProperties=True), ['{}', '{"a":1,"b":[{}]}', '{"b":null}'], ['{"a":"x"}', '{"b":1,"a":2}']),
    "map": ({"type": "object", "additionalProperties": INTEGER}, ['{}', '{"a":1,"b":2}'], ['{"a":"x"}', '{"a":1,}']),
    "bare object": ({"type": "object"}, ['{}', '{"a":[1]}'], ['[]']),
    "map of enum": ({"type": "object", "propertyNames": {"enum": ["a", "b"]}, "additionalProperties": INTEGER},
                    ['{}', '{"a":1}', '{"b":1,"a":2}'], ['{"c":1}']),
    "map with pattern": ({"type": "object", "patternProperties": {"^x-": STRING}, "additionalProperties": False},
                         ['{}', '{"x-a":"b"}'], ['{"a":"b"}', '{"x-a":1}']),
    "some members": ({"type": "object", "additionalProperties": INTEGER, "minProperties": 1, "maxProperties": 2},
                     ['{"a":1}', '{"a":1,"b":2}'], ['{}', '{"a":1,"b":2,"c":3}']),
    "at least one": (obj({"a": INTEGER, "b": INTEGER}, minProperties=1), ['{"a":1}', '{"b":1}', '{"a":1,"b":2}'], ['{}']),
    "at most one": (obj({"a": INTEGER, "b": INTEGER}, ["b"], maxProperties=1), ['{"b":1}'], ['{}', '{"a":1,"b":2}']),
    "required unnamed": ({"type": "object", "required": ["x"]}, ['{"x":1}', '{"x":[],"y":2}'], ['{}', '{"y":1}', '{"x":1,"x":2}']),
    "strange names": (obj({"a\"b": INTEGER, "c\\d": INTEGER, "é\n": INTEGER, "": INTEGER}, ["a\"b", "c\\d", "é\n", ""]),
                      ['{"a\\"b":1,"c\\\\d":2,"é\\n":3,"":4}'], ['{"a":1}']),
    "list": ({"type": "array", "items": INTEGER}, ['[]', '[1]', '[1, 2,3]', '[ 1 ]', '[\n  1,\n  2\n]'], ['[1,]', '["a"]', '[1 2]']),
    "bare list": ({"type": "array"}, ['[]', '[1,"a",[]]'], ['{}']),
    "bounded list": ({"type": "array", "items": STRING, "minItems": 2, "maxItems": 3}, ['["a","b"]', '["a","b","c"]'],
                     ['["a"]', '["a","b","c","d"]', '[]']),
    "one or two": ({"type": "array", "items": BOOLEAN, "minItems": 1, "maxItems": 2}, ['[true]', '[true,false]'], ['[]', '[true,true,true]']),
    "none": ({"type": "array", "items": BOOLEAN, "maxItems": 0}, ['[]', '[ ]'], ['[true]']),
    "tuple": ({"type": "array", "prefixItems": [INTEGER, STRING], "minItems": 2, "maxItems": 2}, ['[1,"a"]'], ['[1]', '[1,"a",2]', '["a",1]']),
    "tuple that may be short": ({"type": "array", "prefixItems": [INTEGER, STRING]}, ['[]', '[1]', '[1,"a"]'], ['[1,"a",2]', '["a"]']),
    "tuple with rest": ({"type": "array", "prefixItems": [INTEGER], "items": STRING, "minItems": 2}, ['[1,"a"]', '[1,"a","b"]'], ['[1]', '[1,2]']),
    "tuple of old": ({"type": "array", "items": [INTEGER, STRING], "additionalItems": False}, ['[1,"a"]'], ['[1,"a",2]']),
    "length": ({"type": "string", "minLength": 2, "maxLength": 4}, ['"ab"', '"abcd"', '"\\n\\u00e9"', '"éé"', '"\\ud83d\\ude00x"'],
               ['"a"', '"abcde"', '""']),
    "at least": ({"type": "string", "minLength": 1}, ['"a"', '"abc"'], ['""']),
    "pattern": ({"type": "string", "pattern": "^[A-Z]{2}-\\d{3,4}$"}, ['"AB-123"', '"AB-1234"'], ['"AB-12"', '"xAB-123"', '"AB-12345"']),
    "pattern anywhere": ({"type": "string", "pattern": "b+"}, ['"b"', '"abc"', '"\\nbb\\""'], ['"a"', '""']),
    "pattern of quotes": ({"type": "string", "pattern": "^[\"\\\\/\\n]+$"}, ['"\\"\\\\/\\n"'], ['"a"', '"\\/"']),
    "pattern and length": ({"type": "string", "pattern": "^[a-z]+$", "minLength": 2, "maxLength": 3}, ['"ab"', '"abc"'], ['"a"', '"abcd"']),
    "pattern and length, counted": ({"type": "string", "pattern": "^[a-z]+(-[a-z]+)*$", "minLength": 3, "maxLength": 5},
                                    ['"abc"', '"a-b"', '"a-b-c"', '"ab-cd"'], ['"ab"', '"a-b-cd"', '"a--b"', '"-ab"']),
    "pattern anywhere, counted": ({"type": "string", "pattern": "x", "maxLength": 3}, ['"x"', '"axb"'], ['"axbc"', '"ab"']),
    "pattern counted up": ({"type": "string", "pattern": "^(ab|c)*$", "minLength": 3}, ['"abc"', '"ccc"', '"abab"'], ['"ab"', '"cc"', '"aab"']),
    "date": ({"type": "string", "format": "date"}, ['"2024-02-29"', '"1999-12-31"'], ['"2023-02-29"', '"2024-13-01"', '"2024-04-31"', '"24-01-01"']),
    "time": ({"type": "string", "format": "time"}, ['"23:59:59Z"', '"00:00:00.5+01:00"'], ['"24:00:00Z"', '"12:00"']),
    "date-time": ({"type": "string", "format": "date-time"}, ['"2024-02-29T12:00:00Z"'], ['"2024-02-29 12:00:00Z"', '"2024-02-29"']),
    "duration": ({"type": "string", "format": "duration"}, ['"P1D"', '"PT1H30M"', '"P1Y2M3DT4H5M6S"', '"P2W"'], ['"P"', '"1D"', '"PT"']),
    "uuid": ({"type": "string", "format": "uuid"}, ['"123e4567-e89b-12d3-a456-426614174000"'], ['"123e4567e89b12d3a456426614174000"']),
    "email": ({"type": "string", "format": "email"}, ['"a@b.co"', '"a.b+c@x-y.example.org"'], ['"a"', '"@b.co"', '"a@b"', '"a@-b.co"']),
    "hostname": ({"type": "string", "format": "hostname"}, ['"a"', '"a-b.example.org"'], ['"-a"', '"a..b"', '""']),
    "ipv4": ({"type": "string", "format": "ipv4"}, ['"127.0.0.1"', '"255.255.255.255"'], ['"256.0.0.1"', '"1.2.3"', '"01.2.3.4"']),
    "ipv6": ({"type": "string", "format": "ipv6"}, ['"::1"', '"2001:db8::8:800:200c:417a"', '"1:2:3:4:5:6:7:8"', '"::"', '"1::"'],
             ['":1"', '"1:2:3:4:5:6:7"', '"1::2::3"', '"12345::"']),
    "uri": ({"type": "string", "format": "uri", "minLength": 1, "maxLength": 2083}, ['"https://example.org/a?b=c"', '"ftp://x"'], ['"example.org"', '"http://"']),
    "other format": ({"type": "string", "format": "phone"}, ['"x"'], ['1']),
    "range 1": ({"type": "integer", "minimum": 7, "maximum": 1234}, ['7', '9', '10', '99', '100', '999', '1000', '1234'], ['6', '0', '1235', '07', '-7', '12345']),
    "range 2": ({"type": "integer", "exclusiveMinimum": -13, "exclusiveMaximum": 5}, ['-12', '-9', '-1', '0', '4'], ['-13', '5', '10', '-20']),
    "range 3": ({"type": "integer", "minimum": 18}, ['18', '19', '20', '100', '999999999'], ['17', '9', '-18', '0']),
    "range 4": ({"type": "integer", "maximum": -5}, ['-5', '-10', '-99999'], ['-4', '0', '5']),
    "range 5": ({"type": "integer", "exclusiveMinimum": 0}, ['1', '10', '12345'], ['0', '-1', '01']),
    "range 6": ({"type": "integer", "minimum": 255, "maximum": 256}, ['255', '256'], ['254', '257', '2', '25']),
    "range 7": ({"type": "integer", "minimum": 0.5, "maximum": 3.5}, ['1', '3'], ['0', '4']),
    "decimals 1": ({"type": "number", "minimum": 0, "maximum": 1}, ['0', '1', '0.5', '1.0', '0.123', '1.000'], ['1.01', '2', '-0.1', '1e0', '00.5']),
    "decimals 2": ({"type": "number", "exclusiveMinimum": 0}, ['1', '0.5', '0.001', '10.5', '123'], ['0', '0.0', '-1']),
    "decimals 3": ({"type": "number", "minimum": -1.5, "exclusiveMaximum": 2.25},
                   ['-1.5', '-1.50', '-1', '-0.3', '0', '2', '2.2', '2.2499', '1.99', '2.0', '-1.4999'], ['-1.51', '2.25', '2.3', '3', '-2', '2.250']),
    "decimals 4": ({"type": "number", "minimum": 2.25, "maximum": 2.5}, ['2.25', '2.3', '2.5', '2.50', '2.499'], ['2.2', '2', '2.51', '2.501', '2.6', '3']),
    "decimals 5": ({"type": "number", "exclusiveMinimum": 0.25, "exclusiveMaximum": 0.3}, ['0.26', '0.251', '0.2999'], ['0.25', '0.250', '0.3', '0.2', '0']),
    "decimals 6": ({"type": "number", "minimum": 98.6}, ['98.6', '98.60', '98.7', '99', '100.5', '1000'], ['98.5', '98', '9', '-99']),
    "decimals 7": ({"type": "number", "maximum": -0.5}, ['-0.5', '-1', '-100.25', '-0.51'], ['-0.4', '0', '0.5']),
    "decimals 8": ({"type": "number", "exclusiveMinimum": 99, "maximum": 100}, ['99.5', '100', '99.001', '100.0'], ['99', '99.0', '100.1', '9']),
    "multiples 1": ({"type": "integer", "multipleOf": 5}, ['0', '5', '-10', '12345'], ['1', '12', '-3']),
    "multiples 2": ({"type": "integer", "multipleOf": 7, "minimum": 10, "maximum": 50}, ['14', '49'], ['7', '56', '15']),
    "multiples 3": ({"type": "number", "multipleOf": 0.01}, ['1', '0.25', '-3.5'], ['0.125', '1e3']),
    "multiples 4": ({"type": "number", "multipleOf": 0.1, "minimum": 0, "maximum": 2}, ['1', '0.5', '2.0'], ['0.25', '2.1']),
    "ref": ({"$defs": {"Item": obj({"id": INTEGER}, ["id"])}, **obj({"items": {"type": "array", "items": {"$ref": "#/$defs/Item"}}}, ["items"])},
            ['{"items":[]}', '{"items":[{"id":1},{"id":2}]}'], ['{"items":[{}]}']),
    "tree": ({"$defs": {"Node": obj({"value": INTEGER, "next": {"anyOf": [{"$ref": "#/$defs/Node"}, NULL], "default": None}}, ["value"])},
              "$ref": "#/$defs/Node"},
             ['{"value":1}', '{"value":1,"next":{"value":2,"next":null}}'], ['{"value":1,"next":{}}']),
    "itself": (obj({"kids": {"type": "array", "items": {"$ref": "#"}}}, ["kids"]), ['{"kids":[]}', '{"kids":[{"kids":[]}]}'], ['{"kids":[1]}']),
    "pointer": (obj({"a~/b %": INTEGER, "c": {"$ref": "#/properties/a~0~1b%20%25"}}, ["c"]), ['{"c":1}'], ['{"c":"x"}']),
    "union": ({"$defs": {"Cat": obj({"kind": {"const": "cat", "type": "string"}, "lives": INTEGER}, ["kind", "lives"]),
                         "Dog": obj({"kind": {"const": "dog", "type": "string"}, "barks": BOOLEAN}, ["kind", "barks"])},
               **obj({"pet": {"discriminator": {"propertyName": "kind", "mapping": {"cat": "#/$defs/Cat", "dog": "#/$defs/Dog"}},
                              "oneOf": [{"$ref": "#/$defs/Cat"}, {"$ref": "#/$defs/Dog"}]}}, ["pet"])},
              ['{"pet":{"kind":"cat","lives":9}}', '{"pet":{"kind":"dog","barks":true}}'], ['{"pet":{"kind":"cat","barks":true}}']),
    "anyOf with siblings": (obj({"a": INTEGER, "b": INTEGER}, anyOf=[{"required": ["a"]}, {"required": ["b"]}]),
                            ['{"a":1}', '{"b":1}', '{"a":1,"b":2}'], ['{}']),
    "allOf": ({"allOf": [obj({"a": INTEGER}, ["a"]), obj({"b": STRING}, ["b"])]}, ['{"a":1,"b":"x"}'], ['{"a":1}', '{"b":"x"}']),
    "allOf of a ref": ({"$defs": {"Color": {"enum": ["r", "g"], "type": "string"}}, **obj({"c": {"allOf": [{"$ref": "#/$defs/Color"}], "default": "r"}})},
                       ['{}', '{"c":"g"}'], ['{"c":"b"}']),
    "allOf of bounds": ({"allOf": [{"type": "integer", "minimum": 3}, {"type": "number", "maximum": 5}, {"minimum": 4}]}, ['4', '5'], ['3', '6', '4.5']),
    "allOf of the same property": ({"allOf": [obj({"a": {"type": "integer", "minimum": 1}}, ["a"]), obj({"a": {"maximum": 2}})]}, ['{"a":1}', '{"a":2}'], ['{"a":3}', '{"a":0}']),
    "allOf, closed": ({"allOf": [obj({"a": INTEGER}, additionalProperties=False), obj({"a": INTEGER, "b": INTEGER})]}, ['{}', '{"a":1}'], ['{"b":1}', '{"a":1,"b":1}']),
    "allOf of values": ({"allOf": [{"enum": [1, 2, 3]}, {"enum": [2, 3, 4]}, {"type": "integer"}]}, ['2', '3'], ['1', '4']),
    "ref with siblings": ({"$defs": {"A": obj({"a": INTEGER}, ["a"])}, "$ref": "#/$defs/A", "properties": {"b": STRING}, "required": ["b"]},
                          ['{"b":"x","a":1}'], ['{"a":1}', '{"b":"x"}']),
    "recursion through allOf": ({"$defs": {"B": obj({"x": INTEGER}, ["x"]), "A": {"allOf": [{"$ref": "#/$defs/B"}, obj({"kid": {"$ref": "#/$defs/A"}})]}}, "$ref": "#/$defs/A"},
                                ['{"x":1}', '{"x":1,"kid":{"x":2}}'], ['{"kid":{"x":2}}']),
    "no type": ({"properties": {"a": INTEGER}, "required": ["a"]}, ['{"a":1}'], ['{}', '3']),
    "no type, string": ({"minLength": 1}, ['"a"'], ['""', '3']),
    "nothing forbidden": (obj({"a": INTEGER, "b": False}), ['{}', '{"a":1}'], ['{"b":1}']),
    "nullable ref": ({"$defs": {"A": INTEGER}, "nullable": True, "allOf": [{"$ref": "#/$defs/A"}]}, ['null', '1'], ['"x"']),
    "openai tool": (obj({"location": {"type": "string", "description": "City and country"}, "units": {"type": ["string", "null"], "enum": ["celsius", "fahrenheit", None]},
                         "days": {"type": "array", "items": {"type": "integer", "minimum": 1, "maximum": 7}, "minItems": 1}}, ["location", "units", "days"],
                        additionalProperties=False, **{"$schema": "https://json-schema.org/draft/2020-12/schema", "strict": True}),
                    ['{"location":"Paris","units":null,"days":[1]}', '{"location": "Rome", "units": "celsius", "days": [1, 7]}'],
                    ['{"location":"Paris","units":"kelvin","days":[1]}', '{"location":"Paris","units":null,"days":[]}']),
    "definitions of old": ({"definitions": {"A": INTEGER}, **obj({"a": {"$ref": "#/definitions/A"}}, ["a"])}, ['{"a":1}'], ['{"a":"x"}']),
    "many optional": (obj({f"field_{i}": INTEGER for i in range(60)}), ['{}', '{"field_0":1}', '{"field_3":1,"field_59":2}'], ['{"field_3":1,"field_2":2}']),
    "deep": (obj({"a": obj({"b": obj({"c": obj({"d": {"type": "array", "items": {"type": "array", "items": obj({"e": NUMBER}, ["e"])}}}, ["d"])}, ["c"])}, ["b"])}, ["a"]),
             ['{"a":{"b":{"c":{"d":[[{"e":1}]]}}}}'], ['{"a":{"b":{"c":{}}}}']),
}

# name: (schema, words of the message)
REFUSED = {
    "not": (obj({"a": {"not": INTEGER}}, ["a"]), ["#/properties/a", "'not'", "unsupported"]),
    "if": ({"if": INTEGER, "then": STRING}, ["'if'", "unsupported"]),
    "contains": ({"type": "array", "contains": INTEGER}, ["'contains'", "unsupported"]),
    "uniqueItems": (obj({"a": {"type": "array", "items": STRING, "uniqueItems": True}}), ["#/properties/a", "'uniqueItems'"]),
    "dependentRequired": ({"type": "object", "dependentRequired": {"a": ["b"]}}, ["'dependentRequired'"]),
    "remote": ({"$ref": "https://example.org/a.json"}, ["'$ref'", "https://example.org/a.json", "unsupported"]),
    "missing": ({"$ref": "#/$defs/A"}, ["'$ref'", "#/$defs/A", "not there"]),
    "circle": ({"$defs": {"A": {"$ref": "#/$defs/A"}}, "$ref": "#/$defs/A"}, ["circle"]),
    "circle of allOf": ({"$defs": {"A": {"allOf": [{"$ref": "#/$defs/A"}, STRING]}}, "$ref": "#/$defs/A"}, ["circle"]),
    "type": ({"type": "int"}, ["'type'", "'int'"]),
    "false": (False, ["allows nothing"]),
    "number": (3, ["no schema"]),
    "looking ahead": (obj({"a": {"type": "string", "pattern": "^(?=x)y"}}), ["#/properties/a", "pattern", "looking ahead", "unsupported"]),
    "multipleOf": ({"type": "number", "multipleOf": 0.3}, ["'multipleOf'"]),
    "bounds": ({"type": "integer", "minimum": 5, "maximum": 4}, ["no number"]),
    "never ends": ({"$defs": {"A": obj({"a": {"$ref": "#/$defs/A"}}, ["a"])}, "$ref": "#/$defs/A"}, ["root"]),
    "too long": ({"type": "string", "maxLength": 1000000}, ["'maxLength'", "10000"]),
    "no types in common": ({"allOf": [STRING, INTEGER]}, ["no value in common"]),
    "items asked for": ({"type": "array", "items": INTEGER, "minItems": 3, "maxItems": 2}, ["items"]),
    "required and closed": (obj({"a": INTEGER}, ["b"], additionalProperties=False), ["'b'", "required"]),
    "enum beside others": ({"type": "string", "enum": ["a"], "minLength": 2}, ["'minLength'", "enum"]),
    "patterns": ({"type": "object", "patternProperties": {"a": INTEGER, "b": STRING}}, ["'patternProperties'"]),
    "two patterns": ({"allOf": [{"type": "string", "pattern": "a"}, {"type": "string", "pattern": "b"}]}, ["'pattern'", "allOf"]),
}

# pattern: (texts that fit, texts that do not)
REGEXES = {
    r"yes|no": (["yes", "no"], ["y", "yesno", ""]),
    r"^\d{3}-\d{4}$": (["555-1234"], ["5551234", "555-12345"]),
    r"(?:a|b)+c?": (["a", "abac"], ["", "cc"]),
    r"[^\s\"]+@\w+\.(com|org)": (["a.b@c.com"], ["a b@c.com", "a@b.net"]),
    r"\u00e9\x41\u{1F600}\t": (["éA😀\t"], ["éA"]),
    r"(?i)hello": (["hello", "HeLLo"], ["hell"]),
    r"a{2,3}?b*?": (["aa", "aaab"], ["a", "aaaa"]),
    r"(?P<year>\d{4})/(?<month>\d\d)": (["2024/01"], ["2024-01"]),
    r"a.c": (["abc", "aéc"], ["a\nc", "ac"]),
    r"[\]\-\\a]+": (["]-\\a"], ["b"]),
    r"x{,3}": (["x{,3}"], ["xx"]),
    r"[\w-]+": (["a-b_1"], ["a b"]),
    r"^(a|b)$|^c$": (["a", "c"], ["ac"]),
    r"\$\d+\.\d\d": (["$10.50"], ["10.50"]),
    r"": ([""], ["a"]),
    r"(a|)b": (["ab", "b"], ["a"]),
    r"[\S]+": (["abc"], ["a b", "\u00a0"]),
}
REGEXES_REFUSED = {
    r"(?=a)b": "looking ahead", r"(?<!a)b": "looking behind", r"(a)\1": "reference", r"\bword": "word boundary", r"a^b": "anchor", r"a++": "possessive",
    r"(?>a)": "atomic", r"\p{L}": "Unicode property", r"(?x)a": "flag", r"(a": "')'", r"a)": "')'", r"[a": "']'", r"*a": "nothing before it", r"[z-a]": "ascending",
    r"a{3,2}": "ascending", r"a{20000}": "10000", r"\k<n>": "reference", r"a**": "repetition", "a\\": "backslash",
}


def corpora(json_schema, regex):
    """Files of the fuzz targets: a schema or a pattern, a NUL, a text."""
    import json
    import pathlib

    for folder in (json_schema, regex):
        pathlib.Path(folder).mkdir(parents=True, exist_ok=True)
    for i, (schema, fits, _) in enumerate(SCHEMAS.values()):
        pathlib.Path(json_schema, f"fits-{i:03}").write_bytes(json.dumps(schema).encode() + b"\0" + fits[-1].encode())
    for i, (schema, _) in enumerate(REFUSED.values()):
        pathlib.Path(json_schema, f"refused-{i:03}").write_bytes(json.dumps(schema).encode())
    for i, (pattern, (fits, _)) in enumerate(REGEXES.items()):
        pathlib.Path(regex, f"fits-{i:03}").write_bytes(pattern.encode() + b"\0" + fits[-1].encode())
    for i, pattern in enumerate(REGEXES_REFUSED):
        pathlib.Path(regex, f"refused-{i:03}").write_bytes(pattern.encode())


if __name__ == "__main__":
    import sys

    corpora(*sys.argv[1:])
