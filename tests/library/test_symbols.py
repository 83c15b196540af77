"""What the library shows and what it needs: exactly the calls that include/hasten/ declares, nothing that ends the
process or prints, and a soname that carries major and minor version.

    test_symbols.py LIBHASTEN_SO LIBHASTEN_A ROOT"""

import re
import subprocess
import sys
from pathlib import Path

# Reliability: nothing in the library ends the process, jumps over frames or prints. Builds with _FORTIFY_SOURCE add
# __*_chk, which end it where memory is being overwritten already; that is the distributor's choice, and only those
# that print or jump count here.
NEVER = """abort exit _exit _Exit quick_exit __assert_fail __assert __assert_perror_fail raise kill longjmp _longjmp
    siglongjmp __longjmp_chk printf vprintf dprintf vdprintf puts putchar putc putchar_unlocked fputs fputc fwrite fprintf
    vfprintf perror stdout stderr __printf_chk __vprintf_chk __fprintf_chk __vfprintf_chk __dprintf_chk err errx verr verrx
    warn warnx error psignal psiginfo system popen fork vfork execve signal sigaction setlocale""".split()

bad = []


def check(ok, what):
    if not ok:
        bad.append(what)


def names(*arguments):
    run = subprocess.run(["nm", *arguments], capture_output=True, text=True, check=True)
    return {line.split()[-1].split("@")[0] for line in run.stdout.splitlines()
            if len(line.split()) >= 2 and not line.endswith(":")}


def declared(root):
    text = "".join(p.read_text() for p in sorted((root / "include/hasten").glob("*.h")))
    text = re.sub(r"/\*.*?\*/", " ", text, flags=re.S)
    text = re.sub(r"typedef[^;]*\(\*\w+\)[^;]*;", " ", text)  # pointers to functions
    return set(re.findall(r"\b(hasten_\w+)\s*\([^()]*(?:\([^()]*\)[^()]*)*\)\s*;", text))


def main():
    shared, archive, root = sys.argv[1], sys.argv[2], Path(sys.argv[3])
    public = declared(root)
    check(len(public) > 40, f"only {len(public)} calls were found in the headers")
    shown = names("-D", "--defined-only", shared)
    check(shown == public, f"exported, not declared: {sorted(shown - public)}; declared, not exported: "
                           f"{sorted(public - shown)}")
    in_archive = names("--defined-only", "--extern-only", archive)
    check(in_archive == public, f"the archive shows {sorted(in_archive ^ public)[:20]}")
    for library, needs in ((shared, names("-D", "--undefined-only", shared)),
                           (archive, names("--undefined-only", archive))):
        check(len(needs) > 50, f"{library}: nm shows {len(needs)} names needed")
        check(not needs & set(NEVER), f"{library} uses {sorted(needs & set(NEVER))}")
    dynamic = subprocess.run(["readelf", "-d", shared], capture_output=True, text=True, check=True).stdout
    version = re.search(r'HASTEN_VERSION "(\d+\.\d+)\.\d+"', (root / "include/hasten/hasten.h").read_text()).group(1)
    check(f"[libhasten.so.{version}]" in dynamic, f"no soname libhasten.so.{version}")
    # The test can fail: a library that prints and ends the process is found out.
    trial = Path(archive).parent / "trial.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-x", "c", "-", "-o", str(trial)], check=True, text=True,
                   input="#include <stdio.h>\n#include <stdlib.h>\nvoid hasten_x(int i) { printf(\"%d\\n\", i); exit(i); }\n")
    check({"printf", "exit"} <= names("-D", "--undefined-only", str(trial)) & set(NEVER), "the trial was not found out")
    for what in bad:
        print(what)
    print(f"{len(public)} calls, {len(bad)} problems")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
