#!/usr/bin/env python3
"""Parsers that need no package of another project, built in another way than the rest and run over their corpora.

    build.py SOURCE_DIR WORK_DIR FORM TARGET...

FORM: memory (clang's memory sanitizer: no byte is used before it is set), 32 (a 32-bit program: sizes that are narrower
than those in files), unsigned (char is unsigned, as on ARM). TARGET: of fuzz/TARGET_fuzz.c, with fuzz/corpus/TARGET.
Each file of the corpus is run as it is and in a hundred damaged forms, from one seed."""

import os
import random
import subprocess
import sys

FORMS = {
    "memory": ["clang", "-O1", "-g", "-fsanitize=memory", "-fno-sanitize-recover=all", "-fno-omit-frame-pointer"],
    # -idirafter: the kernel's headers, which are the same for both sizes
    "32": ["clang", "-m32", "-idirafter", "/usr/include/x86_64-linux-gnu", "-O1", "-g", "-fsanitize=undefined", "-fno-sanitize-recover=all"],
    "unsigned": ["clang", "-O1", "-g", "-funsigned-char", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"],
}
FOLDERS = ["base", "formats", "sample", "kernels", "kernels/ref"]
PARTS = ["src/text/unicode.c", "src/text/unicode_table.c"]  # of files that call a package elsewhere
NOT_NEEDED = {"pool.c"}  # copies loops by 64-bit words
PACKAGES = ("<jansson.h>", "<utf8proc.h>", "<pcre2.h>", "<xxhash.h>", "<openssl/", "<yaml.h>", "<curl/")
DAMAGED = 100


def sources(root):
    """Every file of the folders that includes no header of a package: the linker takes what is called from them."""
    out = []
    for folder in FOLDERS:
        top = os.path.join(root, "src", folder)
        for name in sorted(os.listdir(top)):
            path = os.path.join(top, name)
            if name.endswith(".c") and name not in NOT_NEEDED and not any(p in open(path, encoding="utf-8").read() for p in PACKAGES):
                out.append(path)
    return out + [os.path.join(root, part) for part in PARTS]


def run(command, **options):
    done = subprocess.run(command, capture_output=True, text=True, **options)
    if done.returncode:
        sys.exit(f"build.py: {' '.join(command[:6])} ...: status {done.returncode}\n{(done.stdout + done.stderr)[-3000:]}")
    return done.stdout


def damage(files, folder, seed):
    """Copies with a few bytes changed, taken out or put in."""
    rng = random.Random(seed)
    os.makedirs(folder, exist_ok=True)
    for i in range(DAMAGED * len(files)):
        data = bytearray(open(files[i % len(files)], "rb").read())
        for _ in range(rng.randint(1, 4)):
            at = rng.randrange(len(data) + 1)
            what = rng.randrange(4)
            if what == 0 and data:
                data[at % len(data)] ^= 1 << rng.randrange(8)
            elif what == 1:
                data[at:at + rng.randrange(16)] = b""
            elif what == 2:
                data[at:at] = bytes(rng.randrange(256) for _ in range(rng.randrange(1, 9)))
            elif data:
                data[at % len(data)] = rng.choice((0, 1, 0x7F, 0x80, 0xFF))
        with open(os.path.join(folder, f"{i:05d}"), "wb") as f:
            f.write(data)


def main():
    root, work, form, *targets = sys.argv[1:]
    compiler, *flags = FORMS[form]
    common = [compiler, "-std=gnu17", "-ffp-contract=off", "-D_GNU_SOURCE", f"-I{root}/src", f"-I{root}/include", *flags]
    os.makedirs(work, exist_ok=True)
    objects = []
    for path in sources(root):
        out = os.path.join(work, os.path.relpath(path, root).replace("/", "_") + ".o")
        if not os.path.exists(out) or os.path.getmtime(out) < os.path.getmtime(path):
            run([*common, "-ffunction-sections", "-fdata-sections", "-c", path, "-o", out])
        objects.append(out)
    archive = os.path.join(work, "parsers.a")
    run(["ar", "rcs", archive, *objects])
    for target in targets:
        program, corpus = os.path.join(work, target), os.path.join(root, "fuzz/corpus", target)
        # In 32 bits ld counts references from functions that it throws away: what is called is there, as the others show.
        loose = ["-no-pie", "-Wl,--unresolved-symbols=ignore-all"] if form == "32" else []
        run([*common, f"{root}/fuzz/{target}_fuzz.c", f"{root}/fuzz/replay_main.c", archive, "-Wl,--gc-sections", *loose,
             "-o", program, "-lm", "-lpthread"])
        files = sorted(os.path.join(corpus, n) for n in os.listdir(corpus))
        damaged = os.path.join(work, target + "_damaged")
        damage(files, damaged, target)
        print(f"{form} {target}: {run([program, corpus, damaged], timeout=900).strip()}")


if __name__ == "__main__":
    main()
