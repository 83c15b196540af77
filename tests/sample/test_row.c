/* The passes over a row: the builds for wider instruction sets give the bits of the plain one, and the plain one what
 * row.h says. */
#include "base/cpu.h"
#include "kernels/kernels.h"
#include "kernels/row.h"
#include "sample/noise.h"
#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

enum {
    BLOCKS = 37,
    N = BLOCKS * ROW_BLOCK
};

/* shape 0: ordinary; 1: far apart (denormal and vanishing exponentials); 2: with NaN and infinities */
static void fill(float *x, int shape, uint32_t seed)
{
    static const float odd[6] = {NAN, INFINITY, -INFINITY, FLT_MAX, -0.0f, 1e-42f};
    for (uint32_t i = 0; i < N; i++) {
        uint32_t w[4];
        noise_quad(seed, (uint32_t)shape, 0, i, w);
        double u = (double)w[0] * 0x1p-32 - 1;
        x[i] = (float)(u * (shape == 1 ? 130 : 25));
        if (shape == 2 && w[1] % 5 == 0)
            x[i] = odd[w[2] % 6];
    }
}

static int available(const struct row_passes **sets)
{
    int n = 0;
#if defined(__x86_64__)
    uint32_t features = cpu_features();
    if (features & CPU_AVX2)
        sets[n++] = &row_passes_avx2;
    if (features & CPU_AVX512)
        sets[n++] = &row_passes_avx512;
#endif
    sets[n++] = &row_passes_plain;
    return n;
}

static void maxima_and_copy(void **state)
{
    (void)state;
    const struct row_passes *sets[3];
    float x[N], copy[N], max[BLOCKS], copy_max[BLOCKS];
    for (int set = available(sets) - 1; set >= 0; set--)
        for (int shape = 0; shape < 3; shape++) {
            fill(x, shape, 3);
            for (int i = 0; i < ROW_BLOCK; i++)
                x[i] = shape == 2 ? NAN : x[i]; /* a block without a finite value */
            sets[set]->maxima(x, BLOCKS, max);
            sets[set]->copy(x, BLOCKS, copy, copy_max);
            assert_memory_equal(max, copy_max, sizeof max);
            for (int b = 0; b < BLOCKS; b++) {
                float want = -INFINITY;
                for (int i = b * ROW_BLOCK; i < (b + 1) * ROW_BLOCK; i++) {
                    want = isfinite(x[i]) && x[i] > want ? x[i] : want;
                    assert_true(isfinite(x[i]) ? copy[i] == x[i] : copy[i] == -INFINITY);
                }
                assert_true(max[b] == want);
            }
        }
}

static void exps_are_the_engines(void **state)
{
    (void)state;
    const struct row_passes *sets[3];
    float x[N], e[N];
    for (int set = available(sets) - 1; set >= 0; set--)
        for (int shape = 0; shape < 2; shape++) {
            fill(x, shape, 4);
            sets[set]->exps(x, N, 0.5f, e);
            for (int i = 0; i < N; i++) {
                float want = exp_f32(x[i] - 0.5f);
                assert_memory_equal(&e[i], &want, sizeof want);
            }
        }
}

static void sums_have_the_same_bits(void **state)
{
    (void)state;
    const struct row_passes *sets[3];
    float x[N], max[BLOCKS];
    const int n = available(sets);
    for (int shape = 0; shape < 3; shape++)
        for (uint32_t seed = 0; seed < 20; seed++) {
            fill(x, shape, seed);
            row_passes_plain.maxima(x, BLOCKS, max);
            float best = -INFINITY;
            for (int b = 0; b < BLOCKS; b++)
                best = max[b] > best ? max[b] : best;
            float floor = seed % 2 ? -FLT_MAX : best - (float)seed;
            struct row_sum start = {.max = best, .n_cuts = (int32_t)(seed % 9)}, want;
            for (int c = 0; c < start.n_cuts; c++)
                start.cut[c] = best - 1.5f * (float)c * (float)c;
            double lane[ROW_LANES] = {0}, total = 0, cuts[ROW_CUTS] = {0};
            for (int i = 0; i < N; i++)
                if (isfinite(x[i]) && x[i] >= floor) {
                    double e = (double)exp_f32(x[i] - best);
                    lane[i % ROW_LANES] += e;
                    total += e;
                    for (int c = 0; c < start.n_cuts; c++)
                        cuts[c] += x[i] >= start.cut[c] ? e : 0;
                }
            for (int set = n - 1; set >= 0; set--) {
                struct row_sum got = start;
                sets[set]->add(&got, x, max, 20, floor); /* in two calls: the lanes go on */
                sets[set]->add(&got, x + 20 * ROW_BLOCK, max + 20, BLOCKS - 20, floor);
                assert_memory_equal(got.lane, lane, sizeof lane);
                assert_true(fabs(row_sum_total(&got) - total) <= 1e-12 * total);
                for (int c = 0; c < start.n_cuts; c++)
                    assert_true(fabs((double)row_sum_at_cut(&got, c) - cuts[c]) <= 1e-4 * cuts[c]);
                if (set == n - 1)
                    want = got;
                double a = row_sum_total(&got), b = row_sum_total(&want);
                assert_memory_equal(&a, &b, sizeof a);
            }
        }
}

static void noise_is_philox(void **state)
{
    (void)state;
    const struct row_passes *sets[3];
    const uint64_t seed = 0xfedcba9876543210ull;
    const int64_t position = 0x7654321001234567ll;
    struct row_noise noise;
    noise_start(&noise, seed, 0xffffffffu, position);
    for (int set = available(sets) - 1; set >= 0; set--)
        for (uint32_t quad0 = 0; quad0 < 1000; quad0 += 16) {
            uint32_t x[ROW_BLOCK], want[4], quad[16], largest = 0;
            for (uint32_t i = 0; i < 16; i++)
                quad[i] = quad0 + i * i * 7919 - 5;
            sets[set]->noise(&noise, 5, quad, 0, x);
            for (uint32_t i = 0; i < 16; i++) {
                noise_quad(seed, 0xffffffffu, position, quad[i] + 5, want);
                for (uint32_t w = 0; w < 4; w++) {
                    assert_int_equal(x[w * 16 + i], want[w]);
                    largest = want[w] > largest ? want[w] : largest;
                }
            }
            assert_true(sets[set]->noise(&noise, 5, quad, largest, x));
            assert_false(sets[set]->noise(&noise, 5, quad, largest + 1, x));
        }
}

static void masks_and_ranges(void **state)
{
    (void)state;
    const struct row_passes *sets[3];
    float x[N];
    int32_t v[131];
    fill(x, 2, 9);
    for (int i = 0; i < 131; i++)
        v[i] = i * 7 - 14; /* two below 0 */
    for (int set = available(sets) - 1; set >= 0; set--) {
        for (int b = 0; b < BLOCKS; b++) {
            uint64_t bits = sets[set]->at_least(x + b * ROW_BLOCK, -7.25f);
            for (int i = 0; i < ROW_BLOCK; i++) {
                float y = x[b * ROW_BLOCK + i];
                assert_int_equal(bits >> i & 1, isfinite(y) && y >= -7.25f);
            }
        }
        assert_int_equal(sets[set]->outside(v, 131, 896), 3); /* 896 itself is outside */
        assert_int_equal(sets[set]->outside(v + 2, 128, 890), 0);
        assert_int_equal(sets[set]->outside(v, 0, 1), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(maxima_and_copy),         cmocka_unit_test(exps_are_the_engines),
        cmocka_unit_test(sums_have_the_same_bits), cmocka_unit_test(noise_is_philox),
        cmocka_unit_test(masks_and_ranges),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
