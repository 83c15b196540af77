"""--memory LIMIT is kept: the peak resident memory of `hasten run` stays below the need it printed, at three
contexts for each model, and one MiB below that need it exits with 4 before loading.

Usage: memory_limit.py HASTEN MODEL...
"""
import os
import re
import subprocess
import sys

PROMPT = "List three rivers. " * 12


def run(command):
    """Runs a command; returns (exit status, stderr, peak resident KiB)."""
    child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    stderr = child.stderr.read().decode()
    _, status, usage = os.wait4(child.pid, 0)
    return os.waitstatus_to_exitcode(status), stderr, usage.ru_maxrss


def need_mib(hasten, model, context):
    status, stderr, _ = run([hasten, "run", model, "-p", PROMPT, "-n", "8", "-c", str(context), "--memory", "1M"])
    found = re.search(r"needed are ([0-9.]+) MiB", stderr)
    if status != 4 or not found:
        sys.exit(f"FAILED: --memory 1M gave status {status} and: {stderr!r} (expected 4 and the need)")
    return float(found.group(1))


def main():
    hasten, models = sys.argv[1], sys.argv[2:]
    failures = 0
    for model in models:
        for context in (256, 2048, 8192):
            need = need_mib(hasten, model, context)
            limit = int(need * 1024) + 1  # the printed figure is rounded to a tenth of a MiB
            limit += 103
            command = [hasten, "run", model, "-p", PROMPT * (1 if context == 256 else 8), "-n", "8", "-s", "1",
                       "-c", str(context), "--memory"]
            status, stderr, peak = run(command + [f"{limit}K"])
            kept = status == 0 and peak <= limit
            below, stderr_below, _ = run(command + [f"{limit - 103 - 1024}K"])
            refused = below == 4 and "MiB" in stderr_below
            failures += (not kept) + (not refused)
            print(f"{os.path.basename(model)} -c {context}: need {need:.1f} MiB, peak {peak / 1024:.1f} MiB, "
                  f"status {status}; 1 MiB below: status {below}"
                  f"{'' if kept and refused else '   FAILED ' + stderr + stderr_below}")
    sys.exit(1 if failures else 0)


main()
