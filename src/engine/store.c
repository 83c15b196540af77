/* The driver of the stage store (store.h). */
#include "engine/store.h"
#include "engine/engine.h"
#include <string.h>

struct store {
    struct hasten_engine *engine;
    const struct store_ops *ops; /* NULL: nothing is kept */
    void *kept;                  /* of the method */
    uint64_t queries, asked_tokens, given;
};

static const struct method_use *method_of(const struct hasten_engine *e)
{
    for (int32_t i = 0; i < e->methods.n; i++)
        if (e->methods.use[i].m->stage == STAGE_STORE)
            return &e->methods.use[i];
    return NULL;
}

hasten_status store_open(struct hasten_engine *e, struct store **out, struct hasten_error *err)
{
    const struct method_use *u = method_of(e);
    if (e->store)
        return error_set(err, HASTEN_ERR_USAGE,
                         "opening a store: the engine has one (expected it to be closed first)");
    struct store *s = mem_calloc(1, sizeof *s);
    if (!s)
        return error_set(err, HASTEN_ERR_MEMORY, "opening a store: out of memory");
    s->engine = e;
    const struct store_ops *ops = u ? u->m->hosted : NULL;
    const hasten_status st = ops ? ops->open(e, u->state, &s->kept, err) : HASTEN_OK;
    if (st) {
        mem_free(s);
        return st;
    }
    s->ops = ops;
    e->store = s;
    *out = s;
    return HASTEN_OK;
}

void store_close(struct store *s)
{
    if (!s)
        return;
    s->engine->store = NULL;
    if (s->ops)
        s->ops->close(s->kept);
    mem_free(s);
}

hasten_status store_take(struct store *s, uint64_t scope, const int32_t *ids, int64_t n,
                         struct hasten_seq **out, struct hasten_error *err)
{
    if (n < 1)
        return error_set(err, HASTEN_ERR_USAGE, "taking a sequence: found %lld tokens (expected at least 1)",
                         (long long)n);
    s->queries++;
    s->asked_tokens += (uint64_t)n;
    return s->ops ? s->ops->take(s->kept, scope, ids, n, out, err) : hasten_seq_open(s->engine, out, err);
}

void store_give(struct store *s, uint64_t scope, struct hasten_seq *seq)
{
    if (!seq)
        return;
    s->given++;
    if (s->ops && !seq_is_soft(seq)) /* whose tags are too short a hash to be found by */
        s->ops->give(s->kept, scope, seq);
    else
        hasten_seq_close(seq);
}

void store_share(struct store *s, uint64_t scope, struct hasten_seq *seq)
{
    struct hasten_seq *copy = NULL, *empty = NULL;
    if (!s->ops || seq->length == 0 || seq_is_soft(seq))
        return;
    hasten_status st = hasten_seq_fork(seq, seq->length, &copy, NULL);
    if (st == HASTEN_ERR_FULL && !s->ops->take(s->kept, scope, seq->tokens, 1, &empty, NULL)) {
        hasten_seq_close(empty); /* whose place the store has just given up */
        st = hasten_seq_fork(seq, seq->length, &copy, NULL);
    }
    if (!st)
        s->ops->give(s->kept, scope, copy);
}

bool store_make_room(struct store *s, int64_t pages)
{
    if (!s)
        return false;
    return s->engine->kv.n_free >= pages || (s->ops && s->ops->make_room(s->kept, pages));
}

void store_figures(const struct store *s, struct store_figures *out)
{
    *out = (struct store_figures){0};
    if (s->ops)
        s->ops->figures(s->kept, out);
    out->queries = s->queries;
    out->asked_tokens = s->asked_tokens;
    out->given = s->given;
}

bool store_keeps(const struct store *s)
{
    return s->ops != NULL;
}

/* ---- for methods ---------------------------------------------------------------------------------------------- */

/* Other matrices, fewer layers and another form of the cache make the same rows of prompts and answers. */
static bool reads_all_alike(const struct method *m)
{
    return !(m->traits & METHOD_CHANGES_KV) || m->weights || (m->depth && !m->depth->looks) ||
           (m->cache && m->cache->represents);
}

bool store_rows_alike(const struct hasten_engine *e)
{
    for (int32_t i = 0; i < e->methods.n; i++)
        if (!reads_all_alike(e->methods.use[i].m))
            return false;
    return true;
}

int32_t store_reach(const struct hasten_seq *seq, int32_t n_common, int64_t n)
{
    const struct hasten_engine *e = seq->engine;
    const struct caching *c = &e->methods.caching;
    int32_t reach = n_common < seq->n_kv ? n_common : seq->n_kv;
    const int32_t rope_switch = e->model->desc.rope_switch;
    if (rope_switch && (n > rope_switch) != seq->beyond) /* all of it would be computed again */
        return 0;
    if (!store_rows_alike(e) && reach > seq->n_lead)
        reach = seq->n_lead;
    if (seq->kv.sealed == 0)
        return reach;
    /* What was taken out is missed below the last length at which that happened; and a method that acts once, where the
     * prompt ends, has acted where a fresh run would not. */
    const bool acts_anyhow = c->use && c->use->m->cache->next(c->use->state, 0, -1) != INT32_MAX;
    return acts_anyhow && reach >= seq->kv.sealed ? reach : 0;
}
