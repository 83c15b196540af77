#!/usr/bin/env python3
"""The command on a real model (smollm2): a golden answer on the reference path, turns that keep the cache.

    test_real_model.py HASTEN MODEL"""

import json
import os
import subprocess
import sys
import tempfile
import unittest

HASTEN, MODEL = sys.argv[1], sys.argv[2]


def run(*args):
    r = subprocess.run([HASTEN, "run", MODEL, *args], capture_output=True, check=True, stdin=subprocess.DEVNULL, timeout=110)
    return r.stdout


class RealModel(unittest.TestCase):
    def test_golden_answer(self):
        out = run("-p", "What is the capital of France?", "-n", "16", "--temp", "0", "--reference")
        self.assertEqual(out, b"The capital of France is Paris.")

    def test_default_path_agrees(self):
        """Where the margin is wide, int8 activations choose what the reference chooses."""
        args = ("--raw", "-p", "1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11,", "-n", "8", "--temp", "0", "--json")
        fast, reference = json.loads(run(*args)), json.loads(run(*args, "--reference"))
        self.assertEqual(fast["tokens"], reference["tokens"])
        self.assertTrue(fast["text"].startswith(" 12, 13"), fast["text"])

    def test_turns_keep_the_cache(self):
        with tempfile.NamedTemporaryFile("w", suffix=".json") as f:
            json.dump(["My name is Ada.", "What is my name?"], f)
            f.flush()
            turns = [json.loads(line) for line in run("--turns", f.name, "-n", "24", "-s", "1").splitlines()]
        first, second = (t["timings"] for t in turns)
        self.assertEqual(second["cached_n"], first["prompt_n"] + first["predicted_n"] - 1)
        self.assertLess(second["prompt_n"], 25)


if __name__ == "__main__":
    if not os.path.exists(MODEL):
        sys.exit(f"{MODEL} is missing (fetch it: scripts/models smollm2)")
    unittest.main(argv=sys.argv[:1])
