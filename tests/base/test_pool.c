/* The worker pool: every iteration once and never after its loop, whatever the chunks and the timing; sleeping
 * costs nothing; a loop is cheap. Runs under the thread sanitizer too. */
#include "base_test.h"
#include "base/clock.h"
#include "base/limits.h"
#include "base/mem.h"
#include "base/pool.h"
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#define MAX_N 512

#if defined(__SANITIZE_THREAD__)
#define N_LOOPS 5000
#else
#define N_LOOPS 100000
#endif

struct loop {
    int64_t n, chunk;
    int n_threads;
    int generation;
    int seen[MAX_N]; /* plain: two workers on one iteration are a race that TSan reports */
    _Atomic int bad;
};

static void body(void *ctx, int64_t begin, int64_t end, int worker)
{
    struct loop *l = ctx;
    if (worker < 0 || worker >= l->n_threads || begin < 0 || end > l->n || begin >= end ||
        end - begin > l->chunk || begin % l->chunk != 0)
        atomic_fetch_add(&l->bad, 1);
    for (int64_t i = begin; i < end; i++)
        l->seen[i] += l->generation;
}

/* Loops of changing sizes back to back; two contexts in turn, so that a worker that carries an old function or
 * context into a new loop marks the wrong one. */
static void many_loops(int n_threads, int n_loops)
{
    struct pool *p;
    struct hasten_error err;
    static struct loop loops[2];
    uint32_t random = 12345;
    memset(loops, 0, sizeof loops);
    assert_int_equal(pool_create(n_threads, &p, &err), HASTEN_OK);
    assert_int_equal(pool_size(p), n_threads);
    for (int g = 1; g <= n_loops; g++) {
        struct loop *l = &loops[g % 2];
        random = random * 1664525u + 1013904223u;
        l->n = g % 7 == 0 ? 1 : (int64_t)((random >> 8) % (g % 50 == 0 ? MAX_N : 24)) + 1;
        l->chunk = (int64_t)((random >> 24) % 5) + 1;
        l->n_threads = n_threads;
        l->generation = g;
        memset(l->seen, 0, (size_t)l->n * sizeof *l->seen);
        pool_for(p, l->n, l->chunk, body, l);
        for (int64_t i = 0; i < l->n; i++)
            if (l->seen[i] != g)
                fail_msg("loop %d with %d threads: iteration %ld ran for %d", g, n_threads, (long)i,
                         l->seen[i]);
        if (g % 1000 == 0) { /* let the workers fall asleep now and then */
            struct timespec t = {0, 1000000};
            nanosleep(&t, NULL);
        }
    }
    assert_int_equal(loops[0].bad + loops[1].bad, 0);
    pool_destroy(p);
}

static void test_loops(void **state)
{
    (void)state;
    many_loops(1, N_LOOPS / 10);
    many_loops(2, N_LOOPS);
    many_loops(3, N_LOOPS / 5);
    many_loops(4, N_LOOPS / 5);
}

static void test_edges(void **state)
{
    (void)state;
    struct pool *p;
    struct hasten_error err;
    static struct loop l;
    assert_int_equal(pool_create(2, &p, &err), HASTEN_OK);
    memset(&l, 0, sizeof l);
    l.n_threads = 2;
    l.generation = 1;
    pool_for(p, 0, 4, body, &l);
    pool_for(p, -5, 4, body, &l);
    l.n = 10;
    l.chunk = 1;
    pool_for(p, 10, 0, body, &l); /* a chunk below 1 is 1 */
    l.chunk = 1000;
    pool_for(p, 10, 1000, body, &l);
    assert_int_equal(l.bad, 0);
    for (int i = 0; i < 10; i++)
        assert_int_equal(l.seen[i], 2);
    pool_destroy(p);
    pool_destroy(NULL);
    assert_int_equal(pool_create(0, &p, &err), HASTEN_ERR_USAGE);
    assert_null(p);
    assert_int_equal(pool_create(LIMIT_THREADS + 1, &p, &err), HASTEN_ERR_USAGE);
    for (int i = 0; i < 50; i++) { /* destroyed at once, busy or asleep */
        assert_int_equal(pool_create(1 + i % 4, &p, &err), HASTEN_OK);
        if (i % 2)
            pool_for(p, 10, 3, body, &l);
        pool_destroy(p);
    }
}

static void test_out_of_memory(void **state)
{
    (void)state;
    struct pool *p;
    struct hasten_error err;
    struct mem_stats before, after;
    mem_stats_get(&before);
    for (uint64_t n = 1; n <= 2; n++) {
        mem_fail_at(n, 0);
        assert_int_equal(pool_create(2, &p, &err), HASTEN_ERR_MEMORY);
        assert_int_equal(mem_fail_count(), 1);
        mem_fail_at(0, 0);
        assert_null(p);
    }
    mem_stats_get(&after);
    assert_int_equal(after.live_bytes, before.live_bytes);
}

static void unequal(void *ctx, int64_t begin, int64_t end, int worker)
{
    _Atomic int64_t *sum = ctx;
    (void)worker;
    for (int64_t i = begin; i < end; i++) {
        if (i == 3) { /* one chunk sleeps: the others must be taken meanwhile */
            struct timespec t = {0, 20000000};
            nanosleep(&t, NULL);
        }
        atomic_fetch_add(sum, i);
    }
}

static void test_slow_chunk(void **state)
{
    (void)state;
    struct pool *p;
    struct hasten_error err;
    _Atomic int64_t sum = 0;
    assert_int_equal(pool_create(3, &p, &err), HASTEN_OK);
    for (int i = 0; i < 10; i++)
        pool_for(p, 1000, 1, unequal, &sum);
    assert_int_equal(sum, 10 * 999 * 1000 / 2);
    pool_destroy(p);
}

/* Workers beside busy threads: more threads than CPUs, all preempted at random. */
static atomic_int stop_burning;

static void *burn(void *arg)
{
    (void)arg;
    while (!atomic_load(&stop_burning))
        ;
    return NULL;
}

static void test_oversubscribed(void **state)
{
    (void)state;
    pthread_t t[2];
    atomic_store(&stop_burning, 0);
    for (size_t i = 0; i < N_ELEMENTS(t); i++)
        assert_int_equal(pthread_create(&t[i], NULL, burn, NULL), 0);
    many_loops(4, N_LOOPS / 100);
    atomic_store(&stop_burning, 1);
    for (size_t i = 0; i < N_ELEMENTS(t); i++)
        pthread_join(t[i], NULL);
}

static uint64_t cpu_us(void)
{
    struct rusage r;
    getrusage(RUSAGE_SELF, &r);
    return (uint64_t)(r.ru_utime.tv_sec + r.ru_stime.tv_sec) * 1000000u +
           (uint64_t)(r.ru_utime.tv_usec + r.ru_stime.tv_usec);
}

/* The promise is 50 ms in 30 s; 2 s here, so 3.3 ms. */
static void test_idle_costs_nothing(void **state)
{
    (void)state;
    struct pool *p;
    struct hasten_error err;
    static struct loop l;
    assert_int_equal(pool_create(4, &p, &err), HASTEN_OK);
    memset(&l, 0, sizeof l);
    l.n = 100;
    l.chunk = 1;
    l.n_threads = 4;
    pool_for(p, 100, 1, body, &l);
    struct timespec t = {0, 20000000};
    nanosleep(&t, NULL);
    uint64_t before = cpu_us();
    t = (struct timespec){2, 0};
    nanosleep(&t, NULL);
    uint64_t used = cpu_us() - before;
    printf("idle: %lu us of CPU in 2 s\n", (unsigned long)used);
#if !defined(__SANITIZE_THREAD__) /* its own thread wakes up */
    assert_true(used < 3300);
#endif
    pool_destroy(p);
}

static void empty(void *ctx, int64_t begin, int64_t end, int worker)
{
    (void)ctx;
    (void)begin;
    (void)end;
    (void)worker;
}

/* Printed, with a bound so wide that only a lost wake-up or a sleep in every loop can miss it. */
static void test_cost(void **state)
{
    (void)state;
    struct pool *p;
    struct hasten_error err;
    uint64_t best = UINT64_MAX;
    assert_int_equal(pool_create(2, &p, &err), HASTEN_OK);
    for (int round = 0; round < 20; round++) {
        uint64_t start = clock_now_ns();
        for (int i = 0; i < 1000; i++)
            pool_for(p, 16, 2, empty, NULL);
        uint64_t took = (clock_now_ns() - start) / 1000;
        if (took < best)
            best = took;
    }
    printf("a loop of 8 empty chunks on 2 threads: %lu ns\n", (unsigned long)best);
    assert_true(best < 100000);
    pool_destroy(p);
}

static _Atomic uint64_t blocked_in_worker;

static void look_at_signals(void *ctx, int64_t begin, int64_t end, int worker)
{
    sigset_t set;
    (void)ctx;
    (void)begin;
    (void)end;
    pthread_sigmask(SIG_SETMASK, NULL, &set);
    if (worker == 0) { /* give the workers a chance to take chunks */
        struct timespec t = {0, 1000000};
        nanosleep(&t, NULL);
    } else if (sigismember(&set, SIGINT)) {
        atomic_fetch_add(&blocked_in_worker, 1);
    }
}

static void test_signals_are_not_for_workers(void **state)
{
    (void)state;
    struct pool *p;
    struct hasten_error err;
    sigset_t set;
    assert_int_equal(pool_create(2, &p, &err), HASTEN_OK);
    pthread_sigmask(SIG_SETMASK, NULL, &set);
    assert_false(sigismember(&set, SIGINT));
    for (int i = 0; i < 100 && !blocked_in_worker; i++)
        pool_for(p, 20, 1, look_at_signals, NULL);
    assert_true(blocked_in_worker > 0);
    pool_destroy(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_edges),          cmocka_unit_test(test_loops),
        cmocka_unit_test(test_slow_chunk),     cmocka_unit_test(test_out_of_memory),
        cmocka_unit_test(test_oversubscribed), cmocka_unit_test(test_idle_costs_nothing),
        cmocka_unit_test(test_cost),           cmocka_unit_test(test_signals_are_not_for_workers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
