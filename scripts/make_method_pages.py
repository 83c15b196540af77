#!/usr/bin/env python3
"""Pages of docs/ that the program writes from the registry of methods: docs/methods/NAME.md for each, docs/methods/README.md
(the list, and which go together), docs/receipt.schema.json.

    scripts/make_method_pages.py [--hasten PROGRAM]           write them
    scripts/make_method_pages.py [--hasten PROGRAM] --check   say what differs (exit status 1), also of docs/receipts/ from the schema

A change of a method's description changes its page: run it, look at the difference, commit it (`make method-pages`)."""

import argparse
import json
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
HEAD = """# Methods
Written by `scripts/make_method_pages.py` from what the methods say of themselves; do not edit. `hasten methods NAME` shows a page with the receipts of the machine, `docs/add-a-method.md` how one is added.

"""
PAIRS = """
## What goes together
A dot: the two may be chosen together, and the contract tests run the pair. A letter: they are refused when an engine is opened, for the reason below. A method with itself: whether it can be given twice.

"""


def ask(program, *args):
    done = subprocess.run([program, "methods", *args], capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"make_method_pages: {program} methods {' '.join(args)}: {done.stderr.strip()}")
    return done.stdout


def pages(program):
    """Path below docs/ -> text."""
    names = sorted({m["name"] for m in json.loads(ask(program, "--json"))})
    made = {Path("methods") / f"{name}.md": ask(program, name, "--markdown") for name in names}
    made[Path("methods/README.md")] = HEAD + ask(program, "--markdown") + PAIRS + ask(program, "--pairs", "--markdown")
    made[Path("receipt.schema.json")] = ask(program, "--receipt-schema")
    return made


def violations(value, schema, at="receipt"):
    """Where a value departs from a schema, of what our schemas use."""
    kinds = {"object": dict, "array": list, "string": str, "boolean": bool, "integer": int, "number": (int, float), "null": type(None)}
    if "const" in schema and value != schema["const"]:
        yield f"{at} is {value!r} (expected {schema['const']!r})"
    types = schema.get("type", [])
    types = [types] if isinstance(types, str) else types
    if types and not any(isinstance(value, kinds[t]) and not (isinstance(value, bool) and t in ("integer", "number")) for t in types):
        yield f"{at} is {value!r} (expected {' or '.join(types)})"
        return
    if isinstance(value, str) and "pattern" in schema and not re.search(schema["pattern"], value):
        yield f"{at} is {value!r} (expected {schema['pattern']})"
    if isinstance(value, (int, float)) and value < schema.get("minimum", value):
        yield f"{at} is {value!r} (expected at least {schema['minimum']})"
    if isinstance(value, dict):
        yield from (f"{at} has no {name!r}" for name in schema.get("required", []) if name not in value)
        for name, part in value.items():
            if name in schema.get("properties", {}):
                yield from violations(part, schema["properties"][name], f"{at}.{name}")
    if isinstance(value, list) and "items" in schema:
        for i, part in enumerate(value):
            yield from violations(part, schema["items"], f"{at}[{i}]")


def check(docs, made):
    bad = [f"docs/{path} is not what the program writes" for path, text in made.items()
           if not (docs / path).exists() or (docs / path).read_text() != text]
    bad += [f"docs/methods/{p.name} is of no method" for p in sorted((docs / "methods").glob("*.md"))
            if Path("methods") / p.name not in made]
    schema = json.loads(made[Path("receipt.schema.json")])
    for path in sorted((docs / "receipts").glob("*/*.json")):
        bad += [f"docs/{path.relative_to(docs)}: {what}" for what in violations(json.loads(path.read_text()), schema)]
    for line in bad:
        print(f"{line}; `make method-pages` writes them" if "program writes" in line else line)
    return bool(bad)


def write(docs, made):
    (docs / "methods").mkdir(exist_ok=True)
    for old in (docs / "methods").glob("*.md"):
        if Path("methods") / old.name not in made:
            old.unlink()
    for path, text in made.items():
        (docs / path).write_text(text)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hasten", default=str(ROOT / "build/release/hasten"))
    parser.add_argument("--docs", type=Path, default=ROOT / "docs")
    parser.add_argument("--check", action="store_true")
    args = parser.parse_args()
    made = pages(args.hasten)
    if args.check:
        sys.exit(check(args.docs, made))
    write(args.docs, made)


if __name__ == "__main__":
    main()
