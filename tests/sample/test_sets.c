/* Typical, XTC, DRY and mirostat against tables worked out by hand, and what mirostat's memory does when its sequence
 * is forked, cut, or goes on with other tokens. */
#include "sample_test.h"
#include "naive.h"
#include "base/mem.h"
#include "sample/noise.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static struct hasten_error err;

static struct sampler *opened(int32_t n)
{
    struct sampler *s;
    assert_int_equal(sampler_open(n, &s, &err), HASTEN_OK);
    return s;
}

/* probabilities 0.4 0.3 0.2 0.1 in the order of ids 2 0 3 1 */
static void four(float l[4])
{
    l[2] = logf(0.4f);
    l[0] = logf(0.3f);
    l[3] = logf(0.2f);
    l[1] = logf(0.1f);
}

/* The tokens that positions 0 ... 3,999 choose, as a bit mask. */
static uint64_t seen(const struct sampler_settings *s, const float *l, int32_t n)
{
    struct sampler *sampler = opened(n);
    uint64_t mask = 0;
    for (int64_t pos = 0; pos < 4000; pos++) {
        struct token_logprob t;
        assert_int_equal(sampler_choose(sampler, NULL, s, l, NULL, 0, pos, &t, NULL, &err), HASTEN_OK);
        mask |= 1ull << t.id;
    }
    sampler_close(sampler);
    return mask;
}

/* ---- typical ------------------------------------------------------------------------------------------ */

/* Surprises 0.916 1.204 1.609 2.303 (nats); expected 0.4*0.916 + 0.3*1.204 + 0.2*1.609 + 0.1*2.303 = 1.280.
 * Distances 0.364 0.076 0.330 1.023: in the order 0 (0.3), 3 (0.5 with the 0.2), 2 (0.9), 1. */
static void typical_keeps_the_nearest_to_the_expectation(void **state)
{
    (void)state;
    float l[4];
    four(l);
    struct sampler_settings s = plain();
    static const struct {
        float p;
        uint64_t want;
    } rows[] = {{0.01f, 1},  {0.29f, 1},  {0.31f, 9},  {0.49f, 9},
                {0.51f, 13}, {0.89f, 13}, {0.91f, 15}, {1, 15}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        s.typical_p = rows[i].p;
        assert_int_equal(seen(&s, l, 4), rows[i].want);
    }
    /* of the first three: 4/9 3/9 2/9, surprises 0.811 1.099 1.504, expected 1.061: distances 0.250 0.038 0.443,
     * so that now 2 comes before 3 */
    s.top_k = 3;
    s.typical_p = 0.5f; /* 3/9 = 0.33; with 4/9: 0.78 */
    assert_int_equal(seen(&s, l, 4), 5);
    /* top-p and min-p go on with what is left: 0.3 and 0.2, which is 0.6 and 0.4 */
    s.top_k = 0;
    s.typical_p = 0.45f;
    s.top_p = 0.55f;
    assert_int_equal(seen(&s, l, 4), 1);
    s.top_p = 0.65f;
    assert_int_equal(seen(&s, l, 4), 9);
    s.min_p = 0.7f; /* 0.2 / 0.3 = 0.67 */
    assert_int_equal(seen(&s, l, 4), 1);
}

/* All equally likely: all equally near, those next to the first are kept. */
static void typical_of_equals(void **state)
{
    (void)state;
    const float l[8] = {0};
    struct sampler_settings s = plain();
    s.typical_p = 0.5f;
    uint64_t mask = seen(&s, l, 8);
    assert_int_equal(__builtin_popcountll(mask), 4);
}

/* ---- XTC ---------------------------------------------------------------------------------------------- */

static void xtc_takes_the_top_but_the_least(void **state)
{
    (void)state;
    float l[4];
    four(l);
    struct sampler_settings s = plain();
    s.xtc_probability = 1;
    static const struct {
        float threshold;
        uint64_t want;
    } rows[] = {{0.05f, 2},  {0.11f, 10}, {0.19f, 10}, {0.21f, 11}, {0.29f, 11},
                {0.31f, 15}, {0.39f, 15}, {0.41f, 15}, {0.6f, 15},  {0, 2}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        s.xtc_threshold = rows[i].threshold;
        assert_int_equal(seen(&s, l, 4), rows[i].want);
    }
    s.xtc_threshold = 0.41f; /* of 0.4 and 0.3 alone: 0.57 and 0.43 */
    s.top_k = 2;
    assert_int_equal(seen(&s, l, 4), 1);
    s.xtc_threshold = 0.5f;
    assert_int_equal(seen(&s, l, 4), 5);
    s.top_k = 1;
    s.xtc_threshold = 0;
    assert_int_equal(seen(&s, l, 4), 4);
}

/* The coin is the draw of token 2^32 - 1, thrown once a position. */
static void xtc_throws_the_coin_of_its_position(void **state)
{
    (void)state;
    float l[4];
    four(l);
    struct sampler_settings s = plain(), without;
    struct sampler *sampler = opened(4);
    s.seed = 77;
    s.stream = 3;
    without = s;
    s.xtc_probability = 0.3f;
    s.xtc_threshold = 0.15f; /* 2 and 0 go, 3 and 1 stay */
    int thrown = 0, differ = 0;
    for (int64_t pos = 0; pos < 20000; pos++) {
        struct token_logprob t, u;
        bool excluded = ((double)noise_x(77, 3, pos, UINT32_MAX) + 0.5) / 4294967296.0 < (double)0.3f;
        assert_int_equal(sampler_choose(sampler, NULL, &s, l, NULL, 0, pos, &t, NULL, &err), HASTEN_OK);
        assert_int_equal(sampler_choose(sampler, NULL, &without, l, NULL, 0, pos, &u, NULL, &err), HASTEN_OK);
        if (excluded)
            assert_true(t.id == 3 || t.id == 1);
        else
            assert_int_equal(t.id, u.id);
        thrown += excluded;
        differ += t.id != u.id;
    }
    assert_true(thrown > 5700 && thrown < 6300); /* 6,000; standard deviation 65 */
    assert_true(differ > 3900 && differ < 4500); /* 0.7 of them */
    sampler_close(sampler);
}

/* ---- DRY ---------------------------------------------------------------------------------------------- */

/* How much the logit of id is lowered: by the bias that just makes it win again over another of logit 0. */
static double lowered(const struct sampler_settings *law, int32_t n_vocab, int32_t id, const int32_t *path,
                      int64_t n_path)
{
    struct sampler_settings s = *law;
    struct sampler *sampler = opened(n_vocab);
    float *l = malloc((size_t)n_vocab * sizeof *l);
    const int32_t other = n_vocab - 1; /* is on no path */
    double lo = 0, hi = 64;
    s.temperature = 0;
    for (int32_t i = 0; i < n_vocab; i++)
        l[i] = -INFINITY;
    for (int i = 0; i < 40; i++) {
        const double mid = (lo + hi) / 2;
        struct token_logprob t;
        l[other] = 0;
        l[id] = (float)mid;
        assert_int_equal(sampler_choose(sampler, NULL, &s, l, path, n_path, 9, &t, NULL, &err), HASTEN_OK);
        *(t.id == id ? &hi : &lo) = mid;
    }
    free(l);
    sampler_close(sampler);
    return hi;
}

static void dry_lowers_what_repeats(void **state)
{
    (void)state;
    struct sampler_settings s = plain();
    s.dry_multiplier = 0.8f;
    s.dry_base = 1.75f;
    s.dry_allowed_length = 2;
    /* 1 2 3 4 | 1 2 3: choosing 4 would repeat three tokens */
    const int32_t three[] = {1, 2, 3, 4, 9, 1, 2, 3};
    assert_float_equal(lowered(&s, 12, 4, three, 8), 1.4f, 1e-5);
    for (int32_t id = 0; id < 11; id++)
        if (id != 4)
            assert_float_equal(lowered(&s, 12, id, three, 8), 0, 1e-5);
    s.dry_allowed_length = 3;
    assert_float_equal(lowered(&s, 12, 4, three, 8), 0.8, 1e-5);
    s.dry_allowed_length = 4;
    assert_float_equal(lowered(&s, 12, 4, three, 8), 0, 1e-5);
    s.dry_allowed_length = 1;
    assert_float_equal(lowered(&s, 12, 4, three, 8), 0.8f * 3.0625f, 1e-5);
    /* the longest of several: ... 2 3 5 ..., 1 2 3 5 */
    s.dry_allowed_length = 2;
    const int32_t several[] = {2, 3, 5, 1, 2, 3, 5, 7, 1, 2, 3, 6, 1, 2, 3};
    assert_float_equal(lowered(&s, 12, 5, several, 15), 1.4f, 1e-5);
    /* before 6 stand 7 1 2 3: three are the end's 1 2 3, and 7 is not 6 */
    assert_float_equal(lowered(&s, 12, 6, several, 15), 1.4f, 1e-5);
    assert_float_equal(lowered(&s, 12, 1, several, 15), 0, 1e-5);
    /* a run overlaps itself: after 8 8 8 8 8 another 8 would repeat four */
    const int32_t run[] = {8, 8, 8, 8, 8};
    assert_float_equal(lowered(&s, 12, 8, run, 5), 0.8f * 3.0625f, 1e-5);
    /* the range: 1 2 3 4 lies before the last five */
    s.dry_last_n = 5;
    assert_float_equal(lowered(&s, 12, 4, three, 8), 0, 1e-5);
    s.dry_last_n = 7; /* 2 3 4 9 1 2 3: two tokens */
    assert_float_equal(lowered(&s, 12, 4, three, 8), 0.8, 1e-5);
    s.dry_last_n = 0;
    assert_float_equal(lowered(&s, 12, 4, three, 8), 0, 1e-5);
}

static void dry_stops_at_breakers(void **state)
{
    (void)state;
    struct sampler_settings s = plain();
    s.dry_multiplier = 1;
    s.dry_base = 2;
    s.dry_allowed_length = 1;
    uint8_t breaks[12] = {0};
    s.dry_breakers = breaks;
    const int32_t path[] = {1, 2, 3, 4, 9, 1, 2, 3};
    assert_float_equal(lowered(&s, 12, 4, path, 8), 4, 1e-5);
    breaks[1] = 1; /* 2 3 alone */
    assert_float_equal(lowered(&s, 12, 4, path, 8), 2, 1e-5);
    breaks[2] = 1;
    assert_float_equal(lowered(&s, 12, 4, path, 8), 1, 1e-5);
    breaks[3] = 1; /* the path ends in a breaker */
    assert_float_equal(lowered(&s, 12, 4, path, 8), 0, 1e-5);
    memset(breaks, 0, sizeof breaks);
    breaks[4] = 1; /* a breaker may always come */
    assert_float_equal(lowered(&s, 12, 4, path, 8), 0, 1e-5);
}

/* A penalty beyond every float leaves a finite logit; a path of one token, and one of 100,000 times the same, take
 * their time in proportion. */
static void dry_at_its_ends(void **state)
{
    (void)state;
    struct sampler_settings s = plain();
    s.dry_multiplier = 1e6f;
    s.dry_base = 1e6f;
    s.dry_allowed_length = 1;
    int32_t *same = calloc(100000, sizeof *same);
    const float l[2] = {5, -INFINITY};
    struct sampler *sampler = opened(2);
    struct token_logprob t;
    assert_int_equal(sampler_choose(sampler, NULL, &s, l, same, 1, 1, &t, NULL, &err), HASTEN_OK);
    assert_int_equal(t.id, 0);
    assert_int_equal(sampler_choose(sampler, NULL, &s, l, same, 100000, 100000, &t, NULL, &err), HASTEN_OK);
    assert_int_equal(t.id, 0); /* the only finite one */
    mem_fail_at(1, 0);
    free(same);
    same = calloc(300000, sizeof *same);
    assert_int_equal(sampler_choose(sampler, NULL, &s, l, same, 300000, 300000, &t, NULL, &err),
                     HASTEN_ERR_MEMORY);
    mem_fail_at(0, 0);
    assert_int_equal(sampler_choose(sampler, NULL, &s, l, same, 300000, 300000, &t, NULL, &err), HASTEN_OK);
    sampler_close(sampler);
    free(same);
}

/* ---- mirostat ----------------------------------------------------------------------------------------- */

static struct sampler_memory *remember(void)
{
    struct sampler_memory *m;
    assert_int_equal(sampler_memory_open(&m, &err), HASTEN_OK);
    return m;
}

/* p 0.5 0.25 0.125 0.0625 0.0625: surprises 1 2 3 4 4 bits. */
static const float halves[5] = {4 * 0.69314718f, 3 * 0.69314718f, 2 * 0.69314718f, 0.69314718f, 0.69314718f};
static const double bits[5] = {1, 2, 3, 4, 4};

/* Version 2 by hand: tau 1.2713, eta 0.5, mu begins at 2.5426, which lets 1 and 2 bits pass. A choice of 1 bit moves mu
 * by +0.13565, one of 2 bits by -0.36435, and so on; the set at each step is the tokens with bits <= mu, at least the
 * first. (mu never comes near a whole number of bits, where rounding would decide.) */
static void mirostat_2_by_hand(void **state)
{
    (void)state;
    struct sampler_settings s = plain();
    struct sampler *sampler = opened(5);
    s.mirostat = 2;
    s.mirostat_tau = 1.2713f;
    s.mirostat_eta = 0.5f;
    int counts[5] = {0}, sets[6] = {0};
    int32_t path[2000];
    struct sampler_memory *m = remember();
    const double tau = (double)1.2713f;
    double mu = 2 * tau;
    for (int pos = 0; pos < 2000; pos++) {
        struct token_logprob t;
        int n = 1, want = 0;
        double best = -INFINITY;
        while (n < 5 && bits[n] <= mu)
            n++;
        for (int i = 0; i < n; i++) {
            double score = (double)halves[i] + noise_gumbel(noise_x(0, 0, pos, (uint32_t)i));
            want = score > best ? i : want;
            best = score > best ? score : best;
        }
        assert_int_equal(sampler_choose(sampler, m, &s, halves, path, pos, pos, &t, NULL, &err), HASTEN_OK);
        assert_int_equal(t.id, want);
        mu -= 0.5 * (bits[want] - tau);
        assert_true(fabs(mu - round(mu)) > 1e-5);
        path[pos] = t.id;
        counts[t.id]++;
        sets[n]++;
    }
    assert_true(sets[1] && sets[2] && sets[3]); /* the bound does move */
    double mean = 0;
    for (int i = 0; i < 5; i++)
        mean += counts[i] * bits[i] / 2000;
    assert_float_equal(mean, 1.2713f, 0.01); /* and holds the surprise, where the plain mean is 1.875 */
    sampler_memory_close(m);
    sampler_close(sampler);
}

/* Version 1 by hand on a row that follows Zipf's law: p_i ~ i^-2, so that s = 2, e = 1, N = 1,000 and
 * k = floor(sqrt(1 * 2^mu / (1 - 1/1000))): 2^3 gives 2.83, 2^4 4.002, 2^9.2 24.3. */
static void mirostat_1_by_hand(void **state)
{
    (void)state;
    float l[1000];
    for (int i = 0; i < 1000; i++)
        l[i] = (float)(-2 * log(i + 1));
    static const struct {
        float tau;
        int k;
    } rows[] = {{1.5f, 2}, {2, 4}, {4.6f, 24}, {0.25f, 1}, {12, 1000}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct sampler_settings s = plain(), top = plain();
        struct sampler *sampler = opened(1000);
        s.mirostat = 1;
        s.mirostat_tau = rows[i].tau;
        top.top_k = rows[i].k;
        int32_t largest = 0;
        for (int pos = 0; pos < 3000; pos++) { /* each the first of its own memory: mu = 2 tau */
            struct sampler_memory *m = remember();
            struct token_logprob t, u;
            assert_int_equal(sampler_choose(sampler, m, &s, l, NULL, 0, pos, &t, NULL, &err), HASTEN_OK);
            assert_int_equal(sampler_choose(sampler, NULL, &top, l, NULL, 0, pos, &u, NULL, &err), HASTEN_OK);
            assert_int_equal(t.id, u.id);
            largest = t.id > largest ? t.id : largest;
            sampler_memory_close(m);
        }
        assert_true(largest < rows[i].k && (rows[i].k > 24 || largest == rows[i].k - 1));
        sampler_close(sampler);
    }
}

/* The mean surprise comes to tau for both versions on another row, with a temperature and top-k that they ignore. */
static void mirostat_holds_the_surprise(void **state)
{
    (void)state;
    enum {
        N = 2000,
        STEPS = 3000
    };
    float l[N];
    double sum = 0, p[N];
    for (int i = 0; i < N; i++)
        sum += p[i] = exp((double)(l[i] = (float)(-1.1 * log(i + 1))));
    int32_t *path = malloc(STEPS * sizeof *path);
    for (int version = 1; version <= 2; version++)
        for (int tau = 3; tau <= 6; tau += 3) {
            struct sampler_settings s = plain();
            struct sampler *sampler = opened(N);
            struct sampler_memory *m = remember();
            double mean = 0;
            s.mirostat = version;
            s.mirostat_tau = (float)tau;
            s.temperature = 1.1f;
            s.top_k = 1;
            s.typical_p = 0.1f;
            s.xtc_probability = 1;
            for (int pos = 0; pos < STEPS; pos++) {
                struct token_logprob t;
                assert_int_equal(sampler_choose(sampler, m, &s, l, path, pos, pos, &t, NULL, &err),
                                 HASTEN_OK);
                path[pos] = t.id;
                mean += -log2(p[t.id] / sum) / STEPS;
            }
            assert_float_equal(mean, tau, 0.15);
            assert_true(sampler_memory_bytes(m) >= 12 * STEPS && sampler_memory_bytes(m) < 12 * 4 * STEPS);
            sampler_memory_close(m);
            sampler_close(sampler);
        }
    free(path);
}

/* A run of `n` tokens from `from`, going on in path; the memory is the caller's. */
static void go_on(struct sampler *sampler, struct sampler_memory *m, const struct sampler_settings *s,
                  const float *l, int32_t *path, int from, int n)
{
    for (int pos = from; pos < from + n; pos++) {
        struct token_logprob t;
        assert_int_equal(sampler_choose(sampler, m, s, l, path, pos, pos, &t, NULL, &err), HASTEN_OK);
        path[pos] = t.id;
    }
}

static void memory_follows_its_sequence(void **state)
{
    (void)state;
    enum {
        N = 300,
        LEN = 400
    };
    float l[N];
    for (int i = 0; i < N; i++)
        l[i] = (float)(-1.2 * log(i + 1));
    for (int version = 1; version <= 2; version++) {
        struct sampler_settings s = plain();
        struct sampler *sampler = opened(N);
        int32_t whole[LEN] = {0}, part[LEN], other[LEN];
        struct sampler_memory *a = remember(), *b, *c = remember();
        s.mirostat = version;
        s.mirostat_tau = 4;
        s.mirostat_eta = 0.5f;
        go_on(sampler, a, &s, l, whole, 100, 300); /* a prompt of 100 tokens */
        /* forked at 250: both go on as the whole did, in turns */
        memcpy(part, whole, sizeof part);
        memset(part + 250, 0, 150 * sizeof *part);
        go_on(sampler, c, &s, l, part, 100, 150);
        assert_int_equal(sampler_memory_fork(c, &b, &err), HASTEN_OK);
        memcpy(other, part, sizeof other);
        for (int pos = 250; pos < 400; pos += 10) {
            go_on(sampler, c, &s, l, part, pos, 10);
            go_on(sampler, b, &s, l, other, pos, 10);
        }
        assert_memory_equal(part, whole, sizeof whole);
        assert_memory_equal(other, whole, sizeof whole);
        /* cut to 180 (and cut again where nothing is), then the same again */
        sampler_memory_truncate(a, 180);
        sampler_memory_truncate(a, 300);
        memset(whole + 180, 0, 220 * sizeof *whole);
        go_on(sampler, a, &s, l, whole, 180, 220);
        assert_memory_equal(whole, part, sizeof whole);
        /* going back without a word gives the same, too */
        go_on(sampler, b, &s, l, other, 101, 299);
        assert_memory_equal(other, whole, sizeof whole);
        /* another token on the path, or a gap: as one that begins there */
        struct sampler_memory *fresh = remember();
        for (int gap = 0; gap < 2; gap++) {
            other[200] = part[200] = (whole[200] + 1) % N;
            const int from = gap ? 230 : 201;
            memset(part + from, 0, (size_t)(LEN - from) * sizeof *part);
            sampler_memory_truncate(b, gap ? 210 : 201);
            go_on(sampler, b, &s, l, other, from, LEN - from);
            go_on(sampler, fresh, &s, l, part, from, LEN - from);
            assert_memory_equal(other + from, part + from, (size_t)(LEN - from) * sizeof *part);
            sampler_memory_truncate(fresh, 0);
        }
        assert_true(memcmp(other, whole, sizeof whole) != 0);
        /* cut before its first position: empty */
        sampler_memory_truncate(a, 50);
        go_on(sampler, a, &s, l, part, 201, 100);
        sampler_memory_truncate(NULL, 0);
        sampler_memory_close(a);
        sampler_memory_close(b);
        sampler_memory_close(c);
        sampler_memory_close(fresh);
        sampler_memory_close(NULL);
        sampler_close(sampler);
    }
}

static void mirostat_needs_a_memory(void **state)
{
    (void)state;
    struct sampler_settings s = plain();
    struct sampler *sampler = opened(5);
    struct sampler_memory *m = remember(), *fork;
    struct token_logprob t;
    s.mirostat = 2;
    assert_int_equal(sampler_choose(sampler, NULL, &s, halves, NULL, 0, 0, &t, NULL, &err), HASTEN_ERR_USAGE);
    assert_non_null(strstr(err.message, "mirostat"));
    s.temperature = 0; /* the likeliest, and nothing is learned */
    assert_int_equal(sampler_choose(sampler, m, &s, halves, NULL, 0, 0, &t, NULL, &err), HASTEN_OK);
    assert_int_equal(t.id, 0);
    s.temperature = 1;
    for (uint64_t n = 1; n <= 2; n++) {
        mem_fail_at(n, 0);
        assert_int_equal(sampler_choose(sampler, m, &s, halves, NULL, 0, 0, &t, NULL, &err),
                         HASTEN_ERR_MEMORY);
    }
    mem_fail_at(0, 0);
    assert_int_equal(sampler_choose(sampler, m, &s, halves, NULL, 0, 0, &t, NULL, &err), HASTEN_OK);
    for (uint64_t n = 1; n <= 3; n++) {
        mem_fail_at(n, 0);
        assert_int_equal(sampler_memory_fork(m, &fork, &err), HASTEN_ERR_MEMORY);
        assert_null(fork);
    }
    mem_fail_at(1, 0);
    assert_int_equal(sampler_memory_open(&fork, &err), HASTEN_ERR_MEMORY);
    mem_fail_at(0, 0);
    sampler_memory_close(m);
    sampler_close(sampler);
}

/* Rows at the ends: one token, all equal, one finite, no spread that a float holds. */
static void rows_at_the_ends(void **state)
{
    (void)state;
    for (int32_t n = 1; n <= 200; n += n < 3 ? 1 : 66)
        for (int shape = 0; shape < 4; shape++)
            for (int version = 0; version <= 2; version++) {
                float l[200];
                struct sampler_settings s = plain();
                struct sampler *sampler = opened(n);
                struct sampler_memory *m = remember();
                struct token_logprob t;
                for (int32_t i = 0; i < n; i++)
                    l[i] = shape == 0   ? 3
                           : shape == 1 ? (i == n / 2 ? 1 : -INFINITY)
                           : shape == 2 ? -3e38f * (float)(i % 2)
                                        : (float)(-50 * i);
                s.mirostat = version;
                s.typical_p = 0.5f;
                s.xtc_probability = 1;
                for (int64_t pos = 0; pos < 50; pos++) {
                    assert_int_equal(sampler_choose(sampler, m, &s, l, &t.id, pos > 0, pos, &t, NULL, &err),
                                     HASTEN_OK);
                    assert_true(t.id >= 0 && t.id < n && isfinite(l[t.id]));
                }
                sampler_memory_close(m);
                sampler_close(sampler);
            }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(typical_keeps_the_nearest_to_the_expectation),
        cmocka_unit_test(typical_of_equals),
        cmocka_unit_test(xtc_takes_the_top_but_the_least),
        cmocka_unit_test(xtc_throws_the_coin_of_its_position),
        cmocka_unit_test(dry_lowers_what_repeats),
        cmocka_unit_test(dry_stops_at_breakers),
        cmocka_unit_test(dry_at_its_ends),
        cmocka_unit_test(mirostat_2_by_hand),
        cmocka_unit_test(mirostat_1_by_hand),
        cmocka_unit_test(mirostat_holds_the_surprise),
        cmocka_unit_test(memory_follows_its_sequence),
        cmocka_unit_test(mirostat_needs_a_memory),
        cmocka_unit_test(rows_at_the_ends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
