/* The sampler at the size of real vocabularies, where its shortcuts are taken: every configuration chooses what the
 * naive sampler chooses, on rows of several shapes. */
#include "naive.h"
#include "sample/noise.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum {
    N = 40011 /* not a multiple of 64; large enough for selection by rank */
};

enum shape {
    TAIL,    /* as models have */
    FLAT,    /* all nearly equal */
    EQUAL,   /* all equal: ids decide everything */
    STEPS,   /* five values: long ties */
    HOSTILE, /* NaN, infinities, huge values, zeros of both signs */
    SHAPES
};

static float value(enum shape shape, uint32_t i)
{
    static const float odd[8] = {NAN, INFINITY, -INFINITY, 3e38f, -3e38f, 0.0f, -0.0f, 1e-40f};
    uint32_t x[4];
    noise_quad(5, (uint32_t)shape, 0, i, x);
    switch (shape) {
    case TAIL:
        return 3 * (float)(noise_gumbel(x[0]) - noise_gumbel(x[1]));
    case FLAT:
        return 4 + (float)(x[0] % 1000) * 1e-4f;
    case STEPS:
        return (float)(x[0] % 5) * 0.7f;
    case HOSTILE:
        return x[0] % 3 == 0 ? odd[x[1] % 8] : (float)(x[2] % 977) * 0.01f;
    default:
        return -2.5f;
    }
}

/* temperature, top_k, top_p, min_p */
static const struct sampler_settings kinds[] = {
    {.typical_p = 1, .temperature = 0, .top_p = 1},
    {.typical_p = 1, .temperature = 0.8f, .top_k = 40, .top_p = 0.95f, .min_p = 0.05f},
    {.typical_p = 1, .temperature = 1, .top_p = 1},
    {.typical_p = 1, .temperature = 5, .top_p = 1},
    {.typical_p = 1, .temperature = 1, .top_p = 1, .min_p = 0.05f},
    {.typical_p = 1, .temperature = 1, .top_p = 0.95f},
    {.typical_p = 1, .temperature = 1, .top_p = 0.5f},
    {.typical_p = 1, .temperature = 0.3f, .top_p = 0.9f},
    {.typical_p = 1, .temperature = 5, .top_p = 0.9f},
    {.typical_p = 1, .temperature = 5, .top_p = 0.9f, .min_p = 0.01f},
    {.typical_p = 1, .temperature = 50, .top_p = 0.999f},
    {.typical_p = 1, .temperature = 1, .top_k = 1000, .top_p = 0.8f},
    {.typical_p = 1, .temperature = 5, .top_k = 2000, .top_p = 1},
    {.typical_p = 1, .temperature = 5, .top_k = 2000, .top_p = 0.7f, .min_p = 0.001f},
    {.typical_p = 1, .temperature = 3, .top_k = 20000, .top_p = 0.9f},
    {.typical_p = 1, .temperature = 3, .top_k = 39990, .top_p = 1},
};

static void equals_the_naive_sampler(void **state)
{
    (void)state;
    float *l = malloc(N * sizeof *l);
    struct sampler *sampler;
    struct hasten_error err;
    assert_non_null(l);
    assert_int_equal(sampler_open(N, &sampler, &err), HASTEN_OK);
    for (int shape = 0; shape < SHAPES; shape++) {
        for (uint32_t i = 0; i < N; i++)
            l[i] = value(shape, i);
        for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
            struct sampler_settings s = kinds[k];
            s.repeat_penalty = 1;
            for (int64_t pos = 0; pos < 4; pos++) {
                struct token_logprob t;
                assert_int_equal(sampler_choose(sampler, NULL, &s, l, NULL, 0, pos, &t, NULL, &err),
                                 HASTEN_OK);
                int32_t want = naive_choose(&s, l, N, NULL, 0, pos);
                if (t.id != want)
                    fail_msg("shape %d, kind %zu, position %d: %d, the naive sampler %d", shape, k, (int)pos,
                             (int)t.id, (int)want);
            }
        }
    }
    sampler_close(sampler);
    free(l);
}

/* Equal logits and a top_p that cuts exactly at a token: the comparison that only the law's own sum decides. */
static void the_edge_of_top_p(void **state)
{
    (void)state;
    enum {
        SMALL = 100
    };
    float l[SMALL] = {0};
    struct sampler *sampler;
    struct hasten_error err;
    int at_the_edge = 0;
    struct sampler_settings s = {.typical_p = 1, .temperature = 1, .top_p = 0.25f, .repeat_penalty = 1};
    assert_int_equal(sampler_open(SMALL, &sampler, &err), HASTEN_OK);
    for (int64_t pos = 0; pos < 2000; pos++) {
        struct token_logprob t;
        assert_int_equal(sampler_choose(sampler, NULL, &s, l, NULL, 0, pos, &t, NULL, &err), HASTEN_OK);
        assert_int_equal(t.id, naive_choose(&s, l, SMALL, NULL, 0, pos));
        assert_true(t.id < 25);
        at_the_edge += t.id == 24;
    }
    assert_true(at_the_edge > 40); /* 80 expected */
    sampler_close(sampler);
}

/* Log-probabilities against sums in f64, and their order. */
static void logprobs(void **state)
{
    (void)state;
    float *l = malloc(N * sizeof *l);
    struct sampler *sampler;
    struct hasten_error err;
    struct token_logprob t, top[64];
    struct sampler_settings s = {
        .typical_p = 1, .temperature = 1, .top_p = 1, .repeat_penalty = 1, .n_logprobs = 64};
    assert_non_null(l);
    assert_int_equal(sampler_open(N, &sampler, &err), HASTEN_OK);
    for (int shape = 0; shape < HOSTILE; shape++) {
        double sum = 0;
        for (uint32_t i = 0; i < N; i++)
            sum += exp((double)(l[i] = value(shape, i)));
        assert_int_equal(sampler_choose(sampler, NULL, &s, l, NULL, 0, 3, &t, top, &err), HASTEN_OK);
        assert_float_equal(t.logprob, l[t.id] - (float)log(sum), 2e-6f);
        for (int i = 0; i < 64; i++) {
            assert_float_equal(top[i].logprob, l[top[i].id] - (float)log(sum), 2e-6f);
            assert_true(i == 0 || l[top[i].id] < l[top[i - 1].id] ||
                        (l[top[i].id] == l[top[i - 1].id] && top[i].id > top[i - 1].id));
        }
    }
    sampler_close(sampler);
    free(l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equals_the_naive_sampler),
        cmocka_unit_test(the_edge_of_top_p),
        cmocka_unit_test(logprobs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
