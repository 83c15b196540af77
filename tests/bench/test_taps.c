/* What a tap costs when nobody listens: the time of looking at its empty list, times how often a token does that, beside
 * the token's own time on a tiny model (the worst case: a real one takes a hundred times as long). Then with a listener
 * that does nothing. Prints all of it. */
#include "base/clock.h"
#include "engine/engine.h"
#include "harness.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#define LOOKS 2000000
#define TURNS 200

static const char *model_path;

static void count(void *ctx, const struct tap_linear_input *in)
{
    (void)in;
    ++*(int64_t *)ctx;
}

/* ns of looking at the list once; what follows it is never reached. */
static double look_ns(struct hasten_engine *e)
{
    double least = 1e9;
    int64_t called = 0;
    for (int turn = 0; turn < 5; turn++) {
        const uint64_t t0 = clock_now_ns();
        for (int i = 0; i < LOOKS; i++) {
            struct tap_linear_input_sub *volatile *at = (void *)&e->taps.linear_input;
            if (*at)
                called++;
        }
        const double ns = (double)(clock_now_ns() - t0) / LOOKS;
        least = ns < least ? ns : least;
    }
    assert_int_equal(called, 0);
    return least;
}

static double step_ns(struct hasten_engine *e, struct hasten_seq *s)
{
    struct hasten_error err = {0};
    const int32_t token = 3;
    double least = 1e12;
    for (int i = 0; i < TURNS; i++) {
        const uint64_t t0 = clock_now_ns();
        const struct hasten_item item = {.seq = s, .tokens = &token, .n = 1, .want_from = 1};
        die_unless_ok(hasten_step(e, &item, 1, NULL, NULL, NULL, &err), &err, "a step");
        const double ns = (double)(clock_now_ns() - t0);
        least = ns < least ? ns : least;
        die_unless_ok(hasten_seq_truncate(s, 0, &err), &err, "cutting back");
    }
    return least;
}

static void nobody_listens(void **state)
{
    (void)state;
    struct hasten_model *m = open_or_exit(model_path);
    struct hasten_engine_settings settings;
    struct hasten_engine *e = NULL;
    struct hasten_seq *s = NULL;
    struct hasten_error err = {0};
    int64_t calls = 0;
    hasten_engine_default_settings(&settings);
    settings.n_ctx = 64;
    settings.n_threads = 1;
    die_unless_ok(hasten_engine_open(m, &settings, &e, &err), &err, "opening");
    die_unless_ok(hasten_seq_open(e, &s, &err), &err, "a sequence");
    const double look = look_ns(e), silent = step_ns(e, s);
    struct tap_linear_input_sub sub = {.fn = count, .ctx = &calls};
    tap_linear_input_add(e, &sub);
    const double heard = step_ns(e, s), per_token = (double)calls / TURNS;
    tap_linear_input_remove(e, &sub);
    assert_true(calls > 0);
    print_message(
        "an empty tap: %.2f ns, %.0f a token: %.4f %% of its %.1f us; with an idle listener %.1f us\n", look,
        per_token, 100 * look * per_token / silent, silent / 1e3, heard / 1e3);
    assert_true(look * per_token < 0.005 * silent);
    hasten_engine_close(e);
    hasten_model_close(m);
}

int main(int argc, char **argv)
{
    if (argc < 2)
        return 2;
    model_path = argv[1];
    const struct CMUnitTest tests[] = {cmocka_unit_test(nobody_listens)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
