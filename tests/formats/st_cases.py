"""Small safetensors files, valid and hostile, for the tests and the fuzz corpus of the reader.

    st_cases.py FOLDER      writes fuzz/corpus/safetensors
"""
import json
import pathlib
import struct
import sys

GOOD = {"a": ("F32", [2, 3]), "b": ("BF16", [4]), "c": ("F16", [1, 2, 1, 2]), "d": ("I64", []), "e": ("U8", [0, 7])}
BYTES = {"F32": 4, "F16": 2, "BF16": 2, "I64": 8, "U8": 1}


def header(tensors, metadata=True):
    out, at = ({"__metadata__": {"format": "pt"}} if metadata else {}), 0
    for name, (dtype, shape) in tensors.items():
        n = BYTES[dtype]
        for v in shape:
            n *= v
        out[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + n]}
        at += n
    return out, at


def build(head, n_data, length=None):
    text = head if isinstance(head, bytes) else json.dumps(head).encode()
    return struct.pack("<Q", len(text) if length is None else length) + text + bytes(i % 251 for i in range(n_data))


def changed(name, **fields):
    head, n = header(GOOD)
    head[name] |= fields
    return build(head, n)


def text(s, n=0):
    return build(s.encode(), n)


def cases():
    """(name, bytes, what the refusal says; None: it opens)"""
    head, n = header(GOOD)
    one = '{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}'
    swapped = dict(reversed(head.items()))
    yield "valid", build(head, n), None
    yield "valid-other-order", build(swapped, n), None
    yield "valid-padded", build(json.dumps(head).encode() + b" " * 9, n), None
    yield "valid-empty", text("{}"), None
    yield "valid-scalar", text('{"s":{"dtype":"F32","shape":[],"data_offsets":[0,4]}}', 4), None
    yield "valid-more-fields", text(one[:-2] + ',"x":[[]]}}', 4), None
    yield "no-bytes", b"", "a file of 0 bytes"
    yield "length-cut", b"\x10\0\0", "a file of 3 bytes"
    yield "length-beyond", build(head, 0, 1 << 20), "length of the header: found 1048576"
    yield "length-huge", build(head, 0, (1 << 64) - 1), "length of the header"
    yield "length-0", build(b"", 4), "found no JSON object"
    yield "length-1", build(head, n, 1), "found no JSON object"
    yield "no-object", text("[1, 2]"), "found no JSON object"
    yield "cut-json", text('{"a":{'), "line 1"
    yield "not-json", text("{'a':1}"), "line 1"
    yield "not-utf8", build(b'{"\xff":1}', 0), "line 1"
    yield "nul-name", text('{"a\\u0000b":{}}'), "line 1"
    yield "deep", text('{"a":' + "[" * 300 + "]" * 300 + "}"), "nested deeper"
    yield "twice", text(one[:-1] + ',"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}}', 8), "uplicate"
    yield "field-twice", text('{"a":{"dtype":"F32","dtype":"F16","shape":[1],"data_offsets":[0,4]}}', 4), "uplicate"
    yield "metadata-number", text('{"__metadata__":{"a":1}}'), "__metadata__"
    yield "metadata-list", text('{"__metadata__":[]}'), "__metadata__"
    yield "no-tensor", text('{"a":3}'), "tensor 'a'"
    yield "no-name", text('{"":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}', 4), "name"
    yield "long-name", text(one.replace('"a"', '"' + "n" * 257 + '"'), 4), "name"
    yield "no-dtype", text('{"a":{"shape":[1],"data_offsets":[0,4]}}', 4), "dtype: missing"
    yield "dtype-number", changed("a", dtype=1), "dtype: missing or not a string"
    yield "dtype-unknown", changed("a", dtype="F31"), "unsupported value 'F31'"
    yield "dtype-other-size", changed("a", dtype="F16"), "as shape and dtype say"
    yield "no-shape", text('{"a":{"dtype":"F32","data_offsets":[0,4]}}', 4), "shape: missing"
    yield "shape-nine", changed("a", shape=[1] * 9), "shape"
    yield "shape-negative", changed("a", shape=[-2, -3]), "shape"
    yield "shape-real", changed("a", shape=[2.0, 3]), "shape"
    yield "shape-text", changed("a", shape=["2", 3]), "shape"
    yield "shape-large", changed("a", shape=[(1 << 40) + 1]), "shape"
    yield "shape-2^63", text(one.replace("[1]", "[9223372036854775808]"), 4), "line 1"
    yield "shape-overflows", changed("a", shape=[1 << 40, 1 << 40, 1 << 40]), "shape: too many"
    yield "bytes-overflow", changed("a", shape=[1 << 40, 1 << 23]), "shape: too many bytes"
    yield "no-offsets", text('{"a":{"dtype":"F32","shape":[1]}}', 4), "data_offsets: missing"
    yield "offsets-one", changed("a", data_offsets=[0]), "data_offsets"
    yield "offsets-three", changed("a", data_offsets=[0, 24, 25]), "data_offsets"
    yield "offsets-negative", changed("a", data_offsets=[-24, 0]), "data_offsets"
    yield "offsets-backwards", changed("a", data_offsets=[24, 0]), "data_offsets"
    yield "offsets-beyond", changed("d", data_offsets=[n, n + 8]), "the bytes of data in the file"
    yield "offsets-huge", changed("d", data_offsets=[(1 << 62), (1 << 62) + 8]), "the bytes of data in the file"
    yield "overlap", changed("b", data_offsets=[16, 24]), "where those before it end"
    yield "the-same-bytes", text(one[:-1] + ',"b":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}', 4), "where"
    yield "hole", text(one.replace("[0,4]", "[4,8]"), 8), "where those before it end"
    yield "bytes-behind", build(head, n + 1), "behind the last tensor"
    yield "data-cut", build(head, n - 1), "the bytes of data in the file"


if __name__ == "__main__":
    for name, data, _ in cases():
        (pathlib.Path(sys.argv[1]) / f"{name}.safetensors").write_bytes(data)
