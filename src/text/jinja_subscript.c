/* What stands after a value: attributes, items, slices, of loops, lists, dicts, strings and their methods. A missing
 * one is undefined, as in Python's jinja2, and an error where it is used. */
#include "text/jinja.h"
#include <string.h>

/* ---- attributes and items ----------------------------------------------------------------------------- */

static bool loop_attr(struct jrun *r, const struct jval *v, const char *name, size_t len, struct jval *out)
{
    const struct jloop *l = v->u.loop;
    struct jval key = jv_str(name, len);
    size_t n = l->items->n, i = l->index0;
    (void)r;
    if (jv_is(&key, "index"))
        *out = jv_int((int64_t)i + 1);
    else if (jv_is(&key, "index0"))
        *out = jv_int((int64_t)i);
    else if (jv_is(&key, "first"))
        *out = jv_bool(i == 0);
    else if (jv_is(&key, "last"))
        *out = jv_bool(i + 1 == n);
    else if (jv_is(&key, "length"))
        *out = jv_int((int64_t)n);
    else if (jv_is(&key, "revindex"))
        *out = jv_int((int64_t)(n - i));
    else if (jv_is(&key, "revindex0"))
        *out = jv_int((int64_t)(n - i) - 1);
    else if (jv_is(&key, "depth"))
        *out = jv_int(l->depth0 + 1);
    else if (jv_is(&key, "depth0"))
        *out = jv_int(l->depth0);
    else if (jv_is(&key, "previtem"))
        *out = i ? l->items->v[i - 1] : jv_undef(J_HINT_TEXT, "there is no previous item", 25);
    else if (jv_is(&key, "nextitem"))
        *out = i + 1 < n ? l->items->v[i + 1] : jv_undef(J_HINT_TEXT, "there is no next item", 21);
    else
        return false;
    return true;
}

static bool find_method(struct jrun *r, const struct jval *v, const char *name, size_t len, struct jval *out,
                        bool *found)
{
    const struct jbuiltin *fn = jinja_find_method(v, name, len);
    *found = false;
    if (!fn) {
        if (jinja_mutator(v, name, len)) {
            *found = true;
            *out = jv_undef(J_HINT_UNSAFE, name, len);
        }
        return true;
    }
    struct jmethod *m = jarena_alloc(&r->arena, sizeof *m);
    if (!m)
        return jinja_no_memory(r);
    *m = (struct jmethod){.self = *v, .fn = fn};
    *out = (struct jval){.type = J_METHOD, .u.method = m};
    *found = true;
    return true;
}

static bool list_item(struct jrun *r, const struct jlist *l, int64_t i, struct jval *out, bool *found)
{
    (void)r;
    if (i < 0)
        i += (int64_t)l->n;
    *found = i >= 0 && i < (int64_t)l->n;
    if (*found)
        *out = l->v[i];
    return true;
}

/* v[key] without the attributes; *found false where Python raises TypeError or LookupError. */
static bool plain_item(struct jrun *r, const struct jval *v, const struct jval *key, struct jval *out,
                       bool *found)
{
    *found = false;
    if (v->type == J_DICT) {
        struct jval *x;
        if (key->type == J_LIST || key->type == J_DICT)
            return true; /* unhashable */
        if (!jdict_get(r, v->u.dict, key, &x))
            return false;
        if ((*found = x != NULL))
            *out = *x;
        return true;
    }
    if (!jv_is_int(key))
        return true;
    int64_t i = jv_as_int(key);
    if (v->type == J_LIST || v->type == J_TUPLE)
        return list_item(r, v->u.list, i, out, found);
    if (v->type == J_RANGE) {
        i += i < 0 ? v->u.range->n : 0;
        if ((*found = i >= 0 && i < v->u.range->n))
            *out = jv_int(v->u.range->start + i * v->u.range->step);
        return true;
    }
    if (v->type == J_STR) {
        int64_t n = (int64_t)jcp_count(v->u.s, v->len);
        i += i < 0 ? n : 0;
        if ((*found = i >= 0 && i < n)) {
            size_t at = jcp_offset(v->u.s, v->len, (size_t)i), from = at;
            jcp_next(v->u.s, v->len, &at);
            *out = jv_str(v->u.s + from, at - from);
            out->flag = v->flag;
        }
        return jinja_work(r, v->len);
    }
    return true;
}

bool jinja_attr(struct jrun *r, const struct jval *v, const char *name, size_t len, struct jval *out)
{
    bool found;
    if (v->type == J_UNDEF)
        return jinja_undef_error(r, v);
    if (v->type == J_NS) {
        struct jval *x;
        if (!jdict_find_str(r, v->u.dict, name, len, &x))
            return false;
        *out = x ? *x : jv_undef(J_HINT_ATTR, name, len);
        return true;
    }
    if (v->type == J_LOOP && loop_attr(r, v, name, len, out))
        return true;
    if (v->type == J_TUPLE && v->flag) { /* a group: its key and its items */
        const struct jval key = jv_str(name, len);
        const bool list = jv_is(&key, "list");
        if (list || jv_is(&key, "grouper")) {
            *out = v->u.list->v[list];
            return true;
        }
    }
    if (!find_method(r, v, name, len, out, &found))
        return false;
    if (found)
        return true;
    struct jval key = jv_str(name, len);
    if (!plain_item(r, v, &key, out, &found))
        return false;
    if (!found)
        *out = jv_undef(J_HINT_ATTR, name, len);
    return true;
}

bool jinja_item(struct jrun *r, const struct jval *v, const struct jval *key, struct jval *out)
{
    bool found;
    if (v->type == J_UNDEF)
        return jinja_undef_error(r, v);
    if (!plain_item(r, v, key, out, &found))
        return false;
    if (found)
        return true;
    if (key->type == J_STR) {
        if (v->type == J_NS || v->type == J_LOOP || (v->type == J_TUPLE && v->flag))
            return jinja_attr(r, v, key->u.s, key->len, out);
        if (!find_method(r, v, key->u.s, key->len, out, &found))
            return false;
        if (found)
            return true;
    }
    struct jval text = jv_text(jv_type_name(key));
    if (key->type == J_STR || jv_is_num(key))
        if (!jinja_str(r, key, &text))
            return false;
    *out = jv_undef(J_HINT_ATTR, text.u.s, text.len);
    return true;
}

/* ---- slices ------------------------------------------------------------------------------------------- */

/* A bound of a slice as Python's slice.indices gives it. */
static bool slice_bound(struct jrun *r, const struct jval *v, int64_t n, bool negative, int64_t dflt,
                        int64_t *out)
{
    *out = dflt;
    if (v->type == J_NONE)
        return true;
    if (!jv_is_int(v))
        return jinja_fail(r, "slice indices must be integers or None");
    int64_t i = jv_as_int(v);
    if (i < 0) {
        i += n;
        if (i < 0)
            i = negative ? -1 : 0;
    } else if (i >= n) {
        i = negative ? n - 1 : n;
    }
    *out = i;
    return true;
}

static bool slice_str(struct jrun *r, const struct jval *v, int64_t lo, int64_t count, int64_t step,
                      struct jval *out)
{
    if (step == 1) {
        size_t from = jcp_offset(v->u.s, v->len, (size_t)lo);
        size_t len = jcp_offset(v->u.s + from, v->len - from, (size_t)count);
        *out = jv_str(v->u.s + from, len);
        return jinja_work(r, v->len);
    }
    struct jlist *l;
    struct jbuild b = {.r = r};
    if (!jinja_list_of(r, v, &l))
        return false;
    for (int64_t i = 0; i < count; i++)
        if (!jb_put(&b, l->v[lo + i * step].u.s, l->v[lo + i * step].len))
            return false;
    return jb_done(&b, out);
}

bool jinja_slice(struct jrun *r, const struct jval *v, const struct jval *lo, const struct jval *hi,
                 const struct jval *step, struct jval *out)
{
    int64_t n, s = 1, from, to;
    if (v->type == J_UNDEF)
        return jinja_undef_error(r, v);
    if (v->type != J_STR && v->type != J_LIST && v->type != J_TUPLE && v->type != J_RANGE)
        return jinja_fail(r, "'%s' object cannot be sliced", jv_type_name(v));
    if (step->type != J_NONE) {
        if (!jv_is_int(step) || !(s = jv_as_int(step)))
            return jinja_fail(r, "a slice's step must be an integer other than zero");
        if (s > INT32_MAX || s < -INT32_MAX) /* longer than anything there is */
            s = s > 0 ? INT32_MAX : -INT32_MAX;
    }
    if (!jinja_len(r, v, &n) || !slice_bound(r, lo, n, s < 0, s < 0 ? n - 1 : 0, &from) ||
        !slice_bound(r, hi, n, s < 0, s < 0 ? -1 : n, &to))
        return false;
    int64_t count =
        s > 0 ? (to > from ? (to - from - 1) / s + 1 : 0) : (from > to ? (from - to - 1) / -s + 1 : 0);
    if (v->type == J_STR) {
        if (!slice_str(r, v, from, count, s, out))
            return false;
        out->flag = v->flag;
        return true;
    }
    if (v->type == J_RANGE) {
        struct jrange *g = jarena_alloc(&r->arena, sizeof *g), *old = v->u.range;
        if (!g)
            return jinja_no_memory(r);
        *g =
            (struct jrange){old->start + from * old->step, old->start + to * old->step, old->step * s, count};
        *out = (struct jval){.type = J_RANGE, .u.range = g};
        return true;
    }
    struct jlist *l;
    if (!jlist_new(r, (size_t)count, &l))
        return false;
    for (int64_t i = 0; i < count; i++)
        l->v[l->n++] = v->u.list->v[from + i * s];
    *out = (struct jval){.type = v->type, .u.list = l};
    return jinja_work(r, (uint64_t)count * 16);
}
