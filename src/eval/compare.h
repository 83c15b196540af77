/* Is one run worse than another? Two results of `hasten eval --json` on the same items or the same text, paired: a
 * task's items by their ids, a text's blocks by their places. */
#ifndef HASTEN_EVAL_COMPARE_H
#define HASTEN_EVAL_COMPARE_H
#include "eval/stats.h"
#include <jansson.h>

#define EVAL_MAX_ROWS_COMPARED 64

struct eval_comparison {    /* one figure of both runs */
    char name[96];          /* "gsm8k", "vt 4096", "nll", "KL", "top-1 agreement" */
    int32_t n;              /* pairs: items, blocks */
    int32_t a_only, b_only; /* whole scores: items that only one run has right */
    double a, b;
    struct eval_interval difference; /* b - a, by bootstrap over pairs */
    double p;          /* two-sided: McNemar's exact test for scores of 0 and 1, else by bootstrap */
    double p_adjusted; /* by Holm's method over all rows */
    bool more_is_worse;
    bool worse, better; /* b, at p_adjusted <= 1 - EVAL_LEVEL */
};

/* Fills rows[EVAL_MAX_ROWS_COMPARED], *n of them. HASTEN_ERR_FILE for a document that is no result of eval,
 * HASTEN_ERR_USAGE for two that cannot be paired: other tasks, seeds, texts, conventions. */
hasten_status eval_compare(const json_t *a, const json_t *b, int32_t resamples, uint64_t seed,
                           struct eval_comparison *rows, int32_t *n, struct hasten_error *err);

#endif
