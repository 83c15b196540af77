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
    const size_t flags = (rows + 63) & ~(size_t)63, ids = rows * sizeof(int32_t);
    if (!out->gate)
        return 0;
    const size_t guesses = out->gate->m->depth->foresees ? ids * (size_t)site->desc->n_layer : 0;
    if (memory) {
        out->saved = (float *)(void *)memory;
        out->left = memory + saved;
        out->guesses = (int32_t *)(void *)(memory + saved + flags);
        out->leaves = (int32_t *)(void *)(memory + saved + flags + guesses);
    }
    return saved + flags + guesses + (guesses ? ids : 0);
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

static int32_t likeliest(const float *logits, int32_t n)
{
    int32_t best = 0;
    for (int32_t i = 1; i < n; i++)
        best = logits[i] > logits[best] ? i : best;
    return best;
}

bool depth_foresees(const struct hasten_engine *e)
{
    const struct deepening *d = &e->methods.deepening;
    bool any = false;
    for (int32_t i = 0; d->gate && d->gate->m->depth->foresees && i < e->pass.n_rows; i++)
        any |= may_leave(e, i);
    return any;
}

bool depth_ends_pass(const struct hasten_engine *e, const struct hasten_seq *s, int32_t pos)
{
    const struct deepening *d = &e->methods.deepening;
    return d->gate && d->gate->m->depth->foresees && s->n_prompt >= 0 && pos >= s->n_prompt;
}

/* The first run is over: buf.x is what the head reads at the end. */
void depth_foreseen(struct hasten_engine *e)
{
    struct deepening *d = &e->methods.deepening;
    const struct model_desc *m = &e->model->desc;
    for (int32_t i = 0; i < e->pass.n_rows; i++) {
        int32_t at = m->n_layer;
        if (may_leave(e, i)) {
            forward_logits(e, &i, 1);
            const int32_t own = likeliest(e->buf.logits, m->n_vocab);
            for (int32_t layer = m->n_layer - 1; layer >= 0; layer--)
                if (d->gate->m->depth->looks(d->gate->state, layer, m->n_layer) &&
                    d->guesses[(int64_t)i * m->n_layer + layer] == own)
                    at = layer;
        }
        d->leaves[i] = at;
    }
    d->recording = false;
}

/* What the head says of n rows, whose logits are there. */
static void judge(struct hasten_engine *e, const int32_t *rows, int32_t n, int32_t layer)
{
    struct deepening *d = &e->methods.deepening;
    const struct model_desc *m = &e->model->desc;
    for (int32_t i = 0; i < n; i++) {
        const float *logits = e->buf.logits + (int64_t)i * m->n_vocab;
        if (d->recording) {
            d->guesses[(int64_t)rows[i] * m->n_layer + layer] = likeliest(logits, m->n_vocab);
        } else if (d->gate->m->depth->leaves(d->gate->state, logits, m->n_vocab)) {
            d->left[rows[i]] = 1;
            d->n_left++;
        }
    }
}

/* The second run of a gate that foresees. */
static void leave_as_foreseen(struct hasten_engine *e, int32_t layer)
{
    struct deepening *d = &e->methods.deepening;
    for (int32_t i = 0; i < e->pass.n_rows; i++)
        if (may_leave(e, i) && d->leaves[i] == layer) {
            d->left[i] = 1;
            d->n_left++;
        }
}

void depth_gate(struct hasten_engine *e, int32_t layer)
{
    struct deepening *d = &e->methods.deepening;
    int32_t rows[ENGINE_MAX_LOGITS];
    if (!d->gate || !d->gate->m->depth->looks(d->gate->state, layer, e->model->desc.n_layer))
        return;
    if (d->gate->m->depth->foresees && !d->recording) {
        leave_as_foreseen(e, layer);
        return;
    }
    for (int32_t at = 0; at < e->pass.n_rows;) {
        int32_t n = 0;
        for (; at < e->pass.n_rows && n < e->settings.n_logits; at++)
            if (may_leave(e, at))
                rows[n++] = at;
        if (n)
            forward_logits(e, rows, n);
        judge(e, rows, n, layer);
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
