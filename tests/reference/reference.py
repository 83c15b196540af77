"""An independent forward pass in numpy float64 over the dequantised weights of a GGUF file.

Owns: the truth that the engine's logits are held against, for the families llama, qwen2 and gemma3, written
from the papers and the models' published configurations, not from the engine. Does not own: tokenising (ids
come from outside), storing (compact.py), judging (check_reference.py).

    RMSNorm     x / sqrt(mean(x^2) + eps) * w                                        arXiv:1910.07467, eq. 4
    RoPE        pair (a, b) at position p: angle p * theta^(-2i/d)                    arXiv:2104.09864, eq. 34
                interleaved pairs (2i, 2i+1): `llama` files (their q and k rows are permuted for it);
                half pairs (i, i + d/2): qwen2, gemma3
    attention   softmax(q k^T * scale) v, query head h reads key head h // (n_head / n_head_kv)
                                                                                      arXiv:2305.13245
    SwiGLU      down(silu(gate x) * (up x))                                           arXiv:2002.05202, sec. 2
    GeGLU       down(gelu_tanh(gate x) * (up x)): gemma3                              arXiv:2002.05202
    gemma3      embeddings times sqrt(d_model); RMSNorm of each q and k head before RoPE; a second norm after
                attention and after the feed-forward, before the residual sum; layers 1-5 of every 6 are local
                (window 512: a position sees itself and the 511 before it; theta 10,000), the 6th is global
                (theta from the file). The file's norm weights contain the +1.        arXiv:2503.19786, sec. 2

`act="int8"` rounds the input of every matrix product whose weight is quantised, the output projection too, to
int8 blocks as the engine's default arithmetic does: 32 values share d = amax / 127 (256 values for the K
formats), q = round-to-nearest-even(x / d). All else stays float64. The KL of that pass against the exact one
is the damage that int8 inputs alone do: the yardstick of the engine's default arithmetic.

    reference.py --model FILE --tokens IDS.json [-c 512] [--act int8] [--positions 0,5,7] [--out ROWS.f32]

prints perplexity as JSON; --out receives float32 rows of log p over the vocabulary, one per scored position:
the ids are cut into windows of -c, each from an empty context, and row i predicts token i + 1 of its window.
"""
import argparse
import json
import sys

import numpy as np
from gguf import GGUFReader
from gguf.quants import dequantize

K_FORMATS = {"Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K"}
BLOCKS_OF_32 = {"Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0"}
FLOATS = {"F32", "F16", "BF16"}
HEAD_SLICE = 16384  # rows of the output projection converted to float64 at a time
ROW_BLOCK = 256     # rows whose logits exist at a time
QUERY_BLOCK = 128   # queries whose attention scores exist at a time


class Config:
    """Hyper-parameters of one file. Anything this pass does not implement is refused, not ignored."""

    def __init__(self, reader):
        def get(key, default=None):
            field = reader.fields.get(key)
            if field is None:
                if default is None:
                    raise SystemExit(f"reference: {key} is missing")
                return default
            return field.contents()

        self.arch = get("general.architecture")
        if self.arch not in ("llama", "qwen2", "gemma3"):
            raise SystemExit(f"reference: architecture {self.arch} (expected llama, qwen2 or gemma3)")
        a = self.arch
        for key in reader.fields:
            if key.startswith(f"{a}.rope.scaling") or "softcapping" in key or "expert" in key:
                raise SystemExit(f"reference: {key} is not implemented")
        self.n_layer = get(f"{a}.block_count")
        self.d_model = get(f"{a}.embedding_length")
        self.n_head = get(f"{a}.attention.head_count")
        self.n_head_kv = get(f"{a}.attention.head_count_kv", self.n_head)
        self.d_head = get(f"{a}.attention.key_length", self.d_model // self.n_head)
        self.n_rot = get(f"{a}.rope.dimension_count", self.d_head)
        self.eps = float(np.float32(get(f"{a}.attention.layer_norm_rms_epsilon")))
        self.theta = float(get(f"{a}.rope.freq_base", 10000.0))
        self.window = get(f"{a}.attention.sliding_window") if a == "gemma3" else 0
        self.interleaved = a == "llama"
        if a == "gemma3" and self.n_layer == 62:
            raise SystemExit("reference: the 27B's own query scale is not implemented")
        self.scale = 1.0 / np.sqrt(self.d_head)

    def is_local(self, layer):
        return self.window > 0 and (layer + 1) % 6 != 0


def rms_norm(x, w, eps):
    return x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + eps) * w


def round_int8(x, block):
    """x [n, k] -> x with each block of k rounded to 255 steps of amax / 127."""
    b = x.reshape(x.shape[0], -1, block)
    d = np.float32(np.abs(b).max(axis=-1, keepdims=True) / 127.0).astype(np.float64)
    q = np.rint(np.divide(b, d, out=np.zeros_like(b), where=d > 0))
    return (q * d).reshape(x.shape)


def rope(x, theta, n_rot, interleaved, factors):
    """x [n, heads, d]: rotates the first n_rot values of each head; row i is position i."""
    half = n_rot // 2
    freq = theta ** (-2.0 * np.arange(half) / n_rot)
    if factors is not None:
        freq = freq / factors
    angle = np.arange(x.shape[0])[:, None] * freq[None, :]
    cos, sin = np.cos(angle)[:, None, :], np.sin(angle)[:, None, :]
    first = slice(0, n_rot, 2) if interleaved else slice(0, half)
    second = slice(1, n_rot, 2) if interleaved else slice(half, n_rot)
    a, b = x[..., first], x[..., second]
    y = x.copy()
    y[..., first] = a * cos - b * sin
    y[..., second] = a * sin + b * cos
    return y


def attention(q, k, v, scale, window):
    """q [n, n_head, d], k and v [n, n_head_kv, d] -> [n, n_head * d]; window 0: all earlier positions."""
    n, n_head, d = q.shape
    group = n_head // k.shape[1]
    out = np.empty((n, n_head, v.shape[2]))
    for start in range(0, n, QUERY_BLOCK):
        end = min(n, start + QUERY_BLOCK)
        first = max(0, start - window + 1) if window else 0
        query = np.arange(start, end)[:, None]
        key = np.arange(first, end)[None, :]
        hidden = key > query
        if window:
            hidden = hidden | (key <= query - window)
        for h in range(n_head):
            s = (q[start:end, h] * scale) @ k[first:end, h // group].T
            np.copyto(s, -np.inf, where=hidden)
            s -= s.max(axis=1, keepdims=True)
            np.exp(s, out=s)
            out[start:end, h] = (s @ v[first:end, h // group]) / s.sum(axis=1, keepdims=True)
    return out.reshape(n, -1)


def silu(x):
    return x / (1.0 + np.exp(-x))


def gelu_tanh(x):
    return 0.5 * x * (1.0 + np.tanh(np.sqrt(2.0 / np.pi) * (x + 0.044715 * x ** 3)))


class Reference:
    def __init__(self, path):
        reader = GGUFReader(path)
        self.config = Config(reader)
        self.tensors = {t.name: t for t in reader.tensors}
        self.used = set()
        self.n_vocab = int(self.tensors["token_embd.weight"].shape[1])
        self._head = None

    # ---- weights -----------------------------------------------------------------------------------

    def _vector(self, name):
        if name not in self.tensors:
            return None
        self.used.add(name)
        t = self.tensors[name]
        return dequantize(t.data, t.tensor_type).astype(np.float64).reshape(-1)

    def _product(self, name, x, act, rounded):
        """x [n, k] times the matrix `name`, its bias added; `rounded` caches x in its int8 forms."""
        self.used.add(name)
        t = self.tensors[name]
        kind = t.tensor_type.name
        if act == "int8" and kind not in FLOATS:
            x = self._rounded(x, kind, rounded)
        y = x @ dequantize(t.data, t.tensor_type).astype(np.float64).T
        bias = self._vector(name.replace(".weight", ".bias"))
        return y if bias is None else y + bias

    @staticmethod
    def _rounded(x, kind, cache):
        if kind not in K_FORMATS and kind not in BLOCKS_OF_32:
            raise SystemExit(f"reference: format {kind} has no int8 form here")
        block = 256 if kind in K_FORMATS else 32
        if block not in cache:
            cache[block] = round_int8(x, block)
        return cache[block]

    # ---- forward pass ------------------------------------------------------------------------------

    def _embed(self, ids):
        self.used.add("token_embd.weight")
        t = self.tensors["token_embd.weight"]
        x = dequantize(t.data[ids], t.tensor_type).astype(np.float64)
        return x * np.sqrt(self.config.d_model) if self.config.arch == "gemma3" else x

    def _attend(self, layer, x, bounds, act):
        c = self.config
        p = f"blk.{layer}."
        cache = {}
        q, k, v = (self._product(f"{p}attn_{i}.weight", x, act, cache) for i in "qkv")
        q = q.reshape(-1, c.n_head, c.d_head)
        k = k.reshape(-1, c.n_head_kv, c.d_head)
        v = v.reshape(-1, c.n_head_kv, v.shape[1] // c.n_head_kv)
        if c.arch == "gemma3":
            q = rms_norm(q, self._vector(f"{p}attn_q_norm.weight"), c.eps)
            k = rms_norm(k, self._vector(f"{p}attn_k_norm.weight"), c.eps)
        local = c.is_local(layer)
        theta = 10000.0 if local else c.theta
        factors = self._vector("rope_freqs.weight")
        parts = []
        for lo, hi in bounds:
            q1, k1 = (rope(i[lo:hi], theta, c.n_rot, c.interleaved, factors) for i in (q, k))
            parts.append(attention(q1, k1, v[lo:hi], c.scale, c.window if local else 0))
        return self._product(f"{p}attn_output.weight", np.concatenate(parts), act, {})

    def _feed_forward(self, layer, x, act):
        p = f"blk.{layer}."
        cache = {}
        gate = self._product(f"{p}ffn_gate.weight", x, act, cache)
        up = self._product(f"{p}ffn_up.weight", x, act, cache)
        activate = gelu_tanh if self.config.arch == "gemma3" else silu
        return self._product(f"{p}ffn_down.weight", activate(gate) * up, act, {})

    def hidden(self, windows, act="float"):
        """Windows of ids -> [sum of lengths, d_model], the normed input of the output projection. All windows
        go through a layer together, so each weight is dequantised once; attention sees one window a time."""
        c = self.config
        ends = np.cumsum([len(w) for w in windows])
        bounds = [(int(e) - len(w), int(e)) for w, e in zip(windows, ends)]
        x = self._embed(np.concatenate([np.asarray(w, dtype=np.int64) for w in windows]))
        for layer in range(c.n_layer):
            p = f"blk.{layer}."
            y = self._attend(layer, rms_norm(x, self._vector(f"{p}attn_norm.weight"), c.eps), bounds, act)
            if c.arch == "gemma3":
                y = rms_norm(y, self._vector(f"{p}post_attention_norm.weight"), c.eps)
            x = x + y
            y = self._feed_forward(layer, rms_norm(x, self._vector(f"{p}ffn_norm.weight"), c.eps), act)
            if c.arch == "gemma3":
                y = rms_norm(y, self._vector(f"{p}post_ffw_norm.weight"), c.eps)
            x = x + y
        return rms_norm(x, self._vector("output_norm.weight"), c.eps)

    def log_probs(self, hidden, act="float"):
        """hidden [n, d_model], n <= ROW_BLOCK -> log p [n, n_vocab] in float64."""
        name = "output.weight" if "output.weight" in self.tensors else "token_embd.weight"
        t = self.tensors[name]
        self.used.add(name)
        left = set(self.tensors) - self.used
        if left:
            raise SystemExit(f"reference: the file's tensor {sorted(left)[0]} is not used here")
        if self._head is None:
            self._head = [dequantize(t.data[i:i + HEAD_SLICE], t.tensor_type)
                          for i in range(0, self.n_vocab, HEAD_SLICE)]
        if act == "int8" and t.tensor_type.name not in FLOATS:
            hidden = self._rounded(hidden, t.tensor_type.name, {})
        logits = np.empty((hidden.shape[0], self.n_vocab))
        for i, part in enumerate(self._head):
            logits[:, i * HEAD_SLICE:i * HEAD_SLICE + part.shape[0]] = hidden @ part.astype(np.float64).T
        return log_softmax(logits)

    def log_prob_blocks(self, hidden, act="float"):
        """Yields (first row, log p of up to ROW_BLOCK rows) over all rows of hidden."""
        for i in range(0, hidden.shape[0], ROW_BLOCK):
            yield i, self.log_probs(hidden[i:i + ROW_BLOCK], act)


def log_softmax(logits):
    """[n, n_vocab] float64, in place."""
    logits -= logits.max(axis=1, keepdims=True)
    total = np.empty(logits.shape[0])
    for i in range(logits.shape[0]):
        total[i] = np.log(np.exp(logits[i]).sum())
    logits -= total[:, None]
    return logits


def cut(ids, context):
    """Windows of `context` ids; the last one counts if it has at least two."""
    windows = [ids[i:i + context] for i in range(0, len(ids), context)]
    return [w for w in windows if len(w) >= 2]


def scored(windows):
    """(rows of the concatenated windows that are scored, the token each predicts)."""
    rows, targets, base = [], [], 0
    for w in windows:
        rows.extend(range(base, base + len(w) - 1))
        targets.extend(w[1:])
        base += len(w)
    return np.array(rows), np.array(targets)


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    p.add_argument("--model", required=True)
    p.add_argument("--tokens", required=True, help="JSON array of token ids")
    p.add_argument("-c", "--context", type=int, default=512)
    p.add_argument("--act", choices=("float", "int8"), default="float")
    p.add_argument("--positions", default="all", help="scored rows to write, e.g. 0,5,7")
    p.add_argument("--out", help="float32 rows of log p")
    args = p.parse_args()
    with open(args.tokens, encoding="utf-8") as f:
        windows = cut(json.load(f), args.context)
    rows, targets = scored(windows)
    chosen = None if args.positions == "all" else {int(i) for i in args.positions.split(",")}
    ref = Reference(args.model)
    hidden = ref.hidden(windows, args.act)[rows]
    out = open(args.out, "wb") if args.out else None
    nll = 0.0
    for first, lp in ref.log_prob_blocks(hidden, args.act):
        n = lp.shape[0]
        nll -= lp[np.arange(n), targets[first:first + n]].sum()
        if out:
            keep = [i for i in range(n) if chosen is None or first + i in chosen]
            lp[keep].astype(np.float32).tofile(out)
    if out:
        out.close()
    json.dump({"ppl": float(np.exp(nll / len(rows))), "nll": nll / len(rows), "n_scored": len(rows),
               "n_tokens": sum(len(w) for w in windows), "act": args.act,
               "convention": {"context": args.context, "stride": args.context,
                              "scored": "every token of a window after its first"}}, sys.stdout)
    print()


if __name__ == "__main__":
    main()
