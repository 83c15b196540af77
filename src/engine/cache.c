/* The driver of the stage cache: see cache.h. */
#include "engine/cache.h"
#include "engine/engine.h"
#include "kernels/look.h"
#include <math.h>
#include <string.h>

/* ---- memory --------------------------------------------------------------------------------------------------- */

static int64_t widest_queries(const struct model_desc *d)
{
    int64_t width = 0;
    for (int32_t i = 0; i < d->n_layer; i++)
        if (!d->layers[i].window)
            widen(&width, (int64_t)d->layers[i].n_head * d->layers[i].d_k);
    return width;
}

static int32_t window_of(const struct method_use *u)
{
    return u->m->cache->window ? u->m->cache->window(u->knobs) : 0;
}

size_t caching_seq_bytes(const struct method_site *site, const struct method_use *u)
{
    return (size_t)site->desc->n_layer * (size_t)window_of(u) * (size_t)widest_queries(site->desc) *
           sizeof(float);
}

/* Of a worker: what score asks for, then scores, order, what is kept, pointers to queries. */
static size_t own_scratch(const struct method_site *site, const struct method_use *u)
{
    return (size_t)site->settings->n_ctx * (sizeof(float) + 2 * sizeof(int32_t)) +
           (size_t)window_of(u) * sizeof(float *) + 4 * 64;
}

size_t caching_bytes(const struct method_site *site, const struct method_use *u, struct caching *out,
                     uint8_t *memory)
{
    const struct cache_ops *ops = u->m->cache;
    const size_t asked = ops->scratch_bytes ? ops->scratch_bytes(site, u->knobs) : 0;
    out->use = u;
    out->window = window_of(u);
    out->width = widest_queries(site->desc);
    out->scratch_bytes = ((asked + 63) & ~(size_t)63) + ((own_scratch(site, u) + 63) & ~(size_t)63);
    const size_t workers = (size_t)site->settings->n_threads * out->scratch_bytes,
                 lanes = (size_t)engine_lanes(site->desc, NULL);
    if (memory) {
        out->scratch = memory;
        out->counts = (int32_t *)(void *)(memory + workers);
        out->kept = out->counts + ((lanes + 15) & ~(size_t)15);
    }
    return workers + (((lanes + 15) & ~(size_t)15) + lanes * (size_t)site->settings->n_ctx) * sizeof(int32_t);
}

/* ---- when ----------------------------------------------------------------------------------------------------- */

int32_t cache_next(const struct hasten_engine *e, const struct hasten_seq *s, int32_t from)
{
    const struct caching *c = &e->methods.caching;
    return c->use ? c->use->m->cache->next(c->use->state, from, s->n_prompt) : INT32_MAX;
}

int64_t cache_need(const struct hasten_engine *e, const struct hasten_seq *s, int32_t from, int32_t to)
{
    int64_t need = 0;
    if (!e->methods.caching.use || cache_next(e, s, from) > to)
        return 0;
    for (int32_t lane = 0; lane < e->kv.n_lanes; lane++)
        need += kv_shared(&e->kv, &s->kv, lane);
    return need;
}

/* ---- queries -------------------------------------------------------------------------------------------------- */

static float *query_slot(const struct hasten_engine *e, const struct hasten_seq *s, int32_t layer,
                         int32_t pos)
{
    const struct caching *c = &e->methods.caching;
    float *all =
        (float *)(void *)(e->methods.memory + (size_t)(s - e->seqs) * e->methods.seq_bytes + c->queries_at);
    return all + ((int64_t)layer * c->window + pos % c->window) * c->width;
}

void cache_watch(struct hasten_engine *e, const struct layer *l, int32_t layer)
{
    const struct caching *c = &e->methods.caching;
    const int64_t width = (int64_t)l->n_head * l->d_k;
    if (!c->use || !c->window || l->window)
        return;
    for (int32_t i = 0; i < e->pass.n_rows; i++)
        if (e->pass.pos[i] >= e->pass.seq[i]->next_act - c->window)
            memcpy(query_slot(e, e->pass.seq[i], layer, e->pass.pos[i]), e->buf.q + i * width,
                   (size_t)width * sizeof(float));
}

/* ---- acting --------------------------------------------------------------------------------------------------- */

struct act_job {
    struct hasten_engine *e;
    struct hasten_seq *s;
    const struct layer *l;
    int32_t layer, first_lane, length;
};

/* Which of n entries stay: pinned ones, and the best of the others; ascending into kept. Returns how many. */
static int32_t choose(const struct method_use *u, int32_t layer, int32_t n, float *score, int32_t *kept,
                      int32_t *work)
{
    int32_t sink = 0, recent = 0, keep = u->m->cache->keep(u->state, layer, n);
    u->m->cache->pins(u->state, &sink, &recent);
    int32_t pinned = 0;
    for (int32_t i = 0; i < n; i++)
        if (attend_pinned(i, n, sink, recent)) {
            score[i] = INFINITY;
            pinned++;
        }
    keep = keep < pinned ? pinned : keep > n ? n : keep;
    keep = keep < 1 ? 1 : keep;
    attend_top_k(score, n, keep, kept, work);
    return keep;
}

static void act_lanes(void *ctx, int64_t begin, int64_t end, int worker)
{
    const struct act_job *j = ctx;
    const struct caching *c = &j->e->methods.caching;
    const struct method_use *u = c->use;
    const int32_t group = j->l->n_head / j->l->n_head_kv;
    for (int64_t i = begin; i < end; i++) {
        uintptr_t at = (uintptr_t)(c->scratch + (size_t)worker * c->scratch_bytes);
        const int32_t lane = j->first_lane + (int32_t)i, n = j->length - kv_removed(&j->s->kv, lane);
        const int32_t n_q = c->window < j->length ? c->window : j->length;
        const float **q = carve(&at, (size_t)c->window * sizeof *q);
        float *score = carve(&at, (size_t)j->e->settings.n_ctx * sizeof *score);
        int32_t *kept = carve(&at, (size_t)j->e->settings.n_ctx * sizeof *kept);
        int32_t *work = carve(&at, (size_t)j->e->settings.n_ctx * sizeof *work);
        for (int32_t k = 0; k < n_q; k++)
            q[k] = query_slot(j->e, j->s, j->layer, j->length - n_q + k) + i * group * j->l->d_k;
        const struct cache_lane view = {
            .kv = kv_view_of(j->e, j->s, j->l, j->layer, j->first_lane, (int32_t)i, j->length),
            .n_queries = n_q,
            .n_heads = group,
            .q = q,
            .scale = j->l->q_scale,
            .softcap = j->l->softcap};
        void *state = method_seq_state(j->e, u, j->s);
        u->m->cache->score(u->state, state, &view, score, (void *)at);
        int32_t *count = &j->e->methods.caching.counts[lane];
        *count = choose(u, j->layer, n, score, kept, work);
        if (u->m->cache->kept)
            u->m->cache->kept(u->state, state, &view, kept, *count);
        memcpy(j->e->methods.caching.kept + (int64_t)lane * j->e->settings.n_ctx, kept,
               (size_t)*count * sizeof *kept);
    }
}

/* A lane whose entries all stay still notes its positions. */
static void compact_layer(const struct act_job *j)
{
    const struct caching *c = &j->e->methods.caching;
    for (int32_t h = 0; h < j->l->n_head_kv; h++) {
        const int32_t lane = j->first_lane + h;
        const bool all = j->l->window != 0;
        kv_compact(&j->e->kv, &j->s->kv, lane, j->length,
                   all ? NULL : c->kept + (int64_t)lane * j->e->settings.n_ctx, all ? 0 : c->counts[lane]);
    }
}

void cache_act(struct hasten_engine *e, struct hasten_seq *s, int32_t length)
{
    struct act_job j = {.e = e, .s = s, .length = length};
    for (int32_t i = 0; i < e->model->desc.n_layer; i++) {
        j.l = &e->layers[i];
        j.layer = i;
        if (!j.l->window)
            pool_for(e->pool, j.l->n_head_kv, 1, act_lanes, &j);
        compact_layer(&j);
        j.first_lane += j.l->n_head_kv;
    }
    s->kv.sealed = length;
    if (e->methods.caching.use->m->cache->done)
        e->methods.caching.use->m->cache->done(e->methods.caching.use->state,
                                               method_seq_state(e, e->methods.caching.use, s), length);
    s->next_act = cache_next(e, s, length);
    attend_rebuild(e, s, length);
}

/* ---- what methods share --------------------------------------------------------------------------------------- */

/* Keys of a page, its scores, and of each query and head the state of its softmax. */
size_t cache_mass_scratch(const struct method_site *site, int32_t window)
{
    int64_t group = 0;
    for (int32_t i = 0; i < site->desc->n_layer; i++)
        widen(&group, site->desc->layers[i].n_head / site->desc->layers[i].n_head_kv);
    return (size_t)((kv_widest_key(site) + 1) * KV_PAGE + 2 * window * group) * sizeof(float) + 64;
}

/* The entries that query k sees: those up to its own. */
static int32_t seen_by(const struct cache_lane *lane, int32_t k)
{
    return lane->kv.n - (lane->n_queries - 1 - k);
}

static void page_scores(const struct cache_lane *lane, const float *kt, int32_t k, int32_t h, float *score)
{
    look_scores(kt, lane->kv.d_k, lane->q[k] + (int64_t)h * lane->kv.d_k, lane->scale, score);
    for (int32_t j = 0; lane->softcap > 0 && j < KV_PAGE; j++)
        score[j] = lane->softcap * tanhf(score[j] / lane->softcap);
}

/* Two passes over the pages: the states of all softmaxes, then their sums. */
void cache_query_mass(const struct cache_lane *lane, bool average, float *mass, void *scratch)
{
    const struct kv_view *v = &lane->kv;
    float *kt = scratch, *score = kt + (int64_t)v->d_k * KV_PAGE, *max = score + KV_PAGE,
          *sum = max + (int64_t)lane->n_queries * lane->n_heads;
    memset(mass, 0, (size_t)v->n * sizeof *mass);
    for (int32_t i = 0; i < lane->n_queries * lane->n_heads; i++) {
        max[i] = -INFINITY;
        sum[i] = 0;
    }
    for (int pass = 0; pass < 2; pass++)
        for (int32_t from = 0; from < v->n; from += KV_PAGE) {
            const struct kv_tile t = kv_tile_at(v->pool, v->seq, from / KV_PAGE, v->lane);
            look_keys(&t, v->d_k, v->n - from < KV_PAGE ? v->n - from : KV_PAGE, kt);
            for (int32_t k = 0; k < lane->n_queries; k++) {
                const int32_t left = seen_by(lane, k) - from, n = left < KV_PAGE ? left : KV_PAGE;
                for (int32_t h = 0; h < lane->n_heads && n > 0; h++) {
                    const int32_t i = k * lane->n_heads + h;
                    page_scores(lane, kt, k, h, score);
                    if (pass == 0)
                        look_softmax_add(score, n, &max[i], &sum[i]);
                    else
                        look_mass_add(score, n, max[i], sum[i], mass + from);
                }
            }
        }
    for (int32_t i = 0; i < v->n && average; i++) {
        const int32_t last = v->n - lane->n_queries; /* entries above it are seen by fewer */
        mass[i] /= (float)(lane->n_queries - (i > last ? i - last : 0));
    }
}

int32_t cache_next_at(int32_t every, int32_t length, int32_t n_prompt)
{
    if (every > 0)
        return length < INT32_MAX - every ? (length / every + 1) * every : INT32_MAX;
    return n_prompt > length ? n_prompt : INT32_MAX;
}
