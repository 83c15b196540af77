#!/usr/bin/env python3
"""What each block format costs a model: size, error of the weights, perplexity, KL divergence from the same weights in
F32 (whose activations are not quantised either). Every row is `hasten quantize` and `hasten eval --logits -` on the same
text; prints a Markdown table.

    formats.py HASTEN MODEL TEXT [--tokens N] [--ctx N] [--calibration TEXT2 [--calibration-tokens N]] [--work DIR]
               [--keep PATTERN=FORMAT]... TYPE...

A TYPE ending in ! is written with --pure; FORMAT@PATTERN leaves all in F32 but the matrices whose names match. With --calibration each type below eight bits gets a second row made with an
importance matrix of that text. KL(F32 || type) is the mean over the scored tokens, in nats; "top-1" is how often
both name the same token first."""

import json
import math
import os
import subprocess
import sys
import tempfile

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import script  # noqa: E402


def run(args):
    r = subprocess.run(args, capture_output=True)
    if r.returncode:
        sys.exit(f"formats: {' '.join(args)}: {r.stderr.decode().strip()}")
    return json.loads(r.stdout)


def rows(hasten, model, a, n_vocab):
    """Yields one row of float32 logits per scored token."""
    command = [hasten, "eval", model, "--ppl", a.text, "-c", str(a.ctx), "--limit-tokens", str(a.tokens), "--logits", "-",
               "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as p:
        while True:
            data = p.stdout.read(4 * n_vocab)
            if len(data) < 4 * n_vocab:
                break
            yield np.frombuffer(data, np.float32)
        said = p.stderr.read().decode().strip()
        if p.wait() or data:
            sys.exit(f"formats: {' '.join(command)}: {said}")
    yield json.loads(said.splitlines()[-1])


def log_softmax(row):
    x = row.astype(np.float64)
    x -= x.max()
    return x - math.log(np.exp(x).sum())


def compare(hasten, model, a, reference, n_vocab):
    kl, same, n, result = [], 0, 0, None
    for row in rows(hasten, model, a, n_vocab):
        if isinstance(row, dict):
            result = row
            continue
        p, q = log_softmax(reference[n]), log_softmax(row)
        kl.append(float((np.exp(p) * (p - q)).sum()))
        same += int(reference[n].argmax() == row.argmax())
        n += 1
    if n != len(reference):
        sys.exit(f"formats: {model}: {n} rows (expected {len(reference)})")
    return result["ppl"], np.array(kl), same / n


def quantize(hasten, a, kind, imatrix, out):
    base, _, pattern = kind.partition("@")
    command = [hasten, "quantize", a.model, out, "F32" if pattern else kind.rstrip("!"), "--json"]
    command += ["--pure"] if kind.endswith("!") else ["--tensor", f"{pattern}={base}"] if pattern else []
    for k in a.keep:
        command += ["--tensor", k]
    return run(command + (["--imatrix", imatrix] if imatrix else []))


def as_it_is(a):
    info = run([a.hasten, "info", a.model, "--json"])
    tensor_bytes = sum(t["bytes"] for t in info["types"].values())
    return {"bits_per_weight": 8 * tensor_bytes / info["n_params"], "bytes": info["file_bytes"], "relative_error": 0, "ms": 0}


def main():
    p = script.Parser(description="What each block format costs a model, as a Markdown table.")
    p.add_argument("hasten", metavar="HASTEN", help="the program")
    p.add_argument("model", metavar="MODEL", help="a GGUF file, or a name in the cache")
    p.add_argument("text", metavar="TEXT", help="the file that is scored")
    p.add_argument("--tokens", type=script.positive, default=1025, metavar="N", help="of the text [1025]")
    p.add_argument("--ctx", type=script.positive, default=512, metavar="N", help="of a window [512]")
    p.add_argument("--calibration", metavar="TEXT2", help="a second row for each type, with an importance matrix of this text")
    p.add_argument("--calibration-tokens", type=script.positive, default=8192, metavar="N", help="of that text [8192]")
    p.add_argument("--work", metavar="DIR", help="where the files lie for the time of the run [the system's]")
    p.add_argument("--keep", action="append", default=[], metavar="PATTERN=FORMAT", help="matrices of other formats; repeatable")
    p.add_argument("types", nargs="+", metavar="TYPE", help="a format or a mix; Q4_0! is pure, Q4_0@PATTERN those matrices alone")
    a = p.parse_args()
    with tempfile.TemporaryDirectory(dir=a.work) as work:
        n_vocab = run([a.hasten, "info", a.model, "--json"])["n_vocab"]
        reference = np.memmap(os.path.join(work, "reference"), np.float32, "w+", shape=(a.tokens, n_vocab))
        n, base = 0, None
        f32 = os.path.join(work, "f32.gguf")
        run([a.hasten, "quantize", a.model, f32, "F32", "--json"])
        for row in rows(a.hasten, f32, a, n_vocab):
            if isinstance(row, dict):
                base = row
            else:
                reference[n] = row
                n += 1
        reference = reference[:n]
        os.unlink(f32)
        imatrix = None
        if a.calibration:
            imatrix = os.path.join(work, "imatrix.gguf")
            run([a.hasten, "imatrix", a.model, "-f", a.calibration, "-o", imatrix, "--limit-tokens",
                 str(a.calibration_tokens), "--json"])
        print(f"{n} tokens scored, windows of {a.ctx}; F32: ppl {base['ppl']:.3f}, kernels {base['kernels']}")
        print()
        print("| type | importance | bits/weight | MB | error of weights | ppl | mean KL | 99th percentile | top-1 | s |")
        print("|---|---|---|---|---|---|---|---|---|---|", flush=True)
        for kind in ["", *a.types]:  # "": the file as it is
            for use in [None] + ([imatrix] if imatrix and kind.strip("!").partition("@")[0] not in ("", "F32", "F16", "BF16", "Q8_0") else []):
                out = os.path.join(work, "out.gguf")
                q = quantize(a.hasten, a, kind, use, out) if kind else as_it_is(a)
                ppl, kl, same = compare(a.hasten, out if kind else a.model, a, reference, n_vocab)
                label = kind.rstrip("!") + (" pure" if kind.endswith("!") else "") or "the file"
                print(f"| {label} | {'yes' if use else 'no'} | {q['bits_per_weight']:.2f} | {q['bytes'] / 1e6:.0f} | "
                      f"{q['relative_error']:.4f} | {ppl:.3f} | {kl.mean():.5f} | {np.quantile(kl, 0.99):.4f} | "
                      f"{100 * same:.1f} % | {q['ms'] / 1e3:.0f} |", flush=True)
                if kind:
                    os.unlink(out)
    return 0


if __name__ == "__main__":
    script.run(main)
