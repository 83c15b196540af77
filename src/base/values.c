/* See values.h. */
#include "base/values.h"
#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

bool value_starts_blank(const char *text)
{
    return isspace((unsigned char)text[0]);
}

hasten_status value_int(const char *text, double lo, double hi, int32_t *out, struct hasten_error *err)
{
    char *end;
    errno = 0;
    long long x = strtoll(text, &end, 10);
    if (value_starts_blank(text) || end == text || *end || errno || (double)x < lo || (double)x > hi)
        return error_set(err, HASTEN_ERR_USAGE, "'%s' (expected an integer from %.0f to %.0f)", text, lo, hi);
    *out = (int32_t)x;
    return HASTEN_OK;
}

hasten_status value_float(const char *text, double lo, double hi, float *out, struct hasten_error *err)
{
    char *end;
    errno = 0;
    double x = strtod(text, &end);
    if (value_starts_blank(text) || end == text || *end || !isfinite(x) || x < lo || x > hi)
        return error_set(err, HASTEN_ERR_USAGE,
                         lo == VALUE_ABOVE_ZERO ? "'%s' (expected a number above %g, at most %g)"
                                                : "'%s' (expected a number from %g to %g)",
                         text, lo == VALUE_ABOVE_ZERO ? 0 : lo, hi);
    *out = (float)x;
    return HASTEN_OK;
}

hasten_status value_flag(const char *text, bool *out, struct hasten_error *err)
{
    static const char *const yes[] = {"1", "true", "yes", "on"}, *const no[] = {"0", "false", "no", "off"};
    for (int i = 0; i < 4; i++) {
        if (strcmp(text, yes[i]) == 0 || strcmp(text, no[i]) == 0) {
            *out = strcmp(text, yes[i]) == 0;
            return HASTEN_OK;
        }
    }
    return error_set(err, HASTEN_ERR_USAGE, "'%s' (expected yes or no)", text);
}

size_t value_choice_next(const char **at, const char **choice)
{
    if (!*at)
        return 0;
    *choice = *at;
    const size_t n = strcspn(*at, "|");
    *at = (*at)[n] ? *at + n + 1 : NULL;
    return n;
}

/* Edit distance where exchanging two neighbours is one step (optimal string alignment). */
hasten_status value_size(const char *text, uint64_t *out, struct hasten_error *err)
{
    static const char units[] = "KMGT";
    char *end;
    errno = 0;
    double x = isdigit((unsigned char)text[0]) || text[0] == '.' ? strtod(text, &end) : -1;
    if (x < 0 || errno)
        return error_set(err, HASTEN_ERR_USAGE, "'%s' (expected a size such as 512M or 4G)", text);
    double unit = 1;
    const char *u = *end ? strchr(units, toupper((unsigned char)*end)) : NULL;
    if (u) {
        unit = ldexp(1, 10 * (int)(u - units + 1));
        end++;
        if (*end == 'i')
            end++;
    }
    if (*end == 'B' || *end == 'b')
        end++;
    if (*end || x * unit > 0x1p62)
        return error_set(err, HASTEN_ERR_USAGE, "'%s' (expected a size such as 512M or 4G)", text);
    *out = (uint64_t)(x * unit);
    return HASTEN_OK;
}

static size_t edit_distance(const char *a, size_t n, const char *b, size_t m)
{
    size_t rows[3][VALUE_WORD_BYTES + 1], *before = rows[0], *last = rows[1], *row = rows[2];
    for (size_t j = 0; j <= m; j++)
        last[j] = j;
    for (size_t i = 1; i <= n; i++) {
        row[0] = i;
        for (size_t j = 1; j <= m; j++) {
            size_t best = last[j - 1] + (a[i - 1] != b[j - 1]);
            size_t step = (last[j] < row[j - 1] ? last[j] : row[j - 1]) + 1;
            best = step < best ? step : best;
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] && before[j - 2] + 1 < best)
                best = before[j - 2] + 1;
            row[j] = best;
        }
        size_t *spare = before;
        before = last;
        last = row;
        row = spare;
    }
    return last[m];
}

const char *nearest_word(const char *word, const char *const *words, int n)
{
    const char *best = NULL;
    size_t len = strlen(word), best_distance = len <= 4 ? 2 : len <= 8 ? 3 : 4; /* must be less */
    if (len > VALUE_WORD_BYTES)
        return NULL;
    for (int w = 0; w < n; w++) {
        size_t m = strlen(words[w]);
        size_t d = m > VALUE_WORD_BYTES ? best_distance : edit_distance(word, len, words[w], m);
        if (d < best_distance && d < (len > m ? len : m)) {
            best_distance = d;
            best = words[w];
        }
    }
    return best;
}

hasten_status value_choice(const char *text, const char *choices, int *out, struct hasten_error *err)
{
    const char *at = choices, *c = NULL, *names[32];
    char text_of[32][32];
    size_t n;
    int index = 0;
    for (; (n = value_choice_next(&at, &c)) > 0; index++) {
        if (strlen(text) == n && memcmp(c, text, n) == 0) {
            *out = index;
            return HASTEN_OK;
        }
        if (index < 32 && n < sizeof text_of[0]) {
            memcpy(text_of[index], c, n);
            text_of[index][n] = 0;
            names[index] = text_of[index];
        }
    }
    const char *near = index <= 32 ? nearest_word(text, names, index) : NULL;
    return error_set(err, HASTEN_ERR_USAGE,
                     near ? "unknown value '%s' (expected %s; did you mean %s?)"
                          : "unknown value '%s' (expected %s)",
                     text, choices, near);
}

int value_hex_digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10 : -1;
}
