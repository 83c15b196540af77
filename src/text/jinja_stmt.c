/* Statements of the template language: tags to nodes.
 *
 * Known tags: for, if, set, macro, call, filter, with, print, break, continue, and generation as transformers
 * has it (its body is rendered in a scope of its own). Tags that reach outside the template (include, import,
 * extends, block...) are refused by name. */
#include "text/jinja.h"
#include "base/mem.h"
#include <string.h>

static bool parse_block(struct jparse *p, const char *const *ends, struct jnode **out);

/* The body of a tag up to one of ends ("" ends the list); cur is then the end tag's name. */
static bool parse_body(struct jparse *p, const char *const *ends, struct jnode **out)
{
    if (p->cur.type == T_COLON && !jinja_next(p)) /* "{% if x: %}" is allowed */
        return false;
    if (!jinja_expect(p, T_BLOCK_END))
        return false;
    if (depth_enter(&p->depth))
        return jinja_syntax(p, p->cur.pos, "nested deeper than %d", LIMIT_TEMPLATE_DEPTH);
    if (!parse_block(p, ends, out))
        return false;
    depth_leave(&p->depth);
    return true;
}

/* The same, for the body that ends the tag: the end tag is consumed. */
static bool parse_last_body(struct jparse *p, const char *end, struct jnode **out)
{
    const char *const ends[] = {end, NULL};
    return parse_body(p, ends, out) && jinja_next(p);
}

/* ---- assignment targets ------------------------------------------------------------------------------- */

static bool target_name(struct jparse *p, struct jnode **out, bool with_namespace)
{
    if (p->cur.type != T_NAME)
        return jinja_expect(p, T_NAME);
    struct jtoken t = p->cur;
    if (!jinja_next(p))
        return false;
    bool attr = with_namespace && p->cur.type == T_DOT;
    struct jnode *n = *out = jinja_node(p, attr ? N_NSREF : N_NAME, t.pos);
    if (!n)
        return false;
    n->name = t.s;
    n->len = t.len;
    if (attr) {
        if (!jinja_next(p))
            return false;
        if (p->cur.type != T_NAME)
            return jinja_expect(p, T_NAME);
        n->value = jv_str(p->cur.s, p->cur.len);
        return jinja_next(p);
    }
    static const char *const fixed[] = {"true", "True", "false", "False", "none", "None"};
    for (size_t i = 0; i < sizeof fixed / sizeof fixed[0]; i++)
        if (strcmp(t.s, fixed[i]) == 0)
            return jinja_syntax(p, t.pos, "cannot assign to '%s'", t.s);
    if (p->all_loops && strcmp(t.s, "loop") == 0)
        return jinja_syntax(p, t.pos, "cannot assign to 'loop' inside of a for loop");
    return true;
}

static bool parse_target(struct jparse *p, bool with_namespace, struct jnode **out);

static bool target_item(struct jparse *p, bool with_namespace, struct jnode **out)
{
    if (p->cur.type != T_LPAREN)
        return target_name(p, out, with_namespace);
    if (depth_enter(&p->depth))
        return jinja_syntax(p, p->cur.pos, "nested deeper than %d", LIMIT_TEMPLATE_DEPTH);
    if (!jinja_next(p) || !parse_target(p, false, out) || !jinja_expect(p, T_RPAREN))
        return false;
    depth_leave(&p->depth);
    return true;
}

/* name, ns.attr, or a (nested) tuple of them. */
static bool parse_target(struct jparse *p, bool with_namespace, struct jnode **out)
{
    struct jnode *first = NULL, **tail = &first;
    uint32_t pos = p->cur.pos;
    bool is_tuple = false;
    for (;;) {
        if (first && !jinja_expect(p, T_COMMA))
            return false;
        if (p->cur.type == T_VAR_END || p->cur.type == T_BLOCK_END || p->cur.type == T_RPAREN)
            break;
        if (!target_item(p, with_namespace, tail))
            return false;
        tail = &(*tail)->next;
        if (p->cur.type != T_COMMA)
            break;
        is_tuple = true;
    }
    if (!first)
        return jinja_syntax(p, p->cur.pos, "expected a name to assign to");
    *out = first;
    if (is_tuple) {
        if (!(*out = jinja_node(p, N_TUPLE, pos)))
            return false;
        (*out)->list = first;
    }
    return true;
}

/* ---- tags --------------------------------------------------------------------------------------------- */

static bool parse_for(struct jparse *p, struct jnode *n)
{
    static const char *const ends[] = {"endfor", "else", NULL};
    bool soft = p->soft;
    n->kind = N_FOR;
    p->all_loops++;
    if (!parse_target(p, false, &n->a))
        return false;
    if (!jinja_is(p, "in"))
        return jinja_syntax(p, p->cur.pos, "expected 'in' after the targets of a for loop");
    if (!jinja_next(p) || !jinja_tuple(p, false, false, &n->b))
        return false;
    p->soft = false;
    if (jinja_is(p, "if") && (!jinja_next(p) || !jinja_expr(p, true, &n->c)))
        return false;
    if (jinja_is(p, "recursive")) {
        n->flags |= FOR_RECURSIVE;
        if (!jinja_next(p))
            return false;
    }
    p->loops++;
    if (!parse_body(p, ends, &n->list))
        return false;
    p->loops--;
    if (jinja_is(p, "else")) {
        n->flags |= FOR_ELSE;
        if (!jinja_next(p) || !parse_last_body(p, "endfor", &n->els))
            return false;
    } else if (!jinja_next(p)) {
        return false;
    }
    p->soft = soft;
    p->all_loops--;
    return true;
}

/* Branches: list of N_ARG (a: condition, list: body); els: the rest. */
static bool parse_if(struct jparse *p, struct jnode *n)
{
    static const char *const ends[] = {"elif", "else", "endif", NULL};
    bool soft = p->soft;
    n->kind = N_IF;
    p->soft = true;
    for (struct jnode **tail = &n->list;; tail = &(*tail)->next) {
        struct jnode *branch = *tail = jinja_node(p, N_ARG, p->cur.pos);
        if (!branch || !jinja_tuple(p, false, false, &branch->a) || !parse_body(p, ends, &branch->list))
            return false;
        if (!jinja_is(p, "elif"))
            break;
        if (!jinja_next(p))
            return false;
    }
    if (jinja_is(p, "else")) {
        if (!jinja_next(p) || !parse_last_body(p, "endif", &n->els))
            return false;
    } else if (!jinja_next(p)) {
        return false;
    }
    p->soft = soft;
    return true;
}

static bool parse_filters(struct jparse *p, struct jnode **out, bool first)
{
    while (first || p->cur.type == T_PIPE) {
        if (!first && !jinja_next(p))
            return false;
        first = false;
        if (!(*out = jinja_node(p, N_FILTER, p->cur.pos)) || !jinja_filter_suffix(p, out))
            return false;
        out = &(*out)->next;
    }
    return true;
}

static bool parse_set(struct jparse *p, struct jnode *n)
{
    n->kind = N_SET;
    if (!parse_target(p, true, &n->a))
        return false;
    if (p->cur.type == T_ASSIGN)
        return jinja_next(p) && jinja_tuple(p, true, false, &n->b);
    n->kind = N_SETBLOCK;
    return parse_filters(p, &n->b, false) && parse_last_body(p, "endset", &n->list);
}

/* Parameters: els, a list of N_NAME, defaults in a. */
static bool parse_signature(struct jparse *p, struct jnode *n)
{
    struct jnode **tail = &n->els;
    bool defaults = false;
    if (!jinja_expect(p, T_LPAREN))
        return false;
    while (p->cur.type != T_RPAREN) {
        if (n->els && !jinja_expect(p, T_COMMA))
            return false;
        if (!target_name(p, tail, false))
            return false;
        struct jnode *param = *tail;
        for (struct jnode *q = n->els; q != param; q = q->next)
            if (q->name == param->name)
                return jinja_syntax(p, param->pos, "two parameters are called '%s'", param->name);
        if (p->cur.type == T_ASSIGN) {
            defaults = true;
            if (!jinja_next(p) || !jinja_expr(p, true, &param->a))
                return false;
        } else if (defaults) {
            return jinja_syntax(p, param->pos, "a parameter without a default follows one with a default");
        }
        tail = &param->next;
    }
    return jinja_next(p);
}

/* A body that is a function of its own: break and continue do not reach out of it. */
static bool parse_function(struct jparse *p, struct jnode *n, const char *end)
{
    int loops = p->loops;
    bool soft = p->soft;
    uint8_t *outer = p->macro_flags, flags = 0;
    p->loops = 0;
    p->soft = false;
    p->macro_flags = &flags;
    if (!parse_last_body(p, end, &n->list))
        return false;
    for (struct jnode *q = n->els; q; q = q->next)
        if (strcmp(q->name, "caller") == 0 && (flags & MACRO_CALLER)) {
            if (!q->a)
                return jinja_syntax(p, q->pos, "a parameter called 'caller' needs a default");
            flags &= (uint8_t)~MACRO_CALLER; /* an ordinary parameter then */
        }
    n->flags = flags;
    if (outer)
        *outer |= flags;
    p->macro_flags = outer;
    p->loops = loops;
    p->soft = soft;
    return true;
}

static bool parse_macro(struct jparse *p, struct jnode *n)
{
    struct jnode *name;
    n->kind = N_MACRO;
    if (!target_name(p, &name, false))
        return false;
    n->name = name->name;
    n->len = name->len;
    return parse_signature(p, n) && parse_function(p, n, "endmacro");
}

static bool parse_call(struct jparse *p, struct jnode *n)
{
    uint32_t pos = p->cur.pos;
    n->kind = N_CALLBLOCK;
    if (p->cur.type == T_LPAREN && !parse_signature(p, n))
        return false;
    if (!jinja_expr(p, true, &n->a))
        return false;
    struct jnode *last = n->a->kind == N_POSTFIX ? n->a->list : NULL;
    while (last && last->next)
        last = last->next;
    if (!last || last->kind != N_CALL)
        return jinja_syntax(p, pos, "expected a call");
    return parse_function(p, n, "endcall");
}

static bool parse_with(struct jparse *p, struct jnode *n)
{
    n->kind = N_WITH;
    for (struct jnode **tail = &n->els; p->cur.type != T_BLOCK_END; tail = &(*tail)->next) {
        if (n->els && !jinja_expect(p, T_COMMA))
            return false;
        struct jnode *pair = *tail = jinja_node(p, N_ARG, p->cur.pos);
        if (!pair || !parse_target(p, false, &pair->a) || !jinja_expect(p, T_ASSIGN) ||
            !jinja_expr(p, true, &pair->b))
            return false;
    }
    return parse_last_body(p, "endwith", &n->list);
}

static bool parse_filter_block(struct jparse *p, struct jnode *n)
{
    n->kind = N_FILTERBLOCK;
    return parse_filters(p, &n->b, true) && parse_last_body(p, "endfilter", &n->list);
}

static bool parse_print(struct jparse *p, struct jnode *n)
{
    n->kind = N_PRINT;
    for (struct jnode **tail = &n->list; p->cur.type != T_BLOCK_END; tail = &(*tail)->next)
        if ((n->list && !jinja_expect(p, T_COMMA)) || !jinja_expr(p, true, tail))
            return false;
    return true;
}

static bool parse_jump(struct jparse *p, struct jnode *n)
{
    if (!p->loops)
        return jinja_syntax(p, n->pos, "'%s' outside of a for loop",
                            n->kind == N_BREAK ? "break" : "continue");
    return true;
}

static bool parse_generation(struct jparse *p, struct jnode *n)
{
    int loops = p->loops;
    n->kind = N_SCOPE;
    p->loops = 0;
    if (!parse_last_body(p, "endgeneration", &n->list))
        return false;
    p->loops = loops;
    return true;
}

static bool parse_break(struct jparse *p, struct jnode *n)
{
    n->kind = N_BREAK;
    return parse_jump(p, n);
}

static bool parse_continue(struct jparse *p, struct jnode *n)
{
    n->kind = N_CONTINUE;
    return parse_jump(p, n);
}

static const struct {
    const char *name;
    bool (*parse)(struct jparse *p, struct jnode *n);
} tags[] = {
    {"for", parse_for},
    {"if", parse_if},
    {"set", parse_set},
    {"macro", parse_macro},
    {"call", parse_call},
    {"filter", parse_filter_block},
    {"with", parse_with},
    {"print", parse_print},
    {"break", parse_break},
    {"continue", parse_continue},
    {"generation", parse_generation},
};

static bool parse_tag(struct jparse *p, struct jnode **out)
{
    if (p->cur.type != T_NAME)
        return jinja_syntax(p, p->cur.pos, "expected the name of a tag");
    struct jtoken t = p->cur;
    for (size_t i = 0; i < sizeof tags / sizeof tags[0]; i++) {
        if (strcmp(t.s, tags[i].name) != 0)
            continue;
        struct jnode *n = *out = jinja_node(p, N_SCOPE, t.pos);
        return n && jinja_next(p) && tags[i].parse(p, n) && jinja_expect(p, T_BLOCK_END);
    }
    static const char *const outside[] = {"include", "import", "from", "extends", "block", "trans", "do"};
    for (size_t i = 0; i < sizeof outside / sizeof outside[0]; i++)
        if (strcmp(t.s, outside[i]) == 0)
            return jinja_syntax(p, t.pos, "the tag '%s' is unsupported in chat templates", t.s);
    return jinja_syntax(p, t.pos, "unknown tag '%s'", t.s);
}

static bool is_end(const struct jparse *p, const char *const *ends)
{
    for (; ends && *ends; ends++)
        if (jinja_is(p, *ends))
            return true;
    return false;
}

static bool parse_output(struct jparse *p, struct jnode **out)
{
    struct jnode *n = *out = jinja_node(p, N_PRINT, p->cur.pos);
    if (!n || !jinja_next(p) || !jinja_tuple(p, true, false, &n->list))
        return false;
    n->pos = n->list->pos;
    return jinja_expect(p, T_VAR_END);
}

static bool parse_block(struct jparse *p, const char *const *ends, struct jnode **out)
{
    for (struct jnode **tail = out;; tail = *tail ? &(*tail)->next : tail) {
        switch (p->cur.type) {
        case T_EOF:
            if (ends)
                return jinja_syntax(p, p->cur.pos, "the template ends before '%s'", ends[0]);
            return true;
        case T_DATA:
            if (!(*tail = jinja_node(p, N_DATA, p->cur.pos)))
                return false;
            (*tail)->value = jv_str(p->cur.s, p->cur.len);
            if (!jinja_next(p))
                return false;
            break;
        case T_VAR_BEGIN:
            if (!parse_output(p, tail))
                return false;
            break;
        case T_BLOCK_BEGIN:
            if (!jinja_next(p))
                return false;
            if (is_end(p, ends))
                return true;
            if (!parse_tag(p, tail))
                return false;
            break;
        default:
            return jinja_unexpected(p, &p->cur);
        }
    }
}

bool jinja_parse_body(struct jparse *p)
{
    p->line_starting = true;
    p->depth.limit = LIMIT_TEMPLATE_DEPTH;
    static const char *const special[N_NAMES] = {"loop", "caller", "kwargs", "varargs"};
    bool ok = true;
    for (int i = 0; i < N_NAMES && ok; i++)
        ok = (p->t->special[i] = jinja_intern(p, special[i], strlen(special[i]))) != NULL;
    ok = ok && jinja_next(p) && parse_block(p, NULL, &p->t->body);
    mem_free(p->names);
    p->names = NULL;
    return ok;
}
