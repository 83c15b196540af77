/* JSON text (json_out.h). */
#include "serve/json_out.h"
#include "text/unicode.h"
#include <math.h>
#include <string.h>

#define REPLACEMENT "\xEF\xBF\xBD"

/* Bytes at s that are one U+FFFD: the longest proper beginning of a character, else one byte (the Unicode Standard,
 * section 3.9, "maximal subparts"). */
static size_t broken_run(const char *s, size_t len)
{
    uint32_t cp;
    size_t n = 1;
    while (n < len && n < 4 && utf8_decode(s, n + 1, &cp) == -1)
        n++;
    return n;
}

static int put_escaped(struct buf *b, unsigned char c)
{
    switch (c) {
    case '"':
        return buf_puts(b, "\\\"");
    case '\\':
        return buf_puts(b, "\\\\");
    case '\n':
        return buf_puts(b, "\\n");
    case '\r':
        return buf_puts(b, "\\r");
    case '\t':
        return buf_puts(b, "\\t");
    default:
        return buf_printf(b, "\\u%04x", c);
    }
}

/* A run of valid UTF-8. */
static int put_valid(struct buf *b, const char *s, size_t len)
{
    int bad = 0;
    size_t from = 0;
    for (size_t i = 0; i < len && !bad; i++) {
        const unsigned char c = (unsigned char)s[i];
        if (c >= 0x20 && c != '"' && c != '\\' && c != 0x7f)
            continue;
        bad = buf_put(b, s + from, i - from) || put_escaped(b, c);
        from = i + 1;
    }
    return bad || buf_put(b, s + from, len - from);
}

int out_text(struct buf *b, const char *s, size_t len)
{
    int bad = buf_putc(b, '"');
    for (size_t i = 0; i < len && !bad;) {
        const size_t run = utf8_valid_run(s + i, len - i);
        bad = put_valid(b, s + i, run);
        i += run;
        if (i < len && !bad) {
            bad = buf_puts(b, REPLACEMENT);
            i += broken_run(s + i, len - i);
        }
    }
    return bad || buf_putc(b, '"') ? -1 : 0;
}

int out_str(struct buf *b, const char *s)
{
    return s ? out_text(b, s, strlen(s)) : buf_puts(b, "null");
}

int out_number(struct buf *b, double v)
{
    return isfinite(v) ? buf_printf(b, "%.9g", v) : buf_puts(b, "null");
}

int out_comma(struct buf *b)
{
    const char last = b->len ? b->data[b->len - 1] : '{';
    return last == '{' || last == '[' || last == ',' ? 0 : buf_putc(b, ',');
}

int out_key(struct buf *b, const char *key)
{
    return out_comma(b) || out_str(b, key) || buf_putc(b, ':') ? -1 : 0;
}

int out_ids(struct buf *b, const int32_t *ids, int64_t n)
{
    int bad = buf_putc(b, '[');
    for (int64_t i = 0; i < n && !bad; i++)
        bad = buf_printf(b, i ? ",%d" : "%d", (int)ids[i]);
    return bad || buf_putc(b, ']') ? -1 : 0;
}

int out_base64(struct buf *b, const void *data, size_t len)
{
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const unsigned char *d = data;
    int bad = 0;
    for (size_t i = 0; i < len && !bad; i += 3) {
        const size_t n = len - i < 3 ? len - i : 3;
        const uint32_t v =
            (uint32_t)d[i] << 16 | (n > 1 ? (uint32_t)d[i + 1] << 8 : 0) | (n > 2 ? d[i + 2] : 0);
        const char four[4] = {letters[v >> 18], letters[v >> 12 & 63], n > 1 ? letters[v >> 6 & 63] : '=',
                              n > 2 ? letters[v & 63] : '='};
        bad = buf_put(b, four, 4);
    }
    return bad;
}
