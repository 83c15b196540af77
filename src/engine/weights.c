/* The driver of the stage weights: see weights.h. */
#include "engine/weights.h"
#include "base/checked.h"
#include "engine/engine.h"
#include "formats/encode.h"
#include <stdatomic.h>

struct weight weight_as(const struct weight *w, const struct quant_type *type)
{
    return (struct weight){.type = type,
                           .n_rows = w->n_rows,
                           .k = w->k,
                           .row_bytes = w->k / type->block * (int64_t)type->block_bytes,
                           .scale = w->scale};
}

/* ---- all matrices of a model ---------------------------------------------------------------------------------- */

/* Matrix number i: its layer and role. NULL: there is none, and none behind it when *layer >= n_layer. */
static struct weight *matrix_at(struct layer *layers, int32_t n_layer, struct weight *output, int32_t i,
                                int32_t *layer, enum matrix_role *role)
{
    if (i == 0) {
        *layer = -1;
        *role = MATRIX_HEAD;
        return output->type ? output : NULL;
    }
    *layer = (i - 1) / MATRIX_HEAD;
    *role = (enum matrix_role)((i - 1) % MATRIX_HEAD);
    if (*layer >= n_layer)
        return NULL;
    struct layer *l = &layers[*layer];
    struct weight *all[] = {&l->wq, &l->wk, &l->wv, &l->wo, &l->w_gate, &l->w_up, &l->w_down};
    return all[*role]->type ? all[*role] : NULL;
}

/* Calls fn for each matrix that becomes something else, in order, until it fails. */
typedef hasten_status (*matrix_fn)(void *ctx, enum matrix_role role, struct weight *w,
                                   const struct quant_type *to);

static hasten_status each_matrix(struct layer *layers, int32_t n_layer, struct weight *output,
                                 const struct method_use *u, matrix_fn fn, void *ctx)
{
    hasten_status st = HASTEN_OK;
    for (int32_t i = 0; i <= n_layer * MATRIX_HEAD && !st; i++) {
        int32_t layer;
        enum matrix_role role;
        struct weight *w = matrix_at(layers, n_layer, output, i, &layer, &role);
        const struct quant_type *to = w ? u->m->weights->becomes(u->knobs, layer, role, w) : NULL;
        if (to)
            st = fn(ctx, role, w, to);
    }
    return st;
}

static size_t padded(int64_t bytes)
{
    return ((size_t)bytes + 63) & ~(size_t)63;
}

/* ---- plan ----------------------------------------------------------------------------------------------------- */

static hasten_status add_bytes(void *ctx, enum matrix_role role, struct weight *w,
                               const struct quant_type *to)
{
    const struct weight as = weight_as(w, to);
    (void)role;
    *(uint64_t *)ctx += padded(as.n_rows * as.row_bytes);
    return HASTEN_OK;
}

uint64_t reweighting_bytes(const struct method_site *site, const struct method_use *u)
{
    uint64_t bytes = 0;
    struct weight output = site->desc->output;
    each_matrix(site->desc->layers, site->desc->n_layer, &output, u, add_bytes, &bytes);
    return bytes + 64; /* kernels may read a little beyond the last row */
}

struct widen_ctx {
    const struct kernels *kernels;
    struct widths *out;
};

static hasten_status widen_one(void *ctx, enum matrix_role role, struct weight *w,
                               const struct quant_type *to)
{
    const struct widen_ctx *c = ctx;
    const struct weight as = weight_as(w, to);
    widen_matrix(c->kernels, &as, c->out);
    if (role == MATRIX_DOWN) /* its input is made in one go */
        widen_size(&c->out->hidden_row, c->kernels->act_row_bytes(c->kernels->form_of(to, w->k), w->k));
    return HASTEN_OK;
}

void reweighting_widen(const struct method_site *site, const struct method_use *u, struct widths *out)
{
    struct weight output = site->desc->output;
    struct widen_ctx c = {site->kernels, out};
    each_matrix(site->desc->layers, site->desc->n_layer, &output, u, widen_one, &c);
}

/* ---- making --------------------------------------------------------------------------------------------------- */

struct make_ctx {
    struct hasten_engine *e;
    struct pool *pool;
    size_t at;
    struct hasten_error *err;
};

static hasten_status make_one(void *ctx, enum matrix_role role, struct weight *w, const struct quant_type *to)
{
    struct make_ctx *c = ctx;
    struct reweighting *r = &c->e->methods.reweighting;
    struct weight as = weight_as(w, to);
    (void)role;
    const hasten_status st =
        r->use->m->weights->make(r->use->knobs, w, to, c->pool, r->memory + c->at, c->err);
    if (st)
        return st;
    as.data = r->memory + c->at;
    c->at += padded(as.n_rows * as.row_bytes);
    *w = as;
    return HASTEN_OK;
}

hasten_status reweighting_open(struct hasten_engine *e, struct hasten_error *err)
{
    struct reweighting *r = &e->methods.reweighting;
    const struct method_site site = method_site_of(e->model, &e->settings);
    struct make_ctx c = {.e = e, .err = err};
    if (!r->use)
        return HASTEN_OK;
    r->bytes = (size_t)reweighting_bytes(&site, r->use);
    r->memory = mem_map(r->bytes);
    if (!r->memory)
        return error_set(err, HASTEN_ERR_MEMORY,
                         "opening the engine: out of memory for %zu bytes of new weights", r->bytes);
    hasten_status st = pool_create(e->settings.n_threads, &c.pool, err);
    if (!st)
        st = each_matrix(e->layers, e->model->desc.n_layer, &e->output, r->use, make_one, &c);
    pool_destroy(c.pool);
    return st;
}

void reweighting_close(struct reweighting *r)
{
    if (r->memory)
        mem_unmap(r->memory, r->bytes);
    *r = (struct reweighting){0};
}

/* ---- encoding ------------------------------------------------------------------------------------------------- */

struct encode_job {
    const struct weight *w;
    struct weight as;
    uint8_t *dst;
    float *rows;         /* [workers × k] */
    _Atomic int64_t bad; /* 1 + the lowest row with a value that is not finite seen; 0: none */
};

static void encode_rows(void *ctx, int64_t begin, int64_t end, int worker)
{
    struct encode_job *j = ctx;
    float *row = j->rows + worker * j->w->k;
    for (int64_t i = begin; i < end; i++) {
        j->w->type->decode(j->w->data + i * j->w->row_bytes, j->w->k, row);
        if (quant_encode(j->as.type, row, j->w->k, NULL, j->dst + i * j->as.row_bytes) >= 0)
            atomic_store(&j->bad, i + 1);
    }
}

hasten_status weights_encode(const struct weight *w, const struct quant_type *type, struct pool *pool,
                             uint8_t *dst, struct hasten_error *err)
{
    struct encode_job j = {.w = w,
                           .as = weight_as(w, type),
                           .dst = dst,
                           .rows = mem_array((size_t)pool_size(pool) * (size_t)w->k, sizeof(float))};
    if (!j.rows)
        return error_set(err, HASTEN_ERR_MEMORY, "making weights: out of memory for a row of %lld",
                         (long long)w->k);
    pool_for(pool, w->n_rows, 8, encode_rows, &j);
    mem_free(j.rows);
    return j.bad ? error_set(err, HASTEN_ERR_NON_FINITE,
                             "making weights: row %lld has a value that is not finite (expected numbers)",
                             (long long)j.bad - 1)
                 : HASTEN_OK;
}
