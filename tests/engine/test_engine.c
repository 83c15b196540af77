/* The engine's rules on a tiny model (path in argv[1]): pages come back, shared pages are copied before they
 * are written, a step of many sequences reads each weight once, failures leave no trace, settings are checked,
 * every allocation may fail. */
#include "base/mem.h"
#include "engine/engine.h"
#include "harness.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const char *model_path;

struct fixture {
    struct hasten_model *model;
    struct hasten_engine *engine;
};

static struct hasten_engine_settings small_settings(void)
{
    struct hasten_engine_settings s;
    hasten_engine_default_settings(&s);
    s.n_threads = 2;
    s.n_ctx = 256;
    s.n_seq_max = 20;
    s.n_batch = 64;
    s.poison = true;
    return s;
}

static int open_fixture(void **state)
{
    static struct fixture f;
    struct hasten_error err = {0};
    const struct hasten_engine_settings s = small_settings();
    f.model = open_or_exit(model_path);
    die_unless_ok(hasten_engine_open(f.model, &s, &f.engine, &err), &err, "opening an engine");
    *state = &f;
    return 0;
}

static int close_fixture(void **state)
{
    struct fixture *f = *state;
    hasten_engine_close(f->engine);
    hasten_model_close(f->model);
    return 0;
}

static int ignore_logits(void *ctx, const float *logits, const struct hasten_logits_row *rows, int32_t n_rows,
                         int32_t n_vocab)
{
    (void)logits, (void)rows, (void)n_vocab;
    if (ctx)
        *(int32_t *)ctx += n_rows;
    return 0;
}

static void feed(struct fixture *f, struct hasten_seq *s, uint64_t seed, int32_t n)
{
    int32_t tokens[256];
    struct hasten_error err = {0};
    random_tokens(seed, hasten_model_n_vocab(f->model), tokens, n);
    die_unless_ok(hasten_step(f->engine,
                              &(struct hasten_item){.seq = s, .tokens = tokens, .n = n, .want_from = n}, 1,
                              NULL, NULL, NULL, &err),
                  &err, "a step");
}

static uint64_t pages_used(const struct fixture *f)
{
    struct hasten_counters c;
    hasten_engine_counters(f->engine, &c);
    return c.kv_pages_used;
}

static void pages_come_back(void **state)
{
    struct fixture *f = *state;
    struct hasten_error err = {0};
    struct hasten_seq *a, *b, *c;
    const uint64_t lanes = (uint64_t)f->engine->kv.n_lanes;
    assert_int_equal(pages_used(f), 0);
    assert_int_equal(hasten_seq_open(f->engine, &a, &err), HASTEN_OK);
    feed(f, a, 1, 100);
    assert_int_equal(pages_used(f), 2 * lanes);
    assert_int_equal(hasten_seq_bytes(a), 2 * lanes * f->engine->kv.block_bytes);

    assert_int_equal(hasten_seq_fork(a, 70, &b, &err), HASTEN_OK);
    assert_int_equal(hasten_seq_fork(a, 64, &c, &err), HASTEN_OK);
    assert_int_equal(pages_used(f), 2 * lanes); /* all shared */
    feed(f, b, 2, 1);
    assert_int_equal(pages_used(f), 3 * lanes); /* the open page was copied */
    feed(f, c, 3, 1);
    assert_int_equal(pages_used(f), 4 * lanes); /* a new page, none copied */
    feed(f, a, 4, 1);
    assert_int_equal(pages_used(f), 4 * lanes); /* a's open page is its own again */

    assert_int_equal(hasten_seq_truncate(a, 64, &err), HASTEN_OK);
    assert_int_equal(pages_used(f), 3 * lanes);
    hasten_seq_close(a);
    assert_int_equal(pages_used(f), 3 * lanes); /* the first page still belongs to b and c */
    hasten_seq_close(b);
    hasten_seq_close(c);
    assert_int_equal(pages_used(f), 0);
}

static void one_step_reads_each_weight_once(void **state)
{
    struct fixture *f = *state;
    struct hasten_error err = {0};
    struct hasten_item items[16] = {0};
    int32_t tokens[16], n_logits = 0;
    for (int i = 0; i < 16; i++) {
        assert_int_equal(hasten_seq_open(f->engine, &items[i].seq, &err), HASTEN_OK);
        feed(f, items[i].seq, (uint64_t)i, 1 + 3 * i);
        tokens[i] = i;
        items[i].tokens = &tokens[i];
        items[i].n = 1;
        items[i].want_from = 0;
    }
    struct hasten_counters before, after;
    hasten_engine_counters(f->engine, &before);
    assert_int_equal(hasten_step(f->engine, items, 16, ignore_logits, &n_logits, NULL, &err), HASTEN_OK);
    hasten_engine_counters(f->engine, &after);
    assert_int_equal(n_logits, 16);
    assert_int_equal(after.passes - before.passes, 1);
    assert_int_equal(after.rows - before.rows, 16);

    const struct model_desc *d = &f->model->desc;
    uint64_t once = 0, expert = 0; /* what every pass reads; an expert of each layer */
    for (int32_t i = 0; i < d->n_layer; i++) {
        const struct weight *w[LAYER_MATRICES];
        const int32_t n = layer_matrices(&d->layers[i], w);
        for (int j = 0; j < n; j++)
            once += (uint64_t)(w[j]->n_rows * w[j]->row_bytes);
        const struct moe *m = &d->layers[i].moe;
        for (int j = 0; j < 3 && d->layers[i].ffn == FFN_MOE; j++) {
            const struct weight *x = j == 0 ? m->gate : j == 1 ? m->up : m->down;
            expert += (uint64_t)(x->n_rows * x->row_bytes);
        }
    }
    const uint64_t head = (uint64_t)(d->output.n_rows * d->output.row_bytes);
    /* Experts: each that some row chose, once; of one row exactly those it uses. */
    const struct moe *m = &d->layers[0].moe;
    const uint64_t all = after.weight_bytes - before.weight_bytes;
    assert_in_range(all, once + head + (uint64_t)m->n_used * expert,
                    once + head + (uint64_t)m->n_expert * expert);
    assert_int_equal(hasten_step(f->engine, items, 1, ignore_logits, &n_logits, NULL, &err), HASTEN_OK);
    hasten_engine_counters(f->engine, &before);
    assert_int_equal(before.weight_bytes - after.weight_bytes, once + head + (uint64_t)m->n_used * expert);
    for (int i = 0; i < 16; i++)
        hasten_seq_close(items[i].seq);
}

static void a_full_context_is_an_error_without_traces(void **state)
{
    struct fixture *f = *state;
    struct hasten_error err = {0};
    struct hasten_seq *a, *b;
    int32_t tokens[257] = {0};
    assert_int_equal(hasten_seq_open(f->engine, &a, &err), HASTEN_OK);
    assert_int_equal(hasten_seq_open(f->engine, &b, &err), HASTEN_OK);
    feed(f, a, 1, 250);
    const uint64_t used = pages_used(f);
    const struct hasten_item items[] = {{.seq = b, .tokens = tokens, .n = 5, .want_from = 5},
                                        {.seq = a, .tokens = tokens, .n = 7, .want_from = 7}};
    assert_int_equal(hasten_step(f->engine, items, 2, NULL, NULL, NULL, &err), HASTEN_ERR_FULL);
    assert_non_null(strstr(err.message, "250 positions of 256"));
    assert_int_equal(hasten_seq_length(a), 250);
    assert_int_equal(hasten_seq_length(b), 0);
    assert_int_equal(pages_used(f), used);
    feed(f, a, 2, 6); /* exactly full is fine */
    hasten_seq_close(a);
    hasten_seq_close(b);
}

static void a_full_pool_is_an_error_without_traces(void **state)
{
    struct fixture *f = *state;
    struct hasten_error err = {0};
    struct hasten_engine_settings s = small_settings();
    struct hasten_seq *a, *b;
    s.n_seq_max = 2;
    s.kv_positions = 128;
    struct fixture g = {.model = f->model};
    assert_int_equal(hasten_engine_open(f->model, &s, &g.engine, &err), HASTEN_OK);
    assert_int_equal(hasten_seq_open(g.engine, &a, &err), HASTEN_OK);
    assert_int_equal(hasten_seq_open(g.engine, &b, &err), HASTEN_OK);
    feed(&g, a, 1, 128);
    feed(&g, b, 1, 64);
    int32_t token = 0;
    assert_int_equal(hasten_step(g.engine,
                                 &(struct hasten_item){.seq = b, .tokens = &token, .n = 1, .want_from = 1}, 1,
                                 NULL, NULL, NULL, &err),
                     HASTEN_ERR_FULL);
    assert_int_equal(hasten_seq_length(b), 64);
    assert_int_equal(hasten_seq_truncate(a, 64, &err), HASTEN_OK);
    feed(&g, b, 2, 1);
    hasten_engine_close(g.engine);
}

static int cancel_flag;

static int cancel_from_sink(void *ctx, const float *logits, const struct hasten_logits_row *rows,
                            int32_t n_rows, int32_t n_vocab)
{
    (void)ctx, (void)logits, (void)rows, (void)n_rows, (void)n_vocab;
    cancel_flag = 1;
    return 0;
}

static void cancel_leaves_no_trace(void **state)
{
    struct fixture *f = *state;
    struct hasten_error err = {0};
    struct hasten_seq *a;
    int32_t tokens[200];
    random_tokens(3, hasten_model_n_vocab(f->model), tokens, 200);
    assert_int_equal(hasten_seq_open(f->engine, &a, &err), HASTEN_OK);
    feed(f, a, 1, 30);
    const uint64_t used = pages_used(f);
    cancel_flag = 0; /* raised during the first of four passes */
    assert_int_equal(hasten_step(f->engine,
                                 &(struct hasten_item){.seq = a, .tokens = tokens, .n = 200, .want_from = 0},
                                 1, cancel_from_sink, NULL, &cancel_flag, &err),
                     HASTEN_ERR_CANCELLED);
    assert_int_equal(hasten_seq_length(a), 30);
    assert_int_equal(pages_used(f), used);
    hasten_seq_close(a);
}

static void bad_arguments_are_named(void **state)
{
    struct fixture *f = *state;
    struct hasten_error err = {0};
    struct hasten_seq *a, *forked = NULL;
    int32_t token = hasten_model_n_vocab(f->model);
    assert_int_equal(hasten_seq_open(f->engine, &a, &err), HASTEN_OK);
    struct hasten_item items[2] = {{.seq = a, .tokens = &token, .n = 1, .want_from = 1},
                                   {.seq = a, .tokens = &token, .n = 1, .want_from = 1}};
    assert_int_equal(hasten_step(f->engine, items, 1, NULL, NULL, NULL, &err), HASTEN_ERR_USAGE);
    assert_non_null(strstr(err.message, "token 0: found id"));
    token = -1;
    assert_int_equal(hasten_step(f->engine, items, 1, NULL, NULL, NULL, &err), HASTEN_ERR_USAGE);
    token = 0;
    assert_int_equal(hasten_step(f->engine, items, 2, NULL, NULL, NULL, &err), HASTEN_ERR_USAGE);
    assert_non_null(strstr(err.message, "same sequence"));
    items[0].n = 0;
    assert_int_equal(hasten_step(f->engine, items, 1, NULL, NULL, NULL, &err), HASTEN_ERR_USAGE);
    assert_int_equal(hasten_seq_fork(a, 1, &forked, &err), HASTEN_ERR_USAGE);
    assert_int_equal(hasten_seq_truncate(a, -1, &err), HASTEN_ERR_USAGE);
    assert_int_equal(hasten_seq_length(a), 0);
    hasten_seq_close(a);
}

static void settings_are_checked(void **state)
{
    struct fixture *f = *state;
    static const struct {
        const char *field;
        struct hasten_engine_settings s;
    } bad[] = {
        {"n_ctx", {.n_ctx = -1, .n_seq_max = 1, .n_batch = 1, .n_logits = 1}},
        {"n_threads", {.n_threads = 513, .n_seq_max = 1, .n_batch = 1, .n_logits = 1}},
        {"n_seq_max", {.n_seq_max = 0, .n_batch = 1, .n_logits = 1}},
        {"n_batch", {.n_seq_max = 1, .n_batch = 4097, .n_logits = 1}},
        {"n_logits", {.n_seq_max = 1, .n_batch = 1, .n_logits = 65}},
        {"n_logits", {.n_seq_max = 1, .n_batch = 1, .n_logits = -1}},
        {"kv_positions", {.n_ctx = 64, .n_seq_max = 2, .n_batch = 1, .n_logits = 1, .kv_positions = 129}},
        {"kv_type", {.n_seq_max = 1, .n_batch = 1, .n_logits = 1, .kv_type = (enum hasten_kv_type)7}},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct hasten_engine *e = NULL;
        struct hasten_error err = {0};
        assert_int_equal(hasten_engine_open(f->model, &bad[i].s, &e, &err), HASTEN_ERR_USAGE);
        assert_non_null(strstr(err.message, bad[i].field));
        assert_null(e);
    }
}

static void a_plan_above_the_limit_is_refused_before_loading(void **state)
{
    struct fixture *f = *state;
    struct hasten_engine_settings s = small_settings();
    struct hasten_error err = {0};
    struct hasten_plan plan;
    struct hasten_engine *e = NULL;
    struct mem_stats before, after;
    assert_int_equal(hasten_engine_plan(f->model, &s, &plan, &err), HASTEN_OK);
    assert_int_equal(plan.total_bytes,
                     plan.file_bytes + plan.kv_bytes + plan.compute_bytes + plan.base_bytes);
    s.memory_limit = plan.total_bytes - 1;
    mem_stats_get(&before);
    assert_int_equal(hasten_engine_open(f->model, &s, &e, &err), HASTEN_ERR_MEMORY);
    mem_stats_get(&after);
    assert_int_equal(before.live_bytes, after.live_bytes);
    assert_non_null(strstr(err.message, "needed are"));
    s.memory_limit = plan.total_bytes;
    assert_int_equal(hasten_engine_open(f->model, &s, &e, &err), HASTEN_OK);
    mem_stats_get(&after); /* what the plan said is what was taken */
    assert_true(after.live_bytes - before.live_bytes <= plan.kv_bytes + plan.compute_bytes + (1u << 20));
    hasten_engine_close(e);
}

static void the_token_loop_allocates_nothing(void **state)
{
    struct fixture *f = *state;
    struct hasten_error err = {0};
    struct hasten_seq *a;
    struct mem_stats before, after;
    assert_int_equal(hasten_seq_open(f->engine, &a, &err), HASTEN_OK);
    mem_stats_get(&before);
    for (int i = 0; i < 20; i++)
        feed(f, a, 5, 1 + i % 7);
    mem_stats_get(&after);
    assert_int_equal(before.n_calls, after.n_calls);
    hasten_seq_close(a);
}

/* Load, engine, sequence, two tokens. Returns the status of the first failure; *sum = bits of the last logits. */
static hasten_status load_and_two_tokens(uint32_t *sum, struct hasten_error *err);

static int sum_logits(void *ctx, const float *logits, const struct hasten_logits_row *rows, int32_t n_rows,
                      int32_t n_vocab)
{
    uint32_t *sum = ctx;
    (void)rows;
    for (int64_t i = 0; i < (int64_t)n_rows * n_vocab; i++) {
        uint32_t bits;
        memcpy(&bits, &logits[i], sizeof bits);
        *sum = *sum * 31 + bits;
    }
    return 0;
}

static hasten_status load_and_two_tokens(uint32_t *sum, struct hasten_error *err)
{
    struct hasten_model *m = NULL;
    struct hasten_engine *e = NULL;
    struct hasten_seq *s;
    struct hasten_engine_settings settings = small_settings();
    const int32_t tokens[2] = {1, 2};
    settings.n_seq_max = 1;
    *sum = 0;
    hasten_status st = hasten_model_open(model_path, &m, err);
    if (st == HASTEN_OK)
        st = hasten_engine_open(m, &settings, &e, err);
    if (st == HASTEN_OK)
        st = hasten_seq_open(e, &s, err);
    for (int i = 0; i < 2 && st == HASTEN_OK; i++)
        st = hasten_step(e, &(struct hasten_item){.seq = s, .tokens = &tokens[i], .n = 1, .want_from = 0}, 1,
                         sum_logits, sum, NULL, err);
    hasten_engine_close(e);
    hasten_model_close(m);
    return st;
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    struct mem_stats start, now;
    struct hasten_error err = {0};
    uint32_t clean, sum;
    mem_fail_at(0, 0);
    mem_stats_get(&start);
    assert_int_equal(load_and_two_tokens(&clean, &err), HASTEN_OK);
    mem_stats_get(&now);
    assert_int_equal(start.live_bytes, now.live_bytes);
    for (uint64_t every = 0; every <= 1; every++) {
        uint64_t n = 1;
        for (;; n++) {
            mem_fail_at(n, every);
            const hasten_status st = load_and_two_tokens(&sum, &err);
            const uint64_t injected = mem_fail_count();
            mem_fail_at(0, 0);
            mem_stats_get(&now);
            assert_int_equal(start.live_bytes, now.live_bytes);
            if (injected == 0) {
                assert_int_equal(st, HASTEN_OK);
                break;
            }
            if (st != HASTEN_ERR_MEMORY)
                fail_msg("allocation %llu failed: status %d, '%s'", (unsigned long long)n, (int)st,
                         err.message);
            assert_true(err.message[0] != 0);
        }
        print_message("%llu allocations failed in turn (%s)\n", (unsigned long long)n - 1,
                      every ? "for ever" : "once");
        assert_true(n > 20);
    }
    assert_int_equal(load_and_two_tokens(&sum, &err), HASTEN_OK);
    assert_int_equal(sum, clean);
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        fprintf(stderr, "usage: test_engine MODEL\n");
        return 2;
    }
    model_path = argv[1];
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(pages_come_back, open_fixture, close_fixture),
        cmocka_unit_test_setup_teardown(one_step_reads_each_weight_once, open_fixture, close_fixture),
        cmocka_unit_test_setup_teardown(a_full_context_is_an_error_without_traces, open_fixture,
                                        close_fixture),
        cmocka_unit_test_setup_teardown(a_full_pool_is_an_error_without_traces, open_fixture, close_fixture),
        cmocka_unit_test_setup_teardown(cancel_leaves_no_trace, open_fixture, close_fixture),
        cmocka_unit_test_setup_teardown(bad_arguments_are_named, open_fixture, close_fixture),
        cmocka_unit_test_setup_teardown(settings_are_checked, open_fixture, close_fixture),
        cmocka_unit_test_setup_teardown(a_plan_above_the_limit_is_refused_before_loading, open_fixture,
                                        close_fixture),
        cmocka_unit_test_setup_teardown(the_token_loop_allocates_nothing, open_fixture, close_fixture),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
