/* The forward pass of a scripted model (model/script.h). The KV page of a position holds its struct script_state
 * instead of a key; it is made of that of the position before, and tokens are looked up in the pages, never in the
 * sequence: what is wrong in the pages shows in the logits. */
#include "engine/engine.h"
#include "model/script.h"
#include <string.h>

_Static_assert(sizeof(struct script_state) * KV_PAGE <= (size_t)KV_PAGE * 32,
               "a page of keys in the smallest form");

static uint8_t *place_of(const struct hasten_engine *e, const struct hasten_seq *s, int32_t pos)
{
    const int64_t block = s->kv.table[(int64_t)(pos / KV_PAGE) * e->kv.n_lanes];
    return e->kv.base + (size_t)block * e->kv.block_bytes +
           (size_t)(pos % KV_PAGE) * sizeof(struct script_state);
}

struct lookup {
    const struct hasten_engine *e;
    const struct hasten_seq *s;
};

static struct script_state state_at(const struct lookup *l, int32_t pos)
{
    struct script_state state;
    memcpy(&state, place_of(l->e, l->s, pos), sizeof state);
    return state;
}

static int32_t token_at(const void *ctx, int32_t pos)
{
    return state_at(ctx, pos).token;
}

hasten_status scripted_pass(struct hasten_engine *e, const volatile int *cancel, struct hasten_error *err)
{
    const struct pass *p = &e->pass;
    for (int32_t i = 0; i < p->n_rows; i++) {
        const struct lookup l = {e, p->seq[i]};
        const int32_t pos = p->pos[i];
        struct script_state before;
        if (cancel && *cancel)
            return error_set(err, HASTEN_ERR_CANCELLED, "running a step: cancelled at row %d of %d", i,
                             p->n_rows);
        if (pos > 0)
            before = state_at(&l, pos - 1);
        const struct script_state state =
            script_next(e->model->script, pos > 0 ? &before : NULL, pos, p->token[i], token_at, &l);
        memcpy(place_of(e, p->seq[i], pos), &state, sizeof state);
    }
    e->counters.passes++;
    e->counters.rows += (uint64_t)p->n_rows;
    return HASTEN_OK;
}

void scripted_head(struct hasten_engine *e, int32_t first, int32_t n)
{
    const int64_t n_vocab = e->model->desc.n_vocab;
    for (int32_t i = 0; i < n; i++) {
        const int32_t row = e->pass.head_row[first + i], pos = e->pass.pos[row];
        const struct lookup l = {e, e->pass.seq[row]};
        const struct script_state state = state_at(&l, pos);
        script_logits(e->model->script, &state, pos, token_at, &l, e->buf.logits + i * n_vocab);
    }
    e->counters.head_rows += (uint64_t)n;
}
