/* LongRoPE on a tiny model (path in argv[1]; it changes over after 160 positions): what a step computes again and what
 * it does not, and that a cancelled or refused change leaves a sequence as it was. That the bits depend on nothing
 * else is tested by bits.c on the same model. */
#include "engine/engine.h"
#include "harness.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define SWITCH 160
#define TOTAL 260

static const char *model_path;

struct fixture {
    struct hasten_model *model;
    struct hasten_engine *engine;
    int32_t tokens[TOTAL];
    float *last; /* [n_vocab] logits of the last token of an undisturbed run */
};

static struct hasten_engine *open_engine(const struct hasten_model *m, int32_t n_seq_max, int64_t positions)
{
    struct hasten_engine_settings s;
    struct hasten_engine *e = NULL;
    struct hasten_error err = {0};
    hasten_engine_default_settings(&s);
    s.n_threads = 2;
    s.n_ctx = TOTAL;
    s.n_seq_max = n_seq_max;
    s.n_batch = 64;
    s.kv_positions = positions;
    s.poison = true;
    die_unless_ok(hasten_engine_open(m, &s, &e, &err), &err, "opening an engine");
    return e;
}

static struct hasten_seq *open_seq(struct hasten_engine *e)
{
    struct hasten_seq *s = NULL;
    struct hasten_error err = {0};
    die_unless_ok(hasten_seq_open(e, &s, &err), &err, "opening a sequence");
    return s;
}

static int keep_last(void *ctx, const float *logits, const struct hasten_logits_row *rows, int32_t n_rows,
                     int32_t n_vocab)
{
    (void)rows;
    memcpy(ctx, logits + (int64_t)(n_rows - 1) * n_vocab, (size_t)n_vocab * sizeof *logits);
    return 0;
}

/* Appends the tokens up to `to`; the logits of the last go to `last` if it is not NULL. Returns the rows computed. */
static uint64_t append(struct fixture *f, struct hasten_seq *s, int32_t to, float *last)
{
    struct hasten_counters before, after;
    struct hasten_error err = {0};
    const int32_t from = hasten_seq_length(s), n = to - from;
    const struct hasten_item item = {
        .seq = s, .tokens = f->tokens + from, .n = n, .want_from = last ? n - 1 : n};
    hasten_engine_counters(s->engine, &before);
    die_unless_ok(hasten_step(s->engine, &item, 1, last ? keep_last : NULL, last, NULL, &err), &err,
                  "a step");
    hasten_engine_counters(s->engine, &after);
    return after.rows - before.rows;
}

static void assert_same_end(struct fixture *f, struct hasten_seq *s)
{
    const size_t bytes = (size_t)hasten_model_n_vocab(f->model) * sizeof(float);
    float *last = malloc(bytes);
    assert_non_null(last);
    append(f, s, TOTAL, last);
    assert_memory_equal(last, f->last, bytes);
    free(last);
}

static int open_fixture(void **state)
{
    static struct fixture f;
    f.model = open_or_exit(model_path);
    random_tokens(8, hasten_model_n_vocab(f.model), f.tokens, TOTAL);
    f.engine = open_engine(f.model, 4, 0);
    f.last = malloc((size_t)hasten_model_n_vocab(f.model) * sizeof *f.last);
    if (!f.last || f.model->desc.rope_switch != SWITCH)
        return -1;
    struct hasten_seq *s = open_seq(f.engine);
    append(&f, s, TOTAL, f.last);
    hasten_seq_close(s);
    *state = &f;
    return 0;
}

static int close_fixture(void **state)
{
    struct fixture *f = *state;
    hasten_engine_close(f->engine);
    hasten_model_close(f->model);
    free(f->last);
    return 0;
}

static void only_what_is_needed_is_computed_again(void **state)
{
    struct fixture *f = *state;
    struct hasten_error err = {0};
    float *last = malloc((size_t)hasten_model_n_vocab(f->model) * sizeof *last);
    struct hasten_seq *s = open_seq(f->engine);
    assert_non_null(last);
    assert_int_equal(append(f, s, 200, last), 200); /* a long prompt: once, as a long one */
    assert_int_equal(append(f, s, 201, last), 1);
    assert_int_equal(hasten_seq_truncate(s, 170, &err), HASTEN_OK);
    assert_int_equal(append(f, s, 171, last), 1); /* still long */
    assert_int_equal(hasten_seq_truncate(s, 150, &err), HASTEN_OK);
    assert_int_equal(append(f, s, 151, last), 151); /* short again */
    assert_int_equal(append(f, s, SWITCH, last), SWITCH - 151);
    assert_int_equal(append(f, s, SWITCH + 1, last), SWITCH + 1); /* outgrown */
    assert_int_equal(hasten_seq_truncate(s, 100, &err), HASTEN_OK);
    assert_int_equal(append(f, s, 210, last), 110); /* nothing short is wanted: what is there serves */
    assert_same_end(f, s);
    hasten_seq_close(s);
    free(last);
}

static void forks_change_over_by_themselves(void **state)
{
    struct fixture *f = *state;
    struct hasten_error err = {0};
    struct hasten_seq *a = open_seq(f->engine), *b = NULL, *c = NULL;
    append(f, a, 130, NULL);
    assert_int_equal(hasten_seq_fork(a, 130, &b, &err), HASTEN_OK);
    assert_int_equal(append(f, a, 200, NULL), 200);
    assert_int_equal(append(f, b, SWITCH, NULL), SWITCH - 130); /* its pages are not a's */
    assert_int_equal(hasten_seq_fork(a, 140, &c, &err), HASTEN_OK);
    assert_int_equal(append(f, c, 150, NULL), 150);
    assert_same_end(f, a);
    assert_same_end(f, b);
    assert_same_end(f, c);
    hasten_seq_close(a);
    hasten_seq_close(b);
    hasten_seq_close(c);
}

static int cancel_flag;

static int cancel_from_sink(void *ctx, const float *logits, const struct hasten_logits_row *rows,
                            int32_t n_rows, int32_t n_vocab)
{
    (void)ctx, (void)logits, (void)n_vocab;
    cancel_flag = rows[n_rows - 1].row >= *(const int32_t *)ctx;
    return 0;
}

/* Cancelled in the first pass of the long form, and in a later one. */
static void a_cancelled_change_leaves_no_trace(void **state)
{
    struct fixture *f = *state;
    static const int32_t last_rows[] = {SWITCH - 1 - 100, SWITCH + 20 - 100};
    for (size_t i = 0; i < sizeof last_rows / sizeof *last_rows; i++) {
        struct hasten_error err = {0};
        struct hasten_seq *s = open_seq(f->engine);
        int32_t last_row = last_rows[i];
        append(f, s, 100, NULL);
        cancel_flag = 0;
        const struct hasten_item item = {
            .seq = s, .tokens = f->tokens + 100, .n = TOTAL - 100, .want_from = 0};
        assert_int_equal(hasten_step(f->engine, &item, 1, cancel_from_sink, &last_row, &cancel_flag, &err),
                         HASTEN_ERR_CANCELLED);
        assert_int_equal(hasten_seq_length(s), 100);
        append(f, s, 130, NULL);
        assert_same_end(f, s);
        hasten_seq_close(s);
    }
}

static void a_change_without_room_is_refused(void **state)
{
    struct fixture *f = *state;
    struct hasten_error err = {0};
    struct hasten_engine *e = open_engine(f->model, 2, 256); /* 4 pages, and one for the second sequence */
    struct hasten_seq *a = open_seq(e), *b = NULL;
    append(f, a, SWITCH, NULL);
    assert_int_equal(hasten_seq_fork(a, SWITCH, &b, &err), HASTEN_OK);
    const struct hasten_item item = {.seq = a, .tokens = f->tokens + SWITCH, .n = 1, .want_from = 1};
    assert_int_equal(hasten_step(e, &item, 1, NULL, NULL, NULL, &err), HASTEN_ERR_FULL); /* 3 pages to copy */
    assert_non_null(strstr(err.message, "free KV pages"));
    assert_int_equal(hasten_seq_length(a), SWITCH);
    hasten_seq_close(b);
    assert_int_equal(append(f, a, 200, NULL), 200);
    hasten_engine_close(e);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_what_is_needed_is_computed_again),
        cmocka_unit_test(forks_change_over_by_themselves),
        cmocka_unit_test(a_cancelled_change_leaves_no_trace),
        cmocka_unit_test(a_change_without_room_is_refused),
    };
    if (argc != 2) {
        fprintf(stderr, "usage: test_longrope MODEL\n");
        return 2;
    }
    model_path = argv[1];
    return cmocka_run_group_tests(tests, open_fixture, close_fixture);
}
