"""How each engine is asked for a figure: Hasten, llama.cpp, ik_llama.cpp. One class per engine; each knows its
programs, the settings worth trying, and how to read what they print. Nothing here decides order or statistics.

A test gives one or more metrics: tokens per second, but for start_ms (milliseconds) and rss_mib (MiB)."""

import contextlib
import json
import os
import re
import subprocess
import tempfile
import time

BATCH_PROMPT, BATCH_TOKENS = 128, 32  # of each sequence in the tests batchN

# test -> metrics
TESTS = {"prefill": ["prefill"], "decode": ["decode"], "batch4": ["batch4"], "batch16": ["batch16"],
         "depth8k": ["prefill_8k", "decode_8k"], "depth32k": ["prefill_32k", "decode_32k"],
         "start": ["start_ms", "rss_mib"]}
LOWER_IS_BETTER = {"start_ms", "rss_mib"}
DEPTHS = {"depth8k": 8192, "depth32k": 32128}
START_PROMPT = "The keeper of the light wrote down the weather of every evening in his book of"  # 15 to 17 tokens


class Failed(Exception):
    """An engine did not give a figure; the text says why."""


def call(command, timeout, env=None):
    """stdout and stderr, seconds, peak resident MiB of a finished process."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        began = time.monotonic()
        process = subprocess.Popen(command, stdout=out, stderr=err, stdin=subprocess.DEVNULL, env=env)
        status, rss = None, 0
        try:
            while status is None:
                pid, code, usage = os.wait4(process.pid, os.WNOHANG)
                if pid:
                    status, rss = os.waitstatus_to_exitcode(code), usage.ru_maxrss / 1024
                elif time.monotonic() - began > timeout:
                    raise Failed(f"no answer within {timeout:.0f} s")
                else:
                    time.sleep(0.002)
        except BaseException:  # an engine does not outlive a script that was interrupted
            with contextlib.suppress(ChildProcessError):
                process.kill()
                os.wait4(process.pid, 0)
            process.returncode = -9
            raise
        seconds = time.monotonic() - began
        process.returncode = status
        texts = []
        for stream in (out, err):
            stream.seek(0)
            texts.append(stream.read().decode(errors="replace"))
    if status:
        raise Failed(f"exit status {status}: {' '.join(texts[1].split())[-300:]}")
    return texts[0], texts[1], seconds, rss


class Hasten:
    """Ours. options: of a variant (-ctk bf16), shown as its name."""
    name = "hasten"

    def __init__(self, program, name="hasten", options=()):
        self.program, self.name, self.options = program, name, list(options)

    def version(self):
        return subprocess.run([self.program, "--version"], capture_output=True, text=True).stdout.split()[-1]

    def settings(self, test):
        return [[]]

    def bench(self, model, threads, timeout, *args):
        out = call([self.program, "bench", model, "-t", str(threads), "-r", "1", "--no-limits", "--json",
                    *self.options, *map(str, args)], timeout)[0]
        return json.loads(out)

    def run(self, test, model, threads, setting, n_gen, timeout):
        """Metrics, and per metric what a limit is computed from: tokens, bytes, ops."""
        if test == "start":
            return self.start(model, threads, timeout)
        if test in DEPTHS:
            r = self.bench(model, threads, timeout, "-p", 512, "-n", 32, "-d", DEPTHS[test])
            parts = [r["prefill"], r["decode"]]
        elif test.startswith("batch"):
            r = self.bench(model, threads, timeout, "-p", 1, "-n", BATCH_TOKENS, "-d", BATCH_PROMPT, "--batch",
                           test[len("batch"):])
            parts = r["batch"]
        elif test == "prefill":
            parts = [self.bench(model, threads, timeout, "-p", 512, "-n", 0)["prefill"]]
        else:
            parts = [self.bench(model, threads, timeout, "-p", 1, "-n", n_gen)["decode"]]
        metrics, costs = {}, {}
        for metric, part in zip(TESTS[test], parts):
            metrics[metric] = part["tps"]
            costs[metric] = {"tokens": part["n"] * part.get("sequences", 1), "bytes": sum(part["bytes"].values()),
                             "ops": part["ops"]}
        return metrics, costs

    def start(self, model, threads, timeout):
        """From the shell to the first token's bytes, page cache warm; peak memory of the process."""
        command = [self.program, "run", model, "--raw", "-p", START_PROMPT, "-n", "1", "--temp", "0", "-t",
                   str(threads), "-c", "512", "--ignore-eos", *self.options]
        _, _, seconds, rss = call(command, timeout)
        return {"start_ms": 1e3 * seconds, "rss_mib": rss}, {}

    def variants(self, test):
        """This engine, and at depth its other KV representations as engines of their own."""
        if test not in DEPTHS:
            return [self]
        text = subprocess.run([self.program, "bench", "--help"], capture_output=True, text=True).stdout
        found = re.search(r"--cache-type (\S+)", text)
        reps = [r for r in ("bf16", "q8") if found and r in found.group(1).split("|")]
        return [self] + [Hasten(self.program, f"hasten {r}", ["-ctk", r, "-ctv", r]) for r in reps]


class Llama:
    """What llama.cpp and its fork share: llama-bench and llama-batched-bench in one folder."""
    name, candidates, no_warmup, version_variable = "", [], [], ""

    def __init__(self, folder):
        self.folder, self.commit = folder, "unknown"

    def program(self, name):
        path = os.path.join(self.folder, name)
        if not os.access(path, os.X_OK):
            raise Failed(f"{path} is missing")
        return path

    def bench(self, model, threads, setting, timeout, *args):
        out, err, seconds, rss = call([self.program("llama-bench"), "-m", model, "-t", str(threads), "-r", "1", "-o",
                                       "json", *setting, *map(str, args)], timeout)
        rows = json.loads(out[out.index("["):])
        self.commit = rows[0].get("build_commit") or "unknown"
        return {("decode" if r["n_gen"] else "prefill"): r["avg_ts"] for r in rows}, seconds, rss, rows[0]

    def version(self):
        """As said by the variable, else by what build.py left there, else by the program once it has run."""
        note = os.path.join(self.folder, "hasten-peer-version")
        if os.environ.get(self.version_variable):
            return os.environ[self.version_variable]
        if os.path.exists(note):
            with open(note) as f:
                return f.read().strip()
        return f"commit {self.commit}"

    def settings(self, test):
        return self.candidates

    def batched(self, model, threads, setting, timeout, n):
        """Total speed of n sequences, from the table: PP TG B N_KV T_PP S_PP T_TG S_TG T S."""
        room = n * (BATCH_PROMPT + BATCH_TOKENS)
        out, err, _, _ = call([self.program("llama-batched-bench"), "-m", model, "-t", str(threads), "-c",
                               str(max(room, 512)), "-npp", str(BATCH_PROMPT), "-ntg", str(BATCH_TOKENS), "-npl",
                               str(n), *self.batched_setting(setting)], timeout)
        for line in (out + "\n" + err).splitlines():
            cells = line.strip("| ").split("|")
            if len(cells) == 10 and cells[2].strip() == str(n):
                return float(cells[7])
        raise Failed("llama-batched-bench printed no row")

    def run(self, test, model, threads, setting, n_gen, timeout):
        if test == "start":  # load, read 16 tokens, give the logits: no more than an answer's start needs
            _, seconds, rss, _ = self.bench(model, threads, setting + self.no_warmup, timeout, "-p", 16, "-n", 0)
            return {"start_ms": 1e3 * seconds, "rss_mib": rss}, {}
        if test in DEPTHS:
            speeds = self.depth(model, threads, setting, timeout, DEPTHS[test])
            return dict(zip(TESTS[test], speeds)), {}
        if test.startswith("batch"):
            return {test: self.batched(model, threads, setting, timeout, int(test[len("batch"):]))}, {}
        args = ("-p", 512, "-n", 0) if test == "prefill" else ("-p", 0, "-n", n_gen)
        return {test: self.bench(model, threads, setting, timeout, *args)[0][test]}, {}

    def variants(self, test):
        return [self]


class LlamaCpp(Llama):
    name = "llama.cpp"
    candidates = [["-fa", "on"], ["-fa", "off"]]
    no_warmup = ["--no-warmup"]
    version_variable = "HASTEN_LLAMA_CPP_VERSION"

    def batched_setting(self, setting):
        return setting

    def depth(self, model, threads, setting, timeout, depth):
        speeds = self.bench(model, threads, setting, timeout, "-p", 512, "-n", 32, "-d", depth)[0]
        return speeds["prefill"], speeds["decode"]


class IkLlama(Llama):
    """The fork repacks weights at start (-rtr) and fuses by default (-fmoe)."""
    name = "ik_llama.cpp"
    candidates = [["-fa", "1", "-rtr", "1"], ["-fa", "1", "-rtr", "0"], ["-fa", "1", "-rtr", "1", "-muge", "1"],
                  ["-fa", "1", "-rtr", "1", "-thp", "1"]]
    no_warmup = ["-w", "0"]
    version_variable = "HASTEN_IK_LLAMA_VERSION"

    def settings(self, test):
        if test.startswith("batch") or test in DEPTHS:  # these programs spell fewer of the options
            return self.candidates[:2]
        return self.candidates

    def batched_setting(self, setting):
        return ["-fa", "on"] + (["-rtr"] if setting[3] == "1" else [])

    def depth(self, model, threads, setting, timeout, depth):
        """llama-sweep-bench reads chunk after chunk; the row at the depth counts."""
        out, err, _, _ = call([self.program("llama-sweep-bench"), "-m", model, "-t", str(threads), "-c",
                               str(depth // 512 * 512 + 512), "-ub", "512", "-n", "32", *self.batched_setting(setting)],
                              timeout)
        for line in (out + "\n" + err).splitlines():
            cells = line.strip("| ").split("|")
            if len(cells) >= 7 and cells[2].strip() == str(depth // 512 * 512):
                return float(cells[4]), float(cells[6])
        raise Failed(f"llama-sweep-bench printed no row at {depth}")


def find_peers():
    """The peers whose folders of programs are known: HASTEN_LLAMA_CPP, HASTEN_IK_LLAMA, else what
    bench/peers/build.py has built. Returns (engines, sentences about those that are missing)."""
    cache = os.environ.get("HASTEN_CACHE") or os.path.join(
        os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "hasten")
    peers, missing = [], []
    for kind, variable, folder in ((LlamaCpp, "HASTEN_LLAMA_CPP", "llama.cpp"),
                                   (IkLlama, "HASTEN_IK_LLAMA", "ik_llama.cpp")):
        path = os.environ.get(variable) or os.path.join(cache, "peers", folder, "build", "bin")
        if os.access(os.path.join(path, "llama-bench"), os.X_OK):
            peers.append(kind(path))
        else:
            missing.append(f"{kind.name} is not measured: no llama-bench in {path} (set {variable}, or run "
                           f"bench/peers/build.py {folder})")
    return peers, missing
