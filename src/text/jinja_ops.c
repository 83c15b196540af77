/* Operators of the template language on values: arithmetic, comparison, membership. Attributes and subscripts are in
 * jinja_subscript.c.
 *
 * Python's semantics with 64-bit integers: an overflow is an error where Python would go on with a larger
 * integer. Repetition and powers are bounded by the memory limit and by 64 bits. */
#include "text/jinja.h"
#include <math.h>
#include <string.h>

bool jinja_undef_error(struct jrun *r, const struct jval *v)
{
    int n = v->len > 200 ? 200 : (int)v->len;
    switch (v->flag) {
    case J_HINT_ATTR:
        return jinja_fail(r, "there is no attribute or item '%.*s'", n, v->u.s);
    case J_HINT_UNSAFE:
        return jinja_fail(r, "access to attribute '%.*s' is unsafe", n, v->u.s);
    case J_HINT_TEXT:
        return jinja_fail(r, "%.*s", n, v->u.s);
    default:
        return jinja_fail(r, "'%.*s' is undefined", n, v->u.s);
    }
}

/* ---- comparison --------------------------------------------------------------------------------------- */

static int compare_bytes(const struct jval *a, const struct jval *b)
{
    size_t n = a->len < b->len ? a->len : b->len;
    int c = n ? memcmp(a->u.s, b->u.s, n) : 0; /* the order of UTF-8 is that of the code points */
    return c ? (c < 0 ? -1 : 1) : (a->len > b->len) - (a->len < b->len);
}

/* -1, 0, 1; 2 when a NaN is involved. Exact between integers and floats. */
static int compare_numbers(const struct jval *a, const struct jval *b)
{
    if (a->type != J_FLOAT && b->type != J_FLOAT) {
        int64_t x = jv_as_int(a), y = jv_as_int(b);
        return (x > y) - (x < y);
    }
    if (a->type == J_FLOAT && b->type == J_FLOAT) {
        double x = a->u.f, y = b->u.f;
        return isnan(x) || isnan(y) ? 2 : (x > y) - (x < y);
    }
    bool swap = a->type == J_FLOAT;
    int64_t i = jv_as_int(swap ? b : a);
    double f = swap ? a->u.f : b->u.f;
    int c;
    if (isnan(f))
        return 2;
    if (f >= 9223372036854775808.0 || f < -9223372036854775808.0) {
        c = f > 0 ? -1 : 1;
    } else {
        int64_t t = (int64_t)f;
        double rest = f - (double)t;
        c = i != t ? (i > t) - (i < t) : (rest < 0) - (rest > 0);
    }
    return swap ? -c : c;
}

static bool equal_lists(struct jrun *r, const struct jlist *a, const struct jlist *b, bool *out)
{
    *out = a->n == b->n;
    for (size_t i = 0; *out && i < a->n; i++)
        if (!jinja_equal(r, &a->v[i], &b->v[i], out))
            return false;
    return true;
}

static bool equal_dicts(struct jrun *r, const struct jdict *a, const struct jdict *b, bool *out)
{
    *out = a->n == b->n;
    for (size_t i = 0; *out && i < a->n; i++) {
        struct jval *v;
        if (!jdict_get(r, b, &a->e[i].key, &v))
            return false;
        *out = v != NULL;
        if (v && !jinja_equal(r, &a->e[i].val, v, out))
            return false;
    }
    return true;
}

bool jinja_equal(struct jrun *r, const struct jval *a, const struct jval *b, bool *out)
{
    *out = false;
    if (jv_is_num(a) && jv_is_num(b)) {
        *out = compare_numbers(a, b) == 0;
        return jinja_work(r, 1);
    }
    if (a->type != b->type)
        return true;
    switch ((enum jtype)a->type) {
    case J_NONE:
    case J_UNDEF:
        *out = true;
        return true;
    case J_STR:
        *out = a->len == b->len && (!a->len || memcmp(a->u.s, b->u.s, a->len) == 0);
        return jinja_work(r, a->len == b->len ? a->len : 1);
    case J_RANGE:
        *out = a->u.range->n == b->u.range->n &&
               (!a->u.range->n || (a->u.range->start == b->u.range->start &&
                                   (a->u.range->n == 1 || a->u.range->step == b->u.range->step)));
        return true;
    case J_METHOD:
        *out = a->u.method->fn == b->u.method->fn && a->u.method->self.u.s == b->u.method->self.u.s;
        return true;
    case J_LIST:
    case J_TUPLE:
    case J_DICT:
        break;
    default:
        *out = a->u.s == b->u.s && a->flag == b->flag;
        return true;
    }
    if (a->u.list == b->u.list) {
        *out = true;
        return true;
    }
    if (!jinja_enter(r))
        return false;
    if (!(a->type == J_DICT ? equal_dicts(r, a->u.dict, b->u.dict, out)
                            : equal_lists(r, a->u.list, b->u.list, out)))
        return false;
    jinja_leave(r);
    return true;
}

static bool order_lists(struct jrun *r, const struct jlist *a, const struct jlist *b, int *out)
{
    if (!jinja_enter(r))
        return false;
    *out = (a->n > b->n) - (a->n < b->n);
    for (size_t i = 0; i < a->n && i < b->n; i++) {
        bool same;
        if (!jinja_equal(r, &a->v[i], &b->v[i], &same))
            return false;
        if (same)
            continue;
        if (!jinja_order(r, &a->v[i], &b->v[i], out))
            return false;
        break;
    }
    jinja_leave(r);
    return true;
}

bool jinja_order(struct jrun *r, const struct jval *a, const struct jval *b, int *out)
{
    if (!jinja_work(r, 1))
        return false;
    if (jv_is_num(a) && jv_is_num(b)) {
        *out = compare_numbers(a, b);
        return true;
    }
    if (a->type == J_STR && b->type == J_STR) {
        *out = compare_bytes(a, b);
        return jinja_work(r, a->len < b->len ? a->len : b->len);
    }
    if (a->type == b->type && (a->type == J_LIST || a->type == J_TUPLE))
        return order_lists(r, a->u.list, b->u.list, out);
    if (a->type == J_UNDEF || b->type == J_UNDEF)
        return jinja_undef_error(r, a->type == J_UNDEF ? a : b);
    return jinja_fail(r, "'%s' and '%s' have no order", jv_type_name(a), jv_type_name(b));
}

bool jinja_contains(struct jrun *r, const struct jval *set, const struct jval *v, bool *out)
{
    struct jlist *l;
    *out = false;
    if (set->type == J_STR) {
        if (v->type != J_STR)
            return jinja_fail(r, "'in <string>' requires a string on the left, not %s", jv_type_name(v));
        *out = jinja_find(set->u.s, set->len, v->u.s, v->len, 0) != SIZE_MAX;
        return jinja_work(r, (uint64_t)set->len + v->len);
    }
    if (set->type == J_DICT || (set->type == J_VIEW && set->flag == J_VIEW_KEYS)) {
        struct jval *found;
        if (!jdict_get(r, set->u.dict, v, &found))
            return false;
        *out = found != NULL;
        return true;
    }
    if (set->type == J_RANGE) {
        const struct jrange *g = set->u.range;
        struct jval x = *v;
        if (x.type == J_FLOAT && x.u.f >= -1e15 && x.u.f <= 1e15 && x.u.f == (double)(int64_t)x.u.f)
            x = jv_int((int64_t)x.u.f);
        if (!jv_is_int(&x) || !g->n)
            return true;
        int64_t i = jv_as_int(&x), last = g->start + (g->n - 1) * g->step;
        bool inside = g->step > 0 ? i >= g->start && i <= last : i <= g->start && i >= last;
        *out = inside && (i - g->start) % g->step == 0;
        return true;
    }
    if (!jinja_iterable(set) || set->type == J_LOOP)
        return jinja_fail(r, "argument of type '%s' is not iterable", jv_type_name(set));
    if (!jinja_list_of(r, set, &l))
        return false;
    for (size_t i = 0; i < l->n && !*out; i++)
        if (!jinja_equal(r, &l->v[i], v, out))
            return false;
    return true;
}

bool jinja_compare(struct jrun *r, enum jtok op, const struct jval *a, const struct jval *b, bool *out)
{
    int c;
    switch (op) {
    case T_EQ:
    case T_NE:
        if (!jinja_equal(r, a, b, out))
            return false;
        *out ^= op == T_NE;
        return true;
    case T_IN:
    case T_NOT_IN:
        if (!jinja_contains(r, b, a, out))
            return false;
        *out ^= op == T_NOT_IN;
        return true;
    default:
        if (!jinja_order(r, a, b, &c))
            return false;
        *out = c != 2 && (op == T_LT ? c < 0 : op == T_LE ? c <= 0 : op == T_GT ? c > 0 : c >= 0);
        return true;
    }
}

/* ---- arithmetic --------------------------------------------------------------------------------------- */

static bool overflow(struct jrun *r)
{
    return jinja_fail(r, "integer overflow: the result does not fit in 64 bits");
}

static bool int_power(struct jrun *r, int64_t base, int64_t e, struct jval *out)
{
    int64_t v = 1;
    if (e < 0) {
        if (!base)
            return jinja_fail(r, "division by zero: 0 to a negative power");
        *out = jv_float(pow((double)base, (double)e));
        return true;
    }
    while (e) {
        if ((e & 1) && __builtin_mul_overflow(v, base, &v))
            return overflow(r);
        e >>= 1;
        if (e && __builtin_mul_overflow(base, base, &base))
            return overflow(r);
    }
    *out = jv_int(v);
    return true;
}

static bool int_binary(struct jrun *r, enum jtok op, int64_t a, int64_t b, struct jval *out)
{
    int64_t v = 0;
    bool over = false;
    switch (op) {
    case T_ADD:
        over = __builtin_add_overflow(a, b, &v);
        break;
    case T_SUB:
        over = __builtin_sub_overflow(a, b, &v);
        break;
    case T_MUL:
        over = __builtin_mul_overflow(a, b, &v);
        break;
    case T_POW:
        return int_power(r, a, b, out);
    default:
        if (b == 0)
            return jinja_fail(r, "division by zero");
        if (op == T_DIV) {
            *out = jv_float((double)a / (double)b);
            return true;
        }
        if (b == -1) {
            over = op == T_FLOORDIV && __builtin_sub_overflow(0, a, &v);
            break;
        }
        v = a % b;
        if (v && (v < 0) != (b < 0)) /* Python's remainder has the sign of the divisor */
            v += b;
        if (op == T_FLOORDIV)
            v = (a - v) / b;
    }
    if (over)
        return overflow(r);
    *out = jv_int(v);
    return true;
}

static double float_mod(double a, double b, double *div)
{
    double m = fmod(a, b), d = (a - m) / b;
    if (m != 0) {
        if ((b < 0) != (m < 0)) {
            m += b;
            d -= 1;
        }
    } else {
        m = copysign(0.0, b);
    }
    if (d != 0) {
        double f = floor(d);
        *div = d - f > 0.5 ? f + 1 : f;
    } else {
        *div = copysign(0.0, a / b);
    }
    return m;
}

static bool float_binary(struct jrun *r, enum jtok op, double a, double b, struct jval *out)
{
    double v = 0, div;
    switch (op) {
    case T_ADD:
        v = a + b;
        break;
    case T_SUB:
        v = a - b;
        break;
    case T_MUL:
        v = a * b;
        break;
    case T_POW:
        if (a == 0 && b < 0)
            return jinja_fail(r, "division by zero: 0 to a negative power");
        if (a < 0 && isfinite(a) && isfinite(b) && b != floor(b))
            return jinja_fail(r, "complex numbers are not supported");
        v = pow(a, b);
        if (isinf(v) && isfinite(a) && isfinite(b))
            return jinja_fail(r, "float overflow: the result is too large");
        break;
    default:
        if (b == 0)
            return jinja_fail(r, "division by zero");
        if (op == T_DIV) {
            v = a / b;
            break;
        }
        v = float_mod(a, b, &div);
        if (op == T_FLOORDIV)
            v = div;
    }
    *out = jv_float(v);
    return true;
}

/* dst = the size > 0 bytes of src, n >= 1 times: each copy doubles what stands there, so that a single letter
 * repeated 200 million times is 28 copies. */
static void fill_repeated(void *dst, const void *src, size_t size, size_t n)
{
    const size_t total = size * n;
    memcpy(dst, src, size);
    for (size_t done = size, step; done < total; done += step) {
        step = done < total - done ? done : total - done;
        memcpy((char *)dst + done, dst, step);
    }
}

static bool repeat(struct jrun *r, const struct jval *a, int64_t n, struct jval *out)
{
    if (a->type == J_STR) {
        if (n <= 0 || !a->len) {
            *out = jv_text("");
            return true;
        }
        if (n > (int64_t)(LIMIT_TEMPLATE_MEMORY / a->len))
            return jinja_fail(r, "a string repeated %lld times exceeds the memory limit", (long long)n);
        size_t len = a->len * (size_t)n;
        char *p = jarena_bytes(&r->arena, len);
        if (!p)
            return jinja_no_memory(r);
        fill_repeated(p, a->u.s, a->len, (size_t)n);
        if (jinja_is_content(r, a)) {
            if (!jarena_mark(&r->arena, p, len, NULL, true))
                return jinja_no_memory(r);
        }
        *out = jv_str(p, len);
        return jinja_work(r, len);
    }
    struct jlist *l, *from = a->u.list;
    if (n < 0 || !from->n)
        n = 0;
    if (from->n && n > (int64_t)(LIMIT_TEMPLATE_MEMORY / sizeof(struct jval) / from->n))
        return jinja_fail(r, "a list repeated %lld times exceeds the memory limit", (long long)n);
    if (!jlist_new(r, from->n * (size_t)n, &l))
        return false;
    l->n = from->n * (size_t)n;
    if (l->n)
        fill_repeated(l->v, from->v, from->n * sizeof *l->v, (size_t)n);
    *out = (struct jval){.type = a->type, .u.list = l};
    return jinja_work(r, l->n * 16);
}

static bool add_lists(struct jrun *r, const struct jval *a, const struct jval *b, struct jval *out)
{
    struct jlist *l, *x = a->u.list, *y = b->u.list;
    if (!jlist_new(r, x->n + y->n, &l))
        return false;
    if (x->n)
        memcpy(l->v, x->v, x->n * sizeof *l->v);
    if (y->n)
        memcpy(l->v + x->n, y->v, y->n * sizeof *l->v);
    l->n = x->n + y->n;
    *out = (struct jval){.type = a->type, .u.list = l};
    return jinja_work(r, l->n * 16);
}

static bool add_strings(struct jrun *r, const struct jval *a, const struct jval *b, struct jval *out)
{
    struct jval x = *a, y = *b;
    bool safe = a->flag || b->flag; /* text marked safe escapes what is added to it */
    if (safe && !a->flag && !jinja_escape_html(r, a, &x))
        return false;
    if (safe && !b->flag && !jinja_escape_html(r, b, &y))
        return false;
    if (!jinja_concat(r, &x, &y, out))
        return false;
    out->flag = safe;
    return true;
}

bool jinja_binary(struct jrun *r, enum jtok op, const struct jval *a, const struct jval *b, struct jval *out)
{
    static const char *const names[] = {[T_ADD] = "+",       [T_SUB] = "-", [T_MUL] = "*", [T_DIV] = "/",
                                        [T_FLOORDIV] = "//", [T_MOD] = "%", [T_POW] = "**"};
    bool seq_a = a->type == J_STR || a->type == J_LIST || a->type == J_TUPLE;
    bool seq_b = b->type == J_STR || b->type == J_LIST || b->type == J_TUPLE;
    if (op == T_MOD && a->type == J_STR)
        return jinja_percent(r, a, b, out);
    if (a->type == J_UNDEF || b->type == J_UNDEF)
        return jinja_undef_error(r, a->type == J_UNDEF ? a : b);
    if (jv_is_num(a) && jv_is_num(b)) {
        if (a->type == J_FLOAT || b->type == J_FLOAT)
            return float_binary(r, op, jv_as_float(a), jv_as_float(b), out);
        return int_binary(r, op, jv_as_int(a), jv_as_int(b), out);
    }
    if (op == T_ADD && a->type == J_STR && b->type == J_STR)
        return add_strings(r, a, b, out);
    if (op == T_ADD && a->type == b->type && seq_a)
        return add_lists(r, a, b, out);
    if (op == T_MUL && seq_a && jv_is_int(b))
        return repeat(r, a, jv_as_int(b), out);
    if (op == T_MUL && seq_b && jv_is_int(a))
        return repeat(r, b, jv_as_int(a), out);
    return jinja_fail(r, "unsupported operand types for %s: '%s' and '%s'", names[op], jv_type_name(a),
                      jv_type_name(b));
}

bool jinja_unary(struct jrun *r, bool minus, const struct jval *a, struct jval *out)
{
    if (a->type == J_UNDEF)
        return jinja_undef_error(r, a);
    if (!jv_is_num(a))
        return jinja_fail(r, "bad operand type for unary %c: '%s'", minus ? '-' : '+', jv_type_name(a));
    if (a->type == J_FLOAT) {
        *out = jv_float(minus ? -a->u.f : a->u.f);
        return true;
    }
    int64_t v = jv_as_int(a);
    if (minus && __builtin_sub_overflow(0, v, &v))
        return overflow(r);
    *out = jv_int(v);
    return true;
}
