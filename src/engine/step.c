/* A step: checks the items, makes room for all of them or none, cuts them into passes of at most n_batch rows,
 * hands out logits. On failure every sequence is as long as before. */
#include "engine/engine.h"

static hasten_status check_item(const struct hasten_engine *e, const struct hasten_item *items, int32_t i,
                                struct hasten_error *err)
{
    const struct hasten_item *it = &items[i];
    const int32_t n_vocab = e->model->desc.n_vocab;
    if (!it->seq || !it->seq->open || it->seq->engine != e)
        return error_set(err, HASTEN_ERR_USAGE,
                         "running a step: item %d: found no open sequence of this engine", i);
    for (int32_t j = 0; j < i; j++)
        if (items[j].seq == it->seq)
            return error_set(
                err, HASTEN_ERR_USAGE,
                "running a step: items %d and %d name the same sequence (expected one item each)", j, i);
    if (it->n < 1 || it->want_from < 0 || it->want_from > it->n)
        return error_set(
            err, HASTEN_ERR_USAGE,
            "running a step: item %d: found %d tokens, want_from %d (expected at least 1, 0 to n)", i, it->n,
            it->want_from);
    for (int32_t j = 0; j < it->n; j++)
        if (it->tokens[j] < 0 || it->tokens[j] >= n_vocab)
            return error_set(err, HASTEN_ERR_USAGE,
                             "running a step: item %d, token %d: found id %d (expected 0 to %d)", i, j,
                             it->tokens[j], n_vocab - 1);
    if (it->n > e->settings.n_ctx - it->seq->length)
        return error_set(err, HASTEN_ERR_FULL,
                         "running a step: item %d: the context holds %d positions of %d, %d more do not fit",
                         i, it->seq->length, e->settings.n_ctx, it->n);
    return HASTEN_OK;
}

static hasten_status make_room(struct hasten_engine *e, const struct hasten_item *items, int32_t n_items,
                               struct hasten_error *err)
{
    int64_t need = 0;
    for (int32_t i = 0; i < n_items; i++)
        need += kv_need(&e->kv, &items[i].seq->kv, items[i].seq->length, items[i].n);
    if (need > e->kv.n_free)
        return error_set(
            err, HASTEN_ERR_FULL,
            "running a step: the pool has %lld free KV pages, %lld are needed (expected a larger kv_positions)",
            (long long)e->kv.n_free, (long long)need);
    for (int32_t i = 0; i < n_items; i++) {
        struct hasten_seq *s = items[i].seq;
        kv_extend(&e->kv, &s->kv, s->length, items[i].n);
        for (int32_t j = 0; j < items[i].n; j++)
            s->tokens[s->length + j] = items[i].tokens[j];
        s->length += items[i].n;
    }
    return HASTEN_OK;
}

static void take_back(struct hasten_engine *e, const struct hasten_item *items, int32_t n_items)
{
    for (int32_t i = 0; i < n_items; i++) {
        items[i].seq->length -= items[i].n;
        kv_shrink(&e->kv, &items[i].seq->kv, items[i].seq->length);
    }
}

/* Where a step stands: next row of the next item. */
struct cursor {
    int32_t item, row;
};

/* Fills e->pass with as many rows as fit, from the cursor on. */
static void compose_pass(struct hasten_engine *e, const struct hasten_item *items, int32_t n_items,
                         struct cursor *c)
{
    struct pass *p = &e->pass;
    p->n_rows = p->n_blocks = p->n_head = 0;
    while (c->item < n_items && p->n_rows < e->settings.n_batch) {
        const struct hasten_item *it = &items[c->item];
        const int32_t pos = it->seq->length - it->n + c->row;
        struct row_block *b = p->n_blocks ? &p->blocks[p->n_blocks - 1] : NULL;
        if (!b || b->seq != it->seq || b->n_rows == ATTN_BLOCK_ROWS) {
            b = &p->blocks[p->n_blocks++];
            *b = (struct row_block){.seq = it->seq, .first_row = p->n_rows, .first_pos = pos};
        }
        b->n_rows++;
        if (c->row >= it->want_from) {
            p->head[p->n_head] = (struct hasten_logits_row){c->item, c->row};
            p->head_row[p->n_head++] = p->n_rows;
        }
        p->token[p->n_rows] = it->tokens[c->row];
        p->pos[p->n_rows] = pos;
        p->seq[p->n_rows++] = it->seq;
        if (++c->row == it->n)
            *c = (struct cursor){c->item + 1, 0};
    }
}

/* Logits of the pass, n_logits rows at a time. Returns false once the sink wants no more. */
static bool deliver(struct hasten_engine *e, hasten_logits_fn sink, void *sink_ctx)
{
    for (int32_t first = 0; first < e->pass.n_head; first += e->settings.n_logits) {
        const int32_t left = e->pass.n_head - first,
                      n = left < e->settings.n_logits ? left : e->settings.n_logits;
        forward_head(e, first, n);
        if (sink(sink_ctx, e->buf.logits, e->pass.head + first, n, e->model->desc.n_vocab))
            return false;
    }
    return true;
}

hasten_status hasten_step(struct hasten_engine *e, const struct hasten_item *items, int32_t n_items,
                          hasten_logits_fn sink, void *sink_ctx, const volatile int *cancel,
                          struct hasten_error *err)
{
    hasten_status st = HASTEN_OK;
    for (int32_t i = 0; i < n_items; i++)
        if ((st = check_item(e, items, i, err)))
            return st;
    if ((st = make_room(e, items, n_items, err)))
        return st;
    bool wanted = sink != NULL;
    struct cursor c = {0, 0};
    while (c.item < n_items) {
        compose_pass(e, items, n_items, &c);
        if ((st = forward_pass(e, cancel, err))) {
            take_back(e, items, n_items);
            return st;
        }
        wanted = wanted && deliver(e, sink, sink_ctx);
    }
    return HASTEN_OK;
}
