/* Embeddings of a tiny BERT under memcmp: a text alone, in any company, on one thread and two, with other kernels of the
 * same bits, with poisoned pages; and what hasten_embed and hasten_step refuse. use: test_bits BERT.gguf */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "hasten/hasten.h"

#include <stdlib.h>
#include <string.h>

#define N_TEXTS 9
#define WIDTH 48

static const char *path;
static struct hasten_model *model;
static int32_t ids[N_TEXTS][128];
static struct hasten_text texts[N_TEXTS];

static int set_up(void **state)
{
    static const int32_t lengths[N_TEXTS] = {1, 128, 2, 17, 63, 64, 65, 5, 100};
    struct hasten_error err;
    (void)state;
    if (hasten_model_open(path, &model, &err))
        fail_msg("%s", err.message);
    assert_int_equal(hasten_model_n_embd(model), WIDTH);
    assert_true(hasten_model_is_encoder(model));
    assert_int_equal(hasten_model_pooling(model), HASTEN_POOLING_MEAN);
    for (int32_t i = 0; i < N_TEXTS; i++) {
        for (int32_t j = 0; j < lengths[i]; j++)
            ids[i][j] = (i * 37 + j * 11 + 2) % hasten_model_n_vocab(model);
        texts[i] = (struct hasten_text){ids[i], lengths[i]};
    }
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    hasten_model_close(model);
    return 0;
}

static struct hasten_engine *open_engine(int32_t n_threads, int32_t n_batch, int32_t n_seq_max, bool plain)
{
    struct hasten_engine_settings s;
    struct hasten_engine *e = NULL;
    struct hasten_error err;
    hasten_engine_default_settings(&s);
    s.n_threads = n_threads;
    s.n_batch = n_batch;
    s.n_seq_max = n_seq_max;
    s.plain = plain;
    s.poison = true;
    if (hasten_engine_open(model, &s, &e, &err))
        fail_msg("%s", err.message);
    return e;
}

static void embed(struct hasten_engine *e, const struct hasten_text *t, int32_t n,
                  enum hasten_pooling pooling, float *out)
{
    struct hasten_error err;
    if (hasten_embed(e, t, n, pooling, false, out, NULL, &err))
        fail_msg("%s", err.message);
    struct hasten_counters c;
    hasten_engine_counters(e, &c);
    assert_int_equal(c.kv_pages_used, 0); /* nothing is kept */
}

static void test_company(void **state)
{
    (void)state;
    for (int p = HASTEN_POOLING_MEAN; p <= HASTEN_POOLING_LAST; p++) {
        float alone[N_TEXTS][WIDTH], all[N_TEXTS][WIDTH];
        struct hasten_engine *e = open_engine(1, 128, 1, false);
        for (int32_t i = 0; i < N_TEXTS; i++)
            embed(e, &texts[i], 1, (enum hasten_pooling)p, alone[i]);
        hasten_engine_close(e);
        const struct {
            int32_t n_threads, n_batch, n_seq_max;
            bool plain;
        } ways[] = {{1, 512, 16, false},
                    {2, 512, 16, false},
                    {2, 128, 16, false},
                    {1, 200, 3, false},
                    {1, 512, 16, true}};
        for (size_t w = 0; w < sizeof ways / sizeof *ways; w++) {
            e = open_engine(ways[w].n_threads, ways[w].n_batch, ways[w].n_seq_max, ways[w].plain);
            embed(e, texts, N_TEXTS, (enum hasten_pooling)p, all[0]);
            if (memcmp(alone, all, sizeof all) != 0)
                fail_msg("pooling %d, way %zu: other bits than alone", p, w);
            memset(all, 0, sizeof all);
            for (int32_t i = N_TEXTS - 1; i >= 0; i--) /* pages that others have used */
                embed(e, &texts[i], 1, (enum hasten_pooling)p, all[i]);
            assert_memory_equal(alone, all, sizeof all);
            hasten_engine_close(e);
        }
    }
}

static void test_pooling(void **state)
{
    (void)state;
    float mean[WIDTH], model_says[WIDTH], cls[WIDTH], last[WIDTH], one[WIDTH];
    struct hasten_engine *e = open_engine(1, 128, 1, false);
    embed(e, &texts[4], 1, HASTEN_POOLING_MEAN, mean);
    embed(e, &texts[4], 1, HASTEN_POOLING_MODEL, model_says);
    embed(e, &texts[4], 1, HASTEN_POOLING_CLS, cls);
    embed(e, &texts[4], 1, HASTEN_POOLING_LAST, last);
    assert_memory_equal(mean, model_says, sizeof mean);
    assert_memory_not_equal(mean, cls, sizeof mean);
    assert_memory_not_equal(cls, last, sizeof cls);
    embed(e, &texts[0], 1, HASTEN_POOLING_MEAN, mean); /* of one token all are one */
    embed(e, &texts[0], 1, HASTEN_POOLING_LAST, one);
    assert_memory_equal(mean, one, sizeof one);
    struct hasten_error err;
    assert_int_equal(hasten_embed(e, &texts[4], 1, HASTEN_POOLING_MEAN, true, mean, NULL, &err), HASTEN_OK);
    double sum = 0;
    for (int i = 0; i < WIDTH; i++)
        sum += (double)mean[i] * (double)mean[i];
    assert_true(sum > 0.999999 && sum < 1.000001);
    hasten_engine_close(e);
}

static void test_refusals(void **state)
{
    (void)state;
    float out[2 * WIDTH];
    struct hasten_error err;
    const int32_t bad[] = {1 << 20};
    int32_t too_long[129] = {0};
    struct hasten_engine *e = open_engine(1, 128, 2, false);
    struct hasten_text pair[2] = {texts[3], {too_long, 129}};
    assert_int_equal(hasten_embed(e, pair, 2, HASTEN_POOLING_MEAN, false, out, NULL, &err), HASTEN_ERR_FULL);
    assert_non_null(strstr(err.message, "text 1: found 129 tokens (expected at most 128)"));
    pair[1] = (struct hasten_text){bad, 1};
    assert_int_equal(hasten_embed(e, pair, 2, HASTEN_POOLING_MEAN, false, out, NULL, &err), HASTEN_ERR_USAGE);
    assert_non_null(strstr(err.message, "text 1, token 0: found id 1048576"));
    pair[1].n = 0;
    assert_int_equal(hasten_embed(e, pair, 2, HASTEN_POOLING_MEAN, false, out, NULL, &err), HASTEN_ERR_USAGE);
    assert_int_equal(hasten_embed(e, pair, 1, (enum hasten_pooling)4, false, out, NULL, &err),
                     HASTEN_ERR_USAGE);
    const volatile int cancel = 1;
    assert_int_equal(hasten_embed(e, texts, 1, HASTEN_POOLING_MEAN, false, out, &cancel, &err),
                     HASTEN_ERR_CANCELLED);
    struct hasten_seq *held[2];
    for (int i = 0; i < 2; i++)
        assert_int_equal(hasten_seq_open(e, &held[i], &err),
                         HASTEN_OK); /* the cancelled call has left none open */
    assert_int_equal(hasten_embed(e, texts, 1, HASTEN_POOLING_MEAN, false, out, NULL, &err), HASTEN_ERR_FULL);
    struct hasten_item item = {.seq = held[0], .tokens = ids[0], .n = 1, .want_from = 0};
    assert_int_equal(hasten_step(e, &item, 1, NULL, NULL, NULL, &err), HASTEN_ERR_UNSUPPORTED);
    assert_non_null(strstr(err.message, "encoder"));
    hasten_engine_close(e);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_company), cmocka_unit_test(test_pooling),
                                       cmocka_unit_test(test_refusals)};
    if (argc != 2)
        return 2;
    path = argv[1];
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
