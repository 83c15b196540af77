#!/usr/bin/env python3
"""Operating the server: keys, addresses, signals, the service manager, metrics, the log, the table of fields.

    test_operation.py HASTEN SOURCE"""

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

from serving import ENVIRONMENT, Server, events_of, read_until, request_bytes

HASTEN, SOURCE = sys.argv[1], Path(sys.argv[2])
MODEL = "script:hash=7,length=20"


def run(*args, rc=0):
    r = subprocess.run([HASTEN, "serve", *map(str, args)], capture_output=True, text=True, env=ENVIRONMENT, timeout=60)
    if r.returncode != rc:
        raise AssertionError(f"{args}: exit status {r.returncode}, expected {rc}: {r.stderr}")
    return r.stderr


class Keys(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.path = Path(self.folder.name) / "keys"

    def test_who_may_ask(self):
        self.path.write_text("# keys\none first\n\n  two\n")
        with Server(HASTEN, MODEL, "--api-key-file", self.path) as s:
            def ask(*headers):
                return s.request("GET", "/v1/models", headers=dict(headers)).status
            bearer = "Authorization"
            self.assertEqual([ask(), ask((bearer, "Bearer ")), ask((bearer, "Bearer on")), ask((bearer, "Bearer onee")),
                              ask((bearer, "Basic one")), ask(("x-api-key", "three")), ask((bearer, "Bearer " + "x" * 5000))],
                             [401] * 7)
            self.assertEqual([ask((bearer, "Bearer one")), ask((bearer, "bearer two")), ask(("x-api-key", "one"))], [200] * 3)
            self.assertEqual([s.get("/health").status, s.get("/metrics").status, s.get("/openapi.json").status], [200] * 3)
            a = s.post("/v1/completions", {"prompt": "x"})
            self.assertEqual((a.status, a.error()["code"], a.headers["WWW-Authenticate"]), (401, "invalid_api_key", "Bearer"))
            self.path.write_text("three")
            s.process.send_signal(signal.SIGHUP)
            until = time.monotonic() + 5
            while ask((bearer, "Bearer three")) != 200 and time.monotonic() < until:
                time.sleep(0.01)
            self.assertEqual([ask((bearer, "Bearer three")), ask((bearer, "Bearer one"))], [200, 401])
            self.path.unlink()
            s.process.send_signal(signal.SIGHUP)
            time.sleep(0.1)
            self.assertEqual(ask((bearer, "Bearer three")), 200)

    def test_keys_do_not_share_prompts(self):
        self.path.write_text("one\ntwo\n")
        text = "a prompt that is long enough to be worth keeping"
        for scope, shared in (("key", False), ("all", True)):
            with Server(HASTEN, MODEL, "--api-key-file", self.path, "--cache-scope", scope) as s:
                def cached(key):
                    r = s.request("POST", "/v1/completions", {"prompt": text, "max_tokens": 1}, {"x-api-key": key})
                    return r.json()["usage"]["prompt_tokens_details"]["cached_tokens"]
                self.assertEqual((cached("one"), cached("one") > 0, cached("two") > 0), (0, True, shared))

    def test_public_models(self):
        self.path.write_text("one")
        with Server(HASTEN, MODEL, "--api-key-file", self.path, "--public-models") as s:
            self.assertEqual((s.get("/v1/models").status, s.get("/slots").status), (200, 401))

    def test_refused(self):
        self.path.write_text("# none\n")
        self.assertIn("no key", run(MODEL, "--api-key-file", self.path, rc=3))
        self.assertIn("missing", run(MODEL, "--api-key-file", str(self.path) + "missing", rc=3))


class Addresses(unittest.TestCase):
    def test_refused(self):
        self.assertIn("--no-auth", run(MODEL, "--host", "0.0.0.0", "--port", 0, rc=2))
        self.assertIn("no such", run(MODEL, "--host", "no such", rc=2))
        self.assertIn("--tls-key", run(MODEL, "--tls-cert", "x", rc=2))
        self.assertIn("ADDRESS:PORT", run(MODEL, "--admin-listen", "x", rc=2))
        with Server(HASTEN, MODEL) as s:
            self.assertIn("in use", run(MODEL, "--port", s.port, rc=5))

    def test_bounds_of_options(self):
        """LIMIT_SERVE_SLOTS and LIMIT_SERVE_QUEUE: beyond them is refused. (LIMIT_SERVE_BODIES bounds all bodies together.)"""
        self.assertIn("from 1 to 1024", run(MODEL, "--slots", 1025, rc=2))
        self.assertIn("from 0 to 65536", run(MODEL, "--queue", 65537, rc=2))

    def test_open_to_others(self):
        with Server(HASTEN, MODEL, "--host", "0.0.0.0", "--no-auth") as s:
            self.assertEqual(s.get("/health").status, 200)
            self.assertIn("open to everybody", s.errors())

    def test_admin(self):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        with Server(HASTEN, MODEL, "--admin-listen", f"127.0.0.1:{port}") as s:
            own, s.port = s.port, port
            self.assertEqual([s.get(p).status for p in ("/health", "/metrics", "/v1/models")], [200, 200, 404])
            s.port = own
            self.assertEqual([s.get(p).status for p in ("/health", "/metrics", "/v1/models")], [200, 404, 200])


class Life(unittest.TestCase):
    def test_the_term_signal(self):
        """Running answers end, new ones are refused, probes see it coming."""
        with Server(HASTEN, "script:hash=1,length=0,ctx=65536", "-c", 65536, "--kv-size", 65536, "--slots", 2) as s:
            with s.connect() as c:
                c.sendall(request_bytes("/v1/completions", {"prompt": "x", "stream": True, "ignore_eos": True, "max_tokens": 8000}))
                data = read_until(c, b"data: ")
                s.process.send_signal(signal.SIGTERM)
                until = time.monotonic() + 5
                while s.get("/health").status == 200 and time.monotonic() < until:
                    time.sleep(0.002)
                a = s.complete("x")
                self.assertEqual((a.status, a.error()["code"]), (503, "shutting_down"))
                self.assertEqual(a.headers["Retry-After"], "1")
                data += read_until(c, b"[DONE]", 1 << 26)
            self.assertEqual(s.process.wait(20), 0)

    def test_the_end_of_grace(self):
        with Server(HASTEN, "script:hash=1,length=0,ctx=1000000", "-c", 1000000, "--kv-size", 1000000, "--slots", 2, "--grace",
                    "100ms") as s:
            with s.connect() as c, s.connect() as d:
                ask = {"prompt": "x", "ignore_eos": True}
                c.sendall(request_bytes("/v1/completions", ask | {"stream": True}))
                d.sendall(request_bytes("/v1/completions", ask))
                data = read_until(c, b"data: ")
                until = time.monotonic() + 5
                while s.metric("vllm:num_requests_running") < 2 and time.monotonic() < until:
                    time.sleep(0.002)
                t0 = time.monotonic()
                self.assertEqual(s.stop(), 0)
                self.assertLess(time.monotonic() - t0, 5)
                while more := c.recv(1 << 20):
                    data += more
                self.assertIn(b'"finish_reason":"abort"', data)
                self.assertIn(b"200 OK", read_until(d, b"\r\n"))

    def test_ctrl_c(self):
        with Server(HASTEN, MODEL) as s:
            self.assertEqual(s.stop(signal.SIGINT), 130)

    def test_the_service_manager(self):
        with tempfile.TemporaryDirectory() as f, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as n:
            n.bind(f"{f}/notify")
            n.settimeout(10)
            with Server(HASTEN, MODEL, environment={"NOTIFY_SOCKET": f"{f}/notify"}) as s:
                self.assertEqual(n.recv(100), b"READY=1")
                s.stop()
                self.assertEqual(n.recv(100), b"STOPPING=1")

    def test_manners(self):
        with Server(HASTEN, MODEL, "--alias", "m") as s:
            self.assertRegex(s.errors(), rf"^hasten: serving m at http://127\.0\.0\.1:{s.port} .*\n$")
            used = s.cpu_seconds()
            time.sleep(0.3)
            self.assertLessEqual(s.cpu_seconds() - used, 0.01)
            path = Path(s.folder.name) / "port"
            self.assertEqual(path.read_text(), f"{s.port}\n")
            s.process.send_signal(signal.SIGTERM)
            self.assertEqual(s.process.stdout.read(), b"")
            self.assertEqual(s.stop(), 0)
            self.assertFalse(path.exists())
        with Server(HASTEN, MODEL, "-q") as s:
            self.assertEqual(s.errors(), "")

    def test_the_log(self):
        with Server(HASTEN, MODEL, "-q", "--log-format", "json") as s:
            s.chat("secret words", seed=1)
            self.assertEqual(s.errors(), "")
        with Server(HASTEN, MODEL, "--log-format", "json") as s:
            s.request("POST", "/v1/chat/completions", {"messages": [{"role": "user", "content": "secret words"}]},
                      {"X-Request-Id": "r1"})
            s.get("/nothing")
            time.sleep(0.05)
            lines = [json.loads(x) for x in s.errors().splitlines() if x.startswith("{")]
            chat = next(x for x in lines if x["request_id"] == "r1")
            self.assertEqual((chat["status"], chat["path"], chat["method"]), (200, "/v1/chat/completions", "POST"))
            self.assertGreater(chat["prompt_tokens"], 0)
            self.assertEqual(next(x for x in lines if x["path"] == "/nothing")["status"], 404)
            self.assertNotIn("secret", s.errors())

    @unittest.skipUnless(any(os.access(f"{p}/openssl", os.X_OK) for p in os.environ["PATH"].split(":")), "openssl makes keys")
    def test_tls(self):
        import http.client
        import ssl
        with tempfile.TemporaryDirectory() as f:
            subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout",
                            f"{f}/key", "-out", f"{f}/cert", "-days", "2", "-subj", "/CN=localhost"], check=True,
                           capture_output=True)
            with Server(HASTEN, MODEL, "--tls-cert", f"{f}/cert", "--tls-key", f"{f}/key", wait=False) as s:
                context = ssl.create_default_context(cafile=f"{f}/cert")
                context.check_hostname = False

                def health():
                    c = http.client.HTTPSConnection("127.0.0.1", s.port, context=context, timeout=20)
                    c.request("GET", "/health")
                    with contextlib.closing(c):
                        return c.getresponse().status
                while health() != 200:
                    time.sleep(0.01)
                c = http.client.HTTPSConnection("127.0.0.1", s.port, context=context, timeout=20)
                c.request("POST", "/v1/completions", json.dumps({"prompt": "x", "seed": 1, "stream": True, "max_tokens": 5}))
                self.assertEqual(events_of(c.getresponse().read())[-1], "[DONE]")
                c.close()


class Metrics(unittest.TestCase):
    """The text format, and the traps of those who read it."""

    def test_format(self):
        with Server(HASTEN, MODEL, "--alias", 'a"b\\c') as s:
            s.complete("hello", max_tokens=3, ignore_eos=True)
            s.wait_idle()
            a = s.get("/metrics")
            self.assertTrue(a.headers["Content-Type"].startswith("text/plain; version=0.0.4"))
            types, series = {}, {}
            for line in a.body.decode().splitlines():
                if line.startswith("# TYPE "):
                    _, _, name, kind = line.split(" ")
                    self.assertNotIn(name, types)
                    types[name] = kind
                elif not line.startswith("# HELP "):
                    m = re.fullmatch(r'([a-z0-9_:]+)\{model_name="a\\"b\\\\c",engine="0"((?:,[a-z_]+="[^"]*")*)\} ([0-9.e+-]+)', line)
                    self.assertTrue(m, line)
                    series.setdefault(m[1], []).append((m[2], float(m[3])))
            names = set(series)
            for name in ["num_requests_waiting", "num_requests_running", "kv_cache_usage_perc", "cache_config_info",
                         "prefix_cache_queries_total", "prefix_cache_hits_total", "gpu_prefix_cache_queries_total",
                         "gpu_prefix_cache_hits_total", "gpu_prefix_cache_hit_rate", "gpu_cache_usage_perc",
                         "prompt_tokens_total", "generation_tokens_total", "num_preemptions_total", "request_success_total"]:
                self.assertIn("vllm:" + name, names)
            for name in ["time_to_first_token_seconds", "inter_token_latency_seconds", "e2e_request_latency_seconds",
                         "request_queue_time_seconds", "request_prefill_time_seconds", "request_decode_time_seconds",
                         "request_prompt_tokens", "request_generation_tokens"]:
                self.assertEqual(types["vllm:" + name], "histogram")
                buckets = [v for _, v in series["vllm:" + name + "_bucket"]]
                self.assertEqual(buckets, sorted(buckets))
                self.assertEqual([("", buckets[-1])], series["vllm:" + name + "_count"])
            for name in names:
                family = re.sub(r"_(bucket|sum|count)$", "", name)
                self.assertIn(types.get(name, types.get(family)), ("gauge", "counter", "histogram"), name)
                if types.get(name) in ("gauge", "counter") and name != "vllm:request_success_total":
                    self.assertEqual(len(series[name]), 1, name)
            self.assertEqual(series["vllm:prompt_tokens_total"], [("", 5.0)])
            self.assertEqual(series["vllm:generation_tokens_total"], [("", 3.0)])
            self.assertEqual(series["vllm:request_generation_tokens_sum"], [("", 3.0)])
            self.assertRegex(series["vllm:cache_config_info"][0][0], r'^,block_size="64",num_gpu_blocks="[1-9][0-9]*",cache_dtype="')

    def test_the_dashboard_asks_for_what_there_is(self):
        with Server(HASTEN, MODEL) as s:
            names = set(re.findall(r"^([a-z0-9_:]+)\{", s.get("/metrics").body.decode(), re.M))
        panels = json.loads((SOURCE / "packaging/grafana.json").read_text())["panels"]
        asked = {n for p in panels for t in p["targets"] for n in re.findall(r"((?:vllm:|hasten_)\w+)\{", t["expr"])}
        self.assertGreater(len(asked), 10)
        self.assertEqual(asked - names, set())

    def test_usage_of_pages(self):
        with Server(HASTEN, "script:hash=1,length=0", "-c", 4096, "--slots", 4) as s:
            self.assertEqual(s.metric("vllm:kv_cache_usage_perc"), 0)
            with s.connect() as c:
                c.sendall(request_bytes("/v1/completions", {"prompt": "x" * 3000, "stream": True, "ignore_eos": True}))
                read_until(c, b"data: ")
                slots = [x for x in s.get("/slots").json() if x["is_processing"]]
                if slots:  # it may be over already
                    self.assertGreater(s.get("/get_load").json()["load"], 0)
            s.wait_idle()
            self.assertEqual(s.metric("vllm:kv_cache_usage_perc"), 0)


class Fields(unittest.TestCase):
    VALUES = [None, True, False, 0, -1, 1, 10 ** 30, -10 ** 30, 1.5, 1e308, "", "x", [], [None], {}, {"a": 1}, "\u0000", [[[]]]]

    def test_every_field_with_hostile_values(self):
        """A refusal that names the field, or an answer."""
        paths = {"chat": "/v1/chat/completions", "completions": "/v1/completions", "tokenize": "/tokenize",
                 "detokenize": "/detokenize", "template": "/apply-template", "embeddings": "/v1/embeddings", "infill": "/infill"}
        one = [{"role": "user", "content": "x"}]
        good = {"chat": {"messages": one, "max_tokens": 1}, "completions": {"prompt": "x", "max_tokens": 1},
                "tokenize": {"content": "x"}, "detokenize": {"tokens": [65]}, "template": {"messages": one},
                "embeddings": {"input": "x", "pooling": "mean"}, "infill": {"input_prefix": "x"}}
        import http.client
        with Server(HASTEN, MODEL, "-c", 256) as s:
            fields = s.get("/openapi.json").json()["x-fields"]
            self.assertGreater(len(fields), 60)
            c = http.client.HTTPConnection("127.0.0.1", s.port, timeout=30)
            for f in fields:
                for endpoint in f["endpoints"]:
                    for value in self.VALUES:
                        body = good[endpoint] | {f["name"]: value}
                        c.request("POST", paths[endpoint], json.dumps(body))
                        a = c.getresponse()
                        data = a.read()
                        if a.status != 200:
                            e = json.loads(data)["error"]
                            named = (e["param"] or "").startswith(f["name"].split("[")[0]) or f["name"] in e["message"] \
                                or endpoint in ("embeddings", "infill") or "too big" in e["message"]
                            self.assertTrue(400 <= a.status < 500 and named, (endpoint, f["name"], value, a.status, data[:300]))
            c.close()

    def test_the_documents_table(self):
        with Server(HASTEN, MODEL) as s:
            fields = s.get("/openapi.json").json()["x-fields"]
        rows = ["| field | endpoints | JSON | what becomes of it | default or neutral value | meaning |", "|---|---|---|---|---|---|"]
        for f in fields:
            kind = f["type"] + (f", {f['minimum']:g} to {f['maximum']:g}" if "minimum" in f else "")
            value = "" if f["value"] is None else f"`{json.dumps(f['value'])}`".replace("|", "\\|")
            rows.append(f"| `{f['name']}` | {' '.join(f['endpoints'])} | {kind} | {f['use']} | {value} | {f['doc']} |")
        page = SOURCE / "docs/http.md"
        text = page.read_text()
        begin, end = text.index("<!-- fields -->\n") + len("<!-- fields -->\n"), text.index("<!-- /fields -->")
        table = "\n".join(rows) + "\n"
        if os.environ.get("HASTEN_TEST_UPDATE"):
            page.write_text(text[:begin] + table + text[end:])
        else:
            self.assertEqual(text[begin:end], table, "run this test with HASTEN_TEST_UPDATE=1")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
