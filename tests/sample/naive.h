/* The sampler law written down as plainly as possible: every token sorted, every draw made. The truth for
 * tests; slow. */
#ifndef TESTS_SAMPLE_NAIVE_H
#define TESTS_SAMPLE_NAIVE_H
#include "sample/sampler.h"

/* The token the law chooses; -1 when no logit is finite. */
int32_t naive_choose(const struct sampler_settings *s, const float *logits, int32_t n_vocab,
                     const int32_t *path, int64_t n_path, int64_t position);
/* The tokens left after the filters, in the law's order; returns how many. */
int32_t naive_filter(const struct sampler_settings *s, const float *logits, int32_t n_vocab,
                     const int32_t *path, int64_t n_path, int32_t *kept);

#endif
