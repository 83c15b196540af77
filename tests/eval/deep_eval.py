#!/usr/bin/env python3
"""The long form of eval's tests, on real models and data: damage of representations in their order, the tasks that a
small model can do, a comparison that must find what it should.

    deep_eval.py HASTEN SMOLLM2 QWEN DATA"""

import json
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

HASTEN, SMOLLM2, QWEN, DATA = sys.argv[1:5]


def evaluate(*args):
    r = subprocess.run([HASTEN, "eval", *map(str, args), "--json"], capture_output=True, text=True)
    if r.returncode not in (0, 1) or not r.stdout:
        raise AssertionError(f"{args}: exit status {r.returncode}: {r.stderr}")
    return json.loads(r.stdout)


class Deep(unittest.TestCase):
    def test_damage_of_caches(self):
        text = ["--ppl", f"{DATA}/wikitext2-test.txt", "--limit-tokens", 32768, "--damage"]
        same, bf16, q8 = (evaluate(SMOLLM2, *text, "-ctk", kv) for kv in ("f16", "bf16", "q8"))
        self.assertEqual((same["damage"]["kl"]["hi"], same["damage"]["flips"]["n"]), (0, 0))
        self.assertGreater(bf16["damage"]["kl"]["value"], 0)
        self.assertLess(q8["damage"]["kl"]["hi"], 0.02)
        self.assertGreater(q8["damage"]["top1_agreement"]["lo"], 0.9)
        with tempfile.TemporaryDirectory() as folder:
            a, b = Path(folder, "a.json"), Path(folder, "b.json")
            a.write_text(json.dumps(same))
            b.write_text(json.dumps(q8))
            rows = {r["name"]: r for r in evaluate("--compare", a, b)["rows"]}
        self.assertEqual((rows["KL"]["verdict"], rows["top-1 agreement"]["verdict"]), ("worse", "worse"))

    def test_tasks(self):
        r = evaluate(QWEN, "--task", "gsm8k,humaneval", "--data", DATA, "--limit", 40)
        score = {t["task"]: t["score"]["value"] for t in r["tasks"]}
        self.assertGreater(score["humaneval"], 0.4, score)  # 0.6 is published for the unquantised model
        self.assertGreater(score["gsm8k"], 0.15, score)

    def test_long_texts(self):
        r = evaluate(QWEN, "--task", "needle,recall,ruler", "--length", "1024,4096", "--limit", 5)
        score = {(t["task"], t["length"]): t["score"]["value"] for t in r["tasks"]}
        self.assertEqual(len(score), 2 * 15)
        for task in ("needle", "recall", "niah_multivalue", "vt"):
            self.assertGreaterEqual(score[task, 1024], 0.8, score)


unittest.main(argv=sys.argv[:1])
