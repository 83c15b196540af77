#!/usr/bin/env python3
"""The official client of OpenAI against the server.

    test_openai.py HASTEN WORK"""

import json
import subprocess
import sys
import unittest
from pathlib import Path

import openai

from serving import Server

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "embed"))
import tiny_bert  # noqa: E402

HASTEN, WORK = sys.argv[1], Path(sys.argv[2])
MESSAGES = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hello"}]


def setUpModule():
    global server, client
    WORK.mkdir(parents=True, exist_ok=True)
    (WORK / "keys").write_text("secret\n")
    server = Server(HASTEN, "script:hash=3,length=30", "--alias", "m", "-c", 512, "--api-key-file", WORK / "keys")
    client = openai.OpenAI(base_url=f"http://127.0.0.1:{server.port}/v1", api_key="secret", max_retries=0)


def tearDownModule():
    client.close()
    if server.stop() != 0:
        raise AssertionError("the server did not end well")


class Client(unittest.TestCase):
    def test_chat(self):
        whole = client.chat.completions.create(model="m", messages=MESSAGES, seed=1, logprobs=True, top_logprobs=2, n=2)
        pieces = {0: "", 1: ""}
        reasons, usage = {}, None
        stream = client.chat.completions.create(model="m", messages=MESSAGES, seed=1, n=2, stream=True,
                                                stream_options={"include_usage": True})
        for chunk in stream:
            usage = chunk.usage or usage
            for c in chunk.choices:
                pieces[c.index] += c.delta.content or ""
                reasons[c.index] = c.finish_reason or reasons.get(c.index)
        for c in whole.choices:
            self.assertEqual((pieces[c.index], reasons[c.index]), (c.message.content, c.finish_reason))
            self.assertEqual("".join(t.token for t in c.logprobs.content), c.message.content)
        self.assertEqual((usage.prompt_tokens, usage.completion_tokens),
                         (whole.usage.prompt_tokens, whole.usage.completion_tokens))

    def test_completions(self):
        r = client.completions.create(model="m", prompt=["a", "b"], max_tokens=5, seed=2, logprobs=1, temperature=0.5)
        self.assertEqual([c.index for c in r.choices], [0, 1])
        text = "".join(c.choices[0].text for c in client.completions.create(model="m", prompt="a", max_tokens=5, seed=2,
                                                                            temperature=0.5, stream=True))
        self.assertEqual(text, r.choices[0].text)

    def test_extras(self):
        r = client.chat.completions.create(model="m", messages=MESSAGES, max_tokens=3,
                                           extra_body={"receipt": True, "top_k": 4, "frobnicate": 1})
        self.assertEqual(r.receipt["choices"][0]["predicted_n"], 3)
        self.assertEqual(len(r.warnings), 1)

    def test_models(self):
        self.assertEqual([m.id for m in client.models.list()], ["m"])
        self.assertEqual(client.models.retrieve("m").id, "m")

    def test_errors(self):
        def chat(**kw):
            return client.chat.completions.create(**({"model": "m", "messages": MESSAGES} | kw))
        with self.assertRaises(openai.BadRequestError) as e:
            chat(temperature=-1)
        self.assertEqual(e.exception.param, "temperature")
        with self.assertRaises(openai.BadRequestError) as e:
            chat(messages=[{"role": "user", "content": "x" * 1000}])
        self.assertEqual(e.exception.code, "context_length_exceeded")
        with self.assertRaises(openai.NotFoundError):
            chat(model="other")
        with self.assertRaises(openai.AuthenticationError):
            client.with_options(api_key="wrong").models.list()

    def test_leaving_a_stream(self):
        stream = client.chat.completions.create(model="m", messages=MESSAGES, stream=True, extra_body={"ignore_eos": True})
        next(iter(stream))
        stream.close()
        server.wait_idle()

    def test_embeddings(self):
        model = WORK / "bert.gguf"
        tiny_bert.write(str(model))
        texts = ["the water is", "a boat", "the water is"]
        with Server(HASTEN, model) as s, openai.OpenAI(base_url=f"http://127.0.0.1:{s.port}/v1", api_key="x") as c:
            as_base64 = c.embeddings.create(model="bert", input=texts)
            as_floats = c.embeddings.create(model="bert", input=texts, encoding_format="float")
            self.assertEqual([d.index for d in as_base64.data], [0, 1, 2])
            for a, b in zip(as_base64.data, as_floats.data):
                self.assertEqual(len(a.embedding), len(b.embedding))
                for x, y in zip(a.embedding, b.embedding):
                    self.assertAlmostEqual(x, y, delta=1e-6)
                self.assertAlmostEqual(sum(x * x for x in a.embedding), 1, delta=1e-5)
            self.assertEqual(as_base64.data[0].embedding, as_base64.data[2].embedding)
            self.assertNotEqual(as_base64.data[0].embedding, as_base64.data[1].embedding)
            with self.assertRaises(openai.BadRequestError):
                c.chat.completions.create(model="bert", messages=MESSAGES)
            said = subprocess.run([HASTEN, "embed", str(model), "-p", texts[0], "--normalize"], check=True, capture_output=True)
            self.assertAlmostEqual(json.loads(said.stdout)[0], as_floats.data[0].embedding[0], delta=1e-6)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
