/* Staged loops of the pool: every result published once, whoever computed it; a worker that is stopped in the
 * middle of a chunk holds nobody up, and what it computes afterwards is dropped. Runs under the thread sanitizer
 * too: the bodies read nothing but their ctx and atomics, so a straggler races with nothing. */
#include "base_test.h"
#include "base/clock.h"
#include "base/pool.h"
#include <stdatomic.h>
#include <string.h>
#include <time.h>

#define MAX_N 2048

#if defined(__SANITIZE_THREAD__)
#define N_LOOPS 3000
#else
#define N_LOOPS 30000
#endif

struct results {
    uint32_t value[MAX_N];
    uint32_t n_published[MAX_N]; /* plain: two that publish one iteration are a race that TSan reports */
    _Atomic int bad;
};

struct loop_ctx {
    struct results *out;
    int64_t n, least, most;
    uint32_t generation;
    int32_t n_threads;
    char padding[POOL_CTX_BYTES - 6 * 8]; /* the largest ctx; its last byte must arrive */
    char last[8];
};

_Static_assert(sizeof(struct loop_ctx) == POOL_CTX_BYTES, "the largest ctx is tested");

static uint32_t value_of(uint32_t generation, int64_t i)
{
    return (generation * 2654435761u) ^ (uint32_t)i;
}

static void check_chunk(const struct loop_ctx *c, int64_t begin, int64_t end, int worker)
{
    if (worker < 0 || worker >= c->n_threads || begin < 0 || begin >= end || end > c->n ||
        end - begin > (c->most > c->least ? c->most : c->least) || begin % c->least != 0 ||
        (end % c->least != 0 && end != c->n) || c->last[7] != (char)c->generation)
        atomic_fetch_add(&c->out->bad, 1);
}

static void compute(const void *ctx, int64_t begin, int64_t end, int worker, void *stage)
{
    const struct loop_ctx *c = ctx;
    check_chunk(c, begin, end, worker);
    uint32_t *to = stage ? stage : c->out->value + begin;
    for (int64_t i = begin; i < end; i++) {
        to[i - begin] = value_of(c->generation, i);
        if (!stage)
            c->out->n_published[i]++;
    }
}

static void publish(const void *ctx, int64_t begin, int64_t end, const void *stage)
{
    const struct loop_ctx *c = ctx;
    memcpy(c->out->value + begin, stage, (size_t)(end - begin) * sizeof(uint32_t));
    for (int64_t i = begin; i < end; i++)
        c->out->n_published[i]++;
}

static const struct pool_staged job = {compute, publish};

static void check_results(const struct results *r, int64_t n, uint32_t generation)
{
    assert_int_equal(r->bad, 0);
    for (int64_t i = 0; i < n; i++)
        if (r->value[i] != value_of(generation, i) || r->n_published[i] != 1)
            fail_msg("loop %u: iteration %ld: value %#x published %u times", generation, (long)i, r->value[i],
                     r->n_published[i]);
}

/* Random sizes, the two results in turn, so that what a straggler published late would be seen. */
static void many_loops(int n_threads, int64_t patience_ns, uint32_t n_loops)
{
    struct pool *p;
    struct hasten_error err;
    static struct results results[2];
    uint32_t random = 4711;
    assert_int_equal(pool_create(n_threads, &p, &err), HASTEN_OK);
    pool_set_patience(p, patience_ns);
    for (uint32_t g = 1; g <= n_loops; g++) {
        random = random * 1664525u + 1013904223u;
        struct results *r = &results[g % 2];
        const int64_t n = 1 + (int64_t)((random >> 8) % (g % 100 == 0 ? MAX_N : 64));
        struct loop_ctx c = {.out = r, .n = n, .generation = g, .n_threads = n_threads};
        c.least = 1 + (random >> 24) % 5;
        c.most = 1 + (random >> 16) % 40;
        c.last[7] = (char)g;
        memset(r->n_published, 0, (size_t)n * sizeof *r->n_published);
        pool_for_staged(p, n, c.least, c.most, &job, &c, sizeof c);
        memset(&c, 0xee, sizeof c); /* workers have their own */
        check_results(r, n, g);
    }
    pool_destroy(p);
    assert_int_equal(results[0].bad + results[1].bad, 0);
}

static void test_loops(void **state)
{
    (void)state;
    many_loops(1, POOL_ADAPTIVE, N_LOOPS / 10);
    many_loops(2, POOL_NEVER, N_LOOPS);
    many_loops(2, POOL_ADAPTIVE, N_LOOPS);
    many_loops(2, 0, N_LOOPS);
    many_loops(4, POOL_ADAPTIVE, N_LOOPS / 5);
    many_loops(4, 0, N_LOOPS / 5); /* more threads than CPUs: stragglers everywhere */
}

/* ---- a worker that stops -------------------------------------------------------------------------------- */

#define GATE_NS 3000000000u /* opens by itself, so that a pool that waits fails instead of hanging */

struct gate {
    _Atomic int n_inside; /* workers stopped */
    _Atomic int open;
    _Atomic int n_left; /* workers that went on */
};

struct stopping_ctx {
    struct results *out;
    struct gate *gate;
    uint32_t generation;
};

static void nap(void)
{
    struct timespec t = {0, 200000};
    nanosleep(&t, NULL);
}

static void stop_here(struct gate *g)
{
    const uint64_t start = clock_now_ns();
    atomic_fetch_add(&g->n_inside, 1);
    while (!atomic_load(&g->open) && clock_now_ns() - start < GATE_NS)
        nap();
    atomic_fetch_add(&g->n_left, 1);
}

/* Workers stop in their first chunk; the caller does not go on before one has. */
static void compute_stopped(const void *ctx, int64_t begin, int64_t end, int worker, void *stage)
{
    const struct stopping_ctx *c = ctx;
    uint32_t *to = stage ? stage : c->out->value + begin;
    const uint64_t start = clock_now_ns();
    if (worker == 0)
        while (!atomic_load(&c->gate->n_inside) && clock_now_ns() - start < GATE_NS)
            nap();
    else
        stop_here(c->gate);
    for (int64_t i = begin; i < end; i++) {
        to[i - begin] = value_of(c->generation, i);
        if (!stage)
            c->out->n_published[i]++;
    }
}

static void publish_stopped(const void *ctx, int64_t begin, int64_t end, const void *stage)
{
    const struct stopping_ctx *c = ctx;
    memcpy(c->out->value + begin, stage, (size_t)(end - begin) * sizeof(uint32_t));
    for (int64_t i = begin; i < end; i++)
        c->out->n_published[i]++;
}

static const struct pool_staged stopping_job = {compute_stopped, publish_stopped};

static void one_loop(struct pool *p, struct results *r, int n_threads, uint32_t generation)
{
    struct loop_ctx c = {
        .out = r, .n = 100, .least = 1, .most = 9, .generation = generation, .n_threads = n_threads};
    c.last[7] = (char)generation;
    memset(r, 0, sizeof *r);
    pool_for_staged(p, c.n, c.least, c.most, &job, &c, sizeof c);
    check_results(r, c.n, generation);
}

static void stop_workers(int n_threads)
{
    struct pool *p;
    struct hasten_error err;
    static struct results stopped, others;
    static struct gate gate;
    memset(&stopped, 0, sizeof stopped);
    memset(&gate, 0, sizeof gate);
    assert_int_equal(pool_create(n_threads, &p, &err), HASTEN_OK);
    pool_set_patience(p, 1000000);

    const uint64_t start = clock_now_ns();
    const struct stopping_ctx c = {&stopped, &gate, 1};
    pool_for_staged(p, 40, 1, 8, &stopping_job, &c, sizeof c);
    assert_true(clock_now_ns() - start < GATE_NS / 2);
    assert_true(gate.n_inside > 0);
    assert_int_equal(gate.n_left, 0);
    check_results(&stopped, 40, 1);

    /* Everything else goes on, direct loops too, as long as the stopped ones are not in them. */
    for (uint32_t g = 2; g < 200; g++)
        one_loop(p, &others, n_threads, g);
    assert_int_equal(gate.n_left, 0);
    memset(&stopped, 0x55, sizeof stopped);
    atomic_store(&gate.open, 1);
    while (atomic_load(&gate.n_left) < atomic_load(&gate.n_inside))
        nap();
    for (uint32_t g = 200; g < 400; g++)
        one_loop(p, &others, n_threads, g);
    pool_destroy(p); /* joins: whatever a late worker could do, it has done */
    for (int64_t i = 0; i < MAX_N; i++)
        if (stopped.value[i] != 0x55555555u || stopped.n_published[i] != 0x55555555u)
            fail_msg("iteration %ld was published after its loop", (long)i);
}

static void test_stopped_worker(void **state)
{
    (void)state;
    stop_workers(2);
    stop_workers(3);
    stop_workers(5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_loops),
        cmocka_unit_test(test_stopped_worker),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
