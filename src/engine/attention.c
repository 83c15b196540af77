/* Attention over KV pages. The unit of work is (block of rows of one sequence, KV head): its queries share the
 * reading of each tile. A query folds tiles of 64 positions in ascending order, in spans of 1,024 positions
 * aligned at 0, whose partial results are merged in order; so its bits depend on its position and on the KV
 * alone, not on which rows share its block, nor on who computes it.
 *
 * Where there are too few units for the workers (decoding at depth), the unit is one span of them: the partial
 * results lie in buf.partial, and a second loop merges them, in the same order. */
#include "engine/engine.h"
#include <math.h>
#include <string.h>

#define UNITS_PER_WORKER 4 /* fewer than these, and units are split by spans */

/* The ctx of the loops. They are staged (base/pool.h): a worker may still be in one when its layer, or even its
 * pass, is over. It then reads rows, pages and blocks of another pass; block_at and the tables of kv.h, whose
 * entries are always numbers of pages, keep that harmless. */
struct attention {
    struct hasten_engine *e;
    const struct layer *l;
    int32_t first_lane;
    int32_t n_blocks;
    int32_t n_spans; /* split: of the block that sees the most */
    bool selected;   /* rows read what e->methods.attending says */
};

/* A copy of block i, each field read once: they may be changing, and not fit each other. */
static struct row_block row_block_at(const struct attention *a, int64_t i)
{
    const volatile struct row_block *now = &a->e->pass.blocks[i];
    struct row_block b = {now->seq, now->first_row, now->n_rows, now->first_pos, now->whole};
    const int32_t positions = a->e->settings.n_ctx - b.first_pos, rows = a->e->settings.n_batch - b.first_row;
    b.n_rows = b.n_rows < positions ? b.n_rows : positions;
    b.n_rows = b.n_rows < rows ? b.n_rows : rows;
    b.whole = b.whole < a->e->settings.n_ctx ? b.whole : a->e->settings.n_ctx;
    return b;
}

/* Block i for a KV head, its positions counted in entries of its lane (kv.h). */
static struct row_block block_at(const struct attention *a, int64_t i, int32_t head_kv)
{
    struct row_block b = row_block_at(a, i);
    const int32_t removed = kv_removed(&b.seq->kv, a->first_lane + head_kv);
    b.first_pos = removed < b.first_pos ? b.first_pos - removed : 0;
    return b;
}

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

/* What states say is empty (l == 0) is written before it is read. */
static void reset(int64_t n_q, struct attn_state *s)
{
    for (int64_t i = 0; i < n_q; i++)
        s[i] = (struct attn_state){-INFINITY, 0.0f};
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

/* Positions that some row of a block sees: pages [first, end). */
struct pages {
    int32_t first, end;
};

static struct pages visible_pages(const struct layer *l, const struct row_block *b)
{
    const int32_t n_held = b->whole ? b->whole : b->first_pos + b->n_rows;
    return (struct pages){first_visible(l, b->first_pos) / KV_PAGE, (n_held + KV_PAGE - 1) / KV_PAGE};
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

/* What a row reads of a page with a head of a group: NULL, all of it. */
static const uint64_t *selection(const struct attention *a, int32_t row, int32_t head_kv, int32_t g,
                                 int32_t page)
{
    const struct attending *t = &a->e->methods.attending;
    if (!a->selected || !t->sparse[row])
        return NULL;
    const int32_t group = a->l->n_head / a->l->n_head_kv;
    const int32_t set = t->use->m->attend->per_head ? head_kv * group + g : head_kv;
    return t->words + ((int64_t)row * t->sets + set) * t->stride + page;
}

/* Does any row of a block read of a page? */
static bool page_read(const struct attention *a, const struct row_block *b, int32_t head_kv, int32_t page)
{
    const struct attending *t = &a->e->methods.attending;
    const int32_t sets = a->selected && t->use->m->attend->per_head ? a->l->n_head / a->l->n_head_kv : 1;
    for (int32_t r = 0; r < b->n_rows; r++)
        for (int32_t g = 0; g < sets; g++) {
            const uint64_t *seen = selection(a, b->first_row + r, head_kv, g, page);
            if (!seen || *seen)
                return true;
        }
    return false;
}

static void fold_tile(const struct attention *a, const struct row_block *b, int32_t head_kv, int32_t page,
                      bool last, const struct work *w)
{
    const struct layer *l = a->l;
    const int32_t group = l->n_head / l->n_head_kv, pos0 = page * KV_PAGE, lane = a->first_lane + head_kv;
    for (int32_t r = 0; r < b->n_rows; r++) {
        const int32_t pos = b->first_pos + r;
        const struct attn_visible v = {.lo = clamp(first_visible(l, pos) - pos0, 0, KV_PAGE),
                                       .hi = clamp((b->whole ? b->whole : pos + 1) - pos0, 0, KV_PAGE)};
        for (int32_t g = 0; g < group; g++) {
            w->vis[r * group + g] = v.lo < v.hi ? v : (struct attn_visible){0};
            w->vis[r * group + g].mask = selection(a, b->first_row + r, head_kv, g, page);
        }
    }
    struct kv_tile t = kv_tile_at(&a->e->kv, &b->seq->kv, page, lane);
    t.next = last ? NULL : kv_tile_at(&a->e->kv, &b->seq->kv, page + 1, lane).k;
    a->e->kernels->attn_tile(&t, l->d_k, l->d_v, w->n_q, w->q, w->vis, l->softcap, w->sp, w->part, w->tile);
}

/* Pages [page, end) of one span into sp and part. */
static void fold_span(const struct attention *a, const struct row_block *b, int32_t head_kv,
                      struct pages span, const struct work *w)
{
    reset(w->n_q, w->sp);
    for (int32_t page = span.first; page < span.end; page++)
        if (!a->selected || page_read(a, b, head_kv, page))
            fold_tile(a, b, head_kv, page, page + 1 == span.end, w);
}

/* Span number `span`, counted from position 0, of the pages that a block sees; empty where first >= end. */
static struct pages span_pages(struct pages seen, int32_t span)
{
    const int32_t n = ATTN_SPAN / KV_PAGE, first = span * n, end = first + n;
    return (struct pages){first > seen.first ? first : seen.first, end < seen.end ? end : seen.end};
}

static void merge(const struct attention *a, const struct work *w, const struct attn_state *sp,
                  const float *part)
{
    for (int64_t i = 0; i < w->n_q; i++)
        a->e->kernels->attn_merge(a->l->d_v, &sp[i], part + i * a->l->d_v, &w->so[i], w->o + i * a->l->d_v);
}

/* The heads of a group lie side by side in buf.att: row r of a block, KV head head_kv. */
static float *output_at(const struct attention *a, const struct row_block *b, int32_t r, int32_t head_kv)
{
    const int32_t group = a->l->n_head / a->l->n_head_kv;
    return a->e->buf.att +
           ((int64_t)(b->first_row + r) * a->l->n_head + (int64_t)head_kv * group) * a->l->d_v;
}

/* A sink is one more score without a value (gpt-oss; Xiao et al., arXiv:2309.17453): a partial result of one entry
 * whose value is zero, merged last. */
static void add_sinks(const struct attention *a, int32_t head_kv, const struct work *w)
{
    const int32_t group = a->l->n_head / a->l->n_head_kv;
    memset(w->part, 0, (size_t)a->l->d_v * sizeof *w->part);
    for (int64_t i = 0; i < w->n_q; i++) {
        const struct attn_state sink = {a->l->sinks[head_kv * group + i % group], 1.0f};
        a->e->kernels->attn_merge(a->l->d_v, &sink, w->part, &w->so[i], w->o + i * a->l->d_v);
    }
}

/* Merged results to the rows of buf.att, or to [n_q × d_v] at stage. */
static void finish(const struct attention *a, const struct row_block *b, int32_t head_kv,
                   const struct work *w, float *stage)
{
    const int64_t width = w->n_q / b->n_rows * a->l->d_v;
    if (a->l->sinks)
        add_sinks(a, head_kv, w);
    for (int64_t i = 0; i < w->n_q; i++)
        a->e->kernels->attn_finish(a->l->d_v, &w->so[i], w->o + i * a->l->d_v);
    for (int32_t r = 0; r < b->n_rows; r++)
        memcpy(stage ? stage + r * width : output_at(a, b, r, head_kv), w->o + r * width,
               (size_t)width * sizeof *w->o);
}

static uint8_t *scratch_of(const struct attention *a, int worker)
{
    return a->e->buf.scratch + (size_t)worker * a->e->buf.scratch_bytes;
}

/* ---- whole units ------------------------------------------------------------------------------------------- */

/* Later rows of a prompt see more: they are begun first, so that the workers end together. */
static struct row_block unit_block(const struct attention *a, int64_t unit)
{
    return block_at(a, a->n_blocks - 1 - unit / a->l->n_head_kv, (int32_t)(unit % a->l->n_head_kv));
}

/* Chunks are single units: stage holds the results of one. */
static void attend(const void *ctx, int64_t begin, int64_t end, int worker, void *stage)
{
    const struct attention *a = ctx;
    for (int64_t i = begin; i < end; i++) {
        const struct row_block b = unit_block(a, i);
        const int32_t head_kv = (int32_t)(i % a->l->n_head_kv);
        const struct work w = lay_out(a->l, b.n_rows, scratch_of(a, worker));
        const struct pages seen = visible_pages(a->l, &b);
        gather_queries(a, &b, head_kv, &w);
        reset(w.n_q, w.so);
        for (int32_t s = seen.first * KV_PAGE / ATTN_SPAN; span_pages(seen, s).first < seen.end; s++) {
            fold_span(a, &b, head_kv, span_pages(seen, s), &w);
            merge(a, &w, w.sp, w.part);
        }
        finish(a, &b, head_kv, &w, stage);
    }
}

static void publish_unit(const void *ctx, int64_t begin, int64_t end, const void *stage)
{
    const struct attention *a = ctx;
    const int64_t width = (int64_t)(a->l->n_head / a->l->n_head_kv) * a->l->d_v;
    for (int64_t i = begin; i < end; i++) {
        const struct row_block b = unit_block(a, i);
        for (int32_t r = 0; r < b.n_rows; r++)
            memcpy(output_at(a, &b, r, (int32_t)(i % a->l->n_head_kv)), (const float *)stage + r * width,
                   (size_t)width * sizeof(float));
    }
}

static const struct pool_staged unit_job = {attend, publish_unit};

/* ---- units split by spans ---------------------------------------------------------------------------------- */

/* Bytes of a query's partial result. */
static size_t partial_bytes(const struct layer *l)
{
    return sizeof(struct attn_state) + (size_t)l->d_v * sizeof(float);
}

/* The partial results of a unit's span: states [n_q], then [n_q × d_v]. A unit has room for n_spans of them. */
static struct attn_state *partial_at(const struct attention *a, const struct row_block *b, int32_t head_kv,
                                     int32_t span, int64_t n_q)
{
    const int64_t before = (int64_t)b->first_row * a->l->n_head + (int64_t)head_kv * n_q;
    return (struct attn_state *)(void *)(a->e->buf.partial +
                                         (size_t)(before * a->n_spans + span * n_q) * partial_bytes(a->l));
}

/* One span of a unit: number i of the loop. */
struct span {
    struct row_block b;
    int32_t head_kv, index; /* index: from the first that the block sees */
    struct pages pages;
};

static struct span span_of(const struct attention *a, int64_t i)
{
    const int64_t unit = i / a->n_spans;
    const int32_t head_kv = (int32_t)(unit % a->l->n_head_kv);
    struct span s = {.b = block_at(a, unit / a->l->n_head_kv, head_kv),
                     .head_kv = head_kv,
                     .index = (int32_t)(i % a->n_spans)};
    const struct pages seen = visible_pages(a->l, &s.b);
    s.pages = span_pages(seen, seen.first * KV_PAGE / ATTN_SPAN + s.index);
    return s;
}

/* Chunks are single spans: stage holds the results of one. */
static void attend_span(const void *ctx, int64_t begin, int64_t end, int worker, void *stage)
{
    const struct attention *a = ctx;
    for (int64_t i = begin; i < end; i++) {
        const struct span s = span_of(a, i);
        if (s.pages.first >= s.pages.end)
            continue;
        struct work w = lay_out(a->l, s.b.n_rows, scratch_of(a, worker));
        gather_queries(a, &s.b, s.head_kv, &w);
        w.sp = stage ? stage : partial_at(a, &s.b, s.head_kv, s.index, w.n_q);
        w.part = (float *)(void *)(w.sp + w.n_q);
        fold_span(a, &s.b, s.head_kv, s.pages, &w);
    }
}

static void publish_span(const void *ctx, int64_t begin, int64_t end, const void *stage)
{
    const struct attention *a = ctx;
    for (int64_t i = begin; i < end; i++) {
        const struct span s = span_of(a, i);
        const int64_t n_q = (int64_t)s.b.n_rows * (a->l->n_head / a->l->n_head_kv);
        if (s.pages.first < s.pages.end)
            memcpy(partial_at(a, &s.b, s.head_kv, s.index, n_q), stage, (size_t)n_q * partial_bytes(a->l));
    }
}

static const struct pool_staged span_job = {attend_span, publish_span};

static void merge_spans(void *ctx, int64_t begin, int64_t end, int worker)
{
    const struct attention *a = ctx;
    for (int64_t i = begin; i < end; i++) {
        const int32_t head_kv = (int32_t)(i % a->l->n_head_kv);
        const struct row_block b = block_at(a, i / a->l->n_head_kv, head_kv);
        const struct work w = lay_out(a->l, b.n_rows, scratch_of(a, worker));
        const struct pages seen = visible_pages(a->l, &b);
        const int32_t first = seen.first * KV_PAGE / ATTN_SPAN;
        reset(w.n_q, w.so);
        for (int32_t s = 0; span_pages(seen, first + s).first < seen.end; s++) {
            const struct attn_state *sp = partial_at(a, &b, head_kv, s, w.n_q);
            merge(a, &w, sp, (const float *)(const void *)(sp + w.n_q));
        }
        finish(a, &b, head_kv, &w, NULL);
    }
}

/* ---- a layer ----------------------------------------------------------------------------------------------- */

size_t attention_partial_bytes(const struct hasten_engine_settings *s, const struct layer *l)
{
    if (s->n_threads == 1 || s->n_ctx <= ATTN_SPAN)
        return 0;
    const size_t spans = ((size_t)s->n_ctx + ATTN_SPAN - 1) / ATTN_SPAN;
    return ATTN_SPLIT_ROWS * spans * (size_t)l->n_head * partial_bytes(l);
}

/* Spans of the block that sees the most of them. */
static int32_t most_spans(const struct attention *a)
{
    int32_t most = 0;
    for (int32_t i = 0; i < a->e->pass.n_blocks; i++) {
        const struct pages seen = visible_pages(a->l, &a->e->pass.blocks[i]);
        const int32_t n = (seen.end - 1) * KV_PAGE / ATTN_SPAN - seen.first * KV_PAGE / ATTN_SPAN + 1;
        most = n > most ? n : most;
    }
    return most;
}

/* In place where the results of a chunk do not fit a stage: few heads of keys for many wide ones of queries. */
static void attend_in_place(void *ctx, int64_t begin, int64_t end, int worker)
{
    attend(ctx, begin, end, worker, NULL);
}

static void attend_span_in_place(void *ctx, int64_t begin, int64_t end, int worker)
{
    attend_span(ctx, begin, end, worker, NULL);
}

/* Bytes of the pages that are about to be read. */
static void count_bytes(const struct attention *a)
{
    const struct kv_lane lane = {a->l->d_k, a->l->d_v};
    uint64_t pages = 0;
    for (int32_t i = 0; i < a->n_blocks; i++)
        for (int32_t h = 0; h < a->l->n_head_kv; h++) {
            const struct row_block b = block_at(a, i, h);
            const struct pages seen = visible_pages(a->l, &b);
            for (int32_t page = seen.first; page < seen.end && a->selected; page++)
                pages += page_read(a, &b, h, page);
            pages += a->selected ? 0 : (uint64_t)(seen.end - seen.first);
        }
    a->e->counters.kv_bytes += pages * kv_page_bytes(a->e->kv.rep, &lane);
}

void attention_layer(struct hasten_engine *e, const struct layer *l, int32_t first_lane, bool selected)
{
    struct attention a = {
        .e = e, .l = l, .first_lane = first_lane, .n_blocks = e->pass.n_blocks, .selected = selected};
    count_bytes(&a);
    const int64_t n_units = (int64_t)e->pass.n_blocks * l->n_head_kv;
    const bool fits =
        ATTN_BLOCK_ROWS * (size_t)(l->n_head / l->n_head_kv) * partial_bytes(l) <= POOL_STAGE_BYTES;
    if (e->buf.partial && e->pass.n_rows <= ATTN_SPLIT_ROWS &&
        n_units < UNITS_PER_WORKER * pool_size(e->pool))
        a.n_spans = most_spans(&a);
    if (a.n_spans > 1) {
        if (fits)
            pool_for_staged(e->pool, n_units * a.n_spans, 1, 1, &span_job, &a, sizeof a);
        else
            pool_for(e->pool, n_units * a.n_spans, 1, attend_span_in_place, &a);
        pool_for(e->pool, n_units, 1, merge_spans, &a);
    } else if (fits) {
        pool_for_staged(e->pool, n_units, 1, 1, &unit_job, &a, sizeof a);
    } else {
        pool_for(e->pool, n_units, 1, attend_in_place, &a);
    }
}
