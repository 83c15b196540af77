#!/usr/bin/env python3
"""The modes of `hasten bench` on tiny models: fields, and relations that must hold whatever the machine is doing.

    test_modes.py HASTEN MAKE_TINY WORK [TEST...]      TEST: a class, or CLASS.METHOD; default: all"""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
import unittest
from pathlib import Path

HASTEN, MAKE_TINY, WORK = sys.argv[1], sys.argv[2], Path(sys.argv[3])
ENVIRONMENT = {k: v for k, v in os.environ.items() if not k.startswith("HASTEN_")}
FAMILIES = ["llama", "gemma3"]
STATS = {"median", "lo", "hi", "level", "mean", "sd", "min", "max"}
OPERATIONS = ["step", "embed", "norm, quantise", "q, k, v", "rope, store", "attention", "o", "route", "gate, up",
              "activation", "down", "add", "head", "sampling"]


def tiny(family):
    return str(WORK / f"{family}.gguf")


def bench(*args, env=None):
    r = subprocess.run([HASTEN, "bench", *map(str, args)], capture_output=True, text=True, timeout=200,
                       env=dict(ENVIRONMENT, **(env or {})))
    if r.returncode or r.stderr:
        raise AssertionError(f"{args}: exit status {r.returncode}: {r.stderr}")
    return r.stdout


class Speed(unittest.TestCase):
    def test_fields(self):
        for family in FAMILIES:
            r = json.loads(bench(tiny(family), "-p", 40, "-n", 3, "-d", 70, "-r", 6, "--batch", "1,4", "--no-limits",
                                 "--json"))
            self.assertEqual(set(r), {"model", "kernels", "threads", "depth", "repeat", "text", "prefill", "decode", "batch", "with",
                                      "ttft_ms", "limits"})
            self.assertIsNone(r["limits"])
            for part in (r["prefill"], r["decode"], *r["batch"]):
                self.assertLessEqual({"n", "tps", "bytes", "ops", "gbs", "gops"} | STATS, set(part))
                self.assertEqual(part["tps"], part["median"])
                self.assertTrue(0 < part["min"] <= part["lo"] <= part["median"] <= part["hi"] <= part["max"], part)
                self.assertAlmostEqual(part["level"], 0.96875)
                for count in (*part["bytes"].values(), *part["ops"].values()):
                    self.assertIsInstance(count, int)
            self.assertEqual([b["sequences"] for b in r["batch"]], [1, 4])
            self.assertEqual((r["text"]["file"], r["text"]["repeated"]), (None, False))

    def test_costs(self):
        """What is counted follows from what is done: bytes per pass, operations per row, pages per position."""
        r = json.loads(bench(tiny("llama"), "-p", 40, "-n", 2, "-d", 70, "-r", 1, "--batch", "1,4", "--no-limits", "--json"))
        prefill, decode, (one, four) = r["prefill"], r["decode"], r["batch"]
        weights = prefill["bytes"]["weights"]  # one pass, with the head
        self.assertEqual(decode["bytes"]["weights"], 2 * weights)
        self.assertEqual(four["bytes"]["weights"], 2 * weights)
        self.assertEqual(one["bytes"], decode["bytes"])
        self.assertEqual(four["bytes"]["kv"], 4 * decode["bytes"]["kv"])
        self.assertEqual(four["ops"], {k: 4 * v for k, v in decode["ops"].items()})
        # Positions 70 and 71 see 71 and 72 entries, 70 .. 109 see 71 .. 110.
        seen = sum(range(71, 111)) / (71 + 72)
        self.assertAlmostEqual(prefill["ops"]["attention"] / decode["ops"]["attention"], seen)
        # Two tiles until position 128 for a decode step; one pass of prefill reads them once.
        self.assertEqual(decode["bytes"]["kv"], 2 * prefill["bytes"]["kv"])

    def test_shares(self):
        r = json.loads(bench(tiny("llama"), "-p", 40, "-n", 3, "-r", 2, "-t", 1, "--json"))
        limits = r["limits"]
        self.assertEqual(limits["threads"], 1)
        for part in (r["prefill"], r["decode"]):
            tokens, ops = part["n"], part["ops"]
            bus = tokens / ((part["bytes"]["weights"] + part["bytes"]["kv"]) / (limits["read"]["all_gbs"] * 1e9))
            self.assertAlmostEqual(part["bus_tps"] / bus, 1, places=5)
            self.assertAlmostEqual(part["bus_share"], part["tps"] / bus, places=5)
            half = max(limits["bf16"]["all_gops"] if limits["bf16"] else 0, limits["f32"]["all_gops"])
            seconds = (ops["int8"] / limits["int8"]["all_gops"] + (ops["half"] + ops["attention"]) / half +
                       ops["f32"] / limits["f32"]["all_gops"]) / 1e9
            self.assertAlmostEqual(part["peak_share"] / (part["tps"] * seconds / tokens), 1, places=5)

    def test_no_decode(self):
        r = json.loads(bench(tiny("llama"), "-p", 9, "-n", 0, "-r", 1, "--no-limits", "--json"))
        self.assertEqual((r["decode"]["n"], r["decode"]["tps"]), (0, 0))

    def test_no_prefill(self):
        """Decode alone, at the depth: as beside a prefill."""
        args = [tiny("llama"), "-n", 3, "-d", 20, "-r", 2, "--no-limits"]
        r, both = (json.loads(bench(*args, "-p", n, "--json")) for n in (0, 9))
        self.assertEqual((r["prefill"]["n"], r["prefill"]["tps"], r["ttft_ms"]), (0, 0, None))
        self.assertEqual(set(r["prefill"]["ops"].values()), {0})
        self.assertEqual([r["decode"][k] for k in ("n", "bytes", "ops")], [both["decode"][k] for k in ("n", "bytes", "ops")])
        text = bench(*args, "-p", 0)
        for word in ("prefill", "first token"):
            self.assertNotIn(word, text)
        r = json.loads(bench(tiny("llama"), "--breakdown", "-p", 0, "-n", 3, "-r", 1, "--json"))
        self.assertEqual((r["chunk"], r["token"]["rows"]), (None, 1))
        r = json.loads(bench(tiny("llama"), "--breakdown", "-p", 5, "-n", 0, "-r", 1, "--json"))
        self.assertEqual((r["chunk"]["rows"], r["token"]), (5, None))

    def test_short_text(self):
        """A text that is read more than once is named, terminal or not; -q silences it, the JSON keeps it."""
        path = WORK / "short.txt"
        path.write_text("hello world")
        for more, said in (([], True), (["-q"], False)):
            for mode in ([], ["--breakdown"]):
                r = subprocess.run([HASTEN, "bench", tiny("llama"), "-f", path, "-p", "50", "-n", "2", "-r", "1", "--json", *mode,
                                    *([] if mode else ["--no-limits"]), *more], capture_output=True, text=True, env=ENVIRONMENT)
                text = json.loads(r.stdout)["text"]
                self.assertEqual((text["file"], text["repeated"]), (str(path), True))
                self.assertLess(text["tokens"], 50)
                self.assertEqual(f"{path} has {text['tokens']}: it is repeated\n" in r.stderr, said)
        text = json.loads(bench(tiny("llama"), "-f", path, "-p", 1, "-n", 1, "-r", 1, "--no-limits", "--json"))["text"]
        self.assertFalse(text["repeated"])

    def test_one_repetition(self):
        text = bench(tiny("llama"), "-p", 9, "-n", 2, "-r", 1, "-t", 1, "--no-limits")
        self.assertIn("1 thread, 1 repetition at", text)
        for word in ("(0 %)", "..", "±"):
            self.assertNotIn(word, text)

    def test_table(self):
        text = bench(tiny("llama"), "-p", 9, "-n", 2, "-r", 2, "--batch", "3", "--no-limits")
        for word in ("prefill", "decode ", "decode x3", "first token after"):
            self.assertIn(word, text)


class Limits(unittest.TestCase):
    def test_roofline(self):
        r = json.loads(bench("--roofline", "-t", 1, "--json"))
        self.assertEqual(set(r), {"cpu", "threads", "int8", "bf16", "f32", "read", "curve"})
        for kind in ("int8", "f32"):
            self.assertTrue(r[kind]["how"])
            self.assertGreater(r[kind]["one_gops"], 0)
            self.assertGreater(r[kind]["all_gops"], 0)
        read = r["read"]
        self.assertGreaterEqual(read["all_gbs"], read["median_gbs"])
        self.assertGreaterEqual(read["buffer_bytes"], 64 << 20)
        self.assertGreater(len(r["curve"]), 2)
        self.assertEqual([p["bytes"] for p in r["curve"]], sorted(p["bytes"] for p in r["curve"]))

    def test_masked_cpu(self):
        r = json.loads(bench(tiny("llama"), "-p", 4, "-n", 0, "-r", 1, "-t", 1, "--json", env={"HASTEN_CPU": "plain"}))
        self.assertEqual((r["limits"]["int8"]["how"], r["limits"]["bf16"]), ("plain C", None))

    def test_kernels_stay_below_the_peak(self):
        """One thread, so that a busy machine cannot make the peak look lower than what a kernel reaches later."""
        r = json.loads(bench("--kernels", "--type", "q4_k", "-t", 1, "--json"))
        rows = r["kernels"]
        self.assertLessEqual({"reference", "plain"}, {row["set"] for row in rows})
        self.assertEqual({row["n"] for row in rows}, {1, 4, 16, 512})
        packed = {row["set"] for row in rows if row["kernel"] == "matmul packed"}
        self.assertLessEqual(packed, {"avx512"})
        self.assertLessEqual({"avx512"} & {row["set"] for row in rows}, packed)
        self.assertEqual({(row["kernel"], row["form"]) for row in rows} - {("matmul packed", "Q4_K")},
                         {("matmul", "Q4_K")})
        for row in rows:
            self.assertGreater(row["gops"], 0)
            self.assertLess(row["peak_share"], 1.05, row)
            self.assertLess(row["bus_share"], 1.25, row)
            self.assertAlmostEqual(row["peak_share"], row["gops"] / r["limits"]["int8"]["all_gops"], places=5)


class Profile(unittest.TestCase):
    def check_step(self, step, rows):
        self.assertEqual(step["rows"], rows)
        self.assertEqual([op["name"] for op in step["operations"]], OPERATIONS)
        total = sum(op["ms"] + op["waiting_ms"] for op in step["operations"])
        self.assertAlmostEqual(total, step["sum_ms"], places=6)
        self.assertAlmostEqual(step["sum_ms"], step["wall_ms"], delta=0.02 * step["wall_ms"] + 0.002)
        for op in step["operations"]:
            self.assertGreaterEqual(op["ms"], 0)
            self.assertGreaterEqual(op["waiting_ms"], 0)
        worked = {op["name"] for op in step["operations"] if op["ms"] > 0}
        self.assertLessEqual({"embed", "q, k, v", "attention", "gate, up", "down", "head"}, worked)

    def test_sums_to_the_whole(self):
        for family in FAMILIES:
            for threads in (1, 2):
                r = json.loads(bench(tiny(family), "--breakdown", "-p", 60, "-n", 9, "-d", 20, "-r", 3, "-t", threads, "--json"))
                self.assertEqual(set(r), {"model", "kernels", "threads", "depth", "text", "chunk", "token"})
                self.check_step(r["chunk"], 60)
                self.check_step(r["token"], 1)

    def test_table(self):
        text = bench(tiny("llama"), "--breakdown", "-p", 8, "-n", 2, "-r", 1)
        for name in OPERATIONS + ["sum", "chunk, 8 rows", "token, 1 row"]:
            self.assertIn(name, text)


class Interrupt(unittest.TestCase):
    def check(self, *args, wait):
        """Ctrl-C after `wait` seconds: nothing on stdout but what was printed as it was measured, one line, 130."""
        with subprocess.Popen([HASTEN, *map(str, args)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                              env=ENVIRONMENT) as p:
            time.sleep(wait)
            p.send_signal(signal.SIGINT)
            out, err = p.communicate(timeout=60)
        self.assertEqual(p.returncode, 130, (args, err))
        self.assertRegex(err, r"\A(hasten: bench: depth and tokens take .*\n)?hasten: .*interrupted.*\n\Z", args)
        return out

    def test_modes(self):
        for args in (["doctor", "--json"], ["bench", "--roofline"], ["bench", tiny("llama"), "-r", 1000],
                     ["bench", tiny("llama"), "-r", 1000, "-p", 2000, "-n", 2000, "--no-limits"],
                     ["bench", tiny("llama"), "--breakdown", "-r", 1000, "-n", 3000, "-p", 512]):
            self.assertEqual(self.check(*args, wait=0.25), "", args)
        self.check("bench", "--kernels", "--json", wait=0.25)
        self.check("bench", "--kernels", wait=2)


class Doctor(unittest.TestCase):
    def test_bound(self):
        """The CPU's features are those of the CPU, whatever the bound; the bound and what it leaves stand beside."""
        def doctor(*args, **env):
            return subprocess.run([HASTEN, "doctor", *args], capture_output=True, text=True, check=True,
                                  env=dict(ENVIRONMENT, **env)).stdout
        free, bound = json.loads(doctor("--json")), json.loads(doctor("--json", HASTEN_CPU="plain"))
        self.assertEqual((free["cpu_bound"], free["features_used"]), (None, free["features"]))
        self.assertEqual((bound["cpu_bound"], bound["features_used"], bound["features"]), ("plain", "", free["features"]))
        line = next(x for x in doctor(HASTEN_CPU="plain").splitlines() if x.startswith("features"))
        self.assertEqual(line, f"features     {free['features'] or 'none that matter here'}; HASTEN_CPU=plain leaves none")


if __name__ == "__main__":
    shutil.rmtree(WORK, ignore_errors=True)
    WORK.mkdir(parents=True)
    for seed, name in enumerate(FAMILIES, 1):
        subprocess.run([MAKE_TINY, name, str(seed), tiny(name)], check=True)
    unittest.main(argv=[sys.argv[0], *sys.argv[4:]])
