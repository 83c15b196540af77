/* Order statistics of repetitions (stats.h). The interval is distribution-free: the number of values below the
 * median is binomial with p = 1/2 (David and Nagaraja, Order Statistics, section 7.1). */
#include "bench/stats.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define COVERAGE 0.95

static int ascending(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The largest k whose interval still covers; at least 1. *level: what it covers. */
static int32_t interval_rank(int32_t n, double *level)
{
    double term = pow(0.5, n), below = 0; /* P(Binomial = j), P(Binomial < j + 1) */
    int32_t k = 0;
    for (int32_t j = 0; j < n / 2 + n % 2; j++) {
        below += term;
        if (j > 0 && 1 - 2 * below < COVERAGE)
            break;
        k = j + 1;
        *level = 1 - 2 * below;
        term *= (double)(n - j) / (j + 1);
    }
    if (n == 1)
        *level = 0;
    return k;
}

void bench_stats_of(double *values, int32_t n, struct bench_stats *out)
{
    memset(out, 0, sizeof *out);
    out->n = n;
    if (n <= 0)
        return;
    qsort(values, (size_t)n, sizeof *values, ascending);
    out->median = n % 2 ? values[n / 2] : 0.5 * (values[n / 2 - 1] + values[n / 2]);
    out->min = values[0];
    out->max = values[n - 1];
    double sum = 0;
    for (int32_t i = 0; i < n; i++)
        out->mean += values[i] / n;
    for (int32_t i = 0; i < n; i++)
        sum += (values[i] - out->mean) * (values[i] - out->mean);
    out->sd = n > 1 ? sqrt(sum / (n - 1)) : 0;
    const int32_t k = interval_rank(n, &out->level);
    out->lo = values[k - 1];
    out->hi = values[n - k];
}
