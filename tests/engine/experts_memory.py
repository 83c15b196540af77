"""A mixture of experts larger than its --memory runs from the map of its file: within the need that the command
prints, with the same logits as without a limit, and it would not have stayed within it by itself.

Usage: experts_memory.py HASTEN MAKE_TINY FOLDER
"""
import json
import os
import re
import subprocess
import sys
import tempfile

IDS = 60
MODEL = ("qwen3moe", "21", "n_layer=6", "d_model=256", "d_expert=512", "n_expert=20", "n_used=3", "type=F16",
         "expert_type=F16")
SLACK_KIB = 103  # the need is printed rounded to a tenth of a MiB


def run(command):
    """(exit status, stderr, peak resident KiB)"""
    with tempfile.TemporaryFile() as err:
        child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=err)
        _, status, usage = os.wait4(child.pid, 0)
        err.seek(0)
        return os.waitstatus_to_exitcode(status), err.read().decode(), usage.ru_maxrss


def check(command, logits, batch):
    """Runs with that batch; returns a sentence about what went wrong, or None."""
    command = [*command, "-b", str(batch), "--logits"]
    status, words, _ = run([*command, "/dev/null", "--memory", "1M"])
    found = re.search(r"needed are ([0-9.]+) MiB", words)
    if status != 4 or not found:
        return f"--memory 1M gave status {status} and {words!r} (expected 4 and the need)"
    need = int(float(found.group(1)) * 1024) + 1
    limit = need + SLACK_KIB
    free, words, peak_free = run([*command, logits + ".free"])
    if free:
        return f"without a limit: status {free}, {words!r} (expected 0)"
    bound, words, peak = run([*command, logits, "--memory", f"{limit}K"])
    if bound:
        return f"--memory {limit}K: status {bound}, {words!r} (expected 0)"
    print(f"batch {batch}: need {need / 1024:.1f} MiB, peak {peak / 1024:.1f} MiB, without a limit "
          f"{peak_free / 1024:.1f} MiB", flush=True)
    if peak > limit:
        return f"the peak is {peak} KiB (expected at most the limit, {limit})"
    if peak_free <= limit:
        return f"without a limit the peak is {peak_free} KiB (expected above {limit}, or this test shows nothing)"
    with open(logits, "rb") as a, open(logits + ".free", "rb") as b:
        if a.read() != b.read():
            return "the logits differ from those without a limit"
    return None


def main():
    hasten, make_tiny, folder = sys.argv[1:]
    os.makedirs(folder, exist_ok=True)
    model, ids = os.path.join(folder, "experts.gguf"), os.path.join(folder, "ids.json")
    subprocess.run([make_tiny, *MODEL[:2], model, *MODEL[2:]], check=True)
    with open(ids, "w", encoding="utf-8") as f:
        json.dump([1 + 3 * i % 500 for i in range(IDS)], f)
    command = [hasten, "eval", model, "--ids", ids, "-c", str(IDS), "-t", "2"]
    wrong = [w for w in (check(command, os.path.join(folder, "logits"), b) for b in (64, 2)) if w]
    for name in os.listdir(folder):
        os.unlink(os.path.join(folder, name))
    sys.exit(f"FAILED: {wrong[0]}" if wrong else 0)


main()
