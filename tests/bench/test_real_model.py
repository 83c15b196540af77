#!/usr/bin/env python3
"""`hasten bench` on smollm2: the profile sums to the whole within 2 %, the bytes are those of the file.

    test_real_model.py HASTEN MODEL TEXT.c"""

import json
import os
import re
import subprocess
import sys
import unittest
from pathlib import Path

HASTEN, MODEL, TEXT = sys.argv[1], sys.argv[2], Path(sys.argv[3])


def hasten(*args):
    r = subprocess.run([HASTEN, *map(str, args)], capture_output=True, text=True, check=True, timeout=200)
    return json.loads(r.stdout)


class RealModel(unittest.TestCase):
    def test_profile(self):
        r = hasten("bench", MODEL, "--breakdown", "-p", 64, "-n", 8, "-r", 3, "--json")
        for step in (r["chunk"], r["token"]):
            total = sum(op["ms"] + op["waiting_ms"] for op in step["operations"])
            self.assertAlmostEqual(total, step["wall_ms"], delta=0.02 * step["wall_ms"])
            self.assertLess(step["waiting_ms"], step["wall_ms"])

    def test_bytes_are_those_of_the_file(self):
        """A token reads every matrix once; the tied embedding is the head."""
        r = hasten("bench", MODEL, "-p", 4, "-n", 2, "-r", 1, "--no-limits", "--json")
        tensors = hasten("info", MODEL, "--tensors", "--json")["tensors"]
        matrices = sum(t["bytes"] for t in tensors if len(t["shape"]) == 2)
        self.assertEqual(r["decode"]["bytes"]["weights"], 2 * matrices)

    def test_text_is_no_loop(self):
        """The built-in text fills a context of 8,192 and a prompt of 512 without saying a thing twice."""
        lines = re.findall(r'^    "(.*)";?$', TEXT.read_text(), re.M)
        text = "".join(line.encode().decode("unicode_escape") for line in lines)
        r = subprocess.run([HASTEN, "tokenize", MODEL], input=text.encode(), capture_output=True, check=True)
        ids = json.loads(r.stdout)
        self.assertGreater(len(ids), 8192 + 512)
        windows = {tuple(ids[i:i + 64]) for i in range(len(ids) - 63)}
        self.assertEqual(len(windows), len(ids) - 63)


if __name__ == "__main__":
    if not os.path.exists(MODEL):
        sys.exit(f"{MODEL} is missing (fetch it: scripts/models smollm2)")
    unittest.main(argv=sys.argv[:1])
