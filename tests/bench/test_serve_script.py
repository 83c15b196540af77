#!/usr/bin/env python3
"""bench/serve.py with stand-ins for the servers (fake_server.py) and Hasten's own load generator: which setting is
chosen, the order of turns, resuming, what fails, the report.

    test_serve_script.py HASTEN BENCH WORK"""

import json
import os
import re
import shutil
import subprocess
import sys
import unittest
from pathlib import Path

REAL, BENCH, WORK = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]).resolve()
FAKE = Path(__file__).resolve().with_name("fake_server.py")
PROGRAM = """#!{python}
import json, os, sys
if "serve" in sys.argv[1:2]:
    os.execv({python!r}, [{python!r}, {fake!r}, "hasten", *sys.argv[2:]])
elif sys.argv[1] == "doctor":
    print(json.dumps({{"cpu": "Test CPU", "kernels": "test", "version": "0"}}))
else:
    os.execv({real!r}, [{real!r}, *sys.argv[1:]])
"""
PEER = """#!{python}
import os, sys
if "--version" in sys.argv:
    sys.exit("version: 7 (abc)")
os.execv({python!r}, [{python!r}, {fake!r}, {name!r}, *sys.argv[1:]])
"""


def write(path, text, **values):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text.format(python=sys.executable, fake=str(FAKE), **values))
    path.chmod(0o755)


class ServeScript(unittest.TestCase):
    def setUp(self):
        shutil.rmtree(WORK, ignore_errors=True)
        write(WORK / "hasten", PROGRAM, real=REAL)
        for folder, name in (("a", "llama.cpp"), ("b", "ik_llama.cpp")):
            write(WORK / folder / "llama-server", PEER, name=name)
            write(WORK / folder / "llama-bench", PEER, name=name)
        (WORK / "m.gguf").write_bytes(b"no model")
        self.env = {k: v for k, v in os.environ.items() if not k.startswith("HASTEN_")} | {
            "FAKE_LOG": str(WORK / "log"), "HASTEN_LLAMA_CPP": str(WORK / "a"), "HASTEN_IK_LLAMA": str(WORK / "b")}

    def run_it(self, *args, status=0):
        r = subprocess.run([sys.executable, str(BENCH / "serve.py"), "--hasten", str(WORK / "hasten"), "--models",
                            str(WORK / "m.gguf"), "--out", str(WORK / "out.jsonl"), "--report", str(WORK / "serving.md"),
                            "--waves", "1", "--tokens", "8", "--prompt", "30", "--chat-prompt", "60", "--threads", "1", *args],
                           capture_output=True, text=True, env=self.env, timeout=200)
        self.assertEqual(r.returncode, status, r.stderr)
        return r

    def started(self):
        return [json.loads(line) for line in (WORK / "log").read_text().splitlines()]

    def test_all(self):
        self.run_it("--streams", "1,2", "--rounds", "2")
        lines = [json.loads(line) for line in (WORK / "out.jsonl").read_text().splitlines()]
        tries = [x for x in lines if x["kind"] == "try"]
        self.assertEqual({x["streams"] for x in tries}, {2})
        failed = [x for x in tries if "failed" in x]
        self.assertEqual([(x["engine"], x["setting"]) for x in failed], [("ik_llama.cpp", "fa, rtr, ub 128")])
        self.assertIn("cannot do that", failed[0]["failed"])
        levels = [x for x in lines if x["kind"] == "level"]
        self.assertEqual([(x["round"], x["streams"], x["engine"]) for x in levels[:6]],
                         [(1, n, e) for n in (1, 2) for e in ("hasten", "llama.cpp", "ik_llama.cpp")])
        self.assertEqual([x["engine"] for x in levels[6:9]], ["ik_llama.cpp", "llama.cpp", "hasten"])
        self.assertEqual({x["setting"] for x in levels if x["engine"] == "llama.cpp"}, {"fa off"})  # twice as fast
        self.assertTrue(all(x["level"]["ok"] == x["level"]["requests"] == 6 for x in levels))
        at = next(a for name, a in self.started() if name == "llama.cpp")
        self.assertEqual(at[at.index("-np") + 1], "2")
        text = (WORK / "serving.md").read_text()
        self.assertIn("llama.cpp commit 7 (abc)", text)
        self.assertRegex(text, r"\| hasten \| [0-9.,]+ \(")
        ratios = [float(x) for x in re.findall(r"\*\*([0-9.]+) ×\*\*", text)]
        self.assertEqual(len(ratios), 2)
        self.assertTrue(all(r > 1.2 for r in ratios), ratios)
        self.assertIn("| turn 4 | cached at the last |", text)
        n = len(self.started())
        self.run_it("--streams", "1,2", "--rounds", "2")  # all of it is there
        self.assertEqual(len(self.started()), n)

    def test_alone(self):
        r = self.run_it("--streams", "1", "--rounds", "1", "--only", "hasten", "--no-chats")
        self.assertNotIn("llama.cpp", json.dumps(self.started()))
        self.assertIn("hasten m.gguf", r.stderr)
        self.assertIn("expected hasten", self.run_it("--only", "nobody", status=2).stderr)

    def test_missing_peer(self):
        (WORK / "b" / "llama-server").unlink()
        self.run_it("--streams", "1", "--rounds", "1", "--no-chats")
        self.assertIn("Missing: ik_llama.cpp is not measured: no llama-server in", (WORK / "serving.md").read_text())


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[4:])
