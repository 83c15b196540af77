/* Gain: how much faster one engine answers than another, from pairs of times (bench/answers.h). The figure is a ratio of
 * sums, time of the plain engine over time of the other for as many tokens, so long answers count as they do for who
 * waits; its interval is a bootstrap over the pairs (eval/stats.h), which are prompts measured in turns. */
#ifndef HASTEN_TUNE_GAIN_H
#define HASTEN_TUNE_GAIN_H
#include "bench/answers.h"
#include "eval/stats.h"

struct gain {
    int32_t n;                           /* pairs */
    struct eval_interval answer;         /* of the whole answer, prompt included */
    struct eval_interval prompt, decode; /* of its parts; decode is NaN when no answer has a second token */
};

/* Of pairs[n], n >= 1. HASTEN_ERR_MEMORY. */
hasten_status gain_of(const struct answers_pair *pairs, int32_t n, struct gain *out,
                      struct hasten_error *err);

#endif
