#!/usr/bin/env python3
"""Writes src/text/unicode_table.c: the character classes that pre-tokenisers and BERT's normaliser use,
and lower case.

The classes are those of the reference, Hugging Face `tokenizers`, asked character by character: the categories of
its regular expressions (Oniguruma), and the tests of its Digits, Whitespace, BertNormalizer and BertPreTokenizer steps
(which follow a newer Unicode than the expressions do). Ids must equal the reference's, whatever Unicode version the
system's libraries know, so the answers are kept in the tree. Run again when the reference moves to a newer Unicode:

    python3 scripts/make_unicode_table.py > src/text/unicode_table.c
"""
import tokenizers
from tokenizers import Regex, normalizers, pre_tokenizers

CODES = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]
# The letters of deepseek-llm's second expression (its tokenizer.json, and llama.cpp's src/llama-vocab.cpp).
DEEPSEEK = """
    41-5A 61-7A B5 C0-D6 D8-F6 F8-1BA 1BC-1BF 1C4-293 295-2AF 370-373 376 377 37B-37D 37F 386 388-38A 38C
    38E-3A1 3A3-3F5 3F7-481 48A-52F 531-556 10A0-10C5 13A0-13F5 13F8-13FD 1C90-1CBA 1CBD-1CBF 1D00-1D2B
    1D6B-1D77 1D79-1D9A 1E00-1F15 1F18-1F1D 1F20-1F45 1F48-1F4D 1F50-1F57 1F59 1F5B 1F5D 1F5F-1F7D 1F80-1FB4
    1FB6-1FBC 1FBE 1FC2-1FC4 1FC6-1FCC 1FD0-1FD3 1FD6-1FDB 1FE0-1FEC 1FF2-1FF4 1FF6-1FFC 2102 2107 210A-2113
    2115 2119-211D 2124 2126 2128 212A-212D 212F-2134 2139 213C-213F 2145-2149 214E 2183 2184 2C00-2C7B
    2C7E-2CE4 2CEB-2CEE 2CF2 2CF3 A640-A66D A680-A69B A722-A76F A771-A787 A78B-A78E AB70-ABBF FB00-FB06
    FB13-FB17 FF21-FF3A FF41-FF5A 10400-1044F 104B0-104D3 104D8-104FB 10C80-10CB2 10CC0-10CF2 118A0-118DF
    1E900-1E943
"""


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


def listed(ranges):
    """The characters of hexadecimal ranges."""
    found = set()
    for item in ranges.split():
        first, _, last = item.partition("-")
        found.update(range(int(first, 16), int(last or first, 16) + 1))
    return found


def apart(step):
    """The characters that a pre-tokeniser sets apart from the letters around them."""
    return {c for c in CODES if len(step.pre_tokenize_str("a" + chr(c) + "a")) == 3}


def joined(step):
    """The characters that a pre-tokeniser leaves together with the letters around them."""
    return {c for c in CODES if len(step.pre_tokenize_str("a" + chr(c) + "a")) == 1}


def dropped(**options):
    """The characters that BertNormalizer drops, with only these options."""
    off = dict(clean_text=False, handle_chinese_chars=False, strip_accents=False, lowercase=False)
    step = normalizers.BertNormalizer(**{**off, **options})
    return {c for c in CODES if step.normalize_str("a" + chr(c) + "b") == "ab"}


def classes():
    """(name of the flag, characters) in the order of the bits of unicode.h."""
    strip, nfkd = normalizers.StripAccents(), normalizers.NFKD()
    return [
        ("LETTER", matching(r"\p{L}")),
        ("NUMBER", matching(r"\p{N}")),
        ("DIGIT", apart(pre_tokenizers.Digits(individual_digits=True))),
        ("SPACE", matching(r"\s")),
        ("MARK", matching(r"\p{M}")),
        ("PUNCT", matching(r"\p{P}")),
        ("SYMBOL", matching(r"\p{S}")),
        ("UPPER", matching(r"[\p{Lu}\p{Lt}]")),
        ("LOWER", matching(r"\p{Ll}")),
        ("HAN", matching(r"\p{Han}")),
        ("DECIMAL", matching(r"\d")),
        ("WORD", matching(r"\w")),
        ("STEP_WORD", joined(pre_tokenizers.Whitespace())),
        ("BERT_PUNCT", apart(pre_tokenizers.BertPreTokenizer())),
        ("BERT_DROP", dropped(clean_text=True)),
        ("BERT_ACCENT", dropped(strip_accents=True)),
        ("DEEPSEEK", listed(DEEPSEEK)),
        ("STEP_MARK", {c for c in CODES if strip.normalize_str("a" + chr(c) + "b") == "ab"}),
        ("DECOMPOSES", {c for c in CODES if nfkd.normalize_str(chr(c)) != chr(c)}),
    ]


def lower_ranges():
    """Lower case as [first, last, stride, difference], of characters that become one other character."""
    step, found = normalizers.Lowercase(), []
    for c in CODES[0x80:]:
        low = step.normalize_str(chr(c))
        if low == chr(c) or len(low) != 1:
            continue
        delta = ord(low) - c
        last = found[-1] if found else None
        if last and last[3] == delta and c - last[1] <= 2 and (last[0] == last[1] or last[2] == c - last[1]):
            last[2] = c - last[1]
            last[1] = c
        else:
            found.append([c, c, 1, delta])
    return found


def main():
    flags = [0] * 0x110000
    found = classes()
    for bit, (_, chars) in enumerate(found):
        for c in chars:
            flags[c] |= 1 << bit
    ranges = []
    for c in range(0x80, 0x110000):
        if not flags[c]:
            continue
        if ranges and ranges[-1][1] == c - 1 and ranges[-1][2] == flags[c]:
            ranges[-1][1] = c
        else:
            ranges.append([c, c, flags[c]])
    names = ", ".join("%x %s" % (1 << bit, name) for bit, (name, _) in enumerate(found))
    print("/* Made by scripts/make_unicode_table.py from Hugging Face tokenizers %s; do not edit." % tokenizers.__version__)
    print(" *")
    print(" * Owns lower case, and the classes of characters that pre-tokenisers ask for: of ASCII one by one, then")
    print(" * sorted, disjoint ranges {first, last, flags}. Flags (hexadecimal, as UNICODE_* in unicode.h):")
    line = " *"
    for word in names.split(" "):
        if len(line) + len(word) > 105:
            print(line)
            line = " *"
        line += " " + word
    print(line + " */")
    print('#include "text/unicode.h"\n')
    print("/* clang-format off */\nconst uint32_t unicode_ascii[128] = {")
    fill(["0x%X," % f for f in flags[:128]])
    print("};\n\nconst struct unicode_range unicode_ranges[] = {")
    fill(["{0x%X,0x%X,0x%X}," % tuple(r) for r in ranges])
    lower = lower_ranges()
    print("};\n\n/* Lower case: {first, last, stride, what is added}. */\nconst struct unicode_case unicode_lowers[] = {")
    fill(["{0x%X,0x%X,%d,%d}," % tuple(r) for r in lower])
    print("};\n/* clang-format on */\n")
    print("const int unicode_n_ranges = %d;\nconst int unicode_n_lowers = %d;" % (len(ranges), len(lower)))


def fill(items):
    line = "   "
    for item in items:
        if len(line) + 1 + len(item) > 110:
            print(line)
            line = "   "
        line += " " + item
    print(line)


if __name__ == "__main__":
    main()
