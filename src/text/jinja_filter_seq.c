/* Filters on sequences: join, sort, map, select and their kin.
 *
 * What jinja2 makes as a generator is an iterator here too (it can be walked once and has no length),
 * but its items are computed at once: an error in an item that nobody would have asked for is reported
 * all the same. */
#include "text/jinja.h"
#include <string.h>

enum {
    SELECT_REJECT = 1,
    SELECT_ATTR = 2
};

static struct jval given_or(const struct jcall *c, int i, struct jval dflt)
{
    return c->given[i] ? c->a[i] : dflt;
}

/* ---- attribute paths ---------------------------------------------------------------------------------- */

static bool all_digits(const char *s, size_t len, int64_t *out)
{
    *out = 0;
    for (size_t i = 0; i < len; i++) {
        if (s[i] < '0' || s[i] > '9' || *out > 100000000)
            return false;
        *out = *out * 10 + (s[i] - '0');
    }
    return len > 0;
}

/* item["a"]["b"][0] for "a.b.0". path: a string, an integer, or None for the item itself. */
bool jinja_attr_path(struct jrun *r, const struct jval *v, const struct jval *path, const struct jval *dflt,
                     struct jval *out)
{
    struct jval x = *v;
    if (path->type == J_STR) {
        for (size_t from = 0, to; from <= path->len; from = to + 1) {
            const char *dot = from < path->len ? memchr(path->u.s + from, '.', path->len - from) : NULL;
            to = dot ? (size_t)(dot - path->u.s) : path->len;
            int64_t n;
            struct jval key = jv_str(path->u.s + from, to - from), item = x;
            if (all_digits(key.u.s, key.len, &n))
                key = jv_int(n);
            if (!jinja_work(r, 1) || !jinja_item(r, &item, &key, &x))
                return false;
            if (x.type == J_UNDEF && dflt && dflt->type != J_NONE)
                x = *dflt;
        }
    } else if (path->type != J_NONE) {
        if (!jinja_item(r, v, path, &x))
            return false;
        if (x.type == J_UNDEF && dflt && dflt->type != J_NONE)
            x = *dflt;
    }
    *out = x;
    return true;
}

/* What an item is sorted, compared or told apart by: its attribute, in lower case unless that matters. */
static bool item_key(struct jrun *r, const struct jval *v, const struct jval *path, bool exact,
                     struct jval *out)
{
    if (!jinja_attr_path(r, v, path, NULL, out))
        return false;
    return exact || out->type != J_STR || jinja_case(r, out, CASE_LOWER, out);
}

/* The same for "a,b": a list of keys. */
static bool item_keys(struct jrun *r, const struct jval *v, const struct jval *path, bool exact,
                      struct jval *out)
{
    if (path->type != J_STR || !path->len || !memchr(path->u.s, ',', path->len))
        return item_key(r, v, path, exact, out);
    struct jlist *l;
    struct jval k;
    if (!jlist_new(r, 0, &l))
        return false;
    for (size_t from = 0, to; from <= path->len; from = to + 1) {
        const char *comma = from < path->len ? memchr(path->u.s + from, ',', path->len - from) : NULL;
        to = comma ? (size_t)(comma - path->u.s) : path->len;
        struct jval part = jv_str(path->u.s + from, to - from);
        if (!item_key(r, v, &part, exact, &k) || !jlist_push(r, l, &k))
            return false;
    }
    *out = jv_list(l);
    return true;
}

/* ---- sorting ------------------------------------------------------------------------------------------ */

struct keyed {
    struct jval key, v;
};

/* The order of two keys. as_lists: of lists that hold one key each, where equal keys need no order. */
static bool order_keys(struct jrun *r, const struct jval *a, const struct jval *b, bool as_lists, int *out)
{
    bool same = false;
    if (as_lists && a->type != J_STR && !jinja_equal(r, a, b, &same))
        return false;
    *out = 0;
    return same || jinja_order(r, a, b, out);
}

/* Stable merge sort; reverse keeps the order of equals, as Python does. */
static bool sort_keyed(struct jrun *r, struct keyed *a, size_t n, bool reverse, bool as_lists)
{
    struct keyed *tmp = jarena_alloc(&r->arena, (n + 1) * sizeof *tmp), *from = a, *to = tmp;
    if (!tmp)
        return jinja_no_memory(r);
    for (size_t width = 1; width < n; width *= 2) {
        for (size_t lo = 0; lo < n; lo += 2 * width) {
            size_t mid = lo + width < n ? lo + width : n, hi = lo + 2 * width < n ? lo + 2 * width : n;
            size_t i = lo, j = mid, k = lo;
            while (i < mid && j < hi) {
                int c;
                if (!order_keys(r, &from[j].key, &from[i].key, as_lists, &c))
                    return false;
                to[k++] = (reverse ? c == 1 : c == -1) ? from[j++] : from[i++];
            }
            memcpy(to + k, from + i, (mid - i) * sizeof *to);
            k += mid - i;
            memcpy(to + k, from + j, (hi - j) * sizeof *to);
        }
        struct keyed *t = from;
        from = to;
        to = t;
    }
    if (from != a && n)
        memcpy(a, from, n * sizeof *a);
    return true;
}

static bool sorted(struct jrun *r, const struct jlist *l, const struct jval *path, bool exact, bool reverse,
                   bool as_lists, struct jlist **out)
{
    struct keyed *k = jarena_alloc(&r->arena, (l->n + 1) * sizeof *k);
    if (!k)
        return jinja_no_memory(r);
    for (size_t i = 0; i < l->n; i++) {
        k[i].v = l->v[i];
        if (!item_keys(r, &l->v[i], path, exact, &k[i].key))
            return false;
    }
    if (!sort_keyed(r, k, l->n, reverse, as_lists) || !jlist_new(r, l->n, out))
        return false;
    for (size_t i = 0; i < l->n; i++)
        (*out)->v[(*out)->n++] = k[i].v;
    return true;
}

static bool filter_sort(struct jrun *r, struct jcall *c, struct jval *out)
{
    struct jlist *l, *s;
    struct jval path = given_or(c, 2, jv_none());
    bool reverse = c->given[0] && jv_true(&c->a[0]), exact = c->given[1] && jv_true(&c->a[1]);
    if (!jinja_list_of(r, &c->self, &l) || !sorted(r, l, &path, exact, reverse, true, &s))
        return false;
    *out = jv_list(s);
    return true;
}

static bool filter_dictsort(struct jrun *r, struct jcall *c, struct jval *out)
{
    struct jlist *l, *s;
    struct jval by = given_or(c, 1, jv_text("key")), path;
    bool exact = c->given[0] && jv_true(&c->a[0]), reverse = c->given[2] && jv_true(&c->a[2]);
    if (!jv_is(&by, "key") && !jv_is(&by, "value"))
        return jinja_fail(r, "dictsort sorts by 'key' or 'value'");
    if (c->self.type == J_UNDEF)
        return jinja_undef_error(r, &c->self);
    if (c->self.type != J_DICT)
        return jinja_fail(r, "dictsort needs a mapping, not '%s'", jv_type_name(&c->self));
    path = jv_int(jv_is(&by, "value"));
    struct jval items = {.type = J_VIEW, .flag = J_VIEW_ITEMS, .u.dict = c->self.u.dict};
    if (!jinja_list_of(r, &items, &l) || !sorted(r, l, &path, exact, reverse, false, &s))
        return false;
    *out = jv_list(s);
    return true;
}

static bool filter_min_max(struct jrun *r, struct jcall *c, struct jval *out)
{
    static const char empty[] = "no item: the sequence was empty";
    struct jlist *l;
    struct jval path = given_or(c, 1, jv_none()), key, best;
    bool exact = c->given[0] && jv_true(&c->a[0]);
    if (!jinja_list_of(r, &c->self, &l))
        return false;
    *out = jv_undef(J_HINT_TEXT, empty, sizeof empty - 1);
    for (size_t i = 0; i < l->n; i++) {
        int order = 0;
        if (!item_key(r, &l->v[i], &path, exact, &key) || (i && !jinja_order(r, &key, &best, &order)))
            return false;
        if (i == 0 || order == c->fn->op) {
            best = key;
            *out = l->v[i];
        }
    }
    return true;
}

static bool filter_unique(struct jrun *r, struct jcall *c, struct jval *out)
{
    struct jlist *l, *res;
    struct jdict *seen;
    struct jval path = given_or(c, 1, jv_none()), key, *old;
    bool exact = c->given[0] && jv_true(&c->a[0]);
    if (!jinja_list_of(r, &c->self, &l) || !jlist_new(r, 0, &res) || !jdict_new(r, 0, &seen))
        return false;
    for (size_t i = 0; i < l->n; i++) {
        if (!item_key(r, &l->v[i], &path, exact, &key) || !jdict_get(r, seen, &key, &old))
            return false;
        if (!old && (!jdict_set(r, seen, &key, &key) || !jlist_push(r, res, &l->v[i])))
            return false;
    }
    return jinja_iter_new(r, "generator", res, out);
}

/* ---- map and select ----------------------------------------------------------------------------------- */

static struct jargs rest_of(const struct jargs *a, size_t skip)
{
    struct jargs r = *a;
    skip = skip < r.n ? skip : r.n;
    if (skip)
        r.v += skip;
    r.n -= skip;
    r.cap = r.n;
    return r;
}

static bool map_attribute(struct jrun *r, const struct jargs *a, const struct jlist *l, struct jlist *res)
{
    const struct jval *path = NULL, *dflt = NULL;
    struct jval v;
    for (size_t i = 0; i < a->n_kw; i++) {
        struct jval name = jv_str(a->kw[i].name, a->kw[i].len);
        if (jv_is(&name, "attribute"))
            path = &a->kw[i].v;
        else if (jv_is(&name, "default"))
            dflt = &a->kw[i].v;
        else
            return jinja_fail(r, "map takes no argument '%.*s'", (int)(name.len > 100 ? 100 : name.len),
                              name.u.s);
    }
    if (!path)
        return jinja_fail(r, "map needs the name of a filter or an attribute");
    for (size_t i = 0; i < l->n; i++)
        if (!jinja_attr_path(r, &l->v[i], path, dflt, &v) || !jlist_push(r, res, &v))
            return false;
    return true;
}

static bool filter_map(struct jrun *r, struct jcall *c, struct jval *out)
{
    struct jlist *l, *res;
    struct jval v;
    if (!jv_true(&c->self)) {
        return jlist_new(r, 0, &res) && jinja_iter_new(r, "generator", res, out);
    }
    if (!jinja_list_of(r, &c->self, &l) || !jlist_new(r, 0, &res) || !jinja_enter(r))
        return false;
    if (!c->raw->n) {
        if (!map_attribute(r, c->raw, l, res))
            return false;
    } else {
        const struct jval *name = &c->raw->v[0];
        const struct jbuiltin *fn = name->type == J_STR ? jinja_find_filter(name->u.s, name->len) : NULL;
        if (!fn)
            return jinja_fail(r, "map: no filter named '%.*s'", (int)(name->type == J_STR ? name->len : 0),
                              name->u.s);
        struct jargs args = rest_of(c->raw, 1);
        for (size_t i = 0; i < l->n; i++)
            if (!jinja_work(r, 1) || !jinja_call_builtin(r, fn, &l->v[i], &args, &v) ||
                !jlist_push(r, res, &v))
                return false;
    }
    jinja_leave(r);
    return jinja_iter_new(r, "generator", res, out);
}

static bool filter_select(struct jrun *r, struct jcall *c, struct jval *out)
{
    struct jlist *l, *res;
    size_t off = c->fn->op & SELECT_ATTR ? 1 : 0;
    const struct jbuiltin *test = NULL;
    if (!jlist_new(r, 0, &res))
        return false;
    if (!jv_true(&c->self))
        return jinja_iter_new(r, "generator", res, out);
    if (!jinja_list_of(r, &c->self, &l))
        return false;
    if (c->raw->n < off)
        return jinja_fail(r, "%s needs the name of an attribute", c->fn->name);
    if (c->raw->n > off) {
        const struct jval *name = &c->raw->v[off];
        if (name->type == J_STR)
            test = jinja_find_test(name->u.s, name->len);
        if (!test)
            return jinja_fail(r, "%s: no test named '%.*s'", c->fn->name,
                              (int)(name->type == J_STR ? name->len : 0), name->u.s);
    }
    struct jargs args = rest_of(c->raw, off + 1);
    for (size_t i = 0; i < l->n; i++) {
        struct jval v = l->v[i];
        bool yes;
        if (off && !jinja_attr_path(r, &l->v[i], &c->raw->v[0], NULL, &v))
            return false;
        if (test ? !jinja_run_test(r, test, &v, &args, &yes) : (yes = jv_true(&v), false))
            return false;
        if (yes != !!(c->fn->op & SELECT_REJECT) && !jlist_push(r, res, &l->v[i]))
            return false;
    }
    return jinja_iter_new(r, "generator", res, out);
}

/* ---- the rest ----------------------------------------------------------------------------------------- */

static bool filter_join(struct jrun *r, struct jcall *c, struct jval *out)
{
    struct jlist *l, *mapped;
    struct jval sep = given_or(c, 0, jv_text("")), s, v;
    if (!jinja_list_of(r, &c->self, &l) || !jinja_str(r, &sep, &s))
        return false;
    if (c->given[1] && c->a[1].type != J_NONE) {
        if (!jlist_new(r, l->n, &mapped))
            return false;
        for (size_t i = 0; i < l->n; i++)
            if (!jinja_attr_path(r, &l->v[i], &c->a[1], NULL, &v) || !jlist_push(r, mapped, &v))
                return false;
        l = mapped;
    }
    return jinja_join(r, &s, l, false, out);
}

static bool filter_list(struct jrun *r, struct jcall *c, struct jval *out)
{
    struct jlist *l;
    if (!jinja_list_of(r, &c->self, &l))
        return false;
    *out = jv_list(l);
    return true;
}

static bool filter_first_last(struct jrun *r, struct jcall *c, struct jval *out)
{
    static const char empty[] = "no item: the sequence was empty";
    struct jlist *l;
    const struct jval *v = &c->self;
    *out = jv_undef(J_HINT_TEXT, empty, sizeof empty - 1);
    if (v->type == J_ITER && !c->fn->op && !v->u.iter->error) {
        if (v->u.iter->pos < v->u.iter->list->n)
            *out = v->u.iter->list->v[v->u.iter->pos++];
        return true;
    }
    if (c->fn->op && v->type == J_UNDEF) /* jinja2 reverses it, which takes its length: empty */
        return true;
    if (c->fn->op && v->type == J_ITER)
        return jinja_fail(r, "'generator' object is not reversible");
    if (!jinja_list_of(r, v, &l))
        return false;
    if (l->n)
        *out = l->v[c->fn->op ? l->n - 1 : 0];
    return true;
}

static bool filter_length(struct jrun *r, struct jcall *c, struct jval *out)
{
    int64_t n;
    if (!jinja_len(r, &c->self, &n))
        return false;
    *out = jv_int(n);
    return true;
}

static bool filter_reverse(struct jrun *r, struct jcall *c, struct jval *out)
{
    struct jlist *l, *res;
    if (c->self.type == J_STR) {
        struct jval none = jv_none(), step = jv_int(-1);
        return jinja_slice(r, &c->self, &none, &none, &step, out);
    }
    if (!jinja_list_of(r, &c->self, &l) || !jlist_new(r, l->n, &res))
        return false;
    for (size_t i = l->n; i-- > 0;)
        res->v[res->n++] = l->v[i];
    if (c->self.type == J_ITER) { /* not reversible in Python: becomes a list there */
        *out = jv_list(res);
        return true;
    }
    return jinja_iter_new(r, "reversed iterator", res, out);
}

static bool filter_items(struct jrun *r, struct jcall *c, struct jval *out)
{
    struct jlist *l;
    struct jval view = {.type = J_VIEW, .flag = J_VIEW_ITEMS, .u.dict = c->self.u.dict};
    if (c->self.type == J_DICT ? !jinja_list_of(r, &view, &l) : !jlist_new(r, 0, &l))
        return false;
    if (!jinja_iter_new(r, "generator", l, out))
        return false;
    if (c->self.type != J_UNDEF && c->self.type != J_DICT)
        out->u.iter->error = "the filter items needs a mapping";
    return true;
}

static bool filter_sum(struct jrun *r, struct jcall *c, struct jval *out)
{
    struct jlist *l;
    struct jval acc = given_or(c, 1, jv_int(0)), path = given_or(c, 0, jv_none()), v;
    if (acc.type == J_STR)
        return jinja_fail(r, "sum cannot add strings, use join");
    if (!jinja_list_of(r, &c->self, &l))
        return false;
    for (size_t i = 0; i < l->n; i++)
        if (!jinja_attr_path(r, &l->v[i], &path, NULL, &v) || !jinja_binary(r, T_ADD, &acc, &v, &acc))
            return false;
    *out = acc;
    return true;
}

static bool push_list(struct jrun *r, struct jlist *to, struct jlist *row)
{
    struct jval v = jv_list(row);
    return jlist_push(r, to, &v);
}

static bool filter_batch(struct jrun *r, struct jcall *c, struct jval *out)
{
    struct jlist *l, *res, *row = NULL;
    if (!jinja_list_of(r, &c->self, &l) || !jlist_new(r, 0, &res))
        return false;
    if (!jv_is_num(&c->a[0]) && c->given[1])
        return jinja_fail(r, "batch: the count must be an integer");
    double count = jv_is_num(&c->a[0]) ? jv_as_float(&c->a[0]) : -1; /* no row is ever that long */
    for (size_t i = 0; i < l->n; i++) {
        if (!row && !jlist_new(r, 0, &row))
            return false;
        if ((double)row->n == count && (!push_list(r, res, row) || !jlist_new(r, 0, &row)))
            return false;
        if (!jlist_push(r, row, &l->v[i]))
            return false;
    }
    while (row && c->given[1] && c->a[1].type != J_NONE && (double)row->n < count)
        if (!jlist_push(r, row, &c->a[1]) || !jinja_work(r, 16))
            return false;
    if (row && !push_list(r, res, row))
        return false;
    return jinja_iter_new(r, "generator", res, out);
}

/* In so many parts as equal as can be, the longer ones first. */
static bool filter_slice(struct jrun *r, struct jcall *c, struct jval *out)
{
    struct jlist *l, *res, *row;
    if (!jinja_list_of(r, &c->self, &l) || !jlist_new(r, 0, &res))
        return false;
    if (!jv_is_int(&c->a[0]) || jv_as_int(&c->a[0]) == 0)
        return jinja_fail(r, "slice: the number of parts must be an integer other than zero");
    const int64_t parts = jv_as_int(&c->a[0]), n = (int64_t)l->n, extra = parts > 0 ? n % parts : 0;
    for (int64_t i = 0, at = 0; i < parts; i++) {
        const int64_t count = n / parts + (i < extra);
        if (!jinja_work(r, 16 * (uint64_t)count + 16) || !jlist_new(r, (size_t)count + 1, &row))
            return false;
        for (int64_t k = 0; k < count; k++)
            if (!jlist_push(r, row, &l->v[at++]))
                return false;
        if (c->given[1] && c->a[1].type != J_NONE && i >= extra && !jlist_push(r, row, &c->a[1]))
            return false;
        if (!push_list(r, res, row))
            return false;
    }
    return jinja_iter_new(r, "generator", res, out);
}

/* Appends the group a[from, to) to res: its key as the first item has it, and the items. */
static bool push_group(struct jrun *r, struct jlist *res, const struct keyed *a, size_t from, size_t to,
                       const struct jval *path, const struct jval *dflt)
{
    struct jlist *items;
    struct jval key, group, list;
    if (!jinja_attr_path(r, &a[from].v, path, dflt, &key) || !jlist_new(r, to - from, &items))
        return false;
    for (size_t i = from; i < to; i++)
        if (!jlist_push(r, items, &a[i].v))
            return false;
    list = jv_list(items);
    if (!jinja_pair(r, &key, &list, &group))
        return false;
    group.flag = 1;
    return jlist_push(r, res, &group);
}

static bool filter_groupby(struct jrun *r, struct jcall *c, struct jval *out)
{
    struct jlist *l, *res;
    struct jval dflt = given_or(c, 1, jv_none());
    bool exact = c->given[2] && jv_true(&c->a[2]), same;
    if (!jinja_list_of(r, &c->self, &l) || !jlist_new(r, 0, &res))
        return false;
    struct keyed *k = jarena_alloc(&r->arena, (l->n + 1) * sizeof *k);
    if (!k)
        return jinja_no_memory(r);
    for (size_t i = 0; i < l->n; i++) {
        k[i].v = l->v[i];
        if (!jinja_attr_path(r, &l->v[i], &c->a[0], &dflt, &k[i].key) ||
            (!exact && k[i].key.type == J_STR && !jinja_case(r, &k[i].key, CASE_LOWER, &k[i].key)))
            return false;
    }
    if (!sort_keyed(r, k, l->n, false, false))
        return false;
    for (size_t from = 0, to; from < l->n; from = to) {
        for (to = from + 1, same = true; to < l->n && same; to += same)
            if (!jinja_equal(r, &k[from].key, &k[to].key, &same))
                return false;
        if (!push_group(r, res, k, from, to, &c->a[0], &dflt))
            return false;
    }
    *out = jv_list(res);
    return true;
}

static bool filter_attr(struct jrun *r, struct jcall *c, struct jval *out)
{
    const struct jval *name = &c->a[0];
    if (name->type != J_STR)
        return jinja_fail(r, "attr needs the name of an attribute");
    if (c->self.type == J_DICT && !jinja_find_method(&c->self, name->u.s, name->len)) {
        *out = jv_undef(J_HINT_ATTR, name->u.s, name->len); /* attributes only, no items */
        return true;
    }
    return jinja_attr(r, &c->self, name->u.s, name->len, out);
}

static const struct jbuiltin filters[] = {
    {"attr", "name", filter_attr, 0},
    {"batch", "linecount fill_with?", filter_batch, 0},
    {"count", "", filter_length, 0},
    {"dictsort", "case_sensitive? by? reverse?", filter_dictsort, 0},
    {"first", "", filter_first_last, 0},
    {"groupby", "attribute default? case_sensitive?", filter_groupby, 0},
    {"items", "", filter_items, 0},
    {"join", "d? attribute?", filter_join, 0},
    {"last", "", filter_first_last, 1},
    {"length", "", filter_length, 0},
    {"list", "", filter_list, 0},
    {"map", "*", filter_map, 0},
    {"max", "case_sensitive? attribute?", filter_min_max, 1},
    {"min", "case_sensitive? attribute?", filter_min_max, -1},
    {"reject", "*", filter_select, SELECT_REJECT},
    {"rejectattr", "*", filter_select, SELECT_REJECT | SELECT_ATTR},
    {"reverse", "", filter_reverse, 0},
    {"select", "*", filter_select, 0},
    {"selectattr", "*", filter_select, SELECT_ATTR},
    {"slice", "slices fill_with?", filter_slice, 0},
    {"sort", "reverse? case_sensitive? attribute?", filter_sort, 0},
    {"sum", "attribute? start?", filter_sum, 0},
    {"unique", "case_sensitive? attribute?", filter_unique, 0},
};

const struct jbuiltin *jinja_find_seq_filter(const char *s, size_t len)
{
    return jinja_search(filters, sizeof filters / sizeof filters[0], s, len);
}
