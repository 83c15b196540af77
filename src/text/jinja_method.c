/* Methods of dictionaries and lists, loop.cycle and loop.changed; those of strings are in jinja_string.c. Methods
 * that would change a value are known by name only: the sandbox forbids them. */
#include "text/jinja.h"

static bool dict_get(struct jrun *r, struct jcall *c, struct jval *out)
{
    struct jval *v;
    if (!jdict_get(r, c->self.u.dict, &c->a[0], &v))
        return false;
    *out = v ? *v : c->given[1] ? c->a[1] : jv_none();
    return true;
}

static bool dict_view(struct jrun *r, struct jcall *c, struct jval *out)
{
    (void)r;
    *out = (struct jval){.type = J_VIEW, .flag = (uint8_t)c->fn->op, .u.dict = c->self.u.dict};
    return true;
}

static bool dict_copy(struct jrun *r, struct jcall *c, struct jval *out)
{
    (void)r;
    *out = c->self; /* nothing can change it */
    return true;
}

static const struct jbuiltin dict_methods[] = {
    {"copy", "", dict_copy, 0},
    {"get", "/ /?", dict_get, 0},
    {"items", "", dict_view, J_VIEW_ITEMS},
    {"keys", "", dict_view, J_VIEW_KEYS},
    {"values", "", dict_view, J_VIEW_VALUES},
};

static bool list_count_index(struct jrun *r, struct jcall *c, struct jval *out)
{
    int64_t n = 0;
    const struct jlist *l = c->self.u.list;
    for (size_t i = 0; i < l->n; i++) {
        bool same;
        if (!jinja_equal(r, &l->v[i], &c->a[0], &same))
            return false;
        if (same && c->fn->op) {
            *out = jv_int((int64_t)i);
            return true;
        }
        n += same;
    }
    if (c->fn->op)
        return jinja_fail(r, "index: the value is not in the list");
    *out = jv_int(n);
    return true;
}

static const struct jbuiltin list_methods[] = {
    {"copy", "", dict_copy, 0},
    {"count", "/", list_count_index, 0},
    {"index", "/", list_count_index, 1},
};

static bool loop_cycle(struct jrun *r, struct jcall *c, struct jval *out)
{
    if (!c->raw->n)
        return jinja_fail(r, "cycle needs at least one value");
    *out = c->raw->v[c->self.u.loop->index0 % c->raw->n];
    return true;
}

static bool loop_changed(struct jrun *r, struct jcall *c, struct jval *out)
{
    struct jloop *l = c->self.u.loop;
    struct jlist *now;
    bool same = false;
    if (!jlist_new(r, c->raw->n, &now))
        return false;
    for (size_t i = 0; i < c->raw->n; i++)
        if (!jlist_push(r, now, &c->raw->v[i]))
            return false;
    struct jval a = jv_list(now), b = jv_list(l->changed);
    if (l->has_changed && !jinja_equal(r, &a, &b, &same))
        return false;
    l->has_changed = true;
    l->changed = now;
    *out = jv_bool(!same);
    return true;
}

static const struct jbuiltin loop_methods[] = {
    {"changed", "*", loop_changed, 0},
    {"cycle", "*", loop_cycle, 0},
};

#define SEARCH(table) jinja_search(table, sizeof table / sizeof table[0], s, len)

const struct jbuiltin *jinja_find_method(const struct jval *self, const char *s, size_t len)
{
    switch ((enum jtype)self->type) {
    case J_STR:
        return jinja_find_str_method(s, len);
    case J_DICT:
        return SEARCH(dict_methods);
    case J_LIST:
    case J_TUPLE:
        return SEARCH(list_methods);
    case J_LOOP:
        return SEARCH(loop_methods);
    default:
        return NULL;
    }
}

bool jinja_mutator(const struct jval *self, const char *s, size_t len)
{
    static const char *const of_list[] = {"append", "clear",  "extend",  "insert",
                                          "pop",    "remove", "reverse", "sort"};
    static const char *const of_dict[] = {"clear", "pop", "popitem", "setdefault", "update"};
    struct jval name = jv_str(s, len);
    if (self->type == J_LIST)
        for (size_t i = 0; i < sizeof of_list / sizeof of_list[0]; i++)
            if (jv_is(&name, of_list[i]))
                return true;
    if (self->type == J_DICT)
        for (size_t i = 0; i < sizeof of_dict / sizeof of_dict[0]; i++)
            if (jv_is(&name, of_dict[i]))
                return true;
    return false;
}
