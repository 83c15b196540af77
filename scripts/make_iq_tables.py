#!/usr/bin/env python3
"""Writes src/formats/quant_iq_tables.c: the codebooks of the IQ formats.

A codebook is part of a file format: which 4 or 8 values an index in a file means. The data are those of the `gguf`
Python package (classes IQ2_XXS, IQ2_XS, IQ2_S, IQ1_S, IQ3_XXS, IQ3_S of gguf/quants.py: grid_hex and grid_map); ggml
has the same in ggml-common.h.

    python3 scripts/make_iq_tables.py > src/formats/quant_iq_tables.c
"""
from importlib.metadata import version

from gguf import quants

EIGHTS = (("iq2_xxs_grid", quants.IQ2_XXS), ("iq2_xs_grid", quants.IQ2_XS), ("iq2_s_grid", quants.IQ2_S),
          ("iq1_grid", quants.IQ1_S))
FOURS = (("iq3_xxs_grid", quants.IQ3_XXS), ("iq3_s_grid", quants.IQ3_S))


def rows_of(cls):
    cls.init_grid()
    return [[int(v) for v in row] for row in cls.grid.reshape(cls.grid_shape)]


def eight(row, values):
    """Elements 0 to 3 in the low nibbles of bytes 0 to 3, elements 4 to 7 in the high ones: numbers of values."""
    codes = [values.index(v) for v in row]
    return sum(c << (8 * (e % 4) + 4 * (e // 4)) for e, c in enumerate(codes))


def four(row, _):
    return sum(v << (8 * e) for e, v in enumerate(row))


def table(name, words):
    print("const uint32_t %s[%d] = {" % (name, len(words)))
    for at in range(0, len(words), 8):
        print("    " + " ".join("0x%08x," % w for w in words[at:at + 8]))
    print("};\n")


print("/* Made by scripts/make_iq_tables.py from gguf %s; do not edit.\n *" % version("gguf"))
print(" * Owns the codebooks of the IQ formats, packed as quant_iq.h says. */")
print('#include "formats/quant_iq.h"\n\n/* clang-format off */')
for name, cls in EIGHTS:
    table(name, [eight(row, list(cls.grid_map)) for row in rows_of(cls)])
for name, cls in FOURS:
    table(name, [four(row, None) for row in rows_of(cls)])
