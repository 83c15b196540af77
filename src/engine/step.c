/* A step: checks the items, makes room for all of them or none, cuts them into passes of at most n_batch rows,
 * hands out logits. On failure every sequence is as long as before. What a step computes is a stretch of positions of
 * each sequence, or two (plan_item). */
#include "engine/engine.h"
#include "engine/store.h"

/* Rows of floats in place of tokens: nothing could compute them again. */
static hasten_status check_soft(const struct hasten_engine *e, const struct hasten_item *it, int32_t i,
                                struct hasten_error *err)
{
    const char *with = e->model->script             ? "a scripted model"
                       : e->model->desc.encoder     ? "an encoder"
                       : e->model->desc.rope_switch ? "a model that rotates long sequences anew (LongRoPE)"
                       : e->methods.caching.use     ? "a method that takes entries out of the cache"
                                                    : NULL;
    if (it->tokens)
        return error_set(err, HASTEN_ERR_USAGE,
                         "running a step: item %d: found tokens and soft input (expected one of them)", i);
    if (with)
        return error_set(err, HASTEN_ERR_UNSUPPORTED,
                         "running a step: item %d: soft input is unsupported with %s", i, with);
    return HASTEN_OK;
}

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
    if (it->n > e->settings.n_ctx - it->seq->length)
        return error_set(err, HASTEN_ERR_FULL,
                         "running a step: item %d: the context holds %d positions of %d, %d more do not fit",
                         i, it->seq->length, e->settings.n_ctx, it->n);
    if (it->n < 1 || it->want_from < 0 || it->want_from > it->n)
        return error_set(
            err, HASTEN_ERR_USAGE,
            "running a step: item %d: found %d tokens, want_from %d (expected at least 1, 0 to n)", i, it->n,
            it->want_from);
    if (it->embd)
        return check_soft(e, it, i, err);
    if (!it->tokens)
        return error_set(err, HASTEN_ERR_USAGE,
                         "running a step: item %d: found neither tokens nor soft input", i);
    for (int32_t j = 0; j < it->n; j++)
        if (it->tokens[j] < 0 || it->tokens[j] >= n_vocab)
            return error_set(err, HASTEN_ERR_USAGE,
                             "running a step: item %d, token %d: found id %d (expected 0 to %d)", i, j,
                             it->tokens[j], n_vocab - 1);
    return HASTEN_OK;
}

/* What an item has to compute. Most often the positions it appends. A model with LongRoPE answers at position p as one
 * that is given p + 1 tokens: rotated for long sequences if they are more than rope_switch, for short ones if not.
 * So a sequence that grows longer is computed again from its first token, and so is one that was cut back; positions
 * below the switch are computed for short sequences only where the logits of one are wanted. */
static void plan_item(const struct hasten_engine *e, const struct hasten_item *it, bool wanted)
{
    struct hasten_seq *s = it->seq;
    const int32_t to = s->length + it->n, at = e->model->desc.rope_switch;
    s->old_length = s->length;
    s->reached = s->n_kv;
    s->wanted_from = wanted ? s->length + it->want_from : to;
    s->n_todo = 0;
    bool beyond = s->beyond;
    int32_t n_kv = s->n_kv;
    if (!at || to <= at || s->wanted_from < at) {
        s->todo[s->n_todo++] = (struct stretch){beyond ? 0 : n_kv, at && to > at ? at : to, false};
        n_kv = to;
        beyond = false;
    }
    if (at && to > at)
        s->todo[s->n_todo++] = (struct stretch){beyond ? n_kv : 0, to, true};
}

/* The first position that a step writes. */
static int32_t first_written(const struct hasten_seq *s)
{
    const int32_t a = s->todo[0].from, b = s->todo[s->n_todo - 1].from;
    return a < b ? a : b;
}

static int64_t pages_needed(const struct hasten_engine *e, const struct hasten_item *it)
{
    const int32_t from = first_written(it->seq), to = it->seq->length + it->n;
    return kv_need(&e->kv, &it->seq->kv, from, to) + cache_need(e, it->seq, from, to);
}

static int64_t pages_of_all(const struct hasten_engine *e, const struct hasten_item *items, int32_t n_items)
{
    int64_t need = 0;
    for (int32_t i = 0; i < n_items; i++)
        need += pages_needed(e, &items[i]);
    return need;
}

int64_t step_need(struct hasten_engine *e, const struct hasten_item *it)
{
    plan_item(e, it, true);
    return pages_needed(e, it);
}

static hasten_status make_room(struct hasten_engine *e, const struct hasten_item *items, int32_t n_items,
                               bool wanted, struct hasten_error *err)
{
    for (int32_t i = 0; i < n_items; i++)
        plan_item(e, &items[i], wanted);
    int64_t need = pages_of_all(e, items, n_items);
    if (need > e->kv.n_free && !store_make_room(e->store, need)) /* a store gives up what nobody uses; then */
        need = pages_of_all(e, items, n_items);                  /* fewer pages are shared, and copied */
    if (need > e->kv.n_free)
        return error_set(
            err, HASTEN_ERR_FULL,
            "running a step: the pool has %lld free KV pages, %lld are needed (expected a larger kv_positions)",
            (long long)e->kv.n_free, (long long)need);
    for (int32_t i = 0; i < n_items; i++) {
        struct hasten_seq *s = items[i].seq;
        kv_extend(&e->kv, &s->kv, first_written(s), s->length + items[i].n);
        s->next_act = cache_next(e, s, first_written(s));
        const int32_t d = e->model->desc.d_model;
        for (int32_t j = 0; j < items[i].n; j++)
            s->tokens[s->length + j] =
                items[i].embd ? hasten_soft_tag(items[i].embd + (int64_t)j * d, d) : items[i].tokens[j];
        s->embd = items[i].embd;
        s->mask = items[i].mask;
        s->length += items[i].n;
    }
    return HASTEN_OK;
}

static void take_back(struct hasten_engine *e, const struct hasten_item *items, int32_t n_items)
{
    for (int32_t i = 0; i < n_items; i++) {
        struct hasten_seq *s = items[i].seq;
        s->length = s->old_length;
        const int32_t held = kv_shrink(&e->kv, &s->kv, s->length);
        s->n_kv = s->n_kv < held ? s->n_kv : held;
        s->n_lead = s->n_lead < s->n_kv ? s->n_lead : s->n_kv;
        method_seq_truncate(e, s, s->length);
    }
}

/* Where a step stands: next position of a stretch of the next item. */
struct cursor {
    int32_t item, stretch, pos;
};

static struct cursor cursor_at(const struct hasten_item *items, int32_t n_items, int32_t item)
{
    return (struct cursor){item, 0, item < n_items ? items[item].seq->todo[0].from : 0};
}

/* One row of the pass: position pos of item `item`. */
static void add_row(struct hasten_engine *e, struct hasten_seq *s, int32_t item, int32_t pos)
{
    struct pass *p = &e->pass;
    struct row_block *b = p->n_blocks ? &p->blocks[p->n_blocks - 1] : NULL;
    if (!b || b->seq != s || b->n_rows == ATTN_BLOCK_ROWS) {
        b = &p->blocks[p->n_blocks++];
        *b = (struct row_block){.seq = s,
                                .first_row = p->n_rows,
                                .first_pos = pos,
                                .whole = e->model->desc.encoder ? s->length : 0};
    }
    b->n_rows++;
    if (pos >= s->wanted_from && (!s->beyond || pos >= e->model->desc.rope_switch)) {
        p->head[p->n_head] = (struct hasten_logits_row){item, pos - s->old_length};
        p->head_row[p->n_head++] = p->n_rows;
    }
    p->token[p->n_rows] = s->tokens[pos];
    p->pos[p->n_rows] = pos;
    p->seq[p->n_rows++] = s;
    s->reached = pos + 1;
}

/* Fills e->pass with as many rows as fit, from the cursor on. A pass ends where a sequence changes its rotation, and
 * where a method of the stage cache acts on one, or an oracle of the stage depth wants rows one by one. */
static void compose_pass(struct hasten_engine *e, const struct hasten_item *items, int32_t n_items,
                         struct cursor *c)
{
    struct pass *p = &e->pass;
    p->n_rows = p->n_blocks = p->n_head = 0;
    while (c->item < n_items && p->n_rows < e->settings.n_batch) {
        struct hasten_seq *s = items[c->item].seq;
        const struct stretch *t = &s->todo[c->stretch];
        if (s->beyond != t->beyond) {
            s->beyond = t->beyond;
            s->n_kv = 0;
        }
        add_row(e, s, c->item, c->pos);
        const bool ends = depth_ends_pass(e, s, c->pos), acts = ++c->pos == s->next_act || ends;
        if (c->pos < t->to && acts)
            return;
        if (c->pos < t->to)
            continue;
        if (++c->stretch < s->n_todo) {
            c->pos = s->todo[c->stretch].from;
            return;
        }
        *c = cursor_at(items, n_items, c->item + 1);
        if (acts)
            return;
    }
}

/* Positions [from, to) were computed: as an announced prompt's, below n_prompt. */
static void note_lead(struct hasten_seq *s, int32_t from, int32_t to)
{
    const int32_t end = to < s->n_prompt ? to : s->n_prompt;
    if (s->n_lead >= from)
        s->n_lead = end > from ? end : from;
}

/* The rows of the pass are in their sequences' pages. */
static void note_reached(struct hasten_engine *e, const struct hasten_item *items, int32_t n_items,
                         int32_t first, int32_t last)
{
    for (int32_t i = first; i <= last && i < n_items; i++) {
        struct hasten_seq *s = items[i].seq;
        note_lead(s, s->n_kv, s->reached);
        s->n_kv = s->reached;
        if (s->n_kv == s->next_act)
            cache_act(e, s, s->n_kv);
    }
}

hasten_status engine_run(struct hasten_engine *e, const struct hasten_item *items, int32_t n_items,
                         pass_fn after, void *ctx, const volatile int *cancel, struct hasten_error *err)
{
    hasten_status st = HASTEN_OK;
    for (int32_t i = 0; i < n_items; i++)
        if ((st = check_item(e, items, i, err)))
            return st;
    bool wanted = after != NULL;
    if ((st = make_room(e, items, n_items, wanted, err)))
        return st;
    struct cursor c = cursor_at(items, n_items, 0);
    while (c.item < n_items) {
        const int32_t first = c.item;
        compose_pass(e, items, n_items, &c);
        packing_advance(e, e->pass.n_rows);
        st = e->model->desc.encoder ? encode_pass(e, cancel, err) : forward_pass(e, cancel, err);
        if (st) {
            take_back(e, items, n_items);
            return st;
        }
        note_reached(e, items, n_items, first, c.item);
        wanted = wanted && after(e, ctx);
    }
    return HASTEN_OK;
}

/* Who receives the logits of a step. */
struct receiver {
    hasten_logits_fn sink;
    void *ctx;
};

/* Logits of the pass, n_logits rows at a time. Returns false once the sink wants no more. */
static bool deliver(struct hasten_engine *e, void *ctx)
{
    const struct receiver *to = ctx;
    for (int32_t first = 0; first < e->pass.n_head; first += e->settings.n_logits) {
        const int32_t left = e->pass.n_head - first,
                      n = left < e->settings.n_logits ? left : e->settings.n_logits;
        forward_head(e, first, n);
        if (to->sink(to->ctx, e->buf.logits, e->pass.head + first, n, e->model->desc.n_vocab))
            return false;
    }
    return true;
}

hasten_status hasten_step(struct hasten_engine *e, const struct hasten_item *items, int32_t n_items,
                          hasten_logits_fn sink, void *sink_ctx, const volatile int *cancel,
                          struct hasten_error *err)
{
    struct receiver to = {sink, sink_ctx};
    if (e->model->desc.encoder)
        return error_set(err, HASTEN_ERR_UNSUPPORTED,
                         "running a step: unsupported with an encoder (%s), which has no logits (expected "
                         "hasten_embed, the command embed)",
                         e->model->desc.arch);
    return engine_run(e, items, n_items, sink ? deliver : NULL, &to, cancel, err);
}
