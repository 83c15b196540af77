/* Filters on single values. Those on sequences are in jinja_filter_seq.c. */
#include "text/jinja.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

/* The value as a string, which most text filters start from (jinja2's soft_str). */
static bool self_str(struct jrun *r, struct jcall *c, struct jval *out)
{
    return jinja_str(r, &c->self, out);
}

static bool filter_case(struct jrun *r, struct jcall *c, struct jval *out)
{
    struct jval s;
    return self_str(r, c, &s) && jinja_case(r, &s, (enum jcase)c->fn->op, out);
}

/* Words start after blanks and any of - ( { [ <; unlike str.title. */
static bool filter_title(struct jrun *r, struct jcall *c, struct jval *out)
{
    struct jval s, part;
    struct jbuild b = {.r = r};
    bool start = true;
    if (!self_str(r, c, &s))
        return false;
    for (size_t at = 0; at < s.len;) {
        size_t from = at;
        uint32_t cp = jcp_next(s.u.s, s.len, &at);
        bool sep = jcp_space(cp) || (cp < 0x80 && cp && strchr("-({[<", (int)cp));
        if (!sep && !start) { /* the rest of the word at once, for the final sigma */
            while (at < s.len) {
                size_t next = at;
                cp = jcp_next(s.u.s, s.len, &next);
                if (jcp_space(cp) || (cp < 0x80 && cp && strchr("-({[<", (int)cp)))
                    break;
                at = next;
            }
        }
        struct jval x = jv_str(s.u.s + from, at - from);
        if (!jinja_case(r, &x, start ? CASE_UPPER : CASE_LOWER, &part) || !jb_put(&b, part.u.s, part.len))
            return false;
        start = sep;
    }
    return jb_done(&b, out);
}

static bool filter_trim(struct jrun *r, struct jcall *c, struct jval *out)
{
    struct jval s;
    if (c->given[0] && c->a[0].type != J_NONE && c->a[0].type != J_STR)
        return jinja_fail(r, "trim: the characters must be a string or None");
    if (!self_str(r, c, &s) ||
        !jinja_work(r, (uint64_t)s.len * (c->a[0].type == J_STR ? c->a[0].len + 1 : 1)))
        return false;
    *out = jinja_strip(&s, c->given[0] && c->a[0].type == J_STR ? &c->a[0] : NULL, true, true);
    return true;
}

static bool filter_replace(struct jrun *r, struct jcall *c, struct jval *out)
{
    struct jval s, old, with;
    int64_t max = -1;
    if (c->given[2] && c->a[2].type != J_NONE) {
        if (!jv_is_int(&c->a[2]))
            return jinja_fail(r, "replace: the count must be an integer");
        max = jv_as_int(&c->a[2]);
    }
    return self_str(r, c, &s) && jinja_str(r, &c->a[0], &old) && jinja_str(r, &c->a[1], &with) &&
           jinja_replace(r, &s, &old, &with, max, out);
}

static bool filter_default(struct jrun *r, struct jcall *c, struct jval *out)
{
    (void)r;
    bool use = c->self.type == J_UNDEF || (c->given[1] && jv_true(&c->a[1]) && !jv_true(&c->self));
    *out = !use ? c->self : c->given[0] ? c->a[0] : jv_text("");
    return true;
}

static bool filter_string(struct jrun *r, struct jcall *c, struct jval *out)
{
    *out = c->self;
    return c->self.type == J_STR || self_str(r, c, out);
}

static bool filter_safe(struct jrun *r, struct jcall *c, struct jval *out)
{
    if (!self_str(r, c, out))
        return false;
    out->flag = 1;
    return true;
}

static bool filter_escape(struct jrun *r, struct jcall *c, struct jval *out)
{
    *out = c->self;
    if (c->self.type == J_STR && c->self.flag && !c->fn->op)
        return true;
    return jinja_escape_html(r, &c->self, out);
}

static bool float_to_int(struct jrun *r, double f, bool *ok, struct jval *out)
{
    *ok = false;
    if (isnan(f) || isinf(f))
        return true;
    f = trunc(f);
    if (f >= 9223372036854775808.0 || f < -9223372036854775808.0)
        return jinja_fail(r, "integer overflow: the float does not fit in 64 bits");
    *out = jv_int((int64_t)f);
    *ok = true;
    return true;
}

static bool filter_int(struct jrun *r, struct jcall *c, struct jval *out)
{
    const struct jval *v = &c->self;
    bool ok = false, over = false;
    int64_t base = c->given[1] && jv_is_int(&c->a[1]) ? jv_as_int(&c->a[1]) : 10;
    bool bad_base = base != 0 && (base < 2 || base > 36);
    if (v->type == J_UNDEF)
        return jinja_undef_error(r, v);
    if (jv_is_int(v)) {
        *out = jv_int(jv_as_int(v));
        return true;
    }
    if (v->type == J_STR) {
        struct jval f;
        ok = !bad_base && jinja_parse_number(v->u.s, v->len, false, (int)base, out, &over);
        if (over)
            return jinja_fail(r, "integer overflow: the text names a number beyond 64 bits");
        if (!ok && jinja_parse_number(v->u.s, v->len, true, 10, &f, &over) &&
            !float_to_int(r, f.u.f, &ok, out))
            return false;
    } else if (v->type == J_FLOAT) {
        if (isinf(v->u.f))
            return jinja_fail(r, "cannot convert float infinity to integer");
        if (!float_to_int(r, v->u.f, &ok, out))
            return false;
    }
    if (!ok)
        *out = c->given[0] ? c->a[0] : jv_int(0);
    return true;
}

static bool filter_float(struct jrun *r, struct jcall *c, struct jval *out)
{
    const struct jval *v = &c->self;
    bool over;
    if (v->type == J_UNDEF)
        return jinja_undef_error(r, v);
    if (jv_is_num(v))
        *out = jv_float(jv_as_float(v));
    else if (v->type != J_STR || !jinja_parse_number(v->u.s, v->len, true, 10, out, &over))
        *out = c->given[0] ? c->a[0] : jv_float(0);
    return true;
}

static bool filter_abs(struct jrun *r, struct jcall *c, struct jval *out)
{
    const struct jval *v = &c->self;
    if (v->type == J_UNDEF)
        return jinja_undef_error(r, v);
    if (!jv_is_num(v))
        return jinja_fail(r, "bad operand type for abs: '%s'", jv_type_name(v));
    *out = *v;
    if (v->type == J_FLOAT)
        *out = jv_float(fabs(v->u.f));
    else if (jv_as_int(v) < 0)
        return jinja_unary(r, true, v, out);
    else
        *out = jv_int(jv_as_int(v));
    return true;
}

/* round(f, n) by way of the exact decimal text, as Python rounds: half to even on the true value. */
static double round_digits(double f, int n)
{
    char t[400];
    if (!isfinite(f) || n > 300)
        return f;
    if (n >= 0) {
        snprintf(t, sizeof t, "%.*f", n, f);
        for (char *p = t; *p; p++)
            if (!strchr("-0123456789", *p))
                *p = '.';
        return jinja_strtod(t, strlen(t));
    }
    double unit = pow(10, -n);
    return nearbyint(f / unit) * unit;
}

static bool filter_round(struct jrun *r, struct jcall *c, struct jval *out)
{
    const struct jval *v = &c->self;
    int64_t n = 0;
    bool common = !c->given[1] || jv_is(&c->a[1], "common");
    if (!common && !jv_is(&c->a[1], "ceil") && !jv_is(&c->a[1], "floor"))
        return jinja_fail(r, "round: the method must be common, ceil or floor");
    if (c->given[0]) {
        if (!jv_is_int(&c->a[0]))
            return jinja_fail(r, "round: the precision must be an integer");
        n = jv_as_int(&c->a[0]);
    }
    if (v->type == J_UNDEF)
        return jinja_undef_error(r, v);
    if (!jv_is_num(v))
        return jinja_fail(r, "round: '%s' is no number", jv_type_name(v));
    if (n > 300 && common) { /* no float has that many digits behind its point */
        *out = v->type == J_FLOAT ? *v : jv_int(jv_as_int(v));
        return true;
    }
    if (n > 300 || n < -300)
        return jinja_fail(r, "round: the precision is out of range");
    if (!common) {
        double p = pow(10, (double)n), x = jv_as_float(v) * p;
        *out = jv_float((jv_is(&c->a[1], "ceil") ? ceil(x) : floor(x)) / p);
    } else if (v->type != J_FLOAT) {
        if (n < 0)
            return jinja_fail(r, "round: a negative precision of an integer is not supported");
        *out = jv_int(jv_as_int(v));
    } else {
        *out = jv_float(round_digits(v->u.f, (int)n));
    }
    return true;
}

static bool json_indent(struct jrun *r, const struct jval *v, struct jjson *o)
{
    if (v->type == J_NONE)
        return true;
    o->has_indent = true;
    o->item_sep = jv_text(",");
    if (v->type == J_STR) {
        o->indent = *v;
        return true;
    }
    if (!jv_is_int(v))
        return jinja_fail(r, "tojson: indent must be an integer, a string or None");
    int64_t n = jv_as_int(v);
    struct jval one = jv_text(" "), count = jv_int(n > 0 ? n : 0);
    return jinja_binary(r, T_MUL, &one, &count, &o->indent);
}

static bool filter_tojson(struct jrun *r, struct jcall *c, struct jval *out)
{
    struct jjson o = {.item_sep = jv_text(", "), .key_sep = jv_text(": ")};
    struct jbuild b = {.r = r};
    o.ascii = c->given[0] && jv_true(&c->a[0]);
    o.sort_keys = c->given[3] && jv_true(&c->a[3]);
    if (c->given[1] && !json_indent(r, &c->a[1], &o))
        return false;
    if (c->given[2] && c->a[2].type != J_NONE) {
        struct jlist *l;
        if (!jinja_list_of(r, &c->a[2], &l))
            return false;
        if (l->n != 2 || l->v[0].type != J_STR || l->v[1].type != J_STR)
            return jinja_fail(r, "tojson: separators must be two strings");
        o.item_sep = l->v[0];
        o.key_sep = l->v[1];
    }
    return jinja_put_json(&b, &c->self, &o) && jb_done(&b, out);
}

static bool filter_indent(struct jrun *r, struct jcall *c, struct jval *out)
{
    struct jval ind, s, nl = jv_text("\n");
    struct jlist *lines;
    struct jbuild b = {.r = r};
    bool first = c->given[1] && jv_true(&c->a[1]), blank = c->given[2] && jv_true(&c->a[2]);
    if (c->self.type != J_STR)
        return jinja_fail(r, "indent needs a string, not '%s'", jv_type_name(&c->self));
    if (c->given[0] && c->a[0].type == J_STR) {
        ind = c->a[0];
    } else {
        struct jval one = jv_text(" "), n = c->given[0] ? c->a[0] : jv_int(4);
        if (!jv_is_int(&n))
            return jinja_fail(r, "indent: the width must be an integer or a string");
        if (!jinja_binary(r, T_MUL, &one, &n, &ind))
            return false;
    }
    if (!jinja_concat(r, &c->self, &nl, &s) || !jinja_splitlines(r, &s, false, &lines))
        return false;
    if (first && !jb_put(&b, ind.u.s, ind.len))
        return false;
    for (size_t i = 0; i < lines->n; i++) {
        const struct jval *l = &lines->v[i];
        if (i && (!jb_puts(&b, "\n") || ((blank || l->len) && !jb_put(&b, ind.u.s, ind.len))))
            return false;
        if (!jb_put(&b, l->u.s, l->len))
            return false;
    }
    if (!jb_done(&b, out))
        return false;
    out->flag = c->self.flag;
    return true;
}

static bool filter_center(struct jrun *r, struct jcall *c, struct jval *out)
{
    struct jval s, width = c->given[0] ? c->a[0] : jv_int(80);
    struct jargs args = {.v = &width, .n = 1};
    return self_str(r, c, &s) && jinja_call_builtin(r, jinja_find_method(&s, "center", 6), &s, &args, out);
}

/* At most length code points with the end, cut at a blank unless killwords; a text that is longer by no more than
 * leeway stays whole. */
static bool filter_truncate(struct jrun *r, struct jcall *c, struct jval *out)
{
    struct jval s, end = c->given[2] ? c->a[2] : jv_text("...");
    if (c->self.type != J_STR || end.type != J_STR)
        return jinja_fail(r, "truncate needs strings, not '%s' and '%s'", jv_type_name(&c->self),
                          jv_type_name(&end));
    const bool leeway_given = c->given[3] && c->a[3].type != J_NONE;
    if ((c->given[0] && !jv_is_int(&c->a[0])) || (leeway_given && !jv_is_int(&c->a[3])))
        return jinja_fail(r, "truncate: the length and the leeway must be integers");
    int64_t n = (int64_t)jcp_count(c->self.u.s, c->self.len), n_end = (int64_t)jcp_count(end.u.s, end.len);
    int64_t length = c->given[0] ? jv_as_int(&c->a[0]) : 255, leeway = leeway_given ? jv_as_int(&c->a[3]) : 5;
    if (length < n_end || leeway < 0 || length > INT32_MAX || leeway > INT32_MAX)
        return jinja_fail(r, "truncate: the length must be at least %lld, the leeway at least 0",
                          (long long)n_end);
    *out = c->self;
    if (n <= length + leeway)
        return jinja_work(r, c->self.len);
    s = c->self;
    s.len = (uint32_t)jcp_offset(s.u.s, s.len, (size_t)(length - n_end));
    const char *blank = c->given[1] && jv_true(&c->a[1]) ? NULL : memrchr(s.u.s, ' ', s.len);
    if (blank)
        s.len = (uint32_t)(blank - s.u.s);
    return jinja_concat(r, &s, &end, out) && jinja_work(r, c->self.len);
}

static bool filter_format(struct jrun *r, struct jcall *c, struct jval *out)
{
    struct jval s, args;
    struct jlist *l;
    struct jdict *d;
    if (!self_str(r, c, &s))
        return false;
    if (c->raw->n && c->raw->n_kw)
        return jinja_fail(r, "format takes values or names, not both");
    if (c->raw->n_kw) {
        if (!jdict_new(r, 0, &d))
            return false;
        for (size_t i = 0; i < c->raw->n_kw; i++) {
            struct jval k = jv_str(c->raw->kw[i].name, c->raw->kw[i].len);
            if (!jdict_set(r, d, &k, &c->raw->kw[i].v))
                return false;
        }
        args = jv_dict(d);
    } else {
        if (!jlist_new(r, 0, &l))
            return false;
        for (size_t i = 0; i < c->raw->n; i++)
            if (!jlist_push(r, l, &c->raw->v[i]))
                return false;
        args = (struct jval){.type = J_TUPLE, .u.list = l};
    }
    return jinja_percent(r, &s, &args, out);
}

static bool filter_wordcount(struct jrun *r, struct jcall *c, struct jval *out)
{
    struct jval s;
    int64_t n = 0;
    bool in = false;
    if (!self_str(r, c, &s) || !jinja_work(r, s.len))
        return false;
    for (size_t at = 0; at < s.len;) {
        uint32_t cp = jcp_next(s.u.s, s.len, &at);
        bool word = jcp_alpha(cp) || jcp_digit(cp, 2) || cp == '_';
        n += word && !in;
        in = word;
    }
    *out = jv_int(n);
    return true;
}

static bool filter_refused(struct jrun *r, struct jcall *c, struct jval *out)
{
    (void)out;
    if (c->fn->op)
        return jinja_fail(r, "the filter '%s' is unsupported: chat templates have no use for it",
                          c->fn->name);
    return jinja_fail(r, "the filter '%s' is unsupported: its result is not determined by its input",
                      c->fn->name);
}

static const struct jbuiltin filters[] = {
    {"abs", "", filter_abs, 0},
    {"capitalize", "", filter_case, CASE_CAPITAL},
    {"center", "width?", filter_center, 0},
    {"d", "default_value? boolean?", filter_default, 0},
    {"default", "default_value? boolean?", filter_default, 0},
    {"e", "", filter_escape, 0},
    {"escape", "", filter_escape, 0},
    {"filesizeformat", "*", filter_refused, 1},
    {"float", "default?", filter_float, 0},
    {"forceescape", "", filter_escape, 1},
    {"format", "*", filter_format, 0},
    {"indent", "width? first? blank?", filter_indent, 0},
    {"int", "default? base?", filter_int, 0},
    {"lower", "", filter_case, CASE_LOWER},
    {"pprint", "*", filter_refused, 1},
    {"random", "*", filter_refused, 0},
    {"replace", "old new count?", filter_replace, 0},
    {"round", "precision? method?", filter_round, 0},
    {"safe", "", filter_safe, 0},
    {"string", "", filter_string, 0},
    {"striptags", "*", filter_refused, 1},
    {"title", "", filter_title, 0},
    {"tojson", "ensure_ascii? indent? separators? sort_keys?", filter_tojson, 0},
    {"trim", "chars?", filter_trim, 0},
    {"truncate", "length? killwords? end? leeway?", filter_truncate, 0},
    {"upper", "", filter_case, CASE_UPPER},
    {"urlencode", "*", filter_refused, 1},
    {"urlize", "*", filter_refused, 1},
    {"wordcount", "", filter_wordcount, 0},
    {"wordwrap", "*", filter_refused, 1},
    {"xmlattr", "*", filter_refused, 1},
};

const struct jbuiltin *jinja_find_filter(const char *s, size_t len)
{
    const struct jbuiltin *f = jinja_search(filters, sizeof filters / sizeof filters[0], s, len);
    return f ? f : jinja_find_seq_filter(s, len);
}
