/* Intervals and tests (stats.h). Everything is f64; noise is Philox keyed by the seed, its counter the number of the
 * resample and of the draw. */
#include "eval/stats.h"
#include "base/mem.h"
#include "base/rng.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- distributions ------------------------------------------------------------------------------------- */

double eval_normal_cdf(double x)
{
    return 0.5 * erfc(-x / sqrt(2));
}

/* Student's distribution above t >= 0: sums of cosines and sines for whole degrees (Abramowitz and Stegun 26.7.3 and
 * 26.7.4), which are finite and of one sign. */
static double student_above(double t, int32_t degrees)
{
    const double theta = atan2(t, sqrt((double)degrees)), c = cos(theta), s = sin(theta);
    const bool odd = degrees % 2 != 0;
    double term = odd ? c : 1, sum = 0;
    for (int32_t k = odd ? 1 : 0; k <= degrees - 2; k += 2) {
        sum += term;
        term *= c * c * (k + 1) / (k + 2);
    }
    const double inside = odd ? 2 / acos(-1.0) * (theta + s * sum) : s * sum;
    return 0.5 * (1 - inside);
}

double eval_student_quantile(double q, int32_t degrees)
{
    double lo = 0, hi = 1;
    if (degrees > 2000) /* near enough to the normal distribution: the quantile differs by less than 1e-3 */
        degrees = 2000;
    while (hi < 1e9 && student_above(hi, degrees) > 1 - q)
        hi *= 2;
    for (int i = 0; i < 100; i++) {
        const double mid = 0.5 * (lo + hi);
        if (student_above(mid, degrees) > 1 - q)
            lo = mid;
        else
            hi = mid;
    }
    return 0.5 * (lo + hi);
}

double eval_tail(int32_t m)
{
    const double alpha = (1 - EVAL_LEVEL) / 2;
    if (m < 2)
        return 0;
    const double t = eval_student_quantile(1 - alpha, m - 1);
    return eval_normal_cdf(-t * sqrt((double)m / (m - 1)));
}

/* ---- tests --------------------------------------------------------------------------------------------- */

double eval_mcnemar(int64_t b, int64_t c)
{
    const int64_t n = b + c, k = b < c ? b : c;
    if (n == 0)
        return 1;
    double sum = 0; /* P(Binomial(n, 1/2) <= k) */
    for (int64_t i = 0; i <= k; i++)
        sum += exp(lgamma((double)n + 1) - lgamma((double)i + 1) - lgamma((double)(n - i) + 1) -
                   (double)n * log(2));
    return fmin(1, 2 * sum);
}

struct eval_interval eval_wilson(int64_t k, int64_t n)
{
    const double z = 1.959963984540054, p = (double)k / (double)n, d = 1 + z * z / (double)n;
    const double mid = (p + z * z / (2 * (double)n)) / d;
    const double half = z / d * sqrt(p * (1 - p) / (double)n + z * z / (4 * (double)n * (double)n));
    if (n < 1)
        return (struct eval_interval){NAN, NAN, NAN};
    return (struct eval_interval){p, fmax(0, mid - half), fmin(1, mid + half)};
}

void eval_holm(double *p, int32_t n)
{
    /* The rank of p[i], ties by place; n is small. */
    double adjusted[64], least = 0;
    const int32_t count = n < 64 ? n : 64;
    bool done[64] = {false};
    for (int32_t rank = 0; rank < count; rank++) {
        int32_t best = -1;
        for (int32_t i = 0; i < count; i++)
            if (!done[i] && (best < 0 || p[i] < p[best]))
                best = i;
        done[best] = true;
        least = fmax(least, fmin(1, p[best] * (count - rank)));
        adjusted[best] = least;
    }
    memcpy(p, adjusted, (size_t)count * sizeof *p);
}

double eval_exceeded_at_most(int32_t m)
{
    return m < 1 ? 1 : -expm1(log(1 - EVAL_LEVEL) / m);
}

/* ---- bootstrap ----------------------------------------------------------------------------------------- */

static int ascending(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The q-quantile of sorted[n], linear between neighbours. */
static double quantile(const double *sorted, int32_t n, double q)
{
    const double at = q * (n - 1);
    const int32_t i = (int32_t)at, j = i + 1 < n ? i + 1 : i;
    return sorted[i] + (at - i) * (sorted[j] - sorted[i]);
}

/* Multiplicities of one resample. */
static void draw(const struct eval_bootstrap *b, uint32_t resample, int32_t *weight)
{
    const uint32_t key[2] = {(uint32_t)b->seed, (uint32_t)(b->seed >> 32)};
    uint32_t word[4];
    memset(weight, 0, (size_t)b->m * sizeof *weight);
    for (int32_t i = 0; i < b->m; i++) {
        if (i % 4 == 0)
            philox4x32((uint32_t[4]){(uint32_t)(i / 4), resample, 0x65766c, 0}, key, word);
        weight[(uint64_t)word[i % 4] * (uint64_t)b->m >> 32]++;
    }
}

static double p_value(const double *values, int32_t n)
{
    int32_t below = 0, above = 0;
    for (int32_t i = 0; i < n; i++) {
        below += values[i] <= 0;
        above += values[i] >= 0;
    }
    return fmin(1, 2.0 * ((below < above ? below : above) + 1) / (n + 1));
}

hasten_status eval_bootstrap_run(const struct eval_bootstrap *b, struct eval_interval *out, double *p,
                                 struct hasten_error *err)
{
    const int32_t n = b->n_stats, r = b->resamples;
    if (b->m < 1 || r < 100 || n < 1 || n > EVAL_MAX_STATISTICS)
        return error_set(err, HASTEN_ERR_USAGE,
                         "bootstrap: %d units, %d resamples, %d statistics (expected 1, 100, 1 at least)",
                         (int)b->m, (int)r, (int)n);
    int32_t *weight = mem_array((size_t)b->m, sizeof *weight);
    double *values = mem_array((size_t)r * (size_t)n, sizeof *values), one[EVAL_MAX_STATISTICS];
    if (!weight || !values) {
        mem_free(weight);
        mem_free(values);
        return error_set(err, HASTEN_ERR_MEMORY, "bootstrap: out of memory");
    }
    for (int32_t i = 0; i < b->m; i++)
        weight[i] = 1;
    b->statistic(b->ctx, weight, b->m, one);
    for (int32_t k = 0; k < n; k++)
        out[k] = (struct eval_interval){one[k], NAN, NAN};
    for (int32_t i = 0; i < r && b->m > 1; i++) {
        draw(b, (uint32_t)i, weight);
        b->statistic(b->ctx, weight, b->m, one);
        for (int32_t k = 0; k < n; k++)
            values[(int64_t)k * r + i] = one[k];
    }
    const double tail = eval_tail(b->m);
    for (int32_t k = 0; k < n; k++) {
        double *v = values + (int64_t)k * r;
        if (p)
            p[k] = b->m > 1 ? p_value(v, r) : 1;
        if (b->m < 2)
            continue;
        qsort(v, (size_t)r, sizeof *v, ascending);
        out[k].lo = quantile(v, r, tail);
        out[k].hi = quantile(v, r, 1 - tail);
    }
    mem_free(weight);
    mem_free(values);
    return HASTEN_OK;
}
