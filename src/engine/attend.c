/* The driver of the stage attend (attend.h): lets the method note new keys and choose for each row and KV head, before
 * attention.c reads pages. Both loops are plain ones: when they end, what attention reads is complete. */
#include "engine/attend.h"
#include "engine/engine.h"
#include <string.h>

struct attend_job {
    struct hasten_engine *e;
    const struct layer *l;
    int32_t layer, first_lane;
};

struct kv_view kv_view_of(const struct hasten_engine *e, const struct hasten_seq *s, const struct layer *l,
                          int32_t layer, int32_t first_lane, int32_t head_kv, int32_t end)
{
    const int32_t lane = first_lane + head_kv;
    return (struct kv_view){.pool = &e->kv,
                            .seq = &s->kv,
                            .layer = layer,
                            .head_kv = head_kv,
                            .lane = lane,
                            .n = end - kv_removed(&s->kv, lane),
                            .d_k = l->d_k,
                            .d_v = l->d_v};
}

static struct kv_view view_of(const struct attend_job *j, const struct hasten_seq *s, int32_t head_kv,
                              int32_t end)
{
    return kv_view_of(j->e, s, j->l, j->layer, j->first_lane, head_kv, end);
}

static void *scratch_of(const struct attending *a, int worker)
{
    return a->scratch + (size_t)worker * a->scratch_bytes;
}

/* Blocks of one sequence lie beside each other: the first one speaks for all of them. */
static int32_t last_row(const struct pass *p, int32_t block)
{
    int32_t last = block;
    while (last + 1 < p->n_blocks && p->blocks[last + 1].seq == p->blocks[block].seq)
        last++;
    return p->blocks[last].first_row + p->blocks[last].n_rows - 1;
}

static void append_lanes(void *ctx, int64_t begin, int64_t end, int worker)
{
    const struct attend_job *j = ctx;
    const struct attending *a = &j->e->methods.attending;
    const struct pass *p = &j->e->pass;
    for (int64_t i = begin; i < end; i++) {
        const int32_t block = (int32_t)(i / j->l->n_head_kv), head_kv = (int32_t)(i % j->l->n_head_kv);
        const struct hasten_seq *s = p->blocks[block].seq;
        if (block > 0 && p->blocks[block - 1].seq == s)
            continue;
        const struct kv_view v = view_of(j, s, head_kv, p->pos[last_row(p, block)] + 1);
        a->use->m->attend->append(a->use->state, method_seq_state(j->e, a->use, s), &v,
                                  p->blocks[block].first_pos - kv_removed(&s->kv, v.lane),
                                  scratch_of(a, worker));
    }
}

/* Every entry below n, no others. */
static void see_all(uint64_t *words, int64_t stride, int32_t n)
{
    memset(words, 0, (size_t)stride * sizeof *words);
    attend_keep(words, 0, n);
}

static uint64_t *words_of(const struct attending *a, int64_t row, int32_t set)
{
    return a->words + ((int64_t)row * a->sets + set) * a->stride;
}

static void select_rows(void *ctx, int64_t begin, int64_t end, int worker)
{
    const struct attend_job *j = ctx;
    const struct attending *a = &j->e->methods.attending;
    const struct pass *p = &j->e->pass;
    const struct layer *l = j->l;
    const int32_t group = l->n_head / l->n_head_kv, sets = a->use->m->attend->per_head ? group : 1;
    for (int64_t i = begin; i < end; i++) {
        const int64_t row = i / l->n_head_kv;
        const int32_t head_kv = (int32_t)(i % l->n_head_kv), pos = p->pos[row];
        if (!a->sparse[row])
            continue;
        const struct attend_query q = {.kv = view_of(j, p->seq[row], head_kv, pos + 1),
                                       .pos = pos,
                                       .n_prompt = p->seq[row]->n_prompt,
                                       .n_heads = group,
                                       .q = j->e->buf.q +
                                            (row * l->n_head + (int64_t)head_kv * group) * l->d_k,
                                       .scale = l->q_scale};
        uint64_t *words = words_of(a, row, head_kv * sets);
        for (int32_t s = 0; s < sets; s++)
            see_all(words + s * a->stride, a->stride, q.kv.n);
        a->use->m->attend->select(a->use->state, method_seq_state(j->e, a->use, p->seq[row]), &q, words,
                                  a->stride, scratch_of(a, worker));
        for (int32_t s = 0; s < sets; s++)
            attend_keep(words + s * a->stride, q.kv.n - 1, q.kv.n);
    }
}

/* Pages with an entry that is read, of the first n. */
static uint64_t pages_read(const uint64_t *words, int32_t n)
{
    uint64_t read = 0;
    for (int32_t i = 0; i < n; i++)
        read += words[i] != 0;
    return read;
}

static void count_pages(const struct attend_job *j)
{
    const struct attending *a = &j->e->methods.attending;
    const struct pass *p = &j->e->pass;
    const int32_t group = j->l->n_head / j->l->n_head_kv, per_kv = a->use->m->attend->per_head ? group : 1;
    uint64_t all = 0, read = 0;
    for (int32_t row = 0; row < p->n_rows; row++)
        for (int32_t s = 0; s < j->l->n_head_kv * per_kv; s++) {
            const int32_t lane = j->first_lane + s / per_kv,
                          n = (p->pos[row] - kv_removed(&p->seq[row]->kv, lane)) / KV_PAGE + 1;
            all += (uint64_t)n;
            read += a->sparse[row] ? pages_read(words_of(a, row, s), n) : (uint64_t)n;
        }
    j->e->counters.attend_pages_all += all / (uint64_t)per_kv;
    j->e->counters.attend_pages_read += read / (uint64_t)per_kv;
}

/* Layers that the method has to do with. */
static bool acts_in(const struct attending *a, const struct layer *l)
{
    return a->use && !l->window && l->attn == ATTN_GQA;
}

void attend_append(struct hasten_engine *e, const struct layer *l, int32_t layer, int32_t first_lane)
{
    const struct attending *a = &e->methods.attending;
    struct attend_job j = {e, l, layer, first_lane};
    if (acts_in(a, l) && a->use->m->attend->append)
        pool_for(e->pool, (int64_t)e->pass.n_blocks * l->n_head_kv, 1, append_lanes, &j);
}

bool attend_rows(struct hasten_engine *e, const struct layer *l, int32_t layer, int32_t first_lane)
{
    const struct attending *a = &e->methods.attending;
    if (!acts_in(a, l))
        return false;
    struct attend_job j = {e, l, layer, first_lane};
    const struct attend_ops *ops = a->use->m->attend;
    attend_append(e, l, layer, first_lane);
    bool any = false;
    for (int32_t i = 0; i < e->pass.n_rows; i++) {
        a->sparse[i] =
            !ops->active || ops->active(a->use->state, layer, e->pass.pos[i], e->pass.seq[i]->n_prompt);
        any |= a->sparse[i];
    }
    if (any)
        pool_for(e->pool, (int64_t)e->pass.n_rows * l->n_head_kv, 1, select_rows, &j);
    count_pages(&j);
    return any;
}

/* ctx of rebuild_lanes: the job of one layer, and whose entries. */
struct rebuild_job {
    struct attend_job job;
    const struct hasten_seq *s;
    int32_t length;
};

static void rebuild_lanes(void *ctx, int64_t begin, int64_t end, int worker)
{
    const struct rebuild_job *r = ctx;
    const struct attending *a = &r->job.e->methods.attending;
    for (int64_t h = begin; h < end; h++) {
        const struct kv_view v = view_of(&r->job, r->s, (int32_t)h, r->length);
        a->use->m->attend->append(a->use->state, method_seq_state(r->job.e, a->use, r->s), &v, 0,
                                  scratch_of(a, worker));
    }
}

void attend_rebuild(struct hasten_engine *e, const struct hasten_seq *s, int32_t length)
{
    const struct attending *a = &e->methods.attending;
    struct rebuild_job r = {.job = {.e = e}, .s = s, .length = length};
    for (int32_t i = 0; a->use && a->use->m->attend->append && i < e->model->desc.n_layer; i++) {
        r.job.l = &e->layers[i];
        r.job.layer = i;
        if (acts_in(a, r.job.l))
            pool_for(e->pool, r.job.l->n_head_kv, 1, rebuild_lanes, &r);
        r.job.first_lane += r.job.l->n_head_kv;
    }
}

size_t attend_bytes(const struct method_site *site, const struct method_use *u, struct attending *out,
                    uint8_t *memory)
{
    const struct hasten_engine_settings *s = site->settings;
    const struct attend_ops *ops = u->m->attend;
    int32_t sets = 0;
    for (int32_t i = 0; i < site->desc->n_layer; i++) {
        const struct layer *l = &site->desc->layers[i];
        const int32_t n = ops->per_head ? l->n_head : l->n_head_kv;
        sets = n > sets ? n : sets;
    }
    *out = (struct attending){.use = u, .sets = sets, .stride = (s->n_ctx + KV_PAGE - 1) / KV_PAGE};
    out->scratch_bytes = ops->scratch_bytes ? (ops->scratch_bytes(site, u->knobs) + 63) & ~(size_t)63 : 0;
    const size_t words =
                     (((size_t)s->n_batch * (size_t)sets * (size_t)out->stride * sizeof *out->words) + 63) &
                     ~(size_t)63,
                 rows = ((size_t)s->n_batch + 63) & ~(size_t)63;
    if (memory) {
        out->words = (uint64_t *)(void *)memory;
        out->sparse = memory + words;
        out->scratch = memory + words + rows;
    }
    return words + rows + (size_t)s->n_threads * out->scratch_bytes;
}
