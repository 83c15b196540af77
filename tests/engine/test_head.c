/* What rows are asked and given beside tokens, on a tiny model (path in argv[1]): logits of named tokens alone, a head that
 * knows some tokens only, vectors in place of tokens, the oracle of early exit. Everything that is computed has the bits of
 * the plain engine. */
#include "base/mem.h"
#include "engine/engine.h"
#include "harness.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define N 40
#define MASKS 64

static const char *model_path;
static struct hasten_model *model;
static int32_t n_vocab, tokens[N];

static struct hasten_engine *engine_with(const char *stage, const char *spec, int32_t n_threads, bool plain)
{
    struct hasten_engine_settings s;
    struct hasten_engine *e = NULL;
    struct hasten_error err = {0};
    const struct hasten_method_use use = {stage, spec, NULL};
    hasten_engine_default_settings(&s);
    s.n_threads = n_threads;
    s.n_ctx = 128;
    s.n_seq_max = 4;
    s.n_logits = 2;
    s.plain = plain;
    s.poison = true;
    s.methods = &use;
    s.n_methods = stage != NULL;
    die_unless_ok(hasten_engine_open(model, &s, &e, &err), &err, "opening an engine");
    return e;
}

static struct hasten_seq *sequence(struct hasten_engine *e)
{
    struct hasten_seq *s = NULL;
    struct hasten_error err = {0};
    die_unless_ok(hasten_seq_open(e, &s, &err), &err, "a sequence");
    return s;
}

struct kept {
    float *rows; /* in the order in which they come */
    int32_t n;
};

static int keep(void *ctx, const float *logits, const struct hasten_logits_row *rows, int32_t n_rows,
                int32_t n)
{
    struct kept *k = ctx;
    (void)rows;
    memcpy(k->rows + (int64_t)k->n * n, logits, (size_t)n_rows * (size_t)n * sizeof *logits);
    k->n += n_rows;
    return 0;
}

static float *step(struct hasten_engine *e, const struct hasten_item *items, int32_t n, int32_t n_rows)
{
    struct hasten_error err = {0};
    struct kept k = {calloc((size_t)n_rows * (size_t)n_vocab, sizeof(float)), 0};
    assert_non_null(k.rows);
    die_unless_ok(hasten_step(e, items, n, keep, &k, NULL, &err), &err, "a step");
    assert_int_equal(k.n, n_rows);
    return k.rows;
}

static float *plain_rows; /* [N × n_vocab] */

static bool named(const uint64_t *mask, int32_t id)
{
    return mask[id / 64] >> (id % 64) & 1;
}

/* Row `row` of the plain engine where mask says so, -INFINITY elsewhere. */
static void must_be(const float *got, int32_t row, const uint64_t *mask)
{
    const float *want = plain_rows + (int64_t)row * n_vocab;
    for (int32_t i = 0; i < n_vocab; i++) {
        const bool in = !mask || named(mask, i);
        if (in ? memcmp(&got[i], &want[i], sizeof *got) != 0 : got[i] != -INFINITY)
            fail_msg("row %d, token %d: %.9g, expected %.9g", row, i, (double)got[i],
                     in ? (double)want[i] : -INFINITY);
    }
}

/* Masks: none, one token, some in a few panels, one in many, all. */
static void make_masks(uint64_t mask[5][MASKS])
{
    memset(mask, 0, 5 * sizeof mask[0]);
    mask[1][0] = 1ull << 17;
    mask[1][(n_vocab - 1) / 64] |= 1ull << ((n_vocab - 1) % 64);
    mask[2][0] = 0x00ff00f0;
    for (int32_t i = 0; i < n_vocab; i += 13)
        mask[3][i / 64] |= 1ull << (i % 64);
    for (int32_t i = 0; i < n_vocab; i++)
        mask[4][i / 64] |= 1ull << (i % 64);
}

static void only_named_tokens(void **state)
{
    (void)state;
    static uint64_t mask[5][MASKS];
    make_masks(mask);
    for (int run = 0; run < 4; run++) {
        struct hasten_engine *e = engine_with(NULL, NULL, 1 + run, run == 3);
        for (int m = 0; m < 5; m++) {
            struct hasten_seq *s = sequence(e);
            const struct hasten_item item = {
                .seq = s, .tokens = tokens, .n = N, .want_from = N - 3, .mask = mask[m]};
            float *got = step(e, &item, 1, 3);
            for (int32_t i = 0; i < 3; i++)
                must_be(got + (int64_t)i * n_vocab, N - 3 + i, mask[m]);
            free(got);
            hasten_seq_close(s);
        }
        hasten_engine_close(e);
    }
}

static uint64_t bytes_of(struct hasten_engine *e)
{
    struct hasten_counters c;
    hasten_engine_counters(e, &c);
    return c.weight_bytes;
}

static void few_tokens_read_few_rows(void **state)
{
    (void)state;
    static uint64_t mask[5][MASKS];
    struct hasten_engine *e = engine_with(NULL, NULL, 2, false);
    struct mem_stats before, after;
    const uint64_t panel = PANEL_ROWS * (uint64_t)e->output.row_bytes,
                   all = (uint64_t)n_vocab * (uint64_t)e->output.row_bytes;
    make_masks(mask);
    uint64_t bytes[3];
    mem_stats_get(&before);
    for (int m = 0; m < 3; m++) {
        struct hasten_seq *s = sequence(e);
        const struct hasten_item item = {
            .seq = s, .tokens = tokens, .n = 1, .mask = m == 0 ? mask[4] : mask[m]};
        struct hasten_error err = {0};
        float *row = mem_array((size_t)n_vocab, sizeof *row);
        struct kept k = {row, 0};
        bytes[m] = bytes_of(e);
        die_unless_ok(hasten_step(e, &item, 1, keep, &k, NULL, &err), &err, "a step");
        bytes[m] = bytes_of(e) - bytes[m];
        mem_free(row);
        hasten_seq_close(s);
    }
    mem_stats_get(&after);
    assert_int_equal(after.n_calls - before.n_calls, 3); /* the rows of the test */
    assert_int_equal(bytes[0] - bytes[1], all - 2 * panel);
    assert_int_equal(bytes[0] - bytes[2], all - 2 * panel);
    hasten_engine_close(e);
}

/* In a step a sequence that names tokens and one that does not: neither shows in the other. */
static void beside_others(void **state)
{
    (void)state;
    static uint64_t mask[5][MASKS];
    make_masks(mask);
    struct hasten_engine *e = engine_with(NULL, NULL, 2, false);
    struct hasten_seq *s[4];
    struct hasten_item items[4];
    const uint64_t *of[4] = {mask[1], NULL, mask[2], mask[3]};
    for (int i = 0; i < 4; i++) {
        s[i] = sequence(e);
        items[i] = (struct hasten_item){
            .seq = s[i], .tokens = tokens, .n = 5 + i, .want_from = 4 + i, .mask = of[i]};
    }
    float *got = step(e, items, 4, 4);
    for (int i = 0; i < 4; i++)
        must_be(got + (int64_t)i * n_vocab, 4 + i, of[i]);
    free(got);
    hasten_engine_close(e);
}

static void a_head_of_some_tokens(void **state)
{
    (void)state;
    for (int run = 0; run < 3; run++) {
        struct hasten_engine *e = engine_with("weights", "head:first=100", 1 + run, run == 2);
        static uint64_t mask[MASKS];
        memset(mask, 0, sizeof mask);
        for (int32_t i = 0; i < e->methods.heading.n; i++)
            mask[e->methods.heading.ids[i] / 64] |= 1ull << (e->methods.heading.ids[i] % 64);
        assert_true(e->methods.heading.n >= 100 && e->methods.heading.n < n_vocab);
        assert_int_equal(e->output.n_rows, e->methods.heading.n);
        struct hasten_item item = {.seq = sequence(e), .tokens = tokens, .n = N, .want_from = 0};
        float *got = step(e, &item, 1, N);
        for (int32_t i = 0; i < N; i++)
            must_be(got + (int64_t)i * n_vocab, i, mask);
        free(got);
        static uint64_t few[MASKS];
        few[0] = 6;
        hasten_seq_close(item.seq);
        item = (struct hasten_item){
            .seq = sequence(e), .tokens = tokens, .n = N, .want_from = N - 1, .mask = few};
        got = step(e, &item, 1, 1);
        must_be(got, N - 1, few);
        free(got);
        hasten_engine_close(e);
    }
}

/* ---- vectors in place of tokens ------------------------------------------------------------------------------- */

static float *vectors(void)
{
    struct hasten_error err = {0};
    float *v = calloc((size_t)N * (size_t)hasten_model_n_embd(model), sizeof *v);
    assert_non_null(v);
    die_unless_ok(hasten_token_rows(model, tokens, N, v, &err), &err, "vectors of tokens");
    return v;
}

/* Tokens and their vectors in turns of `chunk`: the plain rows. */
static void vectors_of_tokens(void **state)
{
    (void)state;
    const int32_t d = hasten_model_n_embd(model), chunks[] = {1, 7, N};
    float *v = vectors();
    for (size_t c = 0; c < 3; c++) {
        struct hasten_engine *e = engine_with(NULL, NULL, 1 + (int32_t)c, false);
        struct hasten_seq *s = sequence(e);
        for (int32_t at = 0, turn = 0; at < N; at += chunks[c], turn++) {
            const int32_t n = N - at < chunks[c] ? N - at : chunks[c];
            struct hasten_item item = {.seq = s, .n = n};
            if (turn % 2)
                item.tokens = tokens + at;
            else
                item.embd = v + (int64_t)at * d;
            float *got = step(e, &item, 1, n);
            for (int32_t i = 0; i < n; i++) {
                must_be(got + (int64_t)i * n_vocab, at + i, NULL);
                const int32_t held = hasten_seq_tokens(s)[at + i];
                assert_int_equal(held,
                                 turn % 2 ? tokens[at + i] : hasten_soft_tag(v + (int64_t)(at + i) * d, d));
                assert_true(turn % 2 ? held >= 0 : held < 0);
            }
            free(got);
        }
        /* cut back and grown again, and a fork */
        struct hasten_error err = {0};
        struct hasten_seq *fork = NULL;
        assert_int_equal(hasten_seq_truncate(s, 20, &err), HASTEN_OK);
        assert_int_equal(hasten_seq_fork(s, 15, &fork, &err), HASTEN_OK);
        const struct hasten_item items[] = {{.seq = s, .tokens = tokens + 20, .n = 5, .want_from = 4},
                                            {.seq = fork, .embd = v + 15 * d, .n = 5, .want_from = 4}};
        float *got = step(e, items, 2, 2);
        must_be(got, 24, NULL);
        must_be(got + n_vocab, 19, NULL);
        free(got);
        hasten_engine_close(e);
    }
    free(v);
}

static void vectors_are_refused(void **state)
{
    (void)state;
    struct hasten_error err = {0};
    float *v = vectors();
    struct hasten_engine *e = engine_with("cache", "stream:keep=40,sink=2,every=32", 1, false);
    struct hasten_item item = {.seq = sequence(e), .n = 1, .embd = v};
    assert_int_equal(hasten_step(e, &item, 1, NULL, NULL, NULL, &err), HASTEN_ERR_UNSUPPORTED);
    assert_non_null(strstr(err.message, "takes entries out of the cache"));
    assert_int_equal(hasten_seq_length(item.seq), 0);
    hasten_engine_close(e);
    e = engine_with(NULL, NULL, 1, false);
    item = (struct hasten_item){.seq = sequence(e), .n = 1, .embd = v, .tokens = tokens};
    assert_int_equal(hasten_step(e, &item, 1, NULL, NULL, NULL, &err), HASTEN_ERR_USAGE);
    item = (struct hasten_item){.seq = item.seq, .n = 1};
    assert_int_equal(hasten_step(e, &item, 1, NULL, NULL, NULL, &err), HASTEN_ERR_USAGE);
    const int32_t bad = n_vocab;
    assert_int_equal(hasten_token_rows(model, &bad, 1, v, &err), HASTEN_ERR_USAGE);
    hasten_engine_close(e);
    free(v);
}

/* ---- the oracle of early exit --------------------------------------------------------------------------------- */

static int32_t likeliest(const float *row)
{
    int32_t best = 0;
    for (int32_t i = 1; i < n_vocab; i++)
        best = row[i] > row[best] ? i : best;
    return best;
}

/* Over the plain engine's cache its choice is the plain engine's, with fewer layers; so is that of a row behind tokens
 * that left, over their cache: a run with `exit` at no place. */
static void the_oracle_chooses_as_plain(void **state)
{
    (void)state;
    struct hasten_error err = {0};
    int32_t n_left = 0;
    for (int32_t n_prompt = 5; n_prompt < N; n_prompt++) {
        struct hasten_engine *e = engine_with("depth", "exit_oracle", 2, false);
        struct hasten_item item = {
            .seq = sequence(e), .tokens = tokens, .n = n_prompt, .want_from = n_prompt};
        assert_int_equal(hasten_seq_announce(item.seq, n_prompt, &err), HASTEN_OK);
        free(step(e, &item, 1, 0));
        const uint64_t before = e->counters.layer_rows;
        item = (struct hasten_item){.seq = item.seq, .tokens = tokens + n_prompt, .n = 1};
        float *got = step(e, &item, 1, 1);
        assert_int_equal(likeliest(got), likeliest(plain_rows + (int64_t)n_prompt * n_vocab));
        n_left += e->counters.layer_rows - before < (uint64_t)model->desc.n_layer;
        free(got);
        hasten_engine_close(e);
    }
    assert_true(n_left > 0);
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        fprintf(stderr, "usage: test_head MODEL\n");
        return 2;
    }
    model_path = argv[1];
    model = open_or_exit(model_path);
    n_vocab = hasten_model_n_vocab(model);
    if (n_vocab > 64 * MASKS) {
        fprintf(stderr, "%s: a vocabulary of %d tokens (expected at most %d)\n", model_path, n_vocab,
                64 * MASKS);
        return 2;
    }
    random_tokens(9, n_vocab, tokens, N);
    struct hasten_engine *e = engine_with(NULL, NULL, 2, false);
    plain_rows = step(e, &(struct hasten_item){.seq = sequence(e), .tokens = tokens, .n = N}, 1, N);
    hasten_engine_close(e);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_named_tokens),
        cmocka_unit_test(few_tokens_read_few_rows),
        cmocka_unit_test(beside_others),
        cmocka_unit_test(a_head_of_some_tokens),
        cmocka_unit_test(vectors_of_tokens),
        cmocka_unit_test(vectors_are_refused),
        cmocka_unit_test(the_oracle_chooses_as_plain),
    };
    const int rc = cmocka_run_group_tests(tests, NULL, NULL);
    free(plain_rows);
    hasten_model_close(model);
    return rc;
}
