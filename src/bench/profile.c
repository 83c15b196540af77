/* Profiling steps of an engine (profile.h). */
#include "bench/profile.h"
#include "base/clock.h"
#include "base/mem.h"
#include "engine/engine.h"
#include "sample/sampler.h"
#include <stdlib.h>
#include <string.h>

struct run {
    struct bench_profile *p;
    struct hasten_engine *e;
    struct hasten_seq *seq;
    const int32_t *tokens;
    const volatile int *cancel;
    struct engine_profile *record;
    struct sampler *sampler;
    struct sampler_settings law;
    hasten_status sampled; /* of the sink */
    struct hasten_error *err;
    struct bench_profile_step *steps; /* [max(repeat, n_gen)] */
};

static int sample(void *ctx, const float *logits, const struct hasten_logits_row *rows, int32_t n_rows,
                  int32_t n_vocab)
{
    struct run *r = ctx;
    struct token_logprob chosen;
    const int32_t n = hasten_seq_length(r->seq);
    (void)rows, (void)n_rows, (void)n_vocab;
    engine_lap(r->e, ENGINE_OP_STEP);
    r->sampled = sampler_choose(r->sampler, NULL, &r->law, logits, hasten_seq_tokens(r->seq), n, n, &chosen,
                                NULL, r->err);
    engine_lap(r->e, ENGINE_OP_SAMPLING);
    return r->sampled != HASTEN_OK;
}

static hasten_status profile_step(struct run *r, int32_t n, struct bench_profile_step *out)
{
    const struct hasten_item item = {
        .seq = r->seq, .tokens = r->tokens + hasten_seq_length(r->seq), .n = n, .want_from = n - 1};
    const uint64_t t = clock_now_ns();
    engine_profile_start(r->e);
    hasten_status st = hasten_step(r->e, &item, 1, sample, r, r->cancel, r->err);
    engine_lap(r->e, ENGINE_OP_STEP);
    out->wall_ms = (double)(clock_now_ns() - t) * 1e-6;
    out->n_rows = n;
    const double workers = r->e->settings.n_threads;
    for (int i = 0; i < ENGINE_N_OPS; i++) {
        /* Serial work between loops, and all of it in these two, is the caller's: at work, not waiting. */
        const bool serial = i == ENGINE_OP_STEP || i == ENGINE_OP_SAMPLING;
        const double wall = (double)r->record->wall_ns[i] * 1e-6;
        const double busy = serial ? wall : (double)r->record->busy_ns[i] * 1e-6 / workers;
        out->op[i].ms = busy < wall ? busy : wall;
        out->op[i].waiting_ms = wall - out->op[i].ms;
    }
    return st ? st : r->sampled;
}

static int by_wall(const void *a, const void *b)
{
    const double x = ((const struct bench_profile_step *)a)->wall_ms,
                 y = ((const struct bench_profile_step *)b)->wall_ms;
    return (x > y) - (x < y);
}

static hasten_status profile_all(struct run *r)
{
    struct bench_profile *p = r->p;
    const struct hasten_item depth = {
        .seq = r->seq, .tokens = r->tokens, .n = p->depth, .want_from = p->depth};
    hasten_status st = p->depth ? hasten_step(r->e, &depth, 1, NULL, NULL, r->cancel, r->err) : HASTEN_OK;
    for (int32_t i = -1; i < p->repeat && p->n_prompt && !st; i++) {
        st = profile_step(r, p->n_prompt, &r->steps[i < 0 ? 0 : i]);
        if (!st)
            st = hasten_seq_truncate(r->seq, p->depth, r->err);
    }
    if (st)
        return st;
    if (p->n_prompt) {
        qsort(r->steps, (size_t)p->repeat, sizeof *r->steps, by_wall);
        p->chunk = r->steps[p->repeat / 2];
    } else { /* nothing has warmed up the token */
        st = profile_step(r, 1, &r->steps[0]);
        st = st ? st : hasten_seq_truncate(r->seq, p->depth, r->err);
    }
    for (int32_t i = 0; i < p->n_gen && !st; i++)
        st = profile_step(r, 1, &r->steps[i]);
    if (st || p->n_gen == 0)
        return st;
    qsort(r->steps, (size_t)p->n_gen, sizeof *r->steps, by_wall);
    p->token = r->steps[p->n_gen / 2];
    return HASTEN_OK;
}

hasten_status bench_profile_run(struct bench_profile *p, struct hasten_engine *e, const int32_t *tokens,
                                const volatile int *cancel, struct hasten_error *err)
{
    struct run r = {.p = p, .e = e, .tokens = tokens, .cancel = cancel, .err = err};
    const size_t n_steps = (size_t)(p->repeat > p->n_gen ? p->repeat : p->n_gen);
    const size_t record_bytes = sizeof *r.record + (size_t)e->settings.n_threads * sizeof *r.record->busy;
    r.record = mem_aligned(record_bytes);
    r.steps = mem_calloc(n_steps, sizeof *r.steps);
    hasten_status st = HASTEN_OK;
    if (r.record && r.steps)
        memset(r.record, 0, record_bytes);
    else
        st = error_set(err, HASTEN_ERR_MEMORY, "bench: out of memory");
    sampler_default_settings(&r.law);
    if (!st)
        st = sampler_open(e->model->desc.n_vocab, &r.sampler, err);
    if (!st)
        st = hasten_seq_open(e, &r.seq, err);
    if (!st) {
        packing_finish(e);
        engine_profile_set(e, r.record);
        st = profile_all(&r);
        engine_profile_set(e, NULL);
        hasten_seq_close(r.seq);
    }
    sampler_close(r.sampler);
    mem_free(r.steps);
    mem_free(r.record);
    return st;
}
