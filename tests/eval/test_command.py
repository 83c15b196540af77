#!/usr/bin/env python3
"""`hasten eval` from outside: damage held against the raw logits of both engines, tasks on scripted and tiny models,
logs that are continued, comparisons.

    test_command.py HASTEN MAKE_TINY WORK [TEST...]"""

import json
import math
import os
import shutil
import signal
import subprocess
import sys
import time
import unittest
from pathlib import Path

import numpy as np

HASTEN, MAKE_TINY, WORK = sys.argv[1], sys.argv[2], Path(sys.argv[3])
ENVIRONMENT = {k: v for k, v in os.environ.items() if not k.startswith("HASTEN_")}
TEXT = "the water is cold and the people of the first house are not here; they will come. " * 9
QUESTIONS = [("How many legs have two dogs?", "2 * 4 = 8\n#### 8"), ("And nine dogs?", "9 * 4 = 36\n#### 36"),
             ("And one?", "#### 4"), ("And none?", "#### 0")]


def run(*args, status=0):
    r = subprocess.run([HASTEN, "eval", *map(str, args)], capture_output=True, text=True, timeout=200, env=ENVIRONMENT)
    if r.returncode != status:
        raise AssertionError(f"{args}: exit status {r.returncode}, expected {status}: {r.stderr}")
    return r.stdout if status in (0, 1) else r.stderr


def result(*args, status=0):
    return json.loads(run(*args, "--json", status=status))


def write(name, text):
    path = WORK / name
    path.write_text(text)
    return path


class Damage(unittest.TestCase):
    def rows(self, *args):
        out = WORK / "logits"
        run(WORK / "llama.gguf", "--ppl", WORK / "text", "-c", 48, "--logits", out, *args)
        return out

    def test_against_raw_logits(self):
        r = result(WORK / "llama.gguf", "--ppl", WORK / "text", "-c", 48, "--damage", "-ctk", "q8", "--block", 16)
        n = r["n_scored"]
        a, b = (np.fromfile(self.rows(*args), dtype=np.float32).reshape(n, -1).astype(np.float64)
                for args in ([], ["-ctk", "q8"]))
        p, q = (x - x.max(axis=1, keepdims=True) for x in (a, b))
        p, q = (x - np.log(np.exp(x).sum(axis=1, keepdims=True)) for x in (p, q))
        kl = (np.exp(p) * (p - q)).sum(axis=1)
        d = r["damage"]
        self.assertAlmostEqual(d["kl"]["value"] / kl.mean(), 1, delta=1e-4)
        self.assertAlmostEqual(d["kl_max"] / kl.max(), 1, delta=1e-4)
        self.assertAlmostEqual(d["kl_p99"]["value"] / np.sort(kl)[::-1][math.floor(n / 100)], 1, delta=1e-4)
        flips = (a.argmax(axis=1) != b.argmax(axis=1)).sum()
        self.assertEqual(d["flips"]["n"], flips)
        self.assertAlmostEqual(d["top1_agreement"]["value"], 1 - flips / n, places=9)
        self.assertAlmostEqual(d["max_dlogp"]["value"], np.abs(p - q)[np.exp(p) >= 1e-6].max(), places=4)
        for name in ("kl", "kl_p99", "top1_agreement", "ppl_plain", "ppl_variant", "ppl_difference", "nll_difference"):
            self.assertTrue(d[name]["lo"] <= d[name]["value"] <= d[name]["hi"], (name, d[name]))
        self.assertEqual(r["variant"], ["cache-type=q8"])
        self.assertEqual(sum(r["blocks"]["n"]), n)
        self.assertAlmostEqual(sum(r["blocks"]["kl"]) / n, d["kl"]["value"], places=9)
        plain = result(WORK / "llama.gguf", "--ppl", WORK / "text", "-c", 48)
        self.assertAlmostEqual(plain["nll"], sum(r["blocks"]["nll_plain"]) / n, places=6)

    def test_rows_and_threads_change_nothing(self):
        args = [WORK / "llama.gguf", "--ppl", WORK / "text", "-c", 48, "--damage", "-ctk", "q8"]
        a, b = result(*args), result(*args, "--rows", 1, "-t", 1, "-b", 7)
        self.assertEqual(a["damage"], b["damage"])
        self.assertNotEqual(a["damage"]["kl"], result(*args, "--seed", 2)["damage"]["kl"])  # other intervals
        c = result(*args, "--prefix", 40, "--limit", 3)
        self.assertEqual(c["n_scored"], 3 * 8)

    def test_methods_imply_it(self):
        r = result(WORK / "llama.gguf", "--ppl", WORK / "text", "-c", 256, "--attend", "window:recent=64")
        self.assertGreater(r["damage"]["kl"]["value"], 0)
        self.assertTrue(r["variant"][0].startswith("attend window:"), r["variant"])


class Tasks(unittest.TestCase):
    def setUp(self):
        self.gsm8k = write("gsm8k-test.jsonl", "".join(json.dumps({"question": q, "answer": a}) + "\n" for q, a in QUESTIONS))
        rules = 'after "<|im_start|>assistant\\n": "They have 8. #### 8" eos\n'
        self.model = f"script:{write('rules', rules)}"

    def test_scores_and_log(self):
        log = WORK / "log.jsonl"
        log.unlink(missing_ok=True)
        r = result(self.model, "--task", "gsm8k", "--data", self.gsm8k, "--log", log)
        task = r["tasks"][0]
        self.assertEqual(task["items"], {"0": 1, "1": 0, "2": 0, "3": 0})
        self.assertEqual((task["score"]["value"], task["n"], task["length"]), (0.25, 4, None))
        self.assertTrue(0 < task["score"]["lo"] < 0.25 < task["score"]["hi"] < 0.8)
        lines = [json.loads(line) for line in log.read_text().splitlines()]
        self.assertEqual(len(lines), 5)
        self.assertEqual(lines[0]["seed"], 1)
        one = next(line for line in lines[1:] if line["id"] == "0")
        self.assertEqual((one["task"], one["score"], one["want"], one["answers"], one["cut"]),
                         ("gsm8k", 1, ["8"], ["They have 8. #### 8"], [False]))

    def test_a_log_is_continued(self):
        log = WORK / "continued.jsonl"
        log.unlink(missing_ok=True)
        args = [self.model, "--task", "gsm8k", "--data", WORK, "--log", log]  # data: a folder
        whole = result(*args)
        lines = log.read_text().splitlines(keepends=True)
        log.write_text("".join(lines[:3]) + lines[3][:20])  # killed in the middle of a line
        again = result(*args)
        self.assertEqual(again["tasks"], whole["tasks"])
        self.assertLess(again["predicted_n"], whole["predicted_n"])
        self.assertEqual(sorted(log.read_text().splitlines()[1:]), sorted(line.rstrip("\n") for line in lines[1:]))
        self.assertEqual(result(*args)["predicted_n"], 0)
        self.assertIn("is of another", run(*args, "--seed", 9, status=2))
        self.gsm8k.write_text(json.dumps({"question": "other", "answer": "#### 1"}) + "\n")
        self.assertIn("expected the same data", run(*args, status=2))
        log.write_text(lines[0] + '{"no": 1}\n')
        self.assertIn("no task and id", run(*args, status=3))

    def test_batches_change_nothing(self):
        answers = []
        for parallel, extra in ((1, ["-t", 1]), (5, ["-b", 33]), (4, ["--draft", "lookup", "--draft", "verify:ctl=off"])):
            log = WORK / f"parallel{parallel}.jsonl"
            log.unlink(missing_ok=True)
            run(WORK / "llama.gguf", "--task", "needle,recall,vt", "--length", 1200, "--limit", 4, "--parallel", parallel,
                "--log", log, *extra)
            answers.append(sorted(log.read_text().splitlines()[1:]))
        self.assertEqual(answers[0], answers[1])
        self.assertEqual(answers[0], answers[2])
        self.assertEqual(len(answers[0]), 12)

    def test_methods_that_stop_count(self):
        """A method that ends thinking after four tokens shows in the answers; drafts without a task are refused."""
        rules = write("thinks", 'after "<|im_start|>assistant\\n": "<think>abcdefghij</think>#### 9" eos\n'
                                'after "</think>\\n\\n": "#### 8" eos\n')
        args = [f"script:{rules}", "--task", "gsm8k", "--data", self.gsm8k]
        stop = ["--stop-when", "budget:max=4,open=<think>,close=</think>"]
        self.assertEqual([result(*args, *more)["tasks"][0]["score"]["value"] for more in ([], stop)], [0, 0.25])

    def test_blind_moves_the_prompt_end_alone(self):
        """Without methods it changes nothing; with one that spares prompts, the question is no longer spared."""
        answers = {}
        for method in ([], ["--attend", "window:recent=64,phase=decode"]):
            for blind in ([], ["--blind"]):
                log = WORK / "blind.jsonl"
                log.unlink(missing_ok=True)
                run(WORK / "llama.gguf", "--task", "needle,vt,qa_2", "--length", 1200, "--limit", 2, "--log", log, *method, *blind)
                answers[len(method), len(blind)] = sorted(log.read_text().splitlines()[1:])
        self.assertEqual(answers[0, 0], answers[0, 1])
        self.assertNotEqual(answers[2, 0], answers[2, 1])
        self.assertNotEqual(answers[0, 0], answers[2, 0])

    def test_ruler_is_thirteen_tasks(self):
        r = result("script:hash=3", "--task", "ruler,needle", "--length", "2048,2500", "--limit", 1)
        self.assertEqual(len(r["tasks"]), 2 * 14)
        self.assertLessEqual(r["context"], 2560)
        self.assertEqual({t["length"] for t in r["tasks"]}, {2048, 2500})

    def test_humaneval(self):
        data = {"task_id": "T/1", "prompt": "def seven():\n    \"\"\"Gives 7.\"\"\"\n", "entry_point": "seven",
                "test": "def check(f):\n    assert f() == 7"}
        path = write("humaneval.jsonl", json.dumps(data) + "\n" + json.dumps(dict(data, task_id="T/2", test="def check(f):\n    assert f() == 8")) + "\n")
        rules = 'after "<|im_start|>assistant\\n": "```python\\ndef seven():\\n    return 7\\n```" eos\n'
        model = f"script:{write('code', rules)}"
        r = result(model, "--task", "humaneval", "--data", path, "--python", sys.executable)
        self.assertEqual(r["tasks"][0]["items"], {"T/1": 1, "T/2": 0})
        self.assertIn("no-python", run(model, "--task", "humaneval", "--data", path, "--python", "no-python", status=3))

    def test_usage(self):
        for args, words in ((["--task", "gms8k"], "did you mean gsm8k"), (["--task", "gsm8k"], "needs data"),
                            (["--task", "needle", "--length", "12"], "--length '12'"),
                            (["--task", "needle", "--length", "64"], "without any filler"),
                            (["--task", "gsm8k", "--logits", "x"], "--task with --logits"),
                            (["--task", "needle", "--damage"], "--task with --damage")):
            self.assertIn(words, run(self.model, *args, status=2))
        self.assertIn("expected -c", run(self.model, "--task", "needle", "-c", 512, status=1) or
                      subprocess.run([HASTEN, "eval", self.model, "--task", "needle", "-c", "512"], capture_output=True,
                                     text=True, env=ENVIRONMENT).stderr)

    def test_interrupted(self):
        log = WORK / "interrupted.jsonl"
        log.unlink(missing_ok=True)
        p = subprocess.Popen([HASTEN, "eval", str(WORK / "llama.gguf"), "--task", "needle", "--limit", "9000", "--length", "300",
                              "--log", str(log), "--parallel", "1"], stderr=subprocess.PIPE, env=ENVIRONMENT)
        while not (log.exists() and log.read_text().count("\n") >= 2):
            time.sleep(0.05)
        p.send_signal(signal.SIGINT)
        self.assertIn(b"the same command continues", p.communicate(timeout=100)[1])
        self.assertEqual(p.returncode, 130)


class Compare(unittest.TestCase):
    def tasks(self, name, scores, seed=1):
        return write(name, json.dumps({"seed": seed, "tasks": [{"task": "gsm8k", "length": None, "items": {
            str(i): s for i, s in enumerate(scores)}}]}))

    def test_items(self):
        good, bad = self.tasks("a.json", [1] * 30 + [0] * 10), self.tasks("b.json", [1] * 20 + [0] * 20)
        r = result("--compare", good, bad, status=1)
        row = r["rows"][0]
        self.assertTrue(r["worse"] and row["verdict"] == "worse")
        self.assertAlmostEqual(row["p"], 2 / 1024)  # ten pairs differ, all one way
        self.assertAlmostEqual(row["difference"]["value"], -0.25)
        self.assertLess(row["difference"]["hi"], 0)
        self.assertEqual(result("--compare", bad, good)["rows"][0]["verdict"], "better")
        same = result("--compare", good, good)
        self.assertTrue(not same["worse"] and same["rows"][0]["p"] == 1)
        near = self.tasks("c.json", [1] * 27 + [0] * 13)
        self.assertFalse(result("--compare", good, near)["worse"])  # three of three: p = 0.25
        self.assertIn("different seeds", run("--compare", good, self.tasks("d.json", [1], seed=2), status=2))
        self.assertIn("expected two results", run("--compare", good, status=2))
        self.assertIn("significantly worse", run("--compare", good, bad, status=1))

    def test_texts(self):
        paths = []
        for name, args in (("p", []), ("q", ["-ctk", "q8"]), ("other", ["-c", 40])):
            text = run(WORK / "llama.gguf", "--ppl", WORK / "text", "-c", 48, "--damage", "--block", 8, "--json", *args)
            paths.append(write(f"{name}.json", text))
        rows = {r["name"]: r for r in result("--compare", paths[0], paths[1], status=1)["rows"]}
        self.assertEqual(set(rows), {"nll", "KL", "top-1 agreement"})
        self.assertEqual((rows["KL"]["verdict"], rows["KL"]["a"]), ("worse", 0))
        self.assertIn("different texts", run("--compare", paths[0], paths[2], status=2))
        plain = write("ppl.json", run(WORK / "llama.gguf", "--ppl", WORK / "text", "-c", 48, "--json"))
        self.assertEqual([r["verdict"] for r in result("--compare", plain, plain)["rows"]], [""])
        self.assertIn("not two results", run("--compare", plain, write("none.json", "{}"), status=3))


def main():
    shutil.rmtree(WORK, ignore_errors=True)
    WORK.mkdir(parents=True)
    subprocess.run([MAKE_TINY, "llama", "1", str(WORK / "llama.gguf")], check=True)
    write("text", TEXT)
    unittest.main(argv=sys.argv[:1] + sys.argv[4:], verbosity=1)


main()
