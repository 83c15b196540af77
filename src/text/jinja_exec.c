/* Statements: output, loops, assignments, scopes, macros.
 *
 * Text goes straight to r->out. Whatever is captured (block set, filter block, macro, call) is written
 * there too, then taken off its end again. Scopes follow jinja2: a loop's body, a macro, a with, filter
 * or set block has one of its own, an if has none; a macro sees the scope it was defined in. */
#include "text/jinja.h"
#include <string.h>

enum flow {
    FLOW_FAIL,
    FLOW_ON,
    FLOW_BREAK,
    FLOW_CONTINUE
};

static enum flow exec_body(struct jrun *r, const struct jnode *body);

/* ---- scopes ------------------------------------------------------------------------------------------- */

static bool scope_set(struct jrun *r, struct jscope *s, const char *name, const struct jval *v)
{
    for (size_t i = 0; i < s->n; i++)
        if (s->vars[i].name == name) {
            s->vars[i].v = *v;
            return jinja_work(r, i * 4 + 1);
        }
    if (s->n == s->cap) {
        size_t cap = s->cap ? s->cap * 2 : 4;
        struct jvar *p = jarena_alloc(&r->arena, cap * sizeof *p);
        if (!p)
            return jinja_no_memory(r);
        if (s->n)
            memcpy(p, s->vars, s->n * sizeof *p);
        s->vars = p;
        s->cap = cap;
    }
    s->vars[s->n++] = (struct jvar){name, *v};
    return jinja_work(r, s->n * 4);
}

static struct jscope *scope_new(struct jrun *r, struct jscope *parent)
{
    struct jscope *s = jarena_alloc(&r->arena, sizeof *s);
    if (s)
        *s = (struct jscope){.parent = parent};
    else
        jinja_no_memory(r);
    return s;
}

static bool assign(struct jrun *r, const struct jnode *target, const struct jval *v);

static bool assign_tuple(struct jrun *r, const struct jnode *target, const struct jval *v)
{
    struct jlist *l;
    size_t n = 0;
    for (const struct jnode *t = target->list; t; t = t->next)
        n++;
    r->pos = target->pos;
    if (!jinja_list_of(r, v, &l))
        return false;
    if (l->n != n)
        return jinja_fail(r, "cannot unpack %zu values into %zu names", l->n, n);
    n = 0;
    for (const struct jnode *t = target->list; t; t = t->next)
        if (!assign(r, t, &l->v[n++]))
            return false;
    return true;
}

static bool assign(struct jrun *r, const struct jnode *target, const struct jval *v)
{
    if (target->kind == N_NAME)
        return scope_set(r, r->scope, target->name, v);
    if (target->kind == N_TUPLE) {
        if (!jinja_enter(r) || !assign_tuple(r, target, v))
            return false;
        jinja_leave(r);
        return true;
    }
    struct jnode name = *target;
    struct jval ns;
    name.kind = N_NAME;
    if (!jinja_eval(r, &name, &ns))
        return false;
    r->pos = target->pos;
    if (ns.type != J_NS)
        return jinja_fail(r, "cannot assign an attribute of '%s': it is no namespace", target->name);
    return jdict_set(r, ns.u.dict, &target->value, v);
}

/* ---- output ------------------------------------------------------------------------------------------- */

static int put_origin(struct jrun *r, const char *s, size_t len)
{
    static const uint8_t own[256];
    const uint8_t *from = jarena_origin(&r->arena, s);
    if (from)
        return buf_put(r->origin, from, len);
    for (size_t n; len; len -= n) {
        n = len < sizeof own ? len : sizeof own;
        if (buf_put(r->origin, own, n))
            return -1;
    }
    return 0;
}

static bool emit(struct jrun *r, const char *s, size_t len)
{
    if (len > LIMIT_TEMPLATE_OUTPUT - (r->out->len - r->out_start))
        return jinja_fail(r, "the output is longer than %u bytes", LIMIT_TEMPLATE_OUTPUT);
    if (len && (buf_put(r->out, s, len) || (r->origin && put_origin(r, s, len)))) {
        r->arena.over = false;
        return jinja_no_memory(r);
    }
    return jinja_work(r, len);
}

static bool emit_value(struct jrun *r, const struct jval *v)
{
    struct jval s;
    return jinja_str(r, v, &s) && emit(r, s.u.s, s.len);
}

static void cut(struct jrun *r, size_t len)
{
    if (r->origin)
        r->origin->len -= r->out->len - len;
    r->out->len = len;
    if (r->out->data)
        r->out->data[len] = 0;
}

/* Takes what was written since `from` off the output, into *out. */
static bool take_output(struct jrun *r, size_t from, struct jval *out)
{
    const size_t n = r->out->len - from;
    char *p = jarena_bytes(&r->arena, n);
    if (!p)
        return jinja_no_memory(r);
    if (n)
        memcpy(p, r->out->data + from, n);
    if (n && r->origin &&
        !jarena_mark(&r->arena, p, n, (const uint8_t *)r->origin->data + (r->origin->len - n), false))
        return jinja_no_memory(r);
    cut(r, from);
    *out = jv_str(p, n);
    return true;
}

/* Runs body in a new scope and takes what it wrote into *out. */
static enum flow capture(struct jrun *r, const struct jnode *body, struct jval *out)
{
    struct jscope *outer = r->scope;
    size_t from = r->out->len;
    if (!(r->scope = scope_new(r, outer)))
        return FLOW_FAIL;
    enum flow f = exec_body(r, body);
    r->scope = outer;
    return f == FLOW_FAIL || take_output(r, from, out) ? f : FLOW_FAIL;
}

static bool apply_filters(struct jrun *r, const struct jnode *filters, struct jval *v)
{
    for (const struct jnode *f = filters; f; f = f->next)
        if (!jinja_apply_suffix(r, f, v))
            return false;
    return true;
}

/* ---- macros ------------------------------------------------------------------------------------------- */

static bool take_kw(struct jargs *args, const char *name, size_t len, struct jval *out)
{
    for (size_t i = 0; i < args->n_kw; i++) {
        if (args->kw[i].len != len || memcmp(args->kw[i].name, name, len) != 0)
            continue;
        *out = args->kw[i].v;
        args->n_kw--;
        memmove(args->kw + i, args->kw + i + 1, (args->n_kw - i) * sizeof *args->kw);
        return true;
    }
    return false;
}

static bool bind_params(struct jrun *r, const struct jmacro *m, struct jargs *args)
{
    static const char missing[] = "a parameter of the macro was not given";
    size_t i = 0;
    /* given ones first: a default may mention any parameter before it */
    for (const struct jnode *p = m->node->els; p; p = p->next, i++) {
        struct jval v;
        bool given = i < args->n;
        if (given)
            v = args->v[i];
        else if (!take_kw(args, p->name, p->len, &v)) {
            if (!p->a)
                v = jv_undef(J_HINT_TEXT, missing, sizeof missing - 1);
            else if (!jinja_eval(r, p->a, &v))
                return false;
        }
        if (!scope_set(r, r->scope, p->name, &v))
            return false;
    }
    return true;
}

static bool bind_extra(struct jrun *r, const struct jmacro *m, struct jargs *args, const struct jval *caller)
{
    size_t n_params = 0;
    struct jlist *rest;
    for (const struct jnode *p = m->node->els; p; p = p->next)
        n_params++;
    const char *name = m->node->kind == N_MACRO ? m->node->name : "caller";
    if ((m->node->flags & MACRO_CALLER) && !scope_set(r, r->scope, r->t->special[NAME_CALLER], caller))
        return false;
    if (m->node->flags & MACRO_KWARGS) {
        struct jdict *d;
        if (!jdict_new(r, 0, &d))
            return false;
        for (size_t i = 0; i < args->n_kw; i++) {
            struct jval k = jv_str(args->kw[i].name, args->kw[i].len);
            if (!jdict_set(r, d, &k, &args->kw[i].v))
                return false;
        }
        struct jval v = jv_dict(d);
        if (!scope_set(r, r->scope, r->t->special[NAME_KWARGS], &v))
            return false;
    } else if (args->n_kw) {
        return jinja_fail(r, "macro '%s' takes no argument '%.*s'", name,
                          (int)(args->kw[0].len > 100 ? 100 : args->kw[0].len), args->kw[0].name);
    }
    if (m->node->flags & MACRO_VARARGS) {
        if (!jlist_new(r, 0, &rest))
            return false;
        for (size_t i = n_params; i < args->n; i++)
            if (!jlist_push(r, rest, &args->v[i]))
                return false;
        struct jval v = {.type = J_TUPLE, .u.list = rest};
        return scope_set(r, r->scope, r->t->special[NAME_VARARGS], &v);
    }
    if (args->n > n_params)
        return jinja_fail(r, "macro '%s' takes at most %zu arguments, %zu were given", name, n_params,
                          args->n);
    return true;
}

bool jinja_call_macro(struct jrun *r, const struct jmacro *m, struct jargs *args, struct jval *out)
{
    static const char none[] = "no caller was given to the macro";
    struct jscope *outer = r->scope;
    struct jval caller = jv_undef(J_HINT_TEXT, none, sizeof none - 1);
    if (!jinja_enter(r) || !(r->scope = scope_new(r, m->scope)))
        return false;
    if (m->node->flags & MACRO_CALLER)
        take_kw(args, "caller", 6, &caller);
    /* too many or unknown arguments are found before a default is evaluated */
    if (!bind_params(r, m, args) || !bind_extra(r, m, args, &caller))
        return false;
    enum flow f = capture(r, m->node->list, out);
    r->scope = outer;
    if (f == FLOW_FAIL)
        return false;
    jinja_leave(r);
    return true;
}

static bool define_macro(struct jrun *r, const struct jnode *n, struct jval *out)
{
    struct jmacro *m = jarena_alloc(&r->arena, sizeof *m);
    if (!m)
        return jinja_no_memory(r);
    *m = (struct jmacro){.node = n, .scope = r->scope};
    *out = (struct jval){.type = J_MACRO, .u.macro = m};
    return true;
}

/* The call of a call block, with the block as the argument "caller". */
static bool exec_call_block(struct jrun *r, const struct jnode *n)
{
    struct jval v, caller;
    struct jargs args;
    const struct jnode *s = n->a->list;
    if (!jinja_eval(r, n->a->a, &v))
        return false;
    for (; s->next; s = s->next)
        if (!jinja_apply_suffix(r, s, &v))
            return false;
    if (!jinja_eval_args(r, s->list, &args) || !define_macro(r, n, &caller))
        return false;
    r->pos = s->pos;
    struct jval f = v;
    return jinja_args_kw(r, &args, "caller", 6, &caller) && jinja_call(r, &f, &args, &v) && emit_value(r, &v);
}

/* ---- loops -------------------------------------------------------------------------------------------- */

/* The items that the loop's condition lets pass. */
static bool filter_items(struct jrun *r, const struct jnode *n, struct jlist *from, struct jlist **out)
{
    struct jscope *outer = r->scope;
    if (!jlist_new(r, 0, out) || !(r->scope = scope_new(r, outer)))
        return false;
    for (size_t i = 0; i < from->n; i++) {
        struct jval test;
        if (!assign(r, n->a, &from->v[i]) || !jinja_eval(r, n->c, &test))
            return false;
        if (jv_true(&test) && !jlist_push(r, *out, &from->v[i]))
            return false;
    }
    r->scope = outer;
    return true;
}

/* One pass over v: the body once per item, the else part if none reached its end. */
static enum flow run_loop(struct jrun *r, const struct jnode *n, const struct jval *v, struct jscope *outer,
                          int64_t depth0)
{
    struct jlist *items;
    struct jscope *inner;
    struct jloop *loop = jarena_alloc(&r->arena, sizeof *loop);
    bool went = false; /* one iteration reached its end: jinja2 runs the else part otherwise */
    if (!loop) {
        jinja_no_memory(r);
        return FLOW_FAIL;
    }
    if (!jinja_list_of(r, v, &items) || (n->c && !filter_items(r, n, items, &items)) ||
        !(inner = scope_new(r, outer)))
        return FLOW_FAIL;
    *loop = (struct jloop){.items = items, .node = n, .scope = outer, .depth0 = depth0};
    struct jval loop_val = {.type = J_LOOP, .u.loop = loop};
    enum flow f = FLOW_ON;
    for (size_t i = 0; i < items->n && f != FLOW_BREAK; i++) {
        loop->index0 = i;
        inner->n = 0;
        r->scope = inner;
        if (!scope_set(r, inner, r->t->special[NAME_LOOP], &loop_val) || !assign(r, n->a, &items->v[i]))
            return FLOW_FAIL;
        f = exec_body(r, n->list);
        if (f == FLOW_FAIL)
            return f;
        went |= f == FLOW_ON;
    }
    r->scope = outer;
    if (!(n->flags & FOR_ELSE) || went)
        return FLOW_ON;
    if (!(r->scope = scope_new(r, outer)))
        return FLOW_FAIL;
    f = exec_body(r, n->els);
    r->scope = outer;
    return f;
}

static enum flow exec_for(struct jrun *r, const struct jnode *n)
{
    struct jval v;
    if (!jinja_eval(r, n->b, &v))
        return FLOW_FAIL;
    r->pos = n->b->pos;
    return run_loop(r, n, &v, r->scope, 0);
}

/* loop(items) inside of a recursive loop: the loop over other items, as text. */
bool jinja_call_loop(struct jrun *r, const struct jloop *l, const struct jargs *args, struct jval *out)
{
    struct jscope *caller = r->scope;
    const size_t from = r->out->len;
    if (!(l->node->flags & FOR_RECURSIVE))
        return jinja_fail(r, "the loop is not marked 'recursive' and cannot be called");
    if (args->n != 1 || args->n_kw)
        return jinja_fail(r, "loop() takes one value, the items");
    if (!jinja_enter(r))
        return false;
    r->scope = l->scope;
    enum flow f = run_loop(r, l->node, &args->v[0], l->scope, l->depth0 + 1);
    r->scope = caller;
    if (f == FLOW_FAIL || !take_output(r, from, out))
        return false;
    jinja_leave(r);
    return true;
}

/* ---- the rest ----------------------------------------------------------------------------------------- */

static enum flow exec_if(struct jrun *r, const struct jnode *n)
{
    struct jval test;
    for (const struct jnode *b = n->list; b; b = b->next) {
        if (!jinja_eval(r, b->a, &test))
            return FLOW_FAIL;
        if (jv_true(&test))
            return exec_body(r, b->list);
    }
    return exec_body(r, n->els);
}

static enum flow exec_with(struct jrun *r, const struct jnode *n)
{
    struct jscope *outer = r->scope, *inner = scope_new(r, outer);
    if (!inner)
        return FLOW_FAIL;
    for (const struct jnode *p = n->els; p; p = p->next) {
        struct jval v;
        if (!jinja_eval(r, p->b, &v))
            return FLOW_FAIL;
        r->scope = inner;
        if (!assign(r, p->a, &v))
            return FLOW_FAIL;
        r->scope = outer;
    }
    r->scope = inner;
    enum flow f = exec_body(r, n->list);
    r->scope = outer;
    return f;
}

/* Block set and filter block. A break or continue inside abandons what was captured. */
static enum flow exec_capture(struct jrun *r, const struct jnode *n)
{
    struct jval v;
    enum flow f = capture(r, n->list, &v);
    if (f != FLOW_ON)
        return f;
    if (!apply_filters(r, n->b, &v))
        return FLOW_FAIL;
    bool ok = n->kind == N_SETBLOCK ? assign(r, n->a, &v) : emit_value(r, &v);
    return ok ? FLOW_ON : FLOW_FAIL;
}

static bool exec_print(struct jrun *r, const struct jnode *n)
{
    struct jval v;
    for (const struct jnode *e = n->list; e; e = e->next) {
        if (!jinja_eval(r, e, &v))
            return false;
        r->pos = e->pos;
        if (!emit_value(r, &v))
            return false;
    }
    return true;
}

static bool exec_set(struct jrun *r, const struct jnode *n)
{
    struct jval v;
    return jinja_eval(r, n->b, &v) && assign(r, n->a, &v);
}

static bool exec_macro(struct jrun *r, const struct jnode *n)
{
    struct jval v;
    return define_macro(r, n, &v) && scope_set(r, r->scope, n->name, &v);
}

static enum flow exec_scope(struct jrun *r, const struct jnode *n)
{
    struct jscope *outer = r->scope;
    if (!(r->scope = scope_new(r, outer)))
        return FLOW_FAIL;
    enum flow f = exec_body(r, n->list);
    r->scope = outer;
    return f;
}

static enum flow exec_node(struct jrun *r, const struct jnode *n)
{
    bool ok = true;
    r->pos = n->pos;
    switch ((enum jkind)n->kind) {
    case N_DATA:
        ok = emit(r, n->value.u.s, n->value.len);
        break;
    case N_PRINT:
        ok = exec_print(r, n);
        break;
    case N_SET:
        ok = exec_set(r, n);
        break;
    case N_MACRO:
        ok = exec_macro(r, n);
        break;
    case N_CALLBLOCK:
        ok = exec_call_block(r, n);
        break;
    case N_FOR:
        return exec_for(r, n);
    case N_IF:
        return exec_if(r, n);
    case N_WITH:
        return exec_with(r, n);
    case N_SETBLOCK:
    case N_FILTERBLOCK:
        return exec_capture(r, n);
    case N_BREAK:
        return FLOW_BREAK;
    case N_CONTINUE:
        return FLOW_CONTINUE;
    default:
        return exec_scope(r, n);
    }
    return ok ? FLOW_ON : FLOW_FAIL;
}

static enum flow exec_body(struct jrun *r, const struct jnode *body)
{
    enum flow f = FLOW_ON;
    if (!jinja_enter(r))
        return FLOW_FAIL;
    for (const struct jnode *n = body; n && f == FLOW_ON; n = n->next)
        f = jinja_work(r, 1) ? exec_node(r, n) : FLOW_FAIL;
    if (f != FLOW_FAIL)
        jinja_leave(r);
    return f;
}

bool jinja_run(struct jrun *r)
{
    return (r->scope = scope_new(r, NULL)) && exec_body(r, r->t->body) != FLOW_FAIL;
}
