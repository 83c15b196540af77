/* Sequences: timelines of tokens with their KV pages. All memory was set aside when the engine was opened. */
#include "base/mem.h"
#include "engine/engine.h"
#include <string.h>

static hasten_status find_free(struct hasten_engine *e, struct hasten_seq **out, struct hasten_error *err)
{
    for (int32_t i = 0; i < e->settings.n_seq_max; i++) {
        if (e->seqs[i].open)
            continue;
        *out = &e->seqs[i];
        (*out)->open = true;
        (*out)->length = (*out)->n_kv = 0;
        (*out)->beyond = false;
        (*out)->n_prompt = -1;
        (*out)->n_lead = 0;
        (*out)->kv.n_positions = (*out)->kv.sealed = 0;
        method_seq_open(e, *out);
        return HASTEN_OK;
    }
    return error_set(err, HASTEN_ERR_FULL,
                     "opening a sequence: all %d are in use (expected a higher n_seq_max)",
                     e->settings.n_seq_max);
}

hasten_status hasten_seq_open(struct hasten_engine *e, struct hasten_seq **out, struct hasten_error *err)
{
    return find_free(e, out, err);
}

static hasten_status check_keep(const char *what, const struct hasten_seq *s, int32_t n_keep,
                                struct hasten_error *err)
{
    if (n_keep < 0 || n_keep > s->length)
        return error_set(err, HASTEN_ERR_USAGE, "%s a sequence: n_keep: found %d (expected 0 to %d)", what,
                         n_keep, s->length);
    return HASTEN_OK;
}

hasten_status hasten_seq_fork(struct hasten_seq *src, int32_t n_keep, struct hasten_seq **out,
                              struct hasten_error *err)
{
    hasten_status st = check_keep("forking", src, n_keep, err);
    if (st || (st = find_free(src->engine, out, err)))
        return st;
    struct hasten_seq *s = *out;
    s->length = n_keep;
    s->beyond = src->beyond;
    s->n_prompt = src->n_prompt;
    memcpy(s->tokens, src->tokens, (size_t)n_keep * sizeof *s->tokens);
    const int32_t held = kv_share(&src->engine->kv, &src->kv, &s->kv, n_keep);
    s->n_kv = src->n_kv < held ? src->n_kv : held;
    s->n_lead = src->n_lead < s->n_kv ? src->n_lead : s->n_kv;
    method_seq_fork(src->engine, src, s, n_keep);
    return HASTEN_OK;
}

hasten_status hasten_seq_truncate(struct hasten_seq *s, int32_t n_keep, struct hasten_error *err)
{
    hasten_status st = check_keep("truncating", s, n_keep, err);
    if (st)
        return st;
    s->length = n_keep;
    const int32_t held = kv_shrink(&s->engine->kv, &s->kv, n_keep);
    s->n_kv = s->n_kv < held ? s->n_kv : held;
    s->n_lead = s->n_lead < s->n_kv ? s->n_lead : s->n_kv;
    method_seq_truncate(s->engine, s, n_keep);
    return HASTEN_OK;
}

hasten_status hasten_seq_announce(struct hasten_seq *s, int32_t n, struct hasten_error *err)
{
    if (n < -1)
        return error_set(err, HASTEN_ERR_USAGE,
                         "announcing a prompt: found %d positions (expected -1 or more)", n);
    s->n_prompt = n;
    return HASTEN_OK;
}

void hasten_seq_close(struct hasten_seq *s)
{
    if (!s || !s->open)
        return;
    kv_shrink(&s->engine->kv, &s->kv, 0);
    s->length = 0;
    s->open = false;
}

int32_t hasten_seq_length(const struct hasten_seq *s)
{
    return s->length;
}

const int32_t *hasten_seq_tokens(const struct hasten_seq *s)
{
    return s->tokens;
}

uint64_t hasten_seq_bytes(const struct hasten_seq *s)
{
    return (uint64_t)kv_blocks(&s->engine->kv, &s->kv) * s->engine->kv.block_bytes;
}
