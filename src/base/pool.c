/* The pool of workers.
 *
 * A loop is published in three steps: its description (plain fields), the number of unclaimed chunks (release),
 * the epoch (the futex that idle workers sleep on). Whoever lowers `unclaimed` from r > 0 to r - 1 owns chunk
 * n_chunks - r, and reads the description only then: while a chunk is owned and not reported, pool_for cannot
 * return, so the description cannot change. A worker that comes late finds `unclaimed` at 0, or a chunk of a
 * newer loop, and both are right. Nobody waits for workers that sleep or are preempted between chunks.
 *
 * Sleeping: a worker announces itself in `sleepers`, then sleeps only if the epoch is still the one it saw
 * before it last looked for work; the publisher raises the epoch, then reads `sleepers`. Both sides are
 * sequentially consistent, so one of them sees the other. The caller sleeps on `waiting` in the same manner.
 *
 * Not here (yet): recomputing the chunk of a straggler. */
#include "base/pool.h"
#include "base/cgroup.h"
#include "base/clock.h"
#include "base/limits.h"
#include "base/mem.h"
#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define CACHE_LINE 64
#define SPIN_NS 40000 /* how long to look for work before sleeping */
#define SPIN_MIN 200  /* bounds of the calibrated number of pauses */
#define SPIN_MAX 20000
#define STACK_BYTES (2u << 20) /* of a worker */

struct worker {
    struct pool *pool;
    int index;
    pthread_t thread;
};

struct pool {
    /* Set at creation. */
    int n_threads;
    int n_started;
    int spin_pauses;
    struct worker *workers; /* [n_threads], entry 0 unused */

    /* The loop's description: written by the caller, read by owners of a chunk. */
    _Alignas(CACHE_LINE) pool_fn fn;
    void *ctx;
    int64_t n, chunk, n_chunks;
    struct pool_busy *busy; /* NULL: nobody watches */

    _Alignas(CACHE_LINE) _Atomic int64_t unclaimed;  /* chunks nobody has taken yet */
    _Alignas(CACHE_LINE) _Atomic int64_t unfinished; /* chunks not yet reported as done */
    _Alignas(CACHE_LINE) _Atomic uint32_t epoch;     /* futex of idle workers; one up for every loop */
    _Atomic uint32_t sleepers;                       /* workers asleep, or about to be */
    _Atomic int stop;
    _Alignas(CACHE_LINE) _Atomic uint32_t waiting; /* futex of the caller: 1 while it sleeps */
};

/* ---- waiting ------------------------------------------------------------------------------------------------ */

static void pause_cpu(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

static void futex_wait(_Atomic uint32_t *word, uint32_t value)
{
    syscall(SYS_futex, (void *)word, FUTEX_WAIT_PRIVATE, value, NULL, NULL, 0);
}

static void futex_wake(_Atomic uint32_t *word, int n)
{
    syscall(SYS_futex, (void *)word, FUTEX_WAKE_PRIVATE, n, NULL, NULL, 0);
}

/* How many pauses take SPIN_NS here: a pause is 3 ns on one CPU and 45 on another. The fastest of three tries,
 * since a try may be preempted. */
static int calibrate_spin(void)
{
    const int tried = 500;
    uint64_t best_ns = UINT64_MAX;
    for (int i = 0; i < 3; i++) {
        uint64_t start = clock_now_ns();
        for (int j = 0; j < tried; j++)
            pause_cpu();
        uint64_t took = clock_now_ns() - start;
        if (took < best_ns)
            best_ns = took;
    }
    if (best_ns == 0) /* a frozen clock */
        return SPIN_MIN;
    uint64_t pauses = (uint64_t)SPIN_NS * (uint64_t)tried / best_ns;
    return pauses < SPIN_MIN ? SPIN_MIN : pauses > SPIN_MAX ? SPIN_MAX : (int)pauses;
}

/* ---- work ---------------------------------------------------------------------------------------------------- */

/* Takes one chunk: its index, or -1. */
static int64_t claim(struct pool *p)
{
    int64_t left = atomic_load_explicit(&p->unclaimed, memory_order_acquire);
    while (left > 0)
        if (atomic_compare_exchange_weak_explicit(&p->unclaimed, &left, left - 1, memory_order_acq_rel,
                                                  memory_order_acquire))
            return p->n_chunks - left;
    return -1;
}

static void run_chunk(const struct pool *p, int64_t index, int worker)
{
    int64_t begin = index * p->chunk;
    int64_t end = p->n - begin < p->chunk ? p->n : begin + p->chunk;
    if (!p->busy) {
        p->fn(p->ctx, begin, end, worker);
        return;
    }
    const uint64_t start = clock_now_ns();
    p->fn(p->ctx, begin, end, worker);
    p->busy[worker].ns += clock_now_ns() - start;
}

/* Works until nothing is unclaimed, then reports; the last report wakes a sleeping caller. */
static void drain(struct pool *p, int worker)
{
    int64_t done = 0;
    for (int64_t index = claim(p); index >= 0; index = claim(p)) {
        run_chunk(p, index, worker);
        done++;
    }
    if (done == 0 || atomic_fetch_sub(&p->unfinished, done) != done)
        return;
    if (worker != 0 && atomic_load(&p->waiting) && atomic_exchange(&p->waiting, 0))
        futex_wake(&p->waiting, 1);
}

static void *worker_main(void *arg)
{
    const struct worker *w = arg;
    struct pool *p = w->pool;
    for (;;) {
        uint32_t epoch = atomic_load(&p->epoch);
        if (atomic_load(&p->stop))
            return NULL;
        drain(p, w->index);
        for (int i = 0; i < p->spin_pauses && atomic_load_explicit(&p->epoch, memory_order_relaxed) == epoch;
             i++)
            pause_cpu();
        if (atomic_load(&p->epoch) != epoch)
            continue;
        atomic_fetch_add(&p->sleepers, 1);
        while (atomic_load(&p->epoch) == epoch)
            futex_wait(&p->epoch, epoch);
        atomic_fetch_sub(&p->sleepers, 1);
    }
}

static void wake_workers(struct pool *p, int64_t n)
{
    atomic_fetch_add(&p->epoch, 1);
    if (atomic_load(&p->sleepers))
        futex_wake(&p->epoch, n < p->n_threads ? (int)n : p->n_threads);
}

void pool_for(struct pool *p, int64_t n, int64_t chunk, pool_fn fn, void *ctx)
{
    if (n <= 0)
        return;
    if (chunk < 1)
        chunk = 1;
    p->fn = fn;
    p->ctx = ctx;
    p->n = n;
    p->chunk = chunk;
    p->n_chunks = n / chunk + (n % chunk != 0);
    if (p->n_threads == 1 || p->n_chunks == 1) {
        for (int64_t i = 0; i < p->n_chunks; i++)
            run_chunk(p, i, 0);
        return;
    }
    atomic_store_explicit(&p->unfinished, p->n_chunks, memory_order_relaxed);
    atomic_store_explicit(&p->unclaimed, p->n_chunks, memory_order_release);
    wake_workers(p, p->n_chunks - 1);
    drain(p, 0);
    for (int i = 0; i < p->spin_pauses && atomic_load(&p->unfinished) != 0; i++)
        pause_cpu();
    while (atomic_load(&p->unfinished) != 0) {
        atomic_store(&p->waiting, 1);
        if (atomic_load(&p->unfinished) != 0)
            futex_wait(&p->waiting, 1);
    }
    atomic_store(&p->waiting, 0);
}

/* ---- life ---------------------------------------------------------------------------------------------------- */

/* Starts the threads with all signals blocked: signals are the program's, not the workers'. */
static int start_workers(struct pool *p)
{
    pthread_attr_t attr;
    sigset_t all, old;
    int error = pthread_attr_init(&attr);
    if (error)
        return error;
    error = pthread_attr_setstacksize(&attr, STACK_BYTES);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    for (int i = 1; i < p->n_threads && !error; i++) {
        p->workers[i] = (struct worker){.pool = p, .index = i};
        error = pthread_create(&p->workers[i].thread, &attr, worker_main, &p->workers[i]);
        if (!error)
            p->n_started = i;
    }
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    pthread_attr_destroy(&attr);
    return error;
}

hasten_status pool_create(int n_threads, struct pool **out, struct hasten_error *err)
{
    *out = NULL;
    if (n_threads < 1 || n_threads > LIMIT_THREADS)
        return error_set(err, HASTEN_ERR_USAGE, "starting workers: %d threads (expected 1 to %d)", n_threads,
                         LIMIT_THREADS);
    struct pool *p = mem_aligned(sizeof *p);
    struct worker *workers = mem_calloc((size_t)n_threads, sizeof *workers);
    if (!p || !workers) {
        mem_free(p);
        mem_free(workers);
        return error_set(err, HASTEN_ERR_MEMORY, "starting %d workers: out of memory", n_threads);
    }
    memset(p, 0, sizeof *p);
    p->n_threads = n_threads;
    p->workers = workers;
    p->spin_pauses = n_threads > 1 ? calibrate_spin() : 0;
    int error = start_workers(p);
    if (error) {
        pool_destroy(p);
        return error_set(err, HASTEN_ERR_MEMORY, "starting %d workers: no more threads (error %d)", n_threads,
                         error);
    }
    *out = p;
    return HASTEN_OK;
}

void pool_destroy(struct pool *p)
{
    if (!p)
        return;
    atomic_store(&p->stop, 1);
    wake_workers(p, p->n_threads);
    for (int i = 1; i <= p->n_started; i++)
        pthread_join(p->workers[i].thread, NULL);
    mem_free(p->workers);
    mem_free(p);
}

int pool_size(const struct pool *p)
{
    return p->n_threads;
}

void pool_watch(struct pool *p, struct pool_busy *busy)
{
    p->busy = busy;
}

/* ---- how many ------------------------------------------------------------------------------------------------ */

/* CPUs of the affinity mask, whatever its length; 0 when the system does not say. */
static int affinity_cpus(void)
{
    for (size_t n_cpus = 1024; n_cpus <= 1 << 20; n_cpus *= 2) {
        size_t bytes = CPU_ALLOC_SIZE(n_cpus);
        cpu_set_t *set = mem_calloc(1, bytes);
        if (!set)
            return 0;
        int failed = sched_getaffinity(0, bytes, set), error = errno;
        int count = failed ? 0 : CPU_COUNT_S(bytes, set);
        mem_free(set);
        if (!failed || error != EINVAL) /* EINVAL: the kernel's mask is longer */
            return count;
    }
    return 0;
}

int pool_default_threads(void)
{
    int threads = affinity_cpus();
    int quota = cgroup_cpu_limit("/proc/self/cgroup", "/sys/fs/cgroup");
    if (quota && quota < threads)
        threads = quota;
    if (threads < 1)
        threads = 1;
    return threads < LIMIT_THREADS ? threads : LIMIT_THREADS;
}
