/* Numbers of a JSON Schema: ranges of integers and of decimals as grammars of their digits, multiples. Owns the
 * keywords minimum, maximum, exclusiveMinimum, exclusiveMaximum and multipleOf.
 *
 * A number has at most 15 digits before the point where nothing else bounds it (multiples have any number of them), and with a range so few behind it
 * that no rounding to a double can carry it across a bound. */
#include "sample/schema_internal.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define MOST 999999999999999ll /* where nothing bounds an integer */
#define MOST_BOUND 1e15        /* of a bound */
#define DIGITS 15
#define MANY 512 /* multiples that are written one by one */

struct bound {
    bool given, strict;
    double value;
};

struct range {
    struct bound lo, hi;
};

/* ---- the keywords --------------------------------------------------------------------------------------------- */

static int take_bound(struct schema *s, const json_t *node, const char *keyword, bool upper, bool strict,
                      struct bound *b)
{
    const json_t *v = json_object_get(node, keyword);
    if (!v)
        return 0;
    if (json_is_boolean(v)) { /* draft 4: beside minimum or maximum */
        b->strict |= b->given && json_is_true(v);
        return 0;
    }
    if (!json_is_number(v))
        return schema_fail(s, HASTEN_ERR_FILE, "keyword '%s' is no number", keyword);
    const double x = json_number_value(v);
    if (!b->given || (upper ? x < b->value : x > b->value) || (x == b->value && strict))
        *b = (struct bound){true, strict, x};
    return 0;
}

static int take_range(struct schema *s, const json_t *node, struct range *r)
{
    *r = (struct range){0};
    if (take_bound(s, node, "minimum", false, false, &r->lo) ||
        take_bound(s, node, "exclusiveMinimum", false, true, &r->lo) ||
        take_bound(s, node, "maximum", true, false, &r->hi) ||
        take_bound(s, node, "exclusiveMaximum", true, true, &r->hi))
        return -1;
    if (r->lo.given && r->lo.value <= -MOST_BOUND)
        r->lo.given = false;
    if (r->hi.given && r->hi.value >= MOST_BOUND)
        r->hi.given = false;
    if ((r->lo.given && r->lo.value >= MOST_BOUND) || (r->hi.given && r->hi.value <= -MOST_BOUND))
        return schema_refuse(s, r->lo.given ? "minimum" : "maximum", "a bound beyond 10^15");
    return 0;
}

static int no_number(struct schema *s)
{
    return schema_fail(s, HASTEN_ERR_FILE, "no number is within the bounds");
}

/* ---- digits of integers --------------------------------------------------------------------------------------- */

static int put_any(struct schema *s, int64_t n)
{
    return n == 0 ? 0 : n == 1 ? schema_put(s, " [0-9]") : schema_put(s, " [0-9]{%lld}", (long long)n);
}

static int put_digit(struct schema *s, int lo, int hi)
{
    return lo == hi ? schema_put(s, " \"%c\"", (char)lo) : schema_put(s, " [%c-%c]", (char)lo, (char)hi);
}

/* The digits d[n] and what is above them (up), or below. */
static int put_tail(struct schema *s, const char *d, int n, bool up)
{
    const char last = up ? '0' : '9', end = up ? '9' : '0';
    int fixed = n;
    while (fixed > 0 && d[fixed - 1] == last)
        fixed--;
    for (int i = 0; i < fixed; i++)
        if (schema_put(s, " (") || put_digit(s, d[i], d[i]))
            return -1;
    if (put_any(s, n - fixed))
        return -1;
    for (int i = fixed; i-- > 0;) {
        if (d[i] != end && (schema_put(s, " |") || put_digit(s, up ? d[i] + 1 : '0', up ? '9' : d[i] - 1) ||
                            put_any(s, n - 1 - i)))
            return -1;
        if (schema_put(s, ")"))
            return -1;
    }
    return 0;
}

/* Numbers of n digits from lo to hi. */
static int put_same_length(struct schema *s, const char *lo, const char *hi, int n)
{
    int at = 0;
    while (at < n && lo[at] == hi[at]) {
        if (put_digit(s, lo[at], lo[at]))
            return -1;
        at++;
    }
    if (at == n)
        return 0;
    const int rest = n - at - 1;
    int from = lo[at], to = hi[at];
    bool low = false, high = false;
    for (int i = at + 1; i < n; i++) {
        low |= lo[i] != '0';
        high |= hi[i] != '9';
    }
    if (schema_put(s, " ("))
        return -1;
    if (low && (put_digit(s, from, from) || put_tail(s, lo + at + 1, rest, true)))
        return -1;
    from += low;
    to -= high;
    if (from <= to && ((low && schema_put(s, " |")) || put_digit(s, from, to) || put_any(s, rest)))
        return -1;
    if (high && (((low || from <= to) && schema_put(s, " |")) || put_digit(s, hi[at], hi[at]) ||
                 put_tail(s, hi + at + 1, rest, false)))
        return -1;
    return schema_put(s, ")");
}

static int64_t power(int n)
{
    int64_t p = 1;
    while (n-- > 0)
        p *= 10;
    return p;
}

/* Alternatives for lo ... hi, both at least 0. */
static int put_integers(struct schema *s, int64_t lo, int64_t hi)
{
    char a[24], b[24];
    const int most = snprintf(b, sizeof b, "%lld", (long long)hi);
    bool any = false;
    for (int n = snprintf(a, sizeof a, "%lld", (long long)lo); n <= most; n++) {
        const int64_t least = n == 1 ? 0 : power(n - 1), from = lo > least ? lo : least;
        int upto = n; /* lengths up to here are whole */
        while (from == least && n > 1 && upto < most && hi >= power(upto) - 1)
            upto++;
        upto -= upto > n && hi < power(upto) - 1;
        if (any && schema_put(s, " |"))
            return -1;
        any = true;
        if (from == least && n > 1 && hi >= power(upto) - 1) {
            if (schema_put(s, " [1-9] [0-9]{%d,%d}", n - 1, upto - 1))
                return -1;
            n = upto;
            continue;
        }
        const int64_t to = hi < power(n) - 1 ? hi : power(n) - 1;
        snprintf(a, sizeof a, "%lld", (long long)from);
        snprintf(b, sizeof b, "%lld", (long long)to);
        if (put_same_length(s, a, b, n))
            return -1;
    }
    return 0;
}

static int put_signed(struct schema *s, int64_t lo, int64_t hi)
{
    if (lo < 0 && (schema_put(s, "\"-\" (") || put_integers(s, hi < 0 ? -hi : 1, -lo) ||
                   schema_put(s, hi < 0 ? ")" : ") |")))
        return -1;
    return hi < 0 ? 0 : put_integers(s, lo > 0 ? lo : 0, hi);
}

/* ---- multiples ------------------------------------------------------------------------------------------------ */

static int put_listed(struct schema *s, int64_t lo, int64_t hi, int64_t step)
{
    int64_t first = lo / step * step;
    first += first < lo ? step : 0;
    if (first > hi)
        return no_number(s);
    for (int64_t x = first; x <= hi; x += step)
        if (schema_put(s, x == first ? "\"%lld\"" : " | \"%lld\"", (long long)x))
            return -1;
    return 0;
}

/* The digits that lead from one remainder to another; *any: whether there was something before. */
static int put_digits_to(struct schema *s, int step, int rest, int to, int from_digit, bool *any)
{
    char digits[12];
    int n = 0;
    for (int d = from_digit; d < 10; d++)
        if ((rest * 10 + d) % step == to)
            digits[n++] = (char)('0' + d);
    digits[n] = 0;
    if (!n)
        return 0;
    const int bad =
        buf_printf(&s->rules, "%s[%s] %sr%d-m%d", *any ? " | " : "", digits, s->prefix, (int)s->job, to);
    *any = true;
    return bad;
}

/* Rules that know the remainder of what has been read: -mN. The one behind nothing is -mSTEP. */
static int put_remainders(struct schema *s, int step, bool negative, bool zero)
{
    for (int rest = 0; rest <= step; rest++) {
        bool any = rest == 0;
        int bad = buf_printf(&s->rules, "%sr%d-m%d ::= %s", s->prefix, (int)s->job, rest, any ? "\"\"" : "");
        for (int to = 0; to < step && !bad; to++)
            bad = put_digits_to(s, step, rest % step, to, rest == step, &any);
        if (bad || buf_puts(&s->rules, "\n"))
            return schema_no_memory(s);
    }
    return schema_put(s, "%s%s%sr%d-m%d", zero ? "\"0\" | " : "", negative ? "\"-\"? " : "", s->prefix,
                      (int)s->job, step);
}

static int put_multiples(struct schema *s, int64_t step, const struct range *r, int64_t lo, int64_t hi)
{
    if (r->lo.given && r->hi.given && (hi - lo) / step <= MANY)
        return put_listed(s, lo, hi, step);
    if (step <= 100 && !r->hi.given && (!r->lo.given || lo == 0 || lo == 1))
        return put_remainders(s, (int)step, !r->lo.given, lo <= 0);
    return schema_refuse(s, "multipleOf", "with these bounds, or above 100");
}

/* *step: 1 without the keyword; 0 when it is no whole number. */
static int take_step(struct schema *s, const json_t *node, int64_t *step, double *value)
{
    const json_t *v = json_object_get(node, "multipleOf");
    *step = 1;
    *value = 1;
    if (!v)
        return 0;
    *value = json_is_number(v) ? json_number_value(v) : 0;
    if (!(*value > 0))
        return schema_fail(s, HASTEN_ERR_FILE, "keyword 'multipleOf' is no number above 0");
    *step = *value == floor(*value) && *value < MOST_BOUND ? (int64_t)*value : 0;
    return 0;
}

static int integer_range(struct schema *s, const struct range *r, int64_t *lo, int64_t *hi)
{
    *lo = -MOST;
    *hi = MOST;
    if (r->lo.given)
        *lo = (int64_t)(r->lo.strict ? floor(r->lo.value) + 1 : ceil(r->lo.value));
    if (r->hi.given)
        *hi = (int64_t)(r->hi.strict ? ceil(r->hi.value) - 1 : floor(r->hi.value));
    return *lo > *hi ? no_number(s) : 0;
}

int schema_integer(struct schema *s, const json_t *node)
{
    struct range r;
    int64_t lo, hi, step;
    double value;
    if (take_range(s, node, &r) || take_step(s, node, &step, &value) || integer_range(s, &r, &lo, &hi))
        return -1;
    if (step == 0) /* an integer is a multiple of 0.1, 0.01 ... always */
        step = fabs(1 / value - round(1 / value)) < 1e-9 ? 1 : 0;
    if (step == 0)
        return schema_refuse(s, "multipleOf", "no whole number");
    if (step > 1)
        return put_multiples(s, step, &r, lo, hi);
    if (!r.lo.given && !r.hi.given)
        return schema_put(s, "json-integer");
    return put_signed(s, lo, hi);
}

/* ---- decimals ------------------------------------------------------------------------------------------------- */

/* A bound at least 0 as digits: before the point a number, behind it digits without zeros at the end. */
struct decimal {
    bool given, strict;
    int64_t whole;
    char digits[24];
    int n;
};

static int decimal_of(struct schema *s, const struct bound *b, double sign, struct decimal *d)
{
    char text[64];
    const double x = b->value * sign;
    int places = 0;
    *d = (struct decimal){.given = b->given, .strict = b->strict};
    if (!b->given)
        return 0;
    do
        snprintf(text, sizeof text, "%.*f", places, x);
    while (strtod(text, NULL) != x && ++places <= DIGITS);
    if (places > DIGITS)
        return schema_refuse(s, "minimum", "or 'maximum': a bound with more than 15 decimals");
    d->whole = strtoll(text, NULL, 10);
    const char *point = strchr(text, '.');
    if (point)
        d->n = snprintf(d->digits, sizeof d->digits, "%s", point + 1);
    while (d->n && d->digits[d->n - 1] == '0')
        d->n--;
    return 0;
}

/* Digits behind the point from lo (tight below) to hi (tight above). */
struct fraction {
    struct schema *s;
    const struct decimal *lo, *hi;
    int most; /* digits */
};

static int digit(const struct decimal *d, int i)
{
    return i < d->n ? d->digits[i] : '0';
}

/* May the number end before digit i? */
static bool can_end(const struct fraction *f, int i, bool low, bool high)
{
    return !(low && (i < f->lo->n || f->lo->strict)) && !(high && i >= f->hi->n && f->hi->strict);
}

static bool is_dead(const struct fraction *f, int i, bool low, bool high)
{
    return (high && f->hi->strict && i >= f->hi->n) || (i >= f->most && !can_end(f, i, low, high));
}

static int put_digits(struct fraction *f, int i, bool low, bool high, bool *any);

/* One alternative: a digit of from ... to, and what may follow. */
static int put_branch(struct fraction *f, int i, int from, int to, bool low, bool high, bool *any)
{
    struct schema *s = f->s;
    bool inside = false;
    if (from > to || is_dead(f, i + 1, low, high))
        return 0;
    if ((*any && schema_put(s, " |")) || put_digit(s, from, to))
        return -1;
    *any = true;
    if (!low && !high)
        return f->most - i - 1 > 0 ? schema_put(s, " [0-9]{0,%d}", f->most - i - 1) : 0;
    if (i + 1 >= f->most)
        return 0;
    const bool end = can_end(f, i + 1, low, high);
    if (schema_put(s, " (") || put_digits(f, i + 1, low, high, &inside))
        return -1;
    return schema_put(s, !inside ? "\"\")" : end ? ")?" : ")");
}

static int put_digits(struct fraction *f, int i, bool low, bool high, bool *any)
{
    const int a = low ? digit(f->lo, i) : '0', b = high ? digit(f->hi, i) : '9';
    if (depth_enter(&f->s->depth))
        return schema_fail(f->s, HASTEN_ERR_LIMIT, "a bound with too many digits");
    int bad;
    if (low && high && a == b)
        bad = put_branch(f, i, a, a, true, true, any);
    else
        bad = (low && put_branch(f, i, a, a, true, false, any)) ||
              put_branch(f, i, a + low, b - high, false, false, any) ||
              (high && put_branch(f, i, b, b, false, true, any));
    depth_leave(&f->s->depth);
    return bad;
}

/* The point and what is behind it. */
static int put_fraction(struct fraction *f, bool low, bool high)
{
    struct schema *s = f->s;
    const bool end = can_end(f, 0, low, high);
    bool any = false;
    if (f->most == 0)
        return 0;
    if (!low && !high)
        return schema_put(s, " (\".\" [0-9]{1,%d})?", f->most);
    if (schema_put(s, " (\".\" (") || put_digits(f, 0, low, high, &any))
        return -1;
    if (!any && schema_put(s, "\"0\""))
        return -1;
    return schema_put(s, end ? "))?" : "))");
}

/* Alternatives for numbers of at least 0. */
static int put_decimals(struct fraction *f, bool *any)
{
    struct schema *s = f->s;
    const struct decimal *lo = f->lo, *hi = f->hi;
    const bool same = hi->given && hi->whole == lo->whole;
    if (hi->given && (hi->whole < lo->whole || is_dead(f, 0, same, true)) && (same || hi->whole <= lo->whole))
        return 0;
    if (!is_dead(f, 0, true, same)) {
        if (schema_put(s, *any ? " | \"%lld\"" : "\"%lld\"", (long long)lo->whole) ||
            put_fraction(f, true, same))
            return -1;
        *any = true;
    }
    if (same)
        return 0;
    const int64_t last = hi->given ? hi->whole - 1 : MOST;
    if (last > lo->whole) {
        if (schema_put(s, *any ? " | (" : "(") || put_integers(s, lo->whole + 1, last) ||
            schema_put(s, ")") || put_fraction(f, false, false))
            return -1;
        *any = true;
    }
    if (!hi->given || is_dead(f, 0, false, true))
        return 0;
    if (schema_put(s, *any ? " | \"%lld\"" : "\"%lld\"", (long long)hi->whole) ||
        put_fraction(f, false, true))
        return -1;
    *any = true;
    return 0;
}

static int places_for(const struct decimal *a, const struct decimal *b, int most)
{
    char text[24];
    const int64_t whole = a->whole > b->whole ? a->whole : b->whole;
    int n = DIGITS - snprintf(text, sizeof text, "%lld", (long long)whole);
    n = n < 1 ? 1 : n;
    n = n < a->n + a->strict ? a->n + a->strict : n;
    n = n < b->n + b->strict ? b->n + b->strict : n;
    return most >= 0 && most < n ? most : n;
}

static bool below(const struct bound *b, double x)
{
    return b->given && b->value < x;
}

static int put_range(struct schema *s, const struct range *r, int most)
{
    struct decimal lo = {0}, hi = {0};
    struct bound zero = {true, true, 0}; /* -0 is written as 0 */
    bool any = false;
    if (!r->lo.given || r->lo.value < 0) {
        const struct bound *near = r->hi.given && r->hi.value < 0 ? &r->hi : &zero;
        if (decimal_of(s, near, -1, &lo) || decimal_of(s, &r->lo, -1, &hi) || schema_put(s, "\"-\" ("))
            return -1;
        struct fraction f = {s, &lo, &hi, places_for(&lo, &hi, most)};
        if (put_decimals(&f, &any))
            return -1;
        if (!any && schema_put(s, "\"0\""))
            return -1;
        any = true;
        if (schema_put(s, ")"))
            return -1;
    }
    if (below(&r->hi, 0) || (r->hi.given && r->hi.value == 0 && r->hi.strict))
        return any ? 0 : no_number(s);
    zero.strict = false;
    if (any && schema_put(s, " | "))
        return -1;
    any = false;
    if (decimal_of(s, r->lo.given && r->lo.value >= 0 ? &r->lo : &zero, 1, &lo) ||
        decimal_of(s, &r->hi, 1, &hi))
        return -1;
    struct fraction f = {s, &lo, &hi, places_for(&lo, &hi, most)};
    if (put_decimals(&f, &any))
        return -1;
    return any ? 0 : no_number(s);
}

int schema_number(struct schema *s, const json_t *node)
{
    struct range r;
    int64_t step;
    double value;
    int most = -1;
    if (take_range(s, node, &r) || take_step(s, node, &step, &value))
        return -1;
    if (r.lo.given && r.hi.given &&
        (r.lo.value > r.hi.value || (r.lo.value == r.hi.value && (r.lo.strict || r.hi.strict))))
        return no_number(s);
    if (json_object_get(node, "multipleOf") && step)
        return schema_integer(s, node);
    if (!step) {
        for (most = 1; most <= 10 && fabs(value * pow(10, most) - 1) > 1e-9;)
            most++;
        if (most > 10)
            return schema_refuse(s, "multipleOf", "no whole number, no 0.1, 0.01 ...");
    }
    if (!r.lo.given && !r.hi.given && most < 0)
        return schema_put(s, "json-number");
    return put_range(s, &r, most);
}
