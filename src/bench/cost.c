/* Counting what a step must do (cost.h). */
#include "bench/cost.h"

static void add_matrix(const struct weight *w, int64_t n_rows, struct bench_cost *c)
{
    const double ops = 2.0 * (double)w->n_rows * (double)w->k * (double)n_rows;
    if (w->type->id == QUANT_F32)
        c->f32_ops += ops;
    else if (w->type->block == 1)
        c->half_ops += ops;
    else
        c->int8_ops += ops;
}

void bench_cost_rows(const struct hasten_engine *e, int64_t n_rows, int64_t n_head_rows, struct bench_cost *c)
{
    const struct model_desc *d = &e->model->desc;
    for (int32_t i = 0; i < d->n_layer; i++) {
        const struct layer *l = &d->layers[i];
        const struct weight *all[LAYER_MATRICES];
        const int32_t n = layer_matrices(l, all);
        for (int32_t j = 0; j < n; j++)
            add_matrix(all[j], n_rows, c);
        if (l->ffn == FFN_MOE) { /* each row at as many experts; those of a layer are alike */
            add_matrix(&l->moe.gate[0], n_rows * l->moe.n_used, c);
            add_matrix(&l->moe.up[0], n_rows * l->moe.n_used, c);
            add_matrix(&l->moe.down[0], n_rows * l->moe.n_used, c);
        }
    }
    add_matrix(&d->output, n_head_rows, c);
}

/* Positions that the row at pos sees in a layer. */
static int64_t visible(const struct layer *l, int64_t pos)
{
    return l->window && pos + 1 > l->window ? l->window : pos + 1;
}

/* Tiles that rows first .. last of one pass read in a layer. */
static int64_t tiles(const struct layer *l, int64_t first, int64_t last)
{
    return last / KV_PAGE - (first + 1 - visible(l, first)) / KV_PAGE + 1;
}

void bench_cost_attention(const struct hasten_engine *e, int64_t first, int64_t n, struct bench_cost *c)
{
    const struct model_desc *d = &e->model->desc;
    const int64_t n_batch = e->settings.n_batch;
    for (int32_t i = 0; i < d->n_layer; i++) {
        const struct layer *l = &d->layers[i];
        const struct kv_lane lane = {l->d_k, l->d_v};
        const double page = (double)kv_page_bytes(e->kv.rep, &lane) * l->n_head_kv;
        for (int64_t at = first; at < first + n; at += n_batch) {
            const int64_t end = at + n_batch < first + n ? at + n_batch : first + n;
            c->kv_bytes += page * (double)tiles(l, at, end - 1);
            for (int64_t pos = at; pos < end; pos++)
                c->attention_ops += 2.0 * l->n_head * (l->d_k + l->d_v) * (double)visible(l, pos);
        }
    }
}

double bench_cost_bus_s(const struct bench_cost *c, const struct bench_limits *l)
{
    return l->read_all > 0 ? (c->weight_bytes + c->kv_bytes) / (1e9 * l->read_all) : 0;
}

double bench_cost_peak_s(const struct bench_cost *c, const struct bench_limits *l)
{
    const double f32 = 1e9 * l->peak[PEAK_F32].all, int8 = 1e9 * l->peak[PEAK_INT8].all;
    const double half = 1e9 * bench_limits_half(l);
    if (f32 <= 0 || int8 <= 0 || half <= 0)
        return 0;
    return c->int8_ops / int8 + (c->half_ops + c->attention_ops) / half + c->f32_ops / f32;
}
