"""The results of a run, one JSON object a line, kept so that an interrupted run goes on where it stopped.

kinds: "run" (what was measured with, first line), "limits" (bench --roofline), "choice" (a peer's settings tried
once), "measure" (one figure of one pair), "neighbour", "note". A file made with another binary or on another CPU is
moved aside: figures of two programs never mix."""

import datetime
import hashlib
import json
import os
import shutil
import subprocess
from pathlib import Path

from script import need_program, stop


def now():
    return datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M:%S UTC")


def read_lines(path):
    """The objects of a file of JSON lines."""
    lines = []
    for number, text in enumerate(Path(path).read_text(errors="replace").splitlines(), 1):
        try:
            line = json.loads(text) if text.strip() else None
        except ValueError:
            line = text
        if line is not None and not isinstance(line, dict):
            stop(3, f"{path}: line {number} is no JSON object (expected the results of a run; remove the line or the file)")
        if line is not None:
            lines.append(line)
    return lines


def ask(hasten, *args):
    """What `hasten ARGS --json` says."""
    r = subprocess.run([hasten, *args, "--json"], capture_output=True, text=True)
    try:
        answer = json.loads(r.stdout)
    except ValueError:
        answer = None
    if r.returncode or not isinstance(answer, dict):
        said = " ".join(r.stderr.split()) or "no JSON"
        stop(r.returncode if r.returncode > 0 else 3, f"{hasten} {' '.join(args)}: {said[-300:]}")
    return answer


class Store:
    def __init__(self, path, hasten, say):
        self.path, self.lines = Path(path), []
        hasten = shutil.which(need_program(hasten))
        limits = ask(hasten, "doctor")
        digest = hashlib.sha256(Path(hasten).read_bytes()).hexdigest()[:16]
        self.head = {"kind": "run", "hasten": digest, "cpu": limits["cpu"], "kernels": limits["kernels"],
                     "version": limits["version"], "cpus": len(os.sched_getaffinity(0)), "date": now()}
        if self.path.exists():
            self.lines = read_lines(self.path)
        same = self.lines and all(self.lines[0].get(k) == self.head[k] for k in ("hasten", "cpu", "cpus"))
        if self.lines and not same:
            aside = self.path.with_name(f"{self.path.stem}-{datetime.datetime.now():%Y%m%d-%H%M%S}.jsonl")
            self.path.rename(aside)
            say(f"{self.path} is of another program or machine: moved to {aside}")
            self.lines = []
        if not self.lines:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self.add(self.head)
        else:
            say(f"going on with {self.path}: {len(self.lines)} lines")

    def add(self, line):
        self.lines.append(line)
        with self.path.open("a") as f:
            f.write(json.dumps(line) + "\n")

    def find(self, **wanted):
        """The lines that have all these values."""
        return [line for line in self.lines if all(line.get(k) == v for k, v in wanted.items())]

    def measure_limits(self, hasten, threads):
        limits = ask(hasten, "bench", "--roofline", "-t", str(threads))
        self.add({"kind": "limits", "limits": limits, "date": now()})


def best_limits(store):
    """The better of each figure over all measurements of the run, in GB/s and 10^9 operations a second."""
    best = {"read": 0.0, "int8": 0.0, "bf16": 0.0, "f32": 0.0}
    for line in store.find(kind="limits"):
        limits = line["limits"]
        best["read"] = max(best["read"], limits["read"]["all_gbs"])
        for kind in ("int8", "bf16", "f32"):
            if limits[kind]:
                best[kind] = max(best[kind], limits[kind]["all_gops"])
    return best


def limit_speeds(cost, limits):
    """Tokens per second at the bus and at the arithmetic peaks for what a figure had to do; None: unknown."""
    if not cost or not limits["read"]:
        return None, None
    half = max(limits["bf16"], limits["f32"])
    ops = cost["ops"]
    seconds = ops["int8"] / limits["int8"] + (ops["half"] + ops["attention"]) / half + ops["f32"] / limits["f32"]
    return cost["tokens"] / (cost["bytes"] / limits["read"]) * 1e9, cost["tokens"] / seconds * 1e9
