"""Compares the words and ids of every pre-tokeniser that GGUF files name, and of WordPiece, with Hugging Face
`tokenizers` set up from the documented expressions (pretokenizers.py), on vocabularies trained here.

usage: test_pretok.py TOOL [--random N] [--seed S] [--classes N]
"""
import argparse
import json
import os
import struct
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from pretokenizers import RECIPES
from test_ids import HERE, class_texts, random_texts, run_tool
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

NORMAL, UNKNOWN, CONTROL, BYTE = 1, 2, 3, 6
EXTRA = [
    "", " ", "\n", "1", "12", "123", "1234", "1234567", "12345678901234567890", "1234a 123 \u0661\u0662\u0663\u0664\u00bd9",
    "3.14159 2,000,000 x1234y 1234_ 12\u0301", "\u4f60\u597d\u4e16\u754c123abc\u3002\u3053\u3093\u306b\u3061\u306f",
    "HelloWorld HELLOWorld helloWORLD \u4e2dA\u4e2dA Ab\u4e2dC\u01c5x \u02b0A", "I'll WE'VE they'Re it'\u017f x'S 'tis ''s",
    "<sentinel:12> <sentinel:> IMGIMGABZ IMGIMGABCDEZ", "a" * 300, " " * 700, "x" + " " * 513 + "y", " \n" * 40 + " x",
    "x" + " " * 512 + "y" + " " * 1030, "a  b   c    d     e", "//\n//\r\n/a/ \n/", "...\n\n\nabc!!\r\r", "!abc #def (ghi _jkl",
    "\u0301\u0301ab \u0301A\u0301 A\u0301\u0301 '\u0301s", "\u00c0\u00c9 \u01c4 \u1e9e\u00df", "\u200bab\u200b \u00adx \ufeff",
    "a\u00a0b \u3000c\u3000\u3001 \u2003\u2018x\u2019", "\x00\x01\x02abc\x7f \x1fd", "\uac00\ub098 \u3131\u3105\u3106 \uff1a\uff1b",
    "(a) |b| \u0964 \u06d4 \u060c", "tab\tx\t\ty\n\tz", "99 bottles 1st 2nd \u2460\u2461 \u2167 10\u00b2", "\U0001f468\u200d\U0001f469 \U0001f44d\U0001f3fd",
    "\u3007\u3021\u2e80\u4e00\u2f00 \u30fb\u309b", "a b c d e \u00e9 f\u0301 g", "don't DON'T Don'T\n'S\n'll",
]


def corpus_texts():
    folder = os.path.join(HERE, "corpus")
    for name in sorted(os.listdir(folder)):
        with open(os.path.join(folder, name), encoding="utf-8", newline="") as f:
            text = f.read()
        yield text
        yield from text.splitlines(keepends=True)


# ---- GGUF files -------------------------------------------------------------------------------------------------


def gguf_file(path, fields):
    """A GGUF file (version 3) of keys alone. Values: str, int, bool, list of str, of int, of float."""

    def string(s):
        data = s.encode("utf-8", "surrogateescape")
        return struct.pack("<Q", len(data)) + data

    def value(v):
        if isinstance(v, str):
            return struct.pack("<I", 8) + string(v)
        if isinstance(v, bool):
            return struct.pack("<I?", 7, v)
        if isinstance(v, int):
            return struct.pack("<II", 4, v)
        if isinstance(v[0], str):
            return struct.pack("<IIQ", 9, 8, len(v)) + b"".join(map(string, v))
        if isinstance(v[0], float):
            return struct.pack("<IIQ", 9, 6, len(v)) + struct.pack("<%df" % len(v), *v)
        return struct.pack("<IIQ", 9, 5, len(v)) + struct.pack("<%di" % len(v), *v)

    with open(path, "wb") as f:
        f.write(struct.pack("<4sIQQ", b"GGUF", 3, 0, len(fields)))
        for key, v in fields.items():
            f.write(string(key) + value(v))


def trained(raw, lines):
    """(tokens, merges) of a BPE vocabulary trained without borders between words, so that every cut shows."""
    if raw:
        alphabet = ["<0x%02X>" % b for b in range(256)]
        trainer = trainers.BpeTrainer(vocab_size=1500, limit_alphabet=300, special_tokens=["<unk>"] + alphabet, show_progress=False)
        tok = Tokenizer(models.BPE(unk_token="<unk>", byte_fallback=True))
        tok.normalizer = normalizers.Replace(" ", "\u2581")
        tok.pre_tokenizer = pre_tokenizers.Split("\n", "isolated")
    else:
        trainer = trainers.BpeTrainer(vocab_size=1500, show_progress=False,
                                      initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
        tok = Tokenizer(models.BPE())
        tok.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tok.train_from_iterator(lines, trainer)
    vocab = tok.get_vocab()
    merges = [tuple(m) for m in json.loads(tok.to_str())["model"]["merges"]]
    return sorted(vocab, key=vocab.get), merges


# ---- words ------------------------------------------------------------------------------------------------------


def tool_words(tool, model, records):
    data = b"".join(struct.pack("<I", len(r)) + r for r in records)
    out = subprocess.run([tool, model, "words"], input=data, stdout=subprocess.PIPE, check=True).stdout
    pos, results = 0, []
    for _ in records:
        (n,) = struct.unpack_from("<I", out, pos)
        ends = struct.unpack_from("<%dI" % (2 * n), out, pos + 4)
        results.append(list(zip(ends[::2], ends[1::2])))
        pos += 4 + 8 * n
    assert pos == len(out)
    return results


def reference_words(step, text):
    at, offsets = 0, [0]
    for c in text:
        at += len(c.encode())
        offsets.append(at)
    return [(offsets[a], offsets[b]) for _, (a, b) in step.pre_tokenize_str(text)]


def compare_words(tool, path, step, texts, name):
    bad = 0
    for text, ours in zip(texts, tool_words(tool, path, [t.encode() for t in texts])):
        theirs = reference_words(step, text)
        if ours != theirs:
            bad += 1
            if bad <= 3:
                data = text.encode()
                k = next((i for i, (a, b) in enumerate(zip(ours, theirs)) if a != b), 0)
                print("%s: words differ\n  ours   %s\n  theirs %s" % (
                    name, [data[a:b].decode() for a, b in ours[max(0, k - 1) : k + 4]],
                    [data[a:b].decode() for a, b in theirs[max(0, k - 1) : k + 4]]))
    return bad


def compare_ids(tool, path, tok, texts, name, flags=0, **options):
    bad = tokens = 0
    results = run_tool(tool, path, [t.encode() for t in texts], flags)
    for text, (ids, _), want in zip(texts, results, tok.encode_batch(texts, **options)):
        tokens += len(ids)
        if ids != want.ids:
            bad += 1
            if bad <= 3:
                k = next((i for i, (a, b) in enumerate(zip(ids, want.ids)) if a != b), min(len(ids), len(want.ids)))
                show = lambda x: [tok.id_to_token(i) for i in x[max(0, k - 2) : k + 4]]
                print("%s: ids differ at %d of %r\n  ours   %s\n  theirs %s" % (name, k, text[:50], show(ids), show(want.ids)))
    return bad, tokens


# ---- the tests --------------------------------------------------------------------------------------------------


def bpe_recipes(tool, texts, lines, scratch):
    bad = 0
    vocabs = {raw: trained(raw, lines) for raw in (False, True)}
    for recipe in RECIPES:
        tokens, merges = vocabs[recipe.raw]
        types = [UNKNOWN if t == "<unk>" else BYTE if recipe.raw and t.startswith("<0x") else NORMAL for t in tokens]
        tok = Tokenizer(models.BPE(vocab={t: i for i, t in enumerate(tokens)}, merges=merges,
                                   ignore_merges=recipe.whole, byte_fallback=recipe.raw))
        normalizer = recipe.normalizer()
        if normalizer is not None:
            tok.normalizer = normalizer
        tok.pre_tokenizer = recipe.pre_tokenizer(True)
        for i, name in enumerate(recipe.names):
            path = os.path.join(scratch, name + ".gguf")
            gguf_file(path, {
                "general.architecture": "llama", "tokenizer.ggml.model": "gemma4" if name == "gemma4" else "gpt2",
                "tokenizer.ggml.pre": name, "tokenizer.ggml.tokens": tokens, "tokenizer.ggml.token_type": types,
                "tokenizer.ggml.merges": [" ".join(m) for m in merges]})
            some = texts if i == 0 else EXTRA  # the other names of a recipe: that they mean the same
            words = compare_words(tool, path, recipe.pre_tokenizer(False), some, name)
            ids, n = compare_ids(tool, path, tok, some, name)
            bad += words + ids
            print("%s: %d texts, %d tokens, words of %d and ids of %d differ" % (name, len(some), n, words, ids))
            os.remove(path)
    return bad


def wordpiece(tool, texts, lines, scratch):
    bad = 0
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    for lower in (True, False):
        tok = Tokenizer(models.WordPiece(unk_token="[UNK]"))
        tok.normalizer = normalizers.BertNormalizer(lowercase=lower)
        tok.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        tok.train_from_iterator(lines, trainers.WordPieceTrainer(vocab_size=700, special_tokens=special,
                                                                 show_progress=False))
        vocab = tok.get_vocab()
        tokens = sorted(vocab, key=vocab.get)
        tok = Tokenizer(models.WordPiece(vocab, unk_token="[UNK]", max_input_chars_per_word=100))
        tok.normalizer = normalizers.BertNormalizer(lowercase=lower)
        tok.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        tok.post_processor = processors.TemplateProcessing(
            single="[CLS] $A [SEP]", special_tokens=[("[CLS]", vocab["[CLS]"]), ("[SEP]", vocab["[SEP]"])])
        path = os.path.join(scratch, "bert.gguf")
        gguf_file(path, {
            "general.architecture": "bert", "tokenizer.ggml.model": "bert", "tokenizer.ggml.pre": "jina-v2-en",
            "tokenizer.ggml.tokens": [t if t in special else t[2:] if t.startswith("##") else "\u2581" + t for t in tokens],
            "tokenizer.ggml.token_type": [CONTROL if t in special else NORMAL for t in tokens],
            "tokenizer.ggml.unknown_token_id": vocab["[UNK]"], "tokenizer.ggml.cls_token_id": vocab["[CLS]"],
            "tokenizer.ggml.seperator_token_id": vocab["[SEP]"], "tokenizer.ggml.normalizer.lowercase": lower})
        # GGUF's form cannot say that a piece that continues a word begins with U+2581
        some = [t for t in texts if "\u2581" not in t] + ["x" * 100, "x" * 101, "the" * 33, "the" * 34, "unaffable " * 9]
        ids, n = compare_ids(tool, path, tok, some, "wordpiece", add_special_tokens=False)
        both, m = compare_ids(tool, path, tok, EXTRA, "wordpiece, [CLS] and [SEP]", 1 | 8)
        bad += ids + both
        print("wordpiece, lower %d: %d texts, %d tokens, ids of %d differ" % (lower, len(some), n + m, ids + both))
        back = run_tool(tool, path, [b"The OLD mill, caf\xc3\xa9!"], 0)[0][1]
        want = b"the old mill , cafe !" if lower else "The OLD mill , caf\u00e9 !".encode()
        if back != want:
            bad += 1
            print("wordpiece: decoded to %r, not %r" % (back, want))
    return bad


def phi3(tool, scratch):
    """Phi-3's control tokens take the spaces behind them; of a file of another architecture they do not."""
    tokens = ["<unk>", "<s>", "</s>"] + ["<0x%02X>" % b for b in range(256)] + ["a", "\u2581", "<|end|>", "<|endoftext|>"]
    types = [UNKNOWN, CONTROL, CONTROL] + [BYTE] * 256 + [NORMAL, NORMAL, CONTROL, CONTROL]
    a, space, end, endoftext, newline = 259, 260, 261, 262, 3 + 10
    want = {"phi3": [end, a, endoftext, newline, space, a, 2, a],
            "llama": [end, newline, space, a, endoftext, newline, space, a, 2, space, a]}
    bad = 0
    for arch, ids in want.items():
        path = os.path.join(scratch, "phi3.gguf")
        gguf_file(path, {"general.architecture": arch, "tokenizer.ggml.model": "llama", "tokenizer.ggml.tokens": tokens,
                         "tokenizer.ggml.scores": [0.0] * len(tokens), "tokenizer.ggml.token_type": types,
                         "tokenizer.ggml.add_space_prefix": False})
        ours = run_tool(tool, path, [b"<|end|>\n a<|endoftext|>\n a</s> a"], 2)[0][0]
        if ours != ids:
            bad += 1
            print("%s: %s, expected %s" % (arch, ours, ids))
    return bad


def refused(tool, scratch):
    bad = 0
    path = os.path.join(scratch, "no.gguf")
    for model, pre, says in (("gpt2", "gpt-5", "unsupported pre-tokenizer 'gpt-5'"),
                             ("gpt2", "llama", "unsupported pre-tokenizer 'llama'"),
                             ("gpt2", "whitespace", "unsupported pre-tokenizer 'whitespace'"),
                             ("gpt2", "mmbert", "unsupported pre-tokenizer 'mmbert'"),
                             ("t5", "default", "unsupported tokenizer 't5'"),
                             ("rwkv", "default", "unsupported tokenizer 'rwkv'"),
                             ("plamo2", "default", "unsupported tokenizer 'plamo2'")):
        gguf_file(path, {"tokenizer.ggml.model": model, "tokenizer.ggml.pre": pre, "tokenizer.ggml.tokens": ["a", "b"],
                         "tokenizer.ggml.merges": ["a b"]})
        done = subprocess.run([tool, path, "open"], capture_output=True, text=True)
        if done.returncode != 1 or says not in done.stderr:
            bad += 1
            print("%s/%s: not refused: %s%s" % (model, pre, done.stdout, done.stderr))
    return bad


def main():
    p = argparse.ArgumentParser()
    p.add_argument("tool")
    p.add_argument("--random", type=int, default=300)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--classes", type=int, default=16, help="test one of this many characters; 1: all")
    args = p.parse_args()
    lines = [t for t in corpus_texts() if t]
    texts = EXTRA + lines + list(random_texts(args.random, args.seed)) + list(class_texts(args.classes, args.seed))
    with tempfile.TemporaryDirectory() as scratch:
        bad = bpe_recipes(args.tool, texts, lines, scratch)
        bad += wordpiece(args.tool, texts, lines, scratch)
        bad += phi3(args.tool, scratch)
        bad += refused(args.tool, scratch)
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
