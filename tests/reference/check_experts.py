"""Holds the engine's logits on a tiny mixture of experts against the float64 pass of experts.py.

    check_experts.py --hasten BIN --model FILE [--tokens N]

`hasten eval --reference`: |delta log p| < 1e-3 wherever the reference p >= 1e-6, at every position of N random
ids. The default arithmetic: mean KL(reference || ours) at most twice that of the reference with its matrix
inputs rounded to int8 blocks, plus 1e-3; no closer, as one rounding can send a row to another expert.
And the comparison can fail: with the experts' weights of another law it does."""
import argparse

import numpy as np

import common
from experts import Experts
from reference import log_softmax

MAX_DELTA = 1e-3
P_MIN = 1e-6
KL_FACTOR, KL_FLOOR = 2.0, 1e-3


class OtherLaw(Experts):
    """Each chosen expert weighs the same: a wrong law that must show."""

    def gates(self, logits):
        return np.where(super().gates(logits) > 0, 1.0 / self.n_used, 0.0)


def worst_delta(ref, got):
    delta = np.where(ref >= np.log(P_MIN), np.abs(got - ref), 0.0)
    return float(delta.max()), int(delta.max(axis=1).argmax())


def kl(ref, got):
    return float((np.exp(ref) * (ref - got)).sum(axis=1).mean())


def engine(args, ids, n_vocab, options):
    with common.Eval(args.hasten, args.model, ids, len(ids), [*options, "-t", "2"], n_vocab=n_vocab) as run:
        return log_softmax(np.array(run.logits, dtype=np.float64))


def check(args):
    ref = Experts(args.model)
    n_vocab = int(ref.tensors["token_embd.weight"].shape[1])
    ids = np.random.default_rng(5).integers(0, n_vocab, args.tokens).tolist()
    exact = ref.log_probs(ids)[:-1]
    delta, row = worst_delta(exact, engine(args, ids, n_vocab, ["--reference"]))
    other, _ = worst_delta(exact, OtherLaw(args.model).log_probs(ids)[:-1])
    ours = kl(exact, engine(args, ids, n_vocab, []))
    rounded = kl(exact, Experts(args.model, "int8").log_probs(ids)[:-1])
    print(f"{ref.arch}: {ref.n_used} of {ref.n_expert} experts, {len(ids)} ids: --reference |delta log p| "
          f"{delta:.2e} (row {row}), another law {other:.2e}; mean KL {ours:.2e}, of rounded inputs {rounded:.2e}")
    if not delta < MAX_DELTA:
        raise common.Failure(f"--reference: |delta log p| is {delta:.3e} at row {row} (expected < {MAX_DELTA})")
    if not ours <= KL_FACTOR * rounded + KL_FLOOR:
        raise common.Failure(f"default: mean KL is {ours:.3e} (expected at most {KL_FACTOR} x {rounded:.3e} + "
                             f"{KL_FLOOR})")
    if other < 100 * MAX_DELTA:
        raise common.Failure(f"another law differs by {other:.3e} only (expected to show)")


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    p.add_argument("--hasten", required=True)
    p.add_argument("--model", required=True)
    p.add_argument("--tokens", type=int, default=200)
    check(p.parse_args())


if __name__ == "__main__":
    common.main_of(main)
