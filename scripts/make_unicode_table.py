#!/usr/bin/env python3
"""Writes src/text/unicode_table.c: the character classes that pre-tokenisers use.

The classes are those of the reference, Hugging Face `tokenizers`, asked character by character: \\p{L} and \\p{N}
of its regular expressions, and the numeric test of its Digits step (which follows a newer Unicode than the
expressions do). Ids must equal the reference's, whatever Unicode version the system's libraries know, so the
answers are kept in the tree. Run again when the reference moves to a newer Unicode:

    python3 scripts/make_unicode_table.py > src/text/unicode_table.c
"""
import tokenizers
from tokenizers import Regex, pre_tokenizers

CODES = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]


def matching(pattern):
    """The characters that one-character pattern matches."""
    split = pre_tokenizers.Split(Regex(pattern), "removed")
    found = set()
    for k in range(0, len(CODES), 2048):
        block = CODES[k : k + 2048]
        kept = set()
        for _, (a, b) in split.pre_tokenize_str("".join(map(chr, block))):
            kept.update(range(a, b))
        found.update(c for i, c in enumerate(block) if i not in kept)
    return found


def main():
    letters, numbers = matching(r"\p{L}"), matching(r"\p{N}")
    digits = pre_tokenizers.Digits(individual_digits=True)
    numeric = {c for c in CODES if len(digits.pre_tokenize_str("a" + chr(c) + "a")) == 3}
    ranges = []
    for c in range(0x110000):
        flags = (1 if c in letters else 0) | (2 if c in numbers else 0) | (4 if c in numeric else 0)
        if not flags:
            continue
        if ranges and ranges[-1][1] == c - 1 and ranges[-1][2] == flags:
            ranges[-1][1] = c
        else:
            ranges.append([c, c, flags])
    print("/* Made by scripts/make_unicode_table.py from Hugging Face tokenizers %s; do not edit." % tokenizers.__version__)
    print(" *")
    print(" * Owns the classes of characters that pre-tokenisers ask for. Sorted, disjoint ranges; flags: 1 letter,")
    print(" * 2 number, 4 numeric for the Digits step (UNICODE_LETTER, UNICODE_NUMBER, UNICODE_DIGIT). */")
    print('#include "text/unicode.h"\n')
    print("/* clang-format off */\nconst struct unicode_range unicode_ranges[] = {")
    line = "   "
    for a, b, f in ranges:
        item = " {0x%X, 0x%X, %d}," % (a, b, f)
        if len(line) + len(item) > 108:
            print(line)
            line = "   "
        line += item
    print(line)
    print("};\n/* clang-format on */\n")
    print("const int unicode_n_ranges = %d;" % len(ranges))


main()
