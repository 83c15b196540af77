"""The float64 forward pass of mixtures of experts, in numpy over the dequantised weights of a GGUF file.

Owns: the truth for `llama` with experts (Mixtral), `qwen3moe` and `gpt-oss`, written from the papers and the
models' published configurations, not from the engine. Norms, softmax and formats are those of reference.py.
Does not own: judging (check_experts.py).

    Mixtral     arXiv:2401.04088, sec. 2.1: G(x) = softmax(top-k(x W_g)), y = sum_i G(x)_i SwiGLU_i(x)
    qwen3moe    arXiv:2505.09388, sec. 2; configuration: softmax over all experts, the k largest, divided by
                their sum (norm_topk_prob); RMSNorm of each q and k head before RoPE on half pairs
    gpt-oss     arXiv:2508.10925, sec. 2, and configuration: router, q, k, v, o and experts with biases;
                softmax over the k largest router logits; an expert is
                    g = min(gate, 7), u = clamp(up, -7, 7), down(g sigmoid(1.702 g) (u + 1)) + b;
                layers 0, 2, 4, ... are local (a position sees itself and the window - 1 before it); each head
                has a sink s: softmax over [scores, s], the last column dropped; RoPE by YaRN

    YaRN        arXiv:2309.00071, sec. 3: frequency i is f_i = theta^(-2i/d) where its wavelength fits the
                trained length beta_fast times, f_i / factor where it fits less than beta_slow times, between
                them a ramp linear in i; cos and sin times 0.1 ln(factor) + 1. gpt-oss does not round the
                ends of the ramp to whole i (`truncate: false`).
"""
import numpy as np

from reference import log_softmax, rms_norm, silu
from weights import Weights

ARCHS = ("llama", "qwen3moe", "gpt-oss")
ALPHA, LIMIT = 1.702, 7.0


class Experts(Weights):
    LAW = "experts"

    def __init__(self, path, act="float"):
        super().__init__(path, act)
        if self.arch not in ARCHS or not self.key("expert_count", 0):
            raise SystemExit(f"experts: {path}: architecture {self.arch}, {self.key('expert_count', 0)} experts "
                             f"(expected one of {', '.join(ARCHS)} with experts)")
        self.n_layer = self.key("block_count")
        self.n_head = self.key("attention.head_count")
        self.n_head_kv = self.key("attention.head_count_kv", self.n_head)
        self.d_head = self.key("attention.key_length", self.key("embedding_length") // self.n_head)
        self.eps = float(np.float32(self.key("attention.layer_norm_rms_epsilon")))
        self.n_expert = self.key("expert_count")
        self.n_used = self.key("expert_used_count")
        self.frequencies, self.concentration = self.rotation()

    # ---- weights -----------------------------------------------------------------------------------

    def expert_product(self, layer, part, e, x):
        single = f"blk.{layer}.{part}.{e}.weight"
        if single in self.tensors:
            w, kind = self.weight(single)
        else:
            w, kind = self.weight(f"blk.{layer}.{part}_exps.weight")
            w = w[e]
        y = self.rounded(x, kind) @ w.T
        bias = f"blk.{layer}.{part}_exps.bias"
        return y + self.weight(bias)[0][e] if bias in self.tensors else y

    # ---- attention ---------------------------------------------------------------------------------

    def rotation(self):
        """(frequency of each pair, what cos and sin are multiplied by)."""
        d = self.key("rope.dimension_count", self.d_head)
        theta = float(self.key("rope.freq_base", 10000.0))
        i = np.arange(d // 2)
        f = theta ** (-2.0 * i / d)
        kind = self.key("rope.scaling.type", "none")
        if kind == "none":
            return f, 1.0
        if kind != "yarn" or self.arch != "gpt-oss":
            raise SystemExit(f"experts: rope.scaling.type {kind} is not implemented for {self.arch}")
        factor = float(self.key("rope.scaling.factor"))
        trained = self.key("rope.scaling.original_context_length")

        def turns_at(beta):  # the i whose wavelength fits the trained length beta times
            return d / 2 * np.log(trained / (beta * 2 * np.pi)) / np.log(theta)

        fast = turns_at(self.key("rope.scaling.yarn_beta_fast", 32.0))
        slow = turns_at(self.key("rope.scaling.yarn_beta_slow", 1.0))
        share = np.clip((i - fast) / (slow - fast), 0.0, 1.0)  # of the interpolated frequency
        return f * (1.0 - share) + f / factor * share, 0.1 * np.log(factor) + 1.0

    def rotate(self, x):
        """x [n, heads, d]; row i is position i."""
        half = len(self.frequencies)
        angle = np.arange(x.shape[0])[:, None] * self.frequencies[None, :]
        cos = self.concentration * np.cos(angle)[:, None, :]
        sin = self.concentration * np.sin(angle)[:, None, :]
        interleaved = self.arch == "llama"
        first = slice(0, 2 * half, 2) if interleaved else slice(0, half)
        second = slice(1, 2 * half, 2) if interleaved else slice(half, 2 * half)
        y = x.copy()
        y[..., first] = x[..., first] * cos - x[..., second] * sin
        y[..., second] = x[..., first] * sin + x[..., second] * cos
        return y

    def attend(self, layer, x):
        p = f"blk.{layer}."
        n = x.shape[0]
        q, k, v = (self.product(f"{p}attn_{i}", x) for i in "qkv")
        q = q.reshape(n, self.n_head, -1)
        k = k.reshape(n, self.n_head_kv, -1)
        v = v.reshape(n, self.n_head_kv, -1)
        if self.arch == "qwen3moe":
            q = rms_norm(q, self.vector(f"{p}attn_q_norm.weight"), self.eps)
            k = rms_norm(k, self.vector(f"{p}attn_k_norm.weight"), self.eps)
        q, k = self.rotate(q), self.rotate(k)
        distance = np.arange(n)[:, None] - np.arange(n)[None, :]
        hidden = distance < 0
        if self.arch == "gpt-oss" and layer % 2 == 0:
            hidden = hidden | (distance >= self.key("attention.sliding_window"))
        sinks = self.vector(f"{p}attn_sinks.weight") if self.arch == "gpt-oss" else None
        out = np.empty((n, self.n_head, v.shape[2]))
        for h in range(self.n_head):
            g = h // (self.n_head // self.n_head_kv)
            s = np.where(hidden, -np.inf, q[:, h] @ k[:, g].T / np.sqrt(self.d_head))
            if sinks is not None:
                s = np.concatenate([s, np.full((n, 1), sinks[h])], axis=1)
            s = np.exp(log_softmax(s))[:, :n]
            out[:, h] = s @ v[:, g]
        return self.product(f"{p}attn_output", out.reshape(n, -1))

    # ---- experts -----------------------------------------------------------------------------------

    def expert(self, layer, e, x):
        gate, up = (self.expert_product(layer, part, e, x) for part in ("ffn_gate", "ffn_up"))
        if self.arch == "gpt-oss":
            gate = np.minimum(gate, LIMIT)
            hidden = gate / (1.0 + np.exp(-ALPHA * gate)) * (np.clip(up, -LIMIT, LIMIT) + 1.0)
        else:
            hidden = silu(gate) * up
        return self.expert_product(layer, "ffn_down", e, hidden)

    def gates(self, logits):
        """[n, n_expert] -> the weight of each expert, zero where it is not used."""
        chosen = np.zeros(logits.shape, dtype=bool)
        order = np.argsort(-logits, axis=1, kind="stable")  # of equal ones the lower id first
        np.put_along_axis(chosen, order[:, :self.n_used], True, axis=1)
        if self.arch != "qwen3moe":
            return np.exp(log_softmax(np.where(chosen, logits, -np.inf)))
        p = np.where(chosen, np.exp(log_softmax(logits.copy())), 0.0)
        return p / p.sum(axis=1, keepdims=True) if self.key("expert_weights_norm", True) else p

    def feed_forward(self, layer, x):
        gates = self.gates(self.product(f"blk.{layer}.ffn_gate_inp", x))
        y = np.zeros_like(x)
        for e in range(self.n_expert):
            rows = np.flatnonzero(gates[:, e])
            if len(rows):
                y[rows] += gates[rows, e][:, None] * self.expert(layer, e, x[rows])
        return y

    # ---- all of it ---------------------------------------------------------------------------------

    def log_probs(self, ids):
        """Ids -> log p [len(ids), n_vocab]; refuses a file with a tensor that no formula has used."""
        embd, _ = self.weight("token_embd.weight")
        x = embd[np.asarray(ids)]
        norm = "post_attention_norm" if self.arch == "gpt-oss" else "ffn_norm"
        for layer in range(self.n_layer):
            p = f"blk.{layer}."
            x = x + self.attend(layer, rms_norm(x, self.vector(f"{p}attn_norm.weight"), self.eps))
            x = x + self.feed_forward(layer, rms_norm(x, self.vector(f"{p}{norm}.weight"), self.eps))
        x = rms_norm(x, self.vector("output_norm.weight"), self.eps)
        logits = self.product("output" if "output.weight" in self.tensors else "token_embd", x)
        left = sorted(set(self.tensors) - set(self.decoded))
        if left:
            raise SystemExit(f"experts: the file's tensor {left[0]} is not used here")
        return log_softmax(logits)
