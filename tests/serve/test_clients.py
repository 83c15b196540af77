#!/usr/bin/env python3
"""Tools, schemas and reasoning by the official clients of OpenAI and Anthropic, over scripted models.

    test_clients.py HASTEN"""

import json
import sys
import tempfile
import unittest
from pathlib import Path
from typing import Literal, Optional

import anthropic
import openai
from pydantic import BaseModel, Field

import test_tools as scripted
from serving import Server

HASTEN = sys.argv[1]
EXTRA = {"extra_body": {"temperature": 0}}


class Pair(BaseModel):
    a: int = Field(ge=-5, le=5)
    b: str = Field(max_length=3)
    kind: Optional[Literal["x", "y"]] = None


class Weather(BaseModel):
    """The weather of a place."""
    city: str


def setUpModule():
    global folder, servers
    folder, servers = tempfile.TemporaryDirectory(), {}
    for name in ("hermes", "thinks"):
        base = Path(folder.name) / name
        scripted.write_vocabulary(base.with_suffix(".gguf"), scripted.TEMPLATES[name])
        base.with_suffix(".rules").write_text(scripted.rules_of(name))
        servers[name] = Server(HASTEN, f"script:{base}.rules,vocab={base}.gguf", "--alias", "m", "-c", 2048)


def tearDownModule():
    statuses = [s.stop() for s in servers.values()]
    folder.cleanup()
    if any(statuses):
        raise AssertionError(f"exit statuses {statuses}")


def said(text):
    return [{"role": "user", "content": text}]


class OpenAI(unittest.TestCase):
    TOOLS = [openai.pydantic_function_tool(Weather, name="get_weather")]

    def setUp(self):
        self.hermes, self.thinks = (openai.OpenAI(base_url=f"http://127.0.0.1:{servers[n].port}/v1", api_key="k", max_retries=0) for n in ("hermes", "thinks"))
        self.addCleanup(self.hermes.close)
        self.addCleanup(self.thinks.close)

    def test_parsed_format(self):
        r = self.hermes.chat.completions.parse(model="m", messages=said("json"), temperature=0, response_format=Pair)
        pair = r.choices[0].message.parsed  # the client makes all properties required
        self.assertEqual((pair.a, pair.b), (1, "x"))
        pair = self.hermes.responses.parse(model="m", input="json", temperature=0, text_format=Pair).output_parsed
        self.assertEqual((pair.a, pair.b), (1, "x"))

    def test_parsed_calls(self):
        r = self.hermes.chat.completions.parse(model="m", messages=said("weather"), temperature=0, tools=self.TOOLS)
        self.assertEqual(r.choices[0].message.tool_calls[0].function.parsed_arguments, Weather(city="Paris"))

    def test_stream(self):
        with self.hermes.chat.completions.stream(model="m", messages=said("both"), temperature=0, tools=[*self.TOOLS, scripted.TOOLS[1]]) as s:
            kinds = {e.type for e in s}
            c = s.get_final_completion().choices[0]
        self.assertIn("tool_calls.function.arguments.delta", kinds)
        self.assertEqual([(k.function.name, k.function.arguments) for k in c.message.tool_calls], [("get_weather", '{"city": "Paris"}'), ("now", "{}")])
        self.assertEqual(c.finish_reason, "tool_calls")

    def test_responses(self):
        tools = scripted.Responses.TOOLS
        r = self.hermes.responses.create(model="m", input="weather", tools=tools, temperature=0)
        self.assertEqual((r.status, r.output_text, r.output[1].name), ("completed", "Let me see.", "get_weather"))
        again = [*said("weather"), *[i.model_dump(exclude_none=True) for i in r.output], {"type": "function_call_output", "call_id": r.output[1].call_id, "output": "sunny"}]
        self.assertEqual(self.hermes.responses.create(model="m", input=again, tools=tools, temperature=0).output_text, "So it is sunny.")

    def test_responses_stream(self):
        with self.thinks.responses.stream(model="m", input="weather", tools=scripted.Responses.TOOLS, temperature=0) as s:
            kinds = [e.type for e in s]
            r = s.get_final_response()
        self.assertIn("response.reasoning_text.delta", kinds)
        self.assertEqual([i.type for i in r.output], ["reasoning", "function_call"])
        self.assertEqual(json.loads(r.output[1].arguments), {"city": "Paris"})

    def test_errors(self):
        with self.assertRaisesRegex(openai.BadRequestError, "'not'"):
            self.hermes.chat.completions.create(model="m", messages=said("x"), response_format={"type": "json_schema", "json_schema": {"name": "x", "schema": {"not": {}}}})


class Anthropic(unittest.TestCase):
    TOOLS = scripted.Messages.TOOLS

    def setUp(self):
        self.hermes, self.thinks = (anthropic.Anthropic(base_url=f"http://127.0.0.1:{servers[n].port}", api_key="k", max_retries=0) for n in ("hermes", "thinks"))
        self.addCleanup(self.hermes.close)
        self.addCleanup(self.thinks.close)

    def test_text(self):
        m = self.hermes.messages.create(model="m", max_tokens=50, messages=said("plain"), system="Be brief.", **EXTRA)
        self.assertEqual((m.content[0].text, m.stop_reason, m.usage.output_tokens), ("It rains.", "end_turn", 10))

    def test_calls(self):
        m = self.hermes.messages.create(model="m", max_tokens=200, messages=said("weather"), tools=self.TOOLS, **EXTRA)
        self.assertEqual((m.stop_reason, m.content[1].name, m.content[1].input), ("tool_use", "get_weather", {"city": "Paris"}))
        messages = [*said("weather"), {"role": "assistant", "content": m.content},
                    {"role": "user", "content": [{"type": "tool_result", "tool_use_id": m.content[1].id, "content": "sunny"}]}]
        m = self.hermes.messages.create(model="m", max_tokens=200, messages=messages, tools=self.TOOLS, **EXTRA)
        self.assertEqual(m.content[0].text, "So it is sunny.")
        n = self.hermes.messages.count_tokens(model="m", messages=messages, tools=self.TOOLS)
        self.assertEqual(n.input_tokens, m.usage.input_tokens + m.usage.cache_read_input_tokens)

    def test_stream(self):
        with self.thinks.messages.stream(model="m", max_tokens=200, messages=said("weather"), tools=self.TOOLS, **EXTRA) as s:
            kinds = {e.type for e in s}
            m = s.get_final_message()
        self.assertLessEqual({"thinking", "input_json", "content_block_stop", "message_stop"}, kinds)
        self.assertEqual([b.type for b in m.content], ["thinking", "tool_use"])
        self.assertEqual((m.content[0].thinking, m.content[1].input, m.stop_reason), ("Hm, <tool_call>?", {"city": "Paris"}, "tool_use"))
        with self.hermes.messages.stream(model="m", max_tokens=50, messages=said("plain"), **EXTRA) as s:
            self.assertEqual("".join(s.text_stream), "It rains.")

    def test_errors(self):
        with self.assertRaisesRegex(anthropic.BadRequestError, "messages.0.content.0"):
            self.hermes.messages.create(model="m", max_tokens=5, messages=[{"role": "user", "content": [{"type": "image", "source": {"type": "url", "url": "http://x"}}]}])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
