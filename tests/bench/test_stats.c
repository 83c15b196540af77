/* The median and its interval against values worked out by hand from the binomial distribution, and the
 * interval's coverage against simulation. */
#include "bench/stats.h"
#include "kernels/peak.h"
#include "base/cpu.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

static void near_to(double a, double b)
{
    if (fabs(a - b) > 1e-9 * (1 + fabs(b)))
        fail_msg("%.17g is not %.17g", a, b);
}

/* n, rank of the lower end (1-based), coverage: 1 - 2 P(Binomial(n, 1/2) < rank). */
static const struct {
    int n, rank;
    double level;
} known[] = {{2, 1, 0.5},          {3, 1, 0.75},        {5, 1, 0.9375},
             {6, 1, 0.96875},      {8, 1, 0.9921875},   {9, 2, 0.9609375},
             {10, 2, 0.978515625}, {15, 4, 0.96484375}, {20, 6, 0.958610534667968750}};

static void test_interval(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        double v[32];
        struct bench_stats s;
        const int n = known[i].n;
        for (int j = 0; j < n; j++)
            v[j] = 1 + (j * 7 + 3) % n; /* 1 .. n in some order, when 7 does not divide n */
        bench_stats_of(v, n, &s);
        assert_int_equal(s.n, n);
        near_to(s.lo, known[i].rank);
        near_to(s.hi, n + 1 - known[i].rank);
        near_to(s.level, known[i].level);
        near_to(s.median, 0.5 * (n + 1));
        near_to(s.mean, 0.5 * (n + 1));
        near_to(s.min, 1);
        near_to(s.max, n);
        near_to(s.sd, sqrt(n * (n + 1) / 12.0));
    }
}

static void test_ends(void **state)
{
    (void)state;
    struct bench_stats s;
    double one = 7;
    bench_stats_of(&one, 1, &s);
    near_to(s.median, 7);
    near_to(s.lo, 7);
    near_to(s.hi, 7);
    near_to(s.level, 0);
    near_to(s.sd, 0);
    bench_stats_of(&one, 0, &s);
    near_to(s.median, 0);
    assert_int_equal(s.n, 0);
}

/* Of a skewed law with median 1, the interval of 12 draws holds the median about as often as it says. */
static void test_coverage(void **state)
{
    (void)state;
    uint64_t x = 12345;
    int held = 0;
    const int rounds = 20000;
    double level = 0;
    for (int i = 0; i < rounds; i++) {
        double v[12];
        struct bench_stats s;
        for (int j = 0; j < 12; j++) {
            x = x * 6364136223846793005ull + 1442695040888963407ull;
            const double u = (double)(x >> 11) * 0x1p-53;
            v[j] = -log(1 - u) / log(2.0);
        }
        bench_stats_of(v, 12, &s);
        held += s.lo <= 1 && 1 <= s.hi;
        level = s.level;
    }
    assert_true(level >= 0.95);
    assert_true(fabs((double)held / rounds - level) < 0.01);
}

/* Reading returns a value that depends on every byte, in every set. */
static void test_read(void **state)
{
    (void)state;
    static uint8_t data[8 * PEAK_READ_STEP] __attribute__((aligned(64)));
    static const uint32_t sets[] = {0, CPU_AVX2, ~0u};
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (uint8_t)(i * 31 + i / 256);
    for (size_t k = 0; k < 3; k++) {
        const uint32_t features = cpu_features() & sets[k];
        const uint64_t all = peak_read(data, sizeof data, features);
        assert_true(all == peak_read(data, sizeof data, 0));
        for (size_t i = 0; i < sizeof data; i += 4093) {
            data[i] ^= 1;
            assert_true(peak_read(data, sizeof data, features) != all);
            data[i] ^= 1;
        }
    }
}

static void test_peaks_run(void **state)
{
    (void)state;
    static const uint32_t sets[] = {0, CPU_AVX2, ~0u};
    for (size_t k = 0; k < 3; k++)
        for (int kind = 0; kind < PEAK_KINDS; kind++) {
            const struct peak *p = peak_get((enum peak_kind)kind, cpu_features() & sets[k]);
            if (kind != PEAK_BF16)
                assert_non_null(p);
            if (!p)
                continue;
            assert_true(p->ops_per_round > 0 && strlen(p->how) > 0);
            p->run(0);
            p->run(1);
            p->run(1000);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_interval), cmocka_unit_test(test_ends),
                                       cmocka_unit_test(test_coverage), cmocka_unit_test(test_read),
                                       cmocka_unit_test(test_peaks_run)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
