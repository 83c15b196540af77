/* Attention over KV pages. The unit of work is (block of up to 8 rows of one sequence, KV head): its queries
 * share the reading of each tile. A query folds tiles of 64 positions in ascending order, in spans of 1,024
 * positions aligned at 0, whose partial results are merged in order; so its bits depend on its position and on
 * the KV alone, not on which rows share its block, nor on who computes it. */
#include "engine/engine.h"
#include <math.h>
#include <string.h>

struct attention {
    struct hasten_engine *e;
    const struct layer *l;
    int32_t first_lane;
};

/* What one task works on, laid out in a worker's scratch. */
struct work {
    int64_t n_q;                /* queries: rows × heads of the group */
    uint8_t *q;                 /* [n_q × attn_query_bytes] */
    float *o, *part;            /* [n_q × d_v]: merged spans; the span being folded */
    struct attn_state *so, *sp; /* [n_q] */
    struct attn_visible *vis;   /* [n_q] */
    float *head;                /* [d_k] one query, scaled */
    uint8_t *tile;              /* scratch of attn_tile */
};

/* A part of the scratch; from a NULL scratch only offsets come out. */
static void *carve(uintptr_t *at, size_t bytes)
{
    void *r = (void *)*at;
    *at += (bytes + 63) & ~(uintptr_t)63;
    return r;
}

static struct work lay_out(const struct layer *l, int32_t n_rows, uint8_t *scratch)
{
    uintptr_t at = (uintptr_t)scratch;
    struct work w = {.n_q = (int64_t)n_rows * (l->n_head / l->n_head_kv)};
    const size_t n = (size_t)w.n_q;
    w.q = carve(&at, n * attn_query_bytes(l->d_k));
    w.o = carve(&at, n * (size_t)l->d_v * sizeof(float));
    w.part = carve(&at, n * (size_t)l->d_v * sizeof(float));
    w.so = carve(&at, n * sizeof *w.so);
    w.sp = carve(&at, n * sizeof *w.sp);
    w.vis = carve(&at, n * sizeof *w.vis);
    w.head = carve(&at, (size_t)l->d_k * sizeof(float));
    w.tile = (uint8_t *)at;
    return w;
}

size_t attention_scratch_bytes(const struct kernels *k, enum kv_rep rep, const struct layer *l)
{
    const struct work w = lay_out(l, ATTN_BLOCK_ROWS, NULL);
    return (size_t)(uintptr_t)w.tile + k->attn_scratch_bytes(rep, l->d_k, l->d_v, w.n_q);
}

static void reset(const struct layer *l, int64_t n_q, struct attn_state *s, float *o)
{
    for (int64_t i = 0; i < n_q; i++)
        s[i] = (struct attn_state){-INFINITY, 0.0f};
    memset(o, 0, (size_t)n_q * (size_t)l->d_v * sizeof *o);
}

/* First position that the query at pos sees. */
static int32_t first_visible(const struct layer *l, int32_t pos)
{
    return l->window && pos + 1 > l->window ? pos + 1 - l->window : 0;
}

static int32_t clamp(int32_t v, int32_t lo, int32_t hi)
{
    return v < lo ? lo : v > hi ? hi : v;
}

static void gather_queries(const struct attention *a, const struct row_block *b, int32_t head_kv,
                           const struct work *w)
{
    const struct layer *l = a->l;
    const int32_t group = l->n_head / l->n_head_kv;
    for (int32_t r = 0; r < b->n_rows; r++) {
        const float *src =
            a->e->buf.q + ((int64_t)(b->first_row + r) * l->n_head + (int64_t)head_kv * group) * l->d_k;
        uint8_t *dst = w->q + (size_t)(r * group) * attn_query_bytes(l->d_k);
        for (int32_t g = 0; g < group; g++) {
            memcpy(w->head, src + (int64_t)g * l->d_k, (size_t)l->d_k * sizeof *src);
            a->e->kernels->scale(l->q_scale, l->d_k, w->head);
            a->e->kernels->attn_query(a->e->kv.rep, l->d_k, w->head,
                                      dst + (size_t)g * attn_query_bytes(l->d_k));
        }
    }
}

static void fold_tile(const struct attention *a, const struct row_block *b, int32_t head_kv, int32_t page,
                      const struct work *w)
{
    const struct layer *l = a->l;
    const int32_t group = l->n_head / l->n_head_kv, pos0 = page * KV_PAGE;
    for (int32_t r = 0; r < b->n_rows; r++) {
        const int32_t pos = b->first_pos + r;
        const struct attn_visible v = {.lo = clamp(first_visible(l, pos) - pos0, 0, KV_PAGE),
                                       .hi = clamp(pos + 1 - pos0, 0, KV_PAGE)};
        for (int32_t g = 0; g < group; g++)
            w->vis[r * group + g] = v.lo < v.hi ? v : (struct attn_visible){0};
    }
    const struct kv_tile t = kv_tile_at(&a->e->kv, &b->seq->kv, page, a->first_lane + head_kv);
    a->e->kernels->attn_tile(&t, l->d_k, l->d_v, w->n_q, w->q, w->vis, l->softcap, w->sp, w->part, w->tile);
}

static void attend_block(const struct attention *a, const struct row_block *b, int32_t head_kv,
                         uint8_t *scratch)
{
    const struct layer *l = a->l;
    const struct kernels *kn = a->e->kernels;
    const int32_t group = l->n_head / l->n_head_kv;
    const struct work w = lay_out(l, b->n_rows, scratch);
    gather_queries(a, b, head_kv, &w);
    reset(l, w.n_q, w.so, w.o);

    const int32_t end = b->first_pos + b->n_rows; /* positions 0 .. end - 1 are held */
    int32_t page = first_visible(l, b->first_pos) / KV_PAGE;
    const int32_t n_pages = (end + KV_PAGE - 1) / KV_PAGE, span_pages = ATTN_SPAN / KV_PAGE;
    while (page < n_pages) {
        const int32_t span_end = (page / span_pages + 1) * span_pages;
        reset(l, w.n_q, w.sp, w.part);
        for (; page < n_pages && page < span_end; page++)
            fold_tile(a, b, head_kv, page, &w);
        for (int64_t i = 0; i < w.n_q; i++)
            kn->attn_merge(l->d_v, &w.sp[i], w.part + i * l->d_v, &w.so[i], w.o + i * l->d_v);
    }
    for (int32_t r = 0; r < b->n_rows; r++) {
        float *dst =
            a->e->buf.att + ((int64_t)(b->first_row + r) * l->n_head + (int64_t)head_kv * group) * l->d_v;
        for (int32_t g = 0; g < group; g++) {
            const int64_t i = (int64_t)r * group + g;
            kn->attn_finish(l->d_v, &w.so[i], w.o + i * l->d_v);
            memcpy(dst + (int64_t)g * l->d_v, w.o + i * l->d_v, (size_t)l->d_v * sizeof *dst);
        }
    }
}

static void attend(void *ctx, int64_t begin, int64_t end, int worker)
{
    const struct attention *a = ctx;
    uint8_t *scratch = a->e->buf.scratch + (size_t)worker * a->e->buf.scratch_bytes;
    const int32_t n_heads = a->l->n_head_kv;
    for (int64_t i = begin; i < end; i++)
        attend_block(a, &a->e->pass.blocks[i / n_heads], (int32_t)(i % n_heads), scratch);
}

void attention_layer(struct hasten_engine *e, const struct layer *l, int32_t first_lane)
{
    struct attention a = {.e = e, .l = l, .first_lane = first_lane};
    pool_for(e->pool, (int64_t)e->pass.n_blocks * l->n_head_kv, 1, attend, &a);
}
