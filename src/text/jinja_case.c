/* Code points of UTF-8 strings and their case, as Python's str sees them.
 *
 * The simple mappings are utf8proc's; code points whose upper or title form is more than one code point
 * (Unicode SpecialCasing.txt, the unconditional part) stand in jinja_special.h; the final sigma is
 * handled here. */
#include "text/jinja.h"
#include "text/jinja_special.h"
#include <string.h>
#include <utf8proc.h>

uint32_t jcp_next(const char *s, size_t len, size_t *at)
{
    size_t i = *at;
    unsigned char c = (unsigned char)s[i];
    size_t n = c < 0x80 ? 1 : c < 0xe0 ? 2 : c < 0xf0 ? 3 : 4;
    if (n > len - i)
        n = 1; /* cannot happen in valid UTF-8; do not read past the end */
    uint32_t cp = n == 1 ? c : n == 2 ? c & 0x1fu : n == 3 ? c & 0x0fu : c & 0x07u;
    for (size_t k = 1; k < n; k++)
        cp = cp << 6 | ((unsigned char)s[i + k] & 0x3fu);
    *at = i + n;
    return cp;
}

size_t jcp_put(char *dst, uint32_t cp)
{
    return (size_t)utf8proc_encode_char((utf8proc_int32_t)cp, (utf8proc_uint8_t *)dst);
}

size_t jcp_count(const char *s, size_t len)
{
    size_t n = 0;
    for (size_t i = 0; i < len; i++)
        n += ((unsigned char)s[i] & 0xc0) != 0x80;
    return n;
}

size_t jcp_offset(const char *s, size_t len, size_t n)
{
    size_t i = 0;
    for (; i < len; i++)
        if (((unsigned char)s[i] & 0xc0) != 0x80 && n-- == 0)
            return i;
    return len;
}

bool jcp_space(uint32_t cp)
{
    return (cp >= 9 && cp <= 13) || (cp >= 28 && cp <= 32) || cp == 0x85 || cp == 0xa0 || cp == 0x1680 ||
           (cp >= 0x2000 && cp <= 0x200a) || cp == 0x2028 || cp == 0x2029 || cp == 0x202f || cp == 0x205f ||
           cp == 0x3000;
}

static utf8proc_category_t category(uint32_t cp)
{
    return utf8proc_category((utf8proc_int32_t)cp);
}

bool jcp_printable(uint32_t cp)
{
    if (cp == ' ')
        return true;
    switch (category(cp)) {
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
    case UTF8PROC_CATEGORY_ZS:
        return false;
    default:
        return true;
    }
}

static bool is_cased(uint32_t cp)
{
    utf8proc_category_t c = category(cp);
    return c == UTF8PROC_CATEGORY_LU || c == UTF8PROC_CATEGORY_LL || c == UTF8PROC_CATEGORY_LT ||
           cp == 0xaa || cp == 0xba || (cp >= 0x2160 && cp <= 0x217f) || (cp >= 0x24b6 && cp <= 0x24e9);
}

bool jcp_cased(uint32_t cp, int *which)
{
    utf8proc_category_t c = category(cp);
    bool up = c == UTF8PROC_CATEGORY_LU || (cp >= 0x2160 && cp <= 0x216f) || (cp >= 0x24b6 && cp <= 0x24cf);
    *which = c == UTF8PROC_CATEGORY_LT ? 0 : up ? 1 : -1;
    return is_cased(cp);
}

bool jcp_alpha(uint32_t cp)
{
    utf8proc_category_t c = category(cp);
    return c >= UTF8PROC_CATEGORY_LU && c <= UTF8PROC_CATEGORY_LO;
}

bool jcp_digit(uint32_t cp, int which)
{
    utf8proc_category_t c = category(cp);
    if (c == UTF8PROC_CATEGORY_ND)
        return true;
    if (which == 0)
        return false;
    bool super = cp == 0xb2 || cp == 0xb3 || cp == 0xb9 || cp == 0x2070 || (cp >= 0x2074 && cp <= 0x2079) ||
                 (cp >= 0x2080 && cp <= 0x2089) || (cp >= 0x2460 && cp <= 0x2468);
    return super || (which == 2 && (c == UTF8PROC_CATEGORY_NL || c == UTF8PROC_CATEGORY_NO));
}

/* ---- case --------------------------------------------------------------------------------------------- */

static const struct special *find_special(uint32_t cp)
{
    size_t lo = 0, hi = sizeof specials / sizeof specials[0];
    while (lo < hi) {
        size_t mid = (lo + hi) / 2;
        if (specials[mid].cp == cp)
            return &specials[mid];
        if (specials[mid].cp < cp)
            lo = mid + 1;
        else
            hi = mid;
    }
    return NULL;
}

static bool put_upper(struct jbuild *b, uint32_t cp, bool title)
{
    const struct special *s = cp < 0x80 ? NULL : find_special(cp);
    if (!s) {
        utf8proc_int32_t c = (utf8proc_int32_t)cp;
        return jb_cp(b, (uint32_t)(title ? utf8proc_totitle(c) : utf8proc_toupper(c)));
    }
    const uint16_t *to = title ? s->title : s->upper;
    for (int i = 0; i < 3 && to[i]; i++)
        if (!jb_cp(b, to[i]))
            return false;
    return true;
}

static bool case_ignorable(uint32_t cp)
{
    switch (category(cp)) {
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_SK:
        return true;
    default:
        return cp == '\'' || cp == '.' || cp == ':' || cp == 0xb7 || cp == 0x2018 || cp == 0x2019 ||
               cp == 0x2024 || cp == 0x2027;
    }
}

/* Unicode 3.13, Final_Sigma: a cased letter before (walked by the caller) and none after. */
static bool cased_follows(const char *s, size_t len, size_t at)
{
    for (int i = 0; at < len && i < 64;
         i++) { /* a run of ignorables is cut, so that hostile text stays linear */
        uint32_t cp = jcp_next(s, len, &at);
        if (!case_ignorable(cp))
            return is_cased(cp);
    }
    return false;
}

static bool put_lower(struct jbuild *b, uint32_t cp, bool before, const char *s, size_t len, size_t at)
{
    if (cp == 0x130)
        return jb_cp(b, 'i') && jb_cp(b, 0x307);
    if (cp == 0x3a3)
        return jb_cp(b, before && !cased_follows(s, len, at) ? 0x3c2 : 0x3c3);
    return jb_cp(b, (uint32_t)utf8proc_tolower((utf8proc_int32_t)cp));
}

bool jinja_case(struct jrun *r, const struct jval *v, enum jcase how, struct jval *out)
{
    struct jbuild b = {.r = r};
    bool in_word = false, before = false, first = true;
    if (!jinja_work(r, (uint64_t)v->len * 4))
        return false;
    const uint8_t *origin = jarena_origin(&r->arena, v->u.s);
    for (size_t at = 0; at < v->len; first = false) {
        const size_t from = at;
        uint32_t cp = jcp_next(v->u.s, v->len, &at);
        int which;
        bool cased = jcp_cased(cp, &which), ok;
        b.content = origin && origin[from];
        bool up = how == CASE_UPPER || (how == CASE_SWAP && cased && which < 0);
        if (how == CASE_TITLE)
            up = !in_word;
        else if (how == CASE_CAPITAL)
            up = first;
        if (up)
            ok = put_upper(&b, cp, how == CASE_TITLE || how == CASE_CAPITAL);
        else if (how == CASE_SWAP && !(cased && which > 0))
            ok = jb_cp(&b, cp);
        else
            ok = put_lower(&b, cp, before, v->u.s, v->len, at);
        if (!ok)
            return false;
        in_word = cased;
        if (!case_ignorable(cp))
            before = cased;
    }
    return jb_done(&b, out);
}
