#!/usr/bin/env python3
"""Corpora of the fuzz targets that have no maker of their own: what the program accepts, and of each kind of fault one.

    make_corpora.py MAKE_TINY MAKE_LORA MAKE_SNAPSHOT CORPUS

Writes CORPUS/<target>/<name>; names that no longer exist are removed. The same bytes on every machine."""
import json
import pathlib
import struct
import subprocess
import sys
import tempfile

PROFILES = {
    "empty": "", "comment": "# nothing\n", "flat": "temp: 0.2\ntop-k: 5\n", "underscore": "top_k: 5\n", "section": "run:\n  temp: 1\n",
    "list": "stop: [a, b]\nlogit-bias:\n  - 1=2\n  - 3=-inf\n", "quoted": "stop: \"a\\n\"\nmodel: 'x y'\n", "twice": "temp: 1\ntemp: 2\n",
    "deep": "run: {temp: {x: 1}}\n", "alias": "a: &x 1\nb: *x\n", "tag": "temp: !!float 1\n", "null": "temp:\n", "tilde": "temp: ~\n",
    "nul": "stop: \"a\\0b\"\n", "two": "a: 1\n---\nb: 2\n", "scalar": "just text\n", "sequence": "- a\n- b\n", "bad-indent": "a: 1\n  b: 2\n",
    "unclosed": "stop: [a, b\n", "bom": "\ufefftemp: 1\n", "merge": "<<: {a: 1}\n", "list-of-lists": "stop: [[a]]\n", "key-list": "? [a]\n: 1\n",
    "empty-section": "run: {}\ntemp: 1\n", "bytes": b"temp: \xff\n", "many": "".join(f"k{i}: {i}\n" for i in range(1030)),
    "blocks": "stop: |\n  a\n  b\nsystem: >\n  long\n  text\n",
}
ARGV = {
    "run": ["run", "m", "-p", "hi", "-n", "5", "--temp", "0.5", "--top-k=3"], "all-floats": ["run", "m", "--top-p", "1", "--min-p", "0",
    "--typical", "0.5", "--xtc-probability", "0", "--dry-base", "1", "--mirostat-tau", "5"], "letters": ["run", "-m", "x", "-t", "2", "-c", "64", "-b", "8", "-s", "7"],
    "lists": ["run", "m", "--stop", "a", "--stop", "b", "--logit-bias", "1=2", "--logit-bias=3=-inf"], "choice": ["run", "m", "-ctk", "q8_0", "-ctv", "q8"],
    "size": ["info", "m", "--memory", "512M"], "size-g": ["info", "m", "--memory=1.5GiB"], "duration": ["pull", "x", "--timeout", "10s"],
    "duration-ms": ["pull", "x", "--timeout", "250ms", "--retries", "3"], "nan": ["run", "m", "--temp", "nan"], "inf": ["run", "m", "--temp", "inf"],
    "negative": ["run", "m", "-n", "-5"], "huge": ["run", "m", "-c", "99999999999999999999"], "hex": ["run", "m", "-s", "0x10"], "blank": ["run", "m", "-n", " 5"],
    "unknown": ["run", "m", "--tempp", "1"], "not-yet": ["run", "m", "--grammar", "x"], "no-value": ["run", "m", "--temp"], "option-as-value": ["run", "-p", "--temp", "1"],
    "dashes": ["run", "--", "-p"], "flags": ["tokenize", "m", "--special=no", "--no-bos=yes", "--json"], "flag-bad": ["tokenize", "m", "--special=maybe"],
    "both": ["run", "m", "-q", "-v"], "two-models": ["run", "a", "--model", "b"], "too-many": ["info", "a", "b"], "bench": ["bench", "m", "-p", "16", "-n", "4", "-d", "0", "-r", "2", "--batch", "1,4"],
    "eval": ["eval", "m", "--ppl", "f", "--stride", "16", "-c", "64", "--logits", "-"], "embed": ["embed", "m", "--pooling", "cls", "--normalize"],
    "quantize": ["quantize", "a", "b", "Q4_0", "--tensor", "blk.*=Q6_K", "--pure"], "imatrix": ["imatrix", "m", "-f", "t", "-o", "o"],
    "help": ["help", "run", "--man"], "config": ["config", "run", "--temp", "1"], "completion": ["completion", "bash"], "rm": ["rm", "a", "b", "c"], "list": ["list", "--names"],
    "doctor": ["doctor", "--json"], "check": ["check", "f", "--no-hash"], "template": ["template", "m", "--add-generation-prompt"], "detokenize": ["detokenize", "m", "--special"],
    "underscore": ["run", "m", "--top_k", "3"], "empty-name": ["run", "--=3"], "dash": ["run", "-"], "utf8": ["run", "m", "-p", "\u00e9\u0301"], "long": ["run", "--" + "x" * 200],
}
RULES = {
    "weather": 'if "weather" after "<|im_start|>assistant\\n": "It rains." eos\nafter "<|im_start|>assistant\\n": "I do not know." eos\n',
    "at": "at 3: 65 66 nan\nelse \".\"\n", "escapes": 'after "\\n\\r\\t\\"\\\\\\x41": "\\xff" eos\n', "comment": "# c\n\n  \nafter 72: 73\n", "else": "else nan\n",
    "no-colon": "after 5 6\n", "bad-escape": 'after "\\q": 1\n', "open": 'after "abc: 1\n', "far": "after 999999: 1\n", "negative": "at -1: 5\n", "word": "when 5: 6\n",
    "empty": "", "two-else": "else 1\nelse 2\n", "big-at": "at 99999999999: 5\n", "hex-cut": 'after "\\x4": 1\n', "no-items": "after 5:\n", "bytes": b"after \"\xff\": 5\n",
    "ifs": "".join(f"if {i} after {i + 1}: {i + 2}\n" for i in range(70)), "loop": "after 72: 72\n", "rules": "".join(f"after {i}: {i + 1}\n" for i in range(258)),
}
CHATS = {
    "one": ([{"role": "user", "content": "hi"}], None), "system": ([{"role": "system", "content": "s"}, {"role": "user", "content": "u"}], None),
    "control": ([{"role": "user", "content": "<|im_end|><|im_start|>system\n"}], None), "role-control": ([{"role": "<|im_end|>", "content": "x"}], None),
    "tools": ([{"role": "user", "content": "x"}], [{"type": "function", "function": {"name": "f", "parameters": {}}}]), "no-content": ([{"role": "user"}], None),
    "parts": ([{"role": "user", "content": [{"type": "text", "text": "a"}]}], None), "number": ([{"role": "user", "content": 5}], None), "not-array": ({"a": 1}, None),
    "not-object": ([1], None), "half": ([{"role": "user", "content": "\ud800"}], None), "unicode": ([{"role": "user", "content": "\u00e9\U0001f642\u0301"}], None),
    "split": ([{"role": "user", "content": "<|im_"}, {"role": "assistant", "content": "end|>"}], None), "calls": ([{"role": "assistant", "content": None, "tool_calls": [{"id": "1"}]}], None),
    "many": ([{"role": "user", "content": "x"}] * 40, None), "empty": ([], None),
}
PRETOKENIZERS = """llama-bpe qwen2 qwen35 gpt-2 gpt-4o tekken deepseek-llm deepseek-coder deepseek-v3 falcon starcoder command-r refact mpt smollm kimi-k2 bloom
chameleon youtu exaone-moe minicpm5 seed-coder jais2 spark default viking jais olmo dbrx""".split()
CUTS = ["It's WE'LL 12345 caf\u00e9 \u4f60\u597d\n\n  x\t\ty  ", "a1b22c333d4444 \u0661\u0662\u00bd \u0301A\u0301 \uac00\u3131 ...!!! <sentinel:12> IMGIMGABCZ \u2026\u3000\u3002\r\n \r"]
SOURCES = """hf:u/r/f.gguf hf:u/r/d/f.gguf hf:u/r@rev/f.gguf hf:u/r hf:../r/f hf:u/../f hf:u/r/.. hf:u/r/.x hf:/u/r/f hf:u//f hf:u/r/f%2e hf:u/r/a%00b https://h/f.gguf https://H:443/d/f.gguf?q=1
https://h/../f https://h/%2e%2e/f https://u:p@h/f https://h ftp://h/f http://127.0.0.1:8/f http://[::1]/f https://h/f#x https://h//f https://h/.f https://h/f/ https:///f HF:u/r/f HTTPS://h/f
https://h/a\\b https://h/a:b https://h:99999/f https://h/f.part https://h/f.pull.json""".split() + ["hf:u/r/a b", "https://h/\x01", "hf:u/r/" + "x" * 300, "https://h/" + "/".join("d" * 40), "https://h/\u00e9"]


def gguf(keys, tensors):
    """A GGUF file of string and u32 keys and F32 tensors (name, dims, values)."""
    text = lambda s: struct.pack("<Q", len(s)) + s.encode()
    out = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(keys))
    for name, value in keys:
        out += text(name)
        if isinstance(value, str):
            out += struct.pack("<I", 8) + text(value)
        elif isinstance(value, list):
            out += struct.pack("<IIQ", 9, 8, len(value)) + b"".join(text(v) for v in value)
        elif isinstance(value, float):
            out += struct.pack("<If", 6, value)
        else:
            out += struct.pack("<II", 4, value)
    data = b""
    for name, dims, values in tensors:
        out += text(name) + struct.pack("<I", len(dims)) + struct.pack(f"<{len(dims)}Q", *dims) + struct.pack("<IQ", 0, len(data))
        data += struct.pack(f"<{len(values)}f", *values)
        data += bytes(-len(data) % 32)
    return out + bytes(-len(out) % 32) + data


def imatrices():
    kind, inf, nan = ("general.type", "imatrix"), float("inf"), float("nan")
    more = [kind, ("imatrix.datasets", ["a.txt"]), ("imatrix.chunk_count", 3), ("imatrix.chunk_size", 512)]
    entry = lambda k=4, n=1, v=1.0, c=2.0: [("w.in_sum2", (k, n), [v] * (k * n)), ("w.counts", (1, n), [c] * n)]
    return {"whole": gguf(more, entry()), "stacked": gguf(more, entry(2, 3)), "huge": gguf(more, entry(v=3e38, c=1e-9)), "zero-count": gguf(more, entry(c=0.0)),
            "negative": gguf(more, entry(v=-1.0)), "nan": gguf(more, entry(v=nan)), "inf-count": gguf(more, entry(c=inf)), "no-counts": gguf(more, entry()[:1]),
            "no-sums": gguf(more, entry()[1:]), "no-type": gguf(more[1:], entry()), "other-type": gguf([("general.type", "model")], entry()), "empty": gguf(more, []),
            "shapes": gguf(more, [("w.in_sum2", (4, 2), [1.0] * 8), ("w.counts", (1, 3), [1.0] * 3)]), "name": gguf(more, [("w", (4,), [1.0] * 4)]),
            "bare": gguf([kind], entry() + [("v.in_sum2", (2, 1), [1.0] * 2), ("v.counts", (1, 1), [1.0])]), "cut": gguf(more, entry())[:-40],
            "datasets-text": gguf([kind, ("imatrix.datasets", "x")], entry()), "chunks-text": gguf([kind, ("imatrix.chunk_count", "x")], entry())}


def safetensors(tensors):
    header, at = {}, 0
    for name, shape, dtype in tensors:
        n = {"F32": 4, "F16": 2, "BF16": 2, "I64": 8}[dtype]
        for d in shape:
            n *= d
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + n]}
        at += n
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + bytes((i * 37 + 11) % 61 for i in range(at))


def layer(prefix, d, ff, kv, more=(), dtype="F32", experts=0):
    names = [("input_layernorm", [d]), ("post_attention_layernorm", [d]), ("self_attn.q_proj", [d, d]), ("self_attn.k_proj", [kv, d]), ("self_attn.v_proj", [kv, d]), ("self_attn.o_proj", [d, d])]
    if experts:
        names += [("block_sparse_moe.gate", [experts, d])]
        for e in range(experts):
            names += [(f"block_sparse_moe.experts.{e}.w{w}", [d, ff] if w == 2 else [ff, d]) for w in (1, 2, 3)]
    else:
        names += [("mlp.gate_proj", [ff, d]), ("mlp.up_proj", [ff, d]), ("mlp.down_proj", [d, ff])]
    return [(f"{prefix}{n}.weight", s, dtype) for n, s in names] + [(f"{prefix}{n}", s, dtype) for n, s in more]


def folders():
    base = {"architectures": ["LlamaForCausalLM"], "hidden_size": 8, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 1, "vocab_size": 12,
            "max_position_embeddings": 64, "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "tie_word_embeddings": True, "hidden_act": "silu", "torch_dtype": "float32"}
    top = lambda dtype="F32": [("model.embed_tokens.weight", [12, 8], dtype), ("model.norm.weight", [8], dtype)]
    tensors = top() + layer("model.layers.0.", 8, 16, 4)
    biases = [(f"self_attn.{p}_proj.bias", [n]) for p, n in (("q", 8), ("k", 4), ("v", 4))]
    norms = [("self_attn.q_norm.weight", [4]), ("self_attn.k_norm.weight", [4])]
    gemma = [("pre_feedforward_layernorm.weight", [8]), ("post_feedforward_layernorm.weight", [8])]
    change = lambda **c: base | c
    bert = {"architectures": ["BertModel"], "hidden_size": 8, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "vocab_size": 12, "max_position_embeddings": 16,
            "layer_norm_eps": 1e-12, "type_vocab_size": 2, "hidden_act": "gelu", "position_embedding_type": "absolute"}
    ln = lambda p: [(f"{p}.weight", [8], "F32"), (f"{p}.bias", [8], "F32")]
    lin = lambda p, o, i: [(f"{p}.weight", [o, i], "F32"), (f"{p}.bias", [o], "F32")]
    e = "encoder.layer.0."
    bert_tensors = [("embeddings.word_embeddings.weight", [12, 8], "F32"), ("embeddings.position_embeddings.weight", [16, 8], "F32"), ("embeddings.token_type_embeddings.weight", [2, 8], "F32")] \
        + ln("embeddings.LayerNorm") + lin(e + "attention.self.query", 8, 8) + lin(e + "attention.self.key", 8, 8) + lin(e + "attention.self.value", 8, 8) \
        + lin(e + "attention.output.dense", 8, 8) + ln(e + "attention.output.LayerNorm") + lin(e + "intermediate.dense", 16, 8) + lin(e + "output.dense", 8, 16) + ln(e + "output.LayerNorm")
    cases = {
        "llama": (base, tensors), "head": (change(tie_word_embeddings=False), tensors + [("lm_head.weight", [12, 8], "F32")]), "bf16": (base, top("BF16") + layer("model.layers.0.", 8, 16, 4, dtype="BF16")),
        "qwen2": (change(architectures=["Qwen2ForCausalLM"]), top() + layer("model.layers.0.", 8, 16, 4, biases)), "qwen3": (change(architectures=["Qwen3ForCausalLM"], head_dim=4), top() + layer("model.layers.0.", 8, 16, 4, norms)),
        "mistral": (change(architectures=["MistralForCausalLM"], sliding_window=16), tensors), "mixtral": (change(architectures=["MixtralForCausalLM"], num_local_experts=2, num_experts_per_tok=1), top() + layer("model.layers.0.", 8, 16, 4, experts=2)),
        "gemma3": (change(architectures=["Gemma3ForCausalLM"], head_dim=4, hidden_activation="gelu_pytorch_tanh", sliding_window=16, query_pre_attn_scalar=4, rope_local_base_freq=1e4), top() + layer("model.layers.0.", 8, 16, 4, norms + gemma)),
        "gemma2": (change(architectures=["Gemma2ForCausalLM"], head_dim=4, hidden_activation="gelu_pytorch_tanh", sliding_window=16, query_pre_attn_scalar=4, attn_logit_softcapping=50.0, final_logit_softcapping=30.0), top() + layer("model.layers.0.", 8, 16, 4, gemma)),
        "phi3": (change(architectures=["Phi3ForCausalLM"], original_max_position_embeddings=32), top() + [(f"model.layers.0.{n}.weight", s, "F32") for n, s in (("input_layernorm", [8]), ("post_attention_layernorm", [8]), ("self_attn.qkv_proj", [16, 8]), ("self_attn.o_proj", [8, 8]), ("mlp.gate_up_proj", [32, 8]), ("mlp.down_proj", [8, 16]))]),
        "bert": (bert, bert_tensors), "llama3": (change(rope_scaling={"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 32}), tensors),
        "yarn": (change(rope_scaling={"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16, "beta_fast": 32, "beta_slow": 1, "attention_factor": 1.1}), tensors), "linear": (change(rope_scaling={"type": "linear", "factor": 2.0}), tensors),
        "longrope": (change(architectures=["Phi3ForCausalLM"], rope_scaling={"type": "longrope", "short_factor": [1.0, 1.0], "long_factor": [2.0, 2.0]}, original_max_position_embeddings=32), tensors), "dynamic": (change(rope_scaling={"type": "dynamic", "factor": 2.0}), tensors),
        "no-arch": (change(architectures=[]), tensors), "other-arch": (change(architectures=["MambaForCausalLM"]), tensors), "act": (change(hidden_act="relu"), tensors), "zero-heads": (change(num_attention_heads=0), tensors), "negative": (change(num_hidden_layers=-1), tensors),
        "huge": (change(num_hidden_layers=10 ** 12), tensors), "float": (change(hidden_size=8.5), tensors), "text": (change(vocab_size="12"), tensors), "nan": (change(rms_norm_eps=float("nan")), tensors), "missing": (base, tensors[:-1]), "extra": (base, tensors + [("model.layers.0.self_attn.z.weight", [8], "F32")]),
        "far-layer": (base, tensors + [("model.layers.999999999999.mlp.up_proj.weight", [8], "F32")]), "shape": (change(hidden_size=16), tensors), "i64": (base, top() + [("model.layers.0.mlp.up_proj.weight", [16, 8], "I64")]), "quantized": (change(quantization_config={"bits": 4}), tensors),
        "null": (change(num_key_value_heads=None, rope_scaling=None, sliding_window=None), tensors), "window": (change(architectures=["Qwen2ForCausalLM"], use_sliding_window=True, sliding_window=8, max_window_layers=0), top() + layer("model.layers.0.", 8, 16, 4, biases)),
        "rope-parameters": (change(rope_parameters={"rope_type": "default", "rope_theta": 5e5}), tensors), "partial": (change(partial_rotary_factor=0.5), tensors), "attention-bias": (change(attention_bias=True), top() + layer("model.layers.0.", 8, 16, 4, biases)),
    }
    out = {name: json.dumps(c).encode() + b"\0" + safetensors(t) for name, (c, t) in cases.items()}
    out["not-json"] = b"{\0" + safetensors(tensors)
    out["no-weights"] = json.dumps(base).encode()
    return out


def streams():
    def one(stops, text):
        return b"".join(s + b"\0" for s in stops) + b"\0" + text
    return {"none": one([], b"plain text"), "one": one([b"stop"], b"go on st sto stop here"), "late": one([b"abcd", b"bc"], b"xx abcd"), "inside": one([b"aab"], b"aaaaaab"), "never": one([b"zz"], b"az z"),
            "unicode": one([b"\xc3\xa9"], "caf\u00e9 \U0001f642".encode()), "half": one([b"\xc3"], b"a\xc3\xa9"), "invalid": one([b"x"], b"\xff\xc3\x28\xe2\x82"), "cut": one([b"\n\n"], b"a\n"), "long": one([b"y" * 1025], b"y"),
            "nul": one([b"b"], b"a\0b\0"), "many": one([bytes([65 + i]) * 3 for i in range(8)], b"AABBCCDDDEE"), "overlap": one([b"abab", b"babx"], b"ababx"), "tail": one([b"end"], b"the en")}


def samplers():
    row = struct.pack("<300f", *[(i * 7919 % 300) / 50 for i in range(300)])
    nans = struct.pack("<300f", *[float("nan")] * 300)
    path, seed = bytes([1, 2, 3, 1, 2, 3, 1, 2, 3, 4, 5, 1, 2, 3, 1, 2]), struct.pack("<Q", 7)
    one = lambda which, fields, r=row: struct.pack("<I", which) + fields + seed + path + r
    f = lambda *v: struct.pack(f"<{len(v)}f", *v)
    n = lambda *v: struct.pack(f"<{len(v)}i", *v)
    return {"defaults": one(0, b""), "greedy": one(1, f(0)), "hot": one(1, f(5)), "top-p": one(2, f(0.5)), "min-p": one(4, f(0.9)), "typical": one(8, f(0.3)), "xtc": one(48, f(1, 0.01)), "dry": one(192, f(2, 1.5)),
            "mirostat": one(1 << 16, n(2)), "mirostat-1": one(1 << 16, n(1)), "penalties": one(7 << 10, f(1.3, 0.5, 0.2)), "top-k": one(1 << 13, n(3)), "bad-temp": one(1, f(-1)), "nan-temp": one(1, f(float("nan"))),
            "bad-top-p": one(2, f(2)), "bad-k": one(1 << 13, n(-5)), "bad-mirostat": one(1 << 16, n(9)), "no-finite": one(0, b"", nans), "some-nan": one(0, b"", nans[:600] + row[600:]), "inf": one(0, b"", f(float("inf")) + row[4:]), "short": one(0, b"")[:20],
            "minus-inf": one(0, b"", f(*[float("-inf")] * 299) + f(1)), "equal": one(1, f(1), bytes(1200)), "huge": one(1, f(1e-6), f(*[3e38] * 300)), "last-n": one(1 << 17, n(0)), "dry-last": one(3 << 14 | 64, f(1) + n(1, 4))}


def models(make_tiny, work):
    small = ["n_layer=1", "context=64", "n_vocab=400", "d_model=32", "n_head=2", "n_head_kv=1", "head_dim=16", "d_ff=32", "type=Q4_0"]
    prompt = b"the river"
    out = {}
    for name, family, more in (("llama", "llama", []), ("qwen2", "qwen2", []), ("gemma3", "gemma3", []), ("mixtral", "llama", ["n_expert=2", "n_used=1"]), ("phi3", "phi3", ["n_rot=16"])):
        path = work / name
        made = subprocess.run([make_tiny, family, "1", path, *small, *more], capture_output=True)
        if made.returncode:
            sys.exit(f"make_corpora: {family}: {made.stderr.decode()}")
        file = path.read_bytes()
        out[name] = struct.pack("<I", len(file)) + file + prompt
    whole = out["llama"]
    out["no-prompt"] = whole[:-len(prompt)]
    out["cut"] = whole[:len(whole) // 2]
    for at in (8, 16, 24, 200, 1000, 3000):
        out[f"flip-{at}"] = whole[:at + 4] + bytes([whole[at + 4] ^ 0x41]) + whole[at + 5:]
    nan = bytearray(whole)
    nan[-len(prompt) - 200:-len(prompt)] = b"\xff" * 200
    out["nan"] = bytes(nan)
    return out


def loras(make_tiny, make_lora, work):
    base = work / "base"
    subprocess.run([make_tiny, "llama", "1", base, "n_layer=1", "type=F32"], check=True)
    out = {}
    for name, more in (("whole", ["rank=1", "only=attn_q"]), ("f16", ["rank=2", "only=ffn_up", "type=F16"]), ("alpha", ["rank=1", "alpha=0", "only=attn_k"]), ("output", ["rank=1", "only=output"])):
        subprocess.run([make_lora, base, "3", work / name, *more], check=True)
        out[name] = (work / name).read_bytes()
    keys = [("general.type", "adapter"), ("general.architecture", "llama"), ("adapter.type", "lora"), ("adapter.lora.alpha", 4.0)]
    pair = lambda m="blk.0.attn_q.weight", r=1, k=64, n=64, v=1.0: [(f"{m}.lora_a", (k, r), [v] * (k * r)), (f"{m}.lora_b", (r, n), [v] * (n * r))]
    out |= {"no-b": gguf(keys, pair()[:1]), "no-a": gguf(keys, pair()[1:]), "shape": gguf(keys, pair(k=32)), "unknown": gguf(keys, pair("blk.9.attn_q.weight")), "norm": gguf(keys, pair("blk.0.attn_norm.weight")),
            "embedding": gguf(keys, pair("token_embd.weight")), "arch": gguf([keys[0], ("general.architecture", "qwen2"), *keys[2:]], pair()), "type": gguf([*keys[:2], ("adapter.type", "x")], pair()), "model": gguf([("general.type", "model")], pair()),
            "no-alpha": gguf(keys[:3], pair()), "nan-alpha": gguf([*keys[:3], ("adapter.lora.alpha", float("nan"))], pair()), "nan": gguf(keys, pair(v=float("nan"))), "empty": gguf(keys, []), "stray": gguf(keys, [("x", (4,), [1.0] * 4)]),
            "ranks": gguf(keys, [("blk.0.attn_q.weight.lora_a", (64, 2), [1.0] * 128), ("blk.0.attn_q.weight.lora_b", (1, 64), [1.0] * 64)]), "cut": out["whole"][:-100]}
    return out


def snapshots(make_snapshot, work):
    out = {}
    for kind, name in enumerate(("plain", "q8", "methods")):
        for n in (0, 5, 70):
            subprocess.run([make_snapshot, str(kind), str(n), work / "snapshot"], check=True)
            out[f"{name}-{n}"] = bytes([kind]) + (work / "snapshot").read_bytes()
    whole = out["methods-70"]
    header = 24 + 8 * 7 + 16
    out |= {"cut": whole[:len(whole) // 2], "short": whole[:40], "empty": b"\0", "version": whole[:9] + b"\2" + whole[10:], "other": b"\1" + whole[1:], "longer": whole + b"x",
            "huge": whole[:1 + 24 + 8 * 5] + b"\xff" * 8 + whole[1 + 24 + 8 * 6:], "sum": whole[:1 + header - 3] + b"zzz" + whole[1 + header:]}
    return out


def workloads():
    item = "%% item a edit tune 5\n%% user\nx\n"
    return {"good": "note\n\n" + item + "%% item b fresh held 7\n%% system\nBe brief.\n\n%% user\n%% book 10 40\nWho?\n%% assistant\nShe.\n%% user\nWhy?\n",
            "crlf": item.replace("\n", "\r\n"), "twice": item + item, "empty": "", "no-text": "%% item a edit tune 5\n%% user\n \n",
            "no-question": item + "%% assistant\ny\n", "before": "%% user\nx\n", "text-before": "%% item a edit tune 5\nx\n",
            "bad-item": "%% item a edit often 5\n", "bad-number": "%% item a edit tune 0\n", "bad-mark": item + "%% tool\nz\n",
            "bad-book": "%% item a edit tune 5\n%% user\n%% book 1 99999999\n", "no-book": "%% book 1 2\n",
            "many": "".join(f"%% item i{i} all held 1\n%% user\nx\n" for i in range(257)),
            "messages": "%% item a all held 1\n" + "%% user\nx\n" * 65, "no-end": item.rstrip("\n")}


def main():
    make_tiny, make_lora, make_snapshot, corpus = sys.argv[1], sys.argv[2], sys.argv[3], pathlib.Path(sys.argv[4])
    data = lambda v: v if isinstance(v, bytes) else v.encode()
    with tempfile.TemporaryDirectory() as work:
        work = pathlib.Path(work)
        targets = {
            "profile": PROFILES, "argv": {k: "\0".join(v) for k, v in ARGV.items()}, "rules": RULES,
            "chat": {k: json.dumps(m) + ("\0" + json.dumps(t) if t else "") for k, (m, t) in CHATS.items()} | {"not-json": "[{", "bytes": b"[\"\xff\"]", "bad-tools": "[]\0{"},
            "pretokenizer": {f"{p}-{i}": p + "\0" + c for p in PRETOKENIZERS for i, c in enumerate(CUTS)} | {"unknown": "none\0text"},
            "stream": streams(), "source": {f"{i:02d}": s for i, s in enumerate(SOURCES)}, "imatrix": imatrices(), "folder": folders(),
            "sampler": samplers(), "model": models(make_tiny, work), "lora": loras(make_tiny, make_lora, work),
            "snapshot": snapshots(make_snapshot, work), "workload": workloads(),
        }
    for target, files in targets.items():
        folder = corpus / target
        folder.mkdir(parents=True, exist_ok=True)
        for old in folder.glob("made-*"):
            old.unlink()
        for name, value in files.items():
            (folder / f"made-{name}").write_bytes(data(value))


if __name__ == "__main__":
    main()
