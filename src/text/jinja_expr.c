/* Expressions of the template language: tokens to nodes, with jinja2's precedences.
 *
 * Binary operators of one level become one chain node, suffixes (.name, [item], (call), |filter, is test) one
 * postfix node with a list, so that long chains cost no depth in the parser or the evaluator. Real nesting is
 * counted by p->depth. */
#include "text/jinja.h"
#include <string.h>

struct jnode *jinja_node(struct jparse *p, enum jkind kind, uint32_t pos)
{
    struct jnode *n = jarena_alloc(&p->t->arena, sizeof *n);
    if (!n) {
        jinja_parse_memory(p);
        return NULL;
    }
    memset(n, 0, sizeof *n);
    n->kind = (uint8_t)kind;
    n->pos = pos;
    return n;
}

static bool enter(struct jparse *p)
{
    if (depth_enter(&p->depth))
        return jinja_syntax(p, p->cur.pos, "nested deeper than %d", LIMIT_TEMPLATE_DEPTH);
    return true;
}

static bool token_is(const struct jtoken *t, const char *name)
{
    return t->type == T_NAME && t->len == strlen(name) && memcmp(t->s, name, t->len) == 0;
}

bool jinja_is(const struct jparse *p, const char *name)
{
    return token_is(&p->cur, name);
}

static const char *const token_names[] = {
    [T_EOF] = "end of template",
    [T_DATA] = "template text",
    [T_BLOCK_BEGIN] = "{%",
    [T_BLOCK_END] = "%}",
    [T_VAR_BEGIN] = "{{",
    [T_VAR_END] = "}}",
    [T_NAME] = "a name",
    [T_STRING] = "a string",
    [T_INT] = "an integer",
    [T_FLOAT] = "a float",
    [T_ADD] = "+",
    [T_SUB] = "-",
    [T_DIV] = "/",
    [T_FLOORDIV] = "//",
    [T_MUL] = "*",
    [T_MOD] = "%",
    [T_POW] = "**",
    [T_TILDE] = "~",
    [T_LBRACKET] = "[",
    [T_RBRACKET] = "]",
    [T_LPAREN] = "(",
    [T_RPAREN] = ")",
    [T_LBRACE] = "{",
    [T_RBRACE] = "}",
    [T_EQ] = "==",
    [T_NE] = "!=",
    [T_GT] = ">",
    [T_GE] = ">=",
    [T_LT] = "<",
    [T_LE] = "<=",
    [T_ASSIGN] = "=",
    [T_DOT] = ".",
    [T_COLON] = ":",
    [T_PIPE] = "|",
    [T_COMMA] = ",",
    [T_SEMICOLON] = ";",
};

bool jinja_unexpected(struct jparse *p, const struct jtoken *t)
{
    if (t->type == T_NAME)
        return jinja_syntax(p, t->pos, "unexpected '%.*s'", (int)t->len, t->s);
    return jinja_syntax(p, t->pos, "unexpected %s", token_names[t->type]);
}

bool jinja_expect(struct jparse *p, enum jtok type)
{
    if (p->cur.type == type)
        return jinja_next(p);
    if (p->cur.type == T_NAME)
        return jinja_syntax(p, p->cur.pos, "expected %s, found '%.*s'", token_names[type], (int)p->cur.len,
                            p->cur.s);
    return jinja_syntax(p, p->cur.pos, "expected %s, found %s", token_names[type], token_names[p->cur.type]);
}

/* ---- primaries ---------------------------------------------------------------------------------------- */

static bool parse_const(struct jparse *p, struct jval v, struct jnode **out)
{
    if (!(*out = jinja_node(p, N_CONST, p->cur.pos)))
        return false;
    (*out)->value = v;
    return jinja_next(p);
}

static bool parse_name(struct jparse *p, struct jnode **out)
{
    if (jinja_is(p, "true") || jinja_is(p, "True"))
        return parse_const(p, jv_bool(true), out);
    if (jinja_is(p, "false") || jinja_is(p, "False"))
        return parse_const(p, jv_bool(false), out);
    if (jinja_is(p, "none") || jinja_is(p, "None"))
        return parse_const(p, jv_none(), out);
    if (!(*out = jinja_node(p, N_NAME, p->cur.pos)))
        return false;
    (*out)->name = p->cur.s;
    (*out)->len = p->cur.len;
    if (p->macro_flags)
        *p->macro_flags |= (uint8_t)(jinja_is(p, "caller")    ? MACRO_CALLER
                                     : jinja_is(p, "kwargs")  ? MACRO_KWARGS
                                     : jinja_is(p, "varargs") ? MACRO_VARARGS
                                                              : 0);
    return jinja_next(p);
}

/* Strings next to each other are one string. */
static bool parse_string(struct jparse *p, struct jnode **out)
{
    struct jtoken t = p->cur;
    char *joined = NULL;
    size_t len = t.len, cap = 0;
    if (!jinja_next(p))
        return false;
    while (p->cur.type == T_STRING) {
        if (len + p->cur.len > cap) {
            cap = (len + p->cur.len) * 2;
            char *s = jarena_bytes(&p->t->arena, cap);
            if (!s)
                return jinja_parse_memory(p);
            if (len)
                memcpy(s, t.s, len);
            t.s = joined = s;
        }
        if (p->cur.len)
            memcpy(joined + len, p->cur.s, p->cur.len);
        len += p->cur.len;
        if (!jinja_next(p))
            return false;
    }
    if (!(*out = jinja_node(p, N_CONST, t.pos)))
        return false;
    (*out)->value = jv_str(t.s, len);
    return true;
}

static bool parse_list(struct jparse *p, struct jnode **out)
{
    struct jnode *n = *out = jinja_node(p, N_LIST, p->cur.pos), **tail;
    if (!n || !jinja_next(p))
        return false;
    tail = &n->list;
    while (p->cur.type != T_RBRACKET) {
        if (n->list && !jinja_expect(p, T_COMMA))
            return false;
        if (p->cur.type == T_RBRACKET)
            break;
        if (!jinja_expr(p, true, tail))
            return false;
        tail = &(*tail)->next;
    }
    return jinja_next(p);
}

/* Pairs: list holds the keys, each with its value in els. */
static bool parse_dict(struct jparse *p, struct jnode **out)
{
    struct jnode *n = *out = jinja_node(p, N_DICT, p->cur.pos), **tail;
    if (!n || !jinja_next(p))
        return false;
    tail = &n->list;
    while (p->cur.type != T_RBRACE) {
        if (n->list && !jinja_expect(p, T_COMMA))
            return false;
        if (p->cur.type == T_RBRACE)
            break;
        struct jnode *pair = *tail = jinja_node(p, N_ARG, p->cur.pos);
        if (!pair || !jinja_expr(p, true, &pair->a) || !jinja_expect(p, T_COLON) ||
            !jinja_expr(p, true, &pair->b))
            return false;
        tail = &pair->next;
    }
    return jinja_next(p);
}

bool jinja_primary(struct jparse *p, struct jnode **out)
{
    switch (p->cur.type) {
    case T_NAME:
        return parse_name(p, out);
    case T_STRING:
        return parse_string(p, out);
    case T_INT:
        return parse_const(p, jv_int(p->cur.i), out);
    case T_FLOAT:
        return parse_const(p, jv_float(p->cur.f), out);
    case T_LPAREN:
        return jinja_next(p) && jinja_tuple(p, true, true, out) && jinja_expect(p, T_RPAREN);
    case T_LBRACKET:
        return parse_list(p, out);
    case T_LBRACE:
        return parse_dict(p, out);
    default:
        return jinja_unexpected(p, &p->cur);
    }
}

/* ---- suffixes ----------------------------------------------------------------------------------------- */

/* Appends a suffix of this kind to the postfix node *n, which is made when *n is not one yet. */
static struct jnode *add_suffix(struct jparse *p, struct jnode **n, struct jnode ***tail, enum jkind kind)
{
    if (!*tail) {
        struct jnode *f = jinja_node(p, N_POSTFIX, p->cur.pos);
        if (!f)
            return NULL;
        f->a = *n;
        *n = f;
        *tail = &f->list;
    }
    struct jnode *s = jinja_node(p, kind, p->cur.pos);
    if (s) {
        **tail = s;
        *tail = &s->next;
    }
    return s;
}

static bool parse_arg(struct jparse *p, struct jnode **tail, struct jnode **last, int *stage, uint32_t open)
{
    enum jkind kind = N_ARG;
    int now = 0;
    if (p->cur.type == T_MUL) {
        kind = N_STAR;
        now = 2;
    } else if (p->cur.type == T_POW) {
        kind = N_STARSTAR;
        now = 3;
    } else if (p->cur.type == T_NAME) {
        if (!jinja_look(p))
            return false;
        if (p->ahead.type == T_ASSIGN) {
            kind = N_KWARG;
            now = 1;
        }
    }
    /* order: values, names, * and ** (names may follow *) */
    bool ok = now == 0 ? *stage == 0 : now == 1 ? *stage < 3 : *stage < now;
    if (!ok)
        return jinja_syntax(p, open, "invalid arguments of a call");
    if (now > *stage)
        *stage = now;
    struct jnode *a = *tail = *last = jinja_node(p, kind, p->cur.pos);
    if (!a)
        return false;
    if (kind == N_KWARG) {
        a->name = p->cur.s;
        a->len = p->cur.len;
        if (!jinja_next(p) || !jinja_next(p))
            return false;
    } else if (kind != N_ARG && !jinja_next(p)) {
        return false;
    }
    return jinja_expr(p, true, &a->a);
}

static bool parse_args(struct jparse *p, struct jnode *call)
{
    struct jnode **tail = &call->list, *last = NULL;
    uint32_t open = p->cur.pos;
    int stage = 0;
    if (!jinja_expect(p, T_LPAREN))
        return false;
    while (p->cur.type != T_RPAREN) {
        if (last && !jinja_expect(p, T_COMMA))
            return false;
        if (last && p->cur.type == T_RPAREN)
            break;
        if (!parse_arg(p, tail, &last, &stage, open))
            return false;
        tail = &last->next;
    }
    return jinja_next(p);
}

static bool parse_attr(struct jparse *p, struct jnode *s)
{
    if (!jinja_next(p))
        return false;
    s->pos = p->cur.pos;
    if (p->cur.type == T_NAME) {
        s->name = p->cur.s;
        s->len = p->cur.len;
        return jinja_next(p);
    }
    if (p->cur.type != T_INT)
        return jinja_syntax(p, p->cur.pos, "expected a name or a number after '.'");
    s->kind = N_ITEM;
    return parse_const(p, jv_int(p->cur.i), &s->a);
}

static bool slice_part(struct jparse *p, struct jnode **out)
{
    if (p->cur.type == T_COLON || p->cur.type == T_RBRACKET || p->cur.type == T_COMMA)
        return true;
    return jinja_expr(p, true, out);
}

static bool parse_subscript(struct jparse *p, struct jnode *s)
{
    if (!jinja_next(p))
        return false;
    if (p->cur.type == T_RBRACKET)
        return jinja_syntax(p, p->cur.pos, "expected an expression between the brackets");
    if (p->cur.type != T_COLON && !jinja_expr(p, true, &s->a))
        return false;
    if (p->cur.type == T_COLON) {
        s->kind = N_SLICE;
        if (!jinja_next(p) || !slice_part(p, &s->b))
            return false;
        if (p->cur.type == T_COLON && (!jinja_next(p) || !slice_part(p, &s->c)))
            return false;
    } else if (p->cur.type == T_COMMA) {
        struct jnode *t = jinja_node(p, N_TUPLE, s->a->pos), **tail;
        if (!t)
            return false;
        t->list = s->a;
        tail = &t->list->next;
        while (p->cur.type == T_COMMA) {
            if (!jinja_next(p) || !jinja_expr(p, true, tail))
                return false;
            tail = &(*tail)->next;
        }
        s->a = t;
    }
    return jinja_expect(p, T_RBRACKET);
}

static bool parse_postfix(struct jparse *p, struct jnode **n, struct jnode ***tail)
{
    for (;;) {
        enum jtok t = p->cur.type;
        if (t != T_DOT && t != T_LBRACKET && t != T_LPAREN)
            return true;
        struct jnode *s = add_suffix(p, n, tail, t == T_DOT ? N_ATTR : t == T_LBRACKET ? N_ITEM : N_CALL);
        if (!s || !(t == T_DOT        ? parse_attr(p, s)
                    : t == T_LBRACKET ? parse_subscript(p, s)
                                      : parse_args(p, s)))
            return false;
    }
}

/* "name" or "name.name" of a filter or test, from cur on. */
static bool suffix_name(struct jparse *p, struct jnode *s)
{
    if (p->cur.type != T_NAME)
        return jinja_expect(p, T_NAME);
    s->pos = p->cur.pos;
    s->name = p->cur.s;
    s->len = p->cur.len;
    if (!jinja_next(p))
        return false;
    if (p->cur.type == T_DOT)
        return jinja_syntax(p, p->cur.pos, "names with a '.' are not supported here");
    return true;
}

bool jinja_filter_suffix(struct jparse *p, struct jnode **out)
{
    struct jnode *s = *out;
    if (!suffix_name(p, s))
        return false;
    s->fn = jinja_find_filter(s->name, s->len);
    if (!s->fn && !p->soft)
        return jinja_syntax(p, s->pos, "no filter named '%s'", s->name);
    return p->cur.type != T_LPAREN || parse_args(p, s);
}

static bool starts_test_argument(const struct jparse *p)
{
    switch (p->cur.type) {
    case T_STRING:
    case T_INT:
    case T_FLOAT:
    case T_LBRACKET:
    case T_LBRACE:
        return true;
    case T_NAME:
        return !jinja_is(p, "else") && !jinja_is(p, "or") && !jinja_is(p, "and");
    default:
        return false;
    }
}

static bool parse_test(struct jparse *p, struct jnode *s)
{
    if (!jinja_next(p))
        return false;
    if (jinja_is(p, "not")) {
        s->kind = N_NOT_TEST;
        if (!jinja_next(p))
            return false;
    }
    if (!suffix_name(p, s))
        return false;
    s->fn = jinja_find_test(s->name, s->len);
    if (!s->fn && !p->soft)
        return jinja_syntax(p, s->pos, "no test named '%s'", s->name);
    if (p->cur.type == T_LPAREN)
        return parse_args(p, s);
    if (!starts_test_argument(p))
        return true;
    if (jinja_is(p, "is"))
        return jinja_syntax(p, p->cur.pos, "tests cannot be chained with 'is'");
    struct jnode *arg = s->list = jinja_node(p, N_ARG, p->cur.pos), **tail = NULL;
    return arg && jinja_primary(p, &arg->a) && parse_postfix(p, &arg->a, &tail);
}

/* ---- operators ---------------------------------------------------------------------------------------- */

static bool parse_unary(struct jparse *p, bool with_filter, struct jnode **out)
{
    struct jnode **tail = NULL;
    if (p->cur.type == T_SUB || p->cur.type == T_ADD) {
        struct jnode *n = jinja_node(p, p->cur.type == T_SUB ? N_NEG : N_POS, p->cur.pos);
        *out = n;
        if (!n || !jinja_next(p) || !enter(p) || !parse_unary(p, false, &n->a))
            return false;
        depth_leave(&p->depth);
    } else if (!jinja_primary(p, out)) {
        return false;
    }
    if (!parse_postfix(p, out, &tail))
        return false;
    while (with_filter) {
        struct jnode *s;
        if (p->cur.type == T_PIPE) {
            if (!(s = add_suffix(p, out, &tail, N_FILTER)) || !jinja_next(p) || !jinja_filter_suffix(p, &s))
                return false;
        } else if (jinja_is(p, "is")) {
            if (!(s = add_suffix(p, out, &tail, N_TEST)) || !parse_test(p, s))
                return false;
        } else if (p->cur.type == T_LPAREN) {
            if (!(s = add_suffix(p, out, &tail, N_CALL)) || !parse_args(p, s))
                return false;
        } else {
            break;
        }
    }
    return true;
}

/* The binary operator at cur and its level; LEVEL_UNARY when there is none. "not in" takes a look ahead. */
static bool binary_operator(struct jparse *p, enum jtok *op, int *level)
{
    *op = p->cur.type;
    *level = LEVEL_UNARY;
    switch (p->cur.type) {
    case T_EQ:
    case T_NE:
    case T_LT:
    case T_LE:
    case T_GT:
    case T_GE:
        *level = LEVEL_COMPARE;
        return true;
    case T_ADD:
    case T_SUB:
        *level = LEVEL_ADD;
        return true;
    case T_TILDE:
        *level = LEVEL_CONCAT;
        return true;
    case T_MUL:
    case T_DIV:
    case T_FLOORDIV:
    case T_MOD:
        *level = LEVEL_MUL;
        return true;
    case T_POW:
        *level = LEVEL_POW;
        return true;
    case T_NAME:
        break;
    default:
        return true;
    }
    if (jinja_is(p, "or") || jinja_is(p, "and")) {
        *op = jinja_is(p, "or") ? T_OR : T_AND;
        *level = *op == T_OR ? LEVEL_OR : LEVEL_AND;
    } else if (jinja_is(p, "in")) {
        *op = T_IN;
        *level = LEVEL_COMPARE;
    } else if (jinja_is(p, "not")) {
        if (!jinja_look(p))
            return false;
        if (token_is(&p->ahead, "in")) {
            *op = T_NOT_IN;
            *level = LEVEL_COMPARE;
        }
    }
    return true;
}

static bool parse_binary(struct jparse *p, int min, struct jnode **out);

static bool parse_operand(struct jparse *p, int min, struct jnode **out, int *max)
{
    *max = LEVEL_UNARY;
    if (min > LEVEL_NOT || !jinja_is(p, "not"))
        return parse_unary(p, true, out);
    struct jnode *n = *out = jinja_node(p, N_NOT, p->cur.pos);
    if (!n || !jinja_next(p) || !enter(p) || !parse_binary(p, LEVEL_NOT, &n->a))
        return false;
    depth_leave(&p->depth);
    *max = LEVEL_NOT;
    return true;
}

/* Precedence climbing; at most one chain per level is open at a time. */
static bool parse_binary(struct jparse *p, int min, struct jnode **out) /* lint: allow recursion: min rises */
{
    struct jnode *chain = NULL, **tail = NULL, *left;
    int max;
    if (!parse_operand(p, min, &left, &max))
        return false;
    for (;;) {
        enum jtok op;
        int level;
        uint32_t pos = p->cur.pos;
        if (!binary_operator(p, &op, &level))
            return false;
        if (level == LEVEL_UNARY || level < min || level >= max)
            break;
        if (!chain || chain->level != level) {
            if (!(chain = jinja_node(p, N_CHAIN, pos)))
                return false;
            chain->level = (uint8_t)level;
            chain->list = left;
            tail = &left->next;
            left = chain;
        }
        if (!jinja_next(p) || (op == T_NOT_IN && !jinja_next(p)))
            return false;
        struct jnode *right, *step = jinja_node(p, N_ARG, pos);
        if (!step || !parse_binary(p, level + 1, &right))
            return false;
        step->op = (uint8_t)op;
        step->a = right;
        *tail = step;
        tail = &step->next;
    }
    *out = left;
    return true;
}

/* a if b else c. Filters in either branch may be unknown until they are reached. */
static bool parse_cond(struct jparse *p, struct jnode **out)
{
    while (jinja_is(p, "if")) {
        struct jnode *n = jinja_node(p, N_COND, p->cur.pos);
        if (!n || !enter(p) || !jinja_next(p))
            return false;
        n->a = *out;
        *out = n;
        if (!parse_binary(p, LEVEL_OR, &n->b))
            return false;
        if (jinja_is(p, "else"))
            return jinja_next(p) && jinja_expr(p, true, &n->c);
    }
    return true;
}

bool jinja_expr(struct jparse *p, bool with_cond, struct jnode **out)
{
    int depth = p->depth.used;
    if (!enter(p) || !parse_binary(p, LEVEL_OR, out) || (with_cond && !parse_cond(p, out)))
        return false;
    p->depth.used = depth; /* parse_cond enters once per condition */
    return true;
}

static bool tuple_end(const struct jparse *p)
{
    return p->cur.type == T_VAR_END || p->cur.type == T_BLOCK_END || p->cur.type == T_RPAREN;
}

bool jinja_tuple(struct jparse *p, bool with_cond, bool explicit_parens, struct jnode **out)
{
    struct jnode *first = NULL, **tail = &first;
    uint32_t pos = p->cur.pos;
    bool is_tuple = false;
    for (;;) {
        if (first && !jinja_expect(p, T_COMMA))
            return false;
        if (tuple_end(p))
            break;
        if (!jinja_expr(p, with_cond, tail))
            return false;
        tail = &(*tail)->next;
        if (p->cur.type != T_COMMA)
            break;
        is_tuple = true;
    }
    if (!is_tuple && first) {
        *out = first;
        return true;
    }
    if (!is_tuple && !explicit_parens)
        return jinja_syntax(p, p->cur.pos, "expected an expression");
    if (!(*out = jinja_node(p, N_TUPLE, pos)))
        return false;
    (*out)->list = first;
    return true;
}
