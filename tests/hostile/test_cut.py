#!/usr/bin/env python3
"""A model file that is cut short while it is in use: the process ends with one sentence that names the file and exit
status 3, not by a signal. (A copy in memory outlives the file: test_copy.c.)

    test_cut.py HASTEN MAKE_TINY WORK"""

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path


def start(path, *args):
    """The command, once it has mapped the file; it waits for its stdin."""
    p = subprocess.Popen([*args], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 60
    while path and str(path) not in Path(f"/proc/{p.pid}/maps").read_text():
        assert p.poll() is None and time.monotonic() < deadline, "the file was never mapped"
        time.sleep(0.01)
    return p


def main():
    hasten, make_tiny, work = sys.argv[1], sys.argv[2], Path(sys.argv[3])
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    path = work / "cut.gguf"
    subprocess.run([make_tiny, "llama", "1", path], check=True)

    p = start(path, hasten, "tokenize", path)
    os.truncate(path, 0)
    out, err = p.communicate("Hello there, who are you?\n", timeout=60)
    assert (p.returncode, out) == (3, ""), (p.returncode, out, err)
    assert err == (f"hasten: {path}: cut short or unreadable while in use (expected a file that stays; --no-mmap runs "
                   "a copy in memory)\n"), err
    shutil.rmtree(work)
    print("cut")


main()
