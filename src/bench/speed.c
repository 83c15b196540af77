/* Measuring an engine's speed on a text (speed.h). */
#include "bench/speed.h"
#include "base/clock.h"
#include "base/mem.h"
#include "engine/engine.h"

struct run {
    struct bench_speed *s;
    struct hasten_engine *e;
    const int32_t *tokens;
    const volatile int *cancel;
    struct hasten_seq **seqs;  /* [max_batch] */
    struct hasten_item *items; /* [max_batch] */
    bool fork;                 /* the prefill is read by a fork */
};

int64_t bench_speed_positions(const struct bench_speed *s)
{
    return (int64_t)s->depth + (s->n_prompt > s->n_gen ? s->n_prompt : s->n_gen);
}

int64_t bench_speed_tokens(const struct bench_speed *s)
{
    return bench_speed_positions(s) + (int64_t)BENCH_STRIDE * (s->max_batch - 1);
}

static int ignore_logits(void *ctx, const float *logits, const struct hasten_logits_row *rows, int32_t n_rows,
                         int32_t n_vocab)
{
    (void)ctx, (void)logits, (void)rows, (void)n_rows, (void)n_vocab;
    return 0;
}

/* The next n tokens of sequences [first, first + n_seq), as one step. */
static hasten_status step(const struct run *r, int32_t first, int32_t n_seq, int32_t n,
                          struct hasten_error *err)
{
    for (int32_t i = 0; i < n_seq; i++) {
        struct hasten_seq *seq = r->seqs[first + i];
        const int64_t at = (int64_t)BENCH_STRIDE * (first + i) + hasten_seq_length(seq);
        r->items[i] = (struct hasten_item){.seq = seq, .tokens = r->tokens + at, .n = n, .want_from = n - 1};
    }
    return hasten_step(r->e, r->items, n_seq, ignore_logits, NULL, r->cancel, err);
}

static hasten_status cut_back(const struct run *r, int32_t n_seq, struct hasten_error *err)
{
    hasten_status st = HASTEN_OK;
    for (int32_t i = 0; i < n_seq && !st; i++)
        st = hasten_seq_truncate(r->seqs[i], r->s->depth, err);
    return st;
}

/* The prefill, by a fork whose prompt is all of it; *seconds is what the reading took. */
static hasten_status forked_prefill(const struct run *r, const struct bench_phase *p, double *seconds,
                                    struct hasten_error *err)
{
    struct hasten_seq *fork = NULL;
    hasten_status st = hasten_seq_fork(r->seqs[0], r->s->depth, &fork, err);
    if (!st)
        st = hasten_seq_announce(fork, r->s->depth + p->n, err);
    const struct hasten_item item = {
        .seq = fork, .tokens = r->tokens + r->s->depth, .n = p->n, .want_from = p->n - 1};
    const uint64_t t = clock_now_ns();
    if (!st)
        st = hasten_step(r->e, &item, 1, ignore_logits, NULL, r->cancel, err);
    *seconds = (double)(clock_now_ns() - t) * 1e-9;
    hasten_seq_close(fork);
    return st;
}

/* One repetition of a phase; *seconds is what it took. */
static hasten_status repeat_phase(const struct run *r, struct bench_phase *p, double *seconds,
                                  struct hasten_error *err)
{
    const int32_t n_seq = p->n_seq ? p->n_seq : 1;
    struct hasten_counters before, after;
    hasten_status st = HASTEN_OK;
    hasten_engine_counters(r->e, &before);
    if (p->n_seq == 0 && r->fork) {
        st = forked_prefill(r, p, seconds, err);
    } else {
        const int32_t rows = p->n_seq ? 1 : p->n;
        const uint64_t t = clock_now_ns();
        for (int32_t i = 0; i < p->n && !st; i += rows)
            st = step(r, 0, n_seq, rows, err);
        *seconds = (double)(clock_now_ns() - t) * 1e-9;
    }
    hasten_engine_counters(r->e, &after);
    p->pages_all += after.attend_pages_all - before.attend_pages_all;
    p->pages_read += after.attend_pages_read - before.attend_pages_read;
    p->cost.weight_bytes = (double)(after.weight_bytes - before.weight_bytes);
    return st ? st : cut_back(r, n_seq, err);
}

static void count_phase(const struct run *r, struct bench_phase *p)
{
    const int64_t depth = r->s->depth;
    if (p->n_seq == 0) {
        bench_cost_rows(r->e, p->n, 1, &p->cost);
        bench_cost_attention(r->e, depth, p->n, &p->cost);
        return;
    }
    bench_cost_rows(r->e, (int64_t)p->n * p->n_seq, (int64_t)p->n * p->n_seq, &p->cost);
    struct bench_cost one = {0};
    for (int32_t i = 0; i < p->n; i++)
        bench_cost_attention(r->e, depth + i, 1, &one);
    p->cost.attention_ops += one.attention_ops * p->n_seq;
    p->cost.kv_bytes += one.kv_bytes * p->n_seq;
}

static hasten_status open_run(struct run *r, struct hasten_error *err)
{
    struct bench_speed *s = r->s;
    r->seqs = mem_calloc((size_t)s->max_batch, sizeof *r->seqs);
    r->items = mem_calloc((size_t)s->max_batch, sizeof *r->items);
    bool room = r->seqs && r->items;
    for (int32_t i = 0; i < 2 + s->n_batches; i++) {
        struct bench_phase *p = &s->phase[i];
        *p = (struct bench_phase){.n_seq = i < 2 ? i : s->batch[i - 2], .n = i == 0 ? s->n_prompt : s->n_gen};
        p->tps = mem_array((size_t)s->repeat, sizeof *p->tps);
        room = room && p->tps;
        if (p->n)
            count_phase(r, p);
    }
    hasten_status st = room ? HASTEN_OK : error_set(err, HASTEN_ERR_MEMORY, "bench: out of memory");
    for (int32_t i = 0; i < s->max_batch && !st; i++) {
        st = hasten_seq_open(r->e, &r->seqs[i], err);
        if (!st)
            st = hasten_seq_announce(r->seqs[i], s->depth, err);
        if (!st && s->depth)
            st = step(r, i, 1, s->depth, err);
    }
    return st;
}

/* Repetition rep of every phase; -1 warms up. */
static hasten_status repeat_once(const struct run *r, int32_t rep, struct hasten_error *err)
{
    struct bench_speed *s = r->s;
    hasten_status st = HASTEN_OK;
    for (int32_t i = 0; i < 2 + s->n_batches && !st; i++) {
        struct bench_phase *p = &s->phase[i];
        double seconds = 0;
        if (p->n)
            st = repeat_phase(r, p, &seconds, err);
        if (!st && rep >= 0)
            p->tps[rep] = seconds > 0 ? (double)p->n * (p->n_seq ? p->n_seq : 1) / seconds : 0;
    }
    if (rep < 0)
        for (int32_t i = 0; i < 2 + s->n_batches; i++)
            s->phase[i].pages_all = s->phase[i].pages_read = 0;
    s->done = st ? s->done : rep + 1;
    return st;
}

static void close_run(struct run *r)
{
    for (int32_t i = 0; r->seqs && i < r->s->max_batch; i++)
        if (r->seqs[i])
            hasten_seq_close(r->seqs[i]);
    mem_free(r->seqs);
    mem_free(r->items);
}

/* One engine, or two in turns. */
static hasten_status run_all(struct run *runs, int n, struct hasten_error *err)
{
    const struct bench_speed *s = runs[0].s;
    hasten_status st = HASTEN_OK;
    for (int i = 0; i < n && !st; i++) {
        runs[i].s->done = 0;
        packing_finish(runs[i].e); /* what is measured is the speed after the first steps */
        st = open_run(&runs[i], err);
    }
    for (int32_t rep = -1; rep < s->repeat && !st; rep++) {
        for (int i = 0; i < n && !st; i++)
            st = repeat_once(&runs[rep % 2 ? n - 1 - i : i], rep, err);
        if (s->progress)
            s->progress(s->progress_ctx, rep + 2, s->repeat + 1);
    }
    for (int i = 0; i < n; i++)
        close_run(&runs[i]);
    if (st == HASTEN_ERR_CANCELLED)
        error_set(err, st, "bench: interrupted after %d of %d repetitions", s->done, s->repeat);
    return st;
}

/* Sorts the speeds of each phase. */
static void sum_up(struct bench_speed *s)
{
    for (int32_t i = 0; i < 2 + s->n_batches; i++)
        bench_stats_of(s->phase[i].tps, s->repeat, &s->phase[i].stats);
}

hasten_status bench_speed_run(struct bench_speed *s, struct hasten_engine *e, const int32_t *tokens,
                              const volatile int *cancel, struct hasten_error *err)
{
    struct run r = {.s = s, .e = e, .tokens = tokens, .cancel = cancel};
    const hasten_status st = run_all(&r, 1, err);
    if (!st)
        sum_up(s);
    return st;
}

hasten_status bench_speed_pair(struct bench_speed *a, struct hasten_engine *e, struct bench_speed *b,
                               struct hasten_engine *f, const int32_t *tokens, const volatile int *cancel,
                               struct hasten_error *err)
{
    struct run r[] = {{.s = a, .e = e, .tokens = tokens, .cancel = cancel, .fork = true},
                      {.s = b, .e = f, .tokens = tokens, .cancel = cancel, .fork = true}};
    hasten_status st = run_all(r, 2, err);
    for (int32_t i = 0; i < 2 + a->n_batches && !st; i++) {
        struct bench_phase *p = &b->phase[i];
        p->ratio = mem_array((size_t)b->repeat, sizeof *p->ratio);
        if (!p->ratio)
            st = error_set(err, HASTEN_ERR_MEMORY, "bench: out of memory");
        for (int32_t j = 0; j < b->repeat && !st; j++)
            p->ratio[j] = a->phase[i].tps[j] > 0 ? p->tps[j] / a->phase[i].tps[j] : 0;
        if (!st)
            bench_stats_of(p->ratio, b->repeat, &p->ratio_stats);
    }
    if (!st) {
        sum_up(a);
        sum_up(b);
    }
    return st;
}

void bench_speed_free(struct bench_speed *s)
{
    for (int32_t i = 0; i < 2 + BENCH_MAX_BATCHES; i++) {
        mem_free(s->phase[i].tps);
        mem_free(s->phase[i].ratio);
    }
}
