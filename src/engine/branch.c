/* See branch.h. */
#include "engine/branch.h"
#include "engine/engine.h"

static int take_best(void *ctx, const float *logits, const struct hasten_logits_row *rows, int32_t n_rows,
                     int32_t n_vocab)
{
    int32_t *best = ctx;
    (void)rows, (void)n_rows;
    *best = 0;
    for (int32_t i = 1; i < n_vocab; i++)
        if (logits[i] > logits[*best] || (logits[*best] != logits[*best] && logits[i] == logits[i]))
            *best = i;
    return 0;
}

hasten_status branch_greedy(const struct branch_task *t, int32_t *ids, int32_t *n, struct hasten_error *err)
{
    struct hasten_engine *e = t->seq->engine;
    struct hasten_seq *fork = NULL;
    int32_t best = -1;
    *n = 0;
    hasten_status st = hasten_seq_fork(t->seq, t->seq->length, &fork, err);
    struct hasten_item item = {
        .seq = fork, .tokens = t->forced, .n = t->n_forced, .want_from = t->n_forced - 1};
    while (!st && fork->length + item.n <= e->settings.n_ctx) {
        st = hasten_step(e, &item, 1, take_best, &best, t->cancel, err);
        if (st || *n == t->most || t->ends(t->ctx, best))
            break;
        ids[(*n)++] = best;
        if (*n == t->most)
            break;
        item.tokens = &best;
        item.n = 1;
        item.want_from = 0;
    }
    hasten_seq_close(fork);
    return st;
}
