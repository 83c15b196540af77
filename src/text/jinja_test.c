/* Tests ("x is NAME") of the template language. */
#include "text/jinja.h"
#include <math.h>
#include <string.h>

enum {
    IS_ODD,
    IS_EVEN,
    IS_DIVISIBLE,
    IS_DEFINED,
    IS_UNDEFINED,
    IS_NONE,
    IS_BOOLEAN,
    IS_FALSE,
    IS_TRUE,
    IS_INTEGER,
    IS_FLOAT,
    IS_LOWER,
    IS_UPPER,
    IS_STRING,
    IS_MAPPING,
    IS_NUMBER,
    IS_SEQUENCE,
    IS_ITERABLE,
    IS_CALLABLE,
    IS_SAME,
    IS_ESCAPED,
    IS_FILTER,
    IS_TEST
};

static bool done(struct jval *out, bool b)
{
    *out = jv_bool(b);
    return true;
}

static bool test_divisible(struct jrun *r, struct jcall *c, struct jval *out)
{
    struct jval by = c->fn->op == IS_DIVISIBLE ? c->a[0] : jv_int(2), rest,
                want = jv_int(c->fn->op == IS_ODD);
    bool same;
    if (!jinja_binary(r, T_MOD, &c->self, &by, &rest) || !jinja_equal(r, &rest, &want, &same))
        return false;
    return done(out, same);
}

static bool test_compare(struct jrun *r, struct jcall *c, struct jval *out)
{
    bool yes;
    return jinja_compare(r, (enum jtok)c->fn->op, &c->self, &c->a[0], &yes) && done(out, yes);
}

/* All cased letters are upper (lower), and there is one. */
static bool test_case(struct jrun *r, struct jcall *c, struct jval *out)
{
    struct jval s;
    bool any = false;
    int want = c->fn->op == IS_UPPER ? 1 : -1, which;
    if (!jinja_str(r, &c->self, &s) || !jinja_work(r, s.len))
        return false;
    for (size_t at = 0; at < s.len;) {
        if (!jcp_cased(jcp_next(s.u.s, s.len, &at), &which))
            continue;
        if (which != want)
            return done(out, false);
        any = true;
    }
    return done(out, any);
}

static bool is_same(const struct jval *a, const struct jval *b)
{
    if (a->type != b->type)
        return false;
    switch ((enum jtype)a->type) {
    case J_NONE:
        return true;
    case J_BOOL:
        return a->u.b == b->u.b;
    case J_INT:
        return a->u.i == b->u.i;
    case J_FLOAT:
        return a->u.f == b->u.f;
    default:
        return a->u.s == b->u.s && a->len == b->len;
    }
}

static bool test_registered(struct jrun *r, struct jcall *c, struct jval *out)
{
    const struct jval *v = &c->self;
    (void)r;
    if (v->type != J_STR)
        return done(out, false);
    return done(out, (c->fn->op == IS_FILTER ? jinja_find_filter : jinja_find_test)(v->u.s, v->len) != NULL);
}

static bool test_type(struct jrun *r, struct jcall *c, struct jval *out)
{
    const struct jval *v = &c->self;
    uint8_t t = v->type;
    (void)r;
    switch (c->fn->op) {
    case IS_DEFINED:
        return done(out, t != J_UNDEF);
    case IS_UNDEFINED:
        return done(out, t == J_UNDEF);
    case IS_NONE:
        return done(out, t == J_NONE);
    case IS_BOOLEAN:
        return done(out, t == J_BOOL);
    case IS_TRUE:
        return done(out, t == J_BOOL && v->u.b);
    case IS_FALSE:
        return done(out, t == J_BOOL && !v->u.b);
    case IS_INTEGER:
        return done(out, t == J_INT);
    case IS_FLOAT:
        return done(out, t == J_FLOAT);
    case IS_STRING:
        return done(out, t == J_STR);
    case IS_MAPPING:
        return done(out, t == J_DICT);
    case IS_NUMBER:
        return done(out, jv_is_num(v));
    case IS_SEQUENCE:
        return done(out,
                    t == J_UNDEF || t == J_STR || t == J_LIST || t == J_TUPLE || t == J_DICT || t == J_RANGE);
    case IS_ITERABLE:
        return done(out, jinja_iterable(v));
    case IS_CALLABLE:
        return done(out, t == J_UNDEF || t == J_FUNC || t == J_METHOD || t == J_MACRO || t == J_LOOP);
    case IS_SAME:
        return done(out, is_same(v, &c->a[0]));
    default:
        return done(out, t == J_STR && v->flag);
    }
}

static const struct jbuiltin tests[] = {
    {"!=", "/", test_compare, T_NE},          {"<", "/", test_compare, T_LT},
    {"<=", "/", test_compare, T_LE},          {"==", "/", test_compare, T_EQ},
    {">", "/", test_compare, T_GT},           {">=", "/", test_compare, T_GE},
    {"boolean", "", test_type, IS_BOOLEAN},   {"callable", "", test_type, IS_CALLABLE},
    {"defined", "", test_type, IS_DEFINED},   {"divisibleby", "num", test_divisible, IS_DIVISIBLE},
    {"eq", "/", test_compare, T_EQ},          {"equalto", "/", test_compare, T_EQ},
    {"escaped", "", test_type, IS_ESCAPED},   {"even", "", test_divisible, IS_EVEN},
    {"false", "", test_type, IS_FALSE},       {"filter", "", test_registered, IS_FILTER},
    {"float", "", test_type, IS_FLOAT},       {"ge", "/", test_compare, T_GE},
    {"greaterthan", "/", test_compare, T_GT}, {"gt", "/", test_compare, T_GT},
    {"in", "seq", test_compare, T_IN},        {"integer", "", test_type, IS_INTEGER},
    {"iterable", "", test_type, IS_ITERABLE}, {"le", "/", test_compare, T_LE},
    {"lessthan", "/", test_compare, T_LT},    {"lower", "", test_case, IS_LOWER},
    {"lt", "/", test_compare, T_LT},          {"mapping", "", test_type, IS_MAPPING},
    {"ne", "/", test_compare, T_NE},          {"none", "", test_type, IS_NONE},
    {"number", "", test_type, IS_NUMBER},     {"odd", "", test_divisible, IS_ODD},
    {"sameas", "other", test_type, IS_SAME},  {"sequence", "", test_type, IS_SEQUENCE},
    {"string", "", test_type, IS_STRING},     {"test", "", test_registered, IS_TEST},
    {"true", "", test_type, IS_TRUE},         {"undefined", "", test_type, IS_UNDEFINED},
    {"upper", "", test_case, IS_UPPER},
};

const struct jbuiltin *jinja_search(const struct jbuiltin *table, size_t n, const char *s, size_t len)
{
    for (size_t i = 0; i < n; i++)
        if (strlen(table[i].name) == len && memcmp(table[i].name, s, len) == 0)
            return &table[i];
    return NULL;
}

const struct jbuiltin *jinja_find_test(const char *s, size_t len)
{
    return jinja_search(tests, sizeof tests / sizeof tests[0], s, len);
}

bool jinja_run_test(struct jrun *r, const struct jbuiltin *t, const struct jval *v, const struct jargs *args,
                    bool *out)
{
    struct jval res;
    if (!jinja_call_builtin(r, t, v, args, &res))
        return false;
    *out = jv_true(&res);
    return true;
}
