"""Compares the template interpreter with jinja2, byte for byte or failure for failure.

usage: test_template.py TOOL MODELS_DIR [part...]"""
import copy
import json
import os
import subprocess
import sys

import conversations
import corners
import jinja_env
import snippets
import styles

os.environ["TZ"] = "UTC"
# Where we differ on purpose: integers beyond 64 bits, and values whose text holds an address or a set's order.
UNCOMPARABLE = ("object at 0x", "generator object", "<function ", "<class ", "<bound method")


class Tool:
    def __init__(self, path):
        self.p = subprocess.Popen([path], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def ask(self, o):
        self.p.stdin.write(json.dumps(o).encode() + b"\n")
        self.p.stdin.flush()
        line = self.p.stdout.readline()
        if not line:
            sys.exit(f"the tool died on {o!r}: exit status {self.p.wait()}")
        return json.loads(line)


class Run:
    def __init__(self, tool):
        self.tool, self.env = tool, jinja_env.environment()
        self.same = self.failed_both = self.refused = self.skipped = 0
        self.wrong = []

    def check(self, what, template, context):
        want, error = jinja_env.render(self.env, template, copy.deepcopy(context))  # |indent of a list changes it
        got = self.tool.ask({"template": template, "context": context})
        if want is not None and any(u in want for u in UNCOMPARABLE) or want is not None and beyond_64_bits(want):
            self.skipped += 1
        elif want is None and "error" in got:
            self.failed_both += 1
        elif want is not None and got.get("ok") == want:
            self.same += 1
        elif want is not None and any(w in got.get("error", "") for w in ("not supported", "integer overflow", "64 bits")):
            self.refused += 1
        else:
            self.wrong.append((what, template, want if want is not None else error, got))


def beyond_64_bits(text):
    digits = "".join(c if c.isdigit() and c.isascii() else " " for c in text).split()
    return any(len(d) >= 19 and int(d) > 2**63 - 1 for d in digits)


def model_templates(models):
    import gguf
    for path in ("smollm2/SmolLM2-135M-Instruct.Q4_1.gguf", "qwen-0.5b/qwen2.5-coder-0.5b-instruct-q4_k_m.gguf"):
        full = os.path.join(models, path)
        if not os.path.exists(full):
            sys.exit(f"the model {path} is missing from {models}: run scripts/models")
        field = gguf.GGUFReader(full).fields["tokenizer.chat_template"]
        yield path.split("/")[0], field.contents()


def run_conversations(run, named):
    for name, template in named:
        for i, c in enumerate(conversations.CONVERSATIONS):
            for flag in (True, False):
                run.check(f"{name} on conversation {i}", template, {**c, "add_generation_prompt": flag})


def main():
    tool = Tool(sys.argv[1])
    parts = {
        "models": lambda r: run_conversations(r, model_templates(sys.argv[2])),
        "styles": lambda r: run_conversations(r, styles.STYLES.items()),
        "expressions": lambda r: [r.check("expression", "{{ " + e + " }}", snippets.CONTEXT) for e in snippets.expressions()],
        "statements": lambda r: [r.check("statement", s, snippets.CONTEXT) for s in snippets.STATEMENTS],
        "corners": lambda r: [r.check("corner", t, snippets.CONTEXT)
                              for t in ["{{ " + e + " }}" for e in corners.CORNERS] + corners.TEMPLATES],
        "whitespace": lambda r: [r.check("whitespace", s, snippets.CONTEXT) for s in snippets.whitespace(7, 800)],
        "generated": lambda r: [r.check("generated", "{{ " + e + " }}", snippets.CONTEXT) for e in snippets.generated(11, 800)],
        "products": lambda r: [r.check("product", "{{ " + e + " }}", snippets.CONTEXT) for e in snippets.products()[::13]],
        "products_all": lambda r: [r.check("product", "{{ " + e + " }}", snippets.CONTEXT) for e in snippets.products()],
    }
    failed = 0
    for name in sys.argv[3:] or [p for p in parts if p != "products_all"]:
        run = Run(tool)
        parts[name](run)
        print(f"{name}: {run.same} equal, {run.failed_both} failed in both, {run.skipped} not comparable, {run.refused} refused by name, "
              f"{len(run.wrong)} different")
        for what, template, want, got in run.wrong[:40]:
            print(f"  {what}: {template[:300]!r}\n    jinja2: {want!r}\n    hasten: {got!r}")
        failed += len(run.wrong)
    sys.exit(1 if failed else 0)


main()
