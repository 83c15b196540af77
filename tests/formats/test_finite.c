/* The search for values that are not finite: each block format's scales and values take each of NaN, infinities and
 * their nearest finite neighbours in turn, and the search must say what decoding the whole tensor says; the first
 * find is the right one, wherever it lies. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/rng.h"
#include "formats/finite.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define N_BLOCKS 37
#define MAX_BYTES (N_BLOCKS * 292)

static void fill(uint8_t *out, size_t n, uint64_t seed)
{
    const uint32_t key[2] = {(uint32_t)seed, 5};
    for (size_t i = 0; i < n; i++) {
        uint32_t r[4];
        philox4x32((const uint32_t[4]){(uint32_t)i, 0, 0, 0}, key, r);
        out[i] = (uint8_t)r[0];
    }
}

/* Formats with scales that say NaN where their decoders see a number. */
static int32_t nan_scale(const struct quant_type *t, const uint8_t *block)
{
    if (t->id == QUANT_MXFP4)
        return block[0] == 0xFF ? 0 : -1;
    for (int i = 0; i < 4 && t->id == QUANT_NVFP4; i++)
        if (block[i] == 0x7F || block[i] == 0xFF)
            return 16 * i;
    return -1;
}

/* What decoding says; the number of bad blocks. */
static int64_t decoded(const struct quant_type *t, const uint8_t *data, int64_t n, struct finite_find *first)
{
    int64_t n_bad = 0;
    for (int64_t b = 0; b < n; b++) {
        float x[FINITE_BLOCK];
        const uint8_t *block = data + b * t->block_bytes;
        int32_t at = 0;
        t->decode(block, t->block, x);
        while (at < t->block && isfinite(x[at]))
            at++;
        if (at == t->block && (at = nan_scale(t, block)) < 0)
            continue;
        if (!n_bad++)
            *first = (struct finite_find){b, at, x[at]};
    }
    return n_bad;
}

static void agree(const struct quant_type *t, const uint8_t *data, int64_t n)
{
    struct finite_find want = {-1, -1, 0}, got = {-1, -1, 0};
    const int64_t n_want = decoded(t, data, n, &want), n_got = finite_search(t, data, n, &got);
    if (n_want != n_got || want.block != got.block || want.index != got.index)
        fail_msg("%s: decoding finds %d blocks, first %d at %d; the search %d, %d at %d", t->name,
                 (int)n_want, (int)want.block, (int)want.index, (int)n_got, (int)got.block, (int)got.index);
}

static void every_format_agrees_with_its_decoder(void **state)
{
    (void)state;
    static uint8_t base[MAX_BYTES + 1], data[MAX_BYTES + 1];
    static const uint16_t words[] = {0x7C00, 0xFC00, 0x7C01, 0xFFFF, 0x7BFF,
                                     0xFBFF, 0x7F80, 0xFF80, 0x7F7F, 0};
    int n_types = 0;
    for (uint32_t id = 0; id < 64; id++) {
        const struct quant_type *t = quant_type_get(id);
        if (!t || !t->decode)
            continue;
        n_types++;
        const size_t bytes = (size_t)t->block_bytes * N_BLOCKS, one = (size_t)t->block_bytes;
        for (uint64_t seed = 0; seed < 8; seed++) { /* random bytes: many scales are odd */
            fill(data + 1, bytes, seed * 64 + id);
            agree(t, data + 1, N_BLOCKS);
        }
        memset(base, 0x11, sizeof base);
        agree(t, base + 1, N_BLOCKS);
        for (size_t at = 0; at < one; at++) /* every byte pair of a block in the middle */
            for (size_t w = 0; w < sizeof words / sizeof *words; w++) {
                memcpy(data, base, sizeof data);
                data[1 + 20 * one + at] = (uint8_t)words[w];
                data[1 + 20 * one + at + 1] = (uint8_t)(words[w] >> 8);
                agree(t, data + 1, N_BLOCKS);
            }
    }
    assert_in_range(n_types, 26, 64);
}

/* A scale of every format planted by hand is found in its place: the agreement above cannot be one of the blind. */
static void planted_scales_are_found(void **state)
{
    (void)state;
    static const struct {
        uint32_t id;
        int at;
        uint8_t low, high; /* of the byte pair there */
    } plants[] = {
        {QUANT_F32, 2, 0x80, 0x7F},   {QUANT_F16, 0, 0, 0x7C},     {QUANT_BF16, 0, 0xC0, 0xFF},
        {QUANT_Q4_0, 0, 1, 0x7C},     {QUANT_Q4_1, 2, 0, 0xFC},    {QUANT_Q5_0, 0, 0, 0x7C},
        {QUANT_Q5_1, 2, 0, 0x7E},     {QUANT_Q8_0, 0, 0, 0x7E},    {QUANT_Q2_K, 82, 0, 0x7E},
        {QUANT_Q3_K, 108, 0, 0x7E},   {QUANT_Q4_K, 2, 0, 0x7E},    {QUANT_Q5_K, 0, 0, 0x7E},
        {QUANT_Q6_K, 208, 0, 0x7E},   {QUANT_IQ2_XXS, 0, 0, 0x7E}, {QUANT_IQ2_XS, 0, 0, 0x7E},
        {QUANT_IQ2_S, 0, 0, 0x7E},    {QUANT_IQ3_XXS, 0, 0, 0x7E}, {QUANT_IQ3_S, 0, 0, 0x7E},
        {QUANT_IQ1_S, 0, 0, 0x7E},    {QUANT_IQ4_NL, 0, 0, 0x7E},  {QUANT_IQ4_XS, 0, 0, 0x7E},
        {QUANT_TQ1_0, 52, 0, 0x7E},   {QUANT_TQ2_0, 64, 0, 0x7E},  {QUANT_MXFP4, 0, 0xFF, 0},
        {QUANT_NVFP4, 2, 0x11, 0x7F},
    };
    static uint8_t data[MAX_BYTES];
    for (size_t i = 0; i < sizeof plants / sizeof *plants; i++) {
        const struct quant_type *t = quant_type_get(plants[i].id);
        struct finite_find f = {0};
        memset(data, 0x11, sizeof data);
        assert_int_equal(finite_search(t, data, N_BLOCKS, &f), 0);
        for (int64_t b = 30; b < 33; b++) {
            data[b * t->block_bytes + plants[i].at] = plants[i].low;
            data[b * t->block_bytes + plants[i].at + 1] = plants[i].high;
        }
        if (finite_search(t, data, N_BLOCKS, &f) != 3 || f.block != 30)
            fail_msg("%s: not found", t->name);
    }
    /* IQ1_M: the scale's top nibble is the top nibble of the last of four words. */
    const struct quant_type *t = quant_type_get(QUANT_IQ1_M);
    struct finite_find f = {0};
    memset(data, 0x11, sizeof data);
    data[4 * 56 + 53] = 0xC1;
    data[4 * 56 + 55] = 0x71;
    assert_int_equal(finite_search(t, data, N_BLOCKS, &f), 1);
    assert_int_equal(f.block, 4);
}

static void the_first_of_a_long_tensor_is_named(void **state)
{
    (void)state;
    static float x[5000];
    struct finite_find f;
    x[4999] = NAN;
    assert_int_equal(finite_search(quant_type_get(QUANT_F32), x, 5000, &f), 1);
    assert_int_equal(f.block, 4999);
    assert_true(isnan(f.value));
    x[1024] = -INFINITY;
    assert_int_equal(finite_search(quant_type_get(QUANT_F32), x, 5000, &f), 2);
    assert_int_equal(f.block, 1024);
    assert_true(f.value == -INFINITY);
    assert_int_equal(finite_search(quant_type_get(QUANT_F32), x, 0, &f), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_format_agrees_with_its_decoder),
        cmocka_unit_test(planted_scales_are_found),
        cmocka_unit_test(the_first_of_a_long_tensor_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
