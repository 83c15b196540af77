/* See method_set.h. */
#include "engine/method_set.h"
#include "base/mem.h"
#include "engine/engine.h"
#include <string.h>

#define MAX_METHODS 64

struct method_site method_site_of(const struct hasten_model *m, const struct hasten_engine_settings *s)
{
    return (struct method_site){m, &m->desc, s, engine_kernels(s)};
}

/* ---- choosing ------------------------------------------------------------------------------------------------- */

static hasten_status parse_one(const struct hasten_method_use *asked, struct method_use *out,
                               struct hasten_error *err)
{
    if (asked->method)
        return method_parse_knobs(asked->method, asked->spec ? asked->spec : "", out, err);
    for (int s = 0; asked->stage && s < METHOD_STAGES; s++)
        if (strcmp(method_stage_name((enum method_stage)s), asked->stage) == 0)
            return method_parse((enum method_stage)s, asked->spec ? asked->spec : "", out, err);
    return error_set(err, HASTEN_ERR_USAGE,
                     "methods: unknown stage '%s' (expected weights, depth, attend, cache, ...)",
                     asked->stage ? asked->stage : "");
}

/* The method that is asked for by its name alone; NULL: none, which parse_one will say. */
static const struct method *named(const struct hasten_method_use *asked)
{
    char name[64];
    const size_t n = asked->spec ? strcspn(asked->spec, ":") : 0;
    if (asked->method || n == 0 || n >= sizeof name || !asked->stage ||
        strcmp(asked->stage, method_stage_name(STAGE_CACHE)) != 0)
        return asked->method;
    memcpy(name, asked->spec, n);
    name[n] = 0;
    return method_find(STAGE_CACHE, name, NULL);
}

hasten_status method_kv_type(const struct hasten_engine_settings *s, enum hasten_kv_type *kv_type,
                             struct hasten_error *err)
{
    static const char *const names[] = {"f16", "f32", "bf16", "q8", "q4"};
    *kv_type = s->kv_type;
    for (int32_t i = 0; i < s->n_methods && i < MAX_METHODS; i++) {
        const struct method *m = named(&s->methods[i]);
        if (!m || !m->cache || !m->cache->represents)
            continue;
        if (s->kv_type != HASTEN_KV_F16 && s->kv_type != m->cache->kv_type)
            return error_set(
                err, HASTEN_ERR_USAGE,
                "--cache %s: the settings ask for keys and values in %s (expected one of the two)", m->name,
                (size_t)s->kv_type < 5 ? names[s->kv_type] : "something unknown");
        *kv_type = m->cache->kv_type;
        break; /* a second one is refused by name later */
    }
    return HASTEN_OK;
}

static hasten_status check_needs(const struct method_site *site, const struct method *m,
                                 struct hasten_error *err)
{
    const char *stage = method_stage_option(m->stage);
    if (m->needs & METHOD_NEEDS_DECODER && (site->desc->encoder || site->model->script))
        return error_set(err, HASTEN_ERR_USAGE,
                         "--%s %s: needs a model with a cache of keys and values (found %s)", stage, m->name,
                         site->desc->encoder ? "an encoder" : "a scripted model");
    if (m->cache && m->cache->next && site->desc->rope_switch)
        return error_set(err, HASTEN_ERR_USAGE,
                         "--%s %s: not with a model that rotates long sequences anew (LongRoPE)", stage,
                         m->name);
    if (m->traits & METHOD_BRANCHES && site->settings->n_seq_max < 2)
        return error_set(err, HASTEN_ERR_USAGE,
                         "--%s %s: forks sequences: n_seq_max: found %d (expected at least 2)", stage,
                         m->name, (int)site->settings->n_seq_max);
    bool global = false;
    for (int32_t i = 0; i < site->desc->n_layer; i++)
        global |= site->desc->layers[i].window == 0;
    if (m->needs & METHOD_NEEDS_GLOBAL && !global)
        return error_set(err, HASTEN_ERR_USAGE,
                         "--%s %s: needs a layer without a sliding window (found none)", stage, m->name);
    return HASTEN_OK;
}

hasten_status method_set_sequences(const struct hasten_model *m, const struct hasten_engine_settings *s,
                                   int32_t *out, struct hasten_error *err)
{
    const struct method_site site = method_site_of(m, s);
    hasten_status st = HASTEN_OK;
    *out = 0;
    for (int32_t i = 0; i < s->n_methods && i < MAX_METHODS && !st; i++) {
        struct method_use u;
        st = parse_one(&s->methods[i], &u, err);
        if (!st && u.m->sequences)
            *out += u.m->sequences(&site, u.knobs);
        if (!st)
            method_use_close(&u);
    }
    return st;
}

/* Layers named by a knob must exist ("all" may say more). */
static hasten_status check_layers(const struct method_site *site, const struct method_use *u,
                                  struct hasten_error *err)
{
    for (int32_t k = 0; k < u->m->n_knobs; k++) {
        const struct layer_set *set = (const void *)((const char *)u->knobs + u->m->knobs[k].offset);
        if (u->m->knobs[k].type != KNOB_LAYERS || layer_set_has(set, LIMIT_LAYERS - 1))
            continue;
        for (int32_t i = site->desc->n_layer; i < LIMIT_LAYERS; i++)
            if (layer_set_has(set, i))
                return error_set(err, HASTEN_ERR_USAGE, "--%s %s:%s: found layer %d (expected 0 to %d)",
                                 method_stage_option(u->m->stage), u->m->name, u->m->knobs[k].name, (int)i,
                                 (int)site->desc->n_layer - 1);
    }
    return HASTEN_OK;
}

static hasten_status check_pair(const struct method *a, const struct method *b, struct hasten_error *err)
{
    const char *why = method_clash(a, b);
    if (!why)
        return HASTEN_OK;
    return error_set(err, HASTEN_ERR_USAGE, "--%s %s and --%s %s cannot be used together: %s",
                     method_stage_option(a->stage), a->name, method_stage_option(b->stage), b->name, why);
}

static hasten_status add(const struct method_site *site, const struct hasten_method_use *asked,
                         struct method_set *set, struct hasten_error *err)
{
    struct method_use *u = &set->use[set->n];
    hasten_status st = parse_one(asked, u, err);
    if (st)
        return st;
    set->n++;
    st = check_needs(site, u->m, err);
    for (int32_t i = 0; i < set->n - 1 && !st; i++)
        st = check_pair(set->use[i].m, u->m, err);
    if (!st)
        st = check_layers(site, u, err);
    if (!st && u->m->check)
        st = u->m->check(site, u->knobs, err);
    if (st)
        return st;
    u->seq_at = set->seq_bytes;
    if (u->m->seq_bytes)
        set->seq_bytes += (u->m->seq_bytes(site, u->knobs) + 63) & ~(size_t)63;
    if (u->m->attend)
        set->attending.use = u;
    if (u->m->depth && u->m->depth->looks)
        set->deepening.gate = u;
    if (u->m->weights && u->m->weights->becomes)
        set->reweighting.use = u;
    if (u->m->weights && u->m->weights->rows)
        set->heading.use = u;
    if (u->m->cache && u->m->cache->next) {
        set->caching.use = u;
        set->caching.queries_at = set->seq_bytes;
        set->seq_bytes += (caching_seq_bytes(site, u) + 63) & ~(size_t)63;
    }
    return HASTEN_OK;
}

hasten_status method_set_open(const struct method_site *site, struct method_set *out,
                              struct hasten_error *err)
{
    const int32_t n = site->settings->n_methods;
    *out = (struct method_set){0};
    if (n < 0 || n > MAX_METHODS)
        return error_set(err, HASTEN_ERR_USAGE, "engine settings: n_methods: found %d (expected 0 to %d)",
                         (int)n, MAX_METHODS);
    if (n == 0)
        return HASTEN_OK;
    out->use = mem_calloc((size_t)n, sizeof *out->use);
    hasten_status st = out->use ? HASTEN_OK : error_set(err, HASTEN_ERR_MEMORY, "methods: out of memory");
    for (int32_t i = 0; i < n && !st; i++)
        st = add(site, &site->settings->methods[i], out, err);
    if (st)
        method_set_close(out);
    return st;
}

/* ---- memory --------------------------------------------------------------------------------------------------- */

static size_t own_bytes(const struct method_site *site, struct method_set *set, uint8_t *memory)
{
    size_t bytes = (size_t)site->settings->n_seq_max * set->seq_bytes;
    if (set->attending.use)
        bytes += attend_bytes(site, set->attending.use, &set->attending, memory ? memory + bytes : NULL);
    if (set->caching.use)
        bytes += caching_bytes(site, set->caching.use, &set->caching, memory ? memory + bytes : NULL);
    return bytes + deepening_bytes(site, &set->deepening, memory ? memory + bytes : NULL);
}

uint64_t method_set_plan(const struct method_site *site, struct method_set *set)
{
    uint64_t bytes = own_bytes(site, set, NULL);
    if (set->reweighting.use)
        bytes += reweighting_bytes(site, set->reweighting.use);
    if (set->heading.use)
        bytes += head_bytes(site, set->heading.use, set->reweighting.use);
    for (int32_t i = 0; i < set->n; i++)
        if (set->use[i].m->model_bytes)
            bytes += set->use[i].m->model_bytes(site, set->use[i].knobs);
    return bytes;
}

hasten_status method_set_attach(const struct method_site *site, struct method_set *set,
                                struct hasten_error *err)
{
    set->bytes = own_bytes(site, set, NULL);
    if (set->bytes && !(set->memory = mem_map(set->bytes)))
        return error_set(err, HASTEN_ERR_MEMORY, "opening the engine: out of memory for %zu bytes of methods",
                         set->bytes);
    own_bytes(site, set, set->memory);
    for (int32_t i = 0; i < set->n; i++) {
        struct method_use *u = &set->use[i];
        const hasten_status st = u->m->attach ? u->m->attach(site, u->knobs, &u->state, err) : HASTEN_OK;
        if (st)
            return st;
        u->attached = u->m->attach != NULL;
        if (u->m->depth && u->m->depth->program)
            u->m->depth->program(u->state, site->desc, &set->deepening.skipped);
    }
    for (size_t i = 0; i < LIMIT_LAYERS / 64; i++)
        set->deepening.any_skipped |= set->deepening.skipped.bits[i] != 0;
    return HASTEN_OK;
}

void method_set_close(struct method_set *set)
{
    for (int32_t i = 0; i < set->n; i++)
        method_use_close(&set->use[i]);
    reweighting_close(&set->reweighting);
    head_close(&set->heading);
    mem_free(set->use);
    if (set->memory)
        mem_unmap(set->memory, set->bytes);
    *set = (struct method_set){0};
}

/* ---- sequences ------------------------------------------------------------------------------------------------ */

static uint8_t *state_of(const struct hasten_engine *e, const struct hasten_seq *s)
{
    return e->methods.memory + (size_t)(s - e->seqs) * e->methods.seq_bytes;
}

void *method_seq_state(const struct hasten_engine *e, const struct method_use *u, const struct hasten_seq *s)
{
    return e->methods.seq_bytes ? state_of(e, s) + u->seq_at : NULL;
}

void method_seq_open(struct hasten_engine *e, const struct hasten_seq *s)
{
    if (e->methods.seq_bytes)
        memset(state_of(e, s), 0, e->methods.seq_bytes);
}

void method_seq_truncate(struct hasten_engine *e, const struct hasten_seq *s, int32_t n_keep)
{
    for (int32_t i = 0; i < e->methods.n; i++) {
        const struct method_use *u = &e->methods.use[i];
        if (u->m->seq_truncate)
            u->m->seq_truncate(u->state, method_seq_state(e, u, s), n_keep);
    }
}

void method_seq_fork(struct hasten_engine *e, const struct hasten_seq *src, const struct hasten_seq *dst,
                     int32_t n_keep)
{
    if (e->methods.seq_bytes)
        memcpy(state_of(e, dst), state_of(e, src), e->methods.seq_bytes);
    method_seq_truncate(e, dst, n_keep);
}
