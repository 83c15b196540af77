"""Shows that every lint can fail: each check runs on a small tree that breaks its rule and on one that keeps it."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

LINT = Path(__file__).with_name("lint.py")
STYLE = Path(__file__).resolve().parents[2] / ".clang-format"
GOOD = "/* A file. */\n#include \"base/mem.h\"\n\nint good(int x)\n{\n    return x;\n}\n"

MEGABYTE = 1000000
WORK, HOME, FARM, JOBS = ("/" + name for name in ("work/x", "root/x", "farm/x", "tmp/bash" + "_jobs.0"))

# (check, file, text, word expected in the finding; None: the check passes)
CASES = [
    ("includes", "src/text/a.c", GOOD, None),
    ("includes", "src/text/a.c", '/* */\n#include "engine/engine.h"\n', "text/ may not include"),
    ("includes", "src/draft/a.c", '/* */\n#include "sample/sampler.h"\n', "draft/ may not include"),
    ("includes", "src/draft/a.c", '/* */\n#include "engine/engine.h"\n', None),
    ("includes", "src/base/a.c", '/* */\n#include "mem.h"\n', "relative to src/"),
    ("includes", "src/strange/a.c", GOOD, "no place in the order"),
    ("includes", "include/hasten/a.h", '/* */\n#include "base/mem.h"\n', "public header"),
    ("doors", "src/text/a.c", GOOD, None),
    ("doors", "src/text/a.c", "/* malloc(1) */\nconst char *s = \"free(x)\"; /* fopen() */\n", None),
    ("doors", "src/text/a.c", "void f(void)\n{\n    p = malloc(3);\n}\n", "malloc() outside"),
    ("doors", "src/text/a.c", "void f(void) { m->free(3); mem_free(p); my.open(x); file_open(x); }\n", None),
    ("doors", "src/text/a.c", "void f(void) { free(p); } /* lint: allow free: libedit gave it */\n", None),
    ("doors", "src/text/a.c", "void f(void) { free(p); } /* lint: allow free: */\n", "free() outside"),
    ("doors", "src/base/mem.c", "void f(void) { free(p); }\n", None),
    ("doors", "src/base/mem.c", "void f(void) { read(p); }\n", "read() outside"),
    ("doors", "src/cli/a.c", "void f(void) { read(0, p, 1); }\n", None),
    ("doors", "src/cli/a.c", "void f(void) { fopen(p, q); }\n", "fopen() outside"),
    ("doors", "src/engine/a.c", "int f(void) { return clock_gettime(a, b) + rand(); }\n", "rand() outside"),
    ("doors", "src/engine/a.c", "int f(void) { return (int)time(0); }\n", "time() outside"),
    ("size", "src/text/a.c", GOOD + "\n" * 993, None),
    ("size", "src/text/a.c", GOOD + "\n" * 994, "1001 lines"),
    ("size", "src/text/a.c", "int x;\n", "does not open with a comment"),
    ("recursion", "src/text/a.c", GOOD, None),
    ("recursion", "src/text/a.c", "int f(int x)\n{\n    return f(x - 1);\n}\n", "f() recurses"),
    ("recursion", "src/text/a.c", "int g(int);\nint f(int x)\n{\n    return g(x);\n}\n\nint g(int x)\n{\n    return f(x);\n}\n",
     "g() recurses"),
    ("recursion", "src/text/a.c", "int f(int x)\n{\n    if (depth_enter(d))\n        return 0;\n    return f(x - 1);\n}\n", None),
    ("format", "src/text/a.c", GOOD, None),
    ("format", "src/text/a.c", GOOD.replace("    return", "  return"), "code should be clang-formatted"),
    ("scripts", "scripts/a", "#!/bin/sh\necho fine\n", None),
    ("scripts", "scripts/a", "#!/bin/sh\nif true; then\n", "a:1:"),
    ("scripts", "scripts/a.py", "def f(:\n", "Python:"),
    ("big_files", "docs/a.md", "x" * MEGABYTE, None),
    ("big_files", "docs/a.md", "x" * (MEGABYTE + 1), "1000001 bytes"),
    ("big_files", "tests/data/a.npz", "\0" * (MEGABYTE + 1), "1000001 bytes"),
    *[("big_files", f"tests/a{end}", "x", "never tracked") for end in
      (".whl", ".gguf", ".tar.gz", ".zip", ".so", ".o", ".a")],
    ("big_files", "tests/a.also", "x", None),
    ("big_files", "fuzz/corpus/gguf/a.gguf", "x" * (256 << 10), None),
    ("big_files", "fuzz/corpus/gguf/a.gguf", "x" * ((256 << 10) + 1), "262145 bytes"),
    ("big_files", "fuzz/corpus/gguf/a.zip", "x", "never tracked"),
    ("machine_paths", "docs/a.md", "Look into ~/.cache/hasten, $root, work/ and /tmp/x.\n", None),
    *[("machine_paths", "docs/a.md", f"First line.\nSee {path}.\n", "docs/a.md:2: names a path")
      for path in (WORK, HOME, FARM, JOBS)],
    ("machine_paths", "src/a.c", f'#include "{WORK}/a.h"\n', "names a path"),
    ("machine_paths", "tests/a.bin", f"\0{WORK}", None),
    ("machine_paths", "fuzz/corpus/template/a", f"\0{WORK}", "names a path"),
]


def run(check, root, *more):
    return subprocess.run([sys.executable, str(LINT), check, str(root), *more], capture_output=True, text=True)


def try_case(check, name, text, expected):
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        for path, content in (("src/base/keep.c", "/* keep */\n"), (name, text)):
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(content)
            if content.startswith("#!"):
                os.chmod(root / path, 0o755)
        shutil.copy(STYLE, root / ".clang-format")
        if check in ("big_files", "machine_paths"):
            for command in (["init", "-q"], ["add", "-f", "."]):
                subprocess.run(["git", "-C", str(root), *command], check=True, capture_output=True)
            (root / "untracked.whl").write_text(WORK)  # what git does not know is no finding
        result = run(check, root)
    if expected is None:
        return result.returncode == 0, result
    return result.returncode == 1 and expected in result.stdout, result


def no_git_case():
    """Without git there is no list of files: a failure, not a clean tree."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "src").mkdir()
        (Path(folder) / "src/a.c").write_text(GOOD)
        result = run("big_files", folder)
    return result.returncode == 1 and "git ls-files failed" in result.stderr, result


def symbols_case(body, expected):
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        (root / "src").mkdir()
        (root / "src/a.c").write_text("#include <stdio.h>\n#include <stdlib.h>\n" + body)
        subprocess.run(["cc", "-O2", "-c", str(root / "src/a.c"), "-o", str(root / "a.o")], check=True)
        subprocess.run(["ar", "rc", str(root / "a.a"), str(root / "a.o")], check=True)
        result = run("symbols", root, str(root / "a.a"))
    return (result.returncode == 1 and expected in result.stdout) if expected else result.returncode == 0, result


def promises_case(gone, absent, expected):
    """docs/reliability.md as it is, without the rows that hold `gone`, and a build without the test `absent`."""
    text = (LINT.parent.parent.parent / "docs/reliability.md").read_text()
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        for sub in ("src", "docs"):
            (root / sub).mkdir()
        (root / "src/a.c").write_text(GOOD)
        lines = [line for line in text.splitlines() if not (gone and line.startswith("|") and gone in line)]
        (root / "docs/reliability.md").write_text("\n".join(lines))
        names = set(re.findall(r"`([\w.-]+)`", text)) - {absent}
        (root / "names").write_text("\n".join(names))
        result = run("promises", root, str(root / "names"))
    return (result.returncode == 1 and expected in result.stdout) if expected else result.returncode == 0, result


def main():
    failed = 0
    results = [(case[:2], *try_case(*case)) for case in CASES]
    results.append((("symbols", "abort"), *symbols_case("void f(void) { abort(); }\n", "uses abort")))
    results.append((("symbols", "printf"), *symbols_case('void f(void) { printf("x\\n"); }\n', "uses puts")))
    results.append((("symbols", "fine"), *symbols_case("double f(char *p) { return atof(p); }\n", None)))
    results.append((("big_files", "no git"), *no_git_case()))
    results.append((("promises", "as they are"), *promises_case(None, None, None)))
    results.append((("promises", "a test is gone"), *promises_case(None, "hostile_same", "no test is called hostile_same")))
    results.append((("promises", "a row is gone"), *promises_case("half code points", None, "no row with a test for: half code points")))
    for name, ok, result in results:
        if not ok:
            failed += 1
            print(f"selftest: {name}: exit {result.returncode}\n{result.stdout}{result.stderr}")
    print(f"{len(results) - failed} of {len(results)} cases as expected")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
