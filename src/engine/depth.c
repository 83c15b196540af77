/* The driver of the stage depth: see depth.h. A pass in which only some rows have left runs its layers for all of them
 * and gives those rows their residual stream back: a row's values depend on nothing but itself, so the keys and values
 * that are stored for them are those of the filling. */
#include "engine/depth.h"
#include "engine/engine.h"
#include <string.h>

size_t deepening_bytes(const struct method_site *site, struct deepening *out, uint8_t *memory)
{
    const size_t rows = (size_t)site->settings->n_batch, d = (size_t)site->desc->d_model;
    const size_t saved = (rows * d * sizeof(float) + 63) & ~(size_t)63;
    if (!out->gate)
        return 0;
    if (memory) {
        out->saved = (float *)(void *)memory;
        out->left = memory + saved;
    }
    return saved + rows;
}

void depth_begin(struct hasten_engine *e)
{
    struct deepening *d = &e->methods.deepening;
    if (!d->gate)
        return;
    d->n_left = 0;
    memset(d->left, 0, (size_t)e->pass.n_rows);
}

/* The row may leave: it is still here, and its sequence's prompt is known to be over. */
static bool may_leave(const struct hasten_engine *e, int32_t row)
{
    const int32_t n_prompt = e->pass.seq[row]->n_prompt;
    return !e->methods.deepening.left[row] && n_prompt >= 0 && e->pass.pos[row] >= n_prompt;
}

void depth_gate(struct hasten_engine *e, int32_t layer)
{
    struct deepening *d = &e->methods.deepening;
    const struct model_desc *m = &e->model->desc;
    int32_t rows[ENGINE_MAX_LOGITS];
    if (!d->gate || !d->gate->m->depth->looks(d->gate->state, layer, m->n_layer))
        return;
    for (int32_t at = 0; at < e->pass.n_rows;) {
        int32_t n = 0;
        for (; at < e->pass.n_rows && n < e->settings.n_logits; at++)
            if (may_leave(e, at))
                rows[n++] = at;
        if (n)
            forward_logits(e, rows, n);
        for (int32_t i = 0; i < n; i++)
            if (d->gate->m->depth->leaves(d->gate->state, e->buf.logits + (int64_t)i * m->n_vocab,
                                          m->n_vocab)) {
                d->left[rows[i]] = 1;
                d->n_left++;
            }
    }
}

/* The residual streams of rows that left, aside or back. */
static void move_left(struct hasten_engine *e, bool back)
{
    const struct deepening *d = &e->methods.deepening;
    const int64_t n = e->model->desc.d_model;
    for (int32_t i = 0; d->gate && d->n_left && i < e->pass.n_rows; i++) {
        float *x = e->buf.x + i * n, *saved = d->saved + i * n;
        if (d->left[i])
            memcpy(back ? x : saved, back ? saved : x, (size_t)n * sizeof *x);
    }
}

void depth_keep(struct hasten_engine *e)
{
    move_left(e, false);
}

void depth_restore(struct hasten_engine *e)
{
    move_left(e, true);
}
