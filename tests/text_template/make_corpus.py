"""Writes the corpus of fuzz/template_fuzz.c: templates with a context, small files, from the templates and snippets of
these tests. usage: make_corpus.py [--check] FOLDER (--check: the folder holds what would be written)"""
import copy
import json
import os
import sys

import conversations
import corners
import families
import jinja_env
import snippets
import styles

GROUP = 10  # snippets that render go together; one that fails ends its file, so it has its own


def grouped(name, snips):
    env = jinja_env.environment()
    fine, n = [], 0
    for i, s in enumerate(snips):
        if jinja_env.render(env, s, copy.deepcopy(snippets.CONTEXT))[0] is None or "lipsum" in s or "random" in s:
            yield f"{name}-fails-{i:03}", s, snippets.CONTEXT
        else:
            fine.append(s)
    for n in range(0, len(fine), GROUP):
        yield f"{name}-{n // GROUP:03}", "\n".join(fine[n:n + GROUP]), snippets.CONTEXT


def inputs():
    for i, (name, template) in enumerate(styles.STYLES.items()):
        for j in (1, 6):
            yield f"style-{name}-{j}", template, conversations.CONVERSATIONS[(i + j) % len(conversations.CONVERSATIONS)]
    for i, (name, template) in enumerate(families.FAMILIES.items()):
        yield f"family-{name}", template, conversations.CONVERSATIONS[(5, 6, 7, 11)[i % 4]]
    yield from grouped("statement", snippets.STATEMENTS)
    yield from grouped("expression", ["{{ " + e + " }}" for e in snippets.expressions()])
    yield from grouped("whitespace", snippets.whitespace(3, 60))
    yield from grouped("corner", ["{{ " + e + " }}" for e in corners.CORNERS] + corners.TEMPLATES)
    for i, (template, context) in enumerate(corners.RAW):
        yield f"raw-{i:02}", template, context
    yield from grouped("product", ["{{ " + e + " }}" for e in snippets.products()[::61]])


def as_bytes(template, context):
    used = {k: v for k, v in context.items() if k in template} if context is snippets.CONTEXT else context
    return template.encode("utf-8", "surrogatepass") + b"\0" + json.dumps(used, ensure_ascii=False).encode()


def main():
    folder, check = sys.argv[-1], "--check" in sys.argv
    os.makedirs(folder, exist_ok=True)
    n = 0
    for name, template, context in inputs():
        if isinstance(context, bytes):
            data = template.encode() + b"\0" + context
        else:
            data = as_bytes(template, context)
        path = os.path.join(folder, name)
        n += 1
        if not check:
            with open(path, "wb") as f:
                f.write(data)
        elif not os.path.exists(path) or open(path, "rb").read() != data:
            sys.exit(f"the corpus is stale ({name}): run make_corpus.py {folder}")
    print(f"{n} corpus files are as made")


main()
