/* Text from formats and numbers from text: the % operator and str.format on strings (the plain part of both),
 * int() and float() of strings. */
#include "text/jinja.h"
#include <stdio.h>
#include <string.h>

/* ---- numbers from text -------------------------------------------------------------------------------- */

static int digit_of(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c = (char)(c | 32);
    return c >= 'a' && c <= 'z' ? c - 'a' + 10 : 99;
}

static bool parse_int(const char *s, size_t len, int base, struct jval *out, bool *overflow)
{
    size_t i = 0;
    int64_t v = 0;
    bool minus = false, digit_before = false, any = false;
    if (i < len && (s[i] == '-' || s[i] == '+'))
        minus = s[i++] == '-';
    if (len - i > 2 && s[i] == '0') {
        char k = (char)(s[i + 1] | 32);
        int b = k == 'x' ? 16 : k == 'o' ? 8 : k == 'b' ? 2 : 0;
        if (b && (base == 0 || base == b)) {
            base = b;
            i += 2;
            digit_before = true;
        } else if (base == 0) {
            for (size_t k2 = i; k2 < len; k2++)
                if (s[k2] != '0' && s[k2] != '_')
                    return false;
        }
    }
    if (base == 0)
        base = 10;
    for (; i < len; i++) {
        if (s[i] == '_') {
            if (!digit_before || i + 1 == len)
                return false;
            digit_before = false;
            continue;
        }
        int d = digit_of(s[i]);
        if (d >= base)
            return false;
        if (__builtin_mul_overflow(v, base, &v) ||
            (minus ? __builtin_sub_overflow(v, d, &v) : __builtin_add_overflow(v, d, &v)))
            *overflow = true;
        digit_before = any = true;
    }
    *out = jv_int(v);
    return any && digit_before;
}

static bool equal_ci(const char *s, size_t len, const char *word)
{
    if (len != strlen(word))
        return false;
    for (size_t i = 0; i < len; i++)
        if ((s[i] | 32) != word[i])
            return false;
    return true;
}

static bool parse_float(const char *s, size_t len, struct jval *out)
{
    size_t i = 0, sign = len && (s[0] == '-' || s[0] == '+') ? 1 : 0;
    const char *w = s + sign;
    size_t n = len - sign;
    if (equal_ci(w, n, "inf") || equal_ci(w, n, "infinity") || equal_ci(w, n, "nan")) {
        double f = (w[0] | 32) == 'n' ? __builtin_nan("") : __builtin_inf();
        *out = jv_float(s[0] == '-' ? -f : f);
        return true;
    }
    int digits = 0, exp_digits = 0, part = 0; /* part: 0 whole, 1 fraction, 2 exponent */
    for (i = sign; i < len; i++) {
        char c = s[i];
        if (c >= '0' && c <= '9') {
            *(part == 2 ? &exp_digits : &digits) += 1;
        } else if (c == '_') {
            if (i == 0 || i + 1 == len || digit_of(s[i - 1]) > 9 || digit_of(s[i + 1]) > 9)
                return false;
        } else if (c == '.' && part == 0) {
            part = 1;
        } else if ((c | 32) == 'e' && part < 2 && digits) {
            part = 2;
            if (i + 1 < len && (s[i + 1] == '-' || s[i + 1] == '+'))
                i++;
        } else {
            return false;
        }
    }
    if (!digits || (part == 2 && !exp_digits) || len > 400)
        return false;
    *out = jv_float(jinja_strtod(s, len));
    return true;
}

bool jinja_parse_number(const char *s, size_t len, bool want_float, int base, struct jval *out,
                        bool *overflow)
{
    struct jval v = jv_str(s, len);
    v = jinja_strip(&v, NULL, true, true);
    *overflow = false;
    return want_float ? parse_float(v.u.s, v.len, out) : parse_int(v.u.s, v.len, base, out, overflow);
}

/* ---- % ------------------------------------------------------------------------------------------------ */

struct spec {
    bool left, plus, space, zero, alt, has_precision;
    int width, precision;
    char type;
};

/* Appends text padded to the width, counted in code points; zeros go after the sign. */
static bool put_padded(struct jbuild *b, const char *s, size_t len, const struct spec *p, bool number)
{
    size_t n = jcp_count(s, len), sign = number && len && (*s == '-' || *s == '+' || *s == ' ') ? 1 : 0;
    size_t pad = p->width > 0 && (size_t)p->width > n ? (size_t)p->width - n : 0;
    bool zero = p->zero && number && !p->left;
    if (zero && !jb_put(b, s, sign))
        return false;
    for (size_t i = 0; !p->left && i < pad; i++)
        if (!jb_puts(b, zero ? "0" : " "))
            return false;
    if (!jb_put(b, s + (zero ? sign : 0), len - (zero ? sign : 0)))
        return false;
    for (size_t i = 0; p->left && i < pad; i++)
        if (!jb_puts(b, " "))
            return false;
    return true;
}

static bool put_number(struct jbuild *b, const struct jval *v, const struct spec *p)
{
    char t[512], fmt[16];
    const char *sign = p->plus ? "+" : p->space ? " " : "";
    if (!jv_is_num(v))
        return jinja_fail(b->r, "%%%c format: a number is required, not %s", p->type, jv_type_name(v));
    if (strchr("eEfFgG", p->type)) {
        double f = jv_as_float(v);
        snprintf(fmt, sizeof fmt, "%%%s%s.*%c", sign, p->alt ? "#" : "", p->type);
        int n = snprintf(t, sizeof t, fmt, p->has_precision ? p->precision : 6, f);
        for (int i = 0; i < n && i < (int)sizeof t; i++)
            if (t[i] == ',')
                t[i] = '.';
        return put_padded(b, t, strlen(t), p, true);
    }
    if (p->type != 'd' && p->type != 'i' && p->type != 'u' && v->type == J_FLOAT)
        return jinja_fail(b->r, "%%%c format: an integer is required, not float", p->type);
    if (v->type == J_FLOAT && !(v->u.f > -9.2e18 && v->u.f < 9.2e18))
        return jinja_fail(b->r, "integer overflow: the float does not fit in 64 bits");
    int64_t i = v->type == J_FLOAT ? (int64_t)v->u.f : jv_as_int(v);
    uint64_t mag = i < 0 ? 0 - (uint64_t)i : (uint64_t)i;
    if (p->alt || p->has_precision)
        return jinja_fail(b->r, "%%%c with '#' or a precision is not supported", p->type);
    snprintf(fmt, sizeof fmt, "%s%%ll%c", i < 0 ? "-" : sign,
             p->type == 'd' || p->type == 'i' ? 'u' : p->type);
    snprintf(t, sizeof t, fmt, (unsigned long long)mag);
    return put_padded(b, t, strlen(t), p, true);
}

/* %c: a code point, or a string of one. */
static bool put_char(struct jbuild *b, const struct jval *v, const struct spec *p)
{
    char t[4];
    if (v->type == J_STR && jcp_count(v->u.s, v->len) == 1)
        return put_padded(b, v->u.s, v->len, p, false);
    int64_t cp = jv_is_int(v) ? jv_as_int(v) : -1;
    if (cp < 0 || cp > 0x10ffff || (cp >= 0xd800 && cp < 0xe000))
        return jinja_fail(b->r, "%%c requires a character or its code point");
    b->content = b->r->origin != NULL; /* a number may have come from outside */
    bool ok = put_padded(b, t, jcp_put(t, (uint32_t)cp), p, false);
    b->content = false;
    return ok;
}

static bool put_formatted(struct jbuild *b, const struct jval *v, const struct spec *p)
{
    struct jval s;
    switch (p->type) {
    case 'c':
        return put_char(b, v, p);
    case 's':
    case 'r': {
        struct jbuild t = {.r = b->r};
        if (!(p->type == 's' ? jinja_put_str(&t, v) : jinja_put_repr(&t, v)) || !jb_done(&t, &s))
            return false;
        if (p->has_precision)
            s.len = (uint32_t)jcp_offset(s.u.s, s.len, (size_t)p->precision);
        return put_padded(b, s.u.s, s.len, p, false);
    }
    case 'd':
    case 'i':
    case 'u':
    case 'x':
    case 'X':
    case 'o':
    case 'e':
    case 'E':
    case 'f':
    case 'F':
    case 'g':
    case 'G':
        return put_number(b, v, p);
    default:
        return jinja_fail(b->r, "unsupported format character '%c'",
                          p->type >= 32 && p->type < 127 ? p->type : '?');
    }
}

static bool read_count(struct jrun *r, const struct jval *f, size_t *at, int *out)
{
    for (*out = 0; *at < f->len && f->u.s[*at] >= '0' && f->u.s[*at] <= '9'; ++*at) {
        *out = *out * 10 + (f->u.s[*at] - '0');
        if (*out > 100000)
            return jinja_fail(r, "a width or precision beyond 100000 is not supported");
    }
    return true;
}

/* After '%' and "(name)": flags, width, precision, type. */
static bool read_spec(struct jrun *r, const struct jval *f, size_t *at, struct spec *p)
{
    for (; *at < f->len && strchr("-+ 0#", f->u.s[*at]) && f->u.s[*at]; ++*at) {
        char c = f->u.s[*at];
        p->left |= c == '-';
        p->plus |= c == '+';
        p->space |= c == ' ';
        p->zero |= c == '0';
        p->alt |= c == '#';
    }
    if (!read_count(r, f, at, &p->width))
        return false;
    if (*at < f->len && f->u.s[*at] == '.') {
        ++*at;
        p->has_precision = true;
        if (!read_count(r, f, at, &p->precision))
            return false;
    }
    if (p->has_precision && p->precision > 100 && p->precision > 0 && *at < f->len && f->u.s[*at] != 's' &&
        f->u.s[*at] != 'r')
        return jinja_fail(r, "the precision of a number's format is beyond 100");
    if (*at >= f->len)
        return jinja_fail(r, "incomplete format");
    p->type = f->u.s[(*at)++];
    return true;
}

bool jinja_percent(struct jrun *r, const struct jval *fmt, const struct jval *args, struct jval *out)
{
    struct jbuild b = {.r = r};
    const struct jval *v = args->type == J_TUPLE ? args->u.list->v : args;
    size_t n = args->type == J_TUPLE ? args->u.list->n : 1, used = 0;
    bool named = false;
    for (size_t at = 0; at < fmt->len;) {
        if (fmt->u.s[at] != '%') {
            if (!jb_put(&b, fmt->u.s + at++, 1))
                return false;
            continue;
        }
        struct spec p = {0};
        const struct jval *x = NULL;
        struct jval *found;
        if (++at < fmt->len && fmt->u.s[at] == '(') {
            const char *end = memchr(fmt->u.s + at, ')', fmt->len - at);
            if (!end || args->type != J_DICT)
                return jinja_fail(r, "format requires a mapping");
            if (!jdict_find_str(r, args->u.dict, fmt->u.s + at + 1, (size_t)(end - fmt->u.s) - at - 1,
                                &found))
                return false;
            if (!found)
                return jinja_fail(r, "a name of the format is not in the mapping");
            x = found;
            named = true;
            at = (size_t)(end - fmt->u.s) + 1;
        }
        if (!read_spec(r, fmt, &at, &p))
            return false;
        if (p.type == '%') {
            if (!jb_puts(&b, "%"))
                return false;
            continue;
        }
        if (!x && used >= n)
            return jinja_fail(r, "not enough arguments for the format");
        if (!x)
            x = &v[used++];
        if (!put_formatted(&b, x, &p))
            return false;
    }
    bool mapping =
        args->type == J_DICT || args->type == J_LIST || args->type == J_RANGE || args->type == J_UNDEF;
    if (!named && used < n && !mapping) /* as Python, which asks whether the argument can be subscribed */
        return jinja_fail(r, "not all arguments were used by the format");
    return jb_done(&b, out);
}

/* ---- str.format --------------------------------------------------------------------------------------- */

/* {}, {0}, {name}, each with .attr and [item] left out: those and format specifications are refused. */
bool jinja_str_format(struct jrun *r, const struct jval *fmt, const struct jargs *args, struct jval *out)
{
    struct jbuild b = {.r = r};
    size_t next = 0;
    for (size_t at = 0; at < fmt->len;) {
        char c = fmt->u.s[at++];
        if (c != '{' && c != '}') {
            if (!jb_put(&b, fmt->u.s + at - 1, 1))
                return false;
            continue;
        }
        if (at < fmt->len && fmt->u.s[at] == c) {
            at++;
            if (!jb_put(&b, fmt->u.s + at - 1, 1))
                return false;
            continue;
        }
        const char *end = c == '{' && at < fmt->len ? memchr(fmt->u.s + at, '}', fmt->len - at) : NULL;
        if (!end)
            return jinja_fail(r, "single '%c' in a format string", c);
        size_t len = (size_t)(end - fmt->u.s) - at, index = 0;
        const char *name = fmt->u.s + at;
        const struct jval *v = NULL;
        bool digits = len > 0 && len < 6;
        for (size_t i = 0; i < len; i++) {
            if (strchr(".[!:{", name[i]) && name[i])
                return jinja_fail(r, "format fields with '%c' are not supported", name[i]);
            digits = digits && name[i] >= '0' && name[i] <= '9';
            index = digits ? index * 10 + (size_t)(name[i] - '0') : 0;
        }
        if (!len)
            index = next++;
        if (!len || digits)
            v = index < args->n ? &args->v[index] : NULL;
        for (size_t i = 0; len && !digits && i < args->n_kw; i++)
            if (args->kw[i].len == len && memcmp(args->kw[i].name, name, len) == 0)
                v = &args->kw[i].v;
        if (!v)
            return jinja_fail(r, "a format field has no argument");
        if (!jinja_put_str(&b, v))
            return false;
        at += len + 1;
    }
    return jb_done(&b, out);
}
