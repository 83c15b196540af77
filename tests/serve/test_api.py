#!/usr/bin/env python3
"""What clients rely on: answers, streams, errors, of every endpoint, on scripted models.

    test_api.py HASTEN SOURCE"""

import json
import re
import sys
import tempfile
import time
import unittest
from pathlib import Path

from serving import Server, events_of, read_until, request_bytes

HASTEN, SOURCE = sys.argv[1], Path(sys.argv[2])
LIMITS = {name: eval(value.replace("u", "")) for name, value in
          re.findall(r"^#define (LIMIT_SERVE_\w+) +(\S.*?) +/\*", (SOURCE / "src/base/limits.h").read_text(), re.M)}
SCRIPT = """after "<|im_start|>assistant\\n": "It rains." eos
after "count:": " one two three four five six"
after "caf\\xc3": "\\xa9 au lait" eos
after "bad:": "a\\xffb" eos
else eos
"""
END = 258


def setUpModule():
    global folder, server, random
    folder = tempfile.TemporaryDirectory()
    path = Path(folder.name) / "answers.txt"
    path.write_text(SCRIPT)
    server = Server(HASTEN, f"script:{path}", "--alias", "weather", "-c", 512)
    random = Server(HASTEN, "script:hash=7,length=20", "--alias", "hash", "-c", 512)


def tearDownModule():
    status = server.stop(), random.stop()
    folder.cleanup()
    if status != (0, 0):
        raise AssertionError(f"exit statuses {status}")


class Chat(unittest.TestCase):
    def test_answer(self):
        a = server.chat("How is the weather?", model="weather")
        self.assertEqual(a.status, 200, a.body)
        self.assertEqual(a.headers["Content-Type"], "application/json")
        r = a.json()
        self.assertEqual((r["object"], r["model"]), ("chat.completion", "weather"))
        self.assertTrue(r["id"].startswith("chatcmpl-"))
        self.assertLess(abs(r["created"] - time.time()), 100)
        choice = r["choices"][0]
        self.assertEqual(choice["message"], {"role": "assistant", "content": "It rains.", "refusal": None})
        self.assertEqual((choice["index"], choice["finish_reason"], choice["logprobs"]), (0, "stop", None))
        u = r["usage"]
        self.assertEqual(u["completion_tokens"], len("It rains.") + 1)
        self.assertEqual(u["total_tokens"], u["prompt_tokens"] + u["completion_tokens"])
        self.assertNotIn("warnings", r)

    def test_stream(self):
        a = server.chat("How is the weather?", stream=True, stream_options={"include_usage": True})
        self.assertEqual(a.headers["Content-Type"], "text/event-stream")
        events = a.events()
        self.assertEqual(events.pop(), "[DONE]")
        usage = events.pop()
        self.assertEqual((usage["choices"], usage["usage"]["completion_tokens"]), ([], 10))
        self.assertTrue(all(e["usage"] is None and e["object"] == "chat.completion.chunk" for e in events))
        deltas = [e["choices"][0]["delta"] for e in events]
        self.assertEqual(deltas[0], {"role": "assistant", "content": ""})
        self.assertEqual("".join(d.get("content", "") for d in deltas), "It rains.")
        self.assertEqual([e["choices"][0]["finish_reason"] for e in events], [None] * (len(events) - 1) + ["stop"])
        self.assertEqual(len({e["id"] for e in events}), 1)

    def test_stream_equals_whole(self):
        for seed in range(5):
            whole = random.chat("hi", seed=seed, n=2, max_tokens=40).json()
            streamed = random.chat("hi", seed=seed, n=2, max_tokens=40, stream=True).events()
            texts = ["", ""]
            for e in streamed[:-1]:
                for c in e["choices"]:
                    texts[c["index"]] += c["delta"].get("content", "")
            self.assertEqual(texts, [c["message"]["content"] for c in whole["choices"]])
            self.assertNotEqual(*texts)

    def test_choice_i_is_the_solo_answer_of_stream_i(self):
        three = random.chat("hi", seed=3, n=3, max_tokens=30).json()
        one = random.chat("hi", seed=3, max_tokens=30).json()
        self.assertEqual(three["choices"][0]["message"], one["choices"][0]["message"])
        self.assertEqual([c["index"] for c in three["choices"]], [0, 1, 2])
        self.assertEqual(three["usage"]["prompt_tokens"], one["usage"]["prompt_tokens"])

    def test_content_parts_and_developer(self):
        parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
        r = server.post("/apply-template", {"messages": [{"role": "developer", "content": "be kind"},
                                                         {"role": "user", "content": parts}]}).json()["prompt"]
        self.assertIn("<|im_start|>system\nbe kind", r)
        self.assertIn("<|im_start|>user\na\nb<|im_end|>", r)

    def test_logprobs(self):
        r = random.chat("hi", seed=1, max_tokens=6, logprobs=True, top_logprobs=3).json()["choices"][0]
        tokens = r["logprobs"]["content"]
        self.assertEqual("".join(t["token"] for t in tokens), r["message"]["content"])
        for t in tokens:
            self.assertLessEqual(t["logprob"], 0)
            self.assertEqual(bytes(t["bytes"]).decode(), t["token"])
            self.assertEqual(len(t["top_logprobs"]), 3)
            self.assertEqual(t["top_logprobs"], sorted(t["top_logprobs"], key=lambda x: -x["logprob"]))
        streamed = random.chat("hi", seed=1, max_tokens=6, logprobs=True, top_logprobs=3, stream=True).events()[:-1]
        again = [t for e in streamed if e["choices"] for t in (e["choices"][0]["logprobs"] or {"content": []})["content"]]
        self.assertEqual(again, tokens)

    def test_content_cannot_speak_control_tokens(self):
        ids = server.post("/tokenize", {"messages": [{"role": "user", "content": "<|im_end|>"}]}).json()["tokens"]
        plain = server.post("/tokenize", {"messages": [{"role": "user", "content": ""}]}).json()["tokens"]
        self.assertEqual(ids.count(END), plain.count(END))

    def test_receipt_and_progress(self):
        r = random.chat("hi", receipt=True, seed=9, max_tokens=3).json()["receipt"]
        self.assertEqual((r["choices"][0]["seed"], r["choices"][0]["predicted_n"]), (9, 3))
        events = random.chat("hi" * 100, return_progress=True, stream=True, max_tokens=1).events()
        seen = [e["prompt_progress"] for e in events[:-1] if "prompt_progress" in e]
        self.assertEqual(seen[-1]["processed"], seen[-1]["total"])

    def test_request_id(self):
        a = server.request("POST", "/v1/chat/completions", {"messages": [{"role": "user", "content": "x"}]},
                           {"X-Request-Id": "abc-1"})
        self.assertEqual((a.headers["X-Request-Id"], a.json()["id"]), ("abc-1", "chatcmpl-abc-1"))
        self.assertNotEqual(server.get("/health").headers["X-Request-Id"], server.get("/health").headers["X-Request-Id"])
        odd = server.request("GET", "/health", headers={"X-Request-Id": "a b"})
        self.assertNotEqual(odd.headers["X-Request-Id"], "a b")


class Completions(unittest.TestCase):
    def test_answer_and_forms(self):
        r = server.complete("count:", max_tokens=8).json()
        self.assertEqual((r["object"], r["choices"][0]["text"], r["choices"][0]["finish_reason"]),
                         ("text_completion", " one two", "length"))
        ids = list(b"count:")
        self.assertEqual(server.complete(ids, max_tokens=8).text(), " one two")
        for form in (["count:", "count:"], [ids, ids], ["count:", ids]):
            r = server.complete(form, max_tokens=4).json()
            self.assertEqual([c["text"] for c in r["choices"]], [" one"] * 2)
            self.assertEqual([c["index"] for c in r["choices"]], [0, 1])

    def test_stop(self):
        r = server.complete("count:", stop=["three", "two"]).json()["choices"][0]
        self.assertEqual((r["text"], r["finish_reason"]), (" one ", "stop"))
        events = server.complete("count:", stop="two", stream=True).events()[:-1]
        self.assertEqual("".join(e["choices"][0]["text"] for e in events), " one ")

    def test_echo(self):
        self.assertEqual(server.complete("count:", max_tokens=4, echo=True).text(), "count: one")
        events = server.complete("count:", max_tokens=4, echo=True, stream=True).events()[:-1]
        self.assertEqual("".join(e["choices"][0]["text"] for e in events), "count: one")
        self.assertEqual(server.complete("count:", max_tokens=0, echo=True).text(), "count:")

    def test_logprobs(self):
        ask = {"seed": 1, "max_tokens": 5, "logprobs": 2, "ignore_eos": True}
        r = random.complete("hi", **ask).json()["choices"][0]
        l = r["logprobs"]
        self.assertEqual("".join(l["tokens"]), r["text"])
        self.assertEqual(l["text_offset"], list(range(5)))
        self.assertEqual([len(t) for t in l["top_logprobs"]], [2] * 5)
        events = random.complete("hi", stream=True, **ask).events()[:-1]
        for key in ("tokens", "token_logprobs", "text_offset", "top_logprobs"):
            pieces = [x for e in events if e["choices"][0]["logprobs"] for x in e["choices"][0]["logprobs"][key]]
            self.assertEqual(pieces, l[key])

    def test_characters_are_whole(self):
        self.assertEqual(server.complete(list(b"caf\xc3"), max_tokens=20).text(), "\ufffd au lait")
        self.assertEqual(server.complete("bad:", max_tokens=20).text(), "a\ufffdb")
        for e in server.complete("bad:", max_tokens=20, stream=True).events()[:-1]:
            json.dumps(e).encode("utf-8")

    def test_law(self):
        def ask(**fields):
            return random.complete("hi", **({"ignore_eos": True, "max_tokens": 20} | fields)).text()
        self.assertEqual(ask(temperature=0), ask(temperature=0))
        self.assertEqual(ask(seed=5), ask(seed=5))
        self.assertGreater(len({ask() for _ in range(3)}), 1)
        first = ask(temperature=0, max_tokens=1)
        self.assertNotEqual(ask(temperature=0, max_tokens=1, logit_bias={str(ord(first)): -100}), first)
        self.assertEqual(ask(temperature=0, max_tokens=3, logit_bias={"65": 100}), "AAA")
        self.assertEqual(ask(top_p=0, max_tokens=1), first)
        self.assertEqual(ask(top_k=1, max_tokens=1), first)
        long = random.complete("hi", ignore_eos=True, max_tokens=200).json()
        self.assertEqual(long["usage"]["completion_tokens"], 200)

    def test_grammar(self):
        r = random.complete("hi", grammar='root ::= "yes" | "no"', seed=1).json()["choices"][0]
        self.assertIn(r["text"], ("yes", "no"))
        self.assertEqual(r["finish_reason"], "stop")

    def test_context_full(self):
        r = random.complete("hi", ignore_eos=True, max_tokens=10000).json()
        self.assertEqual(r["choices"][0]["finish_reason"], "length")
        self.assertGreater(r["usage"]["total_tokens"], 500)


class Text(unittest.TestCase):
    def test_tokenize(self):
        r = server.post("/tokenize", {"content": "h\u00e9<|im_end|>"}).json()
        self.assertEqual(r["tokens"], list("h\u00e9<|im_end|>".encode()))
        self.assertEqual((r["count"], r["max_model_len"], len(r["token_strs"])), (len(r["tokens"]), 512, r["count"]))
        self.assertEqual(server.post("/tokenize", {"prompt": "<|im_end|>", "parse_special": True}).json()["tokens"], [END])
        self.assertEqual(server.post("/detokenize", {"tokens": [104, 105]}).json()["content"], "hi")
        self.assertEqual(server.post("/detokenize", {"tokens": []}).json()["content"], "")

    def test_render_is_what_is_computed(self):
        messages = [{"role": "system", "content": "s"}, {"role": "user", "content": "u <|im_end|>"}]
        r = server.post("/v1/chat/completions/render", {"messages": messages, "max_tokens": 1}).json()
        text = server.post("/apply-template", {"messages": messages}).json()["prompt"]
        self.assertEqual(server.post("/detokenize", {"tokens": r["token_ids"]}).json()["content"], text)
        used = server.post("/v1/chat/completions", {"messages": messages, "max_tokens": 1}).json()["usage"]
        self.assertEqual((len(r["token_ids"]), r["model"]), (used["prompt_tokens"], "weather"))
        self.assertEqual(r["token_ids"], server.post("/tokenize", {"messages": messages}).json()["tokens"])
        several = server.post("/v1/completions/render", {"prompt": ["a", [66, 67]]}).json()
        self.assertEqual([x["token_ids"] for x in several], [[97], [66, 67]])


class State(unittest.TestCase):
    def test_what_routers_ask(self):
        self.assertEqual(server.get("/health").json(), {"status": "ok"})
        m = server.get("/v1/models").json()["data"][0]
        self.assertEqual({"id", "object", "created", "owned_by", "root", "parent", "max_model_len"} - set(m), set())
        self.assertEqual((m["id"], m["parent"], m["max_model_len"]), ("weather", None, 512))
        self.assertEqual(server.get("/v1/models/weather").json()["id"], "weather")
        self.assertEqual(server.get("/v1/models/other").status, 404)
        for path in ("/server_info", "/get_server_info"):
            r = server.get(path).json()
            self.assertEqual((r["served_model_name"], r["max_running_requests"]), ("weather", 16))
            self.assertGreater(r["max_total_tokens"], 0)
        self.assertEqual(server.get("/model_info").json()["is_generation"], True)
        self.assertEqual(server.get("/get_model_info").json()["architectures"], [server.get("/model_info").json()["model_type"]])
        self.assertEqual(server.get("/get_load").json(), {"load": 0})
        self.assertEqual(server.get("/kv_event_sources").json(), [])
        self.assertEqual(server.get("/props").json()["total_slots"], 16)
        self.assertEqual([s["is_processing"] for s in server.get("/slots").json()], [False] * 16)

    def test_openapi(self):
        d = server.get("/openapi.json").json()
        self.assertEqual(d["openapi"], "3.1.0")
        for path in ("/v1/chat/completions", "/health", "/v1/models/{id}"):
            self.assertIn(path, d["paths"])
        self.assertIn("temperature", d["components"]["schemas"]["chat"]["properties"])

    def test_cached_tokens(self):
        text = "a long beginning that two prompts share, " * 4
        first = random.complete(text + "one", max_tokens=2).json()["usage"]
        second = random.complete(text + "two", max_tokens=2).json()["usage"]
        self.assertEqual(first["prompt_tokens_details"]["cached_tokens"], 0)
        self.assertGreaterEqual(second["prompt_tokens_details"]["cached_tokens"], len(text) - 1)
        apart = random.complete(text + "two", max_tokens=2, cache_prompt=False).json()["usage"]
        self.assertEqual(apart["prompt_tokens_details"]["cached_tokens"], 0)
        salted = random.complete(text + "two", max_tokens=2, cache_salt="x").json()["usage"]
        self.assertEqual(salted["prompt_tokens_details"]["cached_tokens"], 0)

    def test_embeddings_of_a_model_without_weights(self):
        a = server.post("/v1/embeddings", {"input": "x", "pooling": "mean"})
        self.assertEqual(a.status // 100, 4, a.body)


class Errors(unittest.TestCase):
    def refused(self, a, status, code=None, param=None):
        self.assertEqual(a.status, status, a.body)
        e = a.error()
        self.assertEqual(set(e), {"message", "type", "param", "code"})
        if code:
            self.assertEqual(e["code"], code, e)
        if param:
            self.assertEqual(e["param"], param, e)
        self.assertTrue(e["message"])
        return e

    def test_bodies(self):
        for body in (b"", b"{", b"[]", b"1", b"{}x", b"\xff", b'{"messages": "\x00"}', b"[" * 200000):
            self.refused(server.post("/v1/chat/completions", body), 400)
        self.refused(server.post("/v1/chat/completions", {}), 400, param="messages")
        self.refused(server.post("/v1/completions", {}), 400, param="prompt")
        self.refused(server.complete([]), 400, param="prompt")
        self.refused(server.complete([[]]), 400, param="prompt")
        self.refused(server.complete([1, "a"]), 400, param="prompt")
        self.refused(server.complete([-1]), 400, param="prompt")
        self.refused(server.complete([10 ** 9]), 400, param="prompt")
        self.refused(server.complete({"a": 1}), 400, param="prompt")
        for m in ({"role": "user", "content": 5}, {"content": "x"}, "x", {"role": "user", "content": [{"type": "image_url"}]}):
            e = self.refused(server.post("/v1/chat/completions", {"messages": [m]}), 400)
            self.assertIn("messages[0]", e["param"])

    def test_fields_are_named(self):
        for field, value in {"temperature": -1, "top_p": 1.5, "n": 0, "max_tokens": "x", "stop": [5], "seed": 1.5,
                             "logit_bias": {"x": 1}, "stream": "yes", "top_logprobs": 3, "grammar": "root ::= (",
                             "skip_special_tokens": False, "tool_choice": "required", "response_format": {"type": "json_schema"}, "priority": 1e300,
                             "stream_options": {"include_usage": True}, "return_progress": True}.items():
            self.refused(server.chat(**{field: value}), 400, param=field)
        self.refused(server.complete(suffix="x"), 400, param="suffix")
        self.refused(server.post("/infill", {"input_prefix": "x"}), 400, param="suffix")
        self.refused(server.post("/infill", {}), 400, param="input_prefix")
        self.refused(server.complete(best_of=2), 400, param="best_of")
        self.refused(server.complete("x", echo=True, logprobs=1), 400, param="logprobs")
        self.refused(server.complete(["x"] * 100, n=2), 400, param="n")
        most = LIMITS["LIMIT_SERVE_CHOICES"]
        self.assertEqual(len(server.complete(["x"] * most, max_tokens=1).json()["choices"]), most)
        self.refused(server.complete(["x"] * (most + 1), max_tokens=1), 400, param="prompt")
        self.refused(server.post("/v1/embeddings", {"input": ["x"] * (LIMITS["LIMIT_SERVE_INPUTS"] + 1), "pooling": "mean"}),
                     400, param="input")

    def test_neutral_fields_are_silent(self):
        neutral = {"no_stop_trim": False, "ignore_eos": False, "continue_final_message": False, "echo": False,
                   "return_hidden_states": False, "logprobs": False, "skip_special_tokens": True,
                   "separate_reasoning": True, "stream_reasoning": True, "include_reasoning": True, "user": "u",
                   "tools": None, "n": None, "stop": None, "stream_options": None}
        self.assertNotIn("warnings", server.chat(**neutral).json())

    def test_unknown_fields_are_warned_of(self):
        r = server.chat(frobnicate=1, verbosity="low").json()
        self.assertEqual(len(r["warnings"]), 2)
        self.assertIn("frobnicate", r["warnings"][0])
        events = server.chat(frobnicate=1, stream=True).events()
        self.assertEqual(sum("warnings" in e for e in events[:-1]), 1)
        self.assertEqual(len(server.chat(**{f"x{i}": 1 for i in range(99)}).json()["warnings"]), 17)

    def test_places(self):
        self.refused(server.get("/v1/nothing"), 404, "not_found")
        self.refused(server.chat(model="other"), 404, "model_not_found", "model")
        a = server.get("/v1/chat/completions")
        self.refused(a, 405)
        self.assertEqual(a.headers["Allow"], "POST")
        self.refused(server.request("DELETE", "/v1/models"), 405)
        self.refused(server.request("OPTIONS", "/v1/chat/completions"), 405)
        self.refused(server.request("GET", "/health", headers={"Origin": "http://evil.example"}), 403)
        self.assertEqual(server.request("GET", "/health", headers={"Origin": f"http://127.0.0.1:{server.port}"}).status, 200)
        self.assertEqual(server.request("HEAD", "/health").status, 200)

    def test_too_long(self):
        e = self.refused(server.complete("x" * 600), 400, "context_length_exceeded", "prompt")
        self.assertIn("600", e["message"])
        self.assertIn("512", e["message"])
        self.refused(server.chat("x" * 600), 400, "context_length_exceeded", "messages")

    def test_far_too_long(self):
        """Millions of bytes are refused before they are encoded."""
        text = "x" * 4000000
        before = time.monotonic()
        for r, param in ((server.complete(text), "prompt"), (server.chat(text), "messages")):
            self.assertIn("4000", self.refused(r, 400, "context_length_exceeded", param)["message"])
        self.assertLess(time.monotonic() - before, 20)

    def test_two_lengths(self):
        """What follows a body whose length is said twice is not taken for a request."""
        body = json.dumps({"content": "a"}).encode()
        second = request_bytes("/tokenize", {"content": "second"})
        lengths = b"Content-Length: %d\r\n" % len(body)
        for header in (lengths + b"Content-Length: %d\r\n" % (len(body) + len(second)), lengths + b"Transfer-Encoding: chunked\r\n",
                       lengths + lengths):
            with server.connect() as c:
                c.sendall(b"POST /tokenize HTTP/1.1\r\nHost: x\r\n" + header + b"\r\n" + body + second)
                data = b""
                while more := c.recv(4096):  # until it is closed
                    data += more
                self.assertEqual((data.count(b"HTTP/1.1 "), b" 400 " in data), (1, True), data)

    def test_too_large(self):
        with Server(HASTEN, "script:hash=1", "--max-body", "1000") as s:
            self.refused(s.complete("x" * 2000), 413)
            chunked = b"".join(b"3e8\r\n" + b"x" * 1000 + b"\r\n" for _ in range(50)) + b"0\r\n\r\n"
            with s.connect() as c:
                c.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n" + chunked)
                self.assertIn(b" 413 ", read_until(c, b"}}"))
            with s.connect() as c:
                c.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 2000\r\n\r\n")
                self.assertIn(b" 413 ", read_until(c, b"}}"))
            self.assertEqual(s.complete("x", max_tokens=1).status, 200)

    def test_large_headers(self):
        bound = LIMITS["LIMIT_SERVE_HEADER"]
        self.assertEqual(server.request("GET", "/health", headers={"X": "y" * (bound - 1000)}).status, 200)
        self.assertIn(server.request("GET", "/health", headers={"X": "y" * 3 * bound}).status // 100, (4,))

    def test_queue_full(self):
        with Server(HASTEN, "script:hash=1,length=0", "--slots", 1, "--queue", 1) as s:
            held = [s.connect() for _ in range(2)]
            for c in held:
                c.sendall(request_bytes("/v1/completions", {"prompt": "x", "stream": True, "ignore_eos": True}))
                read_until(c, b"event-stream")
            a = s.complete("x")
            e = self.refused(a, 429, "queue_full")
            self.assertEqual(e["type"], "rate_limit_error")
            self.assertGreaterEqual(int(a.headers["Retry-After"]), 1)
            self.refused(s.complete("x", n=3), 429)
            for c in held:
                c.close()
            s.wait_idle()
            self.assertEqual(s.complete("x", max_tokens=1).status, 200)

    def test_non_finite(self):
        with tempfile.TemporaryDirectory() as f:
            path = Path(f) / "nan.txt"
            path.write_text('after "x": nan\nafter "y": "ab" nan\n')
            with Server(HASTEN, f"script:{path}") as s:
                self.refused(s.complete("x"), 500, "non_finite")
                events = s.complete("y", stream=True).events()
                self.assertEqual((events[-1], events[-2]["error"]["code"]), ("[DONE]", "non_finite"))
                self.assertEqual(s.complete("z", max_tokens=1).status, 200)

    def test_time_out(self):
        r = random.complete("x", ignore_eos=True, timeout=0.02, max_tokens=400).json()
        self.assertIn(r["choices"][0]["finish_reason"], ("timeout", "length"))


class Grouped(unittest.TestCase):
    def test_pipelined_requests(self):
        with server.connect() as c:
            c.sendall(request_bytes("/tokenize", {"content": "a"}) + request_bytes("/tokenize", {"content": "b"}))
            data = read_until(c, b'"b"')
            self.assertLess(data.index(b"[97]"), data.index(b"[98]"))

    def test_http_1_0(self):
        with server.connect() as c:
            body = json.dumps({"prompt": "count:", "max_tokens": 4, "stream": True}).encode()
            c.sendall(f"POST /v1/completions HTTP/1.0\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)
            data = b""
            while more := c.recv(4096):
                data += more
            self.assertEqual("".join(e["choices"][0]["text"] for e in events_of(data.split(b"\r\n\r\n", 1)[1])[:-1]), " one")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
