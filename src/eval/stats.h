/* How sure a measured figure is: bootstrap intervals over units that are independent enough (blocks of consecutive
 * tokens, items of a task), exact tests for paired answers, correction for several tests at once.
 *
 * The bootstrap draws m of m units with replacement, a stated number of times, from Philox noise of a seed: the same
 * seed gives the same interval everywhere. Statistics are functions of the multiplicities, so ratios and quantiles
 * are resampled as such, and a difference of two runs is paired when both are read from the same multiplicities. The
 * interval is the percentile interval, widened for few units as by Hesterberg ("What teachers should know about the
 * bootstrap", The American Statistician 69, 2015, section 5.3: "expanded percentile"): the tails are those of
 * Phi(-t sqrt(m / (m - 1))), t Student's quantile with m - 1 degrees. */
#ifndef HASTEN_EVAL_STATS_H
#define HASTEN_EVAL_STATS_H
#include "base/error.h"
#include <stdbool.h>
#include <stdint.h>

#define EVAL_LEVEL 0.95       /* of every interval */
#define EVAL_RESAMPLES 2000   /* default */
#define EVAL_MAX_STATISTICS 8 /* of one bootstrap */

struct eval_interval {
    double value, lo, hi; /* lo and hi are NaN where there are fewer than two units */
};

/* out[n_stats] from units that stand weight[i] times in the sample, i < m; the sum of the weights is m. */
typedef void (*eval_statistic_fn)(const void *ctx, const int32_t *weight, int32_t m, double *out);

struct eval_bootstrap {
    int32_t m;         /* units */
    int32_t resamples; /* >= 100 */
    uint64_t seed;
    int32_t n_stats; /* at most EVAL_MAX_STATISTICS */
    eval_statistic_fn statistic;
    const void *ctx;
};
/* Intervals of all statistics into out[n_stats]; value is the statistic of the sample itself. p: NULL, or [n_stats]
 * two-sided p-values of "the statistic is 0": twice the smaller share of resamples on one side of 0, each with one
 * added (Davison and Hinkley 1997, section 4.2); 1 when m < 2. HASTEN_ERR_MEMORY, HASTEN_ERR_USAGE. */
hasten_status eval_bootstrap_run(const struct eval_bootstrap *b, struct eval_interval *out, double *p,
                                 struct hasten_error *err);

/* Tail on each side that an interval of EVAL_LEVEL over m units takes (see above); 0.025 for many. */
double eval_tail(int32_t m);

/* McNemar's exact test: of b + c pairs that differ, b one way; the two-sided p-value of a fair coin. */
double eval_mcnemar(int64_t b, int64_t c);

/* Wilson's score interval of a share, k of n; lo and hi are NaN when n < 1. */
struct eval_interval eval_wilson(int64_t k, int64_t n);

/* Holm's step-down correction (1979) of n p-values, in place; of at most 64. */
void eval_holm(double *p, int32_t n);

/* At most this share of all units exceeds the largest of m, with 95 % confidence (0.05 = (1 - share)^m). */
double eval_exceeded_at_most(int32_t m);

/* Normal distribution below x; Student's quantile, 0.5 < q < 1. */
double eval_normal_cdf(double x);
double eval_student_quantile(double q, int32_t degrees);

#endif
