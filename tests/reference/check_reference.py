"""Holds the engine's logits against the stored float64 reference (data/), through the command.

    check_reference.py --hasten BIN --models DIR --model NAME --what tokens|reference|default [--prompts a,b]

    tokens     `hasten tokenize` gives the ids that another tokenizer gave for the three texts
    reference  `hasten eval --reference`: |delta log p| < 1e-3 wherever the reference p >= 1e-6
    default    `hasten eval`: mean KL(reference || ours) <= 1.15 x that of the reference with its matrix
               inputs rounded to the same int8 blocks, over all rows of the prompts together; the same top-1
               at 99 % of the positions whose margin is above 0.7 nats

A missing model, command or data file is a failure, never a skip."""
import argparse
import os

import numpy as np

import common
import compact
from reference import log_softmax

MAX_DELTA = 1e-3
KL_FACTOR = 1.15
TOP1_SHARE = 0.99
TOP1_MARGIN = 0.7
ROWS = 64          # rows of logits in float64 at a time
NLL_DELTA = 1e-4   # between the command's own nll and the one computed from its logits


def stored(name, prompt):
    path = os.path.join(common.DATA, f"{name}-{prompt}.npz")
    if not os.path.isfile(path):
        raise common.Failure(f"{path} is missing (expected: made by make_reference.py)")
    return compact.Stored(path)


def blocks(logits):
    """Yields (first row, log p in float64) of mapped logits; anything not finite is a failure."""
    for i in range(0, logits.shape[0], ROWS):
        block = np.array(logits[i:i + ROWS], dtype=np.float64)
        if not np.isfinite(block).all():
            bad = int(np.flatnonzero(~np.isfinite(block).all(axis=1))[0])
            raise common.Failure(f"row {i + bad} of the logits holds a value that is not finite")
        yield i, log_softmax(block)


def evaluate(args, path, s, options):
    """`hasten eval` over the prompt as one window, its result checked for what must be so."""
    n = len(s.ids)
    run = common.Eval(args.hasten, path, s.ids, max(n, 32), [*options, "-t", str(args.threads)],
                      n_vocab=s.meta["n_vocab"])
    if run.result["n_scored"] != n - 1 or run.result["n_tokens"] != n:
        raise common.Failure(f"eval scored {run.result['n_scored']} of {run.result['n_tokens']} tokens "
                             f"(expected {n - 1} of {n})")
    return run


def check_nll(run, s, nll):
    said = run.result["nll"]
    if abs(said - nll) > NLL_DELTA or abs(np.log(run.result["ppl"]) - said) > NLL_DELTA:
        raise common.Failure(f"eval says nll {said}, ppl {run.result['ppl']} (its own logits give nll {nll})")


def check_tokens(args, path):
    for prompt in args.prompts:
        s = stored(args.model, prompt)
        with open(os.path.join(common.TEXTS, s.meta["text"]), "rb") as f:
            ids = common.hasten_tokenize(args.hasten, path, f.read())[:len(s.ids)]
        differ = [i for i, (a, b) in enumerate(zip(ids, s.ids)) if a != b]
        if differ or len(ids) != len(s.ids):
            where = differ[0] if differ else len(ids)
            raise common.Failure(f"{args.model} {prompt}: `tokenize` differs from the reference ids at "
                                 f"{where}: {ids[where:where + 4]} "
                                 f"(expected {s.ids[where:where + 4].tolist()})")
        print(f"{args.model} {prompt}: {len(ids)} ids are equal")


def check_exact(args, path):
    for prompt in args.prompts:
        s = stored(args.model, prompt)
        worst, n_compared, nll = (0.0, -1, -1), 0, []
        with evaluate(args, path, s, ["--reference"]) as run:
            for first, lp in blocks(run.logits):
                n = lp.shape[0]
                nll.extend(-lp[np.arange(n), s.ids[first + 1:first + 1 + n]])
                ref = s.top_logp[first:first + n]
                top = np.abs(np.take_along_axis(lp, s.top_ids[first:first + n], axis=1) - ref)
                top = np.where(ref >= np.log(compact.P_MIN), top, 0.0)
                at = np.unravel_index(np.argmax(top), top.shape)
                worst = max(worst, (float(top[at]), first + int(at[0]), int(s.top_ids[first + at[0], at[1]])))
                n_compared += top.size
                for r in range(first, first + n):
                    if r in s.full:
                        ids, ref = s.full[r]
                        delta = np.abs(lp[r - first, ids] - ref) + compact.LOGP_ERROR
                        at = int(np.argmax(delta))
                        worst = max(worst, (float(delta[at]), r, int(ids[at])))
                        n_compared += len(ids)
            nll = float(np.mean(nll))
            check_nll(run, s, nll)
        ref_nll = -float(s.next_logp.astype(np.float64).mean())
        print(f"{args.model} {prompt} --reference: max |delta log p| {worst[0]:.2e} (row {worst[1]}, "
              f"id {worst[2]}) of {n_compared}, storage error {compact.LOGP_ERROR:.1e} included; "
              f"nll {nll:.6f}, reference {ref_nll:.6f}")
        if not worst[0] < MAX_DELTA:
            raise common.Failure(f"{args.model} {prompt} --reference: |delta log p| is {worst[0]:.3e} at row "
                                 f"{worst[1]}, id {worst[2]} (expected < {MAX_DELTA})")


def compare_default(args, path, s, options):
    """Per row: KL(reference || ours) on the stored partition, and whether the top-1 is the same."""
    kl, same, nll = [], [], []
    with evaluate(args, path, s, options) as run:
        for first, lp in blocks(run.logits):
            n = lp.shape[0]
            at = slice(first, first + n)
            kl.extend(compact.partition_kl(s.top_logp[at], s.rest_logp[at], s.top_ids[at], lp))
            same.extend(lp.argmax(axis=1) == s.top_ids[at, 0])
            nll.extend(-lp[np.arange(n), s.ids[first + 1:first + 1 + n]])
        check_nll(run, s, float(np.mean(nll)))
    return np.array(kl), np.array(same)


def check_default(args, path):
    ours, yardstick, agree = [], [], []
    for prompt in args.prompts:
        s = stored(args.model, prompt)
        kl, same = compare_default(args, path, s, args.option)
        sure = s.margin > TOP1_MARGIN
        ours.append(kl)
        yardstick.append(s.int8_kl)
        agree.append(same[sure])
        print(f"{args.model} {prompt}: mean KL {kl.mean():.6f}, int8 inputs alone {s.int8_kl.mean():.6f}, "
              f"top-1 {same[sure].sum()} of {sure.sum()} sure positions, {same.sum()} of {len(same)}")
    ours, yardstick = (float(np.concatenate(a).mean()) for a in (ours, yardstick))
    agree = np.concatenate(agree)
    print(f"{args.model}: mean KL {ours:.6f} / {yardstick:.6f} = {ours / yardstick:.3f}, "
          f"top-1 {100 * agree.mean():.2f} % of {len(agree)}")
    if not ours <= KL_FACTOR * yardstick:
        raise common.Failure(f"{args.model}: mean KL {ours:.6f} is {ours / yardstick:.3f} x that of int8 "
                             f"inputs alone (expected <= {KL_FACTOR})")
    if not agree.mean() >= TOP1_SHARE:
        raise common.Failure(f"{args.model}: top-1 agrees at {100 * agree.mean():.2f} % of the positions "
                             f"with a margin above {TOP1_MARGIN} (expected >= {100 * TOP1_SHARE} %)")


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    p.add_argument("--hasten", required=True)
    p.add_argument("--models", required=True)
    p.add_argument("--model", required=True, choices=sorted(common.MODELS))
    p.add_argument("--what", required=True, choices=("tokens", "reference", "default"))
    p.add_argument("--prompts", default=",".join(common.PROMPTS))
    p.add_argument("--option", action="append", default=[], help="passed on to eval by `default`")
    p.add_argument("-t", "--threads", type=int, default=2)
    args = p.parse_args()
    args.prompts = args.prompts.split(",")
    path = common.model_path(args.models, args.model)
    expected = stored(args.model, args.prompts[0]).meta["model_sha256"]
    found = common.sha256_file(path)
    if found != expected:
        raise common.Failure(f"{path}: SHA-256 is {found} (expected {expected}, as in data/)")
    {"tokens": check_tokens, "reference": check_exact, "default": check_default}[args.what](args, path)
    return 0


if __name__ == "__main__":
    common.main_of(main)
