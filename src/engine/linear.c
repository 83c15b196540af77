/* Matrix products of an input group: matrices that read the same rows. Everything done to the input (norm,
 * quantisation) is done once for the group, then all their output rows are one loop over panels of 16.
 * Work is split over output rows only, so who computes what never shows in the bits. */
#include "engine/engine.h"

#define MAX_GROUP 4

struct group {
    struct hasten_engine *e;
    const struct linear_input *in;
    const struct linear *lin;
    int32_t n, n_lin, n_forms;
    enum act_form forms[3];
    int64_t first_panel[MAX_GROUP + 1]; /* panels of matrix j are [first_panel[j], first_panel[j + 1]) */
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

static void multiply_panels(void *ctx, int64_t begin, int64_t end, int worker)
{
    const struct group *g = ctx;
    const struct kernels *kn = g->e->kernels;
    uint8_t *scratch = g->e->buf.scratch + (size_t)worker * g->e->buf.scratch_bytes;
    for (int32_t j = 0; j < g->n_lin; j++) {
        int64_t p0 = begin > g->first_panel[j] ? begin : g->first_panel[j];
        int64_t p1 = end < g->first_panel[j + 1] ? end : g->first_panel[j + 1];
        if (p0 >= p1)
            continue;
        const struct weight *w = g->lin[j].w;
        const int64_t row0 = (p0 - g->first_panel[j]) * PANEL_ROWS,
                      row1 = (p1 - g->first_panel[j]) * PANEL_ROWS;
        const enum act_form f = kn->form_of(w->type, w->k);
        const struct act a = {
            .form = f, .n = g->n, .k = g->in->k, .rows = g->e->buf.act[f], .row_stride = row_bytes(g, f)};
        kn->matmul(w, &a, row0, row1 < w->n_rows ? row1 : w->n_rows, g->lin[j].y, w->n_rows, scratch);
    }
}

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

/* Panels that a worker claims at once: some dozen claims a worker, but not below about 4 µs of work each. */
static int64_t panels_per_claim(const struct group *g, int64_t n_panels)
{
    const int64_t macs = PANEL_ROWS * g->in->k * g->n;
    const int64_t least = 1 + 200000 / (macs > 0 ? macs : 1);
    const int64_t share = n_panels / (12 * g->e->settings.n_threads);
    return share > least ? share : least;
}

void linear_group(struct hasten_engine *e, const struct linear_input *in, int32_t n, const struct linear *lin,
                  int32_t n_lin)
{
    struct group g = {.e = e, .in = in, .lin = lin, .n = n, .n_lin = n_lin};
    collect_forms(&g);
    pool_for(e->pool, n, 4, prepare_rows, &g);
    engine_lap(e, ENGINE_OP_PREPARE);
    if (e->taps.linear_input)
        tell_taps(&g);
    for (int32_t j = 0; j < n_lin; j++) {
        g.first_panel[j + 1] = g.first_panel[j] + (lin[j].w->n_rows + PANEL_ROWS - 1) / PANEL_ROWS;
        e->counters.weight_bytes += (uint64_t)lin[j].w->n_rows * (uint64_t)lin[j].w->row_bytes;
    }
    pool_for(e->pool, g.first_panel[n_lin], panels_per_claim(&g, g.first_panel[n_lin]), multiply_panels, &g);
}
