"""`hasten embed` against the float64 reference of BERT, alone and in company, and its refusals.

    test_embed.py HASTEN MAKE_TINY MODELS WORK
"""
import json
import pathlib
import shutil
import subprocess
import sys

import numpy as np
import tiny_bert
from bert_reference import Bert, cosine, pool
from gguf import GGUFReader
from tokenizers import Tokenizer

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "folders"))
from folder import BERT_NAMES, make_folder  # noqa: E402

TEXTS = ["The quick brown fox jumps over the lazy dog.", "A model embeds text.", "a",
         "Tokens, 1984 & vectors: encoded!", "the the the the the the the the the"]
MIN_COSINE = 0.9999


class Test:
    def __init__(self, hasten, make_tiny, models, work):
        self.hasten, self.make_tiny, self.models, self.work = hasten, make_tiny, pathlib.Path(models), pathlib.Path(work)
        self.failed = 0

    def check(self, good, what):
        if not good:
            print("FAILED", what)
            self.failed += 1
        return good

    def run(self, *args, stdin=None):
        r = subprocess.run([self.hasten, *map(str, args)], capture_output=True, timeout=120,
                           input=stdin.encode() if stdin is not None else None)
        return r.returncode, r.stdout, r.stderr.decode(errors="replace")

    def embed(self, model, texts, *args):
        rc, out, err = self.run("embed", model, *args, stdin="".join(t + "\n" for t in texts))
        if not self.check(rc == 0, f"embed {model} {args}: exit {rc}: {err}"):
            sys.exit(1)
        return np.array([json.loads(line) for line in out.splitlines()])

    def compare(self, name, model, reference, ids, texts):
        worst, apart = 1.0, 0.0
        hidden = [reference.hidden(i) for i in ids]
        for how in ("mean", "cls", "last"):
            for row, rows in zip(self.embed(model, texts, "--pooling", how), hidden):
                worst = min(worst, cosine(row, pool(rows, how)))
                apart = max(apart, float(np.abs(row - pool(rows, how)).max()))
        print(f"{name}: {len(texts)} texts of {min(map(len, ids))} to {max(map(len, ids))} tokens: cosine at least "
              f"{worst:.9f}, {apart:.1e} apart")
        self.check(worst >= MIN_COSINE, f"{name}: cosine {worst} (expected at least {MIN_COSINE})")

    def company(self, name, model, texts):
        """Alone, eight at a time, all at once, on one thread and two: the same digits, so the same floats."""
        whole = self.run("embed", model, "-t", "1", stdin="".join(t + "\n" for t in texts))[1]
        lines = whole.splitlines(keepends=True)
        self.check(len(lines) == len(texts), f"{name}: {len(lines)} lines for {len(texts)} texts")
        self.check(self.run("embed", model, "-t", "2", stdin="\n".join(texts))[1] == whole, f"{name}: two threads")
        for i in range(0, len(texts), 8):
            part = self.run("embed", model, stdin="".join(t + "\n" for t in texts[i:i + 8]))[1]
            self.check(part == b"".join(lines[i:i + 8]), f"{name}: eight from {i}")
        for text, line in zip(texts, lines):
            self.check(self.run("embed", model, "-p", text)[1] == line, f"{name}: alone: {text[:40]!r}")
        unit = self.embed(model, texts[:2], "--normalize")
        self.check(np.allclose((unit ** 2).sum(-1), 1, atol=1e-6), f"{name}: --normalize")

    # ---- models ----

    def minilm(self):
        folder = self.models / "minilm"
        if not self.check((folder / "model.safetensors").is_file(), f"{folder} is missing: run scripts/models minilm"):
            return
        tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        tokenizer.no_padding()
        tokenizer.no_truncation()
        readme = (HERE.parents[1] / "README.md").read_text().splitlines()
        texts = TEXTS[:4] + [t for t in readme if len(t) > 60][:16] + [" ".join(readme)[:600]]
        ids = [tokenizer.encode(t).ids for t in texts]
        rc, out, err = self.run("info", folder)
        self.check(rc == 0 and b"bert" in out, f"info: exit {rc}: {out}{err}")
        self.compare("minilm", folder, Bert.open(folder), ids, texts)
        self.company("minilm", folder, texts[:4])
        near = self.embed(folder, ["A man eats food.", "Someone is eating a meal.", "The sky is blue."], "--normalize")
        self.check(near[0] @ near[1] > 0.5 > near[0] @ near[2], f"minilm: like texts lie apart: {near @ near.T}")

    def tiny(self):
        gguf = self.work / "bert.gguf"
        tiny_bert.write(str(gguf))
        weights, tokens = {}, tiny_bert.vocabulary()
        for t in GGUFReader(gguf).tensors:
            base, suffix = t.name.rsplit(".", 1)
            layer = ""
            if base.startswith("blk."):
                _, number, base = base.split(".")
                layer = f"encoder.layer.{number}."
            weights[f"{layer}{BERT_NAMES[base]}.{suffix}"] = t.data.astype(np.float64)
        rc, out, _ = self.run("tokenize", gguf, stdin=TEXTS[0])
        ids = [json.loads(self.run("tokenize", gguf, stdin=t)[1]) for t in TEXTS]
        ids = [i if i[0] == 2 else [2, *i] for i in ids]
        ids = [i if i[-1] == 3 else [*i, 3] for i in ids]
        self.check(rc == 0 and "\u2581quick" in [tokens[i] for i in ids[0]], f"the tiny tokenizer: {out}")
        self.compare("tiny", gguf, Bert(weights, 2, 3, 1e-12), ids, TEXTS)
        self.company("tiny", gguf, TEXTS * 2)
        return gguf

    def folder_twin(self, gguf):
        folder = make_folder(gguf, self.work / "bert", 2, tokenizer=wordpiece_json())
        (folder / "1_Pooling").mkdir()
        (folder / "1_Pooling/config.json").write_text(json.dumps({"pooling_mode_cls_token": True}))
        a, b = self.embed(gguf, TEXTS, "--pooling", "cls"), self.embed(folder, TEXTS)
        self.check(np.array_equal(a, b), f"a BERT folder and its GGUF twin: {np.abs(a - b).max()} apart")

    def decoder(self):
        """The last hidden state of a decoder, times the head, is its logits."""
        path = self.work / "llama.gguf"
        subprocess.run([self.make_tiny, "llama", "3", str(path), "type=F32", "tied=0"], check=True)
        text = "The quick brown fox jumps"
        ids = json.loads(self.run("tokenize", path, stdin=text)[1])
        (self.work / "ids.json").write_text(json.dumps([*ids, 0]))
        rc, _, err = self.run("eval", path, "--ids", self.work / "ids.json", "--logits", self.work / "logits.f32")
        self.check(rc == 0, f"eval: {err}")
        logits = np.fromfile(self.work / "logits.f32", np.float32).reshape(len(ids), -1)
        head = next(t.data for t in GGUFReader(path).tensors if t.name == "output.weight").astype(np.float64)
        last, mean = (self.embed(path, [text], "--pooling", how)[0] for how in ("last", "mean"))
        self.check(np.allclose(head @ last, logits[-1], atol=2e-4), "a decoder's last row times its head")
        self.check(np.allclose(head @ mean, logits.mean(0), atol=2e-4), "a decoder's mean row times its head")
        texts = [text, "a", "fox " * 70]
        whole = self.embed(path, texts, "--pooling", "mean")
        for text, row in zip(texts, whole):
            self.check(np.array_equal(self.embed(path, [text], "--pooling", "mean", "-b", "7")[0], row),
                       f"a decoder alone: {text[:20]}")
        rc, out, err = self.run("embed", path, "-p", "x")
        self.check(rc == 2 and not out and "--pooling mean, cls or last" in err, f"no pooling: exit {rc}: {err}")

    def refusals(self, gguf):
        (self.work / "few.json").write_text("[2, 7, 3]")
        for what, args, stdin, rc, says in (
                ("too long", ["embed", gguf], "fox " * 200, None, ["line 1", "202 tokens", "at most 128"]),
                ("beyond -c", ["embed", gguf, "-c", "4"], "a quick brown fox", None, ["at most 4"]),
                ("run", ["run", gguf, "-p", "x", "--raw"], "", 3, ["unsupported", "encoder", "embed"]),
                ("eval", ["eval", gguf, "--ids", self.work / "few.json"], "", 3, ["unsupported", "encoder"]),
                ("pooling", ["embed", gguf, "-p", "x", "--pooling", "max"], "", 2, ["max", "mean"]),
                ("both", ["embed", gguf, "-p", "x", "-f", "y"], "", 2, ["both -p and -f"]),
        ):
            found, out, err = self.run(*args, stdin=stdin)
            self.check(found != 0 and (rc is None or found == rc) and not out and all(s in err for s in says),
                       f"{what}: exit {found}: {err!r} (expected {rc}, {says})")
        rc, out, _ = self.run("embed", gguf, "--json", "-p", "a quick fox")
        one = json.loads(out)
        self.check(rc == 0 and one["index"] == 0 and one["tokens"] == 5 and len(one["embedding"]) == 48,
                   f"--json: {out[:80]}")
        self.check(self.run("embed", gguf, stdin="")[:2] == (0, b""), "no text, no line")


def wordpiece_json():
    """The tiny vocabulary as tokenizer.json has it: what continues a word has ## in front."""
    special = tiny_bert.SPECIAL
    ids = {t if t in special else t[1:] if t[0] == "\u2581" else "##" + t: i
           for i, t in enumerate(tiny_bert.vocabulary())}
    cls, sep = ({"SpecialToken": {"id": t, "type_id": 0}} for t in ("[CLS]", "[SEP]"))
    return {
        "version": "1.0", "truncation": None, "padding": None,
        "added_tokens": [{"id": i, "content": t, "special": True, "single_word": False, "lstrip": False,
                          "rstrip": False, "normalized": False} for i, t in enumerate(special)],
        "normalizer": {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True,
                       "strip_accents": None, "lowercase": True},
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "post_processor": {"type": "TemplateProcessing", "single": [cls, {"Sequence": {"id": "A", "type_id": 0}}, sep],
                           "pair": [cls, {"Sequence": {"id": "A", "type_id": 0}}, sep],
                           "special_tokens": {t: {"id": t, "ids": [ids[t]], "tokens": [t]}
                                              for t in ("[CLS]", "[SEP]")}},
        "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": True},
        "model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
                  "max_input_chars_per_word": 100, "vocab": ids},
    }


def main():
    t = Test(*sys.argv[1:5])
    shutil.rmtree(t.work, ignore_errors=True)
    t.work.mkdir(parents=True)
    gguf = t.tiny()
    t.folder_twin(gguf)
    t.decoder()
    t.refusals(gguf)
    t.minilm()
    print(f"{t.failed} failures")
    return 1 if t.failed else 0


if __name__ == "__main__":
    sys.exit(main())
