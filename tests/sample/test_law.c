/* The sampler law: each filter against tables worked out by hand, the whole against the naive sampler, errors
 * and hostile rows. */
#include "sample_test.h"
#include "naive.h"
#include "base/rng.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static uint32_t next(uint64_t *s) /* splitmix64, for test data only */
{
    uint64_t z = (*s += 0x9e3779b97f4a7c15ull);
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ z >> 27) * 0x94d049bb133111ebull;
    return (uint32_t)(z >> 32);
}

/* The set of tokens that 4,000 positions choose, as a bit mask (small vocabularies). */
static uint64_t seen(const struct sampler_settings *s, const float *logits, int32_t n, const int32_t *path,
                     int64_t n_path)
{
    struct sampler *sampler;
    struct hasten_error err;
    uint64_t mask = 0;
    assert_int_equal(sampler_open(n, &sampler, &err), HASTEN_OK);
    for (int64_t pos = 0; pos < 4000; pos++) {
        struct token_logprob t;
        assert_int_equal(sampler_choose(sampler, NULL, s, logits, path, n_path, pos, &t, NULL, &err),
                         HASTEN_OK);
        mask |= 1ull << t.id;
    }
    sampler_close(sampler);
    return mask;
}

static int32_t pick(const struct sampler_settings *s, const float *logits, int32_t n, const int32_t *path,
                    int64_t n_path)
{
    struct sampler *sampler;
    struct hasten_error err;
    struct token_logprob t;
    assert_int_equal(sampler_open(n, &sampler, &err), HASTEN_OK);
    assert_int_equal(sampler_choose(sampler, NULL, s, logits, path, n_path, 7, &t, NULL, &err), HASTEN_OK);
    sampler_close(sampler);
    return t.id;
}

/* probabilities 0.4 0.3 0.2 0.1 in the order of ids 2 0 3 1 */
static void four(float l[4])
{
    l[2] = logf(0.4f);
    l[0] = logf(0.3f);
    l[3] = logf(0.2f);
    l[1] = logf(0.1f);
}

static void top_k_keeps_k(void **state)
{
    (void)state;
    float l[4];
    four(l);
    struct sampler_settings s = plain();
    const uint64_t want[5] = {15, 4, 5, 13, 15};
    for (int32_t k = 0; k <= 4; k++) {
        s.top_k = k;
        assert_int_equal(seen(&s, l, 4, NULL, 0), want[k]);
    }
    float ties[6] = {1, 2, 2, 2, 2, 0};
    s.top_k = 2;
    assert_int_equal(seen(&s, ties, 6, NULL, 0), 1u << 1 | 1u << 2); /* the lowest ids of a tie */
}

static void top_p_keeps_the_shortest_prefix(void **state)
{
    (void)state;
    float l[4];
    four(l);
    struct sampler_settings s = plain();
    const struct {
        float p;
        uint64_t want;
    } rows[] = {{0.05f, 4},  {0.39f, 4},  {0.41f, 5},  {0.69f, 5},
                {0.71f, 13}, {0.89f, 13}, {0.91f, 15}, {1.0f, 15}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        s.top_p = rows[i].p;
        assert_int_equal(seen(&s, l, 4, NULL, 0), rows[i].want);
    }
    s.top_k = 2; /* of what top-k left: 4/7, 3/7 */
    s.top_p = 0.56f;
    assert_int_equal(seen(&s, l, 4, NULL, 0), 4);
    s.top_p = 0.58f;
    assert_int_equal(seen(&s, l, 4, NULL, 0), 5);
}

static void min_p_is_relative_to_the_best(void **state)
{
    (void)state;
    float l[4];
    four(l);
    struct sampler_settings s = plain();
    const struct {
        float p;
        uint64_t want;
    } rows[] = {{0.24f, 15}, {0.26f, 13}, {0.49f, 13}, {0.51f, 5}, {0.74f, 5}, {0.76f, 4}, {1.0f, 4}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        s.min_p = rows[i].p;
        assert_int_equal(seen(&s, l, 4, NULL, 0), rows[i].want);
        s.top_k = 4;
        assert_int_equal(seen(&s, l, 4, NULL, 0), rows[i].want);
        s.top_k = 0;
    }
}

static void penalties_follow_the_formula(void **state)
{
    (void)state;
    struct sampler_settings s = plain();
    s.temperature = 0;
    const float l[4] = {2.0f, 1.5f, -1.0f, -1.5f};
    const int32_t path[] = {0, 0, 2, 0};
    s.repeat_penalty = 1.5f; /* 2 / 1.5 = 1.33 < 1.5 */
    assert_int_equal(pick(&s, l, 4, path, 4), 1);
    s.repeat_penalty = 1.3f; /* 1.54 > 1.5 */
    assert_int_equal(pick(&s, l, 4, path, 4), 0);
    s.repeat_penalty = 1;
    s.presence_penalty = 0.4f;
    assert_int_equal(pick(&s, l, 4, path, 4), 0);
    s.presence_penalty = 0.6f;
    assert_int_equal(pick(&s, l, 4, path, 4), 1);
    s.presence_penalty = 0;
    s.frequency_penalty = 0.16f; /* three times: 2 - 0.48 > 1.5 */
    assert_int_equal(pick(&s, l, 4, path, 4), 0);
    s.frequency_penalty = 0.17f;
    assert_int_equal(pick(&s, l, 4, path, 4), 1);
    s.penalty_last_n = 2; /* only {2, 0}: once */
    assert_int_equal(pick(&s, l, 4, path, 4), 0);
    s.penalty_last_n = 0;
    s.presence_penalty = 100;
    assert_int_equal(pick(&s, l, 4, path, 4), 0);
    const float negative[4] = {-10.0f, -1.0f, -1.4f, -11.0f};
    s = plain();
    s.temperature = 0;
    s.repeat_penalty = 1.5f; /* -1 * 1.5 < -1.4 */
    const int32_t one[] = {1};
    assert_int_equal(pick(&s, negative, 4, one, 1), 2);
}

static void bias_adds_and_forbids(void **state)
{
    (void)state;
    struct sampler_settings s = plain();
    s.temperature = 0;
    const float l[4] = {2.0f, 1.5f, -1.0f, -1.5f};
    struct logit_bias b[4] = {{1, 0.6f}, {0, -INFINITY}, {1, -INFINITY}, {2, -INFINITY}};
    s.bias = b;
    s.n_bias = 1;
    assert_int_equal(pick(&s, l, 4, NULL, 0), 1);
    s.n_bias = 4;
    assert_int_equal(pick(&s, l, 4, NULL, 0), 3);
}

static void zero_temperature_takes_the_lowest_of_the_best(void **state)
{
    (void)state;
    struct sampler_settings s = plain();
    s.temperature = 0;
    float l[300];
    for (int i = 0; i < 300; i++)
        l[i] = (float)(i % 7);
    assert_int_equal(pick(&s, l, 300, NULL, 0), 6);
    const float zeros[3] = {-0.0f, 0.0f, -0.0f};
    assert_int_equal(pick(&s, zeros, 3, NULL, 0), 0);
}

static void hostile_rows(void **state)
{
    (void)state;
    struct sampler_settings s = plain();
    struct sampler *sampler;
    struct hasten_error err;
    struct token_logprob t;
    float l[130];
    assert_int_equal(sampler_open(130, &sampler, &err), HASTEN_OK);
    for (int i = 0; i < 130; i++)
        l[i] = i % 2 ? NAN : -INFINITY;
    assert_int_equal(sampler_choose(sampler, NULL, &s, l, NULL, 0, 5, &t, NULL, &err), HASTEN_ERR_NON_FINITE);
    assert_non_null(strstr(err.message, "position 5"));
    l[129] = -3.4e38f; /* one finite logit among NaN, +inf, -inf is the choice, whatever the settings */
    l[0] = INFINITY;
    for (int k = 0; k < 3; k++) {
        s.top_k = k;
        for (int p = 0; p < 2; p++) {
            s.top_p = p ? 0.5f : 1.0f;
            assert_int_equal(sampler_choose(sampler, NULL, &s, l, NULL, 0, 5, &t, NULL, &err), HASTEN_OK);
            assert_int_equal(t.id, 129);
        }
    }
    struct logit_bias b = {129, -INFINITY};
    s.bias = &b;
    s.n_bias = 1;
    assert_int_equal(sampler_choose(sampler, NULL, &s, l, NULL, 0, 5, &t, NULL, &err), HASTEN_ERR_NON_FINITE);
    const int32_t path[] = {3, 130};
    assert_int_equal(sampler_choose(sampler, NULL, &s, l, path, 2, 5, &t, NULL, &err), HASTEN_ERR_USAGE);
    assert_non_null(strstr(err.message, "130"));
    sampler_close(sampler);
}

static void logprobs_are_the_models_own(void **state)
{
    (void)state;
    struct sampler_settings s = plain();
    struct sampler *sampler;
    struct hasten_error err;
    struct token_logprob t, top[3];
    float l[4];
    four(l);
    struct logit_bias b = {1, 100};
    s.bias = &b;
    s.n_bias = 1;
    s.n_logprobs = 3;
    assert_int_equal(sampler_open(4, &sampler, &err), HASTEN_OK);
    assert_int_equal(sampler_choose(sampler, NULL, &s, l, NULL, 0, 5, &t, top, &err), HASTEN_OK);
    assert_int_equal(t.id, 1); /* the bias chose it, its log-probability is the model's */
    assert_float_equal(t.logprob, logf(0.1f), 1e-5);
    const int32_t ids[] = {2, 0, 3};
    const float p[] = {0.4f, 0.3f, 0.2f};
    for (int i = 0; i < 3; i++) {
        assert_int_equal(top[i].id, ids[i]);
        assert_float_equal(top[i].logprob, logf(p[i]), 1e-5);
    }
    sampler_close(sampler);
}

static void bad_settings_name_the_field(void **state)
{
    (void)state;
    struct logit_bias b[1] = {{4, 0}};
    struct logit_bias nan_bias[1] = {{1, NAN}};
    struct sampler_settings s[40];
    const char *field[40];
    int n = 0;
#define BAD(name, value) s[n] = plain(), s[n].name = value, field[n++] = #name
    BAD(temperature, -1);
    BAD(temperature, NAN);
    BAD(temperature, INFINITY);
    BAD(top_k, -1);
    BAD(top_p, 0);
    BAD(top_p, 1.5f);
    BAD(top_p, NAN);
    BAD(min_p, -0.1f);
    BAD(min_p, 1.1f);
    BAD(typical_p, 0);
    BAD(typical_p, 1.01f);
    BAD(typical_p, NAN);
    BAD(xtc_probability, -0.1f);
    BAD(xtc_probability, 1.1f);
    BAD(xtc_threshold, -0.1f);
    BAD(xtc_threshold, NAN);
    BAD(dry_multiplier, -1);
    BAD(dry_multiplier, INFINITY);
    BAD(dry_base, 0.9f);
    BAD(dry_base, NAN);
    BAD(dry_allowed_length, 0);
    BAD(dry_last_n, -2);
    BAD(mirostat, 3);
    BAD(mirostat, -1);
    BAD(mirostat_tau, 0);
    BAD(mirostat_tau, INFINITY);
    BAD(mirostat_eta, -0.1f);
    BAD(mirostat_eta, 1.1f);
    BAD(repeat_penalty, 0);
    BAD(presence_penalty, NAN);
    BAD(frequency_penalty, INFINITY);
    BAD(penalty_last_n, -2);
    BAD(n_logprobs, 65);
    BAD(n_bias, -1);
    s[n] = plain(), s[n].bias = b, s[n].n_bias = 1, field[n++] = "logit_bias";
    s[n] = plain(), s[n].bias = nan_bias, s[n].n_bias = 1, field[n++] = "logit_bias";
    struct hasten_error err;
    assert_int_equal(n, 36);
    for (int i = 0; i < n; i++) {
        assert_int_equal(sampler_check(&s[i], 4, &err), HASTEN_ERR_USAGE);
        assert_non_null(strstr(err.message, field[i]));
        assert_non_null(strstr(err.message, "expected"));
    }
    struct sampler_settings good = plain();
    assert_int_equal(sampler_check(&good, 4, &err), HASTEN_OK);
}

/* What a mask forbids is not chosen; log-probabilities are those before it; a mask that leaves nothing is said. */
static void masks_forbid(void **state)
{
    (void)state;
    struct sampler_settings s = plain();
    struct sampler *sampler;
    struct hasten_error err;
    struct token_logprob t, top[2];
    float l[4];
    four(l);
    uint64_t mask = 1ull << 3 | 1ull << 1;
    s.mask = &mask;
    assert_int_equal(seen(&s, l, 4, NULL, 0), mask);
    s.n_logprobs = 2;
    assert_int_equal(sampler_open(4, &sampler, &err), HASTEN_OK);
    for (int temperature = 0; temperature < 2; temperature++) {
        s.temperature = (float)temperature;
        s.top_k = 1;
        assert_int_equal(sampler_choose(sampler, NULL, &s, l, NULL, 0, 5, &t, top, &err), HASTEN_OK);
        assert_int_equal(t.id, 3);
        assert_true(fabsf(t.logprob - logf(0.2f)) < 1e-6f);
        assert_int_equal(top[0].id, 2);
        assert_true(fabsf(top[0].logprob - logf(0.4f)) < 1e-6f);
    }
    mask = 1ull << 40; /* beyond the vocabulary */
    assert_int_equal(sampler_choose(sampler, NULL, &s, l, NULL, 0, 5, &t, top, &err), HASTEN_ERR_NON_FINITE);
    assert_string_equal(err.message, "sampling: position 5: the bias or the grammar forbids every token");
    sampler_close(sampler);
}

/* Random rows of several shapes, random settings: the fast sampler and the naive one choose the same. */
static void equals_the_naive_sampler(void **state)
{
    (void)state;
    static const int32_t sizes[] = {1, 2, 63, 64, 65, 300, 1000, 5003};
    uint64_t r = 12;
    struct hasten_error err;
    int checked = 0;
    for (int round = 0; round < 1200; round++) {
        int32_t n = sizes[next(&r) % 8];
        float *l = malloc((size_t)n * sizeof *l), spread = (float[]){0, 0.5f, 3, 12, 60}[next(&r) % 5];
        for (int32_t i = 0; i < n; i++)
            l[i] = next(&r) % 50 == 0 ? -INFINITY : spread * ((float)(next(&r) % 2001) / 1000 - 1);
        l[next(&r) % (uint32_t)n] = 1;
        int32_t path[40];
        for (int i = 0; i < 40; i++)
            path[i] = (int32_t)(next(&r) % (uint32_t)n);
        uint8_t *breakers = calloc((size_t)n, 1);
        for (int i = 0; i < 40; i++) /* paths that repeat themselves */
            path[i] = next(&r) % 3 && i > 7 ? path[i - 1 - (int)(next(&r) % 2) * 4] : path[i];
        breakers[next(&r) % (uint32_t)n] = 1;
        struct logit_bias b[3] = {{path[0], 2.5f}, {path[1], -1}, {path[0], -0.5f}};
        uint64_t mask[80]; /* all words, few, none but one token, or whole ones of each kind */
        const int shape = (int)(next(&r) % 4);
        for (int i = 0; i < 80; i++)
            mask[i] = (shape > 0) * ((uint64_t)next(&r) << 32 | next(&r)) &
                      -(uint64_t)(shape != 2 || next(&r) % 4 == 0);
        for (int i = 0; i < 80 && shape == 3; i++)
            mask[i] = next(&r) % 2 ? UINT64_MAX : 0;
        const uint32_t one = next(&r) % (uint32_t)n;
        mask[one / 64] |= 1ull << one % 64;
        struct sampler_settings s = {.temperature = (float[]){0, 0.1f, 0.8f, 1, 3}[next(&r) % 5],
                                     .top_k = (int32_t[]){0, 1, 2, 40, 200, 4000}[next(&r) % 6],
                                     .top_p = (float[]){1, 0.95f, 0.5f, 0.01f}[next(&r) % 4],
                                     .min_p = (float[]){0, 0.05f, 0.5f, 1}[next(&r) % 4],
                                     .typical_p = (float[]){1, 1, 0.9f, 0.3f}[next(&r) % 4],
                                     .xtc_probability = (float[]){0, 0, 0.5f, 1}[next(&r) % 4],
                                     .xtc_threshold = (float[]){0.1f, 0.02f, 0}[next(&r) % 3],
                                     .dry_multiplier = (float[]){0, 0.8f, 2}[next(&r) % 3],
                                     .dry_base = (float[]){1.75f, 1, 4}[next(&r) % 3],
                                     .dry_allowed_length = 1 + (int32_t)(next(&r) % 3),
                                     .dry_last_n = (int32_t[]){-1, 12, 0}[next(&r) % 3],
                                     .dry_breakers = next(&r) % 2 ? breakers : NULL,
                                     .mirostat_tau = 5,
                                     .repeat_penalty = (float[]){1, 1.3f, 0.7f}[next(&r) % 3],
                                     .presence_penalty = (float[]){0, 0.5f, -1}[next(&r) % 3],
                                     .frequency_penalty = (float[]){0, 0.2f}[next(&r) % 2],
                                     .penalty_last_n = (int32_t[]){64, 7, -1, 0}[next(&r) % 4],
                                     .seed = next(&r),
                                     .stream = next(&r) % 2,
                                     .bias = b,
                                     .n_bias = (int32_t)(next(&r) % 4),
                                     .mask = next(&r) % 2 ? mask : NULL};
        struct sampler *sampler;
        assert_int_equal(sampler_check(&s, n, &err), HASTEN_OK);
        assert_int_equal(sampler_open(n, &sampler, &err), HASTEN_OK);
        for (int64_t pos = 0; pos < 6; pos++) {
            struct token_logprob t;
            int64_t n_path = next(&r) % 41;
            int32_t want = naive_choose(&s, l, n, path, n_path, pos << 31);
            hasten_status st = sampler_choose(sampler, NULL, &s, l, path, n_path, pos << 31, &t, NULL, &err);
            assert_int_equal(st, want < 0 ? HASTEN_ERR_NON_FINITE : HASTEN_OK);
            if (want >= 0 && t.id != want)
                fail_msg("round %d: %d, the naive sampler %d", round, (int)t.id, (int)want);
            checked++;
        }
        sampler_close(sampler);
        free(l);
        free(breakers);
    }
    assert_int_equal(checked, 7200);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(masks_forbid),
        cmocka_unit_test(top_k_keeps_k),
        cmocka_unit_test(top_p_keeps_the_shortest_prefix),
        cmocka_unit_test(min_p_is_relative_to_the_best),
        cmocka_unit_test(penalties_follow_the_formula),
        cmocka_unit_test(bias_adds_and_forbids),
        cmocka_unit_test(zero_temperature_takes_the_lowest_of_the_best),
        cmocka_unit_test(hostile_rows),
        cmocka_unit_test(logprobs_are_the_models_own),
        cmocka_unit_test(bad_settings_name_the_field),
        cmocka_unit_test(equals_the_naive_sampler),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
