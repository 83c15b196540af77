#!/usr/bin/env python3
"""Answers that have a form: tools, JSON schemas, reasoning, in the words of OpenAI's chat and responses and of Anthropic's
messages, whole and streamed. Scripted models say what a model would; templates are those of tests/text_template.

    test_tools.py HASTEN"""

import json
import sys
import tempfile
import unittest
from pathlib import Path

import gguf

from serving import Server

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "text_template"))
import families  # noqa: E402
import styles  # noqa: E402

HASTEN = sys.argv[1]
CONTROLS = ["<|im_start|>", "<|im_end|>", "<s>", "[INST]", "[/INST]", "[TOOL_CALLS]", "[ARGS]", "<|start_header_id|>", "<|end_header_id|>",
            "<|eot_id|>", "<|python_tag|>", "<|User|>", "<|Assistant|>", "<|end_of_sentence|>", "<|tool_calls_begin|>", "<|tool_calls_end|>",
            "<|tool_call_begin|>", "<|tool_call_end|>", "<|tool_sep|>"]
THINKS = styles.STYLES["qwen3"].replace("'<|im_start|>assistant\\n'", "'<|im_start|>assistant\\n<think>\\n'")
TEMPLATES = {"hermes": families.FAMILIES["qwen25_tools"], "thinks": THINKS, "mistral": styles.STYLES["mistral_tools"],
             "deepseek": families.FAMILIES["deepseek_v3"], "llama": styles.STYLES["llama31_tools"]}
BEGINS = {"hermes": "<|im_start|>assistant\\n", "thinks": "<|im_start|>assistant\\n<think>\\n", "mistral": "[/INST]", "deepseek": "<|Assistant|>",
          "llama": "<|start_header_id|>assistant<|end_header_id|>\\n\\n"}
HERMES_CALL = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Paris"}}\n</tool_call>'
ANSWERS = { # to a prompt that ends with this word
    "hermes": {"weather": "Let me see.\n" + HERMES_CALL, "both": HERMES_CALL + '\n<tool_call>\n{"name": "now", "arguments": {}}\n</tool_call>',
               "json": '{"a": 1, "b": "x"}', "plain": "It rains.", "cut": HERMES_CALL, "wrong": '{"a": "x"}', "sunny\\n</tool_response>": "So it is sunny."},
    "thinks": {"weather": "Hm, <tool_call>?\n</think>\n\n" + HERMES_CALL, "plain": "Hm.\n</think>\n\nIt rains.", "json": 'Hm.\n</think>\n\n{"a": 1, "b": "x"}'},
    "mistral": {"weather": '[TOOL_CALLS] [{"name": "get_weather", "arguments": {"city": "Paris"}}]', "plain": "It rains."},
    "deepseek": {"weather": "<|tool_calls_begin|><|tool_call_begin|>function<|tool_sep|>get_weather\n```json\n{\"city\": \"Paris\"}\n```<|tool_call_end|><|tool_calls_end|>",
                 "plain": "It rains."},
    "llama": {"weather": '{"name": "get_weather", "parameters": {"city": "Paris"}}', "plain": "It rains."},
}
BEHIND = {"hermes": "<|im_end|>\\n", "thinks": "<|im_end|>\\n", "mistral": "", "deepseek": "", "llama": "<|eot_id|>"}
PARAMETERS = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
TOOLS = [{"type": "function", "function": {"name": "get_weather", "parameters": PARAMETERS}}, {"type": "function", "function": {"name": "now"}}]
SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "string", "maxLength": 3}}, "required": ["a", "b"], "additionalProperties": False}
FORMAT = {"type": "json_schema", "json_schema": {"name": "x", "schema": SCHEMA, "strict": True}}


def byte_letters():
    """GPT-2's letters for bytes."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    rest = iter(range(256, 512))
    return [chr(b) if b in plain else chr(next(rest)) for b in range(256)]


def write_vocabulary(path, template):
    w = gguf.GGUFWriter(path, "llama")
    letters = byte_letters()
    tokens = letters + ["".join(letters[254:])] + CONTROLS  # a merge there must be
    w.add_tokenizer_model("gpt2")
    w.add_tokenizer_pre("qwen2")
    w.add_token_list(tokens)
    w.add_token_types([gguf.TokenType.NORMAL] * 257 + [gguf.TokenType.CONTROL] * len(CONTROLS))
    w.add_token_merges([" ".join(letters[254:])])
    w.add_eos_token_id(tokens.index("<|im_end|>"))
    w.add_bos_token_id(tokens.index("<s>"))
    w.add_add_bos_token(False)
    w.add_chat_template(template)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.close()


def quoted(text):
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'


def rules_of(name):
    rules = [f'after "{word}{BEHIND[name]}{BEGINS[name]}": {quoted(answer)} eos' for word, answer in ANSWERS[name].items()]
    return "\n".join([*rules, "else eos\n"])


def setUpModule():
    global folder, servers
    folder = tempfile.TemporaryDirectory()
    servers = {}
    for name, template in TEMPLATES.items():
        base = Path(folder.name) / name
        write_vocabulary(base.with_suffix(".gguf"), template)
        base.with_suffix(".rules").write_text(rules_of(name))
        servers[name] = Server(HASTEN, f"script:{base}.rules,vocab={base}.gguf", "--alias", "m", "-c", 2048)


def tearDownModule():
    statuses = [s.stop() for s in servers.values()]
    folder.cleanup()
    if any(statuses):
        raise AssertionError(f"exit statuses {statuses}")


def chat(name, text, **fields):
    return servers[name].chat(text, temperature=0, **fields)


def message(name, text, **fields):
    a = chat(name, text, **fields)
    if a.status != 200:
        raise AssertionError(a.body)
    return a.json()["choices"][0]


def calls(m):
    return [(c["function"]["name"], json.loads(c["function"]["arguments"])) for c in m.get("tool_calls", [])]


class Chat(unittest.TestCase):
    def test_calls_of_each_family(self):
        for name in TEMPLATES:
            for choice in ("auto", "required", {"type": "function", "function": {"name": "get_weather"}}):
                if choice != "auto" and name == "hermes":
                    continue  # this one says something before its call
                with self.subTest(name, choice=choice):
                    c = message(name, "weather", tools=TOOLS, tool_choice=choice)
                    self.assertEqual(calls(c["message"]), [("get_weather", {"city": "Paris"})])
                    self.assertEqual(c["finish_reason"], "tool_calls")
                    self.assertRegex(c["message"]["tool_calls"][0]["id"], "^[0-9A-Za-z]{9}$" if name == "mistral" else "^call_[0-9A-Za-z]{24}$")
                    self.assertEqual(c["message"]["content"], "Let me see." if name == "hermes" else None)

    def test_text_beside_tools(self):
        for name in TEMPLATES:
            c = message(name, "plain", tools=TOOLS)
            self.assertEqual((c["message"]["content"], c["finish_reason"]), ("It rains.", "stop"), name)
            self.assertNotIn("tool_calls", c["message"])

    def test_required(self):
        """The model would say something else; arguments fit the schema whatever it says."""
        for name in TEMPLATES:
            if name == "thinks":
                continue
            c = message(name, "plain", tools=TOOLS[:1], tool_choice="required", max_tokens=60)
            self.assertEqual(c["message"]["tool_calls"][0]["function"]["name"], "get_weather", name)

    def test_streams(self):
        for name in TEMPLATES:
            events = chat(name, "weather", tools=TOOLS, stream=True).events()
            self.assertEqual(events.pop(), "[DONE]")
            deltas = [e["choices"][0]["delta"] for e in events]
            parts = [d["tool_calls"][0] for d in deltas if "tool_calls" in d]
            self.assertEqual((parts[0]["index"], parts[0]["type"], parts[0]["function"]["name"]), (0, "function", "get_weather"))
            self.assertNotIn("name", parts[1]["function"])
            arguments = "".join(p["function"]["arguments"] for p in parts)
            self.assertEqual(json.loads(arguments), {"city": "Paris"})
            self.assertGreater(len(parts), 5, "arguments come in pieces")
            self.assertEqual("".join(d.get("content") or "" for d in deltas), "Let me see." if name == "hermes" else "")
            self.assertEqual(events[-1]["choices"][0]["finish_reason"], "tool_calls")
            if name == "thinks":
                self.assertEqual("".join(d.get("reasoning_content", "") for d in deltas), "Hm, <tool_call>?")

    def test_parallel(self):
        c = message("hermes", "both", tools=TOOLS)
        self.assertEqual(calls(c["message"]), [("get_weather", {"city": "Paris"}), ("now", {})])
        self.assertEqual(len({k["id"] for k in c["message"]["tool_calls"]}), 2)
        c = message("hermes", "both", tools=TOOLS, parallel_tool_calls=False)
        self.assertEqual(calls(c["message"]), [("get_weather", {"city": "Paris"})])
        events = chat("hermes", "both", tools=TOOLS, stream=True).events()[:-1]
        indices = [d["tool_calls"][0]["index"] for e in events for d in [e["choices"][0]["delta"]] if "tool_calls" in d]
        self.assertEqual(sorted(indices), indices)
        self.assertEqual(set(indices), {0, 1})

    def test_choice(self):
        c = message("hermes", "weather", tools=TOOLS, tool_choice="none")
        self.assertNotIn("tool_calls", c["message"])
        for fields, param in (({"tool_choice": "required"}, "tool_choice"), ({"tools": TOOLS, "tool_choice": "maybe"}, "tool_choice"),
                              ({"tools": TOOLS, "tool_choice": {"type": "function", "function": {"name": "x"}}}, "tool_choice"),
                              ({"tools": [{"type": "function"}]}, "tools"), ({"tools": [3]}, "tools"), ({"tools": {}}, "tools"),
                              ({"tools": TOOLS, "parallel_tool_calls": "x"}, "parallel_tool_calls")):
            a = chat("hermes", "plain", **fields)
            self.assertEqual((a.status, a.error()["param"]), (400, param), a.body)

    def test_schemas_that_are_refused(self):
        tool = {"type": "function", "function": {"name": "f", "parameters": {"not": {}}}}
        a = chat("hermes", "plain", tools=[tool]).json()
        self.assertRegex(a["warnings"][0], "tools.0..*'not'")
        tool["function"]["strict"] = True
        a = chat("hermes", "plain", tools=[tool])
        self.assertEqual((a.status, a.error()["param"]), (400, "tools"))

    def test_history(self):
        """Calls and what they gave, as clients send them back."""
        for arguments in ('{"city": "Paris"}', {"city": "Paris"}):
            messages = [{"role": "user", "content": "weather"}, {"role": "assistant", "content": None, "tool_calls": [
                {"id": "call_1", "type": "function", "function": {"name": "get_weather", "arguments": arguments}}]},
                {"role": "tool", "tool_call_id": "call_1", "content": "sunny"}]
            a = servers["hermes"].post("/v1/chat/completions", {"messages": messages, "tools": TOOLS, "temperature": 0}).json()
            self.assertEqual(a["choices"][0]["message"]["content"], "So it is sunny.")
            text = servers["hermes"].post("/apply-template", {"messages": messages, "tools": TOOLS}).json()["prompt"]
            self.assertIn('{"name": "get_weather", "arguments": {"city": "Paris"}}', text)
        for bad in ({}, [3], [{"function": {}}], "x"):
            messages[1]["tool_calls"] = bad
            a = servers["hermes"].post("/v1/chat/completions", {"messages": messages})
            self.assertIn(a.status, (400,) if bad else (400, 200), a.body)

    def test_cut(self):
        c = message("hermes", "cut", tools=TOOLS, max_tokens=60)
        self.assertEqual(c["finish_reason"], "length")
        self.assertTrue('{"city": "Paris"}'.startswith(c["message"]["tool_calls"][0]["function"]["arguments"]))

    def test_formats(self):
        for name in ("hermes", "thinks"):
            for form in (FORMAT, {"type": "json_object"}):
                c = message(name, "json", response_format=form)
                self.assertEqual(json.loads(c["message"]["content"]), {"a": 1, "b": "x"})
        self.assertEqual(json.loads(message("hermes", "json", json_schema=SCHEMA)["message"]["content"]), {"a": 1, "b": "x"})
        value = json.loads(message("hermes", "wrong", response_format=FORMAT, max_tokens=300)["message"]["content"])
        self.assertEqual((set(value), type(value["a"])), ({"a", "b"}, int))
        a = servers["hermes"].complete("json<|im_end|>\n<|im_start|>assistant\n", response_format=FORMAT, temperature=0)
        self.assertEqual(json.loads(a.json()["choices"][0]["text"]), {"a": 1, "b": "x"})
        c = message("hermes", "json", response_format=FORMAT, tools=TOOLS)
        self.assertEqual(json.loads(c["message"]["content"]), {"a": 1, "b": "x"})
        self.assertEqual(calls(message("llama", "weather", response_format=FORMAT, tools=TOOLS)["message"]), [("get_weather", {"city": "Paris"})])
        for bad in ({"type": "xml"}, {"type": "json_schema"}, {"type": "json_schema", "json_schema": {"schema": {"not": {}}}}, {"type": "json_schema", "json_schema": 3}):
            a = chat("hermes", "json", response_format=bad)
            self.assertEqual((a.status, a.error()["param"]), (400, "response_format"), a.body)

    def test_reasoning(self):
        c = message("thinks", "plain")
        self.assertEqual((c["message"]["content"], c["message"]["reasoning_content"]), ("It rains.", "Hm."))
        deltas = [e["choices"][0]["delta"] for e in chat("thinks", "plain", stream=True).events()[:-1]]
        self.assertEqual("".join(d.get("reasoning_content", "") for d in deltas), "Hm.")
        self.assertEqual("".join(d.get("content", "") for d in deltas), "It rains.")

    def test_model_without_tools(self):
        with Server(HASTEN, "script:hash=1,length=5", "-c", 512) as s:
            a = s.chat("x", tools=TOOLS)
            self.assertEqual((a.status, a.error()["param"]), (400, "tools"))
            self.assertEqual(s.chat("x", tools=TOOLS, tool_choice="none").status, 200)


class Messages(unittest.TestCase):
    """Anthropic's words, byte for byte; test_clients.py asks by its client."""
    TOOLS = [{"name": "get_weather", "description": "of a place", "input_schema": PARAMETERS}]

    def ask(self, name, content, **fields):
        return servers[name].post("/v1/messages", {"model": "m", "max_tokens": 300, "temperature": 0, "messages": [{"role": "user", "content": content}]} | fields,
                                  headers={"x-api-key": "k", "anthropic-version": "2023-06-01"})

    def test_text(self):
        a = self.ask("hermes", "plain", system="Be brief.").json()
        self.assertEqual((a["type"], a["role"], a["model"], a["stop_reason"], a["stop_sequence"]), ("message", "assistant", "m", "end_turn", None))
        self.assertTrue(a["id"].startswith("msg_"))
        self.assertEqual(a["content"], [{"type": "text", "text": "It rains."}])
        self.assertEqual(a["usage"]["output_tokens"], len("It rains.") + 1)
        self.assertGreater(a["usage"]["input_tokens"] + a["usage"]["cache_read_input_tokens"], 10)

    def test_calls(self):
        for choice in (None, {"type": "auto"}):
            a = self.ask("hermes", [{"type": "text", "text": "weather"}], tools=self.TOOLS, **({"tool_choice": choice} if choice else {})).json()
            self.assertEqual(a["stop_reason"], "tool_use")
            self.assertEqual([b["type"] for b in a["content"]], ["text", "tool_use"])
            self.assertEqual((a["content"][1]["name"], a["content"][1]["input"]), ("get_weather", {"city": "Paris"}))
        for choice in ({"type": "any"}, {"type": "tool", "name": "get_weather"}):
            a = self.ask("llama", "weather", tools=self.TOOLS, tool_choice=choice).json()
            self.assertEqual([b["type"] for b in a["content"]], ["tool_use"])

    def test_results(self):
        messages = [{"role": "user", "content": "weather"},
                    {"role": "assistant", "content": [{"type": "thinking", "thinking": "hm", "signature": ""}, {"type": "text", "text": "ok"},
                                                      {"type": "tool_use", "id": "t", "name": "get_weather", "input": {"city": "Paris"}}]},
                    {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": [{"type": "text", "text": "sunny"}]}]}]
        a = self.ask("hermes", "", messages=messages, tools=self.TOOLS).json()
        self.assertEqual(a["content"][0]["text"], "So it is sunny.")
        n = servers["hermes"].post("/v1/messages/count_tokens", {"model": "m", "messages": messages, "tools": self.TOOLS}).json()
        self.assertEqual(n["input_tokens"], a["usage"]["input_tokens"] + a["usage"]["cache_read_input_tokens"])

    def test_stream(self):
        events = self.ask("thinks", "weather", tools=self.TOOLS, stream=True).events()
        kinds = [e["type"] for e in events]
        self.assertEqual((kinds[0], kinds[-2:]), ("message_start", ["message_delta", "message_stop"]))
        starts = [e["content_block"]["type"] for e in events if e["type"] == "content_block_start"]
        self.assertEqual(starts, ["thinking", "tool_use"])
        self.assertEqual([e["index"] for e in events if e["type"] == "content_block_stop"], [0, 1])
        deltas = [e["delta"] for e in events if e["type"] == "content_block_delta"]
        self.assertEqual("".join(d.get("thinking", "") for d in deltas), "Hm, <tool_call>?")
        self.assertEqual(json.loads("".join(d.get("partial_json", "") for d in deltas)), {"city": "Paris"})
        self.assertEqual(events[-2]["delta"]["stop_reason"], "tool_use")

    def test_ends(self):
        self.assertEqual(self.ask("hermes", "plain", max_tokens=3).json()["stop_reason"], "max_tokens")
        a = self.ask("hermes", "plain", stop_sequences=["rain"]).json()
        self.assertEqual((a["stop_reason"], a["stop_sequence"], a["content"][0]["text"]), ("stop_sequence", "rain", "It "))

    def test_refused(self):
        for fields, param in (({"messages": []}, "messages"), ({"messages": [{"role": "user", "content": [{"type": "image"}]}]}, "messages.0.content.0"),
                              ({"messages": [{"role": "x", "content": ""}]}, "messages.0"), ({"tools": [{"type": "bash_20250124", "name": "bash"}]}, "tools"),
                              ({"tool_choice": {"type": "x"}}, "tool_choice"), ({"temperature": -1}, "temperature"), ({"system": 3}, "system"),
                              ({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]}, "messages.1"),
                              ({"messages": 3}, "messages"), ({"tools": 3}, "tools"), ({"stop_sequences": 3}, "stop"), ({"thinking": 3}, "thinking")):
            a = self.ask("hermes", "x", **fields)
            self.assertEqual((a.status, a.json()["type"], a.error()["param"]), (400, "error", param), a.body)
            self.assertEqual(a.error()["type"], "invalid_request_error")


class Responses(unittest.TestCase):
    TOOLS = [{"type": "function", "name": "get_weather", "parameters": PARAMETERS, "strict": True}]

    def ask(self, name, content, **fields):
        return servers[name].post("/v1/responses", {"model": "m", "input": content, "temperature": 0} | fields)

    def test_text(self):
        a = self.ask("hermes", "plain", instructions="Be brief.").json()
        self.assertEqual((a["object"], a["status"], a["output"][0]["type"]), ("response", "completed", "message"))
        self.assertEqual(a["output"][0]["content"][0]["text"], "It rains.")
        a = self.ask("thinks", [{"role": "user", "content": [{"type": "input_text", "text": "plain"}]}]).json()
        self.assertEqual([(i["type"], i["content"][0]["text"]) for i in a["output"]], [("reasoning", "Hm."), ("message", "It rains.")])
        a = self.ask("hermes", "plain", max_output_tokens=2).json()
        self.assertEqual((a["status"], a["incomplete_details"]), ("incomplete", {"reason": "max_output_tokens"}))

    def test_calls(self):
        a = self.ask("hermes", "weather", tools=self.TOOLS).json()
        self.assertEqual([i["type"] for i in a["output"]], ["message", "function_call"])
        call = a["output"][1]
        self.assertEqual((call["name"], json.loads(call["arguments"])), ("get_weather", {"city": "Paris"}))
        items = [{"role": "user", "content": "weather"}, *a["output"], {"type": "function_call_output", "call_id": call["call_id"], "output": "sunny"}]
        self.assertEqual(self.ask("hermes", items, tools=self.TOOLS).json()["output"][0]["content"][0]["text"], "So it is sunny.")

    def test_format(self):
        a = self.ask("hermes", "json", text={"format": {"type": "json_schema", "name": "x", "schema": SCHEMA}}).json()
        self.assertEqual(json.loads(a["output"][0]["content"][0]["text"]), {"a": 1, "b": "x"})

    def test_stream(self):
        events = self.ask("thinks", "weather", tools=self.TOOLS, stream=True).events()
        self.assertEqual([e["sequence_number"] for e in events], list(range(len(events))))
        self.assertEqual((events[0]["type"], events[-1]["type"]), ("response.created", "response.completed"))
        self.assertEqual("".join(e["delta"] for e in events if e["type"] == "response.function_call_arguments.delta"), '{"city": "Paris"}')
        self.assertEqual("".join(e["delta"] for e in events if e["type"] == "response.reasoning_text.delta"), "Hm, <tool_call>?")
        whole = events[-1]["response"]
        self.assertEqual([i["type"] for i in whole["output"]], ["reasoning", "function_call"])
        self.assertEqual(whole["output"], [e["item"] for e in events if e["type"] == "response.output_item.done"])

    def test_refused(self):
        for fields, param in (({"input": 3}, "input"), ({"input": [{"type": "x"}]}, "input[0]"), ({"previous_response_id": "r"}, "previous_response_id"),
                              ({"tools": [{"type": "web_search"}]}, "tools"), ({"background": True}, "background"), ({"instructions": 3}, "instructions"),
                              ({"text": {"format": {"type": "xml"}}}, "response_format"), ({"text": 1}, "text"),
                              ({"messages": []}, "messages"), ({"input": [{"role": "user", "content": [{"type": "input_image"}]}]}, "input[0].content")):
            a = self.ask("hermes", "x", **fields)
            self.assertEqual((a.status, a.error()["param"]), (400, param), a.body)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
