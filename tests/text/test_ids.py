"""Compares our ids with Hugging Face `tokenizers` built from the same GGUF vocabulary, and the round trip.

usage: test_ids.py TOOL MODEL.gguf [--random N] [--seed S] [--classes N] [--file F]...
       test_ids.py TOOL --tiny FUZZ_CORPUS [--random N] [--seed S]
Texts: the corpus beside this file (whole and line by line), N seeded random strings, and files given whole.
"""
import argparse
import os
import random
import struct
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from hf_reference import Reference

HERE = os.path.dirname(os.path.abspath(__file__))
SPECIAL = 2


def run_tool(tool, model, records, flags):
    data = b"".join(struct.pack("<I", len(r)) + r for r in records)
    done = subprocess.run([tool, model, "encode", str(flags)], input=data, stdout=subprocess.PIPE, check=True)
    out, pos, results = done.stdout, 0, []
    for _ in records:
        (n,) = struct.unpack_from("<I", out, pos)
        ids = list(struct.unpack_from("<%di" % n, out, pos + 4))
        pos += 4 + 4 * n
        (n,) = struct.unpack_from("<I", out, pos)
        results.append((ids, out[pos + 4 : pos + 4 + n]))
        pos += 4 + n
    assert pos == len(out)
    return results


ALPHABETS = [
    "abcdefghijklmnopqrstuvwxyz ",
    "ABCxyz'sStTreRELLvedmD \u017f\u2019",
    " \t\n\r\u00a0\u2003\u3000\u0085\u2028",
    "0123456789\u0665\u096c\u00bd\u2167\u4e03",
    "{}[]()<>|/\\;:,.!?#$%&*+-=_~^`\"'@",
    "\u00e4\u00f6\u00fc\u00dfÉèçñøÅǅŉ",
    "e\u0301a\u0308o\u0302\u0323n\u0303\u1100\u1161\u11a8\uac00\u0915\u093c",
    "абвгдежзийё\u0438\u0306",
    "αβγδεά\u03b1\u0301\u1f82",
    "שלום\u05b8\u05bc عربية\u064b\u0651\u0640",
    "हिन्दी ไทยภาษา",
    "中文漢字日本語ひらがなカタカナ\u304b\u3099한국어",
    "\U0001f468\u200d\U0001f469\u200d\U0001f467\U0001f44d\U0001f3fd\u2764\ufe0f\U0001f1e9\U0001f1ea",
    "\u200b\u200c\u200d\u200e\u200f\u202e\ufeff\uffff\ufffd\ue000\U0010ffff\u2581",
    "".join(map(chr, range(0, 33))) + "\x7f",
]
SNIPPETS = ["<|im_start|>", "<|im_end|>", "<|endoftext|>", "<start_of_turn>", "<bos>", "<unused7>", "<tool_call>",
            "</tool_call>", "<h1>", "</s>", "<0x0A>", "[multimodal]", "<|im_start", "<|<|im_end|>|>", "<table></td>",
            "'ll", "I'VE", "  ", "\n\n", "\r\n", "\t\t\t", "   \n  ", " 's", "def f(x):\n    return x\n"]


def random_texts(n, seed):
    rng = random.Random(seed)
    for _ in range(n):
        kind = rng.random()
        out = []
        for _ in range(rng.choice((1, 2, 5, 20))):
            if kind < 0.1:  # any character at all
                c = rng.randrange(0x110000)
                out.append(chr(c) if not 0xD800 <= c < 0xE000 else "x")
            elif rng.random() < 0.15:
                out.append(rng.choice(SNIPPETS))
            else:
                alphabet = rng.choice(ALPHABETS)
                if rng.random() < 0.1:
                    out.append(rng.choice(alphabet) * rng.randrange(1, 80))
                else:
                    out.extend(rng.choice(alphabet) for _ in range(rng.randrange(1, 12)))
        yield "".join(out)


def class_texts(every, seed):
    """Every (or one of `every`) characters outside ideographs, Hangul and private use, between a letter, a space
    and an apostrophe, so that its class decides the cuts."""
    rng = random.Random(seed)
    spans = ((0x80, 0x3400), (0xA000, 0xABFF), (0xD7A0, 0xD800), (0xF8F0, 0x1FB00), (0xE0000, 0xE0200))
    chars = [c for a, b in spans for c in range(a, b) if every == 1 or rng.randrange(every) == 0]
    for k in range(0, len(chars), 256):
        yield "".join("a%s '%s" % ((chr(c),) * 2) for c in chars[k : k + 256])


def expected_bytes(reference, text, ids):
    """What decode(encode(text)) must give, by the rules at the top of bpe.c and spm.c."""
    fields = reference.fields
    if fields["tokenizer.ggml.model"] == "llama":
        bos = fields["tokenizer.ggml.bos_token_id"]
        if ids[:1] == [bos]:  # decoding drops a BOS in front
            text = text[len(fields["tokenizer.ggml.tokens"][bos]) :]
        return text.replace("\u2581", " ").encode()
    if fields["tokenizer.ggml.pre"] == "qwen2":
        text = reference.tok.normalizer.normalize_str(text)
    known = set(fields["tokenizer.ggml.tokens"])
    return bytes(b for b in text.encode() if byte_char(b) in known)


def byte_char(b):
    if 0x21 <= b <= 0x7E or 0xA1 <= b <= 0xAC or b >= 0xAE:
        return chr(b)
    rest = [x for x in range(256) if not (0x21 <= x <= 0x7E or 0xA1 <= x <= 0xAC or x >= 0xAE)]
    return chr(256 + rest.index(b))


def compare(tool, model, reference, texts, special, name):
    flags = SPECIAL if special else 0
    ours = run_tool(tool, model, [t.encode() for t in texts], flags)
    theirs = reference.encode_batch(texts, special)
    bad = 0
    tokens = reference.fields["tokenizer.ggml.tokens"]
    for text, (ids, back), want in zip(texts, ours, theirs):
        if ids != want:
            bad += 1
            if bad <= 5:
                k = next((i for i, (a, b) in enumerate(zip(ids, want)) if a != b), min(len(ids), len(want)))
                print("%s: ids differ at %d of %r\n  ours   %s\n  theirs %s" % (
                    name, k, text[:60],
                    [(i, tokens[i]) for i in ids[max(0, k - 2) : k + 4]],
                    [(i, tokens[i]) for i in want[max(0, k - 2) : k + 4]]))
        elif back != expected_bytes(reference, text, ids):
            bad += 1
            if bad <= 5:
                print("%s: round trip of %r gives %r" % (name, text[:60], back[:80]))
    print("%s, special %d: %d texts, %d tokens, %d differ" % (name, special, len(texts), sum(map(len, theirs)), bad))
    return bad


def tiny_models(folder, scratch):
    """The vocabularies inside the fuzz corpus, as files (see fuzz/tokenizer_fuzz.c for the frame)."""
    for kind in ("smollm", "qwen2", "spm", "spm-prefix"):
        with open(os.path.join(folder, kind + "-words"), "rb") as f:
            data = f.read()
        (n,) = struct.unpack_from("<I", data, 1)
        path = os.path.join(scratch, kind + ".gguf")
        with open(path, "wb") as f:
            f.write(data[5 : 5 + n])
        yield kind, path


def compare_tiny(tool, folder, n, seed):
    bad = 0
    texts = list(random_texts(n, seed)) + ["the river runs past the old mill " * 9, "assistant" * 60]
    with tempfile.TemporaryDirectory() as scratch:
        for kind, path in tiny_models(folder, scratch):
            reference = Reference(path)
            some = texts
            if kind == "spm-prefix":  # HF's Prepend acts behind every added token, SentencePiece only in front
                fields = reference.fields
                added = [t for t, y in zip(fields["tokenizer.ggml.tokens"], fields["tokenizer.ggml.token_type"])
                         if y in (3, 4)]
                some = [t for t in texts if t and not any(a in t for a in added)]
                assert len(some) > n // 10
            bad += compare(tool, path, reference, some, False, "tiny " + kind)
    return bad


def main():
    p = argparse.ArgumentParser()
    p.add_argument("tool")
    p.add_argument("model", nargs="?")
    p.add_argument("--tiny")
    p.add_argument("--random", type=int, default=0)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--file", action="append", default=[])
    p.add_argument("--classes", type=int, default=0, help="test one of this many characters; 1: all")
    args = p.parse_args()
    if args.tiny:
        sys.exit(1 if compare_tiny(args.tool, args.tiny, args.random, args.seed) else 0)
    for needed in [args.tool, args.model] + args.file:
        if not os.path.exists(needed):
            sys.exit("%s is missing; this test needs it" % needed)
    reference = Reference(args.model)
    bad = 0
    folder = os.path.join(HERE, "corpus")
    whole = [open(os.path.join(folder, f), "rb").read().decode() for f in sorted(os.listdir(folder)) if f.endswith(".txt")]
    assert len(whole) >= 10, "the corpus in %s is incomplete" % folder
    lines = [line for text in whole for line in text.split("\n")]
    sets = [("corpus", whole + lines)]
    if args.random:
        sets.append(("random", list(random_texts(args.random, args.seed))))
    if args.classes:
        sets.append(("classes", list(class_texts(args.classes, args.seed))))
    for name, texts in sets:
        for special in (False, True):
            bad += compare(args.tool, args.model, reference, texts, special, name)
    for path in args.file:
        text = open(path, "rb").read().decode()
        bad += compare(args.tool, args.model, reference, [text], False, os.path.basename(path))
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
