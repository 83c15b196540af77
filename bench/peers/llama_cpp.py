"""Prefill and decode beside llama.cpp, alternating (ABBA): same file, same threads, same run.

Usage: HASTEN_LLAMA_CPP=FOLDER bench/peers/llama_cpp.py [--pairs 5] [-p 512] [-n 64] [-t 2] MODEL.gguf...

FOLDER holds llama-bench (built outside this tree: -DGGML_NATIVE=ON). Each engine runs once per slot, in the
order A B B A ...; the medians, the ratio of medians and the range of the paired ratios are printed.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))


def hasten(args, model):
    out = subprocess.run([args.hasten, "bench", model, "-p", str(args.p), "-n", str(args.n), "-r", "1", "-t",
                          str(args.t), "--json"], check=True, capture_output=True, text=True).stdout
    result = json.loads(out)
    return result["prefill"]["tps"], result["decode"]["tps"]


def llama_cpp(args, model):
    out = subprocess.run([os.path.join(os.environ["HASTEN_LLAMA_CPP"], "llama-bench"), "-m", model, "-p", str(args.p),
                          "-n", str(args.n), "-r", "1", "-t", str(args.t), "-o", "json"],
                         check=True, capture_output=True, text=True).stdout
    by_kind = {bool(r["n_gen"]): r["avg_ts"] for r in json.loads(out)}
    return by_kind[False], by_kind[True]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("models", nargs="+")
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--hasten", default=os.path.join(HERE, "../../build/release/hasten"))
    parser.add_argument("-p", type=int, default=512)
    parser.add_argument("-n", type=int, default=64)
    parser.add_argument("-t", type=int, default=2)
    args = parser.parse_args()
    if "HASTEN_LLAMA_CPP" not in os.environ:
        sys.exit("llama_cpp.py: HASTEN_LLAMA_CPP is not set (expected the folder that holds llama-bench)")
    for model in args.models:
        ours, theirs = [], []
        for pair in range(args.pairs):
            order = [(hasten, ours), (llama_cpp, theirs)]
            for engine, results in order if pair % 2 == 0 else order[::-1]:
                results.append(engine(args, model))
        for i, what in enumerate((f"prefill {args.p}", f"decode {args.n}")):
            a, b = [r[i] for r in ours], [r[i] for r in theirs]
            pairs = [x / y for x, y in zip(a, b)]
            print(f"{os.path.basename(model)}: {what}: hasten {statistics.median(a):.1f}, llama.cpp "
                  f"{statistics.median(b):.1f} tokens/s; ratio {statistics.median(pairs):.2f} "
                  f"({min(pairs):.2f} to {max(pairs):.2f}, {args.pairs} pairs)", flush=True)


main()
