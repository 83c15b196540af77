"""Model folders beside their GGUF twins: the same logits, the same refusals by name.

    test_folders.py HASTEN MAKE_TINY WORK

Each tiny model is written as GGUF and, by folder.py, as a folder. Where both hold the same rows in the same order the
logits must be the same bits; `llama` files hold q and k rows in another order, so that a sum over a head is taken in
another order too, and the logits may differ in the last places.
"""
import json
import pathlib
import shutil
import subprocess
import sys

import numpy as np
from folder import make_folder, write_safetensors
from gguf import GGUFReader

IDS = [5, 77, 130, 9, 411, 260, 33, 8, 300, 41, 7, 99, 250, 12, 63, 500, 18]
CASES = [  # family, options, shards, header padding, bits equal
    ("llama", ["type=F32"], 1, 8, False),
    ("llama", ["type=BF16", "tied=0"], 3, 8, False),
    ("llama", ["type=F32", "expert_type=F32", "n_expert=4"], 2, 8, False),
    ("qwen2", ["type=F32"], 1, 8, True),
    ("qwen2", ["type=F16", "tied=1"], 2, 1, True),
    ("gemma3", ["type=BF16"], 1, 8, True),
    ("gemma3", ["type=F32"], 1, 1, True),
    ("qwen3moe", ["type=BF16", "expert_type=BF16"], 2, 8, True),
]


class Test:
    def __init__(self, hasten, make_tiny, work):
        self.hasten, self.make_tiny, self.work = hasten, make_tiny, pathlib.Path(work)
        self.failed = 0

    def fail(self, what):
        print("FAILED", what)
        self.failed += 1

    def run(self, *args, stdin=None):
        r = subprocess.run([self.hasten, *map(str, args)], capture_output=True, input=stdin, timeout=60)
        return r.returncode, r.stdout, r.stderr.decode(errors="replace")

    def tiny(self, family, options, name):
        path = self.work / f"{name}.gguf"
        subprocess.run([self.make_tiny, family, "7", str(path), *options], check=True)
        return path

    def logits(self, model):
        ids, out = self.work / "ids.json", self.work / "logits.f32"
        ids.write_text(json.dumps(IDS))
        rc, _, err = self.run("eval", model, "--ids", ids, "--logits", out, "-t", "1", "-ctk", "f32", "--json")
        if rc:
            raise RuntimeError(f"eval {model}: exit {rc}: {err}")
        return np.fromfile(out, np.float32)

    # ---- twins ----

    def twins(self):
        for i, (family, options, shards, pad, equal) in enumerate(CASES):
            name = f"{family}-{i}"
            gguf = self.tiny(family, options, name)
            folder = make_folder(gguf, self.work / name, shards, pad)
            try:
                a, b = self.logits(gguf), self.logits(folder)
            except RuntimeError as e:
                self.fail(str(e))
                continue
            apart = float(np.abs(a - b).max()) if a.shape == b.shape else float("inf")
            print(f"{name} {' '.join(options)} in {shards} files: {a.size} logits of spread {a.std():.2f}, "
                  f"{apart:.1e} apart")
            if a.std() < 0.5 or (apart != 0 if equal else apart > 2e-4):
                self.fail(f"{name}: logits {apart} apart (expected {'the same bits' if equal else 'at most 2e-4'})")

    # ---- what is in a folder ----

    def info(self):
        folder = self.work / "qwen2-3"
        rc, out, err = self.run("info", folder, "--json")
        found = json.loads(out) if rc == 0 else {}
        if rc or found["architecture"] != "qwen2" or found["n_vocab"] != 512 or not found["memory"] \
                or found["types"] != {"F32": {"tensors": found["n_tensors"], "bytes": found["types"]["F32"]["bytes"]}}:
            self.fail(f"info of a folder: exit {rc}: {err}{found}")
        rc, out, _ = self.run("info", self.work / "llama-1")
        if rc or b"safetensors, 3 files" not in out:
            self.fail(f"info does not name three files: {out!r}")
        for text in (b"The quick brown fox, 123 times.", "Grüße\n\n  twice".encode()):
            for i, family in ((0, "llama"), (3, "qwen2"), (6, "gemma3")):
                a = self.run("tokenize", self.work / f"{family}-{i}.gguf", "--no-bos", stdin=text)
                b = self.run("tokenize", self.work / f"{family}-{i}", "--no-bos", stdin=text)
                if a[:2] != b[:2]:
                    self.fail(f"{family}: tokenize: {a} from GGUF, {b} from the folder")

    # ---- a folder as a file ----

    def quantised(self):
        """quantize FOLDER OUT: what the GGUF twin holds, its tokenizer too; heads of llama on pairs again."""
        text = "The quick brown fox, 123 times.\n\n  Grüße <|im_start|>".encode()
        for name, kind in (("llama-0", "F32"), ("llama-1", "BF16"), ("qwen2-3", "F32"), ("gemma3-6", "F32"),
                           ("qwen3moe-7", "BF16")):
            out = self.work / f"{name}.out.gguf"
            rc, _, err = self.run("quantize", self.work / name, out, kind, "-q")
            if rc:
                self.fail(f"quantize of folder {name}: exit {rc}: {err}")
                continue
            a, b = self.logits(self.work / f"{name}.gguf"), self.logits(out)
            if a.shape != b.shape or np.abs(a - b).max() != 0:
                self.fail(f"quantize of folder {name}: other logits than its GGUF twin's")
            ids = [self.run("tokenize", model, stdin=text)[:2] for model in (self.work / name, out)]
            if ids[0] != ids[1] or ids[0][0]:
                self.fail(f"quantize of folder {name}: tokenize: {ids}")
        written, twin = (GGUFReader(self.work / f"llama-0{end}.gguf") for end in (".out", ""))
        theirs = {t.name: t.data.tobytes() for t in twin.tensors}
        if {t.name: t.data.tobytes() for t in written.tensors} != theirs or "hasten.rope_halves" in written.fields:
            self.fail("quantize of folder llama-0 to F32: not the tensors of its GGUF twin")
        for key in ("model", "pre", "tokens", "token_type", "merges"):
            mine, other = (r.fields[f"tokenizer.ggml.{key}"].contents() for r in (written, twin))
            if mine != other:
                self.fail(f"quantize of folder llama-0: tokenizer.ggml.{key} is not its GGUF twin's")
        if "tokenizer.huggingface.json" not in GGUFReader(self.work / "gemma3-6.out.gguf").fields:
            self.fail("quantize of folder gemma3-6: no tokenizer")
        rc, _, err = self.run("quantize", self.work / "llama-0", self.work / "llama-0" / "model.safetensors", "Q8_0")
        if rc != 2 or "expected another file" not in err:
            self.fail(f"quantize into its own input: exit {rc}: {err}")

    # ---- refusals ----
    # ---- refusals ----

    def refused(self, what, change, says, rc=3):
        folder = self.work / "refused"
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(self.work / "qwen2-4", folder)  # two shards
        change(folder)
        found, _, err = self.run("eval", folder, "--ids", self.work / "ids.json")
        if found != rc or any(s not in err for s in says) or err.count("\n") != 1:
            self.fail(f"{what}: exit {found}: {err!r} (expected exit {rc} and {says})")

    def refusals(self):
        second = "model-00002-of-00002.safetensors"
        index = "model.safetensors.index.json"

        def config(**changes):
            def change(folder):
                path = folder / "config.json"
                path.write_text(json.dumps(json.loads(path.read_text()) | changes))
            return change

        def weight_map(edit):
            def change(folder):
                whole = json.loads((folder / index).read_text())
                edit(whole["weight_map"])
                (folder / index).write_text(json.dumps(whole))
            return change

        def extra(dtype, name="model.layers.0.self_attn.q_proj.scale"):
            def change(folder):
                write_safetensors(folder / "model.safetensors", {name: (dtype, [2], b"\0" * 8)})
            return change

        self.refused("no weights", lambda f: (f / index).unlink(), ["found no weights"])
        self.refused("a pickle", lambda f: (f / index).rename(f / "pytorch_model.bin"), ["unsupported"])
        self.refused("no config", lambda f: (f / "config.json").unlink(), ["without config.json"])
        self.refused("no tokenizer", lambda f: (f / "tokenizer.json").unlink(), ["tokenizer.json"])
        self.refused("a broken config", lambda f: (f / "config.json").write_text("{"), ["config.json: line 1"])
        self.refused("a missing shard", lambda f: (f / second).unlink(), [index, second])
        self.refused("a cut shard", lambda f: (f / second).write_bytes((f / second).read_bytes()[:-1]),
                     [second, "data_offsets"])
        self.refused("a shard of elsewhere", weight_map(lambda m: m.update({"lm_head.weight": "../x.safetensors"})),
                     ["lm_head.weight", "../x.safetensors", "beside it"])
        self.refused("an index with more", weight_map(lambda m: m.update({"a.weight": second})),
                     ["'a.weight': missing", second])
        self.refused("an index with less", weight_map(lambda m: m.pop("model.norm.weight")),
                     ["'model.norm.weight': not expected here"])
        self.refused("an unknown architecture", config(architectures=["FalconForCausalLM"]),
                     ["unsupported architecture 'FalconForCausalLM'", "LlamaForCausalLM"])
        self.refused("another activation", config(hidden_act="relu"), ["hidden_act", "unsupported", "relu"])
        self.refused("quantised weights", config(quantization_config={"quant_method": "gptq"}),
                     ["quantization_config", "unsupported", "gptq"])
        self.refused("an unknown scaling", config(rope_scaling={"rope_type": "dynamic", "factor": 2.0}),
                     ["rope_type", "unsupported", "dynamic"])
        self.refused("a missing size", config(hidden_size=None), ["hidden_size: found nothing"])
        self.refused("a size of another kind", config(hidden_size="64"), ["hidden_size", '"64"'])
        self.refused("a size that is not the tensors'", config(hidden_size=128), ["expected ["])
        self.refused("windows", config(use_sliding_window=True, sliding_window=64), ["use_sliding_window", "unsupported"])
        self.refused("an unknown tensor", extra("F32"), ["q_proj.scale", "unsupported"])
        self.refused("weights of bytes", extra("I32", "model.norm.weight"), ["model.norm.weight", "unsupported", "I32"])


def main():
    t = Test(*sys.argv[1:4])
    shutil.rmtree(t.work, ignore_errors=True)
    t.work.mkdir(parents=True)
    t.twins()
    t.info()
    t.quantised()
    t.refusals()
    print(f"{t.failed} failures")
    return 1 if t.failed else 0


if __name__ == "__main__":
    sys.exit(main())
