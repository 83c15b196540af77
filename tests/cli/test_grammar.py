#!/usr/bin/env python3
"""A real model under a grammar: what it ends is JSON, whatever the seed; what forced tokens save changes nothing.

    test_grammar.py HASTEN MODEL GRAMMAR SEEDS"""

import json
import re
import subprocess
import sys
import unittest

HASTEN, MODEL, GRAMMAR, SEEDS = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])
PROMPT = 'Describe a cat as JSON with "name" and "age".'


def run(*args):
    r = subprocess.run([HASTEN, "run", MODEL, "--json", *args], capture_output=True, check=True, stdin=subprocess.DEVNULL,
                       timeout=300)
    return json.loads(r.stdout)


class Grammar(unittest.TestCase):
    def test_json(self):
        """Temperature 1 without filters: this model says much, and still nothing but JSON."""
        ended = 0
        for seed in range(SEEDS):
            a = run("-p", PROMPT, "--grammar", GRAMMAR, "-n", "100", "-s", str(seed), "--temp", "1", "--top-k", "0",
                    "--top-p", "1", "--min-p", "0" if seed % 2 else "0.05")
            with self.subTest(seed=seed, text=a["text"]):
                self.assertIn(a["finish_reason"], ("stop", "length"))
                if a["finish_reason"] == "stop":
                    self.assertIsInstance(json.loads(a["text"]), dict)
                    ended += 1
        self.assertGreaterEqual(ended, SEEDS // 2)

    def test_forced_tokens(self):
        """With --logprobs every token is chosen from logits."""
        grammar = 'root ::= "The answer to this question, as everybody knows, is " ("yes" | "no") ", but not always."'
        args = ("-p", "Is the sky blue?", "--grammar-text", grammar, "-s", "5")
        quick, slow = run(*args), run(*args, "--logprobs", "0")
        self.assertEqual(quick["tokens"], slow["tokens"])
        self.assertRegex(quick["text"], re.compile("^The answer .* is (yes|no), but not always\\.$"))
        self.assertEqual(quick["timings"]["predicted_n"], slow["timings"]["predicted_n"])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
