/* Running the limit loops of kernels/peak.h (limits.h). */
#include "bench/limits.h"
#include "base/clock.h"
#include "base/cpu.h"
#include "base/limits.h"
#include "base/mem.h"
#include "base/meminfo.h"
#include "bench/stats.h"
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define MIB (1u << 20)
#define WINDOW_BYTES (64u * MIB) /* read by all threads between two looks at the clock */
#define CHUNK_BYTES (256u << 10) /* of a window, claimed at once */
#define READ_MIN (512u * MIB)
#define READ_MAX (2048ull * MIB)
#define CHUNK_NS 50000     /* of arithmetic, claimed at once */
#define CHUNKS_A_THREAD 20 /* in a window */
#define MAX_WINDOWS 4096
#define PATIENCE 20 /* times the budget, at most, on a machine that others use */
#define AGREE 0.97  /* what the third best window must reach of the best */

/* ---- arithmetic ---------------------------------------------------------------------------------------- */

struct peak_job {
    const struct peak *peak;
    int64_t rounds;
};

static void peak_chunks(void *ctx, int64_t begin, int64_t end, int worker)
{
    const struct peak_job *j = ctx;
    (void)worker;
    for (int64_t i = begin; i < end; i++)
        j->peak->run(j->rounds);
}

/* The three best windows of a figure. One window is luck; when three agree, the figure stands. */
struct top {
    double best[3];
    uint64_t since_ns, budget_ns;
    const volatile int *cancel; /* or NULL */
};

static void top_add(struct top *t, double speed)
{
    for (int i = 0; i < 3; i++)
        if (speed > t->best[i]) {
            const double next = t->best[i];
            t->best[i] = speed;
            speed = next;
        }
}

/* What a figure may take. */
struct budget {
    uint64_t ns;
    const volatile int *cancel;
};

static struct top top_start(struct budget b, uint64_t divisor)
{
    return (struct top){.since_ns = clock_now_ns(), .budget_ns = b.ns / divisor, .cancel = b.cancel};
}

/* Whether to stop: the budget is spent, three windows agree and reach what is expected (0: nothing is), or
 * patience has ended, or the caller's has. */
static bool top_done(const struct top *t, double expected)
{
    if (t->cancel && *t->cancel)
        return true;
    const uint64_t spent = clock_now_ns() - t->since_ns;
    const bool agree = t->best[2] >= AGREE * t->best[0] && t->best[0] >= expected;
    return spent >= t->budget_ns && (agree || spent >= PATIENCE * t->budget_ns);
}

/* Rounds that take about CHUNK_NS. */
static int64_t calibrate(const struct peak *p)
{
    for (int64_t rounds = 64;; rounds *= 2) {
        const uint64_t t = clock_now_ns();
        p->run(rounds);
        if (clock_now_ns() - t >= CHUNK_NS || rounds >= (1 << 30))
            return rounds;
    }
}

/* Best window of n chunks, by the pool or (NULL) by the caller alone. */
static double best_peak(struct pool *pool, const struct peak_job *j, int64_t n, double expected,
                        struct budget budget, uint64_t divisor)
{
    const double ops = (double)n * (double)j->rounds * j->peak->ops_per_round;
    struct top top = top_start(budget, divisor);
    do {
        const uint64_t t = clock_now_ns();
        if (pool)
            pool_for(pool, n, 1, peak_chunks, (void *)(uintptr_t)j);
        else
            peak_chunks((void *)(uintptr_t)j, 0, n, 0);
        top_add(&top, ops / (double)(clock_now_ns() - t));
    } while (!top_done(&top, expected));
    return top.best[0];
}

static void measure_peaks(struct pool *pool, struct budget budget, struct bench_limits *out)
{
    for (int kind = 0; kind < PEAK_KINDS; kind++) {
        const struct peak *p = peak_get((enum peak_kind)kind, cpu_features());
        out->peak[kind] = (struct bench_peak){0};
        if (!p)
            continue;
        const struct peak_job j = {p, calibrate(p)};
        out->peak[kind].how = p->how;
        out->peak[kind].one = best_peak(NULL, &j, CHUNKS_A_THREAD, 0, budget, 2);
        const double expected = 0.9 * out->threads * out->peak[kind].one;
        out->peak[kind].all =
            best_peak(pool, &j, (int64_t)CHUNKS_A_THREAD * out->threads, expected, budget, 1);
    }
}

/* ---- memory -------------------------------------------------------------------------------------------- */

struct read_job {
    const uint8_t *data;
    uint32_t features;
    size_t own_bytes; /* 0: chunks of data; else each worker reads its own part, again and again */
    int64_t times;
    uint64_t sums[LIMIT_THREADS]; /* so that the reading cannot be left out */
};

static void read_chunks(void *ctx, int64_t begin, int64_t end, int worker)
{
    struct read_job *j = ctx;
    for (int64_t i = begin; i < end; i++) {
        if (!j->own_bytes)
            j->sums[worker] += peak_read(j->data + (size_t)i * CHUNK_BYTES, CHUNK_BYTES, j->features);
        for (int64_t k = 0; k < j->times; k++)
            j->sums[worker] += peak_read(j->data + (size_t)worker * j->own_bytes, j->own_bytes, j->features);
    }
}

struct speeds {
    double values[MAX_WINDOWS];
    int32_t n;
};

/* Windows over data[bytes], round and round, at least one whole turn. Best and median in 10^9 bytes a second. */
static double read_windows(struct pool *pool, struct read_job *j, const uint8_t *data, size_t bytes,
                           double expected, struct top top, struct speeds *s, double *median)
{
    const size_t window = bytes < WINDOW_BYTES ? bytes : WINDOW_BYTES, n = bytes / window;
    struct bench_stats stats;
    j->own_bytes = 0;
    j->times = 0;
    s->n = 0;
    const struct top turn = {
        .since_ns = top.since_ns, .budget_ns = UINT64_MAX / PATIENCE, .cancel = top.cancel};
    for (size_t i = 0; s->n < MAX_WINDOWS && !top_done(i < n ? &turn : &top, expected); i++) {
        const uint64_t t = clock_now_ns();
        j->data = data + i % n * window;
        if (pool)
            pool_for(pool, (int64_t)(window / CHUNK_BYTES), 1, read_chunks, j);
        else
            read_chunks(j, 0, (int64_t)(window / CHUNK_BYTES), 0);
        s->values[s->n] = (double)window / (double)(clock_now_ns() - t);
        top_add(&top, s->values[s->n++]);
    }
    bench_stats_of(s->values, s->n, &stats);
    if (median)
        *median = stats.median;
    return top.best[0];
}

/* Each worker reads its own bytes, in cache after the first time. */
static double read_own(struct pool *pool, struct read_job *j, const uint8_t *data, size_t bytes,
                       struct budget budget)
{
    const int64_t n = (int64_t)pool_size(pool) * CHUNKS_A_THREAD;
    struct top top = top_start(budget, 4);
    j->data = data;
    j->own_bytes = bytes;
    j->times = bytes < MIB ? (int64_t)(MIB / bytes) : 1;
    do {
        const uint64_t t = clock_now_ns();
        pool_for(pool, n, 1, read_chunks, j);
        top_add(&top, (double)n * (double)j->times * (double)bytes / (double)(clock_now_ns() - t));
    } while (!top_done(&top, 0));
    return top.best[0];
}

static void measure_curve(struct pool *pool, struct read_job *j, const uint8_t *data, struct budget budget,
                          struct speeds *s, struct bench_limits *out)
{
    static const uint32_t own[] = {32u << 10, 512u << 10, 4u * MIB};
    static const uint64_t shared[] = {64ull * MIB, 256ull * MIB, 512ull * MIB, 1024ull * MIB};
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        if ((uint64_t)own[i] * (uint64_t)out->threads <= out->read_bytes)
            out->curve[out->n_curve++] =
                (struct bench_curve_point){own[i], true, read_own(pool, j, data, own[i], budget)};
    for (size_t i = 0; i < sizeof shared / sizeof *shared; i++)
        if (shared[i] <= out->read_bytes)
            out->curve[out->n_curve++] = (struct bench_curve_point){
                shared[i], false, read_windows(pool, j, data, shared[i], 0, top_start(budget, 4), s, NULL)};
}

/* Several times the last cache, but not more than a quarter of what the machine can give. */
static hasten_status buffer_bytes(uint64_t max_bytes, struct bench_limits *out, struct hasten_error *err)
{
    uint64_t available = 0;
    const long cache = sysconf(_SC_LEVEL3_CACHE_SIZE);
    hasten_status st = meminfo_available("/proc/meminfo", "/sys/fs/cgroup", &available, err);
    if (st)
        return st;
    out->cache_bytes = cache > 0 ? (uint64_t)cache : 0;
    uint64_t bytes = 4 * out->cache_bytes;
    bytes = bytes < READ_MIN ? READ_MIN : bytes > READ_MAX ? READ_MAX : bytes;
    bytes = max_bytes && bytes > max_bytes ? max_bytes : bytes;
    bytes = bytes > available / 4 ? available / 4 : bytes;
    out->read_bytes = bytes / WINDOW_BYTES * WINDOW_BYTES;
    if (!out->read_bytes)
        return error_set(err, HASTEN_ERR_MEMORY,
                         "measuring memory: a quarter of what is free is %llu bytes (expected at least %u)",
                         (unsigned long long)(available / 4), WINDOW_BYTES);
    return HASTEN_OK;
}

static hasten_status measure_memory(struct pool *pool, struct budget budget, bool curve,
                                    struct bench_limits *out, struct hasten_error *err)
{
    struct read_job *j = mem_calloc(1, sizeof *j);
    struct speeds *s = mem_calloc(1, sizeof *s);
    uint8_t *data = mem_map(out->read_bytes);
    hasten_status st = HASTEN_OK;
    if (j && s && data) {
        madvise(data, out->read_bytes,
                MADV_HUGEPAGE); /* a wish: the limit should not be that of page tables */
        memset(data, 1, out->read_bytes);
        j->features = cpu_features();
        out->read_one = read_windows(NULL, j, data, out->read_bytes, 0, top_start(budget, 2), s, NULL);
        out->read_all = read_windows(pool, j, data, out->read_bytes, out->read_one, top_start(budget, 1), s,
                                     &out->read_median);
        if (curve)
            measure_curve(pool, j, data, budget, s, out);
    } else {
        st = error_set(err, HASTEN_ERR_MEMORY, "measuring memory: out of memory for %llu bytes",
                       (unsigned long long)out->read_bytes);
    }
    mem_unmap(data, out->read_bytes);
    mem_free(s);
    mem_free(j);
    return st;
}

/* ---- all ----------------------------------------------------------------------------------------------- */

hasten_status bench_measure_limits(struct pool *pool, int budget_ms, bool curve, uint64_t max_bytes,
                                   const volatile int *cancel, struct bench_limits *out,
                                   struct hasten_error *err)
{
    const struct budget budget = {(uint64_t)budget_ms * 1000000u, cancel};
    memset(out, 0, sizeof *out);
    out->threads = pool_size(pool);
    hasten_status st = buffer_bytes(max_bytes, out, err);
    if (st)
        return st;
    measure_peaks(pool, budget, out);
    if (!cancel || !*cancel)
        st = measure_memory(pool, budget, curve, out, err);
    if (!st && cancel && *cancel)
        st = error_set(err, HASTEN_ERR_CANCELLED, "measuring the machine: interrupted");
    return st;
}

static double larger(double a, double b)
{
    return a > b ? a : b;
}

double bench_limits_half(const struct bench_limits *l)
{
    return larger(l->peak[PEAK_BF16].all, l->peak[PEAK_F32].all);
}

void bench_limits_merge(struct bench_limits *into, const struct bench_limits *other)
{
    for (int i = 0; i < PEAK_KINDS; i++) {
        into->peak[i].one = larger(into->peak[i].one, other->peak[i].one);
        into->peak[i].all = larger(into->peak[i].all, other->peak[i].all);
    }
    into->read_one = larger(into->read_one, other->read_one);
    into->read_all = larger(into->read_all, other->read_all);
    into->read_median = larger(into->read_median, other->read_median);
}
