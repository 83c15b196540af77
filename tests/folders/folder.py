"""Model folders in the manner of Hugging Face, made from tiny GGUF files for tests.

Owns: writing safetensors files, and the way back from GGUF's names, keys and layouts to those of transformers (what
llama.cpp's converter does, undone): q and k rows of `llama` un-permuted, Gemma's norms less 1. Does not own: the tiny
models themselves (tests/support/make_tiny), judging (test_folders.py).
"""
import json
import pathlib
import struct

import numpy as np
from gguf import GGUFReader

ARCHS = {
    "llama": "LlamaForCausalLM",
    "qwen2": "Qwen2ForCausalLM",
    "gemma3": "Gemma3ForCausalLM",
    "qwen3moe": "Qwen3MoeForCausalLM",
    "mixtral": "MixtralForCausalLM",
    "bert": "BertModel",
}
DTYPES = {"F32": "F32", "F16": "F16", "BF16": "BF16"}

NAMES = {
    "token_embd": "model.embed_tokens",
    "output_norm": "model.norm",
    "output": "lm_head",
    "attn_norm": "input_layernorm",
    "ffn_norm": "post_attention_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
GEMMA_NAMES = {
    "ffn_norm": "pre_feedforward_layernorm",
    "post_attention_norm": "post_attention_layernorm",
    "post_ffw_norm": "post_feedforward_layernorm",
}
BERT_NAMES = {
    "token_embd": "embeddings.word_embeddings",
    "position_embd": "embeddings.position_embeddings",
    "token_types": "embeddings.token_type_embeddings",
    "token_embd_norm": "embeddings.LayerNorm",
    "attn_q": "attention.self.query",
    "attn_k": "attention.self.key",
    "attn_v": "attention.self.value",
    "attn_output": "attention.output.dense",
    "attn_output_norm": "attention.output.LayerNorm",
    "ffn_up": "intermediate.dense",
    "ffn_down": "output.dense",
    "layer_output_norm": "output.LayerNorm",
}
EXPERTS = {
    "mixtral": ("block_sparse_moe", {"ffn_gate_exps": "w1", "ffn_up_exps": "w3", "ffn_down_exps": "w2"}),
    "qwen3moe": ("mlp", {"ffn_gate_exps": "gate_proj", "ffn_up_exps": "up_proj", "ffn_down_exps": "down_proj"}),
}


def write_safetensors(path, tensors, pad=8):
    """tensors: {name: (dtype, shape, bytes)}, in the order of their data."""
    header, at = {"__metadata__": {"format": "pt"}}, 0
    for name, (dtype, shape, data) in tensors.items():
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [at, at + len(data)]}
        at += len(data)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % pad)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text)
        for _, _, data in tensors.values():
            f.write(data)


def unpermute(data, n_head, rows, row_bytes):
    """Interleaved pairs of rows (2i, 2i + 1) of each head back to halves (i, i + d/2)."""
    w = np.frombuffer(data, np.uint8).reshape(n_head, rows // n_head // 2, 2, row_bytes)
    return w.transpose(0, 2, 1, 3).tobytes()


class Source:
    """A GGUF file of floats as transformers would have it."""

    def __init__(self, path):
        self.reader = GGUFReader(path)
        self.keys = {k: f.contents() for k, f in self.reader.fields.items()}
        self.arch = self.keys["general.architecture"]
        self.family = "mixtral" if self.arch == "llama" and f"{self.arch}.expert_count" in self.keys else self.arch

    def get(self, name, default=None):
        return self.keys.get(f"{self.arch}.{name}", default)

    def rename(self, name):
        base, suffix = name.rsplit(".", 1)
        layer = ""
        if base.startswith("blk."):
            _, number, base = base.split(".", 2)
            layer = f"{'encoder.layer' if self.arch == 'bert' else 'model.layers'}.{number}."
        names = BERT_NAMES if self.arch == "bert" else NAMES | (GEMMA_NAMES if self.arch == "gemma3" else {})
        if base == "ffn_gate_inp":
            return f"{layer}{EXPERTS[self.family][0]}.gate.{suffix}"
        return f"{layer}{names[base]}.{suffix}"

    def experts(self, tensor, shape, data):
        """One stacked tensor as one for each expert."""
        _, number, base, suffix = tensor.name.split(".")
        part, names = EXPERTS[self.family]
        size = len(data) // shape[0]
        for i in range(shape[0]):
            yield (f"model.layers.{number}.{part}.experts.{i}.{names[base]}.{suffix}", shape[1:],
                   data[i * size:(i + 1) * size])

    def tensors(self):
        out = {}
        for t in self.reader.tensors:
            dtype, shape = DTYPES[t.tensor_type.name], [int(n) for n in reversed(t.shape)]
            data = t.data.tobytes()
            if "_exps." in t.name:
                for name, each, part in self.experts(t, shape, data):
                    out[name] = (dtype, each, part)
                continue
            if self.arch == "llama" and t.name.split(".")[-2] in ("attn_q", "attn_k"):
                heads = self.get("attention.head_count" + ("_kv" if ".attn_k." in t.name else ""))
                data = unpermute(data, heads, shape[0], len(data) // shape[0])
            if self.arch == "gemma3" and "norm" in t.name:
                data = (np.frombuffer(data, np.float32) - np.float32(1)).tobytes()
            out[self.rename(t.name)] = (dtype, shape, data)
        return out

    def config(self):
        act = {"gemma3": "gelu_pytorch_tanh", "bert": "gelu"}.get(self.arch, "silu")
        c = {
            "architectures": [ARCHS[self.family]],
            "hidden_act": act,
            "num_hidden_layers": self.get("block_count"),
            "hidden_size": self.get("embedding_length"),
            "max_position_embeddings": self.get("context_length"),
            "intermediate_size": self.get("feed_forward_length"),
            "num_attention_heads": self.get("attention.head_count"),
            "vocab_size": len(self.keys["tokenizer.ggml.tokens"]),
        }
        if self.arch == "bert":
            return c | {"layer_norm_eps": self.get("attention.layer_norm_epsilon"), "type_vocab_size": 2,
                        "position_embedding_type": "absolute"}
        c |= {
            "num_key_value_heads": self.get("attention.head_count_kv"),
            "head_dim": self.get("attention.key_length"),
            "rms_norm_eps": self.get("attention.layer_norm_rms_epsilon"),
            "rope_theta": self.get("rope.freq_base"),
            "rope_scaling": None,
            "tie_word_embeddings": not any(t.name == "output.weight" for t in self.reader.tensors),
        }
        if self.arch == "gemma3":
            c |= {"sliding_window": self.get("attention.sliding_window"), "sliding_window_pattern": 6,
                  "query_pre_attn_scalar": self.get("attention.key_length"), "rope_local_base_freq": 10000.0}
        if self.family == "mixtral":
            c |= {"num_local_experts": self.get("expert_count"), "num_experts_per_tok": self.get("expert_used_count"),
                  "intermediate_size": self.get("feed_forward_length"), "sliding_window": None}
        if self.arch == "qwen3moe":
            c |= {"num_experts": self.get("expert_count"), "num_experts_per_tok": self.get("expert_used_count"),
                  "moe_intermediate_size": self.get("expert_feed_forward_length"), "norm_topk_prob": True,
                  "decoder_sparse_step": 1, "mlp_only_layers": []}
        return c

    # ---- the tokenizer ----

    def added(self):
        types, tokens = self.keys["tokenizer.ggml.token_type"], self.keys["tokenizer.ggml.tokens"]
        return [{"id": i, "content": t, "special": types[i] == 3, "normalized": False, "single_word": False,
                 "lstrip": False, "rstrip": False}
                for i, t in enumerate(tokens) if types[i] in (3, 4)]

    def tokenizer(self):
        tokens = self.keys["tokenizer.ggml.tokens"]
        ids = {t: i for i, t in enumerate(tokens)}
        if self.keys["tokenizer.ggml.model"] == "gpt2":
            return bpe_json(ids, self.keys["tokenizer.ggml.merges"], self.keys["tokenizer.ggml.pre"], self.added())
        return spm_json(ids, merges_of(tokens, self.keys["tokenizer.ggml.scores"]), self.added())


def merges_of(tokens, scores):
    """The merges that a SentencePiece vocabulary means: every way to make a token of two, by the token's score."""
    known, pairs = set(tokens), []
    for token, score in zip(tokens, scores):
        for cut in range(1, len(token)):
            if token[:cut] in known and token[cut:] in known:
                pairs.append((-score, token[:cut], token[cut:]))
    return [[a, b] for _, a, b in sorted(pairs, key=lambda p: p[0])]


def bpe_json(ids, merges, pre, added):
    pattern = {
        "qwen2": r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|"
                 r"\s+(?!\S)|\s+",
    }.get(pre)
    bytes_only = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": pattern is None}
    steps = [{"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}] if pattern \
        else [{"type": "Digits", "individual_digits": True}]
    return {
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": added,
        "normalizer": {"type": "NFC"} if pre == "qwen2" else None,
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": steps + [bytes_only]},
        "post_processor": None, "decoder": {"type": "ByteLevel"},
        "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
                  "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False, "ignore_merges": False,
                  "vocab": ids, "merges": merges},
    }


def spm_json(ids, merges, added):
    return {
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": added,
        "normalizer": {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"},
        "pre_tokenizer": {"type": "Split", "pattern": {"String": " "}, "behavior": "MergedWithPrevious",
                          "invert": False},
        "post_processor": None,
        "decoder": {"type": "Sequence", "decoders": [
            {"type": "Replace", "pattern": {"String": "\u2581"}, "content": " "}, {"type": "ByteFallback"},
            {"type": "Fuse"}]},
        "model": {"type": "BPE", "dropout": None, "unk_token": "<unk>", "continuing_subword_prefix": None,
                  "end_of_word_suffix": None, "fuse_unk": True, "byte_fallback": True, "ignore_merges": False,
                  "vocab": ids, "merges": merges},
    }


def make_folder(gguf_path, out, shards=1, pad=8, config=None, tokenizer=None):
    """The model of gguf_path as a folder; with shards > 1 an index and so many files."""
    source = Source(gguf_path)
    out = pathlib.Path(out)
    out.mkdir(parents=True, exist_ok=True)
    (out / "config.json").write_text(json.dumps(source.config() | (config or {})))
    (out / "tokenizer.json").write_text(json.dumps(tokenizer or source.tokenizer()))
    eos = source.keys["tokenizer.ggml.tokens"][source.keys["tokenizer.ggml.eos_token_id"]] \
        if "tokenizer.ggml.eos_token_id" in source.keys else None
    (out / "tokenizer_config.json").write_text(json.dumps({"eos_token": eos}))
    tensors = source.tensors()
    if shards == 1:
        write_safetensors(out / "model.safetensors", tensors, pad)
        return out
    names, weight_map = list(tensors), {}
    for i in range(shards):
        file = f"model-{i + 1:05d}-of-{shards:05d}.safetensors"
        mine = names[i::shards]
        weight_map |= dict.fromkeys(mine, file)
        write_safetensors(out / file, {n: tensors[n] for n in mine}, pad)
    (out / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": weight_map}))
    return out


if __name__ == "__main__":  # folder.py GGUF OUT [SHARDS]
    import sys
    make_folder(sys.argv[1], sys.argv[2], int(sys.argv[3]) if len(sys.argv) > 3 else 1)
