"""chosen.py CONTRACT MODEL [--say]: runs the contract tests of the methods that a change touches, and of a third of the others,
another third with each commit. Nothing about the change can be found out: all methods. Pairs: of those touched.

A change is what git shows against the merge base with HASTEN_BASE, else origin/main, else main; on that branch itself the
last commit; and what is not committed. A change of what all methods share touches all."""

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SHARED = re.compile(r"^(src/(base|kernels|model|engine|run)/|include/|tests/(contract|engine)/)")
PARTS = 3


def git(*args):
    done = subprocess.run(["git", "-C", str(ROOT), *args], capture_output=True, text=True)
    return done.stdout.strip() if done.returncode == 0 else None


def changed(run=git):
    """Paths, or None where nothing is known."""
    head = run("rev-parse", "HEAD")
    if not head:
        return None
    for branch in filter(None, [os.environ.get("HASTEN_BASE"), "origin/main", "main"]):
        base = run("merge-base", "HEAD", branch)
        if base:
            break
    else:
        return None
    if base == head:
        base = run("rev-parse", "HEAD~1")
    paths = run("diff", "--name-only", base) if base else None
    return None if paths is None else paths.splitlines()


def names_in(path):
    """The names of the methods that a file describes."""
    file = ROOT / path
    return set(re.findall(r'^\s*\.?name = "(\w+)"', file.read_text(), re.M)) if file.exists() else set()


def touched(paths, all_names, names_of=names_in):
    if paths is None or any(SHARED.match(p) for p in paths):
        return set(all_names)
    found = set()
    for path in paths:
        if re.match(r"^src/\w+/\w+\.[ch]$", path):
            found |= {word for pair in names_of(path) for word in (pair if isinstance(pair, tuple) else (pair,)) if word}
    return found & set(all_names)


def sample(all_names, turn):
    return set(sorted(all_names)[turn % PARTS::PARTS])


def main(contract, model, *more):
    names = subprocess.run([contract, model, "list"], capture_output=True, text=True, check=True).stdout.split()
    paths = changed()
    hit = touched(paths, names)
    others = sample(names, int(git("rev-list", "--count", "HEAD") or 0)) - hit
    print(f"touched: {' '.join(sorted(hit)) or 'none'}; of the others: {' '.join(sorted(others)) or 'none'}", flush=True)
    if "--say" in more:
        return 0
    runs = [["alone", *sorted(hit | others)]]
    if len(hit) < len(names):
        runs.append(["pairs", *sorted(hit)] if len(hit) > 1 else None)
    return max(subprocess.run([contract, model, *r]).returncode for r in runs if r)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
