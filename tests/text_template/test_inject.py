"""Content cannot speak control tokens: every template, every control text, every role; and each way in which a template
can move, cut, change or escape what it is given.

The truth is told by counting: for each control token, the prompt holds as many of it as the prompt of the same
conversation whose content spells something else. That the check can fail is shown by the same text encoded
without regard to where it comes from, which must hold more.

usage: test_inject.py TOOL"""
import collections
import json
import os
import subprocess
import sys
import tempfile

import gguf

import families
import styles

CONTROLS = """<s> </s> <unk-c> <pad> <bos> <eos> [INST] [/INST] [AVAILABLE_TOOLS] [/AVAILABLE_TOOLS] [TOOL_CALLS]
[TOOL_RESULTS] [/TOOL_RESULTS] [SYSTEM_PROMPT] [/SYSTEM_PROMPT] <<SYS>> <</SYS>>
<|im_start|> <|im_end|> <|im_sep|> <|endoftext|> <|begin_of_text|> <|start_header_id|> <|end_header_id|> <|eot_id|> <|eom_id|>
<|python_tag|> <start_of_turn> <end_of_turn> <start_of_image> <|system|> <|user|> <|assistant|> <|tool|> <|/tool|> <|end|>
<|User|> <|Assistant|> <|tool_calls_begin|> <|tool_calls_end|> <|tool_call_begin|> <|tool_call_end|> <|tool_sep|>
<|tool_outputs_begin|> <|tool_outputs_end|> <|tool_output_begin|> <|tool_output_end|> <|end_of_sentence|>
<|START_OF_TURN_TOKEN|> <|END_OF_TURN_TOKEN|> <|SYSTEM_TOKEN|> <|USER_TOKEN|> <|CHATBOT_TOKEN|> <|START_RESPONSE|> <|END_RESPONSE|>
<tool_call> </tool_call> <tool_response> </tool_response> <tools> </tools> <|start_of_role|> <|end_of_role|>
<|end_of_text|> <|start|> <|channel|> <|message|> <|call|> <|return|> <|end_of_turn|> <|observation|> <|endofprompt|>
<extra_id_0> <extra_id_1> [|system|] [|user|] [|assistant|] [|endofturn|] <|startoftext|> <|plugin|> <|interpreter|>
<|action_start|> <|action_end|> <|reserved_special_token_7|>""".split()
ROLES = ("system", "user", "assistant")

HARMLESS = "<|qr_stu|>"  # the same shape, and no control text

# Each: an expression over x (a content string) or a whole template, and the content that becomes the control text
# <|im_end|> by it.
C = "<|im_end|>"
WAYS = [
    ("x", C), ("x ~ ''", C), ("'' ~ x ~ 1", C), ("x + ''", C), ("x[:]", C), ("x[2:]", "ab" + C), ("x[:-3]", C + "xyz"),
    ("x[::-1]", C[::-1]), ("x[::2]", "".join(c + "." for c in C)), ("x[1:11]", "a" + C), ("x|reverse", C[::-1]),
    ("x|trim", "  " + C + "\n"), ("x.strip('*')", "**" + C + "*"), ("x.lstrip()", " " + C), ("x.rstrip()", C + " "),
    ("x|replace('#', '')", "<|im_#end|>"), ("x.replace('\\n', '')", "<|im\n_end|>"), ("x|replace('#', '|', 1)", "<|im_end#>"),
    ("x|replace('A', x[0])", "<A"), ("x.split('#')|join", "<|im_#end|>"), ("x.split()|join", "<|im_ end|>"), ("x.split('#')[1]", "a#" + C),
    ("x.rsplit('#', 1)[0]", C + "#b"), ("x.partition('#')[2]", "a#" + C), ("x.rpartition('#')|join('')", "<|im_end|>#"),
    ("x.splitlines()|join", "<|im\n_end|>"), ("x|list|join", C), ("x|list|reverse|join", C[::-1]), ("x|list|sort|join|length ~ x", C),
    ("x|lower", "<|IM_END|>"), ("x.lower()", "<|Im_eNd|>"), ("x.swapcase()", "<|IM_END|>"), ("x.casefold() if false else x.lower()", "<|IM_End|>"),
    ("x|capitalize|lower", "<|IM_end|>"), ("(x|title).lower()", "<|im_END|>"), ("x|upper|lower", C), ("x|string", C), ("x|safe", C),
    ("(x|e)|replace('&lt;', '<')|replace('&gt;', '>')", C), ("x|escape|string|replace('&lt;', x[0])|replace('&gt;', x[-1])", C),
    ("x|tojson", C), ("{'k': x}|tojson", C), ("{x: 1}|tojson(indent=2)", C), ("[x]|tojson(separators=(',', ':'))", C), ("x|tojson(ensure_ascii=true)", C),
    ("(x|tojson)[1:-1]|replace('\\\\\"', '')", '<|im"_end|>'), ("(x|tojson)|replace('\\\\n', '')", "<|im\n_end|>"),
    ("[x]", C), ("{'a': x}|string", C), ("(x,)|string", C), ("{'a': x}.items()|list", C), ("[x]|string|replace('\\\\n', '')", "<|im\n_end|>"),
    ("'%s' % x", C), ("'%10s|%-12s' % (x, x)", C), ("'%r' % x", C), ("'%(a)s' % {'a': x}", C), ("'%.10s' % x", C + "rest"), ("'%s%s'|format(x[:4], x[4:])", C),
    ("'{}'.format(x)", C), ("'{a}'.format(a=x)", C), ("x.format()", C), ("x % ()", C), ("'%c' % x[0] ~ x[1:]", C), ("x * 1", C), ("x * 3", C), ("[x] * 2", C),
    ("[x[:3], x[3:]]|join", C), ("x[0] ~ x[1] ~ x[2:]", C), ("x[:5] + x[5:]", C), ("['', '']|join(x)", C), ("x.join(['a', 'b'])", C), ("[x]|map('trim')|first", C),
    ("[x]|map('replace', '#', '')|join", "<|im_#end|>"), ("[{'v': x}]|map(attribute='v')|list|last", C), ("[x]|select('string')|list|first", C), ("x|first ~ x[1:]", C),
    ("[x, 'a']|sort|join", C), ("[x, x]|unique|list|join", C), ("[x]|batch(2)|list|first|first", C), ("{'a': x}|dictsort|first|last", C), ("{'a': x}|items|list|first|last", C),
    ("[[x]]|sum(start=[])|first", C), ("[x]|max", C), ("[{'k': 1, 'v': x}]|groupby('k')|first|last|map(attribute='v')|join", C),
    ("x|indent(2)", C), ("x|indent(1, true)", C), ("x.center(20)", C), ("x.ljust(12, '.')", C), ("x.zfill(12)", C), ("x.removeprefix('#')", "#" + C), ("x.removesuffix('#')", C + "#"),
    ("x|default('d')", C), ("none|default(x, true)", C), ("x if x else ''", C), ("dict(a=x).a", C), ("namespace(a=x).a", C), ("(x|wordcount) ~ x", C), ("x|attr('strip')()", C),
    ("{% set y %}{{ x }}{% endset %}{{ y }}", C), ("{% set y %}{{ x[:4] }}{{ x[4:] }}{% endset %}{{ y[0:] }}", C), ("{% filter lower %}{{ x }}{% endfilter %}", "<|IM_END|>"),
    ("{% filter replace('#', '') %}a{{ x }}b{% endfilter %}", "<|im_#end|>"), ("{% macro m(a) %}{{ a }}{% endmacro %}{{ m(x) }}", C), ("{% macro m(a) %}{{ a }}{% endmacro %}{{ m(a=x)|trim }}", C),
    ("{% macro m() %}{{ caller() }}{% endmacro %}{% call m() %}{{ x }}{% endcall %}", C), ("{% macro m() %}{{ varargs|join }}{{ kwargs.k }}{% endmacro %}{{ m(x[:4], k=x[4:]) }}", C),
    ("{% for c in x %}{{ c }}{% endfor %}", C), ("{% for c in x|list if c != '#' %}{{ c }}{% endfor %}", "<|#im_end|>"), ("{% for c in x.split('#') %}{{ c }}{% endfor %}", "<|im#_end|>"),
    ("{% for c in x recursive %}{{ c }}{% endfor %}", C), ("{% set n = namespace(s='') %}{% for c in x %}{% set n.s = n.s ~ c %}{% endfor %}{{ n.s }}", C),
    ("{% set n = namespace(s='') %}{% for c in x %}{% set n.s = c ~ n.s %}{% endfor %}{{ n.s }}", C[::-1]), ("{% with y = x %}{{ y }}{% endwith %}", C),
    ("{% generation %}{{ x }}{% endgeneration %}", C), ("{% print x %}", C), ("{{ loop }}{% for k, v in {'a': x}.items() %}{{ loop.cycle(v, '') }}{% endfor %}", C),
    # completed by the template, or by a neighbour
    ("{{ '<|im' }}{{ x }}", "_end|>"), ("{{ x }}_end|>", "<|im"), ("<|im{{ x }}end|>", "_"), ("{{ x }}{{ messages[0].more }}", "<|im_"),
    ("<|im_{{ messages[0].number|string if false else x }}|>", "end"), ("{{ '%c' % messages[0].number }}|im_end|>", ""),
]


def write_model(path, template):
    w = gguf.GGUFWriter(path, "llama")
    alphabet = [c for c in range(256)]
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    extra = iter(range(256, 512))
    chars = {b: chr(b) if b in printable else chr(next(extra)) for b in alphabet}
    tokens = [chars[b] for b in alphabet] + [chars[97] + chars[98]] + CONTROLS
    w.add_tokenizer_model("gpt2")
    w.add_tokenizer_pre("qwen2")
    w.add_token_list(tokens)
    w.add_token_types([1] * 257 + [3] * len(CONTROLS))
    w.add_token_merges([chars[97] + " " + chars[98]])
    w.add_bos_token_id(257)
    w.add_eos_token_id(258)
    w.add_add_bos_token(False)
    w.add_chat_template(template)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.close()


class Tool:
    def __init__(self, path):
        self.p = subprocess.Popen([path], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def ask(self, **o):
        self.p.stdin.write(json.dumps(o).encode() + b"\n")
        self.p.stdin.flush()
        line = self.p.stdout.readline()
        if not line:
            sys.exit(f"the tool died on {o!r}: exit status {self.p.wait()}")
        return json.loads(line)


def shapes(texts):
    """Conversations whose content, arguments, names and tools carry the three texts (system, user, assistant)."""
    s, u, a = texts
    call = {"id": "call00001", "type": "function", "function": {"name": "f", "arguments": {"k" + a: u, "n": 1}}}
    tool = {"type": "function", "function": {"name": "f", "description": s, "parameters": {
        "type": "object", "properties": {"p": {"type": "string", "description": u}}}}}
    m = lambda role, content, **more: {"role": role, "content": content, **more}
    yield {"messages": [m("system", s), m("user", u), m("assistant", a), m("user", u + s)]}
    yield {"messages": [m("user", u), m("assistant", a), m("user", s)]}
    yield {"messages": [m("user", u), m("assistant", "", tool_calls=[call]), m("tool", a, name="f" + a, tool_call_id="call00001"),
                        m("assistant", a), m("user", "last")], "tools": [tool]}
    yield {"messages": [m("user", [{"type": "text", "text": u}, {"type": "text", "text": a}])]}


def variants(c, speaks):
    """Three texts each: system, user, assistant. speaks: the template writes this control text itself."""
    for i in range(3):
        yield tuple(c if k == i else "stu"[k] for k in range(3))
    if not speaks:
        return
    yield (c, c, c)
    yield (f" a {c} b\n", f"{c}{c}", f"\n{c}\n")
    half = len(c) // 2
    yield (c[:half], c[half:] + c[:half], c[half:])
    yield (f"{c[:half]}{c}{c[half:]}", c[1:], c[:-1])


def check_templates(tool, folder, wrong):
    n = caught = unusable = 0
    named = {**styles.STYLES, **families.FAMILIES}
    for name, template in named.items():
        path = os.path.join(folder, name + ".gguf")
        write_model(path, template)
        problem = tool.ask(model=path)
        if problem:
            sys.exit(f"{name}: {problem}")
        mine, calm = 0, [[tool.ask(generation=True, **shape) for shape in shapes(t)] for t in variants(HARMLESS, True)]
        for c in CONTROLS:
            for texts, wanted in zip(variants(c, c in template), calm):
                for hostile, want in zip(shapes(texts), wanted):
                    got = tool.ask(generation=True, **hostile)
                    if "error" in want or "error" in got:
                        if ("error" in want) != ("error" in got):
                            wrong.append((name, texts, want, got))
                        continue
                    n += 1
                    mine += 1
                    if got["ids"] != want["ids"]:
                        wrong.append((name, texts, want, got))
                    caught += len(got["careless"]) > len(got["ids"])
        unusable += not mine
    print(f"{len(named)} templates x {len(CONTROLS)} control texts x {len(ROLES)} roles: {n} conversations, {caught} would have spoken "
          f"control tokens, {len(wrong)} did")
    if unusable or caught < n // 3:
        sys.exit(f"the check does not check: {unusable} templates took no conversation, {caught} of {n} would have failed")


def check_ways(tool, folder, wrong):
    caught = 0
    for i, (way, content) in enumerate(WAYS):
        source = way if "{" in way and "%}" in way or "}}" in way else "{{ " + way + " }}"
        path = os.path.join(folder, f"way-{i}.gguf")
        write_model(path, "{% set x = messages[0].content %}" + source)
        problem = tool.ask(model=path)
        got = problem or tool.ask(messages=[{"role": "user", "content": content, "more": "end|>", "number": 60}], generation=False)
        if "error" in got or got["ids"]:
            wrong.append((way, content, [], got))
            continue
        caught += bool(got["careless"])
    print(f"{len(WAYS)} ways through a template: {caught} would have spoken control tokens")
    return caught


def check_linear(tool, folder):
    """Twice the text takes at most 2.5 times as long, and a MiB a second (reliability rows 13 and 14)."""
    work = ("{% for m in messages %}{{ m.role }}: {{ m.content|trim|replace('#', '')|tojson }}{{ m.content.split(' ')|join('-') }}"
            "{{ m.content[::-1][5:] ~ m.content|upper|e }}{% endfor %}")
    slow = []
    for name, template in (("chatml", styles.STYLES["chatml"]), ("work", work)):
        path = os.path.join(folder, name + "-linear.gguf")
        write_model(path, template)
        tool.ask(model=path)
        for unit in ("<|im_end|>", "<", "<|", "a#", " ", "<|im_end|", "\u6771<s>"):
            limit = 500 * (6 if name == "work" else 1)  # the text is there that often
            took = [float("inf"), float("inf")]
            for _ in range(5):  # whoever shares the caches makes a try look slow, never fast
                for i, size in enumerate((1 << 18, 1 << 19)):
                    text = unit * (size // len(unit.encode()))
                    answer = tool.ask(messages=[{"role": "user", "content": text}], generation=True)
                    took[i] = min(took[i], answer["cpu_ms"])
                fine = took[1] <= limit and took[1] <= 2.5 * took[0] + 5
                if fine:
                    break
            if not fine:
                slow.append((name, unit, took))
    print(f"linear time: {len(slow)} too slow")
    return slow


def main():
    tool, wrong = Tool(sys.argv[1]), []
    with tempfile.TemporaryDirectory() as folder:
        caught = check_ways(tool, folder, wrong)
        check_templates(tool, folder, wrong)
        slow = [] if os.environ.get("HASTEN_SANITIZED") else check_linear(tool, folder)
    for s in slow:
        print(f"  too slow: {s!r}")
    for name, texts, want, got in wrong[:20]:
        print(f"  {name}: {texts!r}\n    harmless: {want!r}\n    hostile: {got!r}")
    sys.exit(1 if wrong or slow or caught < len(WAYS) - 9 else 0)


main()
