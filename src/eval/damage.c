/* Two engines in lockstep over a text, and what their rows say together (damage.h). */
#include "eval/damage.h"
#include "base/mem.h"
#include "engine/engine.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define P99_OUT 0.01

struct lockstep {
    const struct eval_damage_settings *s;
    struct hasten_seq *plain_seq, *variant_seq;
    struct hasten_engine *plain, *variant;
    struct eval_row *row;
    float *rows;              /* [EVAL_MAX_ROWS × n_vocab] of the plain engine */
    int32_t n_vocab, n_block; /* scored tokens in the block that is being filled */
    const int32_t *targets;   /* of the chunk */
    int64_t cap;
    struct eval_damage *out;
    eval_progress_fn progress;
    void *progress_ctx;
    const volatile int *cancel;
    int64_t total;
    hasten_status status; /* of the sinks */
    struct hasten_error *err;
};

/* ---- lockstep ------------------------------------------------------------------------------------------ */

static int keep_rows(void *ctx, const float *logits, const struct hasten_logits_row *rows, int32_t n_rows,
                     int32_t n_vocab)
{
    struct lockstep *l = ctx;
    for (int32_t i = 0; i < n_rows; i++)
        memcpy(l->rows + (int64_t)rows[i].row * n_vocab, logits + (int64_t)i * n_vocab,
               (size_t)n_vocab * sizeof *logits);
    return 0;
}

static int compare_rows(void *ctx, const float *logits, const struct hasten_logits_row *rows, int32_t n_rows,
                        int32_t n_vocab)
{
    struct lockstep *l = ctx;
    struct eval_damage *d = l->out;
    for (int32_t i = 0; i < n_rows && !l->status; i++) {
        struct eval_token *t = &d->tokens[d->n];
        const int32_t row = rows[i].row;
        l->status = eval_row_pair(l->row, l->rows + (int64_t)row * n_vocab, logits + (int64_t)i * n_vocab,
                                  l->targets[row], t, l->err);
        if (l->status)
            break;
        if (l->n_block == d->block) {
            d->n_blocks++;
            l->n_block = 0;
        }
        l->n_block++;
        t->block = d->n_blocks;
        d->n++;
    }
    return l->status != HASTEN_OK;
}

/* n tokens of the window, of which the rows from `want` on are compared. */
static hasten_status step_both(struct lockstep *l, const int32_t *tokens, int32_t n, bool want,
                               struct hasten_error *err)
{
    struct hasten_item a = {.seq = l->plain_seq, .tokens = tokens, .n = n, .want_from = want ? 0 : n};
    struct hasten_item b = a;
    b.seq = l->variant_seq;
    l->targets = tokens + 1;
    hasten_status st = hasten_step(l->plain, &a, 1, want ? keep_rows : NULL, l, l->cancel, err);
    if (!st)
        st = hasten_step(l->variant, &b, 1, want ? compare_rows : NULL, l, l->cancel, err);
    return st ? st : l->status;
}

static hasten_status run_window(struct lockstep *l, const struct eval_window *w, struct hasten_error *err)
{
    const int32_t most = l->s->rows ? l->s->rows : EVAL_MAX_ROWS;
    const int32_t *tokens = l->s->windows.ids + w->begin;
    hasten_status st = hasten_seq_truncate(l->plain_seq, 0, err);
    if (!st)
        st = hasten_seq_truncate(l->variant_seq, 0, err);
    /* With a prefix it is a prompt, and the rest an answer; without one nothing is said about either. */
    const int32_t prompt = l->s->windows.prefix > 0 ? l->s->windows.prefix : -1;
    if (!st)
        st = hasten_seq_announce(l->plain_seq, prompt, err);
    if (!st)
        st = hasten_seq_announce(l->variant_seq, prompt, err);
    if (!st && w->from > 0)
        st = step_both(l, tokens, w->from, false, err);
    for (int32_t at = w->from; at < w->n - 1 && !st; at += most) {
        st = step_both(l, tokens + at, w->n - 1 - at < most ? w->n - 1 - at : most, true, err);
        if (l->progress && !st)
            l->progress(l->progress_ctx, l->out->n, l->total);
    }
    if (l->n_block > 0) { /* a block ends with its window */
        l->out->n_blocks++;
        l->n_block = 0;
    }
    l->out->n_windows++;
    return st;
}

static hasten_status check(const struct lockstep *l, struct hasten_error *err)
{
    const struct eval_damage_settings *s = l->s;
    const struct eval_windows *w = &s->windows;
    const int32_t other = hasten_model_n_vocab(l->variant->model);
    if (l->n_vocab != other)
        return error_set(err, HASTEN_ERR_USAGE,
                         "damage: vocabularies of %d and %d tokens (expected the same for both engines)",
                         (int)l->n_vocab, (int)other);
    if (w->n_ctx < 2 || w->stride < 1 || w->stride > w->n_ctx || w->prefix < 0 || w->prefix >= w->n_ctx)
        return error_set(err, HASTEN_ERR_USAGE,
                         "damage: windows of %d every %d, %d not scored (expected at least 2, a stride up to "
                         "that, less not scored)",
                         (int)w->n_ctx, (int)w->stride, (int)w->prefix);
    if (s->rows < 0 || s->rows > EVAL_MAX_ROWS || s->block < 0 || s->resamples < 0)
        return error_set(err, HASTEN_ERR_USAGE,
                         "damage: %d rows, blocks of %d, %d resamples (expected up to %d rows)", (int)s->rows,
                         (int)s->block, (int)s->resamples, EVAL_MAX_ROWS);
    if (l->total < 1)
        return error_set(err, HASTEN_ERR_USAGE,
                         "damage: %lld tokens leave none to score (expected more than %d)", (long long)w->n,
                         (int)(w->prefix > 1 ? w->prefix : 1));
    return HASTEN_OK;
}

static hasten_status open_lockstep(struct lockstep *l, struct hasten_error *err)
{
    hasten_status st = check(l, err);
    if (st)
        return st;
    l->rows = mem_array((size_t)EVAL_MAX_ROWS * (size_t)l->n_vocab, sizeof *l->rows);
    l->out->tokens = mem_array((size_t)l->total, sizeof *l->out->tokens);
    if (!l->rows || !l->out->tokens)
        return error_set(err, HASTEN_ERR_MEMORY, "damage: out of memory for %d rows of %d logits",
                         EVAL_MAX_ROWS, (int)l->n_vocab);
    st = eval_row_open(l->n_vocab, &l->row, err);
    if (!st)
        st = hasten_seq_open(l->plain, &l->plain_seq, err);
    return st ? st : hasten_seq_open(l->variant, &l->variant_seq, err);
}

hasten_status eval_damage(struct hasten_engine *plain, struct hasten_engine *variant,
                          const struct eval_damage_settings *s, eval_progress_fn progress, void *progress_ctx,
                          const volatile int *cancel, struct eval_damage *out, struct hasten_error *err)
{
    struct eval_window w = {0};
    *out = (struct eval_damage){.block = s->block ? s->block : EVAL_BLOCK};
    struct lockstep l = {.s = s,
                         .plain = plain,
                         .variant = variant,
                         .n_vocab = hasten_model_n_vocab(plain->model),
                         .out = out,
                         .progress = progress,
                         .progress_ctx = progress_ctx,
                         .cancel = cancel,
                         .total = eval_count_targets(&s->windows),
                         .err = err};
    hasten_status st = open_lockstep(&l, err);
    while (!st && eval_next_window(&s->windows, &w))
        st = run_window(&l, &w, err);
    hasten_seq_close(l.plain_seq);
    hasten_seq_close(l.variant_seq);
    eval_row_close(l.row);
    mem_free(l.rows);
    if (!st)
        st = eval_damage_of(s, out, err);
    if (st)
        eval_damage_free(out);
    return st;
}

void eval_damage_free(struct eval_damage *d)
{
    mem_free(d->tokens);
    mem_free(d->blocks);
    *d = (struct eval_damage){0};
}

/* ---- statistics ---------------------------------------------------------------------------------------- */

struct ranked {
    double kl;
    int32_t block;
};

struct figures {
    const struct eval_damage *d;
    const struct ranked *ranked; /* all tokens, the largest KL first */
};

static int larger_first(const void *a, const void *b)
{
    const double x = ((const struct ranked *)a)->kl, y = ((const struct ranked *)b)->kl;
    return (x < y) - (x > y);
}

enum {
    KL,
    KL_P99,
    AGREEMENT,
    NLL_DIFFERENCE,
    PPL_PLAIN,
    PPL_VARIANT,
    PPL_DIFFERENCE,
    N_FIGURES
};

static void figures(const void *ctx, const int32_t *weight, int32_t m, double *out)
{
    const struct figures *f = ctx;
    double n = 0, kl = 0, plain = 0, variant = 0, agree = 0;
    for (int32_t i = 0; i < m; i++) {
        const struct eval_block *b = &f->d->blocks[i];
        n += (double)weight[i] * b->n;
        agree += (double)weight[i] * b->agree;
        kl += weight[i] * b->kl;
        plain += weight[i] * b->nll_plain;
        variant += weight[i] * b->nll_variant;
    }
    double to_skip = floor(n * P99_OUT);
    int64_t at = 0;
    while (at < f->d->n - 1 && (to_skip -= weight[f->ranked[at].block]) >= 0)
        at++;
    out[KL] = kl / n;
    out[KL_P99] = f->ranked[at].kl;
    out[AGREEMENT] = agree / n;
    out[NLL_DIFFERENCE] = (variant - plain) / n;
    out[PPL_PLAIN] = exp(plain / n);
    out[PPL_VARIANT] = exp(variant / n);
    out[PPL_DIFFERENCE] = out[PPL_VARIANT] - out[PPL_PLAIN];
}

static void sum_blocks(struct eval_damage *d, struct ranked *ranked)
{
    for (int64_t i = 0; i < d->n; i++) {
        const struct eval_token *t = &d->tokens[i];
        struct eval_block *b = &d->blocks[t->block];
        const bool same = t->top_plain == t->top_variant;
        b->n++;
        b->agree += same;
        b->kl += t->kl;
        b->nll_plain += t->nll_plain;
        b->nll_variant += t->nll_variant;
        d->flips += !same;
        d->lost += !same && t->top_plain == t->target;
        d->gained += !same && t->top_variant == t->target;
        if (t->dlogp > d->dlogp) {
            d->dlogp = t->dlogp;
            d->dlogp_at = i;
        }
        ranked[i] = (struct ranked){t->kl, t->block};
    }
}

hasten_status eval_damage_of(const struct eval_damage_settings *s, struct eval_damage *d,
                             struct hasten_error *err)
{
    struct eval_interval v[N_FIGURES];
    struct ranked *ranked = mem_array((size_t)d->n, sizeof *ranked);
    d->resamples = s->resamples ? s->resamples : EVAL_RESAMPLES;
    d->seed = s->seed;
    d->n_blocks = d->n > 0 ? d->tokens[d->n - 1].block + 1 : 0;
    d->blocks = mem_calloc((size_t)d->n_blocks + 1, sizeof *d->blocks);
    if (!ranked || !d->blocks) {
        mem_free(ranked);
        return error_set(err, HASTEN_ERR_MEMORY, "damage: out of memory");
    }
    sum_blocks(d, ranked);
    qsort(ranked, (size_t)d->n, sizeof *ranked, larger_first);
    const struct figures f = {d, ranked};
    const struct eval_bootstrap b = {.m = d->n_blocks,
                                     .resamples = d->resamples,
                                     .seed = d->seed,
                                     .n_stats = N_FIGURES,
                                     .statistic = figures,
                                     .ctx = &f};
    hasten_status st = eval_bootstrap_run(&b, v, NULL, err);
    d->kl_max = d->n > 0 ? ranked[0].kl : 0;
    mem_free(ranked);
    if (st)
        return st;
    d->kl = v[KL];
    d->kl_p99 = v[KL_P99];
    d->agreement = v[AGREEMENT];
    d->nll_difference = v[NLL_DIFFERENCE];
    d->ppl_plain = v[PPL_PLAIN];
    d->ppl_variant = v[PPL_VARIANT];
    d->ppl_difference = v[PPL_DIFFERENCE];
    d->exceeded_at_most = eval_exceeded_at_most(d->n_blocks);
    return HASTEN_OK;
}
