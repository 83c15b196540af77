"""Builds Hugging Face `tokenizers` objects from a GGUF file's own vocabulary: what our ids must equal.

BPE as the models' tokenizer.json files define them (smollm: Digits then ByteLevel; qwen2: NFC, its expression,
ByteLevel without one). SentencePiece as transformers' converters do: BPE over all splits of every piece that are
pieces, ordered by (score, characters of the left side, of the right side), all descending.
"""
import mmap
import struct

from tokenizers import AddedToken, Regex, Tokenizer, decoders, normalizers, pre_tokenizers
from tokenizers.models import BPE

CONTROL, USER_DEFINED = 3, 4
QWEN2 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)


SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
STRING, ARRAY = 8, 9


def read_fields(path):
    """The keys tokenizer.ggml.* of a GGUF file (read here: the gguf package needs half a minute for them)."""
    with open(path, "rb") as f:
        data = mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_READ)
    pos = 24
    magic, version, _, n_keys = struct.unpack_from("<4sIQQ", data, 0)
    assert magic == b"GGUF" and version == 3, "not a GGUF v3 file"

    def string():
        nonlocal pos
        (n,) = struct.unpack_from("<Q", data, pos)
        pos += 8 + n
        return data[pos - n : pos]

    def value(kind):
        nonlocal pos
        if kind == STRING:
            return string().decode("utf-8", "surrogateescape")
        if kind == ARRAY:
            elem, n = struct.unpack_from("<IQ", data, pos)
            pos += 12
            if elem in SCALARS:
                size = struct.calcsize("<" + SCALARS[elem])
                pos += n * size
                return list(struct.unpack_from("<%d%s" % (n, SCALARS[elem]), data, pos - n * size))
            return [value(elem) for _ in range(n)]
        pos += struct.calcsize("<" + SCALARS[kind])
        return struct.unpack_from("<" + SCALARS[kind], data, pos - struct.calcsize("<" + SCALARS[kind]))[0]

    fields = {}
    for _ in range(n_keys):
        key = string().decode()
        (kind,) = struct.unpack_from("<I", data, pos)
        pos += 4
        v = value(kind)
        if key.startswith("tokenizer.ggml."):
            fields[key] = v
    return fields


def spm_merges(tokens, scores):
    vocab = {t: i for i, t in enumerate(tokens)}
    merges = []
    for piece, score in zip(tokens, scores):
        local = []
        for k in range(1, len(piece)):
            left, right = piece[:k], piece[k:]
            if left in vocab and right in vocab:
                local.append((left, right, score))
        local.sort(key=lambda m: (vocab[m[0]], vocab[m[1]]))
        merges.extend(local)
    merges.sort(key=lambda m: (m[2], len(m[0]), len(m[1])), reverse=True)
    return [(m[0], m[1]) for m in merges]


def build(fields):
    tokens = fields["tokenizer.ggml.tokens"]
    types = fields["tokenizer.ggml.token_type"]
    vocab = {t: i for i, t in enumerate(tokens)}
    if fields["tokenizer.ggml.model"] == "gpt2":
        merges = [tuple(m.split(" ")) for m in fields["tokenizer.ggml.merges"]]
        tok = Tokenizer(BPE(vocab=vocab, merges=merges))
        pre = fields["tokenizer.ggml.pre"]
        byte_level = lambda regex: pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=regex)
        if pre == "smollm":
            tok.pre_tokenizer = pre_tokenizers.Sequence(
                [pre_tokenizers.Digits(individual_digits=True), byte_level(True)]
            )
        elif pre == "qwen2":
            tok.normalizer = normalizers.NFC()
            tok.pre_tokenizer = pre_tokenizers.Sequence(
                [pre_tokenizers.Split(Regex(QWEN2), "isolated", invert=False), byte_level(False)]
            )
        else:
            raise ValueError("no reference for the pre-tokenizer " + pre)
        tok.decoder = decoders.ByteLevel()
    else:
        tok = Tokenizer(
            BPE(
                vocab=vocab,
                merges=spm_merges(tokens, fields["tokenizer.ggml.scores"]),
                byte_fallback=True,
                fuse_unk=True,
                unk_token="<unk>",
            )
        )
        steps = [normalizers.Replace(" ", "\u2581")]
        if fields.get("tokenizer.ggml.add_space_prefix", True):
            steps.insert(0, normalizers.Prepend("\u2581"))
        tok.normalizer = normalizers.Sequence(steps)
    added = lambda kind, special: [
        AddedToken(t, special=special, normalized=False) for t, y in zip(tokens, types) if y == kind
    ]
    tok.add_special_tokens(added(CONTROL, True))
    tok.add_tokens(added(USER_DEFINED, False))
    return tok


class Reference:
    def __init__(self, path):
        self.fields = read_fields(path)
        self.tok = build(self.fields)

    def encode_batch(self, texts, special):
        """ids of each text; special: control tokens are found in the text"""
        self.tok.encode_special_tokens = not special
        return [e.ids for e in self.tok.encode_batch(texts, add_special_tokens=False)]
