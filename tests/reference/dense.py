"""The float64 forward pass of the dense families and of scaled rotary embeddings, in numpy over the dequantised
weights of a GGUF file.

Owns: the truth for `llama` (also Mistral and files with biases), `qwen2`, `qwen3`, `gemma2` and `phi3`, and for
linear, YaRN, LongRoPE and Llama 3 scaling, written from the papers and the models' published configurations, not
from the engine. Norms, activations and the int8 rounding are those of reference.py. Does not own: judging
(check_dense.py).

    Mistral     arXiv:2310.06825, sec. 2: in every layer a position sees itself and the window - 1 before it
    qwen3       arXiv:2505.09388, sec. 2: RMSNorm of each q and k head before RoPE, no biases
    gemma2      arXiv:2408.00118, sec. 2: embeddings times sqrt(d_model); norms before and after attention and
                feed-forward; GeGLU; layers 0, 2, 4, ... are local; scores become c tanh(s / c), and so do the final
                logits; queries divided by the square root of the head size
    phi3        arXiv:2404.14219 and configuration: q, k, v are the rows of one matrix in that order, gate and up of
                another; a part of each head is rotated (partial_rotary_factor); window in every layer if any

    linear      arXiv:2306.15595: frequencies divided by the factor
    YaRN        arXiv:2309.00071, sec. 3.2 and 3.4, and the published implementation: between the pairs that turn
                beta_fast and beta_slow times over the original context (rounded outwards to whole pairs) a ramp from
                f to f / factor; cos and sin times 0.1 ln(factor) + 1, or the factor that the configuration gives
    Llama 3     arXiv:2407.21783; configuration: with w the wavelength and L the original context: f / factor where
                w > L / low_freq_factor, f where w < L / high_freq_factor, else a mean of both, linear in L / w
    LongRoPE    arXiv:2402.13753 and configuration: frequencies divided by short factors in a sequence of up to L
                tokens, by long factors in a longer one, all of its positions; cos and sin times a constant. So the
                logits at position p are those of the last row of a sequence of p + 1 tokens.
"""
import numpy as np

from reference import gelu_tanh, log_softmax, rms_norm, silu
from weights import Weights

ARCHS = ("llama", "qwen2", "qwen3", "gemma2", "phi3")


class Dense(Weights):
    LAW = "dense"

    def __init__(self, path, act="float"):
        super().__init__(path, act)
        if self.arch not in ARCHS:
            raise SystemExit(f"dense: {path}: architecture {self.arch} (expected one of {', '.join(ARCHS)})")
        self.n_layer = self.key("block_count")
        self.d_model = self.key("embedding_length")
        self.n_head = self.key("attention.head_count")
        self.n_head_kv = self.key("attention.head_count_kv", self.n_head)
        self.d_head = self.key("attention.key_length", self.d_model // self.n_head)
        self.d_ff = self.key("feed_forward_length")
        self.eps = float(np.float32(self.key("attention.layer_norm_rms_epsilon")))
        self.window = self.key("attention.sliding_window", 0)
        self.n_vocab = int(self.tensors["token_embd.weight"].shape[1])

    # ---- rotation ----------------------------------------------------------------------------------

    def original(self):
        return self.key("rope.scaling.original_context_length", self.key("context_length"))

    def rotation(self, longer):
        """(frequency of each pair, what cos and sin are multiplied by); longer: of a long sequence in LongRoPE."""
        d = self.key("rope.dimension_count", self.d_head)
        theta = float(self.key("rope.freq_base", 10000.0))
        i = np.arange(d // 2)
        f = theta ** (-2.0 * i / d)
        if "rope_factors_long.weight" in self.tensors:
            divisors = [self.vector(f"rope_factors_{which}.weight") for which in ("short", "long")]
            return f / divisors[longer], float(self.key("rope.scaling.attn_factor"))
        if "rope_freqs.weight" in self.tensors:
            return f / self.vector("rope_freqs.weight"), 1.0
        kind = self.key("rope.scaling.type", "none")
        if kind == "none":
            return f, 1.0
        factor = float(self.key("rope.scaling.factor"))
        scale = {"linear": self.linear, "yarn": self.yarn, "llama3": self.llama3}[kind]
        return scale(f, factor, theta, d)

    def linear(self, f, factor, _theta, _d):
        return f / factor, 1.0

    def yarn(self, f, factor, theta, d):
        def pair_of(turns):
            return d * np.log(self.original() / (turns * 2 * np.pi)) / (2 * np.log(theta))

        low = max(np.floor(pair_of(self.key("rope.scaling.yarn_beta_fast", 32.0))), 0)
        high = min(np.ceil(pair_of(self.key("rope.scaling.yarn_beta_slow", 1.0))), d - 1)
        share = np.clip((np.arange(len(f)) - low) / (high - low), 0, 1)
        return (f / factor * share + f * (1 - share),
                float(self.key("rope.scaling.yarn_attn_factor", 0.1 * np.log(factor) + 1)))

    def llama3(self, f, factor, _theta, _d):
        low, high = self.key("rope.scaling.low_freq_factor"), self.key("rope.scaling.high_freq_factor")
        wavelength = 2 * np.pi / f
        smooth = (self.original() / wavelength - low) / (high - low)
        between = (1 - smooth) * f / factor + smooth * f
        f = np.where(wavelength > self.original() / low, f / factor,
                     np.where(wavelength < self.original() / high, f, between))
        return f, 1.0

    def rotate(self, x, rotation):
        """x [n, heads, d]; row i is position i."""
        f, size = rotation
        half = len(f)
        angle = np.arange(x.shape[0])[:, None] * f[None, :]
        cos, sin = size * np.cos(angle)[:, None, :], size * np.sin(angle)[:, None, :]
        first = slice(0, 2 * half, 2) if self.arch == "llama" else slice(0, half)
        second = slice(1, 2 * half, 2) if self.arch == "llama" else slice(half, 2 * half)
        y = x.copy()
        y[..., first] = x[..., first] * cos - x[..., second] * sin
        y[..., second] = x[..., first] * sin + x[..., second] * cos
        return y

    # ---- a layer -----------------------------------------------------------------------------------

    def projections(self, layer, x):
        p, n, d = f"blk.{layer}.", x.shape[0], self.d_head
        heads = (self.n_head, self.n_head_kv, self.n_head_kv)
        if self.arch == "phi3":
            parts = np.split(self.product(f"{p}attn_qkv", x), np.cumsum([h * d for h in heads])[:2], axis=1)
        else:
            parts = [self.product(f"{p}attn_{i}", x) for i in "qkv"]
        q, k, v = (part.reshape(n, h, d) for part, h in zip(parts, heads))
        if self.arch == "qwen3":
            q = rms_norm(q, self.vector(f"{p}attn_q_norm.weight"), self.eps)
            k = rms_norm(k, self.vector(f"{p}attn_k_norm.weight"), self.eps)
        return q, k, v

    def attend(self, layer, x, rotation):
        n = x.shape[0]
        q, k, v = self.projections(layer, x)
        q, k = self.rotate(q, rotation), self.rotate(k, rotation)
        distance = np.arange(n)[:, None] - np.arange(n)[None, :]
        hidden = distance < 0
        if self.window and (self.arch != "gemma2" or layer % 2 == 0):
            hidden = hidden | (distance >= self.window)
        out = np.empty((n, self.n_head, self.d_head))
        for h in range(self.n_head):
            g = h // (self.n_head // self.n_head_kv)
            s = q[:, h] @ k[:, g].T / np.sqrt(self.d_head)
            if self.arch == "gemma2":
                cap = self.key("attn_logit_softcapping")
                s = cap * np.tanh(s / cap)
            out[:, h] = np.exp(log_softmax(np.where(hidden, -np.inf, s))) @ v[:, g]
        return self.product(f"blk.{layer}.attn_output", out.reshape(n, -1))

    def feed_forward(self, layer, x):
        p = f"blk.{layer}."
        if self.arch == "phi3":
            gate, up = np.split(self.product(f"{p}ffn_up", x), [self.d_ff], axis=1)
        else:
            gate, up = self.product(f"{p}ffn_gate", x), self.product(f"{p}ffn_up", x)
        activate = gelu_tanh if self.arch == "gemma2" else silu
        return self.product(f"{p}ffn_down", activate(gate) * up)

    # ---- all of it ---------------------------------------------------------------------------------

    def run(self, ids, rotation):
        x = self.weight("token_embd.weight")[0][np.asarray(ids)]
        gemma = self.arch == "gemma2"
        if gemma:
            x = x * np.sqrt(self.d_model)
        for layer in range(self.n_layer):
            p = f"blk.{layer}."
            y = self.attend(layer, rms_norm(x, self.vector(f"{p}attn_norm.weight"), self.eps), rotation)
            x = x + (rms_norm(y, self.vector(f"{p}post_attention_norm.weight"), self.eps) if gemma else y)
            y = self.feed_forward(layer, rms_norm(x, self.vector(f"{p}ffn_norm.weight"), self.eps))
            x = x + (rms_norm(y, self.vector(f"{p}post_ffw_norm.weight"), self.eps) if gemma else y)
        x = rms_norm(x, self.vector("output_norm.weight"), self.eps)
        logits = self.product("output" if "output.weight" in self.tensors else "token_embd", x)
        if gemma:
            cap = self.key("final_logit_softcapping")
            logits = cap * np.tanh(logits / cap)
        return logits

    def logits(self, ids):
        """Ids -> [len(ids), n_vocab]; refuses a file with a tensor that no formula has used."""
        out = self.run(ids, self.rotation(False))
        if "rope_factors_long.weight" in self.tensors and len(ids) > self.original():
            at = self.original()
            out[at:] = self.run(ids, self.rotation(True))[at:]
        left = sorted(set(self.tensors) - set(self.decoded))
        if left:
            raise SystemExit(f"dense: the file's tensor {left[0]} is not used here")
        return out
