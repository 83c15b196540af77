/* A branch: a sequence is forked for a moment, other tokens are appended, what the model makes of them is looked at, and
 * the fork is dropped. Its parent keeps its bits. Needs a free sequence and pages (METHOD_BRANCHES). */
#ifndef HASTEN_ENGINE_BRANCH_H
#define HASTEN_ENGINE_BRANCH_H
#include "hasten/hasten.h"

struct branch_task {
    struct hasten_seq *seq;
    const int32_t *forced; /* [n_forced >= 1] appended */
    int32_t n_forced;
    int32_t most;                           /* tokens to decode after them */
    bool (*ends)(const void *ctx, int32_t); /* a token that ends it; not among what comes out */
    const void *ctx;
    const volatile int *cancel; /* NULL, or as of hasten_step */
};

/* The likeliest tokens, one after another (lowest id of equal ones): ids [most], *n of them. Fewer when the context ends.
 * HASTEN_ERR_FULL when no sequence or no pages are free. */
hasten_status branch_greedy(const struct branch_task *t, int32_t *ids, int32_t *n, struct hasten_error *err);

#endif
