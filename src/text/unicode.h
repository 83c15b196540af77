/* Unicode for tokenizers: strict UTF-8, the classes of characters that pre-tokenisers ask for, and the
 * normalisation forms.
 *
 * Pure functions over bytes. Classes come from a table in the tree (unicode_table.c) so that ids do not depend
 * on the system's Unicode version; the normal forms' data
 * come from utf8proc. */
#ifndef HASTEN_TEXT_UNICODE_H
#define HASTEN_TEXT_UNICODE_H
#include "base/mem.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { /* in the order of scripts/make_unicode_table.py */
    UNICODE_LETTER = 1,
    UNICODE_NUMBER = 2,
    UNICODE_DIGIT = 4, /* numeric for the Digits step */
    UNICODE_SPACE = 8,
    UNICODE_MARK = 0x10,
    UNICODE_PUNCT = 0x20,
    UNICODE_SYMBOL = 0x40,
    UNICODE_UPPER = 0x80, /* Lu, Lt */
    UNICODE_LOWER = 0x100,
    UNICODE_HAN = 0x200,
    UNICODE_DECIMAL = 0x400,      /* \d */
    UNICODE_WORD = 0x800,         /* \w */
    UNICODE_STEP_WORD = 0x1000,   /* \w of the Whitespace step and of single_word */
    UNICODE_BERT_PUNCT = 0x2000,  /* set apart by BertPreTokenizer */
    UNICODE_BERT_DROP = 0x4000,   /* dropped by BertNormalizer's clean_text */
    UNICODE_BERT_ACCENT = 0x8000, /* dropped by its strip_accents */
    UNICODE_DEEPSEEK = 0x10000,   /* a letter of deepseek-llm's expression */
    UNICODE_STEP_MARK = 0x20000,  /* dropped by the StripAccents step */
    UNICODE_DECOMPOSES = 0x40000  /* changed by the forms NFKD or NFD */
};

struct unicode_range { /* lo..hi inclusive */
    uint32_t lo, hi, flags;
};
extern const uint32_t unicode_ascii[128];
extern const struct unicode_range unicode_ranges[];
extern const int unicode_n_ranges;

struct unicode_case { /* lo, lo + stride .. hi become those + delta */
    uint32_t lo, hi, stride;
    int32_t delta;
};
extern const struct unicode_case unicode_lowers[];
extern const int unicode_n_lowers;

/* Reads the character at s[0, len), len >= 1, as the Unicode Standard's table 3-7 allows (no surrogates, no
 * overlong forms, at most U+10FFFF). Returns its length 1..4 and writes *cp; 0 when the first byte cannot begin
 * a character here; -1 when s is a proper beginning of a character. */
int utf8_decode(const char *s, size_t len, uint32_t *cp);
/* Writes cp (a valid scalar value) and returns its length 1..4. */
int utf8_encode(uint32_t cp, char out[4]);
/* Length of the longest beginning of s that is valid UTF-8. */
size_t utf8_valid_run(const char *s, size_t len);

/* Flags of cp, UNICODE_*. */
unsigned unicode_class(uint32_t cp);

/* cp in lower case; U+0130, whose lower case is two characters, stays. */
uint32_t unicode_lower(uint32_t cp);

enum unicode_form {
    UNICODE_NFC,
    UNICODE_NFD,
    UNICODE_NFKC,
    UNICODE_NFKD
};

/* Working memory of unicode_normal; zero-initialise, free with unicode_nfc_free. */
struct unicode_nfc {
    enum unicode_form form;
    int32_t *cps, *sorted;
    size_t n, cap, sorted_cap;
    struct buf out;
};
/* Normalisation form of s[0, len), which must be valid UTF-8, in linear time. On success *res, *res_len is s
 * itself when nothing changes for sure, else memory of w that lives until the next call. -1: out of memory. */
int unicode_normal(struct unicode_nfc *w, enum unicode_form form, const char *s, size_t len, const char **res,
                   size_t *res_len);
/* unicode_normal to form C. */
int unicode_nfc(struct unicode_nfc *w, const char *s, size_t len, const char **res, size_t *res_len);
void unicode_nfc_free(struct unicode_nfc *w);

#endif
