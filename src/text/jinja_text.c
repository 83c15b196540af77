/* The text of values: str and repr as Python writes them, JSON as json.dumps does, and the string builder. */
#include "text/jinja.h"
#include "base/mem.h"
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- builder ------------------------------------------------------------------------------------------ */

bool jb_put(struct jbuild *b, const char *s, size_t len)
{
    if (len == 0) /* perhaps before there is any memory */
        return true;
    if (len > b->cap - b->len) {
        size_t cap = b->cap ? b->cap * 2 : 64;
        while (cap - b->len < len)
            cap *= 2;
        if (cap > LIMIT_TEMPLATE_MEMORY)
            return jinja_fail(b->r, "a string grew beyond the memory limit of %u bytes",
                              LIMIT_TEMPLATE_MEMORY);
        char *p = jarena_grow(&b->r->arena, b->p, b->cap, cap);
        if (!p)
            return jinja_no_memory(b->r);
        b->p = p;
        b->cap = cap;
    }
    memcpy(b->p + b->len, s, len);
    b->len += len;
    return jinja_copy_origin(b->r, b->p + (b->len - len), s, len, b->content);
}

bool jb_puts(struct jbuild *b, const char *s)
{
    return jb_put(b, s, strlen(s));
}

bool jb_cp(struct jbuild *b, uint32_t cp)
{
    char t[4];
    return jb_put(b, t, jcp_put(t, cp));
}

bool jb_done(struct jbuild *b, struct jval *out)
{
    struct jarena *a = &b->r->arena;
    if (b->p && b->p + b->cap == a->cur && b->p >= a->base)
        a->cur = b->p + b->len; /* give the slack back */
    *out = jv_str(b->p ? b->p : "", b->len);
    return jinja_work(b->r, b->len);
}

/* ---- numbers ------------------------------------------------------------------------------------------ */

double jinja_strtod(const char *s, size_t len)
{
    char t[512];
    size_t n = 0;
    const char *point = localeconv()->decimal_point;
    for (size_t i = 0; i < len && n + 8 < sizeof t; i++) {
        if (s[i] == '.')
            for (const char *p = point; *p && n + 8 < sizeof t; p++)
                t[n++] = *p;
        else if (s[i] != '_')
            t[n++] = s[i];
    }
    t[n] = 0;
    return strtod(t, NULL);
}

/* Shortest digits that read back as f; returns the decimal exponent of the first digit. */
static int shortest(double f, char digits[32])
{
    char t[64];
    int exponent = 0;
    for (int p = 0; p < 17; p++) {
        snprintf(t, sizeof t, "%.*e", p, f);
        if (strtod(t, NULL) == f || p == 16)
            break;
    }
    int n = 0;
    const char *s = t;
    for (; *s && *s != 'e'; s++)
        if (*s >= '0' && *s <= '9')
            digits[n++] = *s;
    digits[n] = 0;
    exponent = atoi(s + 1);
    while (n > 1 && digits[n - 1] == '0')
        digits[--n] = 0;
    return exponent;
}

bool jinja_put_float(struct jbuild *b, double f)
{
    if (isnan(f))
        return jb_puts(b, "nan");
    if (signbit(f) && !jb_puts(b, "-"))
        return false;
    if (isinf(f))
        return jb_puts(b, "inf");
    char d[32], t[64];
    int e = f == 0 ? 0 : shortest(fabs(f), d), n;
    if (f == 0)
        strcpy(d, "0");
    n = (int)strlen(d);
    if (e < -4 || e >= 16)
        snprintf(t, sizeof t, "%c%s%se%c%02d", d[0], n > 1 ? "." : "", d + 1, e < 0 ? '-' : '+', abs(e));
    else if (e < 0)
        snprintf(t, sizeof t, "0.%.*s%s", -e - 1, "000", d);
    else if (n <= e + 1)
        snprintf(t, sizeof t, "%s%.*s.0", d, e + 1 - n, "0000000000000000");
    else
        snprintf(t, sizeof t, "%.*s.%s", e + 1, d, d + e + 1);
    return jb_puts(b, t);
}

static bool put_int(struct jbuild *b, int64_t i)
{
    char t[32];
    snprintf(t, sizeof t, "%lld", (long long)i);
    return jb_puts(b, t);
}

/* ---- repr and str ------------------------------------------------------------------------------------- */

static bool put_repr_str(struct jbuild *b, const struct jval *v)
{
    bool single = v->len && memchr(v->u.s, '\'', v->len), dbl = v->len && memchr(v->u.s, '"', v->len);
    char quote = single && !dbl ? '"' : '\'', t[16];
    if (!jb_put(b, &quote, 1))
        return false;
    b->content = jinja_is_content(b->r, v);
    for (size_t at = 0; at < v->len;) {
        uint32_t cp = jcp_next(v->u.s, v->len, &at);
        if (cp == (uint32_t)quote || cp == '\\')
            snprintf(t, sizeof t, "\\%c", (int)cp);
        else if (cp == '\n' || cp == '\r' || cp == '\t')
            snprintf(t, sizeof t, "\\%c", cp == '\n' ? 'n' : cp == '\r' ? 'r' : 't');
        else if (jcp_printable(cp))
            t[jcp_put(t, cp)] = 0;
        else
            snprintf(t, sizeof t, cp < 0x100 ? "\\x%02x" : cp < 0x10000 ? "\\u%04x" : "\\U%08x", cp);
        if (!jb_puts(b, t))
            return false;
    }
    b->content = false;
    return jb_put(b, &quote, 1);
}

static bool put_items(struct jbuild *b, const struct jlist *l)
{
    for (size_t i = 0; i < l->n; i++)
        if ((i && !jb_puts(b, ", ")) || !jinja_put_repr(b, &l->v[i]))
            return false;
    return true;
}

static bool put_dict(struct jbuild *b, const struct jdict *d)
{
    if (!jb_puts(b, "{"))
        return false;
    for (size_t i = 0; i < d->n; i++)
        if ((i && !jb_puts(b, ", ")) || !jinja_put_repr(b, &d->e[i].key) || !jb_puts(b, ": ") ||
            !jinja_put_repr(b, &d->e[i].val))
            return false;
    return jb_puts(b, "}");
}

static bool put_view(struct jbuild *b, const struct jval *v)
{
    static const char *const names[] = {"dict_items([", "dict_keys([", "dict_values(["};
    struct jlist *l;
    return jinja_list_of(b->r, v, &l) && jb_puts(b, names[v->flag]) && put_items(b, l) && jb_puts(b, "])");
}

static bool put_range(struct jbuild *b, const struct jrange *g)
{
    if (!jb_puts(b, "range(") || !put_int(b, g->start) || !jb_puts(b, ", ") || !put_int(b, g->stop))
        return false;
    if (g->step != 1 && (!jb_puts(b, ", ") || !put_int(b, g->step)))
        return false;
    return jb_puts(b, ")");
}

static bool put_macro(struct jbuild *b, const struct jmacro *m)
{
    if (m->node->kind == N_CALLBLOCK)
        return jb_puts(b, "<Macro anonymous>");
    struct jval name = jv_str(m->node->name, m->node->len);
    return jb_puts(b, "<Macro ") && put_repr_str(b, &name) && jb_puts(b, ">");
}

static bool put_nested(struct jbuild *b, const struct jval *v)
{
    switch ((enum jtype)v->type) {
    case J_LIST:
        return jb_puts(b, "[") && put_items(b, v->u.list) && jb_puts(b, "]");
    case J_TUPLE:
        return jb_puts(b, "(") && put_items(b, v->u.list) && jb_puts(b, v->u.list->n == 1 ? ",)" : ")");
    case J_DICT:
        return put_dict(b, v->u.dict);
    case J_NS:
        return jb_puts(b, "<Namespace ") && put_dict(b, v->u.dict) && jb_puts(b, ">");
    default:
        return put_view(b, v);
    }
}

bool jinja_put_repr(struct jbuild *b, const struct jval *v)
{
    if (!jinja_work(b->r, 1))
        return false;
    switch ((enum jtype)v->type) {
    case J_UNDEF:
        return jb_puts(b, "Undefined");
    case J_NONE:
        return jb_puts(b, "None");
    case J_BOOL:
        return jb_puts(b, v->u.b ? "True" : "False");
    case J_INT:
        return put_int(b, v->u.i);
    case J_FLOAT:
        return jinja_put_float(b, v->u.f);
    case J_STR:
        return (!v->flag || jb_puts(b, "Markup(")) && put_repr_str(b, v) && (!v->flag || jb_puts(b, ")"));
    case J_RANGE:
        return put_range(b, v->u.range);
    case J_MACRO:
        return put_macro(b, v->u.macro);
    case J_LOOP:
        return jb_puts(b, "<LoopContext ") && put_int(b, (int64_t)v->u.loop->index0 + 1) && jb_puts(b, "/") &&
               put_int(b, (int64_t)v->u.loop->items->n) && jb_puts(b, ">");
    case J_ITER:
    case J_FUNC:
    case J_METHOD:
        return jinja_fail(b->r, "the text of a %s is not supported",
                          v->type == J_ITER ? v->u.iter->what : jv_type_name(v));
    default:
        break;
    }
    if (!jinja_enter(b->r) || !put_nested(b, v))
        return false;
    jinja_leave(b->r);
    return true;
}

bool jinja_put_str(struct jbuild *b, const struct jval *v)
{
    if (v->type == J_STR)
        return jb_put(b, v->u.s, v->len);
    return v->type == J_UNDEF || jinja_put_repr(b, v);
}

bool jinja_str(struct jrun *r, const struct jval *v, struct jval *out)
{
    struct jbuild b = {.r = r};
    if (v->type == J_STR) {
        *out = jv_str(v->u.s, v->len);
        return true;
    }
    return jinja_put_str(&b, v) && jb_done(&b, out);
}

/* a + b as strings. Appending to the newest string of the arena costs only the new bytes. */
bool jinja_concat(struct jrun *r, const struct jval *a, const struct jval *b, struct jval *out)
{
    if (!b->len || !a->len) {
        const struct jval *x = b->len ? b : a;
        *out = jv_str(x->u.s, x->len);
        return true;
    }
    size_t n = (size_t)a->len + b->len;
    if (n > LIMIT_TEMPLATE_MEMORY)
        return jinja_fail(r, "a string grew beyond the memory limit of %u bytes", LIMIT_TEMPLATE_MEMORY);
    const char *before = r->arena.cur;
    size_t old = a->len, added = b->len; /* out may be a or b */
    char *p = jarena_grow(&r->arena, a->u.s, a->len, n);
    if (!p)
        return jinja_no_memory(r);
    if (!jinja_copy_origin(r, p + old, b->u.s, added, false))
        return false;
    memcpy(p + old, b->u.s, added);
    *out = jv_str(p, n);
    return jinja_work(r, p + old == before ? added : n);
}

bool jinja_escape_html(struct jrun *r, const struct jval *v, struct jval *out)
{
    struct jbuild b = {.r = r};
    struct jval s;
    if (!jinja_str(r, v, &s))
        return false;
    b.content = jinja_is_content(r, &s);
    for (size_t i = 0; i < s.len; i++) {
        char c = s.u.s[i];
        const char *e = c == '&'    ? "&amp;"
                        : c == '<'  ? "&lt;"
                        : c == '>'  ? "&gt;"
                        : c == '"'  ? "&#34;"
                        : c == '\'' ? "&#39;"
                                    : NULL;
        if (!(e ? jb_puts(&b, e) : jb_put(&b, s.u.s + i, 1)))
            return false;
    }
    if (!jb_done(&b, out))
        return false;
    out->flag = 1;
    return true;
}

/* ---- JSON --------------------------------------------------------------------------------------------- */

static bool put_json_str(struct jbuild *b, const struct jval *v, bool ascii)
{
    if (!jb_puts(b, "\""))
        return false;
    b->content = jinja_is_content(b->r, v);
    for (size_t at = 0; at < v->len;) {
        char t[16];
        size_t from = at;
        uint32_t cp = jcp_next(v->u.s, v->len, &at);
        const char *s = NULL;
        if (cp == '"' || cp == '\\')
            s = cp == '"' ? "\\\"" : "\\\\";
        else if (cp == '\n' || cp == '\r' || cp == '\t')
            s = cp == '\n' ? "\\n" : cp == '\r' ? "\\r" : "\\t";
        else if (cp == '\b' || cp == '\f')
            s = cp == '\b' ? "\\b" : "\\f";
        else if (cp < 0x20 || (ascii && cp > 0x7e && cp < 0x10000))
            snprintf(t, sizeof t, "\\u%04x", cp), s = t;
        else if (ascii && cp >= 0x10000)
            snprintf(t, sizeof t, "\\u%04x\\u%04x", 0xd800 + ((cp - 0x10000) >> 10), 0xdc00 + (cp & 0x3ff)),
                s = t;
        if (!(s ? jb_puts(b, s) : jb_put(b, v->u.s + from, at - from)))
            return false;
    }
    b->content = false;
    return jb_puts(b, "\"");
}

static bool put_json_break(struct jbuild *b, const struct jjson *o, int depth)
{
    if (!o->has_indent)
        return true;
    if (!jb_puts(b, "\n"))
        return false;
    for (int i = 0; i < depth; i++)
        if (!jb_put(b, o->indent.u.s, o->indent.len))
            return false;
    return true;
}

static bool put_json_at(struct jbuild *b, const struct jval *v, const struct jjson *o, int depth);

static bool put_json_list(struct jbuild *b, const struct jlist *l, const struct jjson *o, int depth)
{
    if (!l->n)
        return jb_puts(b, "[]");
    if (!jb_puts(b, "["))
        return false;
    for (size_t i = 0; i < l->n; i++)
        if ((i && !jinja_put_str(b, &o->item_sep)) || !put_json_break(b, o, depth + 1) ||
            !put_json_at(b, &l->v[i], o, depth + 1))
            return false;
    return put_json_break(b, o, depth) && jb_puts(b, "]");
}

static bool put_json_scalar(struct jbuild *b, const struct jval *v, bool ascii)
{
    switch ((enum jtype)v->type) {
    case J_STR:
        return put_json_str(b, v, ascii);
    case J_NONE:
        return jb_puts(b, "null");
    case J_BOOL:
        return jb_puts(b, v->u.b ? "true" : "false");
    case J_INT:
        return put_int(b, v->u.i);
    case J_FLOAT:
        if (isnan(v->u.f) || isinf(v->u.f))
            return jb_puts(b, isnan(v->u.f) ? "NaN" : v->u.f < 0 ? "-Infinity" : "Infinity");
        return jinja_put_float(b, v->u.f);
    default:
        return jinja_fail(b->r, "Object of type %s is not JSON serializable", jv_type_name(v));
    }
}

/* Keys that are no strings are written as the text of their JSON value. */
static bool put_json_key(struct jbuild *b, const struct jval *k, bool ascii)
{
    if (k->type == J_STR)
        return put_json_str(b, k, ascii);
    if (k->type != J_NONE && !jv_is_num(k))
        return jinja_fail(b->r, "keys must be str, int, float, bool or None, not %s", jv_type_name(k));
    return jb_puts(b, "\"") && put_json_scalar(b, k, ascii) && jb_puts(b, "\"");
}

/* Insertion into a sorted copy would be quadratic: a heap sort of pointers, keys being unique. */
static bool sort_entries(struct jrun *r, const struct jentry **e, size_t n)
{
    for (size_t start = n / 2, end = n; end > 1;) {
        if (start > 0) {
            start--;
        } else {
            const struct jentry *t = e[--end];
            e[end] = e[0];
            e[0] = t;
        }
        for (size_t root = start, child; (child = 2 * root + 1) < end; root = child) {
            int c;
            if (child + 1 < end) {
                if (!jinja_order(r, &e[child]->key, &e[child + 1]->key, &c))
                    return false;
                child += c < 0;
            }
            if (!jinja_order(r, &e[root]->key, &e[child]->key, &c))
                return false;
            if (c >= 0)
                break;
            const struct jentry *t = e[root];
            e[root] = e[child];
            e[child] = t;
        }
    }
    return true;
}

static bool put_json_dict(struct jbuild *b, const struct jdict *d, const struct jjson *o, int depth)
{
    if (!d->n)
        return jb_puts(b, "{}");
    const struct jentry **e = jarena_alloc(&b->r->arena, d->n * sizeof *e);
    if (!e)
        return jinja_no_memory(b->r);
    for (size_t i = 0; i < d->n; i++)
        e[i] = &d->e[i];
    if (o->sort_keys && !sort_entries(b->r, e, d->n))
        return false;
    if (!jb_puts(b, "{"))
        return false;
    for (size_t i = 0; i < d->n; i++)
        if ((i && !jinja_put_str(b, &o->item_sep)) || !put_json_break(b, o, depth + 1) ||
            !put_json_key(b, &e[i]->key, o->ascii) || !jinja_put_str(b, &o->key_sep) ||
            !put_json_at(b, &e[i]->val, o, depth + 1))
            return false;
    return put_json_break(b, o, depth) && jb_puts(b, "}");
}

static bool put_json_at(struct jbuild *b, const struct jval *v, const struct jjson *o, int depth)
{
    if (!jinja_work(b->r, 1))
        return false;
    if (v->type != J_LIST && v->type != J_TUPLE && v->type != J_DICT)
        return put_json_scalar(b, v, o->ascii);
    if (!jinja_enter(b->r))
        return false;
    if (!(v->type == J_DICT ? put_json_dict(b, v->u.dict, o, depth) : put_json_list(b, v->u.list, o, depth)))
        return false;
    jinja_leave(b->r);
    return true;
}

bool jinja_put_json(struct jbuild *b, const struct jval *v, const struct jjson *o)
{
    return put_json_at(b, v, o, 0);
}
