#!/usr/bin/env python3
"""hasten bench --serve against a scripted server: what is sent, what is counted, and each way in which a server fails.

    test_serve.py HASTEN"""

import csv
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest
import xml.etree.ElementTree
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parent), str(Path(__file__).resolve().parent.parent / "support")]
import side_by_side  # noqa: E402
from load_server import Server  # noqa: E402

HASTEN = sys.argv[1]
N = 8


class Serve(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server()
        cls.temporary = tempfile.TemporaryDirectory()
        cls.folder = Path(cls.temporary.name)

    @classmethod
    def tearDownClass(cls):
        cls.server.close()
        cls.temporary.cleanup()

    def setUp(self):
        self.server.forget()

    def bench(self, kind, *args, status=0, n=N, p=40, **env):
        url = kind if "://" in kind else self.server.url(kind)
        size = ["-p", str(p)] if p else []
        run = subprocess.run([HASTEN, "bench", "--serve", url, "-n", str(n), *size, *args], capture_output=True, text=True,
                             env=dict(os.environ, **env), timeout=60)
        self.assertEqual(run.returncode, status, run.stderr + run.stdout)
        return run

    def levels(self, kind, *args, status=0, **more):
        answer = json.loads(self.bench(kind, "--json", *args, status=status, **more).stdout)
        return answer["levels"], answer

    def one(self, kind, *args, requests=3, **more):
        """The only level, of one stream without a warm-up."""
        levels, _ = self.levels(kind, "--streams", "1", "--requests", str(requests), "--warm-up", "0", *args, **more)
        self.assertEqual(len(levels), 1)
        return levels[0]

    # ---- what goes well ---------------------------------------------------------------------------------------

    def test_closed(self):
        table = self.folder / "closed.csv"
        plot = self.folder / "closed.svg"
        levels, answer = self.levels("good", "--streams", "1,4", "--requests", "8", "--csv", str(table), "--plot", str(plot),
                                     "--field", "ignore_eos=true", "--field", "temperature=0.5")
        self.assertEqual((answer["model"], answer["owned_by"], answer["loop"]), ("model-good", "test", "closed"))
        self.assertEqual(self.server.most, 4)
        for level, streams in zip(levels, (1, 4)):
            self.assertEqual((level["streams"], level["requests"], level["ok"], level["failed"]), (streams, 8, 8, 0))
            self.assertEqual((level["tokens"], level["counted_by"], level["cached_tokens"]), (8 * N, "usage", 8 * 16))
            self.assertEqual((level["ttft_ms"]["n"], level["itl_ms"]["n"]), (8, 8 * (N - 1)))
            self.assertEqual(level["tokens_per_delta"], 1)
            self.assertEqual(level["errors"], {})
            self.assertGreaterEqual(level["itl_ms"]["p50"], 3.5)  # a token every 4 ms
            self.assertLessEqual(level["itl_ms"]["p50"], level["itl_ms"]["p99"])
            self.assertLessEqual(level["itl_ms"]["p99"], level["longest_pause_ms"])
        self.assertLess(levels[0]["tokens_per_s"], 250)
        self.assertGreater(levels[1]["tokens_per_s"], 1.2 * levels[0]["tokens_per_s"])
        bodies = [r["body"] for r in self.server.requests]
        self.assertEqual(len(bodies), 2 + 16)  # two to warm up
        for body in bodies:
            self.assertEqual((body["max_tokens"], body["stream"], body["stream_options"], body["ignore_eos"],
                              body["temperature"], body["model"]), (N, True, {"include_usage": True}, True, 0.5, "model-good"))
            self.assertAlmostEqual(len(body["messages"][0]["content"]), 40 * 5 + 10, delta=40)  # a token has 5 bytes there
        self.assertEqual(len({b["messages"][0]["content"][:9] for b in bodies}), 18)  # no two begin alike
        self.assertEqual(len({b["seed"] for b in bodies}), 18)
        rows = list(csv.DictReader(table.read_text().splitlines()))
        self.assertEqual([r["streams"] for r in rows], ["1"] * 8 + ["4"] * 8)
        self.assertEqual({(r["end"], r["status"], r["tokens"], r["deltas"]) for r in rows}, {("ok", "200", str(N), str(N))})
        document = xml.etree.ElementTree.parse(plot)
        self.assertEqual(len(document.findall(".//{*}polyline")), 1 + 3 + 3)

    def test_seeds(self):
        def prompts(*args):
            self.server.forget()
            self.bench("good", "--streams", "1", "--requests", "3", "--warm-up", "0", n=1, *args)
            return [(r["body"]["seed"], r["body"]["messages"]) for r in self.server.requests]
        first = prompts("-s", "5")
        self.assertEqual(first, prompts("-s", "5"))
        self.assertNotEqual(first, prompts("-s", "6"))

    def test_open(self):
        levels, answer = self.levels("good", "--rate", "60,120", "--requests", "24", "--warm-up", "0")
        self.assertEqual(answer["loop"], "open")
        for level, rate in zip(levels, (60, 120)):
            self.assertEqual((level["rate"], level["ok"]), (rate, 24))
        at = [r["at"] for r in self.server.requests[:24]]
        gaps = [b - a for a, b in zip(at, at[1:])]
        self.assertTrue(0.2 < sum(gaps) < 3.0, gaps)  # 0.38 s in the mean
        self.assertGreater(max(gaps), 3 * sorted(gaps)[len(gaps) // 2] / 2)  # by chance, not by a beat
        self.assertGreater(self.server.most, 1)

    def test_duration(self):
        level = self.levels("good", "--streams", "2", "--duration", "300ms", "--warm-up", "0")[0][0]
        self.assertTrue(0.29 <= level["window_s"] <= 0.31, level["window_s"])
        self.assertEqual(level["failed"], 0)
        inside = level["tokens_per_s"] * level["window_s"]  # of the two answers that are awaited, a part
        self.assertTrue(level["tokens"] - 2 * N - 0.01 <= inside <= level["tokens"] + 0.01, level)

    def test_counting(self):
        silent = self.one("silent")
        self.assertEqual((silent["counted_by"], silent["tokens"], silent["prompt_tokens"]), ("deltas", 3 * N, None))
        double = self.one("double")
        self.assertEqual((double["counted_by"], double["tokens"], double["tokens_per_delta"]), ("usage", 3 * N, 2))
        self.assertEqual(double["itl_ms"]["n"], 3 * (N // 2 - 1))
        pieces = self.one("pieces")
        self.assertEqual((pieces["ok"], pieces["tokens"], pieces["errors"]), (3, 6, {}))

    def test_latencies_and_goodput(self):
        late = self.one("late", "--ttft-bound", "10s", "--itl-bound", "50ms", requests=2)
        self.assertTrue(150 <= late["ttft_ms"]["p50"] < 5000, late)  # the role and the empty delta are no token
        self.assertEqual(late["itl_ms"]["n"], 2 * (N - 1))
        self.assertTrue(100 <= late["longest_pause_ms"] < 5000, late)
        self.assertEqual(late["goodput"]["requests"], 0)  # 1 pause of 7 is too long: more than 5 %
        good = self.one("late", "--ttft-bound", "10s", requests=2)["goodput"]
        self.assertEqual((good["requests"], good["share"], good["itl_bound_ms"]), (2, 1, None))
        self.assertEqual(self.one("late", "--ttft-bound", "100ms", requests=2)["goodput"]["requests"], 0)
        self.assertIsNone(self.one("good", requests=1)["goodput"])

    def test_chats(self):
        levels, _ = self.levels("chat", "--streams", "2", "--chats", "3", "--turns", "3", "--shared-tokens", "20", "--warm-up",
                                "0")
        turns = levels[0]["turns"]
        self.assertEqual([(t["turn"], t["n"]) for t in turns], [(1, 3), (2, 3), (3, 3)])
        self.assertTrue(turns[0]["prompt_tokens"] < turns[1]["prompt_tokens"] < turns[2]["prompt_tokens"])
        self.assertEqual(turns[2]["cached_tokens"], turns[2]["prompt_tokens"] - 10)
        chats = {}
        for r in self.server.requests:
            messages = r["body"]["messages"]
            chats.setdefault(messages[1]["content"], []).append(messages)
        self.assertEqual(len(chats), 3)
        for first, second, third in chats.values():
            self.assertEqual([m["role"] for m in third], ["system", "user", "assistant", "user", "assistant", "user"])
            self.assertEqual((third[:4], second[:2]), (second, first))
            self.assertEqual(third[4]["content"], "answer to 4")
        self.assertEqual(len({m[0][0]["content"] for m in chats.values()}), 1)

    def test_prompts_of_files(self):
        lines = self.folder / "prompts.jsonl"
        lines.write_text('"plain"\n\n{"prompt": "a prompt"}\n'
                         '{"messages": [{"role": "system", "content": "s"}, {"role": "user", "content": "u"}]}\n'
                         '{"custom_id": "1", "body": {"messages": [{"role": "user", "content": "batch"}]}}\n'
                         '{"conversations": [{"from": "human", "value": "h"}, {"from": "gpt", "value": "g"},'
                         ' {"from": "human", "value": "h2"}]}\n')
        self.one("good", "--prompts", str(lines), requests=6, n=1)
        sent = [[m["content"] for m in r["body"]["messages"]] for r in self.server.requests]
        self.assertEqual(sent, [["plain"], ["a prompt"], ["s", "u"], ["batch"], ["h", "g", "h2"], ["plain"]])
        text = self.folder / "text.txt"
        text.write_text("Zwölf Boxkämpfer jagen Viktor quer über den großen Sylter Deich. " * 30)
        self.one("good", "--prompts", str(text), requests=2, n=1)
        self.assertIn("Boxkämpfer", self.server.requests[-1]["body"]["messages"][0]["content"])

    def test_workload(self):
        _, answer = self.levels("good", "--workload", "chat", "--streams", "1", "--requests", "2", "--warm-up", "0", p=None)
        self.assertEqual(answer["prompts"]["workload"], "chat")
        self.assertIn("Why is the sky blue", self.server.requests[0]["body"]["messages"][0]["content"])
        self.assertEqual([m["role"] for m in self.server.requests[1]["body"]["messages"]], ["user", "assistant", "user"])

    def test_key(self):
        self.assertIn("--api-key", self.bench("keyed", "--requests", "1", status=5).stderr)
        self.assertEqual(self.one("keyed", HASTEN_API_KEY="secret")["ok"], 3)

    # ---- what does not ----------------------------------------------------------------------------------------

    def test_failures(self):
        for kind, name, words in (("cut", "cut", ""), ("short", "cut", "without a finish_reason"), ("dropped", "cut", ""),
                                  ("malformed", "malformed", "event: line 1"), ("page", "malformed", "no event"),
                                  ("failing", "failed", "out of pages"), ("refusing", "404", "no? such?model")):
            with self.subTest(kind):
                level = self.one(kind, requests=1, status=1)
                self.assertEqual((level["errors"], level["ok"], level["failed"]), ({name: 1}, 0, 1))
                self.assertIn(words, level["first_error"])

    def test_stall(self):
        level = self.one("stall", "--stall", "200ms", requests=1, status=1)
        self.assertEqual((level["errors"], level["tokens"]), ({"stall": 1}, 0))
        self.assertEqual(level["itl_ms"]["n"], 1)

    def test_retry_after(self):
        level = self.one("busy", requests=3)
        self.assertEqual((level["errors"], level["ok"]), ({"429": 1}, 2))
        self.assertIn("status 429: the queue is full", level["first_error"])
        first, second, _ = self.server.requests
        self.assertGreaterEqual(second["at"] - first["at"], 1)
        self.assertEqual(first["body"], second["body"])  # the same once more

    def test_table(self):
        run = self.bench("busy", "--streams", "2", "--requests", "4", "--warm-up", "0", "--ttft-bound", "1s")
        self.assertIn("failed: 1 x status 429; first: status 429: the queue is full", run.stdout)
        self.assertIn("tokens counted by usage", run.stdout)

    def test_warm_up_that_fails(self):
        run = self.bench("refusing", "--requests", "1", status=5)
        self.assertEqual((run.stdout, run.stderr.count("\n")), ("", 1))
        self.assertIn("no request was answered: status 404: no? such?model", run.stderr)

    def test_nobody(self):
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            url = f"http://127.0.0.1:{s.getsockname()[1]}"
        for args in ([], ["model", "--warm-up", "0", "--streams", "8"]):
            run = self.bench(url, *args, "--requests", "8", status=5)
            self.assertEqual(run.stderr.count("\n"), 1)

    def test_bounds(self):
        """LIMIT_LOAD_STREAMS and LIMIT_LOAD_REQUESTS: one more is refused; what is allowed gets as far as the server."""
        nobody = ["bench", "--serve", "http://127.0.0.1:9", "-q"]
        for option, most in (("--streams", 4096), ("--requests", 1 << 22)):
            done = subprocess.run([HASTEN, *nobody, option, str(most + 1)], capture_output=True, text=True)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn(str(most), done.stderr)
        done = subprocess.run([HASTEN, *nobody, "--streams", "4096", "--requests", str(1 << 22)], capture_output=True, text=True)
        self.assertEqual(done.returncode, 5, done.stderr)

    def test_interrupted(self):
        """What was seen until then is printed; what still ran counts nowhere."""
        run = subprocess.Popen([HASTEN, "bench", "--serve", self.server.url("good"), "-n", "50", "--streams", "2", "--warm-up", "0",
                                "--duration", "1m", "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        until = time.monotonic() + 20
        while len(self.server.requests) < 3 and time.monotonic() < until:
            time.sleep(0.01)
        run.send_signal(signal.SIGINT)
        out, err = run.communicate(timeout=20)
        self.assertEqual((run.returncode, err), (130, "hasten: interrupted\n"))
        level = json.loads(out)["levels"][0]
        self.assertEqual((level["failed"], level["ok"] > 0, level["errors"]), (0, True, {}))

    def test_usage(self):
        for args, words in ((["--streams", "0"], "--streams: '0'"), (["--streams", "1,x"], "found 'x'"),
                            (["--rate", "-1"], "--rate"), (["--rate", "1", "--streams", "1"], "expected one of them"),
                            (["--field", "x"], "NAME=JSON"), (["-d", "5"], "takes no --n-depth"), (["-n", "0"], "-n 0"),
                            (["-c", "5"], "takes no --ctx-size"), (["--prompts", "missing.txt"], "missing.txt"),
                            (["--attend", "quest"], "takes no --attend"), (["--workload", "chad"], "chat"),
                            (["--workload", "chat", "-p", "5"], "takes no --n-prompt"),
                            (["--workload", "chat", "--prompts", "x"], "expected one of them")):
            with self.subTest(args):
                run = subprocess.run([HASTEN, "bench", "--serve", self.server.url("good"), *args], capture_output=True, text=True)
                self.assertEqual(run.returncode, 3 if "missing.txt" in words else 2, run.stderr)
                self.assertIn(words, run.stderr)
        for url in ("ftp://x/", "127.0.0.1:8642", "http://user:word@127.0.0.1/"):
            run = subprocess.run([HASTEN, "bench", "--serve", url], capture_output=True, text=True)
            self.assertEqual((run.returncode, "--serve" in run.stderr), (2, True), run.stderr)
        run = subprocess.run([HASTEN, "bench", "--rate", "1", "x.gguf"], capture_output=True, text=True)
        self.assertEqual(run.returncode, 2)
        self.assertIn("--rate without --serve", run.stderr)
        self.assertEqual(self.server.requests, [])


if __name__ == "__main__":
    side_by_side.main(6)
