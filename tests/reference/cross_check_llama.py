"""Mean KL(float64 reference || engine) of any number of engines over the same rows, full vocabulary. By hand.

    cross_check_llama.py --model FILE --tokens IDS.json -c CTX --logits NAME=DUMP.f32 [--logits NAME=DUMP.f32]
                         [--windows N] [--int8] [--max-ratio A/B=1.05]

A dump is raw little-endian float32 [rows, n_vocab], logits or log p, no header: for each window of CTX ids,
evaluated from an empty context, its rows 0 .. n-2 (row i predicts id i + 1), windows in order.

Ours:         hasten eval FILE --ids IDS.json -c CTX --logits ours.f32 --json
llama.cpp's:  a small program on libllama: per window llama_memory_clear, one llama_batch of the ids with
              logits wanted for all rows but the last, llama_decode, then llama_get_logits_ith(0 .. n-2) to
              the file. (The file of `llama-perplexity --kl-divergence-base` will not do: it keeps log p in 16
              bits over 16 nats, cut below; against the same engine's floats that alone is a KL of 3e-4 to
              3e-3 a row, as much as what is measured here.)

IDS.json for WikiText-2 is made by `cross_check_llama.py --make-ids IDS.json --model FILE --name NAME -c CTX
--total N`, with HASTEN_LLAMA_CPP (directory of llama-tokenize) and HASTEN_DATA set."""
import argparse
import json
import os

import numpy as np

import common
from make_reference import tokenize
from reference import Reference, cut, log_softmax, scored


def make_ids(args):
    text = common.wiki_text(os.environ.get("HASTEN_DATA", ""))
    bos = common.MODELS[args.name][1]
    ids = common.windows_of(tokenize(args.model, text), bos, args.context, args.total)
    with open(args.make_ids, "w", encoding="utf-8") as f:
        json.dump(ids, f)
    print(f"{args.make_ids}: {len(ids)} ids in windows of {args.context}")


class Dump:
    """Raw float32 rows, mapped."""

    def __init__(self, path, n_vocab, n_rows):
        size = os.path.getsize(path)
        if size % (4 * n_vocab) or size < 4 * n_vocab * n_rows:
            raise common.Failure(f"{path} has {size} bytes (expected {n_rows} rows of {n_vocab} float32)")
        self.rows = np.memmap(path, dtype=np.float32, mode="r").reshape(-1, n_vocab)

    def log_p(self, rows):
        return log_softmax(self.rows[rows].astype(np.float64))


def compare(args):
    with open(args.tokens, encoding="utf-8") as f:
        windows = cut(json.load(f), args.context)[:args.windows]
    rows, targets = scored(windows)
    ref = Reference(args.model)
    sources = {}
    for item in args.logits:
        name, path = item.split("=", 1)
        sources[name] = Dump(path, ref.n_vocab, len(rows))
    exact = ref.hidden(windows)[rows]
    rounded = ref.hidden(windows, "int8")[rows] if args.int8 else None
    names = list(sources) + (["int8 inputs"] if args.int8 else [])
    kl = {n: np.empty(len(rows)) for n in names}
    nll = {n: np.empty(len(rows)) for n in [*names, "reference"]}
    for first, lp in ref.log_prob_blocks(exact):
        n = lp.shape[0]
        p, target = np.exp(lp), targets[first:first + n]
        nll["reference"][first:first + n] = -lp[np.arange(n), target]
        for name in names:
            if name in sources:
                q = sources[name].log_p(slice(first, first + n))
            else:
                q = ref.log_probs(rounded[first:first + n], "int8")
            kl[name][first:first + n] = np.einsum("ij,ij->i", p, lp - q)
            nll[name][first:first + n] = -q[np.arange(n), target]
    return kl, nll


def report(args, kl, nll):
    print(f"reference: perplexity {np.exp(nll['reference'].mean()):.4f} over {len(nll['reference'])} rows")
    for name, k in kl.items():
        print(f"{name}: mean KL {k.mean():.6f} +- {k.std() / np.sqrt(len(k)):.6f}, median {np.median(k):.6f}, "
              f"99 % {np.quantile(k, 0.99):.6f}, max {k.max():.4f}; perplexity {np.exp(nll[name].mean()):.4f}")
    if args.save:
        np.savez_compressed(args.save, **kl)
    if args.max_ratio:
        pair, limit = args.max_ratio.split("=")
        a, b = pair.split("/")
        ratio = kl[a].mean() / kl[b].mean()
        print(f"{a} / {b}: {ratio:.4f} on {len(kl[a])} rows")
        if not ratio <= float(limit):
            raise common.Failure(f"mean KL of {a} is {ratio:.4f} x that of {b} (expected <= {limit})")


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    p.add_argument("--model", required=True)
    p.add_argument("--tokens", help="JSON array of token ids")
    p.add_argument("-c", "--context", type=int, default=1024)
    p.add_argument("--logits", action="append", default=[], metavar="NAME=FILE")
    p.add_argument("--windows", type=int, help="only the first N windows")
    p.add_argument("--int8", action="store_true", help="also the reference with int8 inputs")
    p.add_argument("--max-ratio", metavar="A/B=LIMIT", help="fail when KL of A exceeds LIMIT x B's")
    p.add_argument("--save", metavar="FILE.npz", help="KL of every row")
    p.add_argument("--make-ids", metavar="FILE")
    p.add_argument("--name", choices=sorted(common.MODELS))
    p.add_argument("--total", type=int, default=4096)
    args = p.parse_args()
    if args.make_ids:
        make_ids(args)
    else:
        report(args, *compare(args))
    return 0


if __name__ == "__main__":
    common.main_of(main)
