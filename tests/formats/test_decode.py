"""Decoders and conversions of src/formats/quant.c against the gguf package and numpy, bit for bit.

use: test_decode.py DECODE_DUMP   (the program built from decode_dump.c)
"""
import subprocess
import sys

import gguf
import numpy as np
from gguf import GGMLQuantizationType as Type

DUMP = sys.argv[1]
# Where the f16 scales lie in a block: the hostile values go there.
SCALES = {"Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2], "Q8_0": [0], "Q2_K": [80, 82], "Q3_K": [108],
          "Q4_K": [0, 2], "Q5_K": [0, 2], "Q6_K": [208], "F32": [], "F16": [], "BF16": [],
          "IQ2_XXS": [0], "IQ2_XS": [0], "IQ2_S": [0], "IQ3_XXS": [0], "IQ3_S": [0], "IQ1_S": [0], "IQ1_M": [],
          "IQ4_NL": [0], "IQ4_XS": [0], "TQ1_0": [52], "TQ2_0": [64], "MXFP4": [], "NVFP4": []}
FINITE = ("MXFP4", "NVFP4")  # the scales are bytes: every one occurs by itself
HOSTILE = np.array([0x0000, 0x8000, 0x0001, 0x8001, 0x03ff, 0x83ff, 0x0400, 0x7bff, 0xfbff, 0x7c00, 0xfc00,
                    0x7e00, 0xfe00, 0x7c01, 0xfc01, 0x7fff, 0x3c00, 0xbc00], dtype=np.uint16)
np.seterr(all="ignore")
failures = 0


def check(ok, what):
    global failures
    if not ok:
        failures += 1
        print("FAILED:", what)


def dump(args, data=b""):
    return subprocess.run([DUMP, *args], input=data, stdout=subprocess.PIPE, check=True).stdout


def same(got, want, nan_is_nan=False):
    """Equal bits; with nan_is_nan any NaN equals any other (IEEE leaves the payload of arithmetic open)."""
    bits = {4: np.uint32, 2: np.uint16}[want.dtype.itemsize]
    equal = got.view(bits) == want.view(bits)
    if nan_is_nan:
        equal |= np.isnan(got) & np.isnan(want)
    return got.size == want.size and bool(equal.all())


def blocks(name, rng):
    block, size = gguf.GGML_QUANT_SIZES[Type[name]]
    if block == 1:
        if size == 2:  # every value
            return np.arange(65536, dtype=np.uint16).view(np.uint8).reshape(-1, 2)
        edges = np.array([np.inf, -np.inf, np.nan, 0.0, -0.0, 1e-45, 3.4e38], np.float32).view(np.uint8)
        return np.concatenate([edges, rng.integers(0, 256, 4 * 65536, np.uint8)]).reshape(-1, 4)
    data = rng.integers(0, 256, (2000, size), dtype=np.uint8)
    n = len(HOSTILE)
    for i in range(n * n):  # every pair of hostile scales
        for j, at in enumerate(SCALES[name]):
            value = HOSTILE[i % n if j == 0 else i // n]
            data[i, at:at + 2] = np.array([value]).view(np.uint8)
        if name == "IQ1_M":  # a nibble of the scale on top of each of four words
            for j in range(4):
                data[i, 49 + 2 * j] = data[i, 49 + 2 * j] & 15 | (int(HOSTILE[i % n]) >> 4 * j & 15) << 4
    return data


def test_table():
    rows = {}
    for line in dump(["table"]).decode().split("\n")[:-1]:
        number, name, block, size, decodable = line.split()
        rows[int(number)] = (name, int(block), int(size), decodable == "1")
    for t in Type:
        block, size = gguf.GGML_QUANT_SIZES[t]
        if t.name == "Q8_1":
            size = 36  # the package still lists the 40 bytes of an older layout
        check(rows.get(int(t), (None,))[:3] == (t.name, block, size), f"table entry of {t.name}: {rows.get(int(t))}")
        check(int(t) in rows and rows[int(t)][3] == (t.name in SCALES), f"{t.name} is decodable or not")
    check(len(rows) == len(Type), f"{len(rows)} types in the table, {len(Type)} in the package")


def test_decoders():
    rng = np.random.default_rng(20240601)
    for name in SCALES:
        data = blocks(name, rng)
        want = gguf.dequantize(data.reshape(1, -1), Type[name]).ravel()
        got = np.frombuffer(dump(["decode", str(int(Type[name]))], data.tobytes()), np.float32)
        plain = name in ("F32", "BF16")
        check(same(got, want, nan_is_nan=not plain), f"decode of {name}")
        if name not in FINITE:
            check(np.isnan(want).any() and np.isinf(want).any(), f"the blocks of {name} hold NaN and infinity")
        print(f"{name}: {want.size} elements compared")


def test_conversions():
    rng = np.random.default_rng(7)
    all16 = np.arange(65536, dtype=np.uint16)
    wide = np.frombuffer(dump(["f16_to_f32"], all16.tobytes()), np.float32)
    check(same(wide, all16.view(np.float16).astype(np.float32), nan_is_nan=True), "f16 to f32, all values")
    back = np.frombuffer(dump(["f32_to_f16"], wide.tobytes()), np.uint16)
    number = ~np.isnan(wide)
    check((back[number] == all16[number]).all(), "f16 to f32 to f16, all numbers")
    check(np.isnan(back[~number].view(np.float16)).all(), "NaN stays NaN through f16")
    wide = np.frombuffer(dump(["bf16_to_f32"], all16.tobytes()), np.float32)
    check((wide.view(np.uint32) == all16.astype(np.uint32) << 16).all(), "bf16 to f32, all values")
    back = np.frombuffer(dump(["f32_to_bf16"], wide.tobytes()), np.uint16)
    check((back[~np.isnan(wide)] == all16[~np.isnan(wide)]).all(), "bf16 to f32 to bf16, all numbers")
    check(np.isnan((back[np.isnan(wide)].astype(np.uint32) << 16).view(np.float32)).all(), "NaN stays NaN, bf16")

    # Random bits, every f16 neighbourhood (the value, its midpoint to the next, one ulp to each side), edges.
    numbers = all16[(all16 & 0x7fff) < 0x7c00].view(np.float16).astype(np.float32)
    steps = np.abs(np.nextafter(numbers.astype(np.float16), np.float16(np.inf)).astype(np.float32) - numbers)
    middle = numbers + np.where(np.isfinite(steps), steps, 0) * np.float32(0.5)
    near = np.concatenate([numbers, middle])
    values = np.concatenate([near, np.nextafter(near, np.float32(np.inf)), np.nextafter(near, np.float32(-np.inf)),
                             rng.integers(0, 2**32, 2_000_000, np.uint32).view(np.float32),
                             np.array([65504, 65519.996, 65520, -65520, 2**-24, 2**-25, 2**-25 * 1.0000001, np.inf,
                                       -np.inf, np.nan, 0.0, -0.0, 3.4e38, 1e-45], np.float32)])
    got = np.frombuffer(dump(["f32_to_f16"], values.tobytes()), np.float16)
    check(same(got, values.astype(np.float16), nan_is_nan=True), "f32 to f16, round to nearest even")
    got = np.frombuffer(dump(["f32_to_bf16"], values.tobytes()), np.uint16)
    want = gguf.quantize(values.reshape(1, -1), Type.BF16).view(np.uint16).ravel()
    check((got == want).all(), "f32 to bf16, round to nearest even")
    print(f"{values.size} conversions compared")


test_table()
test_decoders()
test_conversions()
print("decode: %s" % ("FAILED" if failures else "all equal"))
sys.exit(1 if failures else 0)
