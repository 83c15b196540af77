/* Matrix products of an input group: matrices that read the same rows. Everything done to the input (norm,
 * quantisation) is done once for the group, then all their output rows are one loop over panels of 16.
 * Work is split over output rows only, so who computes what never shows in the bits. */
#include "engine/overlay.h"
#include "kernels/packed.h"
#include <string.h>

#define MAX_GROUP 4
#define CLAIM_MACS 25000               /* about 4 µs of work */
#define FEW_ROWS 8                     /* up to here a product takes as long as its weights take to read */
#define NEXT_BYTES ((size_t)128 << 10) /* brought nearer before a product */

/* Many input rows are multiplied in areas: AREA_PANELS panels by so many input rows that these stay in the second-level
 * cache while the panels go by. */
#define MANY_ROWS 64
#define AREA_PANELS 8
#define AREA_BYTES ((size_t)1 << 20)
#define AREA_ROWS 128
_Static_assert(AREA_PANELS *PANEL_ROWS *AREA_ROWS * sizeof(float) <= POOL_STAGE_BYTES, "areas can be staged");

struct group {
    struct hasten_engine *e;
    const struct linear_input *in;
    const struct linear *lin;
    int32_t n, n_lin, n_forms;
    enum act_form forms[3];
};

static size_t row_bytes(const struct group *g, enum act_form f)
{
    return g->e->kernels->act_row_bytes(f, g->in->k);
}

static void prepare_rows(void *ctx, int64_t begin, int64_t end, int worker)
{
    const struct group *g = ctx;
    const struct kernels *kn = g->e->kernels;
    (void)worker;
    for (int64_t i = begin; i < end; i++) {
        const float *x = g->in->x + i * g->in->k;
        if (g->in->norm_w) {
            float *normed = g->e->buf.norm + i * g->in->k;
            kn->rms_norm(x, g->in->norm_w, g->in->k, g->e->model->desc.norm_eps, normed);
            x = normed;
        }
        for (int32_t f = 0; f < g->n_forms; f++)
            kn->act_make(g->forms[f], x, g->in->k,
                         g->e->buf.act[g->forms[f]] + (size_t)i * row_bytes(g, g->forms[f]));
    }
}

/* The loop over panels, for a worker that may come too late (pool.h): by value, and pointing only to what lives
 * as long as the engine. */
struct product {
    const struct hasten_engine *e;
    struct weight w[MAX_GROUP];
    float *y[MAX_GROUP];
    int64_t first_panel[MAX_GROUP + 1]; /* panels of matrix j are [first_panel[j], first_panel[j + 1]) */
    const uint8_t *act[3];              /* input rows in each form */
    int64_t k;
    int32_t n, n_lin;
    /* Area i: panels from i / n_row_blocks * area_panels on, input rows from i % n_row_blocks * area_rows on. */
    int32_t area_panels, area_rows, n_row_blocks;
};

_Static_assert(sizeof(struct product) <= POOL_CTX_BYTES, "a product is the ctx of a staged loop");

/* Rows [row0, row1) of a matrix: what panels [begin, end) of a product have of it. */
struct part {
    int64_t row0, row1;
};

static struct part part_of(const struct product *p, int32_t j, int64_t begin, int64_t end)
{
    const int64_t p0 = begin > p->first_panel[j] ? begin : p->first_panel[j];
    const int64_t p1 = end < p->first_panel[j + 1] ? end : p->first_panel[j + 1];
    const int64_t row0 = (p0 - p->first_panel[j]) * PANEL_ROWS, row1 = (p1 - p->first_panel[j]) * PANEL_ROWS;
    return (struct part){row0, row1 < p->w[j].n_rows ? row1 : p->w[j].n_rows};
}

/* Panels [begin, end) by input rows [first, first + n). */
struct area {
    int64_t begin, end;
    int32_t first, n;
};

/* Areas [begin, end): neighbouring panels by all rows; or one area alone. */
static struct area area_of(const struct product *p, int64_t begin, int64_t end)
{
    const int64_t n_panels = p->first_panel[p->n_lin];
    const int32_t first = (int32_t)(begin % p->n_row_blocks) * p->area_rows, left = p->n - first;
    struct area a = {begin / p->n_row_blocks * p->area_panels, 0, first,
                     left < p->area_rows ? left : p->area_rows};
    a.end = p->n_row_blocks > 1 ? a.begin + p->area_panels : end * p->area_panels;
    a.end = a.end < n_panels ? a.end : n_panels;
    return a;
}

void weight_multiply(const struct kernels *kn, const struct weight *w, const struct act *a, int64_t row0,
                     int64_t row1, float *y, int64_t ldy, void *scratch)
{
    kn->matmul(w, a, row0, row1, y, ldy, scratch);
    for (int64_t i = 0; i < a->n && w->scale; i++)
        kn->scale(*w->scale, row1 - row0, y + i * ldy + row0);
}

/* Staged results lie as [matrix][input row][row of the part]. */
static void multiply_area(const void *ctx, int64_t begin, int64_t end, int worker, void *stage)
{
    const struct product *p = ctx;
    const struct kernels *kn = p->e->kernels;
    const struct area at = area_of(p, begin, end);
    uint8_t *scratch = p->e->buf.scratch + (size_t)worker * p->e->buf.scratch_bytes;
    float *staged = stage;
    for (int32_t j = 0; j < p->n_lin; j++) {
        const struct part r = part_of(p, j, at.begin, at.end);
        if (r.row0 >= r.row1)
            continue;
        const enum act_form f = kn->form_of(p->w[j].type, p->k);
        const size_t stride = kn->act_row_bytes(f, p->k);
        const struct act a = {.form = f,
                              .n = at.n,
                              .k = p->k,
                              .rows = p->act[f] + (size_t)at.first * stride,
                              .row_stride = stride};
        if (!stage) {
            weight_multiply(kn, &p->w[j], &a, r.row0, r.row1, p->y[j] + at.first * p->w[j].n_rows,
                            p->w[j].n_rows, scratch);
            continue;
        }
        const int64_t width = r.row1 - r.row0;
        weight_multiply(kn, &p->w[j], &a, r.row0, r.row1, staged - r.row0, width, scratch);
        staged += at.n * width;
    }
}

static void publish_area(const void *ctx, int64_t begin, int64_t end, const void *stage)
{
    const struct product *p = ctx;
    const struct area at = area_of(p, begin, end);
    const float *staged = stage;
    for (int32_t j = 0; j < p->n_lin; j++) {
        const struct part r = part_of(p, j, at.begin, at.end);
        const int64_t width = r.row1 - r.row0;
        for (int64_t i = at.first; i < at.first + at.n && width > 0; i++, staged += width)
            memcpy(p->y[j] + i * p->w[j].n_rows + r.row0, staged, (size_t)width * sizeof *staged);
    }
}

static const struct pool_staged areas_job = {multiply_area, publish_area};

static void collect_forms(struct group *g)
{
    for (int32_t j = 0; j < g->n_lin; j++) {
        const enum act_form f = g->e->kernels->form_of(g->lin[j].w->type, g->lin[j].w->k);
        int32_t i = 0;
        while (i < g->n_forms && g->forms[i] != f)
            i++;
        if (i == g->n_forms)
            g->forms[g->n_forms++] = f;
    }
}

/* Tap "linear input" (tap.h). */
static void tell_taps(const struct group *g)
{
    const struct weight *w[MAX_GROUP];
    for (int32_t j = 0; j < g->n_lin; j++)
        w[j] = g->lin[j].w;
    const struct tap_linear_input in = {.w = w,
                                        .n_w = g->n_lin,
                                        .x = g->in->norm_w ? g->e->buf.norm : g->in->x,
                                        .n = g->n,
                                        .k = g->in->k,
                                        .pool = g->e->pool};
    for (const struct tap_linear_input_sub *s = g->e->taps.linear_input; s; s = s->next)
        s->fn(s->ctx, &in);
}

static void multiply_in_place(void *ctx, int64_t begin, int64_t end, int worker)
{
    multiply_area(ctx, begin, end, worker, NULL);
}

int64_t claim_least(int64_t macs)
{
    return CLAIM_PANELS * (1 + CLAIM_MACS / (macs > 0 ? macs : 1));
}

int64_t claim_most(int64_t n)
{
    return POOL_STAGE_BYTES / (PANEL_ROWS * (int64_t)sizeof(float) * n);
}

static int64_t n_areas(const struct product *p)
{
    return (p->first_panel[p->n_lin] + p->area_panels - 1) / p->area_panels * p->n_row_blocks;
}

/* Areas of a product of many rows: enough of them that no worker waits long for another. */
static void choose_areas(struct product *p, size_t row_bytes)
{
    const int32_t fit = (int32_t)(AREA_BYTES / row_bytes) / 32 * 32;
    p->area_panels = AREA_PANELS;
    p->area_rows = fit < MANY_ROWS ? MANY_ROWS : fit < AREA_ROWS ? fit : AREA_ROWS;
    p->n_row_blocks = (p->n + p->area_rows - 1) / p->area_rows;
    while (p->area_panels > CLAIM_PANELS && n_areas(p) < 12 * p->e->settings.n_threads)
        p->area_panels /= 2;
}

static void multiply(struct product *p)
{
    const struct kernels *kn = p->e->kernels;
    int64_t least = 1, most = 1; /* areas of a claim */
    if (p->n > MANY_ROWS) {
        choose_areas(p, kn->act_row_bytes(kn->form_of(p->w[0].type, p->k), p->k));
    } else {
        p->area_panels = p->n_row_blocks = 1;
        p->area_rows = p->n;
        least = claim_least(CLAIM_PANELS * PANEL_ROWS * p->k * p->n);
        most = claim_most(p->n);
    }
    if (most >= least)
        pool_for_staged(p->e->pool, n_areas(p), least, most, &areas_job, p, sizeof *p);
    else /* short rows: one block of them */
        pool_for(p->e->pool, n_areas(p), least, multiply_in_place, p);
}

/* act[f]: input rows in form f. */
static void multiply_group(struct hasten_engine *e, uint8_t *const act[3], int64_t k, int32_t n,
                           const struct linear *lin, int32_t n_lin)
{
    struct product p = {.e = e, .k = k, .n = n, .n_lin = n_lin, .act = {act[0], act[1], act[2]}};
    for (int32_t j = 0; j < n_lin; j++) {
        p.w[j] = *lin[j].w;
        p.y[j] = lin[j].y;
        p.first_panel[j + 1] = p.first_panel[j] + (lin[j].w->n_rows + PANEL_ROWS - 1) / PANEL_ROWS;
        e->counters.weight_bytes += (uint64_t)lin[j].w->n_rows * (uint64_t)lin[j].w->row_bytes;
    }
    multiply(&p);
}

void linear_prepare(struct hasten_engine *e, const struct linear_input *in, int32_t n,
                    const struct linear *lin, int32_t n_lin)
{
    struct group g = {.e = e, .in = in, .lin = lin, .n = n, .n_lin = n_lin};
    collect_forms(&g);
    pool_for(e->pool, n, 4, prepare_rows, &g);
    engine_lap(e, ENGINE_OP_PREPARE);
    if (e->taps.linear_input)
        tell_taps(&g);
}

void linear_next(struct hasten_engine *e, const struct weight *one, const struct weight *two,
                 const struct weight *three)
{
    const struct weight *const w[] = {one, two, three};
    const int64_t n = e->pass.n_rows;
    int64_t first[4] = {0}, begin, end;
    int32_t n_w = 0;
    if (n > FEW_ROWS || pool_size(e->pool) != 2) /* of more workers nobody knows who takes what */
        return;
    for (; n_w < 3 && w[n_w] && w[n_w]->packed; n_w++)
        first[n_w + 1] = first[n_w] + (w[n_w]->n_rows + PANEL_ROWS - 1) / PANEL_ROWS;
    if (n_w == 0)
        return;
    pool_second_chunk(e->pool, first[n_w], claim_least(CLAIM_PANELS * PANEL_ROWS * one->k * n), claim_most(n),
                      &begin, &end);
    int32_t i = 0;
    while (i + 1 < n_w && begin >= first[i + 1])
        i++;
    end = end < first[i + 1] ? end : first[i + 1];
    const size_t panel_bytes = packed_panel_bytes(w[i]), bytes = (size_t)(end - begin) * panel_bytes;
    pool_bring(e->pool, w[i]->packed + (size_t)(begin - first[i]) * panel_bytes,
               bytes < NEXT_BYTES ? bytes : NEXT_BYTES);
}

void linear_group(struct hasten_engine *e, const struct linear_input *in, int32_t n, const struct linear *lin,
                  int32_t n_lin)
{
    linear_prepare(e, in, n, lin, n_lin);
    linear_multiply(e, in->k, n, lin, n_lin);
    if (e->overlays.n)
        overlays_add(e, in->norm_w ? e->buf.norm : in->x, in->k, n, lin, n_lin);
}

void linear_multiply(struct hasten_engine *e, int64_t k, int32_t n, const struct linear *lin, int32_t n_lin)
{
    multiply_group(e, e->buf.act, k, n, lin, n_lin);
}

void linear_hidden(struct hasten_engine *e, const struct weight *w, int32_t n, float *y)
{
    uint8_t *const act[3] = {e->buf.hidden, e->buf.hidden, e->buf.hidden};
    multiply_group(e, act, w->k, n, &(struct linear){w, y}, 1);
}
