#!/usr/bin/env python3
"""The scripts of bench/ with Hasten on a tiny model and stand-ins for the peers' programs: order, choice of settings,
resuming, ratios, failures, missing peers.

    test_scripts.py HASTEN MAKE_TINY BENCH WORK"""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
import unittest
from pathlib import Path

REAL, MAKE_TINY, BENCH, WORK = sys.argv[1], sys.argv[2], Path(sys.argv[3]), Path(sys.argv[4]).resolve()
HASTEN = WORK / "hasten"  # the real one, but for what measures the machine: that is known, and quick
ENVIRONMENT = {k: v for k, v in os.environ.items() if not k.startswith("HASTEN_")}
sys.path.insert(0, str(BENCH))
import report  # noqa: E402
import store  # noqa: E402

LIMITS = {"cpu": "Test CPU", "threads": 1, "int8": {"how": "test", "one_gops": 100.0, "all_gops": 100.0}, "bf16": None,
          "f32": {"how": "test", "one_gops": 10.0, "all_gops": 10.0}, "curve": [],
          "read": {"one_gbs": 5.0, "all_gbs": 5.0, "median_gbs": 4.0, "buffer_bytes": 1, "cache_bytes": 0}}
OURS = """#!{python}
import json, os, sys
if "--roofline" in sys.argv:
    print(json.dumps({limits!r}))
elif sys.argv[1] == "doctor":
    print(json.dumps({{"cpu": "Test CPU", "kernels": "test", "version": "0"}}))
else:
    os.execv({real!r}, [{real!r}, *sys.argv[1:]])
"""

# Stand-ins: they print what the real programs print, with speeds that depend on the setting, and log the call.
LLAMA_BENCH = """#!{python}
import json, sys
a = sys.argv[1:]
with open({log!r}, "a") as f:
    f.write(json.dumps([{name!r}, a]) + "\\n")
if {fails!r} and {fails!r} in a:
    sys.exit("cannot do that")
at = lambda o, d: a[a.index(o) + 1] if o in a else d
speed = {speed} * (2 if at("-fa", "") in ("off", "0") or at("-rtr", "") == "1" else 1)
kinds = [k for k, o in (("prompt", "-p"), ("gen", "-n")) if int(at(o, "0")) > 0]
print(json.dumps([{{"build_commit": "abc", "n_gen": int(k == "gen"), "avg_ts": speed * (10 if k == "prompt" else 1)}} for k in kinds]))
"""
LLAMA_BATCHED = """#!{python}
import json, sys
a = sys.argv[1:]
with open({log!r}, "a") as f:
    f.write(json.dumps([{name!r} + " batched", a]) + "\\n")
n = a[a.index("-npl") + 1]
print("|    PP |     TG |    B |   N_KV |   T_PP s | S_PP t/s |   T_TG s | S_TG t/s |      T s |    S t/s |", file=sys.stderr)
print(f"|   128 |     32 | {{n:>4}} |    640 |    1.000 |   512.00 |    1.000 | {speed:8.2f} |    2.000 |   320.00 |", file=sys.stderr)
"""


def stand_in(folder, name, log, speed, fails=""):
    folder.mkdir(parents=True)
    for program, text in (("llama-bench", LLAMA_BENCH), ("llama-batched-bench", LLAMA_BATCHED)):
        path = folder / program
        path.write_text(text.format(python=sys.executable, log=str(log), name=name, speed=float(speed), fails=fails))
        path.chmod(0o755)


def script(name, *args, env):
    return subprocess.run([sys.executable, str(BENCH / name), *map(str, args)], capture_output=True, text=True, timeout=200,
                          env=dict(ENVIRONMENT, **env))


class Scripts(unittest.TestCase):
    def setUp(self):
        self.work = WORK / self.id().split(".")[-1]
        self.work.mkdir()
        self.log, self.out = self.work / "log", self.work / "results.jsonl"
        self.env = {"HASTEN_CACHE": str(self.work / "cache")}

    def with_peers(self, **fails):
        stand_in(self.work / "a", "llama.cpp", self.log, 100, **fails)
        stand_in(self.work / "b", "ik_llama.cpp", self.log, 300)
        self.env.update(HASTEN_LLAMA_CPP=str(self.work / "a"), HASTEN_IK_LLAMA=str(self.work / "b"))

    def compare(self, *args):
        r = script("peers/compare.py", "--hasten", HASTEN, "--out", self.out, "-n", 3, "--threads", 1, *args,
                   WORK / "llama.gguf", env=self.env)
        self.assertEqual(r.returncode, 0, r.stderr)
        return r

    def lines(self, **wanted):
        lines = [json.loads(line) for line in self.out.read_text().splitlines()]
        return [line for line in lines if all(line.get(k) == v for k, v in wanted.items())]

    def test_order_choice_resume(self):
        self.with_peers()
        self.compare("--pairs", 2, "--tests", "decode,batch4")
        for test in ("decode", "batch4"):
            order = [line["engine"] for line in self.lines(kind="measure", test=test)]
            self.assertEqual(order, ["hasten", "llama.cpp", "ik_llama.cpp", "ik_llama.cpp", "llama.cpp", "hasten"])
        chosen = {line["engine"]: line["setting"] for line in self.lines(kind="choice", test="decode")}
        self.assertEqual(chosen["llama.cpp"], ["-fa", "off"])
        self.assertEqual(chosen["ik_llama.cpp"][:4], ["-fa", "1", "-rtr", "1"])
        speeds = {(line["engine"], line["test"]): list(line["metrics"].values())[0] for line in self.lines(kind="measure")}
        self.assertEqual(speeds["llama.cpp", "decode"], 200)
        self.assertEqual(speeds["ik_llama.cpp", "decode"], 600)
        self.assertEqual(speeds["ik_llama.cpp", "batch4"], 300)
        self.assertEqual(len(self.lines(kind="limits")), 2)
        calls = len(self.log.read_text().splitlines())
        self.compare("--pairs", 2, "--tests", "decode,batch4")  # everything is there
        self.assertEqual(len(self.log.read_text().splitlines()), calls)
        self.compare("--pairs", 3, "--tests", "decode")  # one pair more
        self.assertEqual(len(self.log.read_text().splitlines()), calls + 2)

    def test_report(self):
        self.with_peers(fails="off")
        self.compare("--pairs", 1, "--tests", "prefill,decode,start")
        r = script("report.py", self.out, "-o", self.work / "p.md", "--command", "make bench", env=self.env)
        self.assertEqual(r.returncode, 0, r.stderr)
        text = (self.work / "p.md").read_text()
        line = self.lines(kind="measure", engine="hasten", test="decode")[0]
        ours, cost = line["metrics"]["decode"], line["costs"]["decode"]
        bus = 100 * ours / (cost["tokens"] / (cost["bytes"] / 5e9))
        for words in ("## Decode", "| model (tokens/s) | hasten | bus / peak | llama.cpp | ratio | ik_llama.cpp | ratio |",
                      f"| {ours / 100:.2f} |", f"| {ours / 600:.2f} |", f"| {bus:.0f} % of ", "memory 5.0 GB/s read", "llama.cpp commit abc",
                      "- llama.cpp `-fa on`", "## Peak resident memory"):
            self.assertIn(words, text)

    def test_failure_is_shown(self):
        self.with_peers(fails="-p")
        self.compare("--pairs", 1, "--tests", "decode")
        self.assertEqual([line["setting"] for line in self.lines(kind="choice", engine="llama.cpp")], [None])
        self.assertEqual(len(self.lines(kind="measure", engine="llama.cpp")), 0)
        self.assertEqual(len(self.lines(kind="measure", engine="ik_llama.cpp")), 1)

    def test_without_peers(self):
        r = script("run.py", "--hasten", HASTEN, "--out", self.out, "--report", self.work / "p.md", "--models",
                   WORK / "llama.gguf", "--pairs", 1, "--tests", "decode", "--no-neighbour", env=self.env)
        self.assertEqual(r.returncode, 0, r.stderr)
        self.assertIn("minutes", r.stderr)
        text = (self.work / "p.md").read_text()
        self.assertIn("llama.cpp is not measured: no llama-bench", text)
        self.assertIn("| model (tokens/s) | hasten | bus / peak |\n", text)
        self.assertNotIn(str(WORK), text.split("## Missing")[0])

    def test_neighbour(self):
        r = script("neighbour.py", "--hasten", HASTEN, "--out", self.out, "--pairs", 1, "-n", 2, "--no-peers",
                   WORK / "llama.gguf", env=self.env)
        self.assertEqual(r.returncode, 0, r.stderr)
        found = {(line["test"], line["state"]) for line in self.lines(kind="neighbour") if line["tps"] > 0}
        self.assertEqual(len(found), 8)
        r = script("report.py", self.out, env=self.env)
        self.assertIn("## Beside other work", r.stdout)

    def refused(self, status, said, name, *args):
        """One line that says so, and nothing measured."""
        r = script(name, *args, env=self.env)
        self.assertEqual(r.returncode, status, (args, r.stderr))
        self.assertRegex(r.stderr.splitlines()[-1], rf"\A{os.path.basename(name)}: .*{said}", args)
        lines = [line for line in r.stderr.splitlines() if not line.startswith("bench: 1 model,")]
        self.assertEqual((len(lines), r.stdout), (1, ""), (args, r.stderr))

    def test_refusals(self):
        model, common = WORK / "llama.gguf", ["--hasten", HASTEN, "--out", self.out]
        self.refused(2, "unknown test 'speed'", "peers/compare.py", "--tests", "speed", "x")
        self.refused(2, "unknown test 'speed'", "run.py", "--tests", "decode,speed")
        self.refused(2, "unknown peer 'pytorch'", "peers/build.py", "pytorch")
        for value in ("0", "-3", "x", "1.5", ""):
            for name, *more in (["run.py"], ["peers/compare.py", model], ["neighbour.py"]):
                self.refused(2, f"--pairs: '{value}' .expected an integer from 1", name, f"--pairs={value}", *more)
        self.refused(2, "unrecognized arguments: --speed", "run.py", "--speed")
        for name, *more in (["run.py"], ["peers/compare.py", model], ["neighbour.py"]):
            self.refused(3, "/nope is no program", name, "--hasten", "/nope", "--out", self.out, *more)
            self.refused(3, "/ is no program", name, "--hasten", "/", "--out", self.out, *more)
        self.refused(1, "false doctor: no JSON", "peers/compare.py", "--hasten", shutil.which("false"), "--out", self.out, model)
        self.refused(3, "doctor: ", "peers/compare.py", "--hasten", shutil.which("echo"), "--out", self.out, model)
        self.refused(3, "nothing.jsonl: No such file", "report.py", self.work / "nothing.jsonl")
        self.out.write_text("{}\n")
        self.refused(3, "says of no run", "report.py", self.out)
        self.out.write_text('{"kind": "run"}\n{"kind"\n')
        self.refused(3, "line 2 is no JSON", "report.py", self.out)
        self.refused(3, "line 2 is no JSON", "peers/compare.py", *common, model)

    def test_missing_model(self):
        """Named before anything is measured, also when it is the second."""
        r = script("run.py", "--hasten", HASTEN, "--out", self.out, "--report", self.work / "p.md", "--models",
                   f"{WORK / 'llama.gguf'},nope", "--tests", "decode", "--no-neighbour", env=self.env)
        self.assertEqual(r.returncode, 3, r.stderr)
        self.assertIn("nope", r.stderr.splitlines()[-1])
        self.assertNotIn("Traceback", r.stderr)
        self.assertEqual(self.lines(kind="measure") + self.lines(kind="limits"), [])

    def test_help(self):
        """Each option says what it does."""
        for name in ("run.py", "peers/compare.py", "peers/build.py", "neighbour.py", "report.py", "formats.py"):
            r = script(name, "--help", env=self.env)
            self.assertEqual((r.returncode, r.stderr), (0, ""), name)
            text = r.stdout[r.stdout.index("\noptions:"):].split("\n  -")[1:]
            self.assertGreater(len(text), 1, name)
            for option in text:
                self.assertRegex(option, r"(?s)\A\S.*?(  +|\n  +)[\w.].{4}", (name, option))

    def interrupt(self, number, name, *args):
        """Ended while a peer is at work: the status, what was said, and whether the peer is gone."""
        folder = self.work / "a"
        folder.mkdir(exist_ok=True)
        pid = self.work / "pid"
        pid.unlink(missing_ok=True)
        (folder / "llama-bench").write_text(f"#!/bin/sh\necho $$ >'{pid}.new'; mv '{pid}.new' '{pid}'; exec sleep 100\n")
        (folder / "llama-bench").chmod(0o755)
        with subprocess.Popen([sys.executable, BENCH / name, "--hasten", HASTEN, "--out", self.out, "--pairs", "1", *map(str, args)],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
                              env=dict(ENVIRONMENT, HASTEN_LLAMA_CPP=str(folder), **self.env)) as p:
            end = time.monotonic() + 60
            while not pid.exists() and time.monotonic() < end and p.poll() is None:
                time.sleep(0.02)
            self.assertTrue(pid.exists())
            p.send_signal(number)  # to the script alone, as kill does
            out, err = p.communicate(timeout=60)
        peer = Path(f"/proc/{pid.read_text().strip()}/stat")
        for _ in range(100):
            if not peer.exists() or peer.read_text().rpartition(")")[2].split()[0] == "Z":
                break
            time.sleep(0.05)
        else:
            self.fail("the peer goes on")
        self.assertNotIn("Traceback", err)
        return p.returncode, err

    def test_interrupts(self):
        model = WORK / "llama.gguf"
        for name, *more in (["run.py", "--models", model, "--tests", "decode", "--no-neighbour", "--report", self.work / "p.md"],
                            ["peers/compare.py", "--tests", "decode", model], ["neighbour.py", "-n", 2, model]):
            status, err = self.interrupt(signal.SIGINT, name, *more)
            self.assertEqual(status, 130, err)
            self.assertEqual(err.splitlines()[-1],
                             f"{os.path.basename(name)}: interrupted; the same command goes on where it stopped")
            self.assertEqual(err.count("interrupted"), 1)
        status, err = self.interrupt(signal.SIGTERM, "run.py", "--models", model, "--tests", "decode", "--no-neighbour")
        self.assertEqual(status, 143, err)

    def test_results_of_another_program_are_moved(self):
        self.out.write_text(json.dumps({"kind": "run", "hasten": "other", "cpu": "x", "cpus": 1}) + "\n")
        self.compare("--pairs", 1, "--tests", "decode")
        self.assertEqual(len(list(self.work.glob("results-*.jsonl"))), 1)
        self.assertNotEqual(self.lines(kind="run")[0]["hasten"], "other")


class Figures(unittest.TestCase):
    def test_limits(self):
        limits = {"read": 10.0, "int8": 1000.0, "bf16": 50.0, "f32": 100.0}
        cost = {"tokens": 4, "bytes": 2e9, "ops": {"int8": 1e12, "half": 1e11, "attention": 1e11, "f32": 2e11}}
        bus, peak = store.limit_speeds(cost, limits)
        self.assertAlmostEqual(bus, 20)
        self.assertAlmostEqual(peak, 4 / (1 + 2 + 2))

    def test_ratio(self):
        self.assertEqual(report.ratio_cell("decode", {0: 30, 1: 20, 2: 50}, {0: 10, 1: 10, 2: 10}), "3.00 (2.00–5.00)")
        self.assertEqual(report.ratio_cell("start_ms", {0: 100}, {0: 250}), "2.50")
        self.assertEqual(report.ratio_cell("decode", {0: 1}, {1: 1}), "–")


if __name__ == "__main__":
    shutil.rmtree(WORK, ignore_errors=True)
    WORK.mkdir(parents=True)
    subprocess.run([MAKE_TINY, "llama", "1", str(WORK / "llama.gguf")], check=True)
    HASTEN.write_text(OURS.format(python=sys.executable, limits=LIMITS, real=os.path.abspath(REAL)))
    HASTEN.chmod(0o755)
    unittest.main(argv=sys.argv[:1])
