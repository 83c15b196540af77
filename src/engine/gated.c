/* The gated feed-forward block for many rows: gate, up, activation and quantisation of a square of the hidden
 * layer by one worker, while it lies in the second-level cache. The hidden layer's floats, the largest
 * activations of a pass, so never travel to memory and back; what is written is the quantised input of the last
 * matrix. The operations on each value are those of linear_group and the activation kernels: the same bits. */
#include "engine/engine.h"

#define SQUARE_ROWS 256    /* of the matrices: a block of quantised activations */
#define SQUARE_COLUMNS 256 /* rows of the pass, at most */
#define MIN_ROWS 32        /* rows of a pass from which on this pays */

struct gated {
    struct hasten_engine *e;
    const struct layer *l;
    enum act_form form; /* of the hidden layer */
    int32_t n, columns; /* rows of the pass; of a square */
    int64_t n_column_blocks;
};

size_t gated_scratch_bytes(void)
{
    return (size_t)2 * SQUARE_ROWS * SQUARE_COLUMNS * sizeof(float);
}

static enum act_form hidden_form(const struct hasten_engine *e, const struct layer *l)
{
    return e->kernels->form_of(l->w_down.type, l->w_down.k);
}

static void multiply_square(const struct gated *g, const struct weight *w, int64_t row0, int64_t row1,
                            int32_t first, int32_t n, float *y, void *scratch)
{
    const struct kernels *kn = g->e->kernels;
    const enum act_form f = kn->form_of(w->type, w->k);
    const size_t stride = kn->act_row_bytes(f, w->k);
    const struct act a = {.form = f,
                          .n = n,
                          .k = w->k,
                          .rows = g->e->buf.act[f] + (size_t)first * stride,
                          .row_stride = stride};
    weight_multiply(kn, w, &a, row0, row1, y - row0, SQUARE_ROWS, scratch);
}

/* Bytes that a whole block of SQUARE_ROWS values takes in a row of activations. */
static size_t block_bytes(const struct gated *g)
{
    return g->e->kernels->act_row_bytes(g->form, SQUARE_ROWS);
}

static void make_square(const struct gated *g, int64_t block, int32_t first, int32_t n, uint8_t *scratch)
{
    const struct kernels *kn = g->e->kernels;
    const int64_t row0 = block * SQUARE_ROWS, left = g->l->d_ff - row0,
                  rows = left < SQUARE_ROWS ? left : SQUARE_ROWS;
    const size_t stride = kn->act_row_bytes(g->form, g->l->d_ff);
    float *gate = (float *)(void *)scratch, *up = gate + SQUARE_ROWS * SQUARE_COLUMNS;
    uint8_t *dst = g->e->buf.hidden + (size_t)first * stride + (size_t)block * block_bytes(g);
    multiply_square(g, &g->l->w_gate, row0, row0 + rows, first, n, gate, scratch + gated_scratch_bytes());
    multiply_square(g, &g->l->w_up, row0, row0 + rows, first, n, up, scratch + gated_scratch_bytes());
    for (int32_t i = 0; i < n; i++, gate += SQUARE_ROWS, up += SQUARE_ROWS, dst += stride) {
        engine_activate(kn, g->l->ffn, gate, up, rows);
        kn->act_make(g->form, gate, rows, dst);
    }
}

static void make_squares(void *ctx, int64_t begin, int64_t end, int worker)
{
    const struct gated *g = ctx;
    uint8_t *scratch = g->e->buf.scratch + (size_t)worker * g->e->buf.scratch_bytes;
    for (int64_t i = begin; i < end; i++) {
        const int32_t first = (int32_t)(i % g->n_column_blocks) * g->columns;
        const int32_t left = g->n - first;
        make_square(g, i / g->n_column_blocks, first, left < g->columns ? left : g->columns, scratch);
    }
}

bool gated_pays(const struct hasten_engine *e, int32_t n)
{
    return n >= MIN_ROWS && !e->taps.linear_input;
}

/* Rows of the pass in a square: as many as fit the scratch, fewer where the workers would lack squares. */
static int32_t square_columns(const struct hasten_engine *e, int64_t n_blocks, int32_t n)
{
    int32_t columns = SQUARE_COLUMNS;
    while (columns > MIN_ROWS && n_blocks * ((n + columns - 1) / columns) < 8 * e->settings.n_threads)
        columns /= 2;
    return columns;
}

void linear_gated(struct hasten_engine *e, const struct linear_input *in, int32_t n, const struct layer *l)
{
    const int64_t n_blocks = (l->d_ff + SQUARE_ROWS - 1) / SQUARE_ROWS;
    struct gated g = {.e = e, .l = l, .form = hidden_form(e, l), .n = n};
    const struct linear gate_up[] = {{&l->w_gate, NULL}, {&l->w_up, NULL}};
    linear_prepare(e, in, n, gate_up, 2);
    for (int j = 0; j < 2; j++)
        e->counters.weight_bytes += (uint64_t)gate_up[j].w->n_rows * (uint64_t)gate_up[j].w->row_bytes;
    g.columns = square_columns(e, n_blocks, n);
    g.n_column_blocks = (n + g.columns - 1) / g.columns;
    pool_for(e->pool, n_blocks * g.n_column_blocks, 1, make_squares, &g);
}
