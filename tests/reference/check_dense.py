"""Holds the engine's logits on tiny models of the dense families against the float64 pass of dense.py.

    check_dense.py --hasten BIN --make-tiny BIN [--forms PREFIX]

`hasten eval --reference`: |delta logit| < 2e-4 at every position of random ids and for every id. The default
arithmetic: mean KL(reference || ours) at most 1.3 times that of the reference with its matrix inputs rounded to int8
blocks, plus 1e-4. And the comparison can fail: another law (each form names one) differs by more than 1,000 times the
bound."""
import argparse
import os
import tempfile

import numpy as np

import common
from dense import Dense
from reference import log_softmax

MAX_DELTA = 2e-4
KL_FACTOR, KL_FLOOR = 1.3, 1e-4


class Unscaled(Dense):
    """Rotary frequencies as if there were no scaling."""

    def rotation(self, longer):
        super().rotation(longer)
        d = self.key("rope.dimension_count", self.d_head)
        return float(self.key("rope.freq_base")) ** (-2.0 * np.arange(d // 2) / d), 1.0


class AlwaysShort(Dense):
    """LongRoPE that never changes over."""

    def rotation(self, longer):
        super().rotation(longer)
        return super().rotation(False)


class WithoutWindow(Dense):
    """Every position sees all before it."""

    def attend(self, layer, x, rotation):
        window, self.window = self.window, 0
        y = super().attend(layer, x, rotation)
        self.window = window
        return y


class WithoutBiases(Dense):
    """Matrices without their biases."""

    def vector(self, name):
        return 0.0 * super().vector(name) if name.endswith(".bias") else super().vector(name)


class WithoutHeadNorms(Dense):
    """Queries and keys as they come."""

    def vector(self, name):
        v = super().vector(name)
        return 1.0 if "attn_q_norm" in name or "attn_k_norm" in name else v


class WideCaps(Dense):
    """Soft caps that do nothing."""

    def key(self, name, default=None):
        return 1e9 if name.endswith("softcapping") else super().key(name, default)


# name -> (family, seed, options of make_tiny, ids, the law that must show)
FORMS = {
    "llama-linear": ("llama", 21, ["rope=linear"], 200, Unscaled),
    "llama-yarn": ("llama", 22, ["rope=yarn"], 200, Unscaled),
    "llama-llama3": ("llama", 23, ["rope=llama3"], 200, Unscaled),
    "llama-llama3-keys": ("llama", 24, ["rope=llama3_keys"], 200, Unscaled),
    "llama-longrope": ("llama", 25, ["rope=longrope", "original=100"], 200, AlwaysShort),
    "llama-biases": ("llama", 26, ["biases=1"], 200, WithoutBiases),
    "mistral": ("llama", 27, ["window=70", "head_dim=24"], 200, WithoutWindow),
    "qwen2-yarn": ("qwen2", 28, ["rope=yarn_keys"], 200, Unscaled),
    "qwen3": ("qwen3", 29, [], 200, WithoutHeadNorms),
    "qwen3-yarn": ("qwen3", 30, ["rope=yarn", "original=96"], 200, Unscaled),
    "gemma2": ("gemma2", 31, [], 200, WideCaps),
    "gemma2-window": ("gemma2", 32, ["n_layer=3"], 200, WithoutWindow),
    "phi3": ("phi3", 33, [], 300, AlwaysShort),
    "phi3-window": ("phi3", 34, ["rope=none", "window=50", "n_rot=0"], 200, WithoutWindow),
}


def engine(args, path, ids, n_vocab, options):
    with common.Eval(args.hasten, path, ids, len(ids), [*options, "-t", "2"], n_vocab=n_vocab) as run:
        return np.array(run.logits, dtype=np.float64)


def kl(ref, got):
    """Mean over rows; logits, both overwritten."""
    ref, got = log_softmax(ref), log_softmax(got)
    return float((np.exp(ref) * (ref - got)).sum(axis=1).mean())


def check(args, form, path, n_ids, other_law):
    ref = Dense(path)
    ids = np.random.default_rng(5).integers(0, ref.n_vocab, n_ids).tolist()
    exact = ref.logits(ids)[:-1]
    delta = np.abs(engine(args, path, ids, ref.n_vocab, ["--reference"]) - exact)
    row = int(delta.max(axis=1).argmax())
    other = float(np.abs(other_law(path).logits(ids)[:-1] - exact).max())
    rounded = kl(exact.copy(), Dense(path, "int8").logits(ids)[:-1])
    ours = kl(exact, engine(args, path, ids, ref.n_vocab, []))
    print(f"{form}: {n_ids} ids: --reference |delta logit| {delta.max():.2e} (row {row}), other law "
          f"({other_law.__name__}) {other:.2e}; mean KL {ours:.2e}, of rounded inputs {rounded:.2e}")
    if not delta.max() < MAX_DELTA:
        raise common.Failure(f"{form} --reference: |delta logit| is {delta.max():.3e} at row {row} "
                             f"(expected < {MAX_DELTA})")
    if not ours <= KL_FACTOR * rounded + KL_FLOOR:
        raise common.Failure(f"{form}: mean KL is {ours:.3e} (expected at most {KL_FACTOR} x {rounded:.3e} + "
                             f"{KL_FLOOR})")
    if not other > 1000 * MAX_DELTA:
        raise common.Failure(f"{form}: another law differs by {other:.3e} only (expected to show)")


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    p.add_argument("--hasten", required=True)
    p.add_argument("--make-tiny", required=True)
    p.add_argument("--forms", default="", help="the forms whose names begin so; all without it")
    args = p.parse_args()
    forms = [name for name in FORMS if name.startswith(args.forms)]
    if not forms:
        raise common.Failure(f"no form begins with {args.forms} (expected one of {', '.join(FORMS)})")
    for form in forms:
        family, seed, options, n_ids, other_law = FORMS[form]
        with tempfile.TemporaryDirectory(prefix="hasten-dense-") as folder:
            path = os.path.join(folder, f"{form}.gguf")
            common.run([args.make_tiny, family, str(seed), path, *options])
            check(args, form, path, n_ids, other_law)


if __name__ == "__main__":
    common.main_of(main)
