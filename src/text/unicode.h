/* Unicode for tokenizers: strict UTF-8, the classes of characters that pre-tokenisers ask for, and NFC.
 *
 * Pure functions over bytes. Classes come from a table in the tree (unicode_table.c) so that ids do not depend
 * on the system's Unicode version; NFC's data come from utf8proc. */
#ifndef HASTEN_TEXT_UNICODE_H
#define HASTEN_TEXT_UNICODE_H
#include "base/mem.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    UNICODE_LETTER = 1,
    UNICODE_NUMBER = 2,
    UNICODE_DIGIT = 4,
    UNICODE_SPACE = 8
};

struct unicode_range { /* lo..hi inclusive */
    uint32_t lo, hi, flags;
};
extern const struct unicode_range unicode_ranges[];
extern const int unicode_n_ranges;

/* Reads the character at s[0, len), len >= 1, as the Unicode Standard's table 3-7 allows (no surrogates, no
 * overlong forms, at most U+10FFFF). Returns its length 1..4 and writes *cp; 0 when the first byte cannot begin
 * a character here; -1 when s is a proper beginning of a character. */
int utf8_decode(const char *s, size_t len, uint32_t *cp);
/* Writes cp (a valid scalar value) and returns its length 1..4. */
int utf8_encode(uint32_t cp, char out[4]);
/* Length of the longest beginning of s that is valid UTF-8. */
size_t utf8_valid_run(const char *s, size_t len);

/* Flags of cp: \p{L}, \p{N}, the numeric test of the Digits step, \s (White_Space). */
unsigned unicode_class(uint32_t cp);

/* Working memory of unicode_nfc; zero-initialise, free with unicode_nfc_free. */
struct unicode_nfc {
    int32_t *cps, *sorted;
    size_t n, cap, sorted_cap;
    struct buf out;
};
/* Normalisation form C of s[0, len), which must be valid UTF-8, in linear time. On success *res, *res_len is s
 * itself when nothing changes for sure, else memory of w that lives until the next call. -1: out of memory. */
int unicode_nfc(struct unicode_nfc *w, const char *s, size_t len, const char **res, size_t *res_len);
void unicode_nfc_free(struct unicode_nfc *w);

#endif
