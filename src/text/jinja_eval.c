/* Evaluation of expressions, and calls.
 *
 * Each node counts a step and a level of depth; the position of the node is kept in r->pos, so that whatever
 * fails beneath names the right line and column. */
#include "text/jinja.h"
#include <stdio.h>
#include <string.h>

bool jinja_fail(struct jrun *r, const char *fmt, ...)
{
    char text[512];
    int line, column;
    va_list ap;
    if (r->status != HASTEN_OK)
        return false; /* the first failure is the one to report */
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    jinja_position(r->t, r->pos, &line, &column);
    r->status =
        error_set(r->err, HASTEN_ERR_TEMPLATE, "%s: line %d, column %d: %s", r->t->name, line, column, text);
    return false;
}

bool jinja_no_memory(struct jrun *r)
{
    if (r->arena.over)
        return jinja_fail(r, "the rendering needs more than %u bytes of memory", LIMIT_TEMPLATE_MEMORY);
    if (r->status == HASTEN_OK)
        r->status = error_set(r->err, HASTEN_ERR_MEMORY, "%s: no memory to render the template", r->t->name);
    return false;
}

bool jinja_work(struct jrun *r, uint64_t n_bytes)
{
    r->steps += (n_bytes + 63) / 64;
    if (r->steps > LIMIT_TEMPLATE_STEPS)
        return jinja_fail(r, "the rendering takes more than %d steps", LIMIT_TEMPLATE_STEPS);
    return true;
}

bool jinja_enter(struct jrun *r)
{
    if (depth_enter(&r->depth))
        return jinja_fail(r, "nested deeper than %d", LIMIT_TEMPLATE_DEPTH);
    return true;
}

void jinja_leave(struct jrun *r)
{
    depth_leave(&r->depth);
}

/* ---- names -------------------------------------------------------------------------------------------- */

static bool eval_name(struct jrun *r, const struct jnode *n, struct jval *out)
{
    uint64_t seen = 0;
    for (const struct jscope *s = r->scope; s; s = s->parent)
        for (size_t i = 0; i < s->n; i++, seen += 4)
            if (s->vars[i].name == n->name) {
                *out = s->vars[i].v;
                return jinja_work(r, seen);
            }
    struct jval *v;
    if (!jinja_work(r, seen) || !jdict_find_str(r, r->context, n->name, n->len, &v))
        return false;
    if (v) {
        *out = *v;
        return true;
    }
    const struct jbuiltin *g = jinja_find_global(n->name, n->len);
    *out = g ? (struct jval){.type = J_FUNC, .u.fn = g} : jv_undef(J_HINT_NAME, n->name, n->len);
    return true;
}

/* ---- displays and operators --------------------------------------------------------------------------- */

static bool eval_list(struct jrun *r, const struct jnode *n, struct jval *out)
{
    struct jlist *l;
    struct jval v;
    if (!jlist_new(r, 0, &l))
        return false;
    for (const struct jnode *i = n->list; i; i = i->next)
        if (!jinja_eval(r, i, &v) || !jlist_push(r, l, &v))
            return false;
    *out = (struct jval){.type = n->kind == N_LIST ? J_LIST : J_TUPLE, .u.list = l};
    return true;
}

static bool eval_dict(struct jrun *r, const struct jnode *n, struct jval *out)
{
    struct jdict *d;
    struct jval k, v;
    if (!jdict_new(r, 0, &d))
        return false;
    for (const struct jnode *i = n->list; i; i = i->next) {
        if (!jinja_eval(r, i->a, &k) || !jinja_eval(r, i->b, &v))
            return false;
        r->pos = i->pos;
        if (!jdict_set(r, d, &k, &v))
            return false;
    }
    *out = jv_dict(d);
    return true;
}

/* a < b < c is a < b and b < c, each operand evaluated once and no more than needed. */
static bool eval_compare(struct jrun *r, const struct jnode *n, struct jval *out)
{
    struct jval left, right;
    bool yes = true;
    if (!jinja_eval(r, n->list, &left))
        return false;
    for (const struct jnode *s = n->list->next; s && yes; s = s->next) {
        if (!jinja_eval(r, s->a, &right))
            return false;
        r->pos = s->pos;
        if (!jinja_compare(r, s->op, &left, &right, &yes))
            return false;
        left = right;
    }
    *out = jv_bool(yes);
    return true;
}

static bool eval_concat(struct jrun *r, const struct jnode *n, struct jval *out)
{
    struct jval v, s;
    *out = jv_text("");
    for (const struct jnode *i = n->list; i; i = i->next) {
        const struct jnode *operand = i == n->list ? i : i->a;
        if (!jinja_eval(r, operand, &v))
            return false;
        r->pos = operand->pos;
        if (!jinja_str(r, &v, &s) || !jinja_concat(r, out, &s, out))
            return false;
    }
    return true;
}

static bool eval_chain(struct jrun *r, const struct jnode *n, struct jval *out)
{
    struct jval left, right;
    if (n->level == LEVEL_COMPARE)
        return eval_compare(r, n, out);
    if (n->level == LEVEL_CONCAT)
        return eval_concat(r, n, out);
    if (!jinja_eval(r, n->list, &left))
        return false;
    for (const struct jnode *s = n->list->next; s; s = s->next) {
        if (n->level == LEVEL_OR || n->level == LEVEL_AND) {
            if (jv_true(&left) == (n->level == LEVEL_OR))
                break;
            if (!jinja_eval(r, s->a, &left))
                return false;
            continue;
        }
        if (!jinja_eval(r, s->a, &right))
            return false;
        r->pos = s->pos;
        if (!jinja_binary(r, s->op, &left, &right, &left))
            return false;
    }
    *out = left;
    return true;
}

static bool eval_cond(struct jrun *r, const struct jnode *n, struct jval *out)
{
    struct jval test;
    if (!jinja_eval(r, n->b, &test))
        return false;
    if (jv_true(&test))
        return jinja_eval(r, n->a, out);
    if (n->c)
        return jinja_eval(r, n->c, out);
    static const char text[] = "the condition of an 'if' without 'else' was false";
    *out = jv_undef(J_HINT_TEXT, text, sizeof text - 1);
    return true;
}

/* ---- calls -------------------------------------------------------------------------------------------- */

bool jinja_args_push(struct jrun *r, struct jargs *a, const struct jval *v)
{
    struct jlist l = {a->n, a->v, a->cap};
    if (!jlist_push(r, &l, v))
        return false;
    a->v = l.v;
    a->n = l.n;
    a->cap = l.cap;
    return true;
}

bool jinja_args_kw(struct jrun *r, struct jargs *a, const char *name, size_t len, const struct jval *v)
{
    for (size_t i = 0; i < a->n_kw; i++)
        if (a->kw[i].len == len && memcmp(a->kw[i].name, name, len) == 0)
            return jinja_fail(r, "the argument '%.*s' is given twice", (int)len, name);
    if (!jinja_work(r, a->n_kw * 8))
        return false;
    if (a->n_kw == a->cap_kw) {
        size_t cap = a->cap_kw ? a->cap_kw * 2 : 4;
        struct jkw *kw = jarena_alloc(&r->arena, cap * sizeof *kw);
        if (!kw)
            return jinja_no_memory(r);
        if (a->n_kw)
            memcpy(kw, a->kw, a->n_kw * sizeof *kw);
        a->kw = kw;
        a->cap_kw = cap;
    }
    a->kw[a->n_kw++] = (struct jkw){.name = name, .len = (uint32_t)len, .v = *v};
    return true;
}

static bool spread(struct jrun *r, const struct jval *v, bool keywords, struct jargs *out)
{
    struct jlist *l;
    if (!keywords) {
        if (!jinja_list_of(r, v, &l))
            return false;
        for (size_t i = 0; i < l->n; i++)
            if (!jinja_args_push(r, out, &l->v[i]))
                return false;
        return true;
    }
    if (v->type != J_DICT)
        return jinja_fail(r, "the argument after ** must be a mapping, not %s", jv_type_name(v));
    for (size_t i = 0; i < v->u.dict->n; i++) {
        const struct jentry *e = &v->u.dict->e[i];
        if (e->key.type != J_STR)
            return jinja_fail(r, "keywords must be strings");
        if (!jinja_args_kw(r, out, e->key.u.s, e->key.len, &e->val))
            return false;
    }
    return true;
}

bool jinja_eval_args(struct jrun *r, const struct jnode *list, struct jargs *out)
{
    struct jval v;
    *out = (struct jargs){0};
    for (const struct jnode *a = list; a; a = a->next) {
        if (!jinja_eval(r, a->a, &v))
            return false;
        r->pos = a->pos;
        if (a->kind == N_ARG     ? !jinja_args_push(r, out, &v)
            : a->kind == N_KWARG ? !jinja_args_kw(r, out, a->name, a->len, &v)
                                 : !spread(r, &v, a->kind == N_STARSTAR, out))
            return false;
    }
    return true;
}

/* Index of the parameter called name, or -1. *n: how many there are, *required: how many must be given. */
static int find_param(const char *params, const char *name, size_t len, int *n, int *required)
{
    int found = -1;
    *n = *required = 0;
    for (const char *s = params; *s; ++*n) {
        size_t k = strcspn(s, " ");
        bool optional = s[k - 1] == '?';
        size_t w = optional ? k - 1 : k;
        if (*s == '*')
            break;
        if (!optional)
            ++*required;
        if (name && w == len && memcmp(s, name, len) == 0)
            found = *n;
        s += k + (s[k] == ' ');
    }
    return found;
}

bool jinja_call_builtin(struct jrun *r, const struct jbuiltin *fn, const struct jval *self,
                        const struct jargs *args, struct jval *out)
{
    struct jcall c = {.fn = fn, .raw = args};
    int n, required;
    if (self)
        c.self = *self;
    find_param(fn->params, NULL, 0, &n, &required);
    bool any = strchr(fn->params, '*') != NULL;
    if (args->n > (size_t)n && !any)
        return jinja_fail(r, "%s takes at most %d arguments, %zu were given", fn->name, n, args->n);
    for (size_t i = 0; i < args->n && i < (size_t)n; i++) {
        c.a[i] = args->v[i];
        c.given[i] = true;
    }
    for (size_t i = 0; i < args->n_kw && !any; i++) {
        const struct jkw *kw = &args->kw[i];
        int p = find_param(fn->params, kw->name, kw->len, &n, &required);
        if (p < 0)
            return jinja_fail(r, "%s takes no argument '%.*s'", fn->name,
                              (int)(kw->len > 100 ? 100 : kw->len), kw->name);
        if (c.given[p])
            return jinja_fail(r, "%s: the argument '%.*s' is given twice", fn->name, (int)kw->len, kw->name);
        c.a[p] = kw->v;
        c.given[p] = true;
    }
    for (int i = 0; i < required; i++)
        if (!c.given[i])
            return jinja_fail(r, "%s needs at least %d arguments", fn->name, required);
    return fn->fn(r, &c, out);
}

bool jinja_call(struct jrun *r, const struct jval *f, struct jargs *args, struct jval *out)
{
    switch ((enum jtype)f->type) {
    case J_FUNC:
        return jinja_call_builtin(r, f->u.fn, NULL, args, out);
    case J_METHOD:
        return jinja_call_builtin(r, f->u.method->fn, &f->u.method->self, args, out);
    case J_MACRO:
        return jinja_call_macro(r, f->u.macro, args, out);
    case J_UNDEF:
        return jinja_undef_error(r, f);
    case J_LOOP:
        return jinja_call_loop(r, f->u.loop, args, out);
    default:
        return jinja_fail(r, "'%s' object is not callable", jv_type_name(f));
    }
}

/* ---- suffixes ----------------------------------------------------------------------------------------- */

static bool apply_slice(struct jrun *r, const struct jnode *s, struct jval *v)
{
    const struct jnode *parts[3] = {s->a, s->b, s->c};
    struct jval b[3];
    for (int i = 0; i < 3; i++) {
        b[i] = jv_none();
        if (parts[i] && !jinja_eval(r, parts[i], &b[i]))
            return false;
    }
    r->pos = s->pos;
    return jinja_slice(r, v, &b[0], &b[1], &b[2], v);
}

static bool apply_named(struct jrun *r, const struct jnode *s, struct jval *v)
{
    struct jargs args;
    bool yes;
    if (!s->fn) {
        r->pos = s->pos;
        return jinja_fail(r, "no %s named '%s'", s->kind == N_FILTER ? "filter" : "test", s->name);
    }
    if (!jinja_eval_args(r, s->list, &args))
        return false;
    r->pos = s->pos;
    if (s->kind == N_FILTER) {
        struct jval self = *v;
        return jinja_call_builtin(r, s->fn, &self, &args, v);
    }
    if (!jinja_run_test(r, s->fn, v, &args, &yes))
        return false;
    *v = jv_bool(yes == (s->kind == N_TEST));
    return true;
}

bool jinja_apply_suffix(struct jrun *r, const struct jnode *s, struct jval *v)
{
    struct jval x = *v;
    struct jargs args;
    if (!jinja_work(r, 1))
        return false;
    switch ((enum jkind)s->kind) {
    case N_ATTR:
        r->pos = s->pos;
        return jinja_attr(r, &x, s->name, s->len, v);
    case N_ITEM: {
        struct jval key;
        if (!jinja_eval(r, s->a, &key))
            return false;
        r->pos = s->pos;
        return jinja_item(r, &x, &key, v);
    }
    case N_SLICE:
        return apply_slice(r, s, v);
    case N_CALL:
        if (!jinja_eval_args(r, s->list, &args))
            return false;
        r->pos = s->pos;
        return jinja_call(r, &x, &args, v);
    default:
        return apply_named(r, s, v);
    }
}

static bool eval_postfix(struct jrun *r, const struct jnode *n, struct jval *out)
{
    struct jval v;
    if (!jinja_eval(r, n->a, &v))
        return false;
    for (const struct jnode *s = n->list; s; s = s->next)
        if (!jinja_apply_suffix(r, s, &v))
            return false;
    *out = v;
    return true;
}

static bool eval_node(struct jrun *r, const struct jnode *n, struct jval *out)
{
    struct jval v;
    switch ((enum jkind)n->kind) {
    case N_LIST:
    case N_TUPLE:
        return eval_list(r, n, out);
    case N_DICT:
        return eval_dict(r, n, out);
    case N_CHAIN:
        return eval_chain(r, n, out);
    case N_COND:
        return eval_cond(r, n, out);
    case N_POSTFIX:
        return eval_postfix(r, n, out);
    case N_NOT:
        if (!jinja_eval(r, n->a, &v))
            return false;
        *out = jv_bool(!jv_true(&v));
        return true;
    default: /* N_NEG, N_POS */
        if (!jinja_eval(r, n->a, &v))
            return false;
        r->pos = n->pos;
        return jinja_unary(r, n->kind == N_NEG, &v, out);
    }
}

bool jinja_eval(struct jrun *r, const struct jnode *n, struct jval *out)
{
    r->pos = n->pos;
    if (!jinja_work(r, 1))
        return false;
    if (n->kind == N_CONST) {
        *out = n->value;
        return true;
    }
    if (n->kind == N_NAME)
        return eval_name(r, n, out);
    if (!jinja_enter(r) || !eval_node(r, n, out))
        return false;
    jinja_leave(r);
    return true;
}
