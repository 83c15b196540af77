/* The noise: its layout, its distribution through the sampler, what it depends on, and what sampling costs. */
#include "sample_test.h"
#include "naive.h"
#include "base/clock.h"
#include "sample/noise.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

/* The documented layout, written out again. */
static void layout(void **state)
{
    (void)state;
    const uint32_t key[2] = {0x89abcdef, 0x01234567}, counter[4] = {1234567 >> 2, 0x55667788, 0x11223344, 9};
    uint32_t want[4];
    philox4x32(counter, key, want);
    for (uint32_t j = 0; j < 4; j++)
        assert_int_equal(noise_x(0x0123456789abcdefull, 9, 0x1122334455667788ll, (1234567u & ~3u) + j),
                         want[j]);
    assert_float_equal(noise_gumbel(0), -log(-log(0.5 / 4294967296.0)), 1e-9);
    assert_float_equal(noise_gumbel(UINT32_MAX), -log(-log1p(-0.5 / 4294967296.0)), 1e-6);
    assert_true(noise_gumbel(UINT32_MAX) < NOISE_GUMBEL_MAX);
}

/* Chi-square of 200,000 draws against the softmax; 15 degrees of freedom, p = 1e-6 at 56.5. */
static double chi_square(const struct sampler_settings *s, const float *l, int32_t n, int by_stream)
{
    struct sampler *sampler;
    struct hasten_error err;
    int count[16] = {0};
    double sum = 0, chi = 0;
    assert_int_equal(sampler_open(n, &sampler, &err), HASTEN_OK);
    struct sampler_settings own = *s;
    for (int i = 0; i < 200000; i++) {
        struct token_logprob t;
        own.stream = by_stream ? (uint32_t)i : 0;
        assert_int_equal(sampler_choose(sampler, NULL, &own, l, NULL, 0, by_stream ? 3 : i, &t, NULL, &err),
                         HASTEN_OK);
        count[t.id]++;
    }
    sampler_close(sampler);
    for (int i = 0; i < n; i++)
        sum += exp((double)l[i] / (double)s->temperature);
    for (int i = 0; i < n; i++) {
        double want = 200000 * exp((double)l[i] / (double)s->temperature) / sum;
        chi += (count[i] - want) * (count[i] - want) / want;
    }
    return chi;
}

static void distribution(void **state)
{
    (void)state;
    float l[16];
    for (int i = 0; i < 16; i++)
        l[i] = -0.3f * (float)((i * 7) % 16);
    struct sampler_settings s = plain();
    for (int by_stream = 0; by_stream < 2; by_stream++) {
        s.temperature = 1;
        assert_true(chi_square(&s, l, 16, by_stream) < 56.5);
        s.temperature = 1.7f;
        assert_true(chi_square(&s, l, 16, by_stream) < 56.5);
        s.top_k = 15; /* the list path; with token 7 (the least likely) gone it is not the same law */
        assert_true(chi_square(&s, l, 16, by_stream) > 56.5);
        s.top_k = 0;
    }
}

/* Pairs of choices at neighbouring positions, and of streams, are independent: 4 x 4 table, 9 degrees, 1e-6 at 45. */
static void independence(void **state)
{
    (void)state;
    const float l[4] = {0, 0, 0, 0};
    struct sampler_settings s = plain();
    struct sampler *sampler;
    struct hasten_error err;
    assert_int_equal(sampler_open(4, &sampler, &err), HASTEN_OK);
    for (int kind = 0; kind < 3; kind++) {
        int table[4][4] = {{0}};
        double chi = 0;
        for (int i = 0; i < 80000; i++) {
            struct token_logprob a, b;
            struct sampler_settings t = s;
            t.stream += kind == 1;
            t.seed += kind == 2;
            assert_int_equal(sampler_choose(sampler, NULL, &s, l, NULL, 0, 2 * i, &a, NULL, &err), HASTEN_OK);
            assert_int_equal(
                sampler_choose(sampler, NULL, &t, l, NULL, 0, 2 * i + (kind == 0), &b, NULL, &err),
                HASTEN_OK);
            table[a.id][b.id]++;
        }
        for (int i = 0; i < 16; i++)
            chi += (table[i / 4][i % 4] - 5000.0) * (table[i / 4][i % 4] - 5000.0) / 5000.0;
        assert_true(chi < 56.5); /* 15 degrees of freedom: the margins are known */
    }
    sampler_close(sampler);
}

/* The same arguments give the same token whatever was asked before. */
static void pure(void **state)
{
    (void)state;
    float l[500];
    int32_t first[200];
    struct sampler_settings s = plain();
    struct sampler *sampler;
    struct hasten_error err;
    struct token_logprob t, top[5];
    for (int i = 0; i < 500; i++)
        l[i] = (float)(i % 29) / 5;
    s.repeat_penalty = 1.2f;
    const int32_t path[] = {4, 8, 15, 16, 23, 42};
    assert_int_equal(sampler_open(500, &sampler, &err), HASTEN_OK);
    for (int i = 0; i < 200; i++) {
        assert_int_equal(sampler_choose(sampler, NULL, &s, l, path, 6, i, &t, NULL, &err), HASTEN_OK);
        first[i] = t.id;
    }
    for (int i = 199; i >= 0; i--) {
        struct sampler_settings other = s;
        other.n_logprobs = 5;
        other.seed = 99;
        sampler_choose(sampler, NULL, &other, l, path, 3, 2 * i, &t, top, &err);
        assert_int_equal(sampler_choose(sampler, NULL, &s, l, path, 6, i, &t, NULL, &err), HASTEN_OK);
        assert_int_equal(t.id, first[i]);
    }
    sampler_close(sampler);
}

/* A vocabulary of 151,936: equal to the naive sampler; the cost is printed, and bounded very loosely. */
static void large_vocabulary(void **state)
{
    (void)state;
    enum {
        N = 151936
    };
    float *l = malloc(N * sizeof *l);
    struct sampler *sampler;
    struct hasten_error err;
    struct token_logprob t;
    for (int i = 0; i < N; i++) {
        uint32_t x[4];
        noise_quad(5, 0, 0, (uint32_t)i, x);
        l[i] = 3 * (float)(noise_gumbel(x[0]) - noise_gumbel(x[1])); /* a heavy upper tail, as models have */
    }
    assert_int_equal(sampler_open(N, &sampler, &err), HASTEN_OK);
    const struct {
        const char *name;
        float temperature, top_p, min_p;
        int32_t top_k;
    } kinds[] = {{"greedy", 0, 1, 0, 0},           {"default", 0.8f, 0.95f, 0.05f, 40},
                 {"temperature only", 1, 1, 0, 0}, {"temperature 5 only", 5, 1, 0, 0},
                 {"min-p", 1, 1, 0.05f, 0},        {"top-p only", 1, 0.95f, 0, 0}};
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        struct sampler_settings s = plain();
        s.temperature = kinds[k].temperature;
        s.top_p = kinds[k].top_p;
        s.min_p = kinds[k].min_p;
        s.top_k = kinds[k].top_k;
        for (int pos = 0; pos < 3; pos++) {
            assert_int_equal(sampler_choose(sampler, NULL, &s, l, NULL, 0, pos, &t, NULL, &err), HASTEN_OK);
            assert_int_equal(t.id, naive_choose(&s, l, N, NULL, 0, pos));
        }
        uint64_t best = UINT64_MAX;
        for (int i = 0; i < 12; i++) {
            uint64_t t0 = clock_now_ns();
            sampler_choose(sampler, NULL, &s, l, NULL, 0, i, &t, NULL, &err);
            uint64_t ns = clock_now_ns() - t0;
            best = ns < best ? ns : best;
        }
        printf("sampling %-18s %7.0f us at %d tokens\n", kinds[k].name, (double)best / 1e3, N);
    }
    sampler_close(sampler);
    free(l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layout), cmocka_unit_test(distribution),     cmocka_unit_test(independence),
        cmocka_unit_test(pure),   cmocka_unit_test(large_vocabulary),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
