/* Owns UTF-8 decoding, character classes and NFC for the tokenizers.
 *
 * NFC is not left to utf8proc_map: that calls malloc behind our back and orders combining marks by bubble sort,
 * quadratic on a long run of marks. Here utf8proc gives the data (decompositions, combining classes) and the
 * composition pass over text that is already in canonical order, which is linear; the ordering is our own
 * (Unicode Standard Annex 15, canonical ordering: a stable sort by combining class). */
#include "text/unicode.h"
#include <string.h>
#include <utf8proc.h>

int utf8_decode(const char *s, size_t len, uint32_t *cp)
{
    const unsigned char *p = (const unsigned char *)s;
    uint32_t c = p[0];
    if (c < 0x80) {
        *cp = c;
        return 1;
    }
    if (c < 0xC2 || c > 0xF4)
        return 0;
    int n = c < 0xE0 ? 2 : c < 0xF0 ? 3 : 4;
    uint32_t lo = 0x80, hi = 0xBF; /* bounds of the second byte */
    if (c == 0xE0)
        lo = 0xA0;
    else if (c == 0xED)
        hi = 0x9F;
    else if (c == 0xF0)
        lo = 0x90;
    else if (c == 0xF4)
        hi = 0x8F;
    uint32_t v = c & (0x7Fu >> n);
    for (int i = 1; i < n; i++) {
        if ((size_t)i >= len)
            return -1;
        if (p[i] < lo || p[i] > hi)
            return 0;
        v = v << 6 | (p[i] & 0x3Fu);
        lo = 0x80;
        hi = 0xBF;
    }
    *cp = v;
    return n;
}

int utf8_encode(uint32_t cp, char out[4])
{
    if (cp < 0x80) {
        out[0] = (char)cp;
        return 1;
    }
    if (cp < 0x800) {
        out[0] = (char)(0xC0 | cp >> 6);
        out[1] = (char)(0x80 | (cp & 0x3F));
        return 2;
    }
    if (cp < 0x10000) {
        out[0] = (char)(0xE0 | cp >> 12);
        out[1] = (char)(0x80 | (cp >> 6 & 0x3F));
        out[2] = (char)(0x80 | (cp & 0x3F));
        return 3;
    }
    out[0] = (char)(0xF0 | cp >> 18);
    out[1] = (char)(0x80 | (cp >> 12 & 0x3F));
    out[2] = (char)(0x80 | (cp >> 6 & 0x3F));
    out[3] = (char)(0x80 | (cp & 0x3F));
    return 4;
}

size_t utf8_valid_run(const char *s, size_t len)
{
    size_t i = 0;
    uint32_t cp;
    while (i < len) {
        int n = utf8_decode(s + i, len - i, &cp);
        if (n <= 0)
            break;
        i += (size_t)n;
    }
    return i;
}

unsigned unicode_class(uint32_t cp)
{
    if (cp < 0x80)
        return unicode_ascii[cp];
    int lo = 0, hi = unicode_n_ranges - 1;
    while (lo <= hi) {
        int mid = (lo + hi) / 2;
        if (cp < unicode_ranges[mid].lo)
            hi = mid - 1;
        else if (cp > unicode_ranges[mid].hi)
            lo = mid + 1;
        else
            return unicode_ranges[mid].flags;
    }
    return 0;
}

uint32_t unicode_lower(uint32_t cp)
{
    if (cp < 0x80)
        return cp >= 'A' && cp <= 'Z' ? cp | 0x20 : cp;
    int lo = 0, hi = unicode_n_lowers - 1;
    while (lo <= hi) {
        int mid = (lo + hi) / 2;
        const struct unicode_case *r = &unicode_lowers[mid];
        if (cp < r->lo)
            hi = mid - 1;
        else if (cp > r->hi)
            lo = mid + 1;
        else
            return (cp - r->lo) % r->stride ? cp : (uint32_t)((int32_t)cp + r->delta);
    }
    return cp;
}

/* ---- normalisation forms ------------------------------------------------------------------------------ */

/* First character that a form may change: combining marks begin at U+0300, Latin letters that decompose at
 * U+00C0, compatibility characters at U+00A0. */
static uint32_t nfc_first(enum unicode_form form)
{
    return form == UNICODE_NFC ? 0x300 : form == UNICODE_NFD ? 0xC0 : 0xA0;
}

/* Characters that the form never changes and that never join with the character before them: everything below
 * nfc_first and the CJK ideographs. Text between two of them can be normalised on its own. */
static bool nfc_inert(enum unicode_form form, uint32_t cp)
{
    return cp < nfc_first(form) || (cp >= 0x3400 && cp <= 0x9FFF);
}

static int nfc_reserve(int32_t **a, size_t *cap, size_t need)
{
    if (need <= *cap)
        return 0;
    size_t c = *cap ? *cap : 256;
    while (c < need)
        c *= 2;
    int32_t *p = mem_realloc(*a, c * sizeof(int32_t));
    if (!p)
        return -1;
    *a = p;
    *cap = c;
    return 0;
}

static unsigned combining_class(int32_t cp)
{
    return (unsigned)utf8proc_get_property(cp)->combining_class & 0xFF;
}

/* Stable sort of marks a[0, n) by combining class: insertion for the usual few, counting for long runs. */
static int nfc_sort_marks(struct unicode_nfc *w, int32_t *a, size_t n)
{
    if (n <= 16) {
        for (size_t i = 1; i < n; i++) {
            int32_t x = a[i];
            unsigned c = combining_class(x);
            size_t j = i;
            for (; j > 0 && combining_class(a[j - 1]) > c; j--)
                a[j] = a[j - 1];
            a[j] = x;
        }
        return 0;
    }
    if (nfc_reserve(&w->sorted, &w->sorted_cap, n))
        return -1;
    size_t at[257] = {0};
    for (size_t i = 0; i < n; i++)
        at[combining_class(a[i]) + 1]++;
    for (int c = 0; c < 256; c++)
        at[c + 1] += at[c];
    for (size_t i = 0; i < n; i++)
        w->sorted[at[combining_class(a[i])]++] = a[i];
    memcpy(a, w->sorted, n * sizeof(int32_t));
    return 0;
}

static int nfc_order(struct unicode_nfc *w)
{
    for (size_t i = 0; i < w->n;) {
        if (combining_class(w->cps[i]) == 0) {
            i++;
            continue;
        }
        size_t j = i + 1;
        while (j < w->n && combining_class(w->cps[j]) != 0)
            j++;
        if (j - i > 1 && nfc_sort_marks(w, w->cps + i, j - i))
            return -1;
        i = j;
    }
    return 0;
}

enum {
    DECOMPOSED = 32 /* characters that one becomes: 18 at most (U+FDFA), 4 canonically */
};

/* Normalises the block s[0, len) and appends it to w->out. */
static int nfc_block(struct unicode_nfc *w, const char *s, size_t len)
{
    bool compat = w->form == UNICODE_NFKC || w->form == UNICODE_NFKD;
    bool compose = w->form == UNICODE_NFC || w->form == UNICODE_NFKC;
    w->n = 0;
    for (size_t i = 0; i < len;) {
        uint32_t cp;
        i += (size_t)utf8_decode(s + i, len - i, &cp);
        if (nfc_reserve(&w->cps, &w->cap, w->n + DECOMPOSED))
            return -1;
        int bound = 0;
        utf8proc_ssize_t k = 0;
        if (unicode_class(cp) &
            UNICODE_DECOMPOSES) /* the library may know a newer Unicode than the reference */
            k = utf8proc_decompose_char((int32_t)cp, w->cps + w->n, DECOMPOSED,
                                        compat ? UTF8PROC_DECOMPOSE | UTF8PROC_STABLE | UTF8PROC_COMPAT
                                               : UTF8PROC_DECOMPOSE | UTF8PROC_STABLE,
                                        &bound);
        if (k < 1 || k > DECOMPOSED) { /* it stays as it is */
            w->cps[w->n] = (int32_t)cp;
            k = 1;
        }
        w->n += (size_t)k;
    }
    if (nfc_order(w))
        return -1;
    utf8proc_ssize_t m = (utf8proc_ssize_t)w->n;
    if (compose)
        m = utf8proc_normalize_utf32(w->cps, m, UTF8PROC_COMPOSE | UTF8PROC_STABLE);
    for (utf8proc_ssize_t i = 0; i < m; i++) {
        char u[4];
        int k = utf8_encode((uint32_t)w->cps[i], u);
        if (buf_put(&w->out, u, (size_t)k))
            return -1;
    }
    return 0;
}

int unicode_normal(struct unicode_nfc *w, enum unicode_form form, const char *s, size_t len, const char **res,
                   size_t *res_len)
{
    const unsigned char plain = form == UNICODE_NFC ? 0xCC : form == UNICODE_NFD ? 0xC3 : 0xC2;
    w->form = form;
    *res = s;
    *res_len = len;
    buf_clear(&w->out);
    size_t done = 0, prev = 0; /* s[0, done) is in out; prev: start of the character before i */
    uint32_t cp = 0;
    for (size_t i = 0; i < len;) {
        if ((unsigned char)s[i] < plain) { /* below nfc_first, or nearly */
            prev = i;
            i += (unsigned char)s[i] < 0x80 ? 1 : 2;
            continue;
        }
        size_t n = (size_t)utf8_decode(s + i, len - i, &cp);
        if (nfc_inert(form, cp)) {
            prev = i;
            i += n;
            continue;
        }
        size_t start = prev < done ? done : prev, end = i + n;
        while (end < len) {
            n = (size_t)utf8_decode(s + end, len - end, &cp);
            if (nfc_inert(form, cp))
                break;
            end += n;
        }
        if (buf_put(&w->out, s + done, start - done) || nfc_block(w, s + start, end - start))
            return -1;
        done = prev = i = end;
    }
    if (!done)
        return 0;
    if (buf_put(&w->out, s + done, len - done))
        return -1;
    *res = w->out.data;
    *res_len = w->out.len;
    return 0;
}

int unicode_nfc(struct unicode_nfc *w, const char *s, size_t len, const char **res, size_t *res_len)
{
    return unicode_normal(w, UNICODE_NFC, s, len, res, res_len);
}

void unicode_nfc_free(struct unicode_nfc *w)
{
    mem_free(w->cps);
    mem_free(w->sorted);
    buf_free(&w->out);
    memset(w, 0, sizeof *w);
}
