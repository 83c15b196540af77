"""--memory LIMIT is kept: the peak resident memory of the command stays below the need it printed, and one MiB
below that need it exits with 4 before loading.

At three contexts for each model `hasten run` answers a prompt. At the contexts of FULL the context of the first
model is filled to its last position, so that every KV page is touched: by `hasten eval --ids` with as many ids as
positions, and by `hasten run --raw` with a prompt that leaves room for the answer alone.

Usage: memory_limit.py HASTEN MODEL...
"""
import json
import os
import re
import subprocess
import sys
import tempfile

PROMPT = "List three rivers. " * 12
CONTEXTS = (256, 2048, 8192)
FULL = (256, 2048)
ANSWER = 8  # tokens
LOOSE_KIB = 40 << 10  # how far a need may lie above the peak of a full context
SLACK_KIB = 103  # the need is printed rounded to a tenth of a MiB


def run(command):
    """Runs a command; returns (exit status, stdout, stderr, peak resident KiB)."""
    with tempfile.TemporaryFile() as out:
        child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.PIPE)
        stderr = child.stderr.read().decode()
        _, status, usage = os.wait4(child.pid, 0)
        out.seek(0)
        return os.waitstatus_to_exitcode(status), out.read().decode(), stderr, usage.ru_maxrss


def need_kib(command):
    status, _, stderr, _ = run([*command, "--memory", "1M"])
    found = re.search(r"needed are ([0-9.]+) MiB", stderr)
    if status != 4 or not found:
        sys.exit(f"FAILED: --memory 1M gave status {status} and: {stderr!r} (expected 4 and the need)")
    return int(float(found.group(1)) * 1024) + 1


def judge(what, command, positions=None):
    """Runs the command (with --json) within its need and one MiB below that; returns 1 when either goes wrong.
    positions: so many it must fill, and the need may then be no more than LOOSE_KIB above the peak."""
    need = need_kib(command)
    limit = need + SLACK_KIB
    status, stdout, stderr, peak = run([*command, "--memory", f"{limit}K"])
    below, _, stderr_below, _ = run([*command, "--memory", f"{need - 1024}K"])
    used = used_positions(json.loads(stdout)) if status == 0 else 0
    fine = status == 0 and peak <= limit and below == 4 and "MiB" in stderr_below
    if positions:
        fine = fine and used == positions and need - peak <= LOOSE_KIB
    print(f"{what}: need {need / 1024:.1f} MiB, peak {peak / 1024:.1f} MiB, status {status}, {used} positions; "
          f"1 MiB below: status {below}{'' if fine else '   FAILED ' + stderr + stderr_below}", flush=True)
    return 0 if fine else 1


def used_positions(result):
    if "timings" in result:
        return result["timings"]["prompt_n"] + result["timings"]["predicted_n"]
    return result["n_tokens"]


def fill(hasten, model, context, folder):
    """The two ways to fill a context; returns the number of failures."""
    ids, prompt = os.path.join(folder, "ids.json"), os.path.join(folder, "prompt.txt")
    with open(ids, "w") as f:
        json.dump([100 + i % 500 for i in range(context)], f)
    with open(prompt, "w") as f:
        f.write("the" + " the" * (context - ANSWER - 1))  # a token a word
    settings = ["-c", str(context), "--json"]
    name = f"{os.path.basename(model)} -c {context}, full"
    return (judge(f"{name}, eval", [hasten, "eval", model, "--ids", ids, *settings], context) +
            judge(f"{name}, run", [hasten, "run", model, "--raw", "-f", prompt, "-n", str(ANSWER), "--ignore-eos",
                                   "-s", "1", *settings], context))


def main():
    hasten, models = sys.argv[1], sys.argv[2:]
    failures = 0
    for model in models:
        for context in CONTEXTS:
            failures += judge(f"{os.path.basename(model)} -c {context}",
                              [hasten, "run", model, "-p", PROMPT * (1 if context == 256 else 8), "-n", str(ANSWER),
                               "-s", "1", "-c", str(context), "--json"])
    with tempfile.TemporaryDirectory() as folder:
        for context in FULL:
            failures += fill(hasten, models[0], context, folder)
    sys.exit(1 if failures else 0)


main()
