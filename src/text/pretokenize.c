/* Owns the cutting of text into words before byte-level BPE: hand-written matchers for the regular expressions
 * of the pre-tokenisers `smollm` and `qwen2`.
 *
 * By hand, not with PCRE2: the reference (Hugging Face, Oniguruma) and PCRE2 follow different Unicode versions,
 * \s+(?!\S) backtracks, and each alternative is one run of a character class, so a matcher is short and linear
 * for sure. Every character of a text belongs to exactly one word.
 *
 *   GPT-2   's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
 *   smollm  every numeric character is a word; GPT-2's expression on what lies between, each part on its own
 *   qwen2   (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
 */
#include "text/vocab_internal.h"

struct scan {
    const char *text;
    size_t len;
    unsigned stop; /* a character of these classes ends the text (smollm's numeric characters) */
};

struct ch {
    uint32_t cp;
    unsigned cls; /* UNICODE_* flags */
    size_t n;     /* bytes; 0: the text ends here */
};

static struct ch peek(const struct scan *s, size_t pos)
{
    struct ch c = {0, 0, 0};
    if (pos < s->len) {
        c.n = (size_t)utf8_decode(s->text + pos, s->len - pos, &c.cp);
        c.cls = unicode_class(c.cp);
        if (c.cls & s->stop)
            c.n = 0;
    }
    return c;
}

static bool is_letter(struct ch c)
{
    return c.n && (c.cls & UNICODE_LETTER);
}

static bool is_other(struct ch c) /* [^\s\p{L}\p{N}] */
{
    return c.n && !(c.cls & (UNICODE_SPACE | UNICODE_LETTER | UNICODE_NUMBER));
}

static bool is_newline(struct ch c)
{
    return c.n && (c.cp == '\r' || c.cp == '\n');
}

static size_t skip(const struct scan *s, size_t pos, bool (*is)(struct ch))
{
    for (struct ch c; is(c = peek(s, pos));)
        pos += c.n;
    return pos;
}

/* Length of an English contraction at pos, which holds an apostrophe; 0: none. any_case also takes U+017F for s. */
static size_t contraction(const struct scan *s, size_t pos, bool any_case)
{
    struct ch a = peek(s, pos + 1), b;
    uint32_t c = a.cp, d;
    if (!a.n)
        return 0;
    if (any_case && c == 0x17F)
        c = 's';
    if (any_case && c < 0x80)
        c |= 0x20;
    if (c == 's' || c == 't' || c == 'm' || c == 'd')
        return 1 + a.n;
    if (c != 'r' && c != 'v' && c != 'l')
        return 0;
    b = peek(s, pos + 2);
    d = any_case && b.cp < 0x80 ? b.cp | 0x20 : b.cp;
    return b.n && d == (c == 'l' ? 'l' : 'e') ? 3 : 0;
}

/* Ends a run of spaces that begins at pos. newlines: \s*[\r\n]+ comes first. */
static size_t spaces(const struct scan *s, size_t pos, bool newlines)
{
    size_t end = pos, last = pos, after_newline = 0;
    struct ch c;
    while ((c = peek(s, end)).n && (c.cls & UNICODE_SPACE)) {
        last = end;
        end += c.n;
        if (is_newline(c))
            after_newline = end;
    }
    if (newlines && after_newline)
        return after_newline;
    /* \s+(?!\S): up to the end of the text, or all but the last, which belongs to the word that follows */
    return !c.n || last == pos ? end : last;
}

static size_t smollm_next(const char *text, size_t len, size_t pos)
{
    struct scan s = {text, len, 0};
    struct ch c = peek(&s, pos);
    if (c.cls & UNICODE_DIGIT)
        return pos + c.n;
    s.stop = UNICODE_DIGIT;
    size_t n = c.cp == '\'' ? contraction(&s, pos, false) : 0;
    if (n)
        return pos + n;
    size_t word = c.cp == ' ' ? pos + 1 : pos; /* " ?" */
    struct ch d = peek(&s, word);
    if (is_letter(d))
        return skip(&s, word, is_letter);
    if (is_other(d))
        return skip(&s, word, is_other);
    return spaces(&s, pos, false);
}

static size_t qwen2_next(const char *text, size_t len, size_t pos)
{
    struct scan s = {text, len, 0};
    struct ch c = peek(&s, pos);
    size_t n = c.cp == '\'' ? contraction(&s, pos, true) : 0;
    if (n)
        return pos + n;
    if (is_letter(c))
        return skip(&s, pos, is_letter);
    if (c.cls & UNICODE_NUMBER)
        return pos + c.n;
    if (!is_newline(c) && is_letter(peek(&s, pos + c.n)))
        return skip(&s, pos + c.n, is_letter);
    size_t word = c.cp == ' ' ? pos + 1 : pos;
    if (is_other(peek(&s, word)))
        return skip(&s, skip(&s, word, is_other), is_newline);
    return spaces(&s, pos, true);
}

size_t pretok_next(enum pretok pre, const char *text, size_t len, size_t pos)
{
    return pre == PRETOK_SMOLLM ? smollm_next(text, len, pos) : qwen2_next(text, len, pos);
}
