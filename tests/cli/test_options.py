"""The errors of options have one shape, in every command: `hasten: COMMAND: option --NAME: 'VALUE' ...` and exit status 2,
from the command line; `hasten: COMMAND: environment HASTEN_NAME: 'VALUE' ...` from the environment. The options come
from `hasten help --json`, so a new one is tried too. And what odd surroundings do: streams that are closed or full, a
cache that is no folder, limits of the system: a status of the table and one line, never a signal.

    test_options.py HASTEN MAKE_TINY WORK"""
import concurrent.futures
import json
import os
import pathlib
import re
import subprocess
import sys
import unittest

HASTEN, MAKE_TINY, WORK = sys.argv[1], sys.argv[2], pathlib.Path(sys.argv[3])
BAD = {  # a value that no option of the type takes
    "integer": "-9x", "number": "nan", "size": "lots", "duration": "soon", "choice": "neither", "flag": "maybe",
}
LISTS = {  # options whose text has a form of its own, and a text without it
    ("run", "logit-bias"): "5", ("run", "stop"): "", ("run", "lora"): ":2", ("eval", "lora"): ":2", ("bench", "batch"): "0",
    ("quantize", "tensor"): "none", ("pull", "sha256"): "x",
}
STATUSES = {0, 1, 2, 3, 4, 5, 130}


def hasten(*args, **more):
    env = {"PATH": os.environ["PATH"], "HASTEN_CACHE": str(WORK / "cache"), **more.pop("env", {})}
    more.setdefault("stdin", subprocess.DEVNULL)
    return subprocess.run([HASTEN, *map(str, args)], stdout=more.pop("stdout", subprocess.PIPE), stderr=subprocess.PIPE, env=env,
                          timeout=60, **more)


def through(what, *args):
    """With a shell's words in front."""
    env = {"PATH": os.environ["PATH"], "HASTEN_CACHE": str(WORK / "cache")}
    return subprocess.run(["sh", "-c", what + 'exec "$@"', "sh", HASTEN, *map(str, args)], stdin=subprocess.DEVNULL, capture_output=True,
                          env=env, timeout=60)


def positionals(command):
    return {"quantize": [WORK / "llama.gguf", WORK / "out.gguf", "Q4_0"], "pull": ["smollm2"], "rm": ["x"], "completion": ["bash"],
            "list": [], "doctor": [], "config": [], "help": []}.get(command, [WORK / "llama.gguf"])


def more(command, option):
    if option in ("prompt", "file", "dry-multiplier"):
        return []
    return {"run": ["-p", "x", "--dry-multiplier", "1"], "eval": ["--ids", WORK / "ids.json"]}.get(command, [])


class Options(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        WORK.mkdir(parents=True, exist_ok=True)
        subprocess.run([MAKE_TINY, "llama", "1", WORK / "llama.gguf"], check=True)
        (WORK / "ids.json").write_text("[1,2,3]")
        cls.commands = json.loads(hasten("help", "--json").stdout)["commands"]

    def test_shape(self):
        cases = []
        for c in self.commands:
            for o in c["options"]:
                bad = LISTS.get((c["name"], o["name"]), BAD.get(o["type"]))
                if bad is None or o["name"] in ("help", "profile") or c["name"] == "config":
                    continue
                line = [c["name"], *positionals(c["name"]), *more(c["name"], o["name"]), f"--{o['name']}={bad}"]
                cases.append((line, {}, f"hasten: {c['name']}: option --{o['name']}: "))
                if o["environment"] and o["type"] in BAD:
                    cases.append((line[:-1], {o["environment"]: bad}, f"hasten: {c['name']}: environment {o['environment']}: "))
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            runs = list(pool.map(lambda case: hasten(*case[0], env=case[1]), cases))
        wrong = []
        for (line, env, begin), run in zip(cases, runs):
            said = run.stderr.decode()
            if run.returncode != 2 or not said.startswith(begin) or said.count("\n") != 1 or run.stdout:
                wrong.append(f"{' '.join(map(str, line))} {env}: {run.returncode}, {said!r}")
        self.assertEqual(wrong, [])
        self.assertGreater(len(cases), 150)
        self.assertGreaterEqual({type_ for c in self.commands for type_ in (o["type"] for o in c["options"])}, set(BAD))

    def test_no_model_names_the_command(self):
        for c in self.commands:
            if re.match(r"MODEL", c["synopsis"]):
                said = hasten(c["name"]).stderr.decode()
                self.assertTrue(said.startswith(f"hasten: {c['name']}: no MODEL"), said)

    def test_bench_beyond_the_context(self):
        subprocess.run([MAKE_TINY, "llama", "1", WORK / "short.gguf", "context=64"], check=True)
        line = ["bench", WORK / "short.gguf", "-p", "100", "-n", "0", "-r", "1", "--no-limits"]
        run = hasten(*line)
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertIn(b"take 100 positions, the model was made for 64", run.stderr)
        self.assertEqual(hasten(*line, "-q").stderr, b"")

    # ---- surroundings ----

    def sane(self, run, *statuses):
        said = run.stderr.decode(errors="replace")
        self.assertIn(run.returncode, statuses or STATUSES, said)
        if run.returncode:
            self.assertTrue(said.startswith("hasten: ") and said.count("\n") == 1, said)
        return said

    def lines(self):
        m = WORK / "llama.gguf"
        return [["run", m, "-p", "x", "-n", "3"], ["run", m, "-p", "x", "-n", "3", "--json"], ["tokenize", m, "-p", "x"], ["info", m], ["info", m, "--json", "--tensors"],
                ["check", m], ["config", "run"], ["config", "--json"], ["help"], ["help", "run", "--man"], ["help", "--json"], ["completion", "zsh"],
                ["--version"], ["eval", m, "--ids", WORK / "ids.json", "--logits", "-"], ["embed", m, "-p", "x", "--pooling", "mean"], ["pull", "--list"]]

    def test_full_disk(self):
        for line in self.lines():
            with open("/dev/full", "wb") as full, self.subTest(line=line):
                self.sane(hasten(*line, stdout=full), 4)

    def test_long_files_of_requests(self):
        """LIMIT_BATCH_BYTES: a file of so many bytes is read, one of a byte more is refused before a line is answered."""
        file, out = WORK / "requests", WORK / "answers"
        out.unlink(missing_ok=True)
        for more, status in ((1, 3), (0, 1)):  # 1: its only line is no request
            with open(file, "wb") as f:
                f.truncate((256 << 20) + more)
            done = hasten("batch", "script:hash=1", "-i", file, "-o", out)
            self.assertEqual(done.returncode, status, done.stderr)
            self.assertEqual(out.exists(), more == 0)
        file.unlink()

    def test_closed_streams(self):
        for line in self.lines():
            for closed in ([1], [0, 1, 2]):
                with self.subTest(line=line, closed=closed):
                    run = through("".join(f"exec {fd}>&-; " for fd in closed), *line)
                    self.assertIn(run.returncode, STATUSES)
                    if 1 in closed:
                        self.assertEqual(run.returncode, 4, line)

    def test_broken_pipe(self):
        for line in self.lines():
            read, write = os.pipe()
            os.close(read)
            with self.subTest(line=line):
                run = hasten(*line, stdout=write)
                os.close(write)
                self.assertIn(run.returncode, (-13, 4), run.stderr)  # SIGPIPE, as any command

    def test_a_device_as_output(self):
        self.sane(hasten("eval", WORK / "llama.gguf", "--ids", WORK / "ids.json", "--logits", "/dev/null"), 0)
        self.sane(hasten("eval", WORK / "llama.gguf", "--ids", WORK / "ids.json", "--logits", "/dev/full"), 4)

    def test_caches(self):
        (WORK / "file").write_text("x")
        for cache, status in (("/dev/null", 3), (WORK / "file", 3), (WORK / "missing", 0)):
            for line in (["list"], ["list", "--json"], ["list", "--names"]):
                said = self.sane(hasten(*line, env={"HASTEN_CACHE": str(cache)}), status)
                self.assertTrue(status == 0 or "reading the cache" in said, said)
        run = subprocess.run([HASTEN, "list"], env={}, capture_output=True)
        self.assertIn("none of HASTEN_CACHE, XDG_CACHE_HOME, HOME is set", self.sane(run, 2))

    def test_small_limits(self):
        for limit in ("-v 40000", "-v 80000", "-n 3", "-n 4", "-f 0", "-s 128", "-d 10000"):
            for line in self.lines()[:6:2]:
                with self.subTest(line=line, limit=limit):
                    run = through(f"ulimit {limit}; ", *line)
                    if run.returncode != 127:  # the loader had no room for the program
                        self.sane(run)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
