/* What bench and doctor build as JSON under a failing allocator: all of it, or nothing and no leak. */
#include "base/mem.h"
#include "cli/bench.h"
#include "cli/cli.h"
#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
/* cmocka.h needs the four above */
#include <cmocka.h>

static json_t *build(int which)
{
    static const struct bench_limits limits = {.threads = 2,
                                               .peak = {{"a", 1, 2}, {0}, {"b", 3, 4}},
                                               .n_curve = 3,
                                               .curve = {{1, true, 1}, {2, 0, 2}}};
    static const struct bench_stats stats = {.n = 2, .median = 1.5};
    json_t *v = json_object();
    if (which == 0)
        json_put(&v, "limits", bench_limits_json(&limits));
    else
        bench_stats_put(&v, &stats);
    return v;
}

static void test_sweep(void **state)
{
    (void)state;
    for (int which = 0; which < 2; which++) {
        json_t *whole = build(which);
        struct mem_stats before, after;
        int failed = 0;
        assert_non_null(whole);
        mem_stats_get(&before);
        for (uint64_t n = 1;; n++) {
            mem_fail_at(n, 0);
            json_t *v = build(which);
            const bool hit = mem_fail_count() > 0;
            mem_fail_at(0, 0);
            assert_true(v ? json_equal(v, whole) : hit);
            failed += !v;
            json_decref(v);
            mem_stats_get(&after);
            assert_int_equal(after.live_bytes, before.live_bytes);
            if (!hit)
                break;
        }
        assert_true(failed > 8);
        json_decref(whole);
    }
}

int main(void)
{
    json_set_alloc_funcs(mem_alloc, mem_free);
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_sweep)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
