"""A tiny random BERT as a GGUF file, with the keys and tensors that llama.cpp's converter writes for BertModel.

    tiny_bert.py OUT [d_model n_head d_ff n_layer context]      defaults 48 3 96 2 128
"""
import string
import sys

import gguf
import numpy as np

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
WORDS = "the quick brown fox jumps over lazy dog token vector encode text embed ing ed s a model".split()


def vocabulary():
    """In GGUF's form: tokens that begin a word have U+2581 in front, those that continue one have nothing."""
    single = string.ascii_lowercase + string.digits + string.punctuation
    tails = [*string.ascii_lowercase, *string.digits, "ing", "ed", "er", "es"]
    return list(dict.fromkeys(SPECIAL + ["\u2581" + w for w in [*single, *WORDS]] + tails))


def write(path, d=48, n_head=3, d_ff=96, n_layer=2, context=128, seed=5):
    rng = np.random.default_rng(seed)
    w = gguf.GGUFWriter(path, "bert")
    w.add_name("Tiny BERT")
    w.add_block_count(n_layer)
    w.add_context_length(context)
    w.add_embedding_length(d)
    w.add_feed_forward_length(d_ff)
    w.add_head_count(n_head)
    w.add_layer_norm_eps(1e-12)
    w.add_causal_attention(False)
    w.add_pooling_type(gguf.PoolingType.MEAN)
    tokens = vocabulary()
    w.add_tokenizer_model("bert")
    w.add_tokenizer_pre("default")
    w.add_token_list(tokens)
    w.add_token_types([3 if t in SPECIAL else 1 for t in tokens])
    w.add_token_type_count(2)
    w.add_pad_token_id(0)
    w.add_unk_token_id(1)
    w.add_uint32("tokenizer.ggml.cls_token_id", 2)
    w.add_sep_token_id(3)
    w.add_mask_token_id(4)

    def matrix(name, rows, k, gain=1.0):
        w.add_tensor(f"{name}.weight", (rng.standard_normal((rows, k)) * gain / np.sqrt(k)).astype(np.float32))

    def vector(name, n, mean=0.0):
        w.add_tensor(name, (mean + 0.2 * rng.standard_normal(n)).astype(np.float32))

    def norm(name):
        vector(f"{name}.weight", d, 1.0)
        vector(f"{name}.bias", d)

    matrix("token_embd", len(tokens), d, 3)
    matrix("position_embd", context, d, 2)
    matrix("token_types", 2, d, 2)
    norm("token_embd_norm")
    for i in range(n_layer):
        for name, rows, k in (("attn_q", d, d), ("attn_k", d, d), ("attn_v", d, d), ("attn_output", d, d),
                              ("ffn_up", d_ff, d), ("ffn_down", d, d_ff)):
            matrix(f"blk.{i}.{name}", rows, k, 1.5)
            vector(f"blk.{i}.{name}.bias", rows)
        norm(f"blk.{i}.attn_output_norm")
        norm(f"blk.{i}.layer_output_norm")
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


if __name__ == "__main__":
    write(sys.argv[1], *map(int, sys.argv[2:]))
