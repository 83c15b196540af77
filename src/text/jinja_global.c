/* The global functions of templates: range, dict, namespace, raise_exception, strftime_now; and the names of jinja2's
 * others, which are refused. The time is that of base/clock.h. */
#include "text/jinja.h"
#include "base/clock.h"
#include <string.h>
#include <time.h>

static bool global_raise(struct jrun *r, struct jcall *c, struct jval *out)
{
    struct jval s;
    (void)out;
    if (!jinja_str(r, &c->a[0], &s))
        return false;
    return jinja_fail(r, "%.*s", (int)(s.len > 400 ? 400 : s.len), s.u.s);
}

/* The local time by the format, as datetime.now().strftime(format). */
static bool global_strftime(struct jrun *r, struct jcall *c, struct jval *out)
{
    char fmt[256], text[4096];
    time_t now = (time_t)clock_unix_s();
    struct tm tm;
    if (c->a[0].type != J_STR || c->a[0].len >= sizeof fmt - 1 || memchr(c->a[0].u.s, 0, c->a[0].len))
        return jinja_fail(r, "strftime_now needs a format of less than 255 bytes");
    if (!localtime_r(&now, &tm))
        return jinja_fail(r, "strftime_now: the time has no date");
    memcpy(fmt, c->a[0].u.s, c->a[0].len);
    fmt[c->a[0].len] = 'x'; /* so that an empty result differs from a failure */
    fmt[c->a[0].len + 1] = 0;
    size_t n = strftime(text, sizeof text, fmt, &tm);
    if (!n)
        return jinja_fail(r, "strftime_now: the result is longer than %zu bytes", sizeof text);
    char *p = jarena_bytes(&r->arena, n);
    if (!p)
        return jinja_no_memory(r);
    memcpy(p, text, n);
    *out = jv_str(p, n - 1);
    return true;
}

enum {
    RANGE_MAX = 100000,
    RANGE_BOUND = 1 << 30
};

static bool global_range(struct jrun *r, struct jcall *c, struct jval *out)
{
    int64_t a[3] = {0, 0, 1};
    struct jrange *g = jarena_alloc(&r->arena, sizeof *g);
    if (!g)
        return jinja_no_memory(r);
    for (int i = 0; i < 3; i++) {
        if (!c->given[i])
            continue;
        if (c->a[i].type == J_UNDEF)
            return jinja_undef_error(r, &c->a[i]);
        if (!jv_is_int(&c->a[i]))
            return jinja_fail(r, "range: '%s' cannot be read as an integer", jv_type_name(&c->a[i]));
        a[i] = jv_as_int(&c->a[i]);
        if (a[i] > RANGE_BOUND || a[i] < -RANGE_BOUND)
            return jinja_fail(r, "range: a bound is beyond %d", RANGE_BOUND);
    }
    if (!c->given[1]) {
        a[1] = a[0];
        a[0] = 0;
    }
    if (!a[2])
        return jinja_fail(r, "range: the step must not be zero");
    int64_t n = a[2] > 0 ? (a[1] - a[0] + a[2] - 1) / a[2] : (a[0] - a[1] - a[2] - 1) / -a[2];
    if (a[2] > 0 ? a[1] <= a[0] : a[0] <= a[1])
        n = 0;
    if (n > RANGE_MAX)
        return jinja_fail(r, "range: longer than %d", RANGE_MAX);
    *g = (struct jrange){a[0], a[1], a[2], n};
    *out = (struct jval){.type = J_RANGE, .u.range = g};
    return true;
}

/* dict(mapping or pairs, name=value...) and namespace(...), which is one that can be assigned to. */
static bool global_dict(struct jrun *r, struct jcall *c, struct jval *out)
{
    struct jdict *d;
    struct jlist *l, *pair;
    if (!jdict_new(r, 0, &d))
        return false;
    if (c->raw->n > 1)
        return jinja_fail(r, "%s takes at most one value", c->fn->name);
    if (c->raw->n && c->raw->v[0].type == J_DICT) {
        const struct jdict *from = c->raw->v[0].u.dict;
        for (size_t i = 0; i < from->n; i++)
            if (!jdict_set(r, d, &from->e[i].key, &from->e[i].val))
                return false;
    } else if (c->raw->n) {
        if (!jinja_list_of(r, &c->raw->v[0], &l))
            return false;
        for (size_t i = 0; i < l->n; i++) {
            if (!jinja_list_of(r, &l->v[i], &pair))
                return false;
            if (pair->n != 2)
                return jinja_fail(r, "%s: item %zu is no pair", c->fn->name, i);
            if (!jdict_set(r, d, &pair->v[0], &pair->v[1]))
                return false;
        }
    }
    for (size_t i = 0; i < c->raw->n_kw; i++) {
        struct jval k = jv_str(c->raw->kw[i].name, c->raw->kw[i].len);
        if (!jdict_set(r, d, &k, &c->raw->kw[i].v))
            return false;
    }
    *out = (struct jval){.type = (uint8_t)c->fn->op, .u.dict = d};
    return true;
}

static bool global_refused(struct jrun *r, struct jcall *c, struct jval *out)
{
    (void)out;
    return jinja_fail(r, "'%s' is unsupported in chat templates", c->fn->name);
}

static const struct jbuiltin globals[] = {
    {"cycler", "*", global_refused, 0},
    {"dict", "*", global_dict, J_DICT},
    {"joiner", "*", global_refused, 0},
    {"lipsum", "*", global_refused, 0},
    {"namespace", "*", global_dict, J_NS},
    {"raise_exception", "message", global_raise, 0},
    {"range", "/ /? /?", global_range, 0},
    {"self", "*", global_refused, 0},
    {"strftime_now", "format", global_strftime, 0},
};

const struct jbuiltin *jinja_find_global(const char *s, size_t len)
{
    return jinja_search(globals, sizeof globals / sizeof globals[0], s, len);
}
