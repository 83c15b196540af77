#!/usr/bin/env python3
"""Golden tests of the command: each cases/NAME.sh runs with sh in an empty folder, and its stdout, stderr and
exit status must equal NAME.out, NAME.err and NAME.rc (missing: empty, empty, 0). A `*` in NAME.err stands for
any text. In the scripts: $TINY a folder with tiny models (llama qwen2 gemma3 vocab .gguf;
lora.gguf: an adapter for llama.gguf), $CASES this folder.

    run_cases.py HASTEN MAKE_TINY CASES WORK [--update] [NAME...]

--update writes what came out as what is expected: read the diff before you commit it."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path


def make_tiny(tool, folder):
    folder.mkdir(parents=True)
    for seed, family in enumerate(["llama", "qwen2", "gemma3"], 1):
        subprocess.run([tool, family, str(seed), str(folder / f"{family}.gguf")], check=True)
    subprocess.run([tool, "llama", "1", str(folder / "vocab.gguf"), "vocab_only=1"], check=True)
    subprocess.run([Path(tool).with_name("make_lora"), str(folder / "llama.gguf"), "1", str(folder / "lora.gguf")],
                   check=True)


def run(case, environment, work):
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir()
    r = subprocess.run(["sh", str(case)], cwd=work, env=environment, stdin=subprocess.DEVNULL, capture_output=True,
                       timeout=100)
    clean = r.stderr.decode(errors="replace").replace(environment["TINY"], "TINY").replace(str(case.parent), "CASES")
    return r.stdout, clean.replace(environment["HASTEN_CACHE"], "CACHE"), r.returncode


def expected(case, suffix):
    path = case.with_suffix(suffix)
    return path.read_bytes() if path.exists() else b""


def err_matches(pattern, text):
    return re.fullmatch(".*".join(map(re.escape, pattern.split("*"))), text, re.S) is not None


def check(case, got):
    out, err, rc = got
    problems = []
    if out != expected(case, ".out"):
        problems.append(f"stdout is {out[:2000]!r}, expected {expected(case, '.out')[:2000]!r}")
    if not err_matches(expected(case, ".err").decode(), err):
        problems.append(f"stderr is {err!r}, expected {expected(case, '.err').decode()!r}")
    if rc != int(expected(case, ".rc") or 0):
        problems.append(f"exit status is {rc}, expected {int(expected(case, '.rc') or 0)}")
    return problems


def update(case, got):
    for suffix, data in zip((".out", ".err", ".rc"), (got[0], got[1].encode(), str(got[2]).encode() + b"\n")):
        path = case.with_suffix(suffix)
        if data and data != b"0\n":
            if suffix != ".err" or not err_matches(expected(case, suffix).decode(), got[1]):
                path.write_bytes(data)
        elif path.exists():
            path.unlink()


def main():
    hasten, tiny_tool, cases, work = sys.argv[1], sys.argv[2], Path(sys.argv[3]).resolve(), Path(sys.argv[4]).resolve()
    names = [a for a in sys.argv[5:] if not a.startswith("--")]
    shutil.rmtree(work, ignore_errors=True)
    make_tiny(tiny_tool, work / "tiny")
    (work / "bin").mkdir()
    (work / "bin" / "hasten").symlink_to(Path(hasten).resolve())
    environment = {k: v for k, v in os.environ.items() if not k.startswith("HASTEN_")}
    environment.update(PATH=f"{work / 'bin'}:{environment['PATH']}", TINY=str(work / "tiny"), CASES=str(cases),
                       XDG_DATA_HOME=str(work / "data"),  # not the receipts of whoever runs the tests
                       HASTEN_CACHE=str(work / "cache"), LC_ALL="C.UTF-8")
    bad = n = 0
    for case in sorted(cases.glob("*.sh")):
        if names and case.stem not in names:
            continue
        n += 1
        got = run(case, environment, work / "run")
        if "--update" in sys.argv:
            update(case, got)
        for problem in check(case, got):
            bad += 1
            print(f"{case.stem}: {problem}")
    print(f"{n} cases, {bad} problems")
    return 1 if bad or n == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
