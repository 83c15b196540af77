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

    def test_pull_of_what_is_there(self):
        """The file is hashed and its path printed; --json: one object."""
        with tempfile.TemporaryDirectory() as cache:
            place = os.path.join(cache, "models", "smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf")
            os.makedirs(os.path.dirname(place))
            os.symlink(MODEL, place)
            command = [HASTEN, "pull", "smollm2"]
            out = [subprocess.run(command + more, capture_output=True, check=True, timeout=110,
                                  env=dict(os.environ, HASTEN_CACHE=cache)).stdout for more in ([], ["--json"])]
        self.assertEqual(out[0].decode(), place + "\n")
        self.assertEqual(json.loads(out[1]), {
            "name": "smollm2", "path": place, "bytes": os.path.getsize(MODEL),
            "sha256": "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"})

    def test_dropped_bytes_are_said(self):
        """SmolLM2 has no token for 21 bytes: a line on stderr, unless -q; nothing when the text comes back."""
        def tokenize(text, *args):
            r = subprocess.run([HASTEN, "tokenize", MODEL, *args], input=text, capture_output=True, check=True)
            return json.loads(r.stdout), r.stderr.decode()
        whole, silent = tokenize("naïve café \U0001f600\n".encode())
        self.assertEqual(silent, "")
        every = bytes(range(256))
        ids, said = tokenize(every)
        self.assertEqual(said, "hasten: 21 bytes of the text dropped: the vocabulary has no token for them\n")
        self.assertEqual(tokenize(every, "-q"), (ids, ""))
        back = subprocess.run([HASTEN, "detokenize", MODEL], input=json.dumps(ids).encode(), capture_output=True, check=True)
        self.assertEqual(len(back.stdout), 256 - 21)
        self.assertIn(" 1 byte of the text dropped: the vocabulary has no token for it", tokenize(b"a\xffb")[1])

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
