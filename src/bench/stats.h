/* What a set of repetitions says: the median, an interval that holds it, the best. */
#ifndef HASTEN_BENCH_STATS_H
#define HASTEN_BENCH_STATS_H
#include <stdint.h>

struct bench_stats {
    int32_t n;
    double median, mean, sd, min, max;
    /* Interval of the median by order statistics: [lo, hi] are the k-th smallest and the k-th largest value,
     * with the largest k whose coverage 1 - 2 P(Binomial(n, 1/2) < k) is at least 95 %. Below 6 values even the
     * extremes cover less; they stand then, with their coverage in level. */
    double lo, hi, level;
};

/* Sorts values[n]; n = 0 gives zeros. */
void bench_stats_of(double *values, int32_t n, struct bench_stats *out);

#endif
