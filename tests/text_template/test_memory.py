"""Every allocation of parsing and rendering fails in turn (once, and it and all after it): the answer is "no memory",
nothing leaks, nothing crashes. usage: test_memory.py TOOL"""
import json
import subprocess
import sys

import conversations
import snippets
import styles

NAMES = ["chatml", "llama31_tools", "mistral_tools", "deepseek", "hermes_tools", "qwen3", "macro_call", "filter_block",
         "tojson_forms", "python_repr", "namespace_counters", "granite_block_set", "whitespace", "with_scopes"]
BIG = ["{% for i in range(3000) %}{{ i }}{{ s|upper }}{% set x = l + [i] %}{% endfor %}",
       "{{ range(5000)|list|sort(reverse=true)|map('string')|unique|join }}", "{{ 'ab' * 100000 }}",
       "{% set n = namespace(s='') %}{% for i in range(2000) %}{% set n.s = n.s + 'abcdefgh' %}{% endfor %}{{ n.s }}",
       "{{ dict(d, x=1)|tojson(indent=2) }}{{ lines|indent }}" * 50]


def main():
    cases = [(styles.STYLES[n], conversations.CONVERSATIONS[i]) for n in NAMES for i in (1, 6)]
    cases += [(t, snippets.CONTEXT) for t in BIG]
    lines = "".join(json.dumps({"sweep": c}) + "\n" for c in cases)
    p = subprocess.run([sys.argv[1]], input=lines.encode(), stdout=subprocess.PIPE)
    answers = [json.loads(a) for a in p.stdout.splitlines()]
    bad = [(c[0][:80], a) for c, a in zip(cases, answers) if "swept" not in a]
    swept = sum(a.get("swept", 0) for a in answers)
    print(f"{len(answers)} of {len(cases)} renderings swept, {swept} allocations failed once and for ever, {len(bad)} wrong")
    for b in bad:
        print(" ", b)
    sys.exit(1 if bad or len(answers) != len(cases) or p.returncode or swept < 200 else 0)


main()
