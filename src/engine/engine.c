/* Opening and closing an engine: plan first, then allocate everything, then nothing more until the end. */
#include "engine/overlay.h"
#include "base/mem.h"
#include <string.h>

static void fill_inv_freq(struct hasten_engine *e)
{
    const struct model_desc *d = &e->model->desc;
    for (int32_t r = 0; r < d->n_ropes; r++)
        rope_frequencies(&d->ropes[r], e->buf.inv_freq + (int64_t)r * (e->widths.rot / 2));
}

static hasten_status open_seqs(struct hasten_engine *e, struct hasten_error *err)
{
    const struct hasten_engine_settings *s = &e->settings;
    const int32_t max_pages = (s->n_ctx + KV_PAGE - 1) / KV_PAGE;
    const size_t table = (size_t)max_pages * (size_t)e->kv.n_lanes;
    e->seqs = mem_calloc((size_t)s->n_seq_max, sizeof *e->seqs);
    e->seq_tokens = mem_array((size_t)s->n_seq_max * (size_t)s->n_ctx, sizeof *e->seq_tokens);
    e->seq_tables = mem_calloc((size_t)s->n_seq_max * table, sizeof *e->seq_tables); /* see attention.c */
    if (!e->seqs || !e->seq_tokens || !e->seq_tables)
        return error_set(err, HASTEN_ERR_MEMORY, "opening the engine: out of memory for %d sequences",
                         s->n_seq_max);
    if (e->methods.caching.use &&
        !(e->seq_entries = mem_calloc((size_t)s->n_seq_max, entries_bytes(s, e->kv.n_lanes))))
        return error_set(err, HASTEN_ERR_MEMORY,
                         "opening the engine: out of memory for the entries of %d sequences", s->n_seq_max);
    for (int32_t i = 0; i < s->n_seq_max; i++) {
        e->seqs[i].engine = e;
        if (e->seq_entries) {
            e->seqs[i].kv.removed =
                (int32_t *)(void *)((char *)e->seq_entries + (size_t)i * entries_bytes(s, e->kv.n_lanes));
            e->seqs[i].kv.positions = e->seqs[i].kv.removed + e->kv.n_lanes;
        }
        e->seqs[i].tokens = e->seq_tokens + (size_t)i * (size_t)s->n_ctx;
        e->seqs[i].kv.table = e->seq_tables + (size_t)i * table;
        e->seqs[i].kv.max_pages = max_pages;
    }
    return HASTEN_OK;
}

static hasten_status open_kv(struct hasten_engine *e, struct hasten_error *err)
{
    const struct model_desc *d = &e->model->desc;
    const int32_t n_lanes = engine_lanes(d, NULL);
    struct kv_lane *lanes = mem_array((size_t)n_lanes, sizeof *lanes);
    if (!lanes)
        return error_set(err, HASTEN_ERR_MEMORY, "opening the engine: out of memory for %d lanes", n_lanes);
    engine_lanes(d, lanes);
    hasten_status st = kv_pool_open(&e->kv, engine_kv_rep(&e->settings), lanes, n_lanes,
                                    engine_kv_pages(&e->settings), e->settings.poison, err);
    mem_free(lanes);
    return st;
}

static hasten_status open_parts(struct hasten_engine *e, struct hasten_error *err)
{
    hasten_status st;
    engine_widths(e->model, e->kernels, engine_kv_rep(&e->settings), &e->widths);
    if (e->methods.reweighting.use) {
        const struct method_site site = method_site_of(e->model, &e->settings);
        reweighting_widen(&site, e->methods.reweighting.use, &e->widths);
    }
    e->arena_bytes = engine_layout(e->model, &e->settings, &e->widths, NULL, &e->buf, &e->pass);
    e->arena = mem_map(e->arena_bytes);
    if (!e->arena)
        return error_set(err, HASTEN_ERR_MEMORY, "opening the engine: out of memory for %zu bytes of buffers",
                         e->arena_bytes);
    engine_layout(e->model, &e->settings, &e->widths, e->arena, &e->buf, &e->pass);
    if ((st = packing_open(e, err)) || (st = overlays_open(e, err)))
        return st;
    fill_inv_freq(e);
    if ((st = open_kv(e, err)) || (st = open_seqs(e, err)))
        return st;
    key_mean_fill(e);
    return pool_create(e->settings.n_threads, &e->pool, err);
}

static hasten_status open_methods(struct hasten_engine *e, struct hasten_error *err)
{
    const struct method_site site = method_site_of(e->model, &e->settings);
    const hasten_status st = method_set_open(&site, &e->methods, err);
    return st ? st : method_set_attach(&site, &e->methods, err);
}

hasten_status hasten_engine_open(const struct hasten_model *m, const struct hasten_engine_settings *settings,
                                 struct hasten_engine **out, struct hasten_error *err)
{
    struct hasten_plan plan;
    struct expert_plan experts;
    hasten_status st = hasten_engine_plan(m, settings, &plan, err);
    if (st || (st = experts_plan(m, 1, &experts, err)))
        return st;
    struct hasten_engine *e = mem_calloc(1, sizeof *e);
    if (!e)
        return error_set(err, HASTEN_ERR_MEMORY, "opening the engine: out of memory");
    e->model = m;
    e->settings = *settings;
    if ((st = engine_settle(m, &e->settings, err)) == HASTEN_OK) {
        e->kernels = engine_kernels(&e->settings);
        st = open_methods(e, err);
        st = st ? st : open_parts(e, err);
        e->settings.loras = NULL; /* the caller's */
        e->settings.n_loras = 0;
        e->settings.methods = NULL;
        e->settings.n_methods = 0;
        if (!st && plan.expert_bytes < experts.all)
            st = experts_limit(e, plan.expert_bytes, err);
    }
    if (st) {
        hasten_engine_close(e);
        return st;
    }
    *out = e;
    return HASTEN_OK;
}

void hasten_engine_close(struct hasten_engine *e)
{
    if (!e)
        return;
    pool_destroy(e->pool);
    mem_free(e->identity);
    mem_free(e->experts.states);
    packing_close(e);
    overlays_close(e);
    method_set_close(&e->methods);
    mem_free(e->seq_entries);
    mem_free(e->seq_tables);
    mem_free(e->seq_tokens);
    mem_free(e->seqs);
    kv_pool_close(&e->kv);
    if (e->arena)
        mem_unmap(e->arena, e->arena_bytes);
    mem_free(e);
}

int32_t hasten_engine_n_threads(const struct hasten_engine *e)
{
    return e->settings.n_threads;
}

int32_t hasten_engine_n_ctx(const struct hasten_engine *e)
{
    return e->settings.n_ctx;
}

const char *hasten_engine_kernels(const struct hasten_engine *e)
{
    return e->kernels->name;
}

void hasten_engine_counters(const struct hasten_engine *e, struct hasten_counters *out)
{
    *out = e->counters;
    out->kv_pages_total = (uint64_t)e->kv.n_blocks;
    out->kv_pages_used = (uint64_t)(e->kv.n_blocks - e->kv.n_free);
}
