/* Answers to the items of tasks: several conversations at once, each in a sequence of its own, in steps that they
 * share. A free sequence takes the next item while the others go on, so the batch stays full; as the engine gives the
 * same bits in any company, answers do not depend on who shares a step, nor on how many do.
 *
 * Each answer is one of src/run/, so drafts and methods of the stage stop count here as they do in `run`.
 *
 * Greedy: the likeliest token, of equal ones the lowest id. A conversation's tokens are what the template makes of it
 * from its beginning; from turn to turn the sequence keeps the longest prefix it holds already. */
#ifndef HASTEN_EVAL_GENERATE_H
#define HASTEN_EVAL_GENERATE_H
#include "eval/task.h"
#include "hasten/hasten.h"
#include "text/prompt.h"

struct eval_answered { /* an item that is through */
    struct eval_item item;
    struct buf answers[EVAL_MAX_TURNS];
    bool cut[EVAL_MAX_TURNS];      /* the answer ended because its tokens did */
    int32_t n_prompt, n_predicted; /* tokens read and chosen */
    int64_t tag;                   /* of the caller */
};

struct eval_generator {
    struct hasten_engine *engine; /* without an open sequence */
    int32_t n_parallel;           /* sequences to use; the engine's n_seq_max at most */
    int32_t n_batch;              /* rows of a step, but for what is proposed */
    bool blind; /* methods are told that a prompt ends where the question begins (eval_item.context) */
    const struct prompter *prompter; /* NULL: raw, turns are appended as they stand */
    /* Fills *item and *tag with the next item (true), or there is none (false; *st may be an error). */
    bool (*next)(void *ctx, struct eval_item *item, int64_t *tag, hasten_status *st,
                 struct hasten_error *err);
    /* An item is through; the order is that in which they end. */
    hasten_status (*done)(void *ctx, const struct eval_answered *a, struct hasten_error *err);
    void *ctx;
    const volatile int *cancel;
};

/* Until next gives no more. Sequences are closed again, whatever happens. */
hasten_status eval_generate(const struct eval_generator *g, struct hasten_error *err);

/* Tokens that an item takes with all its answers at their longest; prompter NULL: raw. -1 and err on failure. */
int64_t eval_item_tokens(const struct prompter *p, const struct vocab *v, const struct eval_item *item,
                         struct hasten_error *err);

#endif
