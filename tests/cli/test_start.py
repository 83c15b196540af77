#!/usr/bin/env python3
"""What starting costs: `hasten run MODEL -n 1` from the shell to its end, with the file in the page cache.

    test_start.py HASTEN MODEL WORK

Time: the least of several runs, in CPU seconds (which a busy machine changes little) and on the clock, under bounds
about ten times what it takes: a start that reads, packs or checks the whole file anew does not pass. Memory: the peak
is at most 1.15 times the file, the KV and 64 MiB. Disk: nothing is written."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

HASTEN, MODEL, WORK = sys.argv[1], sys.argv[2], Path(sys.argv[3])
PROMPT = "The quick brown fox jumps over the lazy dog, and then it sleeps in the sun."
RUNS, CPU_S, WALL_S = 6, 0.5, 3.0


def start(environment):
    began = time.perf_counter()
    pid = os.fork()
    if pid == 0:
        null = os.open("/dev/null", os.O_RDWR)
        for fd in range(3):
            os.dup2(null, fd)
        os.chdir(WORK)
        os.execve(HASTEN, [HASTEN, "run", MODEL, "--raw", "-p", PROMPT, "-n", "1", "-c", "512"], environment)
    _, status, used = os.wait4(pid, 0)
    if status:
        sys.exit(f"FAILED: run ended with status {status}")
    return time.perf_counter() - began, used


def main():
    if not os.path.exists(MODEL):
        sys.exit(f"FAILED: {MODEL} is missing (fetch it: scripts/models)")
    WORK.mkdir(parents=True, exist_ok=True)
    environment = dict(os.environ, HOME=str(WORK), XDG_CACHE_HOME=str(WORK), HASTEN_CACHE=str(WORK))
    facts = json.loads(subprocess.run([HASTEN, "info", MODEL, "--json", "-c", "512"], capture_output=True, check=True).stdout)
    limit = 1.15 * facts["file_bytes"] + facts["memory"]["kv_bytes"] + (64 << 20)
    start(environment)  # the file comes into the page cache
    walls, cpus, peaks, written = [], [], [], 0
    for _ in range(RUNS):
        wall, used = start(environment)
        walls.append(wall)
        cpus.append(used.ru_utime + used.ru_stime)
        peaks.append(used.ru_maxrss << 10)
        written += used.ru_oublock
    print(f"start: {min(walls):.3f} s, CPU {min(cpus):.3f} s, peak {max(peaks) / 2**20:.0f} MiB of {limit / 2**20:.0f}")
    problems = []
    if min(cpus) > CPU_S:
        problems.append(f"{min(cpus):.3f} CPU seconds (at most {CPU_S})")
    if min(walls) > WALL_S:
        problems.append(f"{min(walls):.3f} seconds (at most {WALL_S})")
    if max(peaks) > limit:
        problems.append(f"a peak of {max(peaks)} bytes (at most {limit:.0f})")
    if written or list(WORK.iterdir()):
        problems.append(f"{written} blocks written, files {[p.name for p in WORK.iterdir()]} (expected none)")
    for problem in problems:
        print(f"FAILED: {problem}")
    return 1 if problems else 0


sys.exit(main())
