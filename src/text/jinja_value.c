/* Values of the template interpreter: lists, dictionaries, iteration, and their making from JSON. The arena they
 * live in is in jinja_arena.c, what operators do with them in jinja_ops.c, their text in jinja_text.c. */
#include "text/jinja.h"
#include "base/mem.h"
#include <math.h>
#include <string.h>

/* ---- simple values ------------------------------------------------------------------------------------ */

struct jval jv_text(const char *s)
{
    return jv_str(s, strlen(s));
}

struct jval jv_undef(int hint, const char *s, size_t len)
{
    return (struct jval){.type = J_UNDEF, .flag = (uint8_t)hint, .len = (uint32_t)len, .u.s = s};
}

const char *jv_type_name(const struct jval *v)
{
    static const char *const names[] = {
        [J_UNDEF] = "Undefined", [J_NONE] = "NoneType",    [J_BOOL] = "bool",      [J_INT] = "int",
        [J_FLOAT] = "float",     [J_STR] = "str",          [J_LIST] = "list",      [J_TUPLE] = "tuple",
        [J_DICT] = "dict",       [J_RANGE] = "range",      [J_VIEW] = "dict view", [J_ITER] = "generator",
        [J_NS] = "Namespace",    [J_LOOP] = "LoopContext", [J_MACRO] = "Macro",    [J_FUNC] = "function",
        [J_METHOD] = "method",
    };
    return names[v->type];
}

bool jv_is(const struct jval *v, const char *s)
{
    return v->type == J_STR && v->len == strlen(s) && memcmp(v->u.s, s, v->len) == 0;
}

bool jv_true(const struct jval *v)
{
    switch ((enum jtype)v->type) {
    case J_UNDEF:
    case J_NONE:
        return false;
    case J_BOOL:
        return v->u.b;
    case J_INT:
        return v->u.i != 0;
    case J_FLOAT:
        return v->u.f != 0;
    case J_STR:
        return v->len != 0;
    case J_LIST:
    case J_TUPLE:
        return v->u.list->n != 0;
    case J_DICT:
    case J_VIEW:
        return v->u.dict->n != 0;
    case J_RANGE:
        return v->u.range->n != 0;
    case J_LOOP:
        return v->u.loop->items->n != 0;
    default:
        return true;
    }
}

bool jv_is_int(const struct jval *v)
{
    return v->type == J_INT || v->type == J_BOOL;
}

int64_t jv_as_int(const struct jval *v)
{
    return v->type == J_BOOL ? v->u.b : v->u.i;
}

bool jv_is_num(const struct jval *v)
{
    return v->type == J_INT || v->type == J_BOOL || v->type == J_FLOAT;
}

double jv_as_float(const struct jval *v)
{
    return v->type == J_FLOAT ? v->u.f : (double)jv_as_int(v);
}

/* ---- lists -------------------------------------------------------------------------------------------- */

bool jlist_new(struct jrun *r, size_t cap, struct jlist **out)
{
    if (cap > LIMIT_TEMPLATE_MEMORY / sizeof(struct jval))
        return jinja_fail(r, "a list of %zu items is larger than the memory limit", cap);
    struct jlist *l = jarena_alloc(&r->arena, sizeof *l);
    if (!l)
        return jinja_no_memory(r);
    *l = (struct jlist){.cap = cap};
    if (cap && !(l->v = jarena_alloc(&r->arena, cap * sizeof *l->v)))
        return jinja_no_memory(r);
    *out = l;
    return true;
}

bool jlist_push(struct jrun *r, struct jlist *l, const struct jval *v)
{
    if (l->n == l->cap) {
        size_t cap = l->cap ? l->cap * 2 : 4;
        struct jval *p = jarena_alloc(&r->arena, cap * sizeof *p);
        if (!p)
            return jinja_no_memory(r);
        if (l->n)
            memcpy(p, l->v, l->n * sizeof *p);
        l->v = p;
        l->cap = cap;
    }
    l->v[l->n++] = *v;
    return true;
}

bool jinja_pair(struct jrun *r, const struct jval *a, const struct jval *b, struct jval *out)
{
    struct jlist *l;
    if (!jlist_new(r, 2, &l) || !jlist_push(r, l, a) || !jlist_push(r, l, b))
        return false;
    *out = (struct jval){.type = J_TUPLE, .u.list = l};
    return true;
}

/* ---- dictionaries ------------------------------------------------------------------------------------- */

static uint64_t mix(uint64_t h)
{
    h ^= h >> 32;
    h *= 0xd6e8feb86659fd93u;
    h ^= h >> 29;
    return h;
}

static uint32_t hash_bytes(const char *s, size_t n)
{
    uint64_t h = 0x9e3779b97f4a7c15u + n;
    for (; n >= 8; s += 8, n -= 8) {
        uint64_t w;
        memcpy(&w, s, 8);
        h = mix(h ^ w) * 0x9e3779b97f4a7c15u;
    }
    uint64_t w = 0;
    memcpy(&w, s, n);
    h = mix(mix(h ^ w));
    return (uint32_t)h;
}

bool jinja_hash(struct jrun *r, const struct jval *v, uint32_t *out)
{
    switch ((enum jtype)v->type) {
    case J_STR:
        *out = hash_bytes(v->u.s, v->len);
        return jinja_work(r, v->len);
    case J_FLOAT:
        if (v->u.f >= -9.2e18 && v->u.f <= 9.2e18 && v->u.f == (double)(int64_t)v->u.f)
            *out = (uint32_t)mix((uint64_t)(int64_t)v->u.f); /* equal to the integer */
        else
            *out = hash_bytes((const char *)&v->u.f, sizeof v->u.f);
        return true;
    case J_INT:
    case J_BOOL:
        *out = (uint32_t)mix((uint64_t)jv_as_int(v));
        return true;
    case J_NONE:
    case J_UNDEF:
        *out = 0x5bd1e995u + v->type;
        return true;
    case J_TUPLE: {
        uint32_t h = 17, one;
        if (!jinja_enter(r))
            return false;
        for (size_t i = 0; i < v->u.list->n; i++) {
            if (!jinja_hash(r, &v->u.list->v[i], &one))
                return false;
            h = (uint32_t)mix(((uint64_t)h << 32 | one) + 1);
        }
        jinja_leave(r);
        *out = h;
        return true;
    }
    case J_RANGE:
        *out = v->u.range->n ? (uint32_t)mix((uint64_t)v->u.range->start * 31 + (uint64_t)v->u.range->n) : 1;
        return true;
    case J_NS:
    case J_ITER:
    case J_LOOP:
    case J_METHOD:
    case J_MACRO:
    case J_FUNC:
        *out = (uint32_t)mix((uint64_t)(uintptr_t)v->u.macro);
        return true;
    default:
        return jinja_fail(r, "unhashable type: '%s'", jv_type_name(v));
    }
}

bool jdict_new(struct jrun *r, size_t cap, struct jdict **out)
{
    struct jdict *d = jarena_alloc(&r->arena, sizeof *d);
    if (!d)
        return jinja_no_memory(r);
    *d = (struct jdict){0};
    if (cap) {
        if (!(d->e = jarena_alloc(&r->arena, cap * sizeof *d->e)))
            return jinja_no_memory(r);
        d->cap = cap;
    }
    *out = d;
    return true;
}

/* Identical or equal, as Python compares keys. */
static bool key_equal(struct jrun *r, const struct jval *a, const struct jval *b, bool *out)
{
    if (a->type == J_STR && b->type == J_STR) {
        *out = a->len == b->len && memcmp(a->u.s, b->u.s, a->len) == 0;
        return true;
    }
    return jinja_equal(r, a, b, out);
}

static bool dict_lookup(struct jrun *r, const struct jdict *d, const struct jval *key, uint32_t hash,
                        struct jentry **out)
{
    bool same;
    *out = NULL;
    if (!d->n_slots) {
        for (size_t i = 0; i < d->n; i++) {
            if (d->e[i].hash != hash)
                continue;
            if (!key_equal(r, &d->e[i].key, key, &same))
                return false;
            if (same) {
                *out = &d->e[i];
                return true;
            }
        }
        return true;
    }
    for (size_t s = hash & (d->n_slots - 1);; s = (s + 1) & (d->n_slots - 1)) {
        if (!d->slots[s])
            return true;
        struct jentry *e = &d->e[d->slots[s] - 1];
        if (e->hash == hash) {
            if (!key_equal(r, &e->key, key, &same))
                return false;
            if (same) {
                *out = e;
                return true;
            }
        }
        if (!jinja_work(r, 16))
            return false;
    }
}

static bool dict_grow(struct jrun *r, struct jdict *d)
{
    size_t cap = d->cap ? d->cap * 2 : 4;
    struct jentry *e = jarena_alloc(&r->arena, cap * sizeof *e);
    if (!e)
        return jinja_no_memory(r);
    if (d->n)
        memcpy(e, d->e, d->n * sizeof *e);
    d->e = e;
    d->cap = cap;
    return true;
}

/* Keeps the slots at most half full; none at all up to 8 entries. */
static bool dict_index(struct jrun *r, struct jdict *d)
{
    if (d->n < 8 || (d->n_slots && d->n * 2 < d->n_slots))
        return true;
    size_t n = d->n_slots ? d->n_slots * 2 : 32;
    while (n < d->n * 2 + 2)
        n *= 2;
    uint32_t *slots = jarena_alloc(&r->arena, n * sizeof *slots);
    if (!slots)
        return jinja_no_memory(r);
    memset(slots, 0, n * sizeof *slots);
    for (size_t i = 0; i < d->n; i++) {
        size_t s = d->e[i].hash & (n - 1);
        while (slots[s]) {
            s = (s + 1) & (n - 1);
            if (!jinja_work(r, 16))
                return false;
        }
        slots[s] = (uint32_t)i + 1;
    }
    d->slots = slots;
    d->n_slots = n;
    return true;
}

bool jdict_set(struct jrun *r, struct jdict *d, const struct jval *key, const struct jval *v)
{
    uint32_t hash;
    struct jentry *e;
    if (!jinja_hash(r, key, &hash) || !dict_lookup(r, d, key, hash, &e))
        return false;
    if (e) {
        e->val = *v;
        return true;
    }
    if (d->n == d->cap && !dict_grow(r, d))
        return false;
    if (!dict_index(r, d))
        return false;
    d->e[d->n] = (struct jentry){.key = *key, .val = *v, .hash = hash};
    if (d->n_slots) {
        size_t s = hash & (d->n_slots - 1);
        while (d->slots[s])
            s = (s + 1) & (d->n_slots - 1);
        d->slots[s] = (uint32_t)d->n + 1;
    }
    d->n++;
    return true;
}

bool jdict_get(struct jrun *r, const struct jdict *d, const struct jval *key, struct jval **out)
{
    uint32_t hash;
    struct jentry *e;
    if (!jinja_hash(r, key, &hash) || !dict_lookup(r, d, key, hash, &e))
        return false;
    *out = e ? &e->val : NULL;
    return true;
}

bool jdict_find_str(struct jrun *r, const struct jdict *d, const char *s, size_t len, struct jval **out)
{
    struct jval key = jv_str(s, len);
    return jdict_get(r, d, &key, out);
}

/* ---- iteration ---------------------------------------------------------------------------------------- */

bool jinja_iterable(const struct jval *v)
{
    switch ((enum jtype)v->type) {
    case J_UNDEF:
    case J_STR:
    case J_LIST:
    case J_TUPLE:
    case J_DICT:
    case J_RANGE:
    case J_VIEW:
    case J_ITER:
    case J_LOOP:
        return true;
    default:
        return false;
    }
}

static bool list_of_str(struct jrun *r, const struct jval *v, struct jlist *l)
{
    size_t at = 0;
    while (at < v->len) {
        size_t from = at;
        jcp_next(v->u.s, v->len, &at);
        struct jval c = jv_str(v->u.s + from, at - from);
        if (!jlist_push(r, l, &c))
            return false;
    }
    return true;
}

static bool list_of_dict(struct jrun *r, const struct jdict *d, int what, struct jlist *l)
{
    for (size_t i = 0; i < d->n; i++) {
        struct jval v = what == J_VIEW_KEYS ? d->e[i].key : d->e[i].val;
        if (what == J_VIEW_ITEMS && !jinja_pair(r, &d->e[i].key, &d->e[i].val, &v))
            return false;
        if (!jlist_push(r, l, &v))
            return false;
    }
    return true;
}

bool jinja_list_of(struct jrun *r, const struct jval *v, struct jlist **out)
{
    if (v->type == J_LIST || v->type == J_TUPLE) {
        *out = v->u.list;
        return jinja_work(r, v->u.list->n * 16);
    }
    if (!jinja_iterable(v) || v->type == J_LOOP)
        return jinja_fail(r, "'%s' object is not iterable", jv_type_name(v));
    struct jlist *l;
    if (!jlist_new(r, 0, &l))
        return false;
    *out = l;
    switch ((enum jtype)v->type) {
    case J_STR:
        return jinja_work(r, (uint64_t)v->len * 16) && list_of_str(r, v, l);
    case J_DICT:
        return jinja_work(r, v->u.dict->n * 16) && list_of_dict(r, v->u.dict, J_VIEW_KEYS, l);
    case J_VIEW:
        return jinja_work(r, v->u.dict->n * 16) && list_of_dict(r, v->u.dict, v->flag, l);
    case J_RANGE:
        for (int64_t i = 0; i < v->u.range->n; i++) {
            struct jval x = jv_int(v->u.range->start + i * v->u.range->step);
            if (!jlist_push(r, l, &x))
                return false;
        }
        return jinja_work(r, (uint64_t)v->u.range->n * 16);
    case J_ITER: {
        struct jiter *it = v->u.iter;
        if (it->error)
            return jinja_fail(r, "%s", it->error);
        if (it->pos < it->list->n) {
            l->v = it->list->v + it->pos;
            l->n = l->cap = it->list->n - it->pos;
        }
        it->pos = it->list->n;
        return jinja_work(r, l->n * 16);
    }
    default:
        return true; /* undefined: empty */
    }
}

bool jinja_iter_new(struct jrun *r, const char *what, struct jlist *l, struct jval *out)
{
    struct jiter *it = jarena_alloc(&r->arena, sizeof *it);
    if (!it)
        return jinja_no_memory(r);
    *it = (struct jiter){.list = l, .what = what};
    *out = (struct jval){.type = J_ITER, .u.iter = it};
    return true;
}

bool jinja_len(struct jrun *r, const struct jval *v, int64_t *out)
{
    switch ((enum jtype)v->type) {
    case J_UNDEF:
        *out = 0;
        return true;
    case J_STR:
        *out = (int64_t)jcp_count(v->u.s, v->len);
        return jinja_work(r, v->len);
    case J_LIST:
    case J_TUPLE:
        *out = (int64_t)v->u.list->n;
        return true;
    case J_DICT:
    case J_VIEW:
        *out = (int64_t)v->u.dict->n;
        return true;
    case J_RANGE:
        *out = v->u.range->n;
        return true;
    case J_LOOP:
        *out = (int64_t)v->u.loop->items->n;
        return true;
    default:
        return jinja_fail(r, "object of type '%s' has no len()", jv_type_name(v));
    }
}

/* ---- from JSON ---------------------------------------------------------------------------------------- */

static bool object_from_json(struct jrun *r, const json_t *j, struct jval *out)
{
    struct jdict *d;
    if (!jdict_new(r, json_object_size(j), &d))
        return false;
    const char *key;
    size_t key_len;
    json_t *item;
    json_object_keylen_foreach((json_t *)(uintptr_t)j, key, key_len, item)
    {
        struct jval k = jv_str(key, key_len), v;
        const bool outer = r->content;
        r->content = outer && !jinja_trusted(key, key_len, item);
        if (!jinja_from_json(r, item, &v))
            return false;
        r->content = outer;
        if (!jinja_own_string(r, &k) || !jdict_set(r, d, &k, &v))
            return false;
    }
    *out = jv_dict(d);
    return true;
}

static bool array_from_json(struct jrun *r, const json_t *j, struct jval *out)
{
    struct jlist *l;
    if (!jlist_new(r, json_array_size(j), &l))
        return false;
    for (size_t i = 0; i < json_array_size(j); i++) {
        struct jval v;
        if (!jinja_from_json(r, json_array_get(j, i), &v) || !jlist_push(r, l, &v))
            return false;
    }
    *out = jv_list(l);
    return true;
}

/* Strings stay in the JSON document, which outlives the rendering; those whose origin is followed are copied. */
bool jinja_from_json(struct jrun *r, const json_t *j, struct jval *out)
{
    bool ok = true;
    if (!jinja_enter(r))
        return false;
    switch (json_typeof(j)) {
    case JSON_OBJECT:
        ok = object_from_json(r, j, out);
        break;
    case JSON_ARRAY:
        ok = array_from_json(r, j, out);
        break;
    case JSON_STRING:
        if (json_string_length(j) > LIMIT_TEMPLATE_MEMORY)
            return jinja_fail(r, "a string of the context is larger than %u bytes", LIMIT_TEMPLATE_MEMORY);
        *out = jv_str(json_string_value(j), json_string_length(j));
        ok = jinja_own_string(r, out);
        break;
    case JSON_INTEGER:
        *out = jv_int(json_integer_value(j));
        break;
    case JSON_REAL:
        *out = jv_float(json_real_value(j));
        break;
    case JSON_TRUE:
    case JSON_FALSE:
        *out = jv_bool(json_is_true(j));
        break;
    default:
        *out = jv_none();
    }
    jinja_leave(r);
    return ok;
}
