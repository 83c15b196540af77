/* The arithmetic of encoders against float64: layer norm and gelu on random and hostile rows. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "kernels/kernels.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static float next(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return (float)((double)*state / 2147483648.0 - 1.0);
}

static void test_layer_norm(void **state)
{
    (void)state;
    static const int64_t lengths[] = {1, 2, 15, 16, 17, 48, 100, 384, 1027};
    uint32_t seed = 7;
    for (size_t c = 0; c < sizeof lengths / sizeof *lengths; c++) {
        const int64_t n = lengths[c];
        float *x = malloc((size_t)n * 4 * sizeof *x), *w = x + n, *b = w + n, *y = b + n;
        assert_non_null(x);
        double mean = 0, var = 0;
        for (int64_t i = 0; i < n; i++) {
            x[i] = 3 * next(&seed) + 1;
            w[i] = next(&seed);
            b[i] = next(&seed);
            mean += (double)x[i] / (double)n;
        }
        for (int64_t i = 0; i < n; i++)
            var += ((double)x[i] - mean) * ((double)x[i] - mean) / (double)n;
        layer_norm(x, w, b, n, 1e-12f, y);
        for (int64_t i = 0; i < n; i++) {
            const double truth = ((double)x[i] - mean) / sqrt(var + 1e-12) * (double)w[i] + (double)b[i];
            if (n > 1 && fabs((double)y[i] - truth) > 3e-6)
                fail_msg("length %d, value %d: %.9g (expected %.9g)", (int)n, (int)i, (double)y[i], truth);
        }
        if (n == 1)
            assert_true(y[0] == b[0]);
        layer_norm(x, w, b, n, 1e-12f, x); /* in place */
        assert_memory_equal(x, y, (size_t)n * sizeof *x);
        free(x);
    }
}

static void test_gelu(void **state)
{
    (void)state;
    double worst = 0;
    for (int i = -120000; i <= 120000; i++) {
        const float x = (float)i / 10000.0f;
        float y = x;
        gelu_erf(1, &y);
        const double truth = (double)x / 2 * (1 + erf((double)x / sqrt(2)));
        const double error = fabs((double)y - truth) / fmax(fabs((double)x), 1e-30);
        worst = i && error > worst ? error : worst;
    }
    if (worst > 4e-7)
        fail_msg("gelu is %.2g |x| away (expected at most 4e-7)", worst);
    float odd[] = {0.0f, -0.0f, 1e30f, -1e30f, INFINITY, NAN, 1e-40f};
    gelu_erf(7, odd);
    assert_true(odd[0] == 0 && odd[1] == 0 && odd[2] == 1e30f && odd[3] == 0 && odd[4] == INFINITY);
    assert_true(odd[5] != odd[5] && odd[6] >= 0 && odd[6] <= 1e-40f);
}

/* The same values one at a time and in one call: a vector build has no other bits. */
static void test_gelu_bits(void **state)
{
    (void)state;
    uint32_t seed = 3;
    float all[101], one[101];
    for (int i = 0; i < 101; i++)
        all[i] = one[i] = 6 * next(&seed);
    gelu_erf(101, all);
    for (int i = 0; i < 101; i++)
        gelu_erf(1, &one[i]);
    assert_memory_equal(all, one, sizeof all);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_layer_norm), cmocka_unit_test(test_gelu),
                                       cmocka_unit_test(test_gelu_bits)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
