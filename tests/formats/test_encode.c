/* The encoders: blocks on a grid come back exactly, errors are no worse than those of plain rounding, importance
 * moves the error to where it matters less, hostile numbers give valid blocks, and a block's bytes depend on
 * nothing but the block. */
#include "base/mem.h"
#include "formats/encode.h"
#include "tiny_weights.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define N 8192
#define MAX_BYTES (4 * N)

static const char *const names[] = {"F32",  "F16",  "BF16", "Q4_0", "Q4_1", "Q5_0", "Q5_1",
                                    "Q8_0", "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K"};
#define N_TYPES (sizeof names / sizeof *names)

static const struct quant_type *type_at(size_t i)
{
    const struct quant_type *t = quant_encodable(names[i]);
    assert_non_null(t);
    assert_string_equal(t->name, names[i]);
    return t;
}

/* Sum of four uniforms: near enough to the bell of real weights. */
static float bell(struct tiny_rng *r)
{
    return 0.5f * (tiny_rng_uniform(r) + tiny_rng_uniform(r) + tiny_rng_uniform(r) + tiny_rng_uniform(r));
}

static void fill(float *x, int n, uint32_t stream)
{
    struct tiny_rng r = tiny_rng_make(7, stream);
    for (int i = 0; i < n; i++)
        x[i] = 0.04f * bell(&r);
}

static double squared_error(const float *x, const float *y, const float *h, int n)
{
    double e = 0;
    for (int i = 0; i < n; i++)
        e += (h ? (double)h[i] : 1.0) * ((double)x[i] - (double)y[i]) * ((double)x[i] - (double)y[i]);
    return e;
}

/* Encodes and decodes; every value that comes back is finite. */
static void there_and_back(const struct quant_type *t, const float *x, int n, const float *h, float *y)
{
    static uint8_t bytes[MAX_BYTES];
    memset(bytes, 0xa5, sizeof bytes);
    assert_int_equal(quant_encode(t, x, n, h, bytes), -1);
    t->decode(bytes, n, y);
    for (int i = 0; i < n; i++)
        if (!isfinite(y[i]))
            fail_msg("%s: value %d comes back as %g for %g", t->name, i, (double)y[i], (double)x[i]);
}

static void test_table(void **state)
{
    (void)state;
    for (uint32_t id = 0; id < 64; id++) { /* all that decode but the IQ, TQ, MXFP4 and NVFP4 types */
        const struct quant_type *t = quant_type_get(id);
        if (t)
            assert_int_equal(quant_can_encode(t), t->decode && (id < 16 || id == QUANT_BF16));
    }
    assert_ptr_equal(quant_encodable("q4_k"), quant_type_get(QUANT_Q4_K));
    assert_null(quant_encodable("Q8_1"));
    assert_null(quant_encodable(""));
    assert_false(quant_can_encode(NULL));
}

/* ---- values on a grid ---------------------------------------------------------------------------------------- */

/* What was decoded once is on the format's grid. Formats with one scale and nothing to choose beside the codes find
 * it again; of the others, whose scales have many near-equal answers, most values come back and the error of the
 * rest is far below a step. */
static void test_grid(void **state)
{
    static float x[N], y[N], z[N];
    (void)state;
    fill(x, N, 1);
    for (size_t i = 0; i < N_TYPES; i++) {
        const struct quant_type *t = type_at(i);
        there_and_back(t, x, N, NULL, y);
        there_and_back(t, y, N, NULL, z);
        const bool exact = t->block == 1 || t->id == QUANT_Q4_0 || t->id == QUANT_Q5_0 || t->id == QUANT_Q3_K;
        const double first = squared_error(x, y, NULL, N), second = squared_error(y, z, NULL, N);
        if (exact ? memcmp(y, z, sizeof y) != 0 : second > 0.1 * first)
            fail_msg("%s: encoding what was decoded changes it (squared error %g after %g)", t->name, second,
                     first);
    }
}

/* A grid whose largest code, scale and minimum are used, as an encoder leaves it: exact in every format of blocks. */
static void test_full_grid(void **state)
{
    static const struct {
        const char *name;
        float lo, hi, offset,
            step; /* x = step (code + offset); step is the highest integer scale times a float16 */
    } grids[] = {{"Q4_0", -8, 7, 0, 0x1p-9f},         {"Q5_0", -16, 15, 0, 0x1p-9f},
                 {"Q8_0", -127, 127, 0, 0x1p-9f},     {"Q4_1", 0, 15, -3, 0x1p-9f},
                 {"Q5_1", 0, 31, 9, 0x1p-9f},         {"Q3_K", -4, 3, 0, 0x1p-9f},
                 {"Q6_K", -32, 31, 0, 0x1p-9f},       {"Q4_K", 0, 15, -7, 63 * 0x1p-15f},
                 {"Q5_K", 0, 31, -16, 63 * 0x1p-15f}, {"Q2_K", 0, 3, -1.5f, 15 * 0x1p-13f}};
    float x[256], y[256];
    (void)state;
    for (size_t g = 0; g < sizeof grids / sizeof *grids; g++) {
        const int codes = (int)(grids[g].hi - grids[g].lo) + 1;
        struct tiny_rng r = tiny_rng_make(11, (uint32_t)g);
        for (int i = 0; i < 256; i++) {
            const int code = i % 16 == 0   ? 0
                             : i % 16 == 1 ? codes - 1
                                           : (int)(tiny_rng_u32(&r) % (uint32_t)codes);
            x[i] = grids[g].step * (grids[g].lo + (float)code + grids[g].offset);
        }
        there_and_back(quant_encodable(grids[g].name), x, 256, NULL, y);
        if (squared_error(x, y, NULL, 256) != 0)
            fail_msg("%s: a grid is not found: error %g", grids[g].name, squared_error(x, y, NULL, 256));
    }
}

/* ---- errors ---------------------------------------------------------------------------------------------------- */

/* Plain rounding with exact scales, that of each run of `run` values: the range from min to max, or the largest
 * magnitude, cut into equal steps. */
static double rounding_error(const float *x, int n, int run, int steps, bool affine)
{
    double e = 0;
    for (int i = 0; i < n; i += run) {
        double lo = 0, hi = 0;
        for (int j = 0; j < run; j++) {
            lo = (double)x[i + j] < lo ? (double)x[i + j] : lo;
            hi = (double)x[i + j] > hi ? (double)x[i + j] : hi;
        }
        if (!affine)
            hi = fmax(-lo, hi), lo = -hi;
        const double step = (hi - lo) / steps;
        for (int j = 0; j < run; j++) {
            const double gap = (double)x[i + j] - lo - step * rint(((double)x[i + j] - lo) / step);
            e += gap * gap;
        }
    }
    return e;
}

/* Better than rounding that even has exact scales. */
static void test_errors(void **state)
{
    static const struct {
        const char *name;
        int run, steps;
        bool affine;
        double share; /* of the error of plain rounding, at most */
    } rows[] = {{"Q8_0", 32, 254, false, 1.01}, {"Q6_K", 16, 62, false, 0.95}, {"Q5_0", 32, 30, false, 0.87},
                {"Q5_1", 32, 31, true, 0.97},   {"Q5_K", 32, 31, true, 1.0},   {"Q4_0", 32, 14, false, 0.76},
                {"Q4_1", 32, 15, true, 0.93},   {"Q4_K", 32, 15, true, 0.96},  {"Q3_K", 16, 6, false, 0.65},
                {"Q2_K", 16, 3, true, 0.75}};
    static float x[N], y[N];
    (void)state;
    fill(x, N, 2);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        there_and_back(quant_encodable(rows[i].name), x, N, NULL, y);
        const double share =
            squared_error(x, y, NULL, N) / rounding_error(x, N, rows[i].run, rows[i].steps, rows[i].affine);
        print_message("%s: %.3f of the squared error of plain rounding\n", rows[i].name, share);
        if (share > rows[i].share)
            fail_msg("%s: %.3f of the squared error of plain rounding (expected at most %.2f)", rows[i].name,
                     share, rows[i].share);
    }
}

/* With importance the weighted error falls; in formats that have a choice, by a good part. */
static void test_importance(void **state)
{
    static float x[N], h[N], plain[N], weighted[N];
    struct tiny_rng r = tiny_rng_make(3, 3);
    (void)state;
    fill(x, N, 4);
    for (int i = 0; i < N; i++)
        h[i] = expf(4.0f * bell(&r)); /* a factor of some hundred between columns */
    for (size_t i = 0; i < N_TYPES; i++) {
        const struct quant_type *t = type_at(i);
        there_and_back(t, x, N, NULL, plain);
        there_and_back(t, x, N, h, weighted);
        const double share = squared_error(x, weighted, h, N) / squared_error(x, plain, h, N);
        if (t->block == 1) {
            assert_memory_equal(plain, weighted, sizeof plain);
            continue;
        }
        print_message("%s: weighted error %.3f of that without importance\n", t->name, share);
        if (share > (t->id == QUANT_Q8_0 ? 1.0 : 0.97))
            fail_msg("%s: importance leaves %.3f of the weighted error", t->name, share);
    }
}

/* The same importance everywhere is no importance. */
static void test_equal_importance(void **state)
{
    static float x[N], h[N];
    static uint8_t a[MAX_BYTES], b[MAX_BYTES];
    (void)state;
    fill(x, N, 5);
    for (size_t i = 0; i < N_TYPES; i++) {
        const struct quant_type *t = type_at(i);
        const size_t bytes = (size_t)(N / t->block * t->block_bytes);
        const float equal[] = {1.0f, 0.0f, 1e-45f, 3e38f, NAN, -1.0f, INFINITY};
        quant_encode(t, x, N, NULL, a);
        for (size_t j = 0; j < sizeof equal / sizeof *equal; j++) {
            for (int k = 0; k < N; k++)
                h[k] = equal[j];
            quant_encode(t, x, N, h, b);
            assert_memory_equal(a, b, bytes);
        }
    }
}

/* ---- hostile numbers -------------------------------------------------------------------------------------------- */

static const float strange[] = {0.0f,    -0.0f, 1e-45f,   1e-38f,    1e-20f, 1.0f,  1e20f,
                                3.4e38f, NAN,   INFINITY, -INFINITY, -1.0f,  -1e30f};

/* Any importance: valid blocks, and an error that stays within what the format does without one, times some. */
static void test_hostile_importance(void **state)
{
    static float x[N], h[N], y[N], plain[N];
    (void)state;
    fill(x, N, 6);
    for (size_t i = 0; i < N_TYPES; i++) {
        const struct quant_type *t = type_at(i);
        struct tiny_rng r = tiny_rng_make(5, (uint32_t)i);
        for (int k = 0; k < N; k++)
            h[k] = strange[tiny_rng_u32(&r) % (sizeof strange / sizeof *strange)];
        there_and_back(t, x, N, NULL, plain);
        there_and_back(t, x, N, h, y);
        double largest = 0;
        for (int k = 0; k < N; k++)
            largest = fmax(largest, fabs((double)y[k]));
        assert_true(largest < 0.3); /* values lie within 0.08 */
    }
}

static void check_block(const struct quant_type *t, const float *x, const char *what)
{
    float y[256];
    there_and_back(t, x, 256, NULL, y);
    for (int i = 0; i < 256; i++)
        if (fabsf(y[i]) > 2.0f * 3.4028235e38f || (fabsf(x[i]) < 1e-9f && fabsf(y[i]) > 0.6f))
            fail_msg("%s, %s: value %d: %g becomes %g", t->name, what, i, (double)x[i], (double)y[i]);
}

static void test_hostile_values(void **state)
{
    float x[256], y[256];
    (void)state;
    for (size_t i = 0; i < N_TYPES; i++) {
        const struct quant_type *t = type_at(i);
        memset(x, 0, sizeof x);
        there_and_back(t, x, 256, NULL, y);
        for (int k = 0; k < 256; k++)
            assert_true(y[k] == 0.0f);
        for (int k = 0; k < 256; k++)
            x[k] = k % 2 ? 1e-45f : -1e-40f;
        check_block(t, x, "denormals");
        x[77] = 1.0f;
        check_block(t, x, "denormals and a one");
        for (int k = 0; k < 256; k++)
            x[k] = k % 3 ? 3.4028235e38f : -3.4028235e38f;
        check_block(t, x, "the largest");
        x[5] = 1e-45f;
        there_and_back(t, x, 256, NULL, y);
        for (int k = 0; k < 256; k++)
            x[k] = 0.25f;
        check_block(t, x, "all alike");
        there_and_back(t, x, 256, NULL, y);
        for (int k = 0; k < 256; k++)
            assert_true(fabsf(y[k] - 0.25f) < 0.004f);
        for (int k = 0; k < 256; k++)
            x[k] = 65504.0f * (k % 2 ? 1.0f : -0.5f);
        there_and_back(t, x, 256, NULL, y);
        for (int k = 0; k < 256; k++)
            assert_true(fabsf(y[k] - x[k]) < 0.2f * 65504.0f);
    }
}

/* Random exponents over the whole range, random signs: always valid. */
static void test_any_bits(void **state)
{
    float x[256], h[256], y[256];
    (void)state;
    for (size_t i = 0; i < N_TYPES; i++) {
        const struct quant_type *t = type_at(i);
        struct tiny_rng r = tiny_rng_make(13, (uint32_t)i);
        for (int round = 0; round < 60; round++) {
            for (int k = 0; k < 256; k++) {
                uint32_t bits = tiny_rng_u32(&r), weight = tiny_rng_u32(&r);
                if ((bits & 0x7f800000) == 0x7f800000) /* not a number */
                    bits ^= 0x40000000;
                memcpy(&x[k], &bits, sizeof bits);
                memcpy(&h[k], &weight, sizeof weight);
            }
            there_and_back(t, x, 256, round % 2 ? h : NULL, y);
        }
    }
}

static void test_not_finite(void **state)
{
    static float x[N];
    static uint8_t bytes[MAX_BYTES];
    const float bad[] = {NAN, INFINITY, -INFINITY};
    const int at[] = {0, 31, 255, 256, 4000, N - 1};
    (void)state;
    for (size_t i = 0; i < N_TYPES; i++)
        for (size_t j = 0; j < sizeof bad / sizeof *bad; j++)
            for (size_t k = 0; k < sizeof at / sizeof *at; k++) {
                fill(x, N, 8);
                x[at[k]] = bad[j];
                assert_int_equal(quant_encode(type_at(i), x, N, NULL, bytes), at[k]);
            }
}

/* ---- the same bytes --------------------------------------------------------------------------------------------- */

static void test_split(void **state)
{
    static float x[N], h[N];
    static uint8_t whole[MAX_BYTES], parts[MAX_BYTES];
    (void)state;
    fill(x, N, 9);
    for (int i = 0; i < N; i++)
        h[i] = 1.0f + 50.0f * x[i] * x[i];
    for (size_t i = 0; i < N_TYPES; i++) {
        const struct quant_type *t = type_at(i);
        assert_int_equal(quant_encode(t, x, N, h, whole), -1);
        for (int at = N - 256; at >= 0; at -= 256)
            assert_int_equal(quant_encode(t, x + at, 256, h + at, parts + at / t->block * t->block_bytes),
                             -1);
        assert_memory_equal(whole, parts, (size_t)(N / t->block * t->block_bytes));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_table),
        cmocka_unit_test(test_grid),
        cmocka_unit_test(test_full_grid),
        cmocka_unit_test(test_errors),
        cmocka_unit_test(test_importance),
        cmocka_unit_test(test_equal_importance),
        cmocka_unit_test(test_hostile_importance),
        cmocka_unit_test(test_hostile_values),
        cmocka_unit_test(test_any_bits),
        cmocka_unit_test(test_not_finite),
        cmocka_unit_test(test_split),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
