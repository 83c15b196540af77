/* See overlay.h. An overlay is found by the address of its matrix. Three loops make it: A x over panels and blocks of
 * rows, its rows in the kernels' form, B (A x) over stretches of B's rows and blocks of rows. */
#include "engine/overlay.h"
#include "base/checksum.h"
#include "base/mem.h"
#include "model/lora.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define BLOCK_ROWS 32    /* rows of the pass that one claim takes */
#define STRETCH_ROWS 256 /* rows of B that one claim takes */

struct overlay {
    const struct weight *w;
    struct weight a, b; /* [rank × k], [n_rows × rank], F32 */
};

/* ---- sizes -------------------------------------------------------------------------------------------------- */

/* A matrix of the model in an engine's own copy of it. */
static const struct weight *in_engine(const struct hasten_engine *e, const struct weight *w)
{
    const struct model_desc *d = &e->model->desc;
    if (w == &d->output)
        return &e->output;
    return (const struct weight *)(const void *)((const char *)e->layers +
                                                 ((const char *)w - (const char *)d->layers));
}

/* The sum of ranks of the adapters that change w. */
static int64_t rank_of(const struct hasten_engine_settings *s, const struct weight *w)
{
    int64_t rank = 0;
    for (int32_t i = 0; i < s->n_loras; i++)
        for (int32_t j = 0; j < s->loras[i].lora->n_pairs && s->loras[i].scale != 0.0f; j++)
            rank += s->loras[i].lora->pairs[j].base == w ? s->loras[i].lora->pairs[j].rank : 0;
    return rank;
}

/* What an engine's overlays take. */
struct sizes {
    int32_t n;                      /* matrices */
    size_t floats;                  /* of all A and B, each begun at a multiple of 16 */
    size_t x_row, low_row, scratch; /* bytes: of an input row, of a row of A x, of a worker */
    int64_t rank;                   /* the largest */
};

static size_t at_line(size_t floats)
{
    return (floats + 15) & ~(size_t)15;
}

static struct weight matrix_of(const float *data, int64_t n_rows, int64_t k)
{
    return (struct weight){.type = quant_type_get(QUANT_F32),
                           .data = (const uint8_t *)data,
                           .n_rows = n_rows,
                           .k = k,
                           .row_bytes = k * (int64_t)sizeof(float)};
}

static void size_one(const struct kernels *kn, const struct weight *w, int64_t rank, struct sizes *z)
{
    const struct weight a = matrix_of(NULL, rank, w->k), b = matrix_of(NULL, w->n_rows, rank);
    if (rank == 0)
        return;
    z->n++;
    z->floats += at_line((size_t)(rank * w->k)) + at_line((size_t)(rank * w->n_rows));
    widen_size(&z->x_row, kn->act_row_bytes(kn->form_of(a.type, a.k), a.k));
    widen_size(&z->low_row, kn->act_row_bytes(kn->form_of(b.type, b.k), b.k));
    widen_size(&z->scratch, kn->matmul_scratch_bytes(&a));
    widen_size(&z->scratch, kn->matmul_scratch_bytes(&b));
    widen(&z->rank, rank);
}

static struct sizes sizes_of(const struct hasten_model *m, const struct hasten_engine_settings *s)
{
    struct sizes z = {0};
    const struct kernels *kn = engine_kernels(s);
    if (s->n_loras == 0)
        return z;
    for (int32_t i = 0; i < m->desc.n_layer; i++) {
        const struct weight *w[LAYER_MATRICES];
        const int32_t n = layer_matrices(&m->desc.layers[i], w);
        for (int32_t j = 0; j < n; j++)
            size_one(kn, w[j], rank_of(s, w[j]), &z);
    }
    size_one(kn, &m->desc.output, rank_of(s, &m->desc.output), &z);
    z.scratch = ((z.scratch + 127) & ~(size_t)63) + BLOCK_ROWS * STRETCH_ROWS * sizeof(float);
    return z;
}

static size_t bytes_of(const struct sizes *z, const struct hasten_engine_settings *s)
{
    const size_t rows = (size_t)s->n_batch, low = at_line(rows * (size_t)z->rank);
    return z->n == 0 ? 0
                     : (z->floats + low) * sizeof(float) + rows * (z->x_row + z->low_row) +
                           (size_t)s->n_threads * z->scratch;
}

uint64_t overlays_plan(const struct hasten_model *m, const struct hasten_engine_settings *s)
{
    const struct sizes z = sizes_of(m, s);
    return bytes_of(&z, s) + (uint64_t)z.n * sizeof(struct overlay);
}

hasten_status overlays_check(const struct hasten_model *m, const struct hasten_engine_settings *s,
                             struct hasten_error *err)
{
    for (int32_t i = 0; i < s->n_loras; i++) {
        const struct hasten_lora_use *u = &s->loras[i];
        if (!u->lora || u->lora->model != m)
            return error_set(err, HASTEN_ERR_USAGE,
                             "engine settings: loras[%d]: opened for another model (expected the engine's)",
                             i);
        if (!isfinite(u->scale))
            return error_set(err, HASTEN_ERR_USAGE,
                             "engine settings: loras[%d].scale: found %g (expected a finite number)", i,
                             (double)u->scale);
    }
    return HASTEN_OK;
}

/* ---- opening ------------------------------------------------------------------------------------------------- */

/* Merges the adapters of w into *o; floats at `at`. */
static void merge(const struct hasten_engine_settings *s, const struct weight *w, int64_t rank, float *at,
                  struct overlay *o)
{
    float *a = at, *b = at + at_line((size_t)(rank * w->k));
    int64_t done = 0;
    for (int32_t i = 0; i < s->n_loras; i++)
        for (int32_t j = 0; j < s->loras[i].lora->n_pairs && s->loras[i].scale != 0.0f; j++) {
            const struct lora_pair *p = &s->loras[i].lora->pairs[j];
            if (p->base != w)
                continue;
            const float scale = s->loras[i].scale * p->factor;
            for (int64_t x = 0; x < p->rank * w->k; x++)
                a[done * w->k + x] = scale * p->a[x];
            for (int64_t r = 0; r < w->n_rows; r++)
                memcpy(b + r * rank + done, p->b + r * p->rank, (size_t)p->rank * sizeof *b);
            done += p->rank;
        }
    o->a = matrix_of(a, rank, w->k);
    o->b = matrix_of(b, w->n_rows, rank);
}

static int by_address(const void *x, const void *y)
{
    const uintptr_t a = (uintptr_t)((const struct overlay *)x)->w,
                    b = (uintptr_t)((const struct overlay *)y)->w;
    return (a > b) - (a < b);
}

static float *open_one(struct hasten_engine *e, const struct weight *w, float *at)
{
    const int64_t rank = rank_of(&e->settings, w);
    if (rank == 0)
        return at;
    struct overlay *o = &e->overlays.item[e->overlays.n++];
    o->w = in_engine(e, w);
    merge(&e->settings, w, rank, at, o);
    return at + at_line((size_t)(rank * w->k)) + at_line((size_t)(rank * w->n_rows));
}

hasten_status overlays_open(struct hasten_engine *e, struct hasten_error *err)
{
    struct overlays *v = &e->overlays;
    const struct model_desc *d = &e->model->desc;
    const struct sizes z = sizes_of(e->model, &e->settings);
    const size_t rows = (size_t)e->settings.n_batch;
    v->bytes = bytes_of(&z, &e->settings);
    if (v->bytes == 0)
        return HASTEN_OK;
    v->item = mem_array((size_t)z.n, sizeof *v->item);
    v->memory = mem_map(v->bytes);
    if (!v->item || !v->memory)
        return error_set(err, HASTEN_ERR_MEMORY,
                         "opening the engine: out of memory for %zu bytes of adapters", v->bytes);
    v->x = v->memory;
    v->low_act = v->x + rows * z.x_row;
    v->scratch = v->low_act + rows * z.low_row;
    v->scratch_bytes = z.scratch;
    v->low = (float *)(void *)(v->scratch + (size_t)e->settings.n_threads * z.scratch);
    float *at = v->low + at_line(rows * (size_t)z.rank);
    for (int32_t i = 0; i < d->n_layer; i++) {
        const struct weight *w[LAYER_MATRICES];
        const int32_t n = layer_matrices(&d->layers[i], w);
        for (int32_t j = 0; j < n; j++)
            at = open_one(e, w[j], at);
    }
    open_one(e, &d->output, at);
    qsort(v->item, (size_t)v->n, sizeof *v->item, by_address);
    return HASTEN_OK;
}

void overlays_close(struct hasten_engine *e)
{
    if (e->overlays.memory)
        mem_unmap(e->overlays.memory, e->overlays.bytes);
    mem_free(e->overlays.item);
}

/* ---- adding -------------------------------------------------------------------------------------------------- */

static const struct overlay *find(const struct hasten_engine *e, const struct weight *w)
{
    const struct overlay key = {.w = w};
    return e->overlays.n == 0
               ? NULL
               : bsearch(&key, e->overlays.item, (size_t)e->overlays.n, sizeof key, by_address);
}

static void sum_one(const struct hasten_engine *e, const struct weight *w, int32_t number, struct checksum *c)
{
    const struct overlay *o = find(e, in_engine(e, w));
    if (!o)
        return;
    checksum_add(c, &number, sizeof number);
    checksum_add(c, o->a.data, (size_t)(o->a.n_rows * o->a.row_bytes));
    checksum_add(c, o->b.data, (size_t)(o->b.n_rows * o->b.row_bytes));
}

void overlays_sum(const struct hasten_engine *e, struct checksum *c)
{
    const struct model_desc *d = &e->model->desc;
    for (int32_t i = 0; i < d->n_layer; i++) {
        const struct weight *w[LAYER_MATRICES];
        const int32_t n = layer_matrices(&d->layers[i], w);
        for (int32_t j = 0; j < n; j++)
            sum_one(e, w[j], i * LAYER_MATRICES + j, c);
    }
    sum_one(e, &d->output, -1, c);
}

bool overlay_on(const struct hasten_engine *e, const struct weight *w)
{
    return find(e, w) != NULL;
}

struct adding {
    struct hasten_engine *e;
    const struct overlay *o;
    const float *x;
    float *y;
    int64_t k;
    int32_t n, n_blocks; /* rows of the pass; blocks of them */
};

static struct act rows_of(const struct adding *c, const struct weight *w, const uint8_t *rows, int32_t first)
{
    const struct kernels *kn = c->e->kernels;
    const enum act_form f = kn->form_of(w->type, w->k);
    const size_t stride = kn->act_row_bytes(f, w->k);
    const int32_t left = c->n - first;
    return (struct act){.form = f,
                        .n = left < BLOCK_ROWS ? left : BLOCK_ROWS,
                        .k = w->k,
                        .rows = rows + (size_t)first * stride,
                        .row_stride = stride};
}

static void make_rows(const struct kernels *kn, const struct weight *w, const float *x, int64_t begin,
                      int64_t end, uint8_t *rows)
{
    const enum act_form f = kn->form_of(w->type, w->k);
    for (int64_t i = begin; i < end; i++)
        kn->act_make(f, x + i * w->k, w->k, rows + (size_t)i * kn->act_row_bytes(f, w->k));
}

static void make_x(void *ctx, int64_t begin, int64_t end, int worker)
{
    const struct adding *c = ctx;
    (void)worker;
    make_rows(c->e->kernels, &c->o->a, c->x, begin, end, c->e->overlays.x);
}

static void make_low(void *ctx, int64_t begin, int64_t end, int worker)
{
    const struct adding *c = ctx;
    (void)worker;
    make_rows(c->e->kernels, &c->o->b, c->e->overlays.low, begin, end, c->e->overlays.low_act);
}

static int64_t rows_until(int64_t row1, int64_t n_rows)
{
    return row1 < n_rows ? row1 : n_rows;
}

/* Claim i: a panel of A by a block of rows. */
static void multiply_a(void *ctx, int64_t begin, int64_t end, int worker)
{
    const struct adding *c = ctx;
    const struct overlays *v = &c->e->overlays;
    const struct weight *a = &c->o->a;
    for (int64_t i = begin; i < end; i++) {
        const int32_t first = (int32_t)(i % c->n_blocks) * BLOCK_ROWS;
        const int64_t row0 = i / c->n_blocks * PANEL_ROWS;
        const struct act x = rows_of(c, a, v->x, first);
        c->e->kernels->matmul(a, &x, row0, rows_until(row0 + PANEL_ROWS, a->n_rows),
                              v->low + first * a->n_rows, a->n_rows,
                              v->scratch + (size_t)worker * v->scratch_bytes);
    }
}

/* Claim i: a stretch of B by a block of rows. */
static void add_b(void *ctx, int64_t begin, int64_t end, int worker)
{
    const struct adding *c = ctx;
    const struct overlays *v = &c->e->overlays;
    const struct weight *b = &c->o->b;
    float *tile = (float *)(void *)(v->scratch + (size_t)worker * v->scratch_bytes);
    uint8_t *scratch = (uint8_t *)(tile + BLOCK_ROWS * STRETCH_ROWS);
    for (int64_t i = begin; i < end; i++) {
        const int32_t first = (int32_t)(i % c->n_blocks) * BLOCK_ROWS;
        const int64_t row0 = i / c->n_blocks * STRETCH_ROWS,
                      row1 = rows_until(row0 + STRETCH_ROWS, b->n_rows);
        const struct act low = rows_of(c, b, v->low_act, first);
        c->e->kernels->matmul(b, &low, row0, row1, tile - row0, STRETCH_ROWS, scratch);
        for (int64_t r = 0; r < low.n; r++)
            c->e->kernels->add(tile + r * STRETCH_ROWS, row1 - row0, c->y + (first + r) * b->n_rows + row0);
    }
}

static int64_t pieces(int64_t n, int64_t of)
{
    return (n + of - 1) / of;
}

void overlays_add(struct hasten_engine *e, const float *x, int64_t k, int32_t n, const struct linear *lin,
                  int32_t n_lin)
{
    struct adding c = {.e = e, .x = x, .k = k, .n = n, .n_blocks = (int32_t)pieces(n, BLOCK_ROWS)};
    bool made = false;
    for (int32_t j = 0; j < n_lin; j++) {
        c.o = find(e, lin[j].w);
        c.y = lin[j].y;
        if (!c.o)
            continue;
        const struct weight *a = &c.o->a, *b = &c.o->b;
        if (!made)
            pool_for(e->pool, n, 4, make_x, &c);
        made = true;
        pool_for(e->pool, pieces(a->n_rows, PANEL_ROWS) * c.n_blocks, 1, multiply_a, &c);
        pool_for(e->pool, n, 16, make_low, &c);
        pool_for(e->pool, pieces(b->n_rows, STRETCH_ROWS) * c.n_blocks, 1, add_b, &c);
        e->counters.weight_bytes += (uint64_t)(a->n_rows * a->row_bytes + b->n_rows * b->row_bytes);
    }
}
