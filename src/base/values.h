/* Values that people write, options and knobs alike: numbers in a range, yes or no, one of several names; and the word
 * that was probably meant. Messages quote the text and say what was expected: "'3x' (expected an integer from 1 to 8)"; callers put
 * in front whose value it is. */
#ifndef HASTEN_BASE_VALUES_H
#define HASTEN_BASE_VALUES_H
#include "base/error.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define VALUE_ABOVE_ZERO 1.2e-38 /* lo of a number that must be above zero */
#define VALUE_WORD_BYTES 64      /* longer words have no suggestion */

/* No blanks on either side; all HASTEN_ERR_USAGE. */
hasten_status value_int(const char *text, double lo, double hi, int32_t *out, struct hasten_error *err);
hasten_status value_float(const char *text, double lo, double hi, float *out, struct hasten_error *err);
hasten_status value_flag(const char *text, bool *out, struct hasten_error *err);
/* "512M", "1.5GiB", "100": bytes. */
hasten_status value_size(const char *text, uint64_t *out, struct hasten_error *err);
/* Does text begin with a blank, which strtol and its kin skip? */
bool value_starts_blank(const char *text);
/* The next of "a|b|c": its length, 0 at the end. *at begins as the list. */
size_t value_choice_next(const char **at, const char **choice);
/* Index in "a|b|c"; an unknown one suggests the nearest. */
hasten_status value_choice(const char *text, const char *choices, int *out, struct hasten_error *err);

/* What a hexadecimal digit stands for; -1: it is none. */
int value_hex_digit(char c);

/* The candidate nearest to word by edit distance, or NULL if none is near (up to 3 characters: one edit, up to
 * 8: two, else three). */
const char *nearest_word(const char *word, const char *const *words, int n);

#endif
