/* Pairs of rows whose divergence is known: by hand, or by a sum in long double over the definition. */
#include "eval/row.h"
#include "eval/windows.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#define NEAR(x, y, tolerance) assert_true(fabs((x) - (y)) <= (tolerance))

static void pair(int32_t n, const float *a, const float *b, int32_t target, struct eval_token *t)
{
    struct eval_row *r;
    struct hasten_error err;
    assert_int_equal(eval_row_open(n, &r, &err), HASTEN_OK);
    assert_int_equal(eval_row_pair(r, a, b, target, t, &err), HASTEN_OK);
    eval_row_close(r);
}

/* p = (1/2, 1/4, 1/4), q = (1/4, 1/2, 1/4): KL = 1/2 ln 2 - 1/4 ln 2. */
static void test_by_hand(void **unused)
{
    (void)unused;
    const float a[] = {logf(2), 0, 0}, b[] = {5, 5 + logf(2), 5}; /* a shift of all logits changes nothing */
    struct eval_token t;
    pair(3, a, b, 1, &t);
    NEAR(t.kl, 0.25 * log(2), 1e-6);
    NEAR(t.nll_plain, log(4), 1e-6);
    NEAR(t.nll_variant, log(2), 1e-6);
    NEAR(t.dlogp, log(2), 1e-6);
    assert_int_equal(t.dlogp_id, 0);
    assert_true(t.top_plain == 0 && t.top_variant == 1 && t.target == 1);
}

static void test_equal_rows(void **unused)
{
    (void)unused;
    float a[1000];
    struct eval_token t;
    for (int i = 0; i < 1000; i++)
        a[i] = (float)(i * 7919 % 1000) / 37;
    pair(1000, a, a, 3, &t);
    assert_true(t.kl == 0 && t.dlogp == 0 && t.top_plain == t.top_variant);
}

static long double reference(int32_t n, const float *a, const float *b)
{
    long double za = 0, zb = 0, kl = 0;
    for (int32_t i = 0; i < n; i++) {
        za += expl((long double)a[i]);
        zb += expl((long double)b[i]);
    }
    for (int32_t i = 0; i < n; i++)
        kl += expl((long double)a[i]) / za * ((long double)a[i] - (long double)b[i] - logl(za) + logl(zb));
    return kl;
}

/* Rows that differ by less and less: the relative error stays, also where a sum of p log(p / q) would be noise. */
static void test_small_divergences(void **unused)
{
    (void)unused;
    enum {
        N = 5003
    };
    static float a[N], b[N];
    for (int e = 1; e >= -5; e--) {
        struct eval_token t;
        for (int i = 0; i < N; i++) {
            a[i] = (float)(i * 7919 % N) / 311 - 4;
            b[i] = a[i] + (float)(pow(10, e) * ((double)(i * 6007 % N) / N - 0.5));
        }
        pair(N, a, b, 17, &t);
        const double want = (double)reference(N, a, b);
        assert_true(want > 0 && fabs(t.kl - want) <= 1e-5 * want);
    }
}

static void test_forbidden_and_broken(void **unused)
{
    (void)unused;
    float a[] = {1, 2, 3}, b[] = {1, -INFINITY, 3};
    struct eval_token t;
    struct eval_row *r;
    struct hasten_error err;
    pair(3, a, b, 1, &t); /* as if it were 100 below: finite */
    assert_true(t.kl > 20 && t.kl < 30 && t.nll_variant > 99 && t.nll_variant < 101);
    pair(3, b, a, 0, &t);
    assert_true(isfinite(t.kl) && t.kl > 0.1 && t.kl < 1);
    assert_int_equal(eval_row_open(3, &r, &err), HASTEN_OK);
    b[1] = NAN;
    assert_int_equal(eval_row_pair(r, a, b, 0, &t, &err), HASTEN_ERR_NON_FINITE);
    b[1] = INFINITY;
    assert_int_equal(eval_row_pair(r, b, a, 0, &t, &err), HASTEN_ERR_NON_FINITE);
    b[0] = b[1] = b[2] = -INFINITY;
    assert_int_equal(eval_row_pair(r, b, a, 0, &t, &err), HASTEN_ERR_NON_FINITE);
    assert_int_equal(eval_row_pair(r, a, a, 3, &t, &err), HASTEN_ERR_USAGE);
    eval_row_close(r);
}

/* Every window's scored tokens, once each and in order, whatever the convention. */
static void test_windows(void **unused)
{
    (void)unused;
    static const int32_t ids[50];
    for (int32_t n = 2; n <= 50; n += 7)
        for (int32_t n_ctx = 2; n_ctx <= 20; n_ctx += 3)
            for (int32_t stride = 1; stride <= n_ctx; stride++)
                for (int32_t prefix = 0; prefix < n_ctx; prefix += 2) {
                    const struct eval_windows s = {
                        .ids = ids, .n = n, .n_ctx = n_ctx, .stride = stride, .prefix = prefix};
                    struct eval_window w = {0};
                    int64_t last = 0, count = 0;
                    while (eval_next_window(&s, &w)) {
                        const int64_t first = w.begin + w.from + 1, end = w.begin + w.n;
                        assert_true(first < end && end <= n && first > last && w.n <= n_ctx);
                        assert_true(first - w.begin >= (prefix > 1 ? prefix : 1));
                        assert_true(w.begin % stride == 0);
                        last = end - 1;
                        count += end - first;
                    }
                    assert_int_equal(count, eval_count_targets(&s));
                    if (prefix < 2 && stride < n_ctx)
                        assert_int_equal(count, n - 1);
                }
    struct eval_windows s = {.ids = ids, .n = 50, .n_ctx = 10, .stride = 10, .n_limit = 2};
    assert_int_equal(eval_count_targets(&s), 18);
    const uint64_t hash = eval_windows_hash(&s);
    s.prefix = 3;
    assert_true(eval_windows_hash(&s) != hash);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_by_hand),           cmocka_unit_test(test_equal_rows),
        cmocka_unit_test(test_small_divergences), cmocka_unit_test(test_forbidden_and_broken),
        cmocka_unit_test(test_windows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
