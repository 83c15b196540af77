/* Owns the preparation of text before it is cut into words: normal forms, case, BERT's cleaning, replacements, each
 * as Hugging Face's `tokenizers` does it. Every step is one pass; a chain of steps alternates between two buffers. */
#include "text/vocab_internal.h"
#include <string.h>

/* The ideographs that BERT sets apart (Devlin et al., "BERT", 2018, tokenization.py; `tokenizers` has U+2B920
 * where that has U+2B820, and ids must equal the reference's). */
static bool is_ideograph(uint32_t cp)
{
    static const uint32_t spans[][2] = {{0x3400, 0x4DBF},   {0x4E00, 0x9FFF},   {0xF900, 0xFAFF},
                                        {0x20000, 0x2A6DF}, {0x2A700, 0x2B73F}, {0x2B740, 0x2B81F},
                                        {0x2B920, 0x2CEAF}, {0x2F800, 0x2FA1F}};
    for (size_t i = 0; i < sizeof spans / sizeof *spans; i++)
        if (cp >= spans[i][0] && cp <= spans[i][1])
            return true;
    return false;
}

/* Lower case as Rust's char::to_lowercase: the simple mapping, but for one character that becomes two. */
static int put_lower(struct buf *out, uint32_t cp)
{
    char u[4];
    if (cp == 0x130)
        return buf_put(out, "i\xCC\x87", 3);
    return buf_put(out, u, (size_t)utf8_encode(unicode_lower(cp), u));
}

/* Appends what op makes of the character cp, written s[0, n). */
static int map_char(enum text_op op, uint32_t cp, const char *s, size_t n, struct buf *out)
{
    unsigned cls = unicode_class(cp);
    switch (op) {
    case TEXT_LOWER:
        return put_lower(out, cp);
    case TEXT_DROP_MARKS:
        return cls & UNICODE_STEP_MARK ? 0 : buf_put(out, s, n);
    case TEXT_DROP_ACCENTS:
        return cls & UNICODE_BERT_ACCENT ? 0 : buf_put(out, s, n);
    case TEXT_CLEAN:
        if (cls & UNICODE_BERT_DROP)
            return 0;
        return cls & UNICODE_SPACE ? buf_putc(out, ' ') : buf_put(out, s, n);
    default: /* TEXT_SPACE_CJK */
        if (!is_ideograph(cp))
            return buf_put(out, s, n);
        return buf_putc(out, ' ') || buf_put(out, s, n) || buf_putc(out, ' ') ? -1 : 0;
    }
}

static int map_text(enum text_op op, const char *s, size_t len, struct buf *out)
{
    for (size_t i = 0, n; i < len; i += n) {
        uint32_t cp;
        n = (size_t)utf8_decode(s + i, len - i, &cp);
        if (map_char(op, cp, s + i, n, out))
            return -1;
    }
    return 0;
}

static int replace(const struct text_step *step, const char *s, size_t len, struct buf *out)
{
    for (size_t i = 0; i < len;) {
        const char *p = memmem(s + i, len - i, step->from.data, step->from.len);
        size_t n = p ? (size_t)(p - s) - i : len - i;
        if (buf_put(out, s + i, n) || (p && buf_put(out, step->to.data, step->to.len)))
            return -1;
        i += n + (p ? step->from.len : 0);
    }
    return 0;
}

static size_t space_at(const char *s, size_t len, size_t i)
{
    uint32_t cp;
    int n = utf8_decode(s + i, len - i, &cp);
    return n > 0 && (unicode_class(cp) & UNICODE_SPACE) ? (size_t)n : 0;
}

static void strip(enum text_op op, const char **s, size_t *len)
{
    size_t n;
    if (op == TEXT_STRIP_LEFT) {
        while (*len && (n = space_at(*s, *len, 0))) {
            *s += n;
            *len -= n;
        }
        return;
    }
    while (*len) {
        size_t last = *len - 1;
        while (last > 0 && ((unsigned char)(*s)[last] & 0xC0) == 0x80)
            last--;
        if (!space_at(*s, *len, last))
            return;
        *len = last;
    }
}

static bool prepends(const struct text_step *step, const char *s, size_t len)
{
    return step->op != TEXT_PREPEND_MISSING || len < step->to.len ||
           memcmp(s, step->to.data, step->to.len) != 0;
}

/* One step from *s to *s, through out where text is made. */
static int apply(struct encode_work *w, const struct text_step *step, bool prefix, struct buf *out,
                 const char **s, size_t *len)
{
    static const enum unicode_form forms[] = {[TEXT_NFC] = UNICODE_NFC,
                                              [TEXT_NFD] = UNICODE_NFD,
                                              [TEXT_NFKC] = UNICODE_NFKC,
                                              [TEXT_NFKD] = UNICODE_NFKD};
    const char *res;
    size_t n;
    buf_clear(out);
    switch ((enum text_op)step->op) {
    case TEXT_NFC:
    case TEXT_NFD:
    case TEXT_NFKC:
    case TEXT_NFKD: /* the result lies in w->nfc until the next form, so it is copied when it is new */
        if (unicode_normal(&w->nfc, forms[step->op], *s, *len, &res, &n))
            return -1;
        if (res == *s)
            return 0;
        if (buf_put(out, res, n))
            return -1;
        break;
    case TEXT_STRIP_LEFT:
    case TEXT_STRIP_RIGHT:
        strip((enum text_op)step->op, s, len);
        return 0;
    case TEXT_REPLACE:
        if (replace(step, *s, *len, out))
            return -1;
        break;
    case TEXT_PREPEND:
    case TEXT_PREPEND_MISSING:
        if (!prefix || !prepends(step, *s, *len))
            return 0;
        if (buf_put(out, step->to.data, step->to.len) || buf_put(out, *s, *len))
            return -1;
        break;
    default:
        if (map_text((enum text_op)step->op, *s, *len, out))
            return -1;
    }
    *s = out->data;
    *len = out->len;
    return 0;
}

int text_prepare(struct encode_work *w, struct buf bufs[2], const struct text_step *steps, int n, bool prefix,
                 bool first, const char **s, size_t *len)
{
    struct buf *out = &bufs[0], *other = &bufs[1];
    for (int i = 0; i < n && *len; i++) {
        const char *before = *s;
        if (apply(w, &steps[i], prefix && (first || !steps[i].first_only), out, s, len))
            return -1;
        if (*s == out->data && *s != before) {
            struct buf *t = out;
            out = other;
            other = t;
        }
    }
    return 0;
}
