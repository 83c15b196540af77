#!/usr/bin/env python3
"""JSON Schemas and regular expressions as grammars, against Python's jsonschema and re.

    test_schema.py TOOL WALKS SCHEMAS

By hand: documents that fit and that do not (schemas.py). At random: WALKS texts that each grammar allows, and SCHEMAS
schemas made at random; every text must parse and be valid."""

import datetime
import ipaddress
import json
import random
import re
import subprocess
import sys
import unittest
import uuid
from fractions import Fraction

import jsonschema

import schemas

TOOL, WALKS, N_SCHEMAS = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])

formats = jsonschema.FormatChecker(formats=())


def checks(name, raises=ValueError):
    return formats.checks(name, raises)


checks("date")(lambda v: datetime.date.fromisoformat(v) and len(v) == 10)
checks("time")(lambda v: re.search(r"(Z|[+-]\d\d:\d\d)$", v) and datetime.time.fromisoformat(re.sub(r"\.(\d+)", lambda m: "." + m[1].ljust(6, "0"), v).replace("Z", "+00:00")))
checks("date-time")(lambda v: re.match(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,6})?(Z|[+-]\d\d:\d\d)$", v) and
                    datetime.datetime.fromisoformat(re.sub(r"\.(\d+)", lambda m: "." + m[1].ljust(6, "0"), v).replace("Z", "+00:00")))
checks("duration")(lambda v: re.fullmatch(r"P(?!$)(\d+Y)?(\d+M)?(\d+W)?(\d+D)?(T(?=\d)(\d+H)?(\d+M)?(\d+S)?)?", v))
checks("uuid")(lambda v: uuid.UUID(v) and v[8] == "-")
checks("email")(lambda v: re.fullmatch(r"[^@\s]{1,140}@[^@\s.]+(\.[^@\s.]+)+", v))
checks("hostname")(lambda v: len(v) <= 253 and all(re.fullmatch(r"(?!-)[A-Za-z0-9-]{1,63}(?<!-)", p) for p in v.split(".")))
checks("ipv4")(ipaddress.IPv4Address)
checks("ipv6")(ipaddress.IPv6Address)
checks("uri")(lambda v: re.fullmatch(r"[A-Za-z][A-Za-z0-9+.-]*://[^\s\"<>\\^`{|}]+", v))


def strings_only(check):
    return lambda v: not isinstance(v, str) or check(v)


formats.checkers = {k: (strings_only(f), r) for k, (f, r) in formats.checkers.items()}


def without_nullable(s):
    """OpenAPI's nullable in the words of JSON Schema."""
    if isinstance(s, list):
        return [without_nullable(x) for x in s]
    if not isinstance(s, dict):
        return s
    s = {k: without_nullable(v) for k, v in s.items()}
    defs = {k: s.pop(k) for k in ("$defs",) if s.get("nullable") is True and k in s}
    return {"anyOf": [s, {"type": "null"}], **defs} if s.pop("nullable", False) is True else s


def validator(name, schema):
    draft = jsonschema.Draft7Validator if name.endswith("of old") else jsonschema.Draft202012Validator
    return draft(without_nullable(schema), format_checker=formats)


class Tool:
    def __init__(self):
        self.p = subprocess.Popen([TOOL], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8")

    def ask(self, **q):
        self.p.stdin.write(json.dumps(q) + "\n")
        self.p.stdin.flush()
        return json.loads(self.p.stdout.readline())


def multiple_fits(schema, text):
    """Floats cannot tell whether 0.07 is a multiple of 0.01."""
    return (Fraction(text) / Fraction(str(schema["multipleOf"]))).denominator == 1


class RandomSchema:
    """Schemas as pydantic writes them, with $defs that may name themselves."""

    def __init__(self, seed):
        self.r = random.Random(seed)
        self.defs = [f"D{i}" for i in range(self.r.randrange(3))]

    def leaf(self):
        r = self.r
        lo = r.choice([None, r.randrange(-2000, 2000), r.choice([0, 1, -1, 10])])
        hi = None if r.random() < 0.5 else (lo if lo is not None else 0) + r.choice([0, 1, 7, 99, 1000])
        bounds = {k: v for k, v in ((r.choice(["minimum", "exclusiveMinimum"]), lo), ("maximum", hi)) if v is not None}
        if bounds.get("exclusiveMinimum") is not None and bounds["exclusiveMinimum"] == hi:
            bounds.pop("maximum")
        decimals = {k: v / r.choice([1, 4, 10, 100]) if k != "maximum" else v + r.choice([0.5, 0.25, 0.0]) for k, v in bounds.items()}
        if lo is not None and lo < 0:
            decimals = bounds
        n = r.randrange(4)
        return r.choice([
            lambda: {"type": "integer", **bounds}, lambda: {"type": "number", **decimals}, lambda: {"type": "boolean"}, lambda: {"type": "null"},
            lambda: {"type": "string"}, lambda: {"type": "string", "minLength": n, "maxLength": n + r.randrange(5)},
            lambda: {"type": "string", "enum": r.sample(["a", "b c", "d\"e", "é", ""], 1 + r.randrange(4))}, lambda: {"const": r.choice(["x", 1, None, [1, {"a": 2}]])},
            lambda: {"type": "string", "pattern": r.choice(["^[a-f]+$", "x", "^\\w{2,5}$", "^(\\d+|none)$", "\\s"])},
            lambda: {"type": "string", "pattern": "^[a-f]+(,[a-f]+)*$", "maxLength": 6 + n},
            lambda: {"type": "string", "format": r.choice(["date", "uuid", "ipv4", "email", "time", "date-time", "hostname", "duration", "ipv6", "uri"])}])()

    def schema(self, depth):
        r = self.r
        if depth == 0 or r.random() < 0.3:
            return self.leaf()
        k = r.randrange(8)
        if k < 3:
            names = r.sample(["a", "b", "name", "na", "id", "x y", "é", "tag"], r.randrange(5))
            s = schemas.obj({n: self.schema(depth - 1) for n in names}, [n for n in names if r.random() < 0.5])
            if r.random() < 0.4:
                s["additionalProperties"] = r.choice([False, True, self.leaf()])
            return s
        if k < 5:
            lo = r.randrange(3)
            return {"type": "array", "items": self.schema(depth - 1), "minItems": lo, **({"maxItems": lo + r.randrange(4)} if r.random() < 0.5 else {})}
        if k == 5:
            n = r.randrange(1, 4)
            return {"type": "array", "prefixItems": [self.schema(depth - 1) for _ in range(n)], "minItems": r.randrange(n + 1), "items": r.choice([False, self.leaf()])}
        if k == 6 or not self.defs:
            return {"anyOf": [self.schema(depth - 1) for _ in range(1 + r.randrange(3))]}
        return {"anyOf": [{"$ref": "#/$defs/" + r.choice(self.defs)}, {"type": "null"}]}

    def whole(self):
        s = schemas.obj({"a": self.schema(3), "b": self.schema(2)}, self.r.choice([[], ["a"], ["a", "b"]]))
        return {"$defs": {d: schemas.obj({"v": self.schema(2)}) for d in self.defs}, **s}


class Schemas(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.tool = Tool()

    @classmethod
    def tearDownClass(cls):
        cls.tool.p.stdin.close()
        cls.tool.p.wait()
        cls.tool.p.stdout.close()

    def walks_are_valid(self, name, schema, answer):
        v = validator(name, schema)
        for text in answer["walks"]:
            with self.subTest(walk=text):
                value = json.loads(text)
                if isinstance(schema, dict) and isinstance(schema.get("multipleOf"), float):
                    self.assertTrue(multiple_fits(schema, text))
                    continue
                v.validate(value)

    def test_by_hand(self):
        for seed, (name, (schema, fits, others)) in enumerate(schemas.SCHEMAS.items()):
            with self.subTest(name):
                a = self.tool.ask(schema=schema, texts=fits + others, walks=WALKS, seed=seed)
                self.assertNotIn("error", a)
                self.assertEqual([t for t, f in zip(fits, a["fits"]) if not f], [])
                self.assertEqual([t for t, f in zip(others, a["fits"][len(fits):]) if f], [])
                self.assertLessEqual(a["unfinished"], WALKS // 3)
                v = validator(name, schema)
                for text in fits:
                    if not (isinstance(schema, dict) and isinstance(schema.get("multipleOf"), float)):
                        v.validate(json.loads(text))
                self.walks_are_valid(name, schema, a)

    def test_refused(self):
        for name, (schema, words) in schemas.REFUSED.items():
            with self.subTest(name):
                a = self.tool.ask(schema=schema, texts=[], walks=0)
                for word in words:
                    self.assertIn(word, a.get("error", "nothing"))

    def test_at_random(self):
        told = 0
        for seed in range(N_SCHEMAS):
            schema = RandomSchema(seed).whole()
            a = self.tool.ask(schema=schema, texts=[], walks=WALKS // 3 + 1, seed=seed)
            with self.subTest(seed=seed, schema=json.dumps(schema)):
                if "error" in a:
                    self.assertRegex(a["error"], "no number|root|circle|beside this")
                    continue
                told += len(a["walks"])
                self.walks_are_valid("", schema, a)
        self.assertGreater(told, N_SCHEMAS)

    def test_expressions(self):
        for seed, (pattern, (fits, others)) in enumerate(schemas.REGEXES.items()):
            with self.subTest(pattern):
                a = self.tool.ask(regex=pattern, texts=fits + others, walks=WALKS, seed=seed)
                self.assertEqual(a.get("fits"), [True] * len(fits) + [False] * len(others), a)
                plain = re.sub(r"\\u\{(\w+)\}", lambda m: "\\U" + m[1].zfill(8), pattern).replace("(?<year", "(?P<year").replace("(?<month", "(?P<month")
                for text in a["walks"]:
                    if "{,3}" not in pattern: # Python reads it as {0,3}
                        self.assertTrue(re.fullmatch(plain, text), text)

    def test_expressions_refused(self):
        for pattern, word in schemas.REGEXES_REFUSED.items():
            with self.subTest(pattern):
                a = self.tool.ask(regex=pattern, texts=[], walks=0)
                self.assertIn(word, a.get("error", "nothing"))
                self.assertRegex(a["error"], r"^regular expression: character \d+: ")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
