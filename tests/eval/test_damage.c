/* Two engines in lockstep on a tiny model: equal engines differ by nothing, another cache by what both engines' own
 * logits say, whatever the chunks; the statistics of tokens made by hand. `test_damage FOLDER` writes its model there. */
#include "eval/damage.h"
#include "base/mem.h"
#include "harness.h"
#include "tiny_model.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define NEAR(x, y, tolerance) assert_true(fabs((x) - (y)) <= (tolerance))

enum {
    N = 300,
    N_CTX = 90
};

static const char *folder;
static struct hasten_model *model;
static int32_t ids[N];

static struct hasten_engine *engine(enum hasten_kv_type kv, int32_t n_logits)
{
    struct hasten_engine_settings s;
    struct hasten_engine *e;
    struct hasten_error err;
    hasten_engine_default_settings(&s);
    s.n_threads = 1;
    s.n_ctx = N_CTX;
    s.n_seq_max = 2;
    s.n_logits = n_logits;
    s.kv_type = kv;
    die_unless_ok(hasten_engine_open(model, &s, &e, &err), &err, "opening an engine");
    return e;
}

static const struct eval_damage_settings plain_settings = {
    .windows = {.ids = ids, .n = N, .n_ctx = N_CTX, .stride = N_CTX}, .block = 16, .resamples = 200};

static void test_equal_engines(void **unused)
{
    (void)unused;
    struct hasten_engine *e = engine(HASTEN_KV_F16, 8);
    struct eval_damage d;
    struct hasten_error err;
    assert_int_equal(eval_damage(e, e, &plain_settings, NULL, NULL, NULL, &d, &err), HASTEN_OK);
    assert_int_equal(d.n, N - 4);
    assert_int_equal(d.n_windows, 4);
    assert_int_equal(d.n_blocks, 6 + 6 + 6 + 2); /* 89 rows a window are 5 blocks of 16 and one of 9 */
    assert_true(d.kl.value == 0 && d.kl.hi == 0 && d.kl_p99.value == 0 && d.agreement.value == 1);
    assert_true(d.flips == 0 && d.dlogp == 0 && d.ppl_difference.value == 0 && d.ppl_plain.value > 1);
    eval_damage_free(&d);
    hasten_engine_close(e);
}

/* The numbers are those of the logits that each engine gives on its own. */
static void test_against_own_logits(void **unused)
{
    (void)unused;
    struct hasten_engine *a = engine(HASTEN_KV_F16, 64), *b = engine(HASTEN_KV_Q8, 5);
    const int32_t n_vocab = hasten_model_n_vocab(model);
    const struct run_spec plain = {.n_threads = 1, .n_batch = 512};
    struct run_spec q8 = plain;
    struct eval_damage d;
    struct hasten_error err;
    q8.kv = HASTEN_KV_Q8;
    assert_int_equal(eval_damage(a, b, &plain_settings, NULL, NULL, NULL, &d, &err), HASTEN_OK);
    double kl = 0, nll = 0;
    int64_t n = 0, flips = 0;
    for (int32_t begin = 0; begin < N - 1; begin += N_CTX) {
        const int32_t len = N - begin < N_CTX ? N - begin : N_CTX;
        float *p = run_logits(model, &plain, ids + begin, len), *q = run_logits(model, &q8, ids + begin, len);
        struct eval_row *row;
        assert_int_equal(eval_row_open(n_vocab, &row, &err), HASTEN_OK);
        for (int32_t i = 0; i < len - 1; i++, n++) {
            struct eval_token t;
            assert_int_equal(eval_row_pair(row, p + (int64_t)i * n_vocab, q + (int64_t)i * n_vocab,
                                           ids[begin + i + 1], &t, &err),
                             HASTEN_OK);
            assert_true(t.kl == d.tokens[n].kl && t.top_variant == d.tokens[n].top_variant);
            assert_true(fabs(t.nll_variant -
                             eval_row_nll(q + (int64_t)i * n_vocab, n_vocab, ids[begin + i + 1])) < 1e-6);
            kl += t.kl;
            nll += t.nll_variant;
            flips += t.top_plain != t.top_variant;
        }
        eval_row_close(row);
        free(p);
        free(q);
    }
    assert_int_equal(n, d.n);
    assert_true(d.kl.value > 0 && fabs(d.kl.value - kl / (double)n) < 1e-12);
    assert_true(fabs(d.ppl_variant.value - exp(nll / (double)n)) < 1e-9 * d.ppl_variant.value);
    assert_int_equal(d.flips, flips);
    eval_damage_free(&d);
    hasten_engine_close(a);
    hasten_engine_close(b);
}

/* Chunks, prefixes and strides choose which rows are compared, never what a row says. */
static void test_rows_and_prefix(void **unused)
{
    (void)unused;
    struct hasten_engine *a = engine(HASTEN_KV_F16, 64), *b = engine(HASTEN_KV_Q8, 64);
    struct eval_damage whole, d;
    struct hasten_error err;
    struct eval_damage_settings s = plain_settings;
    assert_int_equal(eval_damage(a, b, &s, NULL, NULL, NULL, &whole, &err), HASTEN_OK);
    for (s.rows = 1; s.rows <= 64; s.rows += 21) {
        assert_int_equal(eval_damage(a, b, &s, NULL, NULL, NULL, &d, &err), HASTEN_OK);
        assert_true(d.n == whole.n && d.kl.value == whole.kl.value && d.kl.lo == whole.kl.lo);
        eval_damage_free(&d);
    }
    s.rows = 0;
    s.windows.prefix = 50;
    s.windows.n_limit = 2;
    assert_int_equal(eval_damage(a, b, &s, NULL, NULL, NULL, &d, &err), HASTEN_OK);
    assert_int_equal(d.n, 80);
    for (int i = 0; i < 40; i++)
        assert_true(d.tokens[i].kl == whole.tokens[49 + i].kl);
    eval_damage_free(&d);
    eval_damage_free(&whole);
    hasten_engine_close(a);
    hasten_engine_close(b);
}

static void test_refusals(void **unused)
{
    (void)unused;
    struct hasten_engine *e = engine(HASTEN_KV_F16, 8);
    struct eval_damage d;
    struct hasten_error err;
    struct eval_damage_settings s = plain_settings;
    const int cancelled = 1;
    s.windows.prefix = N_CTX;
    assert_int_equal(eval_damage(e, e, &s, NULL, NULL, NULL, &d, &err), HASTEN_ERR_USAGE);
    s = plain_settings;
    s.rows = 65;
    assert_int_equal(eval_damage(e, e, &s, NULL, NULL, NULL, &d, &err), HASTEN_ERR_USAGE);
    s = plain_settings;
    s.windows.n = 1;
    assert_int_equal(eval_damage(e, e, &s, NULL, NULL, NULL, &d, &err), HASTEN_ERR_USAGE);
    s = plain_settings;
    s.windows.n_ctx = s.windows.stride = 2 * N_CTX; /* beyond the engine's context */
    assert_int_equal(eval_damage(e, e, &s, NULL, NULL, NULL, &d, &err), HASTEN_ERR_FULL);
    assert_int_equal(eval_damage(e, e, &plain_settings, NULL, NULL, &cancelled, &d, &err),
                     HASTEN_ERR_CANCELLED);
    for (uint64_t n = 1; n < 8; n++) { /* every allocation on the way may fail, and leaves nothing behind */
        struct mem_stats before, after;
        mem_stats_get(&before);
        mem_fail_at(n, 0);
        const hasten_status st = eval_damage(e, e, &plain_settings, NULL, NULL, NULL, &d, &err);
        const bool failed = mem_fail_count() > 0;
        mem_fail_at(0, 0);
        assert_int_equal(st, failed ? HASTEN_ERR_MEMORY : HASTEN_OK);
        if (!st)
            eval_damage_free(&d);
        mem_stats_get(&after);
        assert_int_equal(before.live_bytes, after.live_bytes);
    }
    hasten_engine_close(e);
}

/* 200 tokens in 10 blocks; the two largest divergences are what the 99th percentile leaves out. */
static void test_statistics(void **unused)
{
    (void)unused;
    struct eval_damage d = {.n = 200, .block = 20};
    const struct eval_damage_settings s = {.resamples = 200, .seed = 3};
    d.tokens = mem_calloc(200, sizeof *d.tokens);
    assert_non_null(d.tokens);
    for (int i = 0; i < 200; i++)
        d.tokens[i] = (struct eval_token){.kl = i == 30    ? 9
                                                : i == 150 ? 8
                                                : i == 77  ? 7
                                                           : 0.5,
                                          .nll_plain = 2,
                                          .nll_variant = 2.5,
                                          .top_plain = i % 10,
                                          .top_variant = i % 10 == 3 ? 99 : i % 10,
                                          .target = i % 20 == 3 ? 3 : 99,
                                          .dlogp = i == 40 ? 1.5 : 1,
                                          .block = i / 20};
    assert_int_equal(eval_damage_of(&s, &d, NULL), HASTEN_OK);
    assert_int_equal(d.n_blocks, 10);
    NEAR(d.kl.value, (197 * 0.5 + 24) / 200, 1e-12);
    assert_true(d.kl.lo < d.kl.value && d.kl.value < d.kl.hi);
    NEAR(d.kl_p99.value, 7, 1e-12);
    assert_true(d.kl_p99.lo == 0.5 && d.kl_p99.hi <= 9 && d.kl_max == 9);
    NEAR(d.agreement.value, 0.9, 1e-12);
    assert_true(d.flips == 20 && d.lost == 10 && d.gained == 10);
    assert_true(d.dlogp == 1.5 && d.dlogp_at == 40);
    NEAR(d.nll_difference.value, 0.5, 1e-12);
    NEAR(d.nll_difference.lo, 0.5, 1e-12); /* the same in every block */
    NEAR(d.ppl_difference.value, exp(2.5) - exp(2), 1e-9);
    eval_damage_free(&d);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_equal_engines),   cmocka_unit_test(test_against_own_logits),
        cmocka_unit_test(test_rows_and_prefix), cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_statistics),
    };
    struct tiny_options o;
    char path[600];
    folder = argc > 1 ? argv[1] : ".";
    snprintf(path, sizeof path, "%s/damage.gguf", folder);
    if (tiny_options_default("llama", 5, &o) || tiny_model_save(&o, path)) {
        fprintf(stderr, "cannot write %s\n", path);
        return 1;
    }
    model = open_or_exit(path);
    random_tokens(9, hasten_model_n_vocab(model), ids, N);
    const int rc = cmocka_run_group_tests(tests, NULL, NULL);
    hasten_model_close(model);
    return rc;
}
