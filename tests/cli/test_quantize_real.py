#!/usr/bin/env python3
"""Quantising a real model (smollm2, whose rows of 576 make K formats fall back): perplexity stays sane, and an importance
matrix brings a coarse format nearer to the model.

    test_quantize_real.py HASTEN MODEL TEXTS"""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import unittest

import numpy as np

HASTEN, MODEL, TEXTS = sys.argv[1], sys.argv[2], sys.argv[3]
PROSE, CODE = os.path.join(TEXTS, "prose.txt"), os.path.join(TEXTS, "code.txt")
N_VOCAB = 49152


def hasten(*args):
    r = subprocess.run([HASTEN, *args], capture_output=True, stdin=subprocess.DEVNULL, timeout=800)
    if r.returncode:
        raise AssertionError(f"{args}: {r.stderr.decode()}")
    return r


def log_probabilities(model, tokens):
    r = hasten("eval", model, "--ppl", PROSE, "--limit-tokens", str(tokens), "--logits", "-", "--json")
    x = np.frombuffer(r.stdout, np.float32).reshape(-1, N_VOCAB).astype(np.float64)
    x -= x.max(axis=1, keepdims=True)
    return x - np.log(np.exp(x).sum(axis=1, keepdims=True))


class RealModel(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.path = lambda name: os.path.join(self.folder.name, name)

    def tearDown(self):
        self.folder.cleanup()

    def test_perplexity(self):
        def ppl(model):
            return json.loads(hasten("eval", model, "--ppl", PROSE, "--limit-tokens", "512", "--json").stdout)["ppl"]
        want = ppl(MODEL)
        for kind, bits, share in (("Q8_0", 8.51, 1.02), ("Q4_K_M", 6.17, 1.10)):
            report = json.loads(hasten("quantize", MODEL, self.path(kind), kind, "--json").stdout)
            self.assertAlmostEqual(report["bits_per_weight"], bits, delta=0.01)
            got = ppl(self.path(kind))
            print(f"{kind}: perplexity {got:.3f}, of the file {want:.3f}", file=sys.stderr)
            self.assertLess(got, want * share, kind)
            self.assertGreater(got, want / share, kind)
            os.unlink(self.path(kind))
        self.assertEqual(report["fallbacks"], [{"from": "Q6_K", "to": "Q8_0", "tensors": 15},
                                               {"from": "Q4_K", "to": "Q5_0", "tensors": 166}])

    def test_ended_half_way(self):
        """Ctrl-C leaves the old file and nothing beside it; a kill at least the old file."""
        out = self.path("out.gguf")
        for sig, status in ((signal.SIGINT, 130), (signal.SIGKILL, -9)):
            with open(out, "w") as f:
                f.write("old")
            p = subprocess.Popen([HASTEN, "quantize", MODEL, out, "Q4_0", "-t", "1"], stderr=subprocess.PIPE)
            until = time.monotonic() + 100
            while time.monotonic() < until and not any(n.endswith(".part") for n in os.listdir(self.folder.name)):
                time.sleep(0.01)
            p.send_signal(sig)
            said = p.communicate(timeout=100)[1].decode()
            self.assertEqual(p.returncode, status, said)
            with open(out) as f:
                self.assertEqual(f.read(), "old")
            if sig == signal.SIGINT:
                self.assertIn("interrupted in tensor", said)
                self.assertEqual(os.listdir(self.folder.name), ["out.gguf"])

    def test_importance_helps(self):
        """Measured on prose, calibrated on program text: Q4_0 everywhere."""
        reference = log_probabilities(MODEL, 257)
        hasten("imatrix", MODEL, "-f", CODE, "-o", self.path("imatrix"), "--head")
        kl = {}
        for use in (False, True):
            hasten("quantize", MODEL, self.path("q"), "Q4_0", "--pure", *(["--imatrix", self.path("imatrix")] if use else []))
            q = log_probabilities(self.path("q"), 257)
            kl[use] = float((np.exp(reference) * (reference - q)).sum(axis=1).mean())
        print(f"mean KL: {kl[False]:.4f} plain, {kl[True]:.4f} with importance", file=sys.stderr)
        self.assertLess(kl[True], 0.95 * kl[False])
        self.assertLess(kl[False], 0.8)


if __name__ == "__main__":
    if not os.path.exists(MODEL):
        sys.exit(f"{MODEL} is missing (fetch it: scripts/models smollm2)")
    unittest.main(argv=sys.argv[:1])
