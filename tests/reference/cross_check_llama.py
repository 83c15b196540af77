"""Mean KL(float64 reference || engine) of any number of engines over the same rows, full vocabulary. By hand.

    cross_check_llama.py --model FILE --tokens IDS.json -c CTX --logits NAME=DUMP.f32 [--logits NAME=DUMP.f32]
                         [--windows N] [--int8] [--max-ratio A/B=1.05]

A dump is raw little-endian float32 [rows, n_vocab], logits or log p, no header: for each window of CTX ids,
evaluated from an empty context, its rows 0 .. n-2 (row i predicts id i + 1), windows in order.

Ours:         hasten eval FILE --ids IDS.json -c CTX --logits ours.f32 --json
llama.cpp's:  a small program on libllama: per window llama_memory_clear, one llama_batch of the ids with
              logits wanted for all rows but the last, llama_decode, then llama_get_logits_ith(0 .. n-2) to
              the file. Without one, --llama-kld FILE reads what `llama-perplexity --kl-divergence-base FILE`
              writes; its log p are rounded to 16 bits of each row's range, and only the second half of each
              window is stored.

IDS.json for WikiText-2 is made by `cross_check_llama.py --make-ids IDS.json --model FILE --name NAME -c CTX
--total N`, with HASTEN_LLAMA_CPP (directory of llama-tokenize) and HASTEN_DATA set."""
import argparse
import json
import os
import struct

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


class Kld:
    """llama-perplexity's file: "_logits_", int32 n_ctx, n_vocab, n_chunk, then the ids (int32), then per
    chunk (n_ctx - 1 - n_ctx / 2) rows of { float scale, float min, uint16[n_vocab] }, log p = scale * u + min,
    each row padded to an even number of 16-bit words."""

    def __init__(self, path):
        with open(path, "rb") as f:
            head = f.read(20)
        magic, self.n_ctx, self.n_vocab, self.n_chunk = struct.unpack("<8siii", head)
        if magic != b"_logits_":
            raise common.Failure(f"{path} begins with {magic!r} (expected b'_logits_')")
        n_ids = self.n_ctx * self.n_chunk
        self.ids = np.fromfile(path, dtype="<i4", count=n_ids, offset=20)
        self.words = 2 * ((self.n_vocab + 1) // 2) + 4
        self.per_chunk = self.n_ctx - 1 - self.n_ctx // 2
        self.rows = np.memmap(path, dtype="<u2", mode="r", offset=20 + 4 * n_ids,
                              shape=(self.n_chunk * self.per_chunk, self.words))

    def log_p(self, rows):
        r = np.ascontiguousarray(self.rows[rows])
        scale = np.ascontiguousarray(r[:, :4]).view("<f4").astype(np.float64)
        return log_softmax(r[:, 4:4 + self.n_vocab] * scale[:, :1] + scale[:, 1:2])


def sources_of(args, ref, rows):
    """name -> (reader, for each scored row the row of the reader or -1)."""
    sources = {}
    everywhere = np.arange(len(rows))
    for item in args.logits:
        name, path = item.split("=", 1)
        sources[name] = (Dump(path, ref.n_vocab, len(rows)), everywhere)
    if args.llama_kld:
        kld = Kld(args.llama_kld)
        if kld.n_ctx != args.context or kld.n_vocab != ref.n_vocab:
            raise common.Failure(f"{args.llama_kld} has windows of {kld.n_ctx} and {kld.n_vocab} ids "
                                 f"(expected {args.context} and {ref.n_vocab})")
        window, position = everywhere // (args.context - 1), everywhere % (args.context - 1)
        at = window * kld.per_chunk + position - kld.n_ctx // 2
        sources["llama-kld"] = (kld, np.where((position >= kld.n_ctx // 2) & (window < kld.n_chunk), at, -1))
    return sources


def compare(args):
    with open(args.tokens, encoding="utf-8") as f:
        windows = cut(json.load(f), args.context)[:args.windows]
    rows, targets = scored(windows)
    ref = Reference(args.model)
    sources = sources_of(args, ref, rows)
    exact = ref.hidden(windows)[rows]
    rounded = ref.hidden(windows, "int8")[rows] if args.int8 else None
    names = list(sources) + (["int8 inputs"] if args.int8 else [])
    kl = {n: np.full(len(rows), np.nan) for n in names}
    nll = {n: np.full(len(rows), np.nan) for n in [*names, "reference"]}
    for first, lp in ref.log_prob_blocks(exact):
        n = lp.shape[0]
        p, target = np.exp(lp), targets[first:first + n]
        nll["reference"][first:first + n] = -lp[np.arange(n), target]
        for name in names:
            if name == "int8 inputs":
                keep, q = np.arange(n), ref.log_probs(rounded[first:first + n], "int8")
            else:
                reader, at = sources[name]
                keep = np.flatnonzero(at[first:first + n] >= 0)
                q = reader.log_p(at[first:first + n][keep])
            kl[name][first + keep] = np.einsum("ij,ij->i", p[keep], lp[keep] - q)
            nll[name][first + keep] = -q[np.arange(len(keep)), target[keep]]
    return kl, nll


def report(args, kl, nll):
    print(f"reference: perplexity {np.exp(nll['reference'].mean()):.4f} over {len(nll['reference'])} rows")
    for name, k in kl.items():
        have = np.isfinite(k)
        print(f"{name}: mean KL {k[have].mean():.6f} +- {k[have].std() / np.sqrt(have.sum()):.6f}, median "
              f"{np.median(k[have]):.6f}, 99 % {np.quantile(k[have], 0.99):.6f}, max {k[have].max():.4f}; "
              f"perplexity {np.exp(nll[name][have].mean()):.4f} ({have.sum()} rows)")
    if args.save:
        np.savez_compressed(args.save, **kl)
    if args.max_ratio:
        pair, limit = args.max_ratio.split("=")
        a, b = pair.split("/")
        both = np.isfinite(kl[a]) & np.isfinite(kl[b])
        ratio = kl[a][both].mean() / kl[b][both].mean()
        print(f"{a} / {b}: {ratio:.4f} on {both.sum()} rows")
        if not ratio <= float(limit):
            raise common.Failure(f"mean KL of {a} is {ratio:.4f} x that of {b} (expected <= {limit})")


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    p.add_argument("--model", required=True)
    p.add_argument("--tokens", help="JSON array of token ids")
    p.add_argument("-c", "--context", type=int, default=1024)
    p.add_argument("--logits", action="append", default=[], metavar="NAME=FILE")
    p.add_argument("--llama-kld", metavar="FILE")
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
