"""Installs into an empty folder, and builds programs against what lies there, as a user would: with pkg-config (DESTDIR,
moved afterwards) and with CMake; C and C++ can read the headers; the examples say what the command says.

    test_installed.py CMAKE BUILD ROOT WORK SMOLLM2"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

CMAKE, BUILD, ROOT, WORK, MODEL = sys.argv[1], *map(Path, sys.argv[2:6])
RULES = """if "weather" after "<|im_start|>assistant\\n": "It rains." eos
after "<|im_start|>assistant\\n": "I do not know." eos
after "One": ", two, three." eos
"""
bad = []
env = {k: v for k, v in os.environ.items() if not k.startswith(("HASTEN_", "PKG_CONFIG", "DESTDIR"))}


def run(*command, **more):
    r = subprocess.run([str(c) for c in command], capture_output=True, text=True, env={**env, **more}, timeout=250)
    if r.returncode:
        raise SystemExit(f"{' '.join(map(str, command))}: exit {r.returncode}\n{r.stdout[-3000:]}{r.stderr[-3000:]}")
    return r.stdout


def equal(what, got, expected):
    if got != expected:
        bad.append(f"{what}: {got!r}, expected {expected!r}")


def install():
    """DESTDIR, then moved: nothing may remember where it was meant to be."""
    stage, prefix = WORK / "stage", WORK / "moved"
    run(CMAKE, "--install", BUILD, "--prefix", "/opt/hasten", DESTDIR=str(stage))
    if (stage / "opt/hasten").is_dir():
        (stage / "opt/hasten").rename(prefix)
    for pattern in ("bin/hasten", "lib*/**/libhasten.so.0.1.0", "lib*/**/libhasten.so.0.1", "lib*/**/libhasten.so",
                    "lib*/**/libhasten.a", "lib*/**/hasten.pc", "lib*/**/HastenConfig.cmake",
                    "lib*/**/HastenConfigVersion.cmake", "include/hasten/hasten.h", "include/hasten/status.h",
                    "include/hasten/text.h", "include/hasten/sample.h", "share/man/man1/hasten.1",
                    "share/man/man1/hasten-run.1", "share/bash-completion/completions/hasten",
                    "share/zsh/site-functions/_hasten", "share/fish/vendor_completions.d/hasten.fish",
                    "share/hasten/examples/answer.c"):
        if len(list(prefix.glob(pattern))) != 1:
            bad.append(f"installed: no {pattern}")
    for path in prefix.rglob("*"):
        if path.suffix in (".pc", ".cmake", ".h") and str(ROOT) in path.read_text():
            bad.append(f"{path.name} names the source tree")
    return prefix


def headers_stand_alone(prefix):
    for header in sorted((prefix / "include/hasten").glob("*.h")):
        for compiler, flags in (("cc", ["-std=c99", "-x", "c"]), ("c++", ["-std=c++11", "-x", "c++"])):
            if not shutil.which(compiler):
                bad.append(f"no {compiler} on the path")
                continue
            source = WORK / "one.src"
            source.write_text(f"#include <hasten/{header.name}>\nint main(void) {{ return 0; }}\n")
            run(compiler, *flags, "-Wall", "-Wextra", "-Werror", "-pedantic", "-fsyntax-only", f"-I{prefix}/include", source)


def with_pkg_config(prefix):
    libdir = next(prefix.glob("lib*/**/hasten.pc")).parent.parent
    paths = {"PKG_CONFIG_PATH": str(libdir / "pkgconfig")}
    equal("version", run("pkg-config", "--modversion", "hasten", **paths).strip(), "0.1.0")
    flags = run("pkg-config", "--cflags", "--libs", "hasten", **paths).split()
    programs = []
    for name in ("answer", "branches"):
        programs.append(WORK / name)
        run("cc", "-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic", "-o", programs[-1],
            prefix / f"share/hasten/examples/{name}.c", *flags)
    return {"LD_LIBRARY_PATH": str(libdir)}, programs


def with_cmake(prefix):
    build = WORK / "cmake"
    run(CMAKE, "-S", prefix / "share/hasten/examples", "-B", build, f"-DCMAKE_PREFIX_PATH={prefix}")
    run(CMAKE, "--build", build)
    for version in ("0.2", "1.0"):
        text = (prefix / "share/hasten/examples/CMakeLists.txt").read_text().replace("Hasten 0.1", f"Hasten {version}")
        (WORK / "wrong").mkdir(exist_ok=True)
        (WORK / "wrong/CMakeLists.txt").write_text(text)
        r = subprocess.run([CMAKE, "-S", WORK / "wrong", "-B", WORK / "wrong/build", f"-DCMAKE_PREFIX_PATH={prefix}"],
                           capture_output=True, text=True, env=env)
        if r.returncode == 0:
            bad.append(f"CMake took version 0.1.0 for {version}")
    return [build / name for name in ("answer", "answer_static")]


def examples_speak(prefix, here, answers, branches):
    (WORK / "rules").write_text(RULES)
    scripted = f"script:{WORK}/rules"
    for program in answers:
        equal(program.name, run(program, scripted, "How is the weather?", **here), "It rains.\n")
        equal(program.name, run(program, scripted, "Who?", **here), "I do not know.\n")
    equal("branches", run(branches, scripted, "One", 2, **here), "--- 1\nOne, two, three.\n--- 2\nOne, two, three.\n")
    for program, words in ((answers[0], ["x"]), (branches, ["x"])):
        r = subprocess.run([program, WORK / "none.gguf", *words], capture_output=True, text=True, env={**env, **here})
        if r.returncode != 3 or "none.gguf" not in r.stderr or r.stdout:
            bad.append(f"{program.name} without a model: exit {r.returncode}, {r.stderr!r}")
    command = prefix / "bin/hasten"
    ask = "What is the capital of France?"
    equal("greedy", run(answers[0], MODEL, ask, 24, **here), run(command, "run", MODEL, "-p", ask, "--temp", 0, "-n", 24) + "\n")
    once = "Once upon a time"
    told = run(branches, MODEL, once, 3, 16, **here)
    parts = [p.split("\n", 1)[1].rstrip("\n") for p in told.split("--- ")[1:]]
    equal("branch 1", parts[0], once + run(command, "run", MODEL, "--raw", "-p", once, "-s", 0, "-n", 16).rstrip("\n"))
    equal("three branches", len(set(parts)), 3)
    equal("all go on", [p.startswith(once) and len(p) > len(once) + 10 for p in parts], [True] * 3)
    equal("the same again", run(branches, MODEL, once, 3, 16, **here), told)


def program_of_readme(prefix, here):
    """The program in README.md prints what stands below it."""
    text = (ROOT / "README.md").read_text()
    source = text.split("cat >hello.c <<'END'\n", 1)[1].split("    END\n", 1)[0]
    printed = text.split("It prints\n\n", 1)[1].split("\n\n`include/", 1)[0]
    (WORK / "hello.c").write_text("".join(line[4:] if line.strip() else line for line in source.splitlines(True)))
    flags = run("pkg-config", "--cflags", "--libs", "hasten",
                PKG_CONFIG_PATH=here["LD_LIBRARY_PATH"] + "/pkgconfig").split()
    run("cc", "-Wall", "-Wextra", "-Werror", "-Wno-unused-parameter", "-o", WORK / "hello", WORK / "hello.c", *flags)
    equal("README", run(WORK / "hello", MODEL, **here), "".join(
        line[4:] if line.strip() else line for line in (printed + "\n").splitlines(True)))


def main():
    shutil.rmtree(WORK, ignore_errors=True)
    WORK.mkdir(parents=True)
    if not MODEL.is_file():
        raise SystemExit(f"{MODEL} is missing (scripts/models smollm2 fetches it)")
    prefix = install()
    headers_stand_alone(prefix)
    here, (answer, branches) = with_pkg_config(prefix)
    examples_speak(prefix, here, [answer, *with_cmake(prefix)], branches)
    program_of_readme(prefix, here)
    for what in bad:
        print(what)
    print(f"{len(bad)} problems")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
