#!/usr/bin/env python3
"""Routers of others, unmodified, in front of two servers: vllm-router and sglang-router (scripts/requirements-deep.txt),
each of their policies, and what happens to their clients when a server stops, hangs or leaves.

    routers.py HASTEN MODEL

A policy is asked for what people ask: chats whole and streamed, completions in each form of a prompt. The answer must
have the bits of the server's own, and no warnings: the fields that routers add say nothing (docs/operation.md)."""

import contextlib
import http.client
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from serving import Answer, Server, events_of  # noqa: E402

HASTEN, MODEL = sys.argv[1:3]
POLICIES = {"vllm-router": ["round_robin", "random", "cache_aware", "power_of_two", "consistent_hash", "sticky_least_loaded",
                            "kv_aware"],
            "sglang-router": ["round_robin", "random", "cache_aware", "power_of_two", "manual"]}
ASK = {"seed": 5, "temperature": 0.8, "max_tokens": 12}
LONG = "The keeper of the light wrote down the weather of every evening in his book. " * 20


def program(name):
    """Beside the Python that runs this, or on the path; what is missing fails, with a sentence."""
    found = shutil.which(str(Path(sys.executable).parent / name)) or shutil.which(name)
    if not found:
        raise SystemExit(f"routers: {name} is not there (pip install -r scripts/requirements-deep.txt, or make deep, which does)")
    return found


PROGRAMS = {name: program(name) for name in POLICIES}


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Router:
    def __init__(self, name, policy, servers, *options):
        self.port = free_port()
        command = [PROGRAMS[name], *(["launch"] if name == "sglang-router" else []), "--worker-urls",
                   *(f"http://127.0.0.1:{s.port}" for s in servers), "--policy", policy, "--host", "127.0.0.1", "--port",
                   str(self.port), "--prometheus-port", str(free_port()), "--worker-startup-timeout-secs", "60",
                   "--worker-startup-check-interval", "1", "--health-check-interval-secs", "1", "--health-check-timeout-secs",
                   "1", "--health-failure-threshold", "1", "--health-success-threshold", "1", *options]
        self.log = tempfile.TemporaryFile()
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log,
                                        start_new_session=True)
        until = time.monotonic() + 90
        while True:
            with contextlib.suppress(OSError):
                if self.request("GET", "/health", timeout=5).status == 200 and self.request("GET", "/v1/models").status == 200:
                    return
            if self.process.poll() is not None or time.monotonic() > until:
                raise AssertionError(f"{name} did not begin: {self.said()}")
            time.sleep(0.1)

    def said(self):
        self.log.seek(0)
        return self.log.read().decode(errors="replace")[-3000:]

    def request(self, method, path, body=None, headers=None, timeout=60):
        c = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        with contextlib.closing(c):
            c.request(method, path, json.dumps(body) if body is not None else None,
                      {"Content-Type": "application/json"} | (headers or {}))
            return Answer(c.getresponse())

    def stop(self):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self.log.close()

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.stop()


def chat(text="Say one word about the sea.", **fields):
    return {"model": "m", "messages": [{"role": "user", "content": text}]} | ASK | fields


def pair(*options):
    stack = contextlib.ExitStack()
    return stack, [stack.enter_context(Server(HASTEN, MODEL, "--alias", "m", "-c", "2048", *options)) for _ in range(2)]


def answered(server):
    return sum(v for k, v in server.metrics().items() if k.startswith("vllm:request_success_total"))


def text_of(events):
    return "".join(c["delta"].get("content") or "" for e in events if e != "[DONE]" for c in e["choices"])


class Policies(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.stack, cls.servers = pair()

    @classmethod
    def tearDownClass(cls):
        cls.stack.close()

    def check(self, r, path, body):
        """Through the router and straight: the same text, no warnings. Returns the answer."""
        got, own = r.request("POST", path, body), self.servers[0].post(path, body)
        self.assertEqual((got.status, own.status), (200, 200), got.body)
        self.assertEqual([c.get("text", c.get("message")) for c in got.json()["choices"]],
                         [c.get("text", c.get("message")) for c in own.json()["choices"]])
        self.assertNotIn("warnings", got.json())
        return got

    def one_policy(self, name, policy):
        ids = self.servers[0].post("/tokenize", {"content": "Once upon a time"}).json()["tokens"]
        with Router(name, policy, self.servers) as r:
            self.assertEqual(r.request("GET", "/v1/models").json()["data"][0]["id"], "m")
            whole = self.check(r, "/v1/chat/completions", chat())
            for prompt in ("Once upon a time", ["Once upon", "a time"]) + ((ids, [ids, ids]) if name == "vllm-router" else ()):
                self.check(r, "/v1/completions", {"model": "m", "prompt": prompt} | ASK)
            streamed = r.request("POST", "/v1/chat/completions", chat(stream=True, stream_options={"include_usage": True}))
            events = events_of(streamed.body)
            self.assertEqual(events[-1], "[DONE]", streamed.body)
            self.assertEqual(text_of(events), whole.text())
            self.assertEqual(events[-2]["usage"]["completion_tokens"], whole.json()["usage"]["completion_tokens"])
            self.assertFalse([e for e in events[:-1] if "warnings" in e])
            before = [answered(s) for s in self.servers]
            for i in range(8):
                answer = r.request("POST", "/v1/chat/completions", chat(LONG + str(i), max_tokens=1))
                self.assertEqual(answer.status, 200, answer.body)
            return [int(answered(s) - b) for s, b in zip(self.servers, before)]

    def test_policies(self):
        for name, policies in POLICIES.items():
            for policy in policies:
                with self.subTest(router=name, policy=policy):
                    shares = self.one_policy(name, policy)
                    print(f"{name} {policy}: 8 requests with one beginning went {shares}", flush=True)
                    self.assertEqual(sum(shares), 8)
                    if policy == "round_robin":
                        self.assertEqual(shares, [4, 4])
                    if policy == "cache_aware":
                        self.assertIn(max(shares), (7, 8))

    def test_refusals_pass(self):
        """A client's fault stays one, word for word, and is tried once; unknown fields reach us or vanish, and never harm."""
        too_long = chat(LONG * 20)
        own = self.servers[0].post("/v1/chat/completions", too_long)
        self.assertEqual((own.status, own.error()["code"]), (400, "context_length_exceeded"))
        for name in POLICIES:
            with self.subTest(name), Router(name, "round_robin", self.servers) as r:
                before = sum(s.metric("hasten_http_requests_total") for s in self.servers)
                got = r.request("POST", "/v1/chat/completions", too_long)
                self.assertEqual(got.status, 400)
                if name == "vllm-router":
                    self.assertEqual(got.json(), own.json())
                else:
                    self.assertIn("context_length_exceeded", got.body.decode())
                self.assertLess(sum(s.metric("hasten_http_requests_total") for s in self.servers) - before, 12)  # /health too
                extra = r.request("POST", "/v1/chat/completions", chat(receipt=True, methods=[]))
                self.assertIn(extra.status, (200, 400))
                with_id = r.request("POST", "/v1/chat/completions", chat(), {"X-Request-Id": "given-7"})
                self.assertEqual(with_id.status, 200)
                self.assertEqual(with_id.headers.get("x-request-id"), "given-7")


class Failures(unittest.TestCase):
    """One of two servers ends, hangs or leaves."""

    def answers(self, r, n=6, timeout=60):
        return [r.request("POST", "/v1/chat/completions", chat(f"{i}. Go on.", max_tokens=2), timeout=timeout).status
                for i in range(n)]

    def each(self, check):
        for name in POLICIES:
            stack, servers = pair()
            with self.subTest(name), stack, Router(name, "round_robin", servers) as r:
                self.assertEqual(self.answers(r, 2), [200, 200])
                check(r, servers)

    def killed(self, r, servers):
        servers[0].stop(signal.SIGKILL)
        self.assertEqual(self.answers(r), [200] * 6, r.said())

    def hanging(self, r, servers):
        servers[0].process.send_signal(signal.SIGSTOP)
        try:
            time.sleep(6)  # until the router's health checks have seen it
            self.assertEqual(self.answers(r, timeout=20), [200] * 6, r.said())
        finally:
            servers[0].process.send_signal(signal.SIGCONT)

    def drained(self, r, servers):
        """SIGTERM: what streams goes on to its end, and what comes is answered by the other."""
        got = []

        def stream():
            got.append(r.request("POST", "/v1/chat/completions", chat(stream=True, max_tokens=150, ignore_eos=True)))
        thread = threading.Thread(target=stream)
        thread.start()
        until = time.monotonic() + 20
        while not any(s.metric("vllm:num_requests_running") for s in servers) and time.monotonic() < until:
            time.sleep(0.01)
        busy = next(s for s in servers if s.metric("vllm:num_requests_running"))
        busy.process.send_signal(signal.SIGTERM)
        self.assertEqual(self.answers(r), [200] * 6, r.said())
        thread.join()
        events = events_of(got[0].body)
        self.assertEqual((got[0].status, events[-1]), (200, "[DONE]"))
        ends = [c["finish_reason"] for e in events[:-1] for c in e["choices"] if c["finish_reason"]]
        self.assertEqual(ends, ["length"])
        self.assertEqual(busy.process.wait(40), 0)

    def test_killed(self):
        self.each(self.killed)

    def test_hanging(self):
        self.each(self.hanging)

    def test_drained(self):
        self.each(self.drained)


class Scrapes(unittest.TestCase):
    """Whoever picks an end point reads /metrics 20 times a second: never held up by a step."""

    def test_during_prefill(self):
        with Server(HASTEN, MODEL, "--alias", "m", "-c", "8192") as s:
            thread = threading.Thread(target=s.post, args=("/v1/chat/completions", chat(LONG * 18, max_tokens=1)),
                                      kwargs={"timeout": 300})
            thread.start()
            times, busy = [], 0
            while thread.is_alive():
                begun = time.monotonic()
                busy += b"num_requests_running" in s.get("/metrics").body
                times.append(1e3 * (time.monotonic() - begun))
                time.sleep(0.05)
            times.sort()
            print(f"{len(times)} scrapes while a long prompt was read: median {times[len(times) // 2]:.2f} ms, "
                  f"p99 {times[len(times) * 99 // 100]:.2f} ms", flush=True)
            self.assertGreater(len(times), 10)
            self.assertEqual(busy, len(times))
            self.assertLess(times[len(times) // 2], 5)  # and p99 too, on a machine that nobody else uses


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
