/* See parallel.h. */
#include "bench/parallel.h"
#include "base/clock.h"
#include "engine/engine.h"
#include <math.h>
#include <stdlib.h>

#define STRIDE 613 /* tokens of the text between the beginnings of two prompts */

struct series { /* ms */
    double *ms;
    int64_t n, cap;
};

struct loop;
struct stream {
    struct loop *loop;
    struct answer answer;
    struct batch_times times;
    int32_t n_asked;
    int64_t n_seen; /* tokens of the answer that were noticed */
    uint64_t seen_at;
};

struct loop {
    struct bench_parallel *p;
    struct hasten_engine *engine;
    struct batch *batch;
    const int32_t *tokens;
    struct stream *streams;
    struct sampler *sampler;
    struct sampling law;
    struct series ttft, itl;
    int32_t done;
    uint64_t n_tokens;
    hasten_status status;
    struct hasten_error *err;
};

int64_t bench_parallel_tokens(const struct bench_parallel *p)
{
    return (int64_t)p->n_streams * p->repeat * STRIDE + p->n_prompt;
}

static void fail(struct loop *l, hasten_status st)
{
    if (!l->status)
        l->status = st;
}

static void add(struct loop *l, struct series *s, double ms)
{
    if (s->n == s->cap) {
        const int64_t cap = s->cap ? 2 * s->cap : 1024;
        double *more = mem_realloc(s->ms, (size_t)cap * sizeof *more);
        if (!more) {
            fail(l, error_set(l->err, HASTEN_ERR_MEMORY, "bench: out of memory"));
            return;
        }
        s->ms = more;
        s->cap = cap;
    }
    s->ms[s->n++] = ms;
}

static int ascending(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double at_share(const struct series *s, double share)
{
    const int64_t i = (int64_t)ceil(share * (double)s->n) - 1;
    return s->ms[i < 0 ? 0 : i];
}

static struct bench_times times_of(struct series *s)
{
    struct bench_times t = {.n = s->n};
    if (s->n == 0)
        return t;
    qsort(s->ms, (size_t)s->n, sizeof *s->ms, ascending);
    for (int64_t i = 0; i < s->n; i++)
        t.mean += s->ms[i] / (double)s->n;
    t.p50 = at_share(s, 0.5);
    t.p95 = at_share(s, 0.95);
    t.p99 = at_share(s, 0.99);
    t.max = s->ms[s->n - 1];
    return t;
}

/* ---- a stream ------------------------------------------------------------------------------------------------- */

static void finished(void *ctx, hasten_status st, const struct hasten_error *err);

static void ask(struct stream *s)
{
    struct loop *l = s->loop;
    const int64_t number = (s - l->streams) + (int64_t)s->n_asked++ * l->p->n_streams;
    const struct batch_job job = {.task = {.vocab = l->p->vocab,
                                           .law = &l->law,
                                           .ids = l->tokens + number * STRIDE,
                                           .n = l->p->n_prompt},
                                  .answer = &s->answer,
                                  .owner = (uint64_t)(s - l->streams),
                                  .done = finished,
                                  .ctx = s,
                                  .times = &s->times};
    answer_free(&s->answer);
    s->n_seen = 0;
    s->seen_at = 0;
    const hasten_status st = batch_submit(l->batch, &job, NULL, l->err);
    if (st)
        fail(l, st);
}

static void finished(void *ctx, hasten_status st, const struct hasten_error *err)
{
    struct stream *s = ctx;
    struct loop *l = s->loop;
    if (st) {
        if (!l->status)
            *l->err = *err;
        fail(l, st);
        return;
    }
    add(l, &l->ttft, (double)(s->times.first - s->times.submitted) * 1e-6);
    if (s->seen_at && s->answer.ids.n > s->n_seen)
        add(l, &l->itl, (double)(s->times.done - s->seen_at) * 1e-6);
    l->n_tokens += (uint64_t)s->answer.ids.n;
    l->done++;
    if (l->p->progress)
        l->p->progress(l->p->progress_ctx, l->done, l->p->n_streams * l->p->repeat);
    if (s->n_asked < l->p->repeat && !l->status)
        ask(s);
}

/* After a turn: which streams have more tokens. */
static void look(struct loop *l)
{
    const uint64_t now = clock_now_ns();
    for (int32_t i = 0; i < l->p->n_streams; i++) {
        struct stream *s = &l->streams[i];
        if (s->answer.ids.n <= s->n_seen)
            continue;
        if (s->seen_at)
            add(l, &l->itl, (double)(now - s->seen_at) * 1e-6);
        s->n_seen = s->answer.ids.n;
        s->seen_at = now;
    }
}

/* ---- the loop ------------------------------------------------------------------------------------------------- */

/* Nothing ends an answer but its length. */
static hasten_status open_law(struct loop *l, struct hasten_error *err)
{
    const int32_t n_vocab = hasten_model_n_vocab(l->engine->model);
    struct sampling *law = &l->law;
    sampler_default_settings(&law->settings);
    law->settings.temperature = 0;
    law->n_predict = l->p->n_gen;
    law->bias = mem_array((size_t)sampler_forbid_ends(l->p->vocab, n_vocab, NULL) + 1, sizeof *law->bias);
    if (!law->bias)
        return error_set(err, HASTEN_ERR_MEMORY, "bench: out of memory");
    law->settings.n_bias = sampler_forbid_ends(l->p->vocab, n_vocab, law->bias);
    law->settings.bias = law->bias;
    const hasten_status st = sampler_open(n_vocab, &l->sampler, err);
    law->sampler = l->sampler;
    return st;
}

static hasten_status open_loop(struct loop *l, const volatile int *cancel, struct hasten_error *err)
{
    const struct batch_settings s = {
        .n_slots = l->p->n_streams, .itl_target = l->p->itl_target, .cancel = cancel};
    hasten_status st = open_law(l, err);
    l->streams = mem_calloc((size_t)l->p->n_streams, sizeof *l->streams);
    if (!l->streams)
        st = error_set(err, HASTEN_ERR_MEMORY, "bench: out of memory");
    return st ? st : batch_open(l->engine, &s, &l->batch, err);
}

static void close_loop(struct loop *l)
{
    batch_close(l->batch);
    for (int32_t i = 0; l->streams && i < l->p->n_streams; i++)
        answer_free(&l->streams[i].answer);
    mem_free(l->streams);
    mem_free(l->ttft.ms);
    mem_free(l->itl.ms);
    mem_free(l->law.bias);
    sampler_close(l->sampler);
}

hasten_status bench_parallel_run(struct bench_parallel *p, struct hasten_engine *e, const int32_t *tokens,
                                 const volatile int *cancel, struct hasten_error *err)
{
    struct loop l = {.p = p, .engine = e, .tokens = tokens, .err = err};
    hasten_status st = open_loop(&l, cancel, err);
    const uint64_t t0 = clock_now_ns();
    for (int32_t i = 0; !st && i < p->n_streams; i++) {
        l.streams[i].loop = &l;
        ask(&l.streams[i]);
    }
    while (!st && !l.status && batch_turn(l.batch))
        look(&l);
    st = st ? st : l.status;
    if (!st) {
        p->seconds = (double)(clock_now_ns() - t0) * 1e-9;
        p->tps = (double)l.n_tokens / p->seconds;
        p->prompt_tps = (double)l.done * p->n_prompt / p->seconds;
        p->ttft = times_of(&l.ttft);
        p->itl = times_of(&l.itl);
        batch_figures(l.batch, &p->figures);
    }
    close_loop(&l);
    return st;
}
