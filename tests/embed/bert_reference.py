"""BERT in numpy float64, written from the paper (Devlin et al., arXiv:1810.04805) and the published configuration.

    x        = LN(word[id] + position[p] + type[0])
    a        = softmax(q k^T / sqrt(d_head)) v for each head, every position over every one; q, k, v = x W^T + b
    x        = LN(x + a W_o^T + b_o)                                  post-norm, as in arXiv:1706.03762, section 3.1
    x        = LN(x + gelu(x W_1^T + b_1) W_2^T + b_2),  gelu(x) = x/2 (1 + erf(x / sqrt 2))      arXiv:1606.08415
    LN(x)    = (x - mean) / sqrt(var + eps) * w + b                                               arXiv:1607.06450

Weights come as {name: array} under the names of published BERT checkpoints. Ids come from outside.
"""
import json
import math
import pathlib
import struct

import numpy as np

erf = np.vectorize(math.erf)
FLOATS = {"F32": np.float32, "F64": np.float64, "F16": np.float16}


def read_safetensors(path):
    data = pathlib.Path(path).read_bytes()
    (n,) = struct.unpack("<Q", data[:8])
    out = {}
    for name, t in json.loads(data[8:8 + n]).items():
        if name != "__metadata__" and t["dtype"] in FLOATS:
            begin, end = (8 + n + o for o in t["data_offsets"])
            out[name] = np.frombuffer(data[begin:end], FLOATS[t["dtype"]]).reshape(t["shape"]).astype(np.float64)
    return out


class Bert:
    def __init__(self, weights, n_layer, n_head, eps):
        self.w, self.n_layer, self.n_head, self.eps = weights, n_layer, n_head, eps

    @classmethod
    def open(cls, folder):
        folder = pathlib.Path(folder)
        c = json.loads((folder / "config.json").read_text())
        return cls(read_safetensors(folder / "model.safetensors"), c["num_hidden_layers"], c["num_attention_heads"],
                   c["layer_norm_eps"])

    def norm(self, x, name):
        centred = x - x.mean(-1, keepdims=True)
        var = (centred ** 2).mean(-1, keepdims=True)
        return centred / np.sqrt(var + self.eps) * self.w[name + ".weight"] + self.w[name + ".bias"]

    def linear(self, x, name):
        return x @ self.w[name + ".weight"].T + self.w[name + ".bias"]

    def hidden(self, ids):
        """[n × d]: the last layer's rows."""
        n = len(ids)
        x = self.norm(self.w["embeddings.word_embeddings.weight"][ids] +
                      self.w["embeddings.position_embeddings.weight"][:n] +
                      self.w["embeddings.token_type_embeddings.weight"][0], "embeddings.LayerNorm")
        for i in range(self.n_layer):
            at = f"encoder.layer.{i}."
            q, k, v = (self.linear(x, f"{at}attention.self.{p}").reshape(n, self.n_head, -1).transpose(1, 0, 2)
                       for p in ("query", "key", "value"))
            scores = q @ k.transpose(0, 2, 1) / math.sqrt(q.shape[-1])
            p = np.exp(scores - scores.max(-1, keepdims=True))
            p /= p.sum(-1, keepdims=True)
            a = (p @ v).transpose(1, 0, 2).reshape(n, -1)
            x = self.norm(x + self.linear(a, at + "attention.output.dense"), at + "attention.output.LayerNorm")
            h = self.linear(x, at + "intermediate.dense")
            h = h / 2 * (1 + erf(h / math.sqrt(2)))
            x = self.norm(x + self.linear(h, at + "output.dense"), at + "output.LayerNorm")
        return x


def pool(rows, how):
    return {"mean": rows.mean(0), "cls": rows[0], "last": rows[-1]}[how]


def cosine(a, b):
    return float(a @ b / math.sqrt((a @ a) * (b @ b)))
