"""Holds low-rank adapters against the float64 pass of dense.py, with y = W x + scale alpha / rank B (A x) in every
adapted matrix (arXiv:2106.09685, sec. 4.1), and against a file whose weights were changed by that much.

    check_lora.py --hasten BIN --make-tiny BIN --make-lora BIN

For tiny models and one or two adapters: `hasten eval --reference`: |delta logit| < 2e-4 at every position and id; the
default arithmetic within the bounds of check_dense.py; a model of F32 matrices with adapters and the same model with
merged weights agree. And the comparison can fail: without the adapters, and with alpha and rank left out of the factor,
logits differ by more than 1,000 times the bound."""
import argparse
import os
import shutil
import tempfile

import numpy as np
from gguf import GGUFReader
from gguf.quants import dequantize

import common
from check_dense import KL_FACTOR, KL_FLOOR, MAX_DELTA, engine, kl
from dense import Dense

N_IDS = 120
# name -> (family, options of make_tiny, [(options of make_lora, scale)])
FORMS = {
    "llama": ("llama", [], [(["rank=4", "alpha=6"], 1.0)]),
    "llama-f16-wide": ("llama", ["wide=1"], [(["rank=32", "alpha=16", "type=F16"], 0.75)]),
    "llama-q8-two": ("llama", ["biases=1"], [(["rank=32", "alpha=8", "type=Q8_0", "only=attn_"], 0.5),
                                            (["rank=3", "alpha=0"], -0.7)]),
    "qwen2": ("qwen2", [], [(["rank=17", "alpha=9", "type=BF16"], 1.5)]),
    "gemma2": ("gemma2", [], [(["rank=8", "alpha=4", "only=ffn_"], 1.0)]),
    "phi3": ("phi3", [], [(["rank=5", "alpha=5"], 1.0), (["rank=16", "alpha=3", "only=attn_qkv"], 2.0)]),
}


class Adapter:
    def __init__(self, path, scale, factor=True):
        reader = GGUFReader(path)
        self.tensors = {t.name: dequantize(t.data, t.tensor_type).astype(np.float64) for t in reader.tensors}
        self.alpha = float(reader.fields["adapter.lora.alpha"].contents())
        self.scale, self.factor = scale, factor

    def pair(self, name):
        """(A, factor × B) of a matrix, or None."""
        a = self.tensors.get(f"{name}.lora_a")
        if a is None:
            return None
        strength = self.alpha / a.shape[0] if self.factor and self.alpha else 1.0
        return a, self.scale * strength * self.tensors[f"{name}.lora_b"]


class Adapted(Dense):
    def __init__(self, path, adapters, act="float"):
        super().__init__(path, act)
        self.adapters = adapters

    def product(self, name, x):
        y = super().product(name, x)
        for adapter in self.adapters:
            pair = adapter.pair(f"{name}.weight")
            if pair:
                y = y + x @ pair[0].T @ pair[1].T
        return y


def merge(path, adapters, out):
    """A copy of a model whose matrices are F32, changed by the adapters."""
    shutil.copyfile(path, out)
    for t in GGUFReader(path).tensors:
        change = sum(pair[1] @ pair[0] for pair in (a.pair(t.name) for a in adapters) if pair)
        if isinstance(change, int):
            continue
        if t.tensor_type.name != "F32":
            raise common.Failure(f"{path}: {t.name} is {t.tensor_type.name} (expected F32)")
        w = np.memmap(out, dtype=np.float32, mode="r+", offset=int(t.data_offset), shape=t.data.shape)
        w[:] = (t.data.astype(np.float64) + change).astype(np.float32)
        w.flush()


def difference(a, b):
    return float(np.abs(a - b).max())


def make(args, folder, form, family, options, loras, seed):
    path = os.path.join(folder, f"{form}.gguf")
    common.run([args.make_tiny, family, str(seed), path, *options])
    files = []
    for i, (lora_options, scale) in enumerate(loras):
        files.append((os.path.join(folder, f"{form}-{i}.gguf"), scale))
        common.run([args.make_lora, path, str(seed + i), files[-1][0], *lora_options])
    return path, files, [word for file, scale in files for word in ("--lora", f"{file}:{scale}")]


def check(args, folder, form, seed):
    path, files, words = make(args, folder, form, *FORMS[form], seed)
    adapters = [Adapter(*f) for f in files]
    ref = Adapted(path, adapters)
    ids = np.random.default_rng(seed).integers(0, ref.n_vocab, N_IDS).tolist()
    exact = ref.logits(ids)[:-1]
    delta = difference(engine(args, path, ids, ref.n_vocab, ["--reference", *words]), exact)
    without = difference(Dense(path).logits(ids)[:-1], exact)
    other = difference(Adapted(path, [Adapter(*f, factor=False) for f in files]).logits(ids)[:-1], exact)
    rounded = kl(exact.copy(), Adapted(path, adapters, "int8").logits(ids)[:-1])
    ours = kl(exact, engine(args, path, ids, ref.n_vocab, words))
    print(f"{form}: --reference |delta logit| {delta:.2e}, without adapters {without:.2e}, without alpha / rank "
          f"{other:.2e}; mean KL {ours:.2e}, of rounded inputs {rounded:.2e}")
    if not delta < MAX_DELTA:
        raise common.Failure(f"{form} --reference: |delta logit| is {delta:.3e} (expected < {MAX_DELTA})")
    if not ours <= KL_FACTOR * rounded + KL_FLOOR:
        raise common.Failure(f"{form}: mean KL is {ours:.3e} (expected at most {KL_FACTOR} x {rounded:.3e} + "
                             f"{KL_FLOOR})")
    if not (without > 1000 * MAX_DELTA and other > 1000 * MAX_DELTA):
        raise common.Failure(f"{form}: other laws differ by {without:.3e} and {other:.3e} only (expected to show)")


def check_merged(args, folder):
    path, files, words = make(args, folder, "f32", "llama", ["type=F32"],
                              [(["rank=4", "alpha=6"], 1.0), (["rank=7", "alpha=2"], -1.0)], 40)
    merged = os.path.join(folder, "merged.gguf")
    merge(path, [Adapter(*f) for f in files], merged)
    n_vocab = Dense(path).n_vocab
    ids = np.random.default_rng(40).integers(0, n_vocab, N_IDS).tolist()
    for options in (["-ctk", "f32"], ["--reference"]):
        ours = engine(args, path, ids, n_vocab, [*options, *words])
        theirs = engine(args, merged, ids, n_vocab, options)
        plain = engine(args, path, ids, n_vocab, options)
        delta, shows = difference(ours, theirs), difference(ours, plain)
        print(f"merged {' '.join(options)}: |delta logit| {delta:.2e}, without adapters {shows:.2e}")
        if not (delta < MAX_DELTA and shows > 1000 * MAX_DELTA):
            raise common.Failure(f"merged weights {options}: |delta logit| is {delta:.3e} (expected < {MAX_DELTA}), "
                                 f"without adapters {shows:.3e}")


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    for name in ("hasten", "make-tiny", "make-lora"):
        p.add_argument(f"--{name}", required=True)
    args = p.parse_args()
    with tempfile.TemporaryDirectory(prefix="hasten-lora-") as folder:
        for seed, form in enumerate(FORMS, 50):
            check(args, folder, form, seed)
        check_merged(args, folder)


if __name__ == "__main__":
    common.main_of(main)
