"""Lints of the tree: rules that a compiler does not know. `lint.py CHECK ROOT [LIBRARY|BUILD]` prints one line per
finding (file:line: what) and exits 1 when there is any. selftest.py shows that each check can fail.

A line that must break a rule says so: `/* lint: allow NAME: reason */`, NAME being the word found."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

# A folder may include from those before it, never from those after it (docs/architecture.md).
FOLDERS = ["base", "formats", "kernels", "text", "model", "numeric", "engine", "STAGE", "run", "decide", "fit",
           "serve", "bench", "eval", "tune", "cli"]
STAGES = ["weights", "depth", "attend", "cache", "store", "draft", "sample", "context", "stop", "schedule",
          "modality"]
MAX_LINES = 1000
MAX_TRACKED = 1000000  # bytes
MAX_CORPUS_GGUF = 256 << 10
NEVER_TRACKED = (".whl", ".gguf", ".tar.gz", ".zip", ".so", ".o", ".a")
MACHINE_PATH = re.compile(rb"/(?:work|root|farm)/|/tmp/bash[_]jobs")  # written so that it does not match itself

ALLOCATORS = """malloc calloc realloc reallocarray free strdup strndup aligned_alloc posix_memalign memalign
    valloc asprintf vasprintf getline getdelim alloca mmap munmap mremap sbrk""".split()
FILE_CALLS = """fopen fdopen freopen open open64 openat creat read pread readv fread write pwrite writev rename
    renameat unlink unlinkat remove mkdir mkdirat fsync fdatasync ftruncate truncate mkstemp tmpfile""".split()
CLI_STREAMS = "read write fread".split()  # the command reads and writes its standard streams
TIME_CALLS = """time clock clock_gettime gettimeofday timespec_get ftime rand srand rand_r random srandom
    drand48 lrand48 getrandom getentropy arc4random""".split()
LIBRARY_NEVER = """abort exit _exit _Exit quick_exit __assert_fail __assert printf vprintf puts putchar putc
    fputs fputc fputwc fprintf vfprintf perror stdout stderr __printf_chk __fprintf_chk __vprintf_chk
    __vfprintf_chk err errx warn warnx psignal system popen fork raise
    longjmp _longjmp siglongjmp __longjmp_chk""".split()


def strip_c(text):
    """Blanks comments, strings and character constants; line numbers stay."""
    pattern = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)
    return pattern.sub(lambda m: re.sub(r"[^\n]", " ", m.group()), text)


def sources(root, *folders, suffixes=(".c", ".h")):
    for folder in folders:
        for path in sorted((root / folder).rglob("*")):
            if path.suffix in suffixes and path.is_file():
                yield path


def allowed(line, name):
    return re.search(r"lint: allow " + re.escape(name) + r": [^*\s]", line) is not None


# ---- include order ----------------------------------------------------------------------------------------------


def rank(folder):
    return FOLDERS.index("STAGE" if folder in STAGES else folder)


def may_include(folder, other):
    if folder == other:
        return True
    if folder in STAGES and other in STAGES:
        return False
    return rank(other) < rank(folder)


def check_includes(root):
    for path in sources(root, "src", "include"):
        parts = path.relative_to(root).parts
        folder = parts[1] if parts[0] == "src" else "hasten"
        if parts[0] == "src" and folder not in FOLDERS + STAGES:
            yield path, 1, f"folder src/{folder} has no place in the order of folders"
            continue
        for number, line in enumerate(path.read_text().splitlines(), 1):
            m = re.match(r'\s*#\s*include\s*"([^"]+)"', line)
            if not m:
                continue
            other = m.group(1).split("/")[0]
            if other == "hasten" or allowed(line, "include"):
                continue
            if "/" not in m.group(1):
                yield path, number, f'"{m.group(1)}": includes are relative to src/ or include/'
            elif folder == "hasten":
                yield path, number, f'a public header includes "{m.group(1)}"'
            elif other not in FOLDERS + STAGES or not may_include(folder, other):
                yield path, number, f'{folder}/ may not include "{m.group(1)}"'


# ---- doors ------------------------------------------------------------------------------------------------------


def calls(path, names, hint):
    raw = path.read_text().splitlines()
    pattern = re.compile(r"(?<![\w.>])(" + "|".join(names) + r")\s*\(")
    for number, line in enumerate(strip_c("\n".join(raw)).splitlines(), 1):
        for m in pattern.finditer(line):
            if not allowed(raw[number - 1], m.group(1)):
                yield path, number, f"{m.group(1)}() outside {hint}"


def check_doors(root):
    for path in sources(root, "src"):
        name = path.relative_to(root / "src").as_posix()
        if name not in ("base/mem.c", "base/file.c"):
            yield from calls(path, ALLOCATORS, "base/mem.c")
        if name != "base/file.c":
            names = [n for n in FILE_CALLS if not (name.startswith("cli/") and n in CLI_STREAMS)]
            yield from calls(path, names, "base/file.c")
        if name not in ("base/clock.c", "base/rng.c"):
            yield from calls(path, TIME_CALLS, "base/clock.c and base/rng.c")


# ---- size and opening comment -----------------------------------------------------------------------------------


def check_size(root):
    for path in sources(root, "src", "include", "tests", "fuzz", "scripts", "train", "bindings",
                        suffixes=(".c", ".h", ".py", ".sh", "")):
        try:
            text = path.read_text()
        except UnicodeDecodeError:
            continue
        if "corpus" in path.parts or "data" in path.parts:
            continue
        n = text.count("\n")
        if n > MAX_LINES:
            yield path, n, f"{n} lines (at most {MAX_LINES})"
    for path in sources(root, "src", "include"):
        if not path.read_text().startswith("/*"):
            yield path, 1, "does not open with a comment that says what the file owns"


# ---- recursion --------------------------------------------------------------------------------------------------


def functions(text):
    """name -> (line, body) of the functions of one file: braces of a body stand in column 0."""
    found = {}
    for m in re.finditer(r"^[A-Za-z_][^;{}#]*?\b(\w+)\([^;{}]*\)\n\{\n(.*?)^\}", text, re.S | re.M):
        found[m.group(1)] = (text.count("\n", 0, m.start(1)) + 1, m.group(2))
    return found


def check_recursion(root):
    """Every cycle of calls within a file passes through a function that takes part in the depth count: calls
    depth_enter(), or a wrapper of it whose name ends in enter."""
    for path in sources(root, "src"):
        raw = path.read_text().splitlines()
        found = functions(strip_c("\n".join(raw)))
        graph = {}
        for name, (line, body) in found.items():
            if not re.search(r"\b\w*enter\(", body) and not allowed(raw[line - 1], "recursion"):
                graph[name] = {n for n in re.findall(r"\b(\w+)\s*\(", body) if n in found}
        for name in graph:
            seen, todo = set(), [name]
            while todo:
                for callee in graph.get(todo.pop(), ()):
                    if callee == name:
                        yield path, found[name][0], f"{name}() recurses without depth_enter()"
                        todo = []
                        break
                    if callee not in seen:
                        seen.add(callee)
                        todo.append(callee)


# ---- format -----------------------------------------------------------------------------------------------------


def find_clang_format():
    """Version 14, beside the Python that runs this or on the path: other versions format differently."""
    for tool in (Path(sys.executable).parent / "clang-format", "clang-format-14", "clang-format"):
        found = shutil.which(str(tool))
        if found:
            run = subprocess.run([found, "--version"], capture_output=True, text=True)
            if " version 14." in run.stdout:
                return found
    return None


def check_format(root):
    tool = find_clang_format()
    if not tool:
        yield root, 0, "clang-format 14 is not there (scripts/requirements.txt names it; scripts/check installs it)"
        return
    paths = [str(p) for p in sources(root, "src", "include", "tests", "fuzz")]
    if not paths:
        return
    run = subprocess.run([tool, "--dry-run", "--Werror", *paths], capture_output=True, text=True, cwd=root)
    if run.returncode == 0:
        return
    for m in re.finditer(r"^(.+?):(\d+):\d+: error: (.*)$", run.stderr, re.M):
        yield Path(m.group(1)), int(m.group(2)), m.group(3)
    if not re.search(r": error: ", run.stderr):
        yield root, 0, f"{tool} failed: {run.stderr.strip()}"


# ---- scripts ----------------------------------------------------------------------------------------------------


def check_scripts(root):
    for path in [*sources(root, "scripts", ".ci", suffixes=("", ".sh", ".py")),
                 *sources(root, "tests", "train", suffixes=(".sh", ".py"))]:
        first = path.read_text().split("\n", 1)[0]
        if path.suffix == ".py" or "python" in first:
            try:
                compile(path.read_text(), str(path), "exec")
            except SyntaxError as error:
                yield path, error.lineno or 1, f"Python: {error.msg}"
        elif first.startswith("#!"):
            shell = "bash" if "bash" in first else "sh"
            run = subprocess.run([shell, "-n", str(path)], capture_output=True, text=True)
            if run.returncode:
                yield path, 1, run.stderr.strip()
        if first.startswith("#!") and not path.stat().st_mode & 0o100:
            yield path, 1, "has an interpreter line but is not executable"


# ---- what is tracked --------------------------------------------------------------------------------------------


def tracked(root):
    """The files git knows, as paths. Raises when git does not answer: an empty list would pass everything."""
    run = subprocess.run(["git", "-c", "safe.directory=*", "-C", str(root), "ls-files", "-z"], capture_output=True)
    if run.returncode:
        raise SystemExit(f"lint: git ls-files failed: {run.stderr.decode().strip()}")
    paths = [root / name for name in sorted(run.stdout.decode().split("\0")) if name]
    paths = [p for p in paths if p.is_file() or p.is_symlink()]  # a file removed but not yet committed
    if not paths:
        raise SystemExit(f"lint: git tracks no file under {root}")
    return paths


def check_big_files(root):
    """No file that bloats the repository, no build product, no archive."""
    for path in tracked(root):
        name, size = path.relative_to(root).as_posix(), path.lstat().st_size
        if size > MAX_TRACKED:
            yield path, 0, f"{size} bytes (at most {MAX_TRACKED})"
        if name.endswith(".gguf") and name.startswith("fuzz/corpus/"):
            if size > MAX_CORPUS_GGUF:
                yield path, 0, f"{size} bytes (at most {MAX_CORPUS_GGUF} for a model of a corpus)"
        elif name.endswith(NEVER_TRACKED):
            yield path, 0, f"a file of this kind is never tracked ({', '.join(NEVER_TRACKED)})"


def check_machine_paths(root):
    """No text names a place that only one machine has. Binary files (a NUL byte) are left out."""
    for path in tracked(root):
        text = path.readlink().as_posix().encode() if path.is_symlink() else path.read_bytes()
        if b"\0" in text and "fuzz/corpus/" not in path.as_posix():
            continue
        for number, line in enumerate(text.split(b"\n"), 1):
            m = MACHINE_PATH.search(line)
            if m:
                yield path, number, f"names a path of one machine: {m.group().decode()}"


# ---- symbols of the library -------------------------------------------------------------------------------------


def check_symbols(root, library):
    run = subprocess.run(["nm", "-A", "--undefined-only", library], capture_output=True, text=True)
    if run.returncode or not run.stdout.strip():
        yield Path(library), 0, f"nm found no symbols: {run.stderr.strip()}"
    for line in run.stdout.splitlines():
        place, _, symbol = line.rpartition(" U ")
        if symbol.split("@")[0] in LIBRARY_NEVER:
            yield Path(place.strip()), 0, f"the library uses {symbol}"


# ---- promises ---------------------------------------------------------------------------------------------------

# Kinds of faults that engines have shipped: each has a row in docs/reliability.md, found by this part of its text.
KINDS = ["counts, sizes, offsets from a file", "dimension 0", "arrays of the wrong type", "numbers parsed from names", "unbounded recursion",
         "backtracking in pre-tokenizers", "half code points", "control tokens from a user's text", "sampler fields out of range",
         "fan-out allocated before any limit", "endless answers of a server", "cancels ignored or hitting a neighbour",
         "state left behind", "KV from another conversation", "adapters", "NaN or infinity in a weight", "a mapped file cut short"]


def check_promises(root, build):
    """BUILD: a folder of ctest, or a file of names. Every test that docs/reliability.md names in the last column of a table exists, and every kind has a row."""
    doc = root / "docs/reliability.md"
    lines = doc.read_text().splitlines()
    if Path(build).is_dir():
        listed = subprocess.run(["ctest", "--test-dir", build, "-N"], capture_output=True, text=True).stdout
        tests = set(re.findall(r"^ *Test +#\d+: (\S+)", listed, re.M))
    else:
        tests = set(Path(build).read_text().split())
    named = 0
    for number, line in enumerate(lines, 1):
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if not line.startswith("|") or len(cells) < 3 or set(line) <= set("|-: "):
            continue
        for name in re.findall(r"`([\w.-]+)`", cells[-1]):
            named += 1
            if name not in tests:
                yield doc, number, f"no test is called {name}"
    rows = [line for line in lines if line.startswith("|")]
    for kind in KINDS:
        if not any(kind in row and "`" in row.rstrip("|").rsplit("|", 1)[-1] for row in rows):
            yield doc, 1, f"no row with a test for: {kind}"
    if named < len(KINDS):
        yield doc, 1, f"only {named} tests are named"


CHECKS = {"includes": check_includes, "doors": check_doors, "size": check_size, "recursion": check_recursion,
          "promises": check_promises, "format": check_format, "scripts": check_scripts, "big_files": check_big_files,
          "machine_paths": check_machine_paths, "symbols": check_symbols}


def main(argv):
    if len(argv) < 3 or argv[1] not in CHECKS:
        sys.exit(f"usage: lint.py {'|'.join(CHECKS)} ROOT [LIBRARY|BUILD]")
    root = Path(argv[2]).resolve()
    if not list(sources(root, "src")):
        sys.exit(f"lint: no sources under {root}/src")
    findings = list(CHECKS[argv[1]](root, *argv[3:]))
    for path, line, what in findings:
        shown = path.relative_to(root) if path.is_absolute() and path.is_relative_to(root) else path
        print(f"{shown}:{line}: {what}")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
