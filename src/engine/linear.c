/* Matrix products of an input group: matrices that read the same rows. Everything done to the input (norm,
 * quantisation) is done once for the group, then all their output rows are one loop over panels of 16.
 * Work is split over output rows only, so who computes what never shows in the bits. */
#include "engine/engine.h"
#include <string.h>

#define MAX_GROUP 4
#define CLAIM_PANELS 2 /* panels that matmul is fastest with, together */

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

/* Staged results lie as [matrix][row of the pass][row of the part]. */
static void multiply_panels(const void *ctx, int64_t begin, int64_t end, int worker, void *stage)
{
    const struct product *p = ctx;
    const struct kernels *kn = p->e->kernels;
    uint8_t *scratch = p->e->buf.scratch + (size_t)worker * p->e->buf.scratch_bytes;
    float *staged = stage;
    for (int32_t j = 0; j < p->n_lin; j++) {
        const struct part r = part_of(p, j, begin, end);
        if (r.row0 >= r.row1)
            continue;
        const enum act_form f = kn->form_of(p->w[j].type, p->k);
        const struct act a = {
            .form = f, .n = p->n, .k = p->k, .rows = p->act[f], .row_stride = kn->act_row_bytes(f, p->k)};
        if (!stage) {
            kn->matmul(&p->w[j], &a, r.row0, r.row1, p->y[j], p->w[j].n_rows, scratch);
            continue;
        }
        const int64_t width = r.row1 - r.row0;
        kn->matmul(&p->w[j], &a, r.row0, r.row1, staged - r.row0, width, scratch);
        staged += p->n * width;
    }
}

static void publish_panels(const void *ctx, int64_t begin, int64_t end, const void *stage)
{
    const struct product *p = ctx;
    const float *staged = stage;
    for (int32_t j = 0; j < p->n_lin; j++) {
        const struct part r = part_of(p, j, begin, end);
        const int64_t width = r.row1 - r.row0;
        for (int64_t i = 0; i < p->n && width > 0; i++, staged += width)
            memcpy(p->y[j] + i * p->w[j].n_rows + r.row0, staged, (size_t)width * sizeof *staged);
    }
}

static const struct pool_staged panels_job = {multiply_panels, publish_panels};

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
    multiply_panels(ctx, begin, end, worker, NULL);
}

/* A claim is not below about 4 µs of work, and whole groups of panels. */
static void multiply(struct product *p)
{
    const int64_t n_panels = p->first_panel[p->n_lin], macs = CLAIM_PANELS * PANEL_ROWS * p->k * p->n;
    const int64_t least = CLAIM_PANELS * (1 + 25000 / (macs > 0 ? macs : 1));
    const int64_t most = POOL_STAGE_BYTES / (PANEL_ROWS * (int64_t)sizeof(float) * p->n);
    if (most >= least)
        pool_for_staged(p->e->pool, n_panels, least, most, &panels_job, p, sizeof *p);
    else
        pool_for(p->e->pool, n_panels, least, multiply_in_place, p);
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

void linear_group(struct hasten_engine *e, const struct linear_input *in, int32_t n, const struct linear *lin,
                  int32_t n_lin)
{
    linear_prepare(e, in, n, lin, n_lin);
    linear_multiply(e, in->k, n, lin, n_lin);
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
