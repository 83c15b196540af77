/* Methods of strings, and the text helpers they share with the filters. */
#include "text/jinja.h"
#include <string.h>

/* ---- helpers ------------------------------------------------------------------------------------------ */

/* Two-way search (memmem is linear in glibc). */
size_t jinja_find(const char *s, size_t n, const char *sub, size_t m, size_t from)
{
    if (from > n || m > n - from)
        return SIZE_MAX;
    if (!m)
        return from;
    const char *p = memmem(s + from, n - from, sub, m);
    return p ? (size_t)(p - s) : SIZE_MAX;
}

static size_t find_last(const char *s, size_t n, const char *sub, size_t m)
{
    size_t last = SIZE_MAX, at = 0;
    while ((at = jinja_find(s, n, sub, m, at)) != SIZE_MAX) {
        last = at++;
        while (at < n && ((unsigned char)s[at] & 0xc0) == 0x80)
            at++;
    }
    return last;
}

static bool in_set(uint32_t cp, const struct jval *chars)
{
    if (!chars)
        return jcp_space(cp);
    for (size_t at = 0; at < chars->len;)
        if (jcp_next(chars->u.s, chars->len, &at) == cp)
            return true;
    return false;
}

/* Without the blanks (or the code points of chars) at its ends. */
struct jval jinja_strip(const struct jval *v, const struct jval *chars, bool left, bool right)
{
    size_t from = 0, to = v->len;
    while (left && from < to) {
        size_t next = from;
        if (!in_set(jcp_next(v->u.s, v->len, &next), chars))
            break;
        from = next;
    }
    while (right && to > from) {
        size_t prev = to - 1, at;
        while (prev > from && ((unsigned char)v->u.s[prev] & 0xc0) == 0x80)
            prev--;
        at = prev;
        if (!in_set(jcp_next(v->u.s, v->len, &at), chars))
            break;
        to = prev;
    }
    struct jval out = jv_str(v->u.s + from, to - from);
    out.flag = v->flag;
    return out;
}

bool jinja_replace(struct jrun *r, const struct jval *s, const struct jval *old, const struct jval *with,
                   int64_t max, struct jval *out)
{
    struct jbuild b = {.r = r};
    size_t at = 0;
    if (!jinja_work(r, s->len))
        return false;
    for (; max != 0; max -= max > 0) {
        size_t hit = old->len ? jinja_find(s->u.s, s->len, old->u.s, old->len, at) : at;
        if (hit == SIZE_MAX)
            break;
        if (!old->len && at <= s->len) { /* before each code point and at the end */
            size_t next = at;
            if (at < s->len)
                jcp_next(s->u.s, s->len, &next);
            if (!jb_put(&b, with->u.s, with->len) || !jb_put(&b, s->u.s + at, next - at))
                return false;
            if (at == s->len) {
                at = s->len;
                break;
            }
            at = next;
            continue;
        }
        if (!jb_put(&b, s->u.s + at, hit - at) || !jb_put(&b, with->u.s, with->len))
            return false;
        at = hit + old->len;
    }
    return jb_put(&b, s->u.s + at, s->len - at) && jb_done(&b, out);
}

static bool line_break(uint32_t cp)
{
    return (cp >= 10 && cp <= 13) || (cp >= 0x1c && cp <= 0x1e) || cp == 0x85 || cp == 0x2028 || cp == 0x2029;
}

bool jinja_splitlines(struct jrun *r, const struct jval *s, bool keep, struct jlist **out)
{
    size_t from = 0;
    if (!jlist_new(r, 0, out) || !jinja_work(r, s->len))
        return false;
    for (size_t at = 0; at < s->len;) {
        size_t end = at;
        uint32_t cp = jcp_next(s->u.s, s->len, &at);
        bool brk = line_break(cp);
        if (cp == '\r' && at < s->len && s->u.s[at] == '\n')
            at++;
        if (!brk && at < s->len)
            continue;
        struct jval line = jv_str(s->u.s + from, (brk && !keep ? end : at) - from);
        if (!jlist_push(r, *out, &line))
            return false;
        from = at;
    }
    return true;
}

bool jinja_join(struct jrun *r, const struct jval *sep, const struct jlist *l, bool strict, struct jval *out)
{
    struct jbuild b = {.r = r};
    for (size_t i = 0; i < l->n; i++) {
        if (strict && l->v[i].type != J_STR)
            return jinja_fail(r, "join: item %zu is '%s', not a string", i, jv_type_name(&l->v[i]));
        if ((i && !jb_put(&b, sep->u.s, sep->len)) || !jinja_put_str(&b, &l->v[i]))
            return false;
    }
    return jb_done(&b, out);
}

static bool need_str(struct jrun *r, const struct jcall *c, int i)
{
    if (c->a[i].type == J_STR)
        return true;
    return jinja_fail(r, "%s needs a string, not '%s'", c->fn->name, jv_type_name(&c->a[i]));
}

static bool opt_int(struct jrun *r, const struct jcall *c, int i, int64_t dflt, int64_t *out)
{
    *out = dflt;
    if (!c->given[i])
        return true;
    if (!jv_is_int(&c->a[i]))
        return jinja_fail(r, "%s needs an integer, not '%s'", c->fn->name, jv_type_name(&c->a[i]));
    *out = jv_as_int(&c->a[i]);
    return true;
}

/* ---- string methods ----------------------------------------------------------------------------------- */

enum {
    LEFT = 1,
    RIGHT = 2,
    RAISE = 4
};

static bool str_strip(struct jrun *r, struct jcall *c, struct jval *out)
{
    const struct jval *chars = c->given[0] && c->a[0].type != J_NONE ? &c->a[0] : NULL;
    if ((chars && !need_str(r, c, 0)) || !jinja_work(r, (uint64_t)c->self.len * (chars ? chars->len + 1 : 1)))
        return false;
    *out = jinja_strip(&c->self, chars, c->fn->op & LEFT, c->fn->op & RIGHT);
    return true;
}

static bool str_case(struct jrun *r, struct jcall *c, struct jval *out)
{
    return jinja_case(r, &c->self, (enum jcase)c->fn->op, out);
}

static bool push_part(struct jrun *r, struct jlist *l, const char *s, size_t len)
{
    struct jval v = jv_str(s, len);
    return jlist_push(r, l, &v);
}

static void reverse(struct jlist *l)
{
    for (size_t i = 0, j = l->n; i + 1 < j; i++) {
        struct jval t = l->v[--j];
        l->v[j] = l->v[i];
        l->v[i] = t;
    }
}

/* At runs of blanks, empty parts left out. */
static bool split_space(struct jrun *r, const struct jval *v, int64_t max, bool from_right, struct jlist *l)
{
    struct jval s = jinja_strip(v, NULL, true, true);
    while (s.len && max != 0) {
        size_t at = from_right ? s.len : 0, cut = at, next;
        bool found = false;
        while (!found && (from_right ? at > 0 : at < s.len)) {
            next = at;
            if (from_right) {
                do
                    next--;
                while (next > 0 && ((unsigned char)s.u.s[next] & 0xc0) == 0x80);
                size_t t = next;
                found = jcp_space(jcp_next(s.u.s, s.len, &t));
                cut = at;
            } else {
                found = jcp_space(jcp_next(s.u.s, s.len, &next));
                cut = at;
            }
            at = next;
        }
        if (!found)
            break;
        struct jval rest = from_right ? jv_str(s.u.s, cut) : jv_str(s.u.s + cut, s.len - cut);
        if (!(from_right ? push_part(r, l, s.u.s + cut, s.len - cut) : push_part(r, l, s.u.s, cut)))
            return false;
        s = jinja_strip(&rest, NULL, !from_right, from_right);
        max -= max > 0;
    }
    if (s.len) {
        if (max == 0) /* the last part keeps the blanks at its far end */
            s = from_right ? jv_str(v->u.s, (size_t)(s.u.s + s.len - v->u.s))
                           : jv_str(s.u.s, (size_t)(v->u.s + v->len - s.u.s));
        if (!push_part(r, l, s.u.s, s.len))
            return false;
    }
    if (from_right)
        reverse(l);
    return true;
}

static bool split_sep(struct jrun *r, const struct jval *s, const struct jval *sep, int64_t max,
                      bool from_right, struct jlist *l)
{
    size_t at = 0, end = s->len, hit;
    if (!from_right) {
        for (; max != 0 && (hit = jinja_find(s->u.s, s->len, sep->u.s, sep->len, at)) != SIZE_MAX;
             max -= max > 0) {
            if (!push_part(r, l, s->u.s + at, hit - at))
                return false;
            at = hit + sep->len;
        }
        return push_part(r, l, s->u.s + at, s->len - at);
    }
    for (size_t i = end; max != 0 && i >= sep->len && i > 0;) {
        if (memcmp(s->u.s + i - sep->len, sep->u.s, sep->len) != 0) {
            i--;
            continue;
        }
        if (!push_part(r, l, s->u.s + i, end - i))
            return false;
        end = i -= sep->len;
        max -= max > 0;
    }
    if (!push_part(r, l, s->u.s, end))
        return false;
    reverse(l);
    return true;
}

static bool str_split(struct jrun *r, struct jcall *c, struct jval *out)
{
    struct jlist *l;
    int64_t max;
    bool from_right = c->fn->op & RIGHT, blanks = !c->given[0] || c->a[0].type == J_NONE;
    if (!opt_int(r, c, 1, -1, &max) || !jlist_new(r, 0, &l))
        return false;
    if (!blanks && (!need_str(r, c, 0) || !c->a[0].len))
        return jinja_fail(r, "%s: empty separator", c->fn->name);
    uint64_t work =
        from_right && !blanks ? (uint64_t)c->self.len * c->a[0].len / 8 + c->self.len : c->self.len;
    if (!jinja_work(r, work))
        return false;
    if (!(blanks ? split_space(r, &c->self, max, from_right, l)
                 : split_sep(r, &c->self, &c->a[0], max, from_right, l)))
        return false;
    *out = jv_list(l);
    return jinja_work(r, l->n * 16);
}

static bool str_splitlines(struct jrun *r, struct jcall *c, struct jval *out)
{
    struct jlist *l;
    if (!jinja_splitlines(r, &c->self, c->given[0] && jv_true(&c->a[0]), &l))
        return false;
    *out = jv_list(l);
    return true;
}

/* Byte bounds of self[a[i]:a[i+1]], by code points. *valid: false when start lies beyond the end. */
static bool str_bounds(struct jrun *r, const struct jcall *c, int i, size_t *from, size_t *to, bool *valid)
{
    int64_t n = (int64_t)jcp_count(c->self.u.s, c->self.len), lo = 0, hi = n;
    *from = 0;
    *to = c->self.len;
    *valid = true;
    if (!c->given[i] && !c->given[i + 1])
        return true;
    if (c->given[i] && c->a[i].type != J_NONE && !opt_int(r, c, i, 0, &lo))
        return false;
    if (c->given[i + 1] && c->a[i + 1].type != J_NONE && !opt_int(r, c, i + 1, n, &hi))
        return false;
    lo += lo < 0 ? n : 0;
    hi += hi < 0 ? n : 0;
    lo = lo < 0 ? 0 : lo;
    hi = hi < 0 ? 0 : hi > n ? n : hi;
    *valid = lo <= hi;
    if (!*valid)
        lo = hi;
    *from = jcp_offset(c->self.u.s, c->self.len, (size_t)lo);
    *to = jcp_offset(c->self.u.s, c->self.len, (size_t)hi);
    return true;
}

static bool affix(const char *s, size_t len, const struct jval *x, bool end)
{
    return x->len <= len && memcmp(end ? s + len - x->len : s, x->u.s, x->len) == 0;
}

static bool str_affix(struct jrun *r, struct jcall *c, struct jval *out)
{
    size_t from, to;
    bool valid, yes = false, end = c->fn->op & RIGHT;
    const struct jval *x = &c->a[0];
    if (!jinja_work(r, c->self.len) || !str_bounds(r, c, 1, &from, &to, &valid))
        return false;
    if (x->type == J_TUPLE) {
        for (size_t i = 0; i < x->u.list->n && !yes; i++) {
            if (x->u.list->v[i].type != J_STR)
                return jinja_fail(r, "%s needs strings in the tuple", c->fn->name);
            yes = valid && affix(c->self.u.s + from, to - from, &x->u.list->v[i], end);
        }
    } else {
        if (!need_str(r, c, 0))
            return false;
        yes = valid && affix(c->self.u.s + from, to - from, x, end);
    }
    *out = jv_bool(yes);
    return true;
}

static bool str_find(struct jrun *r, struct jcall *c, struct jval *out)
{
    size_t from, to, hit;
    bool valid;
    if (!need_str(r, c, 0) || !jinja_work(r, c->self.len) || !str_bounds(r, c, 1, &from, &to, &valid))
        return false;
    const char *s = c->self.u.s + from;
    if (!valid)
        hit = SIZE_MAX;
    else if (c->fn->op & RIGHT)
        hit = c->a[0].len ? find_last(s, to - from, c->a[0].u.s, c->a[0].len) : to - from;
    else
        hit = jinja_find(s, to - from, c->a[0].u.s, c->a[0].len, 0);
    if (hit == SIZE_MAX && (c->fn->op & RAISE))
        return jinja_fail(r, "%s: substring not found", c->fn->name);
    *out = jv_int(hit == SIZE_MAX ? -1 : (int64_t)jcp_count(c->self.u.s, from + hit));
    return true;
}

static bool str_count(struct jrun *r, struct jcall *c, struct jval *out)
{
    size_t from, to;
    bool valid;
    int64_t n = 0;
    if (!need_str(r, c, 0) || !jinja_work(r, c->self.len) || !str_bounds(r, c, 1, &from, &to, &valid))
        return false;
    if (valid && !c->a[0].len) {
        n = (int64_t)jcp_count(c->self.u.s + from, to - from) + 1;
    } else if (valid) {
        while ((from = jinja_find(c->self.u.s, to, c->a[0].u.s, c->a[0].len, from)) != SIZE_MAX) {
            n++;
            from += c->a[0].len;
        }
    }
    *out = jv_int(n);
    return true;
}

static bool str_replace(struct jrun *r, struct jcall *c, struct jval *out)
{
    int64_t max;
    return need_str(r, c, 0) && need_str(r, c, 1) && opt_int(r, c, 2, -1, &max) &&
           jinja_replace(r, &c->self, &c->a[0], &c->a[1], max, out);
}

static bool str_join(struct jrun *r, struct jcall *c, struct jval *out)
{
    struct jlist *l;
    return jinja_list_of(r, &c->a[0], &l) && jinja_join(r, &c->self, l, true, out);
}

static bool str_remove(struct jrun *r, struct jcall *c, struct jval *out)
{
    bool end = c->fn->op & RIGHT;
    if (!need_str(r, c, 0))
        return false;
    size_t n = c->a[0].len && affix(c->self.u.s, c->self.len, &c->a[0], end) ? c->a[0].len : 0;
    *out = jv_str(c->self.u.s + (end ? 0 : n), c->self.len - n);
    return true;
}

static bool str_partition(struct jrun *r, struct jcall *c, struct jval *out)
{
    struct jlist *l;
    const struct jval *s = &c->self, *sep = &c->a[0];
    bool right = c->fn->op & RIGHT;
    if (!need_str(r, c, 0) || !jinja_work(r, s->len) || !jlist_new(r, 3, &l))
        return false;
    if (!sep->len)
        return jinja_fail(r, "%s: empty separator", c->fn->name);
    size_t hit = right ? find_last(s->u.s, s->len, sep->u.s, sep->len)
                       : jinja_find(s->u.s, s->len, sep->u.s, sep->len, 0);
    size_t end = hit == SIZE_MAX ? 0 : hit + sep->len;
    if (hit == SIZE_MAX ? !push_part(r, l, s->u.s, right ? 0 : s->len) || !push_part(r, l, "", 0) ||
                              !push_part(r, l, s->u.s, right ? s->len : 0)
                        : !push_part(r, l, s->u.s, hit) || !push_part(r, l, sep->u.s, sep->len) ||
                              !push_part(r, l, s->u.s + end, s->len - end))
        return false;
    *out = (struct jval){.type = J_TUPLE, .u.list = l};
    return true;
}

enum {
    IS_ALPHA,
    IS_ALNUM,
    IS_DECIMAL,
    IS_DIGIT,
    IS_NUMERIC,
    IS_SPACE,
    IS_UPPER,
    IS_LOWER,
    IS_TITLE,
    IS_ASCII
};

static bool code_point_is(uint32_t cp, int what)
{
    switch (what) {
    case IS_ALPHA:
        return jcp_alpha(cp);
    case IS_ALNUM:
        return jcp_alpha(cp) || jcp_digit(cp, 2);
    case IS_SPACE:
        return jcp_space(cp);
    case IS_ASCII:
        return cp < 0x80;
    default:
        return jcp_digit(cp, what - IS_DECIMAL);
    }
}

static bool str_is(struct jrun *r, struct jcall *c, struct jval *out)
{
    int what = c->fn->op, which;
    bool yes = true, any = what == IS_ASCII, in_word = false;
    if (!jinja_work(r, c->self.len))
        return false;
    for (size_t at = 0; at < c->self.len && yes;) {
        uint32_t cp = jcp_next(c->self.u.s, c->self.len, &at);
        if (what < IS_UPPER || what == IS_ASCII) {
            yes = code_point_is(cp, what);
            any = true;
            continue;
        }
        bool cased = jcp_cased(cp, &which);
        if (cased) {
            yes = what == IS_UPPER ? which > 0 : what == IS_LOWER ? which < 0 : (which >= 0) == !in_word;
            any = true;
        }
        in_word = cased;
    }
    *out = jv_bool(yes && any);
    return true;
}

static bool str_pad(struct jrun *r, struct jcall *c, struct jval *out)
{
    int64_t width, n = (int64_t)jcp_count(c->self.u.s, c->self.len);
    struct jval fill = c->given[1] ? c->a[1] : jv_text(c->fn->op ? " " : "0"), a, b, count;
    if (!opt_int(r, c, 0, 0, &width) || (c->given[1] && !need_str(r, c, 1)))
        return false;
    if (jcp_count(fill.u.s, fill.len) != 1)
        return jinja_fail(r, "%s: the fill must be one character", c->fn->name);
    int64_t pad = width > n ? width - n : 0, left = c->fn->op == RIGHT ? 0 : pad;
    if (c->fn->op == (LEFT | RIGHT))
        left = pad / 2 + (pad & width & 1);
    size_t sign = !c->fn->op && c->self.len && (c->self.u.s[0] == '-' || c->self.u.s[0] == '+') ? 1 : 0;
    struct jval head = jv_str(c->self.u.s, sign), tail = jv_str(c->self.u.s + sign, c->self.len - sign);
    count = jv_int(left);
    if (!jinja_binary(r, T_MUL, &fill, &count, &a))
        return false;
    count = jv_int(pad - left);
    return jinja_binary(r, T_MUL, &fill, &count, &b) && jinja_concat(r, &head, &a, &a) &&
           jinja_concat(r, &a, &tail, &a) && jinja_concat(r, &a, &b, out);
}

static bool str_format(struct jrun *r, struct jcall *c, struct jval *out)
{
    return jinja_str_format(r, &c->self, c->raw, out);
}

static const struct jbuiltin str_methods[] = {
    {"capitalize", "", str_case, CASE_CAPITAL},
    {"center", "/ /?", str_pad, LEFT | RIGHT},
    {"count", "/ /? /?", str_count, 0},
    {"endswith", "/ /? /?", str_affix, RIGHT},
    {"find", "/ /? /?", str_find, 0},
    {"format", "*", str_format, 0},
    {"index", "/ /? /?", str_find, RAISE},
    {"isalnum", "", str_is, IS_ALNUM},
    {"isalpha", "", str_is, IS_ALPHA},
    {"isascii", "", str_is, IS_ASCII},
    {"isdecimal", "", str_is, IS_DECIMAL},
    {"isdigit", "", str_is, IS_DIGIT},
    {"islower", "", str_is, IS_LOWER},
    {"isnumeric", "", str_is, IS_NUMERIC},
    {"isspace", "", str_is, IS_SPACE},
    {"istitle", "", str_is, IS_TITLE},
    {"isupper", "", str_is, IS_UPPER},
    {"join", "/", str_join, 0},
    {"ljust", "/ /?", str_pad, RIGHT},
    {"lower", "", str_case, CASE_LOWER},
    {"lstrip", "/?", str_strip, LEFT},
    {"partition", "/", str_partition, 0},
    {"removeprefix", "/", str_remove, 0},
    {"removesuffix", "/", str_remove, RIGHT},
    {"replace", "/ / /?", str_replace, 0},
    {"rfind", "/ /? /?", str_find, RIGHT},
    {"rindex", "/ /? /?", str_find, RIGHT | RAISE},
    {"rjust", "/ /?", str_pad, LEFT},
    {"rpartition", "/", str_partition, RIGHT},
    {"rsplit", "sep? maxsplit?", str_split, RIGHT},
    {"rstrip", "/?", str_strip, RIGHT},
    {"split", "sep? maxsplit?", str_split, 0},
    {"splitlines", "keepends?", str_splitlines, 0},
    {"startswith", "/ /? /?", str_affix, 0},
    {"strip", "/?", str_strip, LEFT | RIGHT},
    {"swapcase", "", str_case, CASE_SWAP},
    {"title", "", str_case, CASE_TITLE},
    {"upper", "", str_case, CASE_UPPER},
    {"zfill", "/", str_pad, 0},
};

const struct jbuiltin *jinja_find_str_method(const char *s, size_t len)
{
    return jinja_search(str_methods, sizeof str_methods / sizeof str_methods[0], s, len);
}
