#!/usr/bin/env python3
"""Tool calls there and back: calls rendered as history by templates of each family, parsed back however the text is cut, and
allowed by the grammar of the family; what is no call stays content.

    test_tools.py TOOL CORPUS        CORPUS: the files of fuzz/tool_parser_fuzz.c, which must be as this makes them
    test_tools.py --make CORPUS"""

import json
import pathlib
import random
import subprocess
import sys
import unittest

import families
import styles

TOOL, CORPUS = sys.argv[1], pathlib.Path(sys.argv[2])

# A template of each family; what ends an answer there; forms that only it has.
HERMES = families.FAMILIES["qwen25_tools"]
WIDE = families.FAMILIES["deepseek_v3"]
for name in ("tool_calls_begin", "tool_calls_end", "tool_call_begin", "tool_call_end", "tool_sep"):
    WIDE = WIDE.replace(f"<|{name}|>", "<｜" + name.replace("_", "▁") + "｜>")
BARE = r"""{%- for m in messages -%}{%- if m.role == 'user' -%}<｜User｜>{{ m.content }}{%- elif m.role == 'assistant' -%}<｜Assistant｜>{{ m.content or '' }}
{%- if m.tool_calls -%}<｜tool▁calls▁begin｜>{%- for c in m.tool_calls -%}<｜tool▁call▁begin｜>{{ c.function.name }}<｜tool▁sep｜>{{ c.function.arguments | tojson }}<｜tool▁call▁end｜>{%- endfor -%}
<｜tool▁calls▁end｜>{%- endif -%}<｜end▁of▁sentence｜>{%- endif -%}{%- endfor -%}{%- if add_generation_prompt -%}<｜Assistant｜>{%- endif -%}"""
TEMPLATES = {
    "hermes": (HERMES, "<|im_end|>\n", "hermes"),
    "qwen3": (styles.STYLES["qwen3"], "<|im_end|>\n", "hermes"),
    "llama3.1": (styles.STYLES["llama31_tools"], "<|eot_id|>", "llama3"),
    "llama3.2": (families.FAMILIES["llama32_tools"], "<|eot_id|>", "llama3"),
    "mistral": (styles.STYLES["mistral_tools"], "</s>", "mistral"),
    "mistral with [ARGS]": (families.FAMILIES["mistral_tekken"], "</s>", "mistral"),
    "deepseek": (families.FAMILIES["deepseek_v3"], "<|end_of_sentence|>", "deepseek"),
    "deepseek, wide": (WIDE, "<|end_of_sentence|>", "deepseek"),
    "deepseek 3.1": (BARE, "<｜end▁of▁sentence｜>", "deepseek"),
}
OTHERS = ("chatml", "gemma", "qwen3_coder", "falcon", "phi4")

TOOLS = [
    {"type": "function", "function": {"name": "get_weather", "description": "of a place", "parameters": {
        "type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer", "minimum": 1}}, "required": ["city"]}}},
    {"type": "function", "function": {"name": "run-2", "parameters": {
        "type": "object", "properties": {"code": {"type": "string"}, "options": {"type": "object", "additionalProperties": {"type": "string"}}}, "required": ["code"]}}},
    {"type": "function", "function": {"name": "now"}},
]
CALLS = [
    [("get_weather", {"city": "Paris"})],
    [("get_weather", {"city": "São \"Paulo\"\\\n", "days": 3})],
    [("run-2", {"code": "if (a[0] == '}') {\n\treturn \"</tool_call>\";\n}", "options": {"x": "[1]"}})],
    [("get_weather", {"city": "A"}), ("run-2", {"code": ""}), ("get_weather", {"city": "B", "days": 1})],
    [("now", {})],
]


class Tool:
    def __init__(self):
        self.p = subprocess.Popen([TOOL], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8")

    def ask(self, **q):
        self.p.stdin.write(json.dumps(q) + "\n")
        self.p.stdin.flush()
        return json.loads(self.p.stdout.readline())


def message(calls, content, strings):
    return {"role": "assistant", "content": content, "tool_calls": [
        {"id": f"call0000{i}", "type": "function", "function": {"name": n, "arguments": json.dumps(a, ensure_ascii=False) if strings else a}}
        for i, (n, a) in enumerate(calls)]}


def cuts(r, text):
    n = len(text.encode())
    return sorted(r.randrange(n + 1) for _ in range(r.choice([0, 1, 3, 20, n])))


class Tools(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.tool = Tool()

    @classmethod
    def tearDownClass(cls):
        cls.tool.p.stdin.close()
        cls.tool.p.wait()
        cls.tool.p.stdout.close()

    def rendered(self, name, calls, content):
        """What the model would have written: the history with the answer, less the history with a prompt for one."""
        source, end, family = TEMPLATES[name]
        common = {"bos_token": "<s>", "eos_token": "</s>", "tools": TOOLS, "date_string": "1 Jan 2025"}
        user = {"role": "user", "content": "hello"}
        strings = name == "deepseek" or name == "deepseek, wide"
        whole = self.tool.ask(template=source, context={**common, "messages": [user, message(calls, content, strings)], "add_generation_prompt": False})
        begun = self.tool.ask(template=source, context={**common, "messages": [user], "add_generation_prompt": True})
        self.assertNotIn("error", whole)
        self.assertEqual(whole["family"], family)
        text, prompt = whole["text"], begun["text"]
        n = 0
        while n < min(len(text), len(prompt)) and text[n] == prompt[n]:
            n += 1
        answer = text[n:]
        self.assertTrue(answer.endswith(end.strip()) or answer.endswith(end), answer)
        return answer[:answer.rindex(end.strip())].rstrip("\n") if end.strip() in answer else answer

    def cases(self):
        for name, (_, _, family) in TEMPLATES.items():
            for calls in CALLS:
                if family == "llama3" and len(calls) > 1:
                    continue
                for content in ("", "Let me see.") if name in ("hermes", "qwen3", "deepseek", "deepseek, wide") else ("",):
                    yield name, calls, content

    def test_there_and_back(self):
        r = random.Random(1)
        for name, calls, content in self.cases():
            answer = self.rendered(name, calls, content)
            for _ in range(6):
                a = self.tool.ask(template=TEMPLATES[name][0], answer=answer, cuts=cuts(r, answer))
                with self.subTest(name, calls=calls, answer=answer):
                    self.assertEqual([(c["name"], json.loads(c["arguments"])) for c in a["calls"]], calls)
                    self.assertEqual(a["content"], content)

    def test_grammar_allows_what_templates_write(self):
        for name, calls, content in self.cases():
            answer = self.rendered(name, calls, content).lstrip("\n")
            for choice in ("auto", "required", calls[0][0]):
                a = self.tool.ask(template=TEMPLATES[name][0], tools=TOOLS, choice=choice, parallel=True, texts=[answer, answer[:-1], answer + "x"])
                with self.subTest(name, calls=calls, choice=choice, answer=answer):
                    fits = not content or choice == "auto"
                    if choice not in ("auto", "required"):
                        fits = fits and all(n == choice for n, _ in calls)
                    self.assertEqual(a["fits"], [fits, False, False], a)

    def test_grammar(self):
        def fits(texts, **q):
            return self.tool.ask(template=HERMES, tools=TOOLS, texts=texts, **q)["fits"]

        call = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "x"}}\n</tool_call>'
        self.assertEqual(fits(["hello", "", "a <tool_cal b", call, "a\n" + call, call + "\n" + call], choice="auto", parallel=True), [True] * 6)
        self.assertEqual(fits([call + "\n" + call, "<tool_call>", "hello"], choice="required", parallel=False), [False] * 3)
        self.assertEqual(fits([call.replace("city", "town"), call.replace("get_weather", "other"), call.replace('"x"', "3")], choice="auto", parallel=True), [False] * 3)
        thought = "hm <tool_call>\n</think>\n\n"
        self.assertEqual(fits([thought + call, call], choice="required", parallel=False, thinking=True), [True, False])
        qwen = {"template": TEMPLATES["qwen3"][0], "tools": TOOLS, "parallel": False}
        self.assertEqual(self.tool.ask(**qwen, choice="required", texts=["<think>\n" + thought + call, call, "<think>" + call])["fits"], [True, True, False])
        llama = {"template": TEMPLATES["llama3.1"][0], "tools": TOOLS, "parallel": False}
        self.assertEqual(self.tool.ask(**llama, choice="auto", texts=["hello", '{"name": "now", "parameters": {}}', "{x}", " {"])["fits"], [True, True, False, False])

    def test_schemas_that_are_refused(self):
        tool = {"type": "function", "function": {"name": "f", "parameters": {"not": {}}}}
        call = '<tool_call>\n{"name": "f", "arguments": {"any": [1]}}\n</tool_call>'
        a = self.tool.ask(template=HERMES, tools=[tool], choice="required", parallel=False, texts=[call])
        self.assertEqual(a["fits"], [True])
        self.assertRegex(a["notes"][0], r"tools\[0\].*'not'.*any object")
        tool["function"]["strict"] = True
        self.assertRegex(self.tool.ask(template=HERMES, tools=[tool], choice="required", parallel=False, texts=[])["error"], r"tools\[0\].*'not'.*unsupported")
        for tools, word in (([{}], "name"), ([{"type": "function", "function": {"name": "a\"b"}}], "name"), ([], "none")):
            self.assertIn(word, self.tool.ask(template=HERMES, tools=tools, choice="auto", parallel=False, texts=[])["error"])
        self.assertIn("'g'", self.tool.ask(template=HERMES, tools=TOOLS, choice="g", parallel=False, texts=[])["error"])

    def test_other_templates(self):
        known = {**families.FAMILIES, **styles.STYLES}
        for name in OTHERS:
            a = self.tool.ask(template=known[name], tools=TOOLS, choice="auto", parallel=False, texts=[])
            self.assertEqual(a["family"], "none", name)
            self.assertIn("unsupported", a["error"])
            text = "<tool_call>\n{\"name\": \"f\"}\n</tool_call> [TOOL_CALLS] \n"
            self.assertEqual(self.tool.ask(template=known[name], answer=text)["content"], text)

    def test_answers(self):
        """By hand: (template, thinking, answer, content, reasoning, calls)."""
        hermes, llama, mistral, args, deep = (TEMPLATES[n][0] for n in ("hermes", "llama3.1", "mistral", "mistral with [ARGS]", "deepseek"))
        for source, thinking, answer, content, reasoning, calls in (
            (hermes, False, " plain\n text \n", " plain\n text \n", "", []),
            (hermes, False, "<think>\nhm\n\n</think>\n\nyes", "yes", "hm", []),
            (hermes, False, "  <think></think>yes", "yes", "", []),
            (hermes, True, "hm</think> yes", "yes", "hm", []),
            (hermes, True, "\nhm, cut", "", "hm, cut", []),
            (hermes, False, "a <think>b</think>", "a <think>b</think>", "", []),
            (hermes, False, "<thin", "<thin", "", []),
            (hermes, False, "a <tool_call", "a <tool_call", "", []),
            (hermes, False, "a\n<tool_call>{\"name\":\"f\",\"arguments\":{}}</tool_call>\nb", "ab", "", [("f", "{}")]),
            (hermes, False, '<tool_call>{"arguments": {"a":1}, "name": "f"}</tool_call>', "", "", [("f", '{"a":1}')]),
            (hermes, False, '<tool_call>{"name": "f"}</tool_call>', "", "", [("f", "{}")]),
            (hermes, False, '<tool_call>{"name": "f", "arguments": "{\\"a\\": \\"\\u00e9\\"}"}', "", "", [("f", '{"a": "é"}')]),
            (hermes, False, '<tool_call>\n{"name": "f", "arguments": {"a": [1, "x}', "", "", [("f", '{"a": [1, "x}')]),
            (hermes, False, "<tool_call>nothing</tool_call>", "<tool_call>nothing</tool_call>", "", []),
            (hermes, False, '<tool_call>{"nam', '<tool_call>{"nam', "", []),
            (hermes, False, '<tool_call>{"x": 1}</tool_call>', '<tool_call>{"x": 1}</tool_call>', "", []),
            (hermes, True, 'use <tool_call>?</think><tool_call>{"name": "f", "arguments": {"b":"\\"}"}}</tool_call>', "", "use <tool_call>?", [("f", '{"b":"\\"}"}')]),
            (llama, False, '{"name": "f", "parameters": {"a": 1}}', "", "", [("f", '{"a": 1}')]),
            (llama, False, ' <|python_tag|>{"name": "f", "parameters": {"a": 1}}', "", "", [("f", '{"a": 1}')]),
            (llama, False, '{"a": 1}', '{"a": 1}', "", []),
            (llama, False, 'so {"name": "f"}', 'so {"name": "f"}', "", []),
            (mistral, False, '[TOOL_CALLS][{"name": "f", "arguments": {"a": 1}}, {"name":"g","arguments":{},"id":"123456789"}]', "", "", [("f", '{"a": 1}'), ("g", "{}")]),
            (mistral, False, '[TOOL_CALLS] {"name": "f", "arguments": {"a": 1}}', "", "", [("f", '{"a": 1}')]),
            (args, False, 'ok[TOOL_CALLS]f[ARGS]{"a": 1}[TOOL_CALLS]g{"b":[]}', "ok", "", [("f", '{"a": 1}'), ("g", '{"b":[]}')]),
            (args, False, '[TOOL_CALLS]f[CALL_ID]123456789[ARGS]{"a": 1}', "", "", [("f", '{"a": 1}')]),
            (deep, False, "x<|tool_calls_begin|><|tool_call_begin|>function<|tool_sep|>f\n```json\n{\"a\":\n1}\n```<|tool_call_end|><|tool_calls_end|>", "x", "", [("f", '{"a":\n1}')]),
            (deep, False, "<|tool_call_begin|>f<|tool_sep|>{}<|tool_call_end|>", "", "", [("f", "{}")]),
        ):
            r = random.Random(answer)
            for _ in range(8):
                a = self.tool.ask(template=source, thinking=thinking, answer=answer, cuts=cuts(r, answer))
                with self.subTest(answer=answer):
                    self.assertEqual((a["content"], a["reasoning"], [(c["name"], c["arguments"]) for c in a["calls"]]), (content, reasoning, calls))

    def test_arguments_come_as_they_are_written(self):
        answer = '<tool_call>\n{"name": "f", "arguments": {"text": "' + "abc " * 50 + '"}}\n</tool_call>'
        a = self.tool.ask(template=HERMES, answer=answer, cuts=list(range(0, len(answer), 4)))
        self.assertGreater(a["pieces"], 40)

    def test_corpus(self):
        made = corpus()
        self.assertGreater(len(made), 20)
        for name, data in made.items():
            self.assertEqual((CORPUS / name).read_bytes(), data, name)


def corpus():
    texts = {1: ['a\n<tool_call>\n{"name": "f", "arguments": {"a": "b"}}\n</tool_call>\n<tool_call>', '<tool_call>{"arguments":"{}","name":"f"}</tool_call>b', "<think>a</think>b", "<tool_call>x"],
             2: ['{"name": "f", "parameters": {"a": [1]}}', '<|python_tag|>{"name":"f"}', '{"x": {}}'],
             3: ['[TOOL_CALLS] [{"name": "f", "arguments": {}}, {"name": "g", "id": "1"}]', "[TOOL_CALLS]{", '[TOOL_CALLS]f{}'],
             4: ['[TOOL_CALLS]f[ARGS]{"a":"\\"}"}[TOOL_CALLS]g[CALL_ID]1[ARGS]{}', "a[TOOL_CALLS]"],
             5: ["<|tool_calls_begin|><|tool_call_begin|>function<|tool_sep|>f\n```json\n{}\n```<|tool_call_end|>\n<|tool_call_begin|>x<|tool_calls_end|>y", "<|tool_sep|>"],
             6: ["<|tool_calls_begin|><|tool_call_begin|>f<|tool_sep|>{}<|tool_call_end|><|tool_calls_end|>"],
             0x46: ["<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>f<｜tool▁sep｜>{}<｜tool▁call▁end｜>"],
             0x81: ["hm</think>\n\n<tool_call>{}</tool_call>", "hm"], 0: ["a <tool_call>", "  <think>b</think>"]}
    return {f"form-{family:02x}-{i}-{cut}": bytes([family, cut]) + t.encode() for family, ts in texts.items() for i, t in enumerate(ts) for cut in (0, 6)}


if __name__ == "__main__":
    if TOOL == "--make":
        CORPUS.mkdir(parents=True, exist_ok=True)
        for name, data in corpus().items():
            (CORPUS / name).write_bytes(data)
    else:
        unittest.main(argv=sys.argv[:1])
