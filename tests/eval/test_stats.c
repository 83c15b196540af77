/* Intervals that must cover, tests whose p-values are known, and what they do at their edges. */
#include "eval/stats.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#define NEAR(x, y, tolerance) assert_true(fabs((x) - (y)) <= (tolerance))

static uint64_t state = 7;

static double uniform(void) /* splitmix64 */
{
    uint64_t z = (state += 0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return ((double)((z ^ z >> 31) >> 11) + 0.5) / 9007199254740992.0;
}

static double normal(void)
{
    return sqrt(-2 * log(uniform())) * cos(2 * acos(-1.0) * uniform());
}

struct sample {
    double x[400];
};

static void mean(const void *ctx, const int32_t *weight, int32_t m, double *out)
{
    const struct sample *s = ctx;
    out[0] = 0;
    for (int32_t i = 0; i < m; i++)
        out[0] += weight[i] * s->x[i] / m;
}

/* The share of samples of m whose interval holds the truth. */
static double coverage(int32_t m, bool skewed, int trials)
{
    int held = 0;
    for (int trial = 0; trial < trials; trial++) {
        struct sample s;
        struct eval_interval v;
        for (int32_t i = 0; i < m; i++)
            s.x[i] = skewed ? -log(uniform()) - 1 : normal(); /* both have the mean 0 */
        const struct eval_bootstrap b = {
            .m = m, .resamples = 400, .seed = (uint64_t)trial, .n_stats = 1, .statistic = mean, .ctx = &s};
        assert_int_equal(eval_bootstrap_run(&b, &v, NULL, NULL), HASTEN_OK);
        held += v.lo <= 0 && 0 <= v.hi;
    }
    return (double)held / trials;
}

/* Of 1,000 intervals, 95 % hold the truth within four standard errors (0.7 %); skewed small samples hold less. */
static void test_coverage(void **unused)
{
    (void)unused;
    NEAR(coverage(8, false, 1000), 0.95, 0.03);
    NEAR(coverage(40, false, 1000), 0.95, 0.028);
    NEAR(coverage(40, true, 1000), 0.94, 0.035);
}

static void test_edges(void **unused)
{
    (void)unused;
    struct sample s = {.x = {3, 3, 3}};
    struct eval_interval v;
    double p;
    struct eval_bootstrap b = {.m = 1, .resamples = 100, .n_stats = 1, .statistic = mean, .ctx = &s};
    assert_int_equal(eval_bootstrap_run(&b, &v, &p, NULL), HASTEN_OK);
    assert_true(v.value == 3 && isnan(v.lo) && isnan(v.hi) && p == 1);
    b.m = 3;
    assert_int_equal(eval_bootstrap_run(&b, &v, &p, NULL), HASTEN_OK);
    NEAR(v.lo, 3, 1e-12);
    NEAR(v.hi, 3, 1e-12);
    assert_true(p < 0.05); /* 3 in every resample is not 0 */
    s = (struct sample){{0}};
    assert_int_equal(eval_bootstrap_run(&b, &v, &p, NULL), HASTEN_OK);
    assert_true(p == 1);
    b.m = 0;
    assert_int_equal(eval_bootstrap_run(&b, &v, &p, NULL), HASTEN_ERR_USAGE);
}

/* The seed decides, and nothing else. */
static void test_seed(void **unused)
{
    (void)unused;
    struct sample s;
    struct eval_interval v[3];
    for (int i = 0; i < 30; i++)
        s.x[i] = normal();
    struct eval_bootstrap b = {
        .m = 30, .resamples = 500, .seed = 4, .n_stats = 1, .statistic = mean, .ctx = &s};
    for (int i = 0; i < 3; i++) {
        b.seed = i == 2 ? 5 : 4;
        assert_int_equal(eval_bootstrap_run(&b, &v[i], NULL, NULL), HASTEN_OK);
    }
    assert_true(v[0].lo == v[1].lo && v[0].hi == v[1].hi && v[0].lo != v[2].lo);
}

/* Tables of Student's distribution; exact sums of binomials; Holm's own procedure by hand. */
static void test_known_values(void **unused)
{
    (void)unused;
    static const struct {
        int32_t degrees;
        double t;
    } table[] = {{1, 12.7062}, {2, 4.30265}, {5, 2.57058}, {10, 2.22814}, {30, 2.04227}, {1000, 1.96234}};
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        NEAR(eval_student_quantile(0.975, table[i].degrees), table[i].t, 2e-4);
    NEAR(eval_normal_cdf(-1.959964), 0.025, 1e-7);
    NEAR(eval_tail(100000), 0.025, 2e-4);
    assert_true(eval_tail(8) < 0.01 && eval_tail(1) == 0);
    NEAR(eval_mcnemar(0, 0), 1, 0);
    NEAR(eval_mcnemar(0, 5), 0.0625, 1e-12);
    NEAR(eval_mcnemar(1, 9), 2 * 11.0 / 1024, 1e-12);
    NEAR(eval_mcnemar(9, 1), 2 * 11.0 / 1024, 1e-12);
    NEAR(eval_mcnemar(4, 4), 1, 0);
    double p[] = {0.04, 0.01, 0.03, 0.5};
    eval_holm(p, 4);
    NEAR(p[1], 0.04, 1e-12);
    NEAR(p[2], 0.09, 1e-12);
    NEAR(p[0], 0.09, 1e-12); /* 0.08, but not below the one before */
    NEAR(p[3], 0.5, 1e-12);
    NEAR(eval_exceeded_at_most(59), 0.05, 1e-3); /* 0.95^59 = 0.0485 */
    NEAR(eval_exceeded_at_most(0), 1, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_coverage),
        cmocka_unit_test(test_edges),
        cmocka_unit_test(test_seed),
        cmocka_unit_test(test_known_values),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
