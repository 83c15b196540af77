#!/usr/bin/env python3
"""`hasten bench --workload` and `hasten tune` from outside, on tiny models: what the figures are, that exact methods are seen
to be exact, that a profile is a profile and its receipt one of its schema.

    test_command.py HASTEN MAKE_TINY WORK [TEST...]"""

import json
import os
import shutil
import subprocess
import sys
import unittest
from pathlib import Path

HASTEN, MAKE_TINY, WORK = sys.argv[1], sys.argv[2], Path(sys.argv[3])
ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))
from make_method_pages import violations  # noqa: E402

ENVIRONMENT = {k: v for k, v in os.environ.items() if not k.startswith("HASTEN_")} | {"XDG_DATA_HOME": str(WORK / "data")}
WORKLOAD = "".join(f"%% item {name} {half} {part} 24\n%% user\nThe water of the river and the water of the sea {name}.\n"
                   for name, half, part in (("a", "edit", "tune"), ("b", "fresh", "tune"), ("c", "edit", "held"),
                                            ("d", "fresh", "held"), ("e", "edit", "held")))


def run(*args, status=0):
    done = subprocess.run([HASTEN, *map(str, args)], capture_output=True, text=True, timeout=100, env=ENVIRONMENT)
    if done.returncode not in (status if isinstance(status, tuple) else (status,)):
        raise AssertionError(f"{args}: exit status {done.returncode}, expected {status}: {done.stderr}")
    return done.stdout if done.returncode in (0, 1) else done.stderr


def bench(*args):
    return json.loads(run("bench", WORK / "llama.gguf", *args, "--json"))


class Bench(unittest.TestCase):
    def test_plain(self):
        r = bench("--workload", WORK / "w.txt", "-r", 1)
        self.assertEqual((r["workload"]["prompts"], r["with"], r["repeat"]), (5, None, 1))
        p = r["plain"]
        self.assertEqual((p["answers"], p["drafted_n"], p["tokens_per_pass"]), (5, 0, 1))
        self.assertTrue(0 < p["tokens"] <= 5 * 23)
        self.assertGreater(p["ttft_ms"]["p95"], 0)
        self.assertGreaterEqual(p["between_ms"]["p95"], p["between_ms"]["median"])
        self.assertGreater(p["bytes_per_token"]["weights"], 10000)
        self.assertGreater(p["bytes_per_token"]["kv"], 0)
        self.assertGreater(r["peak_bytes"], 1 << 20)

    def test_drafts_beside_plain(self):
        r = bench("--workload", WORK / "w.txt", "--half", "edit", "--part", "held", "-n", 12, "-r", 3, "--draft",
                  "lookup:min=1", "--draft", "verify:ctl=off")
        w = r["with"]
        self.assertEqual((r["workload"]["prompts"], r["plain"]["answers"], w["answers"]), (2, 12, 12))
        self.assertTrue(w["ratio"]["same_answers"])
        self.assertEqual((w["ratio"]["pairs"], w["halves"]), (6, {}))
        self.assertGreater(w["drafted_n"], 0)
        self.assertEqual(w["tokens"], r["plain"]["tokens"])
        self.assertEqual(w["tokens"] - w["accepted_n"], w["passes"])
        for name in ("answer", "decode", "prefill"):
            self.assertTrue(0 < w["ratio"][name]["lo"] <= w["ratio"][name]["value"] <= w["ratio"][name]["hi"])

    def test_halves(self):
        r = bench("--workload", WORK / "w.txt", "-r", 1, "--attend", "window:recent=8")
        self.assertEqual(set(r["with"]["halves"]), {"edit", "fresh"})
        self.assertEqual(r["with"]["halves"]["edit"]["prompts"], 3)
        self.assertLess(r["with"]["bytes_per_token"]["kv"], 1.01 * r["plain"]["bytes_per_token"]["kv"])

    def test_text(self):
        """A drafter without a workload: the text of bench, as many tokens as asked for."""
        r = bench("-p", 60, "-n", 20, "-d", 40, "-r", 2, "--draft", "lookup")
        self.assertEqual((r["plain"]["tokens"], r["plain"]["prompt_n"], r["plain"]["answers"]), (4 * 19, 4 * 100, 4))
        self.assertTrue(r["with"]["ratio"]["same_answers"])
        self.assertIn("x plain", run("bench", WORK / "llama.gguf", "-p", 60, "-n", 20, "-r", 2, "--draft", "lookup"))

    def test_refused(self):
        for args, word in ((["--workload", "cod"], "did you mean code?"), (["--workload", "code", "-d", "5"], "takes no --n-depth"),
                           (["--half", "edit"], "--half without --workload"), (["--draft", "lookup", "--batch", "4"], "takes no --batch"),
                           (["--workload", WORK / "w.txt", "--half", "old"], "it has edit, fresh"), (["--draft", "lookup", "-n", "0"], "-n 0"),
                           (["--workload", WORK / "w.txt", "-c", "20"], "need")):
            self.assertIn(word, run("bench", WORK / "llama.gguf", *args, status=2))


class Tune(unittest.TestCase):
    def test_lossless(self):
        """Whatever it finds on a tiny model: what is chosen gains with its whole interval, what is not says why."""
        out = WORK / "p.yaml"
        out.unlink(missing_ok=True)
        r = json.loads(run("tune", WORK / "llama.gguf", "--workload", WORK / "w.txt", "--budget", "3s", "-o", out, "--json",
                           status=(0, 1)))
        names = [c["name"] for c in r["candidates"]]
        self.assertIn("draft lookup:gamma=10", names)
        for c in r["candidates"]:
            self.assertTrue(c["verdict"] == "chosen" or len(c["why"]) > 10, c)
            if not c["exact"]:
                self.assertEqual((c["gain"], c["why"].startswith("not tried")), (None, True), c)
        self.assertEqual(r["chosen"] is not None, out.exists())
        if r["chosen"]:
            best = next(c for c in r["candidates"] if c["verdict"] == "chosen")
            self.assertGreater(best["held"]["lo"], 1)
            self.check_profile(out, r)

    def check_profile(self, out, r):
        self.assertEqual((r["profile"], r["model"]), (str(out), str(WORK / "llama.gguf")))
        self.assertIn("# Receipt: ", out.read_text())
        plain, tuned = (json.loads(run("run", WORK / "llama.gguf", "--raw", "-p", "The water", "-n", 20, "--temp", 0, "--json", *more))
                        for more in ([], ["--profile", out]))
        self.assertEqual(plain["tokens"], tuned["tokens"])
        receipt = json.loads(Path(r["receipt"]).read_text())
        self.assertEqual(list(violations(receipt, json.loads((ROOT / "docs/receipt.schema.json").read_text()))), [])

    def test_with_damage(self):
        """Drops half of the layers of a model of a few: much faster, and the bound on damage decides."""
        args = ["tune", WORK / "deep.gguf", "--workload", WORK / "w.txt", "--budget", "6s", "-o", WORK / "q.yaml", "--json"]
        r = json.loads(run(*args, "--max-kl", 50, status=(0, 1)))
        drop = [c for c in r["candidates"] if c["name"].startswith("depth drop")]
        self.assertTrue(any(c["gain"] for c in drop), drop)
        if r["chosen"]:
            best = next(c for c in r["candidates"] if c["verdict"] == "chosen")
            self.assertTrue(best["exact"] or best["kl"]["hi"] <= 50, best)
            self.check_receipt(r)

    def check_receipt(self, r):
        receipt = json.loads(Path(r["receipt"]).read_text())
        self.assertEqual(list(violations(receipt, json.loads((ROOT / "docs/receipt.schema.json").read_text()))), [])

    def test_refused(self):
        self.assertIn("no --workload", run("tune", WORK / "llama.gguf", status=2))
        self.assertIn("unknown workload", run("tune", WORK / "llama.gguf", "--workload", "x", status=2))
        self.assertIn("such prompts", run("tune", WORK / "llama.gguf", "--workload", WORK / "untuned.txt", status=2))
        run("tune", WORK / "llama.gguf", "--workload", "code", "-o", WORK / "no" / "p.yaml", status=3)


if __name__ == "__main__":
    shutil.rmtree(WORK, ignore_errors=True)
    WORK.mkdir(parents=True)
    subprocess.run([MAKE_TINY, "llama", "1", str(WORK / "llama.gguf")], check=True)
    subprocess.run([MAKE_TINY, "qwen2", "2", str(WORK / "deep.gguf"), "n_layer=10"], check=True)
    (WORK / "w.txt").write_text(WORKLOAD)
    (WORK / "untuned.txt").write_text(WORKLOAD.replace("tune", "held"))
    unittest.main(argv=[sys.argv[0], *sys.argv[4:]])
