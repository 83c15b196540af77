"""Runs our programs on CPUs that this machine is not, by QEMU's user emulation (CMakeLists.txt says which).

    emulated.py x86 CPU SET HASTEN MAKE_TINY WORK [AVX_CONTROL]
    emulated.py build SOURCE BUILD CMAKE TOOLCHAIN
    emulated.py arm64 CPU SET BUILD MAKE_TINY WORK

SET: the kernels that this CPU is to get. Prints what it ran; exits 1 at the first thing that is wrong."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path


def fail(sentence):
    print(f"FAIL: {sentence}")
    sys.exit(1)


def emulator(name):
    found = shutil.which(name)
    if not found:
        fail(f"{name} is not there: install qemu-user (scripts/deps --test)")
    return found


def run(*command, rc=0):
    """stdout of a command that must exit with rc. The emulator's warnings on stderr are shown, not judged."""
    began = time.monotonic()
    environment = {name: value for name, value in os.environ.items() if not name.startswith("HASTEN_")}
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, errors="replace",
                          env=environment)
    print(f"{time.monotonic() - began:6.1f} s  {' '.join(map(str, command))}")
    if done.returncode != rc:
        fail(f"exit status {done.returncode} (expected {rc}):\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return done.stdout


def last_line(text):
    return text.strip().splitlines()[-1] if text.strip() else ""


def tiny(make_tiny, work, name, family, *options):
    work.mkdir(parents=True, exist_ok=True)
    path = work / f"{name}.gguf"
    run(make_tiny, family, 1, path, *options)
    return path


def answer(*command):
    got = json.loads(run(*command, "--raw", "-p", "Once upon a time", "--temp", "0", "-n", "4", "--json"))
    return got["tokens"]


def x86(cpu, expected, hasten, make_tiny, work, avx_control=None):
    qemu = (emulator("qemu-x86_64"), "-cpu", cpu)
    if avx_control:
        run(*qemu, avx_control, rc=-signal.SIGILL)
    if not run(*qemu, hasten, "--version").startswith("hasten "):
        fail("--version does not answer")
    kernels = json.loads(run(*qemu, hasten, "doctor", "--json"))["kernels"]
    if kernels != expected:
        fail(f"the kernels chosen are '{kernels}' (expected '{expected}')")
    for name, family, *model_options in (("llama", "llama"), ("gemma3_wide", "gemma3", "wide=1")):
        model = tiny(make_tiny, Path(work), name, family, *model_options)
        here, there = answer(hasten, "run", model), answer(*qemu, hasten, "run", model)
        if here != there or not here:
            fail(f"tokens {there} (expected {here}, as without emulation)")


def build(source, folder, cmake, toolchain):
    run(cmake, "-S", source, "-B", folder, "-G", "Ninja", f"-DCMAKE_TOOLCHAIN_FILE={source}/{toolchain}",
        "-DCMAKE_BUILD_TYPE=Release", "-DHASTEN_WITHOUT_PACKAGES=ON")
    run(cmake, "--build", folder, "--parallel", os.cpu_count())


def arm64(cpu, expected, folder, make_tiny, work):
    qemu = (emulator("qemu-aarch64"), "-cpu", cpu)
    tests = Path(folder) / "tests"
    out = run(*qemu, tests / "checkasm" / "checkasm", "--set")
    if not out.splitlines()[0].endswith(f"sets: reference, plain, {expected}"):
        fail(f"the kernels chosen are '{out.splitlines()[0]}' (expected {expected})")
    if not re.fullmatch(r"[1-9]\d* passed, 0 failed", last_line(out)):
        fail(out)
    print(out)
    for name, family, n, kv, *model_options in (("qwen2", "qwen2", 70, "q8"), ("gemma3", "gemma3", 70, "f16"),
                                                ("llama_wide", "llama", 20, "bf16", "wide=1")):
        model = tiny(make_tiny, Path(work), name, family, *model_options)
        out = run(*qemu, tests / "emulated" / "bits", model, n, "quick", kv)
        if not re.fullmatch(rf"[1-9]\d* runs of {n} tokens, 0 different", last_line(out)):
            fail(out)


def main():
    modes = {"x86": x86, "build": build, "arm64": arm64}
    if len(sys.argv) < 2 or sys.argv[1] not in modes:
        print(__doc__, file=sys.stderr)
        sys.exit(2)
    modes[sys.argv[1]](*sys.argv[2:])


if __name__ == "__main__":
    main()
