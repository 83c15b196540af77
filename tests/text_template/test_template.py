"""Compares the template interpreter with jinja2, byte for byte or failure for failure.

usage: test_template.py TOOL MODELS_DIR [part...]"""
import copy
import dataclasses
import json
import os
import subprocess
import sys

import conversations
import corners
import families
import jinja_env
import snippets
import styles

os.environ["TZ"] = "UTC"
# Texts of jinja2 that hold an address: nothing can be equal to them, so that Hasten must fail.
UNCOMPARABLE = ("object at 0x", "generator object", "<function ", "<class ", "<bound method")
# What jinja2 renders and Hasten refuses by name: these snippets, with these words, and no others. No real template
# and no style is among them.
REFUSED = {
    "{{ lipsum() }}": "'lipsum' is unsupported",
    "{{ l|random }}": "the filter 'random' is unsupported",
    "{{ '\\N{BULLET}' }}": "escape sequences with \\N are not supported",
    "{{ self }}": "the text of a function is not supported",
    "{{ '%#x' % 255 }}": "%x with '#' or a precision is not supported",
    "{{ '%.3d' % 5 }}": "%d with '#' or a precision is not supported",
    "{{ '%999999d' % 1 }}": "a width or precision beyond 100000 is not supported",
    "{{ '%.101f' % 1.5 }}": "the precision of a number's format is beyond 100",
    "{{ '{a.b}'.format(a=1) }}": "format fields with '.' are not supported",
    "{{ '{!r}'.format(1) }}": "format fields with '!' are not supported",
    "{{ '{:>3}'.format(1) }}": "format fields with ':' are not supported",
    "{{ (-8) ** 0.5 }}": "complex numbers are not supported",
    "{{ 15|round(-1) }}": "a negative precision of an integer is not supported",
    "{{ strftime_now('%Y' * 200) }}": "a format of less than 255 bytes",
    # integers beyond 64 bits
    "{{ '%d' % 1e30 }}": "the float does not fit in 64 bits",
    "{{ '99999999999999999999'|int }}": "the text names a number beyond 64 bits",
    "{{ 1e300|int }}": "the float does not fit in 64 bits",
    "{{ '1e300'|int }}": "the float does not fit in 64 bits",
    "{{ 2 ** 64 }}": "the result does not fit in 64 bits",
}


@dataclasses.dataclass
class Expected:
    """What a part must give: at least so many equal, at most so many failing in both (jinja2 refuses the template,
    too) and not comparable, and exactly so many of REFUSED. The four sum to the part."""
    equal: int
    failed_both: int
    uncomparable: int = 0
    refused: int = 0


EXPECTED = {
    "models": Expected(54, 6),  # where the template itself raises an exception
    "styles": Expected(932, 88),
    "expressions": Expected(677, 184, 9, 3),
    "families": Expected(804, 6),
    "statements": Expected(125, 77, 0, 1),
    "corners": Expected(181, 109, 1, 15),
    "whitespace": Expected(800, 0),
    "generated": Expected(442, 353, 5),
    "products": Expected(778, 777, 4),
    "products_all": Expected(9913, 10299, 44),
}


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
        self.same = self.failed_both = self.refused = self.uncomparable = 0
        self.wrong = []

    def check(self, what, template, context):
        want, error = jinja_env.render(self.env, template, copy.deepcopy(context))  # |indent of a list changes it
        got = self.tool.ask({"template": template, "context": context})
        if want is None and "error" in got:
            self.failed_both += 1
        elif want is not None and got.get("ok") == want:
            self.same += 1
        elif want is not None and "error" in got and any(u in want for u in UNCOMPARABLE):
            self.uncomparable += 1
        elif want is not None and template in REFUSED and REFUSED[template] in got.get("error", ""):
            self.refused += 1
        else:
            self.wrong.append((what, template, want if want is not None else error, got))

    def shortfalls(self, expected):
        """What of the part is less than expected: sentences."""
        for what, have, enough in (("equal", self.same, self.same >= expected.equal),
                                   ("failed_both", self.failed_both, self.failed_both <= expected.failed_both),
                                   ("uncomparable", self.uncomparable, self.uncomparable <= expected.uncomparable),
                                   ("refused", self.refused, self.refused == expected.refused)):
            if not enough:
                yield f"{what} is {have}, expected {getattr(expected, what)}"


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
        "families": lambda r: run_conversations(r, families.FAMILIES.items()),
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
        print(f"{name}: {run.same} equal, {run.failed_both} failed in both, {run.uncomparable} not comparable, "
              f"{run.refused} refused by name, {len(run.wrong)} different")
        for what, template, want, got in run.wrong[:40]:
            print(f"  {what}: {template[:300]!r}\n    jinja2: {want!r}\n    hasten: {got!r}")
        short = list(run.shortfalls(EXPECTED[name]))
        for sentence in short:
            print(f"  FAILED {name}: {sentence}")
        failed += len(run.wrong) + len(short)
    sys.exit(1 if failed else 0)


main()
