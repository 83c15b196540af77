/* The pool of workers.
 *
 * One word, the ticket, says which loop is current (epoch, upper half) and how far it is handed out (lower half,
 * in units of the smallest chunk). Whoever moves the lower half by compare-and-swap owns the iterations between.
 * The description of a loop lies in one of two slots, by the parity of its epoch. A worker copies the slot
 * before it claims: the slot of epoch e is written again only after epoch e + 1 was announced, so a claim that
 * succeeds under epoch e proves the copy right. After that it needs nothing from the caller but, in a direct
 * loop, the ctx, which stays while a chunk is claimed and not done.
 *
 * Each worker reports in words of its own: `done`, the units it finished in an epoch; `chunk`, the chunk of a
 * staged loop it is working on. The caller returns when the units done, its own and the workers', are all. So a
 * worker that sleeps, or is preempted between chunks, is never waited for.
 *
 * Stragglers: when nothing is left to claim, and the units of a staged loop are not all done after about twice
 * the usual time, the caller computes the chunk of a worker again, and takes it away by a compare-and-swap on
 * the worker's `chunk`. The worker, when it comes back, finds its own compare-and-swap failing and drops its
 * result. It has written nothing but its stage, and goes on with whatever loop is current then. Only the caller
 * does this: nobody else's waiting holds anything up, and the caller's own chunk is needed by nobody earlier.
 *
 * Sleeping: a worker announces itself in `sleepers`, then sleeps only if the epoch is still the one it last
 * looked for work in; the publisher raises the epoch, then reads `sleepers`. Both sides are sequentially
 * consistent, so one of them sees the other. The caller sleeps on `waiting` in the same manner.
 *
 * A straggler reads memory that later loops write. That is by design, and its result is dropped; but to the
 * thread sanitizer it is a race, so there nothing is computed again unless a test with private data asks. */
#include "base/pool.h"
#include "base/cgroup.h"
#include "base/clock.h"
#include "base/cpus.h"
#include "base/limits.h"
#include "base/mem.h"
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define CACHE_LINE 64
#define SPIN_NS 40000 /* how long to look for work before sleeping */
#define SPIN_MIN 200  /* bounds of the calibrated number of pauses */
#define SPIN_MAX 20000
#define MOST_SPINS 50                  /* half as long, while the caller is busy */
#define STACK_BYTES (2u << 20)         /* of a worker */
#define FIRST_EPOCH (UINT32_MAX - 500) /* so that every test sees the count of loops wrap */
#define MAX_UNITS (1ll << 30)          /* of a loop: half a ticket, and a bit to spare */
#define PATIENCE_MIN_NS 4000           /* bounds of how long the caller waits for a chunk */
#define PATIENCE_MAX_NS 2000000
#define PAUSES_PER_LOOK 16 /* of the caller, between looks at the clock */

#if defined(__SANITIZE_THREAD__)
#define PATIENCE_DEFAULT POOL_NEVER
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define PATIENCE_DEFAULT POOL_NEVER
#endif
#endif
#ifndef PATIENCE_DEFAULT
#define PATIENCE_DEFAULT POOL_ADAPTIVE
#endif

/* What a loop is. */
struct loop {
    pool_fn fn;                    /* direct loops */
    const struct pool_staged *job; /* staged loops, else NULL */
    void *ctx;                     /* direct loops */
    int64_t n, unit;               /* iterations; those of the smallest chunk */
    int64_t n_units;
    int32_t most;       /* units of the largest chunk */
    int32_t ctx_bytes;  /* staged loops */
    int32_t caller_cpu; /* where the caller was running */
    int32_t caller_tid;
    uintptr_t bring; /* a hint, see pool_bring */
    size_t bring_bytes;
};

#define LOOP_WORDS (sizeof(struct loop) / sizeof(uint64_t))
#define CTX_WORDS (POOL_CTX_BYTES / sizeof(uint64_t))
_Static_assert(sizeof(struct loop) % sizeof(uint64_t) == 0, "a slot is copied by words");

/* A loop as it is handed over. Words are stored with release and loaded with acquire, so that what a worker
 * copies too late cannot look right: see the top. */
struct slot {
    _Alignas(CACHE_LINE) _Atomic uint64_t loop[LOOP_WORDS];
    _Alignas(CACHE_LINE) _Atomic uint64_t ctx[CTX_WORDS];
};

struct worker {
    /* Written by the worker, read by the caller, which also writes chunk to take it away. */
    _Alignas(CACHE_LINE) _Atomic uint64_t done; /* epoch << 32 | units finished in it */
    _Atomic uint64_t chunk; /* epoch << 32 | first unit << 1 | 1 while it is being worked on */

    /* The worker's own. */
    _Alignas(CACHE_LINE) struct pool *pool;
    int index;
    pthread_t thread;
    uint8_t *stage; /* [POOL_STAGE_BYTES] */
    struct loop loop;
    _Alignas(CACHE_LINE) uint64_t ctx[CTX_WORDS]; /* the loop's copy, when it is staged */
};

struct pool {
    /* Set at creation. */
    int n_threads;
    int n_started;
    int spin_pauses;
    int64_t patience_ns;
    bool roaming;           /* there is a CPU for each thread: see "places" */
    struct pool_busy *busy; /* NULL: nobody watches. Changes between loops only. */
    struct worker *workers; /* [n_threads], entry 0 is the caller */
    uint8_t *stages;        /* [n_threads × POOL_STAGE_BYTES] */

    _Alignas(CACHE_LINE) _Atomic uint64_t ticket;   /* epoch << 32 | units handed out; the epoch is a futex */
    _Alignas(CACHE_LINE) _Atomic uint32_t sleepers; /* workers asleep, or about to be */
    _Atomic int stop;
    _Atomic int pulling;                           /* a worker is moving the caller */
    _Alignas(CACHE_LINE) _Atomic uint32_t waiting; /* futex of the caller: 1 while it sleeps */
    _Atomic uint32_t closed;                       /* epoch of the last loop that the caller has left */
    uintptr_t bring;                               /* for the next staged loop */
    size_t bring_bytes;
    pthread_t caller; /* who submitted the last loop, and its */
    int32_t caller_tid;
    struct slot slots[2];
};

/* Units [unit, unit + count) of the current loop. */
struct chunk {
    int64_t unit, count;
};

static uint32_t epoch_of(uint64_t word)
{
    return (uint32_t)(word >> 32);
}

static uint64_t word_of(uint32_t epoch, int64_t low)
{
    return (uint64_t)epoch << 32 | (uint64_t)low;
}

/* ---- waiting ------------------------------------------------------------------------------------------------ */

static void pause_cpu(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* The half of the ticket that holds the epoch. */
static void *epoch_futex(struct pool *p)
{
    const int little = 1;
    return (char *)&p->ticket + (*(const char *)&little ? sizeof(uint32_t) : 0);
}

static void futex_wait(void *word, uint32_t value)
{
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, NULL, NULL, 0);
}

static void futex_wake(void *word, int n)
{
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, n, NULL, NULL, 0);
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

/* ---- handing over ------------------------------------------------------------------------------------------- */

/* The chunk that starts at a unit: three quarters of a worker's share of what is left, so that chunks shrink
 * towards the end: the first are long, as memory is read best, the last short, so that nobody waits long. */
static struct chunk chunk_at(const struct pool *p, const struct loop *l, int64_t unit)
{
    int64_t count = (l->n_units - unit) * 3 / (4 * p->n_threads);
    if (count > l->most)
        count = l->most;
    return (struct chunk){unit, count < 1 ? 1 : count};
}

static void store_words(_Atomic uint64_t *to, const void *from, size_t bytes)
{
    for (size_t i = 0; i * sizeof(uint64_t) < bytes; i++) {
        uint64_t word = 0;
        const size_t left = bytes - i * sizeof word;
        memcpy(&word, (const char *)from + i * sizeof word, left < sizeof word ? left : sizeof word);
        atomic_store_explicit(&to[i], word, memory_order_release);
    }
}

static void load_words(uint64_t *to, _Atomic uint64_t *from, size_t n_words)
{
    for (size_t i = 0; i < n_words; i++)
        to[i] = atomic_load_explicit(&from[i], memory_order_acquire);
}

/* A copy of the loop of an epoch; right if a claim under that epoch succeeds afterwards. */
static void copy_loop(struct pool *p, struct worker *w, uint32_t epoch)
{
    struct slot *s = &p->slots[epoch & 1];
    uint64_t words[LOOP_WORDS];
    load_words(words, s->loop, LOOP_WORDS);
    memcpy(&w->loop, words, sizeof w->loop);
    size_t n_words = ((size_t)w->loop.ctx_bytes + sizeof(uint64_t) - 1) / sizeof(uint64_t);
    if (w->loop.job)
        load_words(w->ctx, s->ctx, n_words < CTX_WORDS ? n_words : CTX_WORDS);
}

/* Takes the next chunk of the loop of an epoch, if it is current and has one. */
static bool claim(struct pool *p, const struct loop *l, uint32_t epoch, struct chunk *out)
{
    uint64_t ticket = atomic_load_explicit(&p->ticket, memory_order_acquire);
    for (;;) {
        const int64_t unit = (int64_t)(uint32_t)ticket;
        if (epoch_of(ticket) != epoch || unit >= l->n_units)
            return false;
        *out = chunk_at(p, l, unit);
        if (atomic_compare_exchange_weak_explicit(&p->ticket, &ticket, ticket + (uint64_t)out->count,
                                                  memory_order_acq_rel, memory_order_acquire))
            return true;
    }
}

/* ---- a worker ------------------------------------------------------------------------------------------------ */

static int64_t begin_of(const struct loop *l, struct chunk c)
{
    return c.unit * l->unit;
}

static int64_t end_of(const struct loop *l, struct chunk c)
{
    const int64_t end = (c.unit + c.count) * l->unit;
    return end < l->n ? end : l->n;
}

/* The stopwatch of a worker: only while its chunk counts. */
static uint64_t busy_start(const struct pool *p)
{
    return p->busy ? clock_now_ns() : 0;
}

static void busy_stop(const struct pool *p, int worker, uint64_t start_ns)
{
    if (p->busy)
        p->busy[worker].ns += clock_now_ns() - start_ns;
}

/* Runs a chunk; false: it was taken away meanwhile. */
static bool run_chunk(struct worker *w, uint32_t epoch, struct chunk c)
{
    const struct loop *l = &w->loop;
    const int64_t begin = begin_of(l, c), end = end_of(l, c);
    const uint64_t start_ns = busy_start(w->pool);
    if (!l->job) {
        l->fn(l->ctx, begin, end, w->index);
        busy_stop(w->pool, w->index, start_ns);
        return true;
    }
    uint64_t mine = word_of(epoch, c.unit << 1 | 1);
    atomic_store_explicit(&w->chunk, mine, memory_order_release);
    l->job->compute(w->ctx, begin, end, w->index, w->stage);
    if (!atomic_compare_exchange_strong_explicit(&w->chunk, &mine, mine - 1, memory_order_acq_rel,
                                                 memory_order_relaxed))
        return false;
    l->job->publish(w->ctx, begin, end, w->stage);
    busy_stop(w->pool, w->index, start_ns);
    return true;
}

/* ---- places -------------------------------------------------------------------------------------------------- */

/* Beside a busy process there are more threads than CPUs, and where the system puts them matters. The caller
 * should have a CPU that no other busy thread has: a worker that is off its CPU costs its own share, but a caller
 * that is off its CPU stops everything. So a worker leaves the caller's CPU, and a worker that finds the caller
 * missing from a loop gives it its own. */

static void leave_caller(const struct pool *p, const struct worker *w)
{
    if (p->roaming && w->loop.caller_cpu >= 0 && cpus_current() == w->loop.caller_cpu)
        cpus_leave(w->loop.caller_cpu);
}

static bool is_current(struct pool *p, uint32_t epoch)
{
    return epoch_of(atomic_load_explicit(&p->ticket, memory_order_relaxed)) == epoch;
}

/* Whether the caller is still in the loop of an epoch, and not asleep there. */
static bool is_caller_inside(struct pool *p, uint32_t epoch)
{
    return is_current(p, epoch) && atomic_load(&p->closed) != epoch && !atomic_load(&p->waiting);
}

static void spin(struct pool *p, uint32_t epoch, int n_pauses)
{
    for (int i = 0; i < n_pauses && is_current(p, epoch); i++)
        pause_cpu();
}

/* One worker at a time: a second would take the narrow mask of the first for the caller's own. */
static void pull_caller(struct pool *p, int tid)
{
    if (atomic_exchange(&p->pulling, 1))
        return;
    cpus_pull(tid, cpus_current());
    atomic_store(&p->pulling, 0);
}

#define BRING_STEP 256 /* bytes asked for between looks at the ticket: some 20 ns of memory */

/* The loop's copy may be torn where no chunk of it was claimed; then any memory is asked for, in vain. */
static void bring(struct pool *p, const struct loop *l, uint32_t epoch)
{
    for (size_t at = 0; at < l->bring_bytes && is_current(p, epoch); at += BRING_STEP)
        for (size_t i = at; i < at + BRING_STEP; i += CACHE_LINE)
            __builtin_prefetch((const void *)(l->bring + i), 0, 2);
}

/* The worker waits for the loop after `epoch`. As long as the caller is busy with its last chunk that is soon;
 * but the caller may be off its CPU. A thread that runs spends CPU time as fast as time passes. */
static void wait_for_caller(struct pool *p, const struct worker *w, uint32_t epoch)
{
    const int tid = w->loop.caller_tid;
    bring(p, &w->loop, epoch);
    spin(p, epoch, p->spin_pauses);
    for (int i = 0; i < MOST_SPINS && p->roaming && tid && is_caller_inside(p, epoch); i++) {
        const uint64_t start_ns = clock_now_ns(), spent_ns = clock_thread_ns(tid);
        spin(p, epoch, p->spin_pauses / 2);
        const uint64_t ran_ns = clock_thread_ns(tid) - spent_ns, passed_ns = clock_now_ns() - start_ns;
        if (is_caller_inside(p, epoch) && ran_ns < passed_ns / 4) {
            pull_caller(p, tid);
            return;
        }
    }
}

/* Works until nothing is left to claim; wakes a sleeping caller. */
static void drain(struct pool *p, struct worker *w, uint32_t epoch)
{
    int64_t units = 0;
    struct chunk c;
    copy_loop(p, w, epoch);
    leave_caller(p, w);
    while (claim(p, &w->loop, epoch, &c))
        if (run_chunk(w, epoch, c)) {
            units += c.count;
            atomic_store(&w->done, word_of(epoch, units));
        }
    if (units && atomic_load(&p->waiting) && atomic_exchange(&p->waiting, 0))
        futex_wake(&p->waiting, 1);
}

static void *worker_main(void *arg)
{
    struct worker *w = arg;
    struct pool *p = w->pool;
    for (;;) {
        const uint32_t epoch = epoch_of(atomic_load(&p->ticket));
        if (atomic_load(&p->stop))
            return NULL;
        drain(p, w, epoch);
        wait_for_caller(p, w, epoch);
        if (epoch_of(atomic_load(&p->ticket)) != epoch)
            continue;
        atomic_fetch_add(&p->sleepers, 1);
        while (epoch_of(atomic_load(&p->ticket)) == epoch)
            futex_wait(epoch_futex(p), epoch);
        atomic_fetch_sub(&p->sleepers, 1);
    }
}

/* ---- the caller ---------------------------------------------------------------------------------------------- */

/* Announces an epoch, with nothing of it handed out, and wakes as many workers as may be of use. */
static void open_epoch(struct pool *p, uint32_t epoch, int64_t n_wanted)
{
    atomic_store(&p->ticket, word_of(epoch, 0));
    if (atomic_load(&p->sleepers))
        futex_wake(epoch_futex(p), n_wanted < p->n_threads ? (int)n_wanted : p->n_threads);
}

static void run_own(const struct pool *p, const struct loop *l, const void *ctx, struct chunk c)
{
    const uint64_t start_ns = busy_start(p);
    if (l->job)
        l->job->compute(ctx, begin_of(l, c), end_of(l, c), 0, NULL);
    else
        l->fn(l->ctx, begin_of(l, c), end_of(l, c), 0);
    busy_stop(p, 0, start_ns);
}

/* Units that workers have reported for an epoch. */
static int64_t reported(const struct pool *p, uint32_t epoch)
{
    int64_t units = 0;
    for (int i = 1; i < p->n_threads; i++) {
        const uint64_t done = atomic_load(&p->workers[i].done);
        if (epoch_of(done) == epoch)
            units += (int64_t)(uint32_t)done;
    }
    return units;
}

/* A staged loop at its end: what the caller has learnt, and since when it waits. */
struct wait {
    const struct loop *loop;
    const void *ctx;
    uint32_t epoch;
    int64_t ns_per_unit;
    uint64_t start_ns;
};

static bool is_late(const struct pool *p, const struct wait *w, struct chunk c, int64_t waited_ns)
{
    int64_t patience_ns = p->patience_ns;
    if (patience_ns == POOL_ADAPTIVE) {
        patience_ns = PATIENCE_MIN_NS + 2 * c.count * w->ns_per_unit;
        if (patience_ns > PATIENCE_MAX_NS)
            patience_ns = PATIENCE_MAX_NS;
    }
    return waited_ns >= patience_ns;
}

/* Computes again the chunks that are late, and returns the units won. *pending: others may become late. */
static int64_t take_over(struct pool *p, const struct wait *w, bool *pending)
{
    const int64_t waited_ns = (int64_t)(clock_now_ns() - w->start_ns);
    uint8_t *stage = p->workers[0].stage;
    int64_t units = 0;
    *pending = false;
    for (int i = 1; i < p->n_threads; i++) {
        _Atomic uint64_t *word = &p->workers[i].chunk;
        uint64_t seen = atomic_load_explicit(word, memory_order_acquire);
        if (epoch_of(seen) != w->epoch || !(seen & 1))
            continue;
        const struct chunk c = chunk_at(p, w->loop, (int64_t)((uint32_t)seen >> 1));
        if (!is_late(p, w, c, waited_ns)) {
            *pending = true;
            continue;
        }
        const int64_t begin = begin_of(w->loop, c), end = end_of(w->loop, c);
        const uint64_t start_ns = busy_start(p);
        w->loop->job->compute(w->ctx, begin, end, 0, stage);
        busy_stop(p, 0, start_ns);
        if (!atomic_compare_exchange_strong(word, &seen, seen - 1))
            continue;
        w->loop->job->publish(w->ctx, begin, end, stage);
        units += c.count;
    }
    return units;
}

/* Sleeps unless `missing` units have been reported. */
static void sleep_caller(struct pool *p, uint32_t epoch, int64_t missing)
{
    atomic_store(&p->waiting, 1);
    if (reported(p, epoch) != missing)
        futex_wait(&p->waiting, 1);
    atomic_store(&p->waiting, 0);
}

/* Returns when the workers have reported the missing units, or they were computed again. */
static void wait_for_workers(struct pool *p, const struct wait *w, int64_t missing)
{
    bool pending = w->loop->job && p->patience_ns != POOL_NEVER;
    const bool patient = !pending;
    for (int spins = 0; reported(p, w->epoch) != missing; spins++) {
        if (!patient && spins % PAUSES_PER_LOOK == PAUSES_PER_LOOK - 1)
            missing -= take_over(p, w, &pending);
        else if (pending || spins < p->spin_pauses)
            pause_cpu();
        else
            sleep_caller(p, w->epoch, missing);
    }
}

static void locate_caller(struct pool *p, struct loop *l)
{
    if (!p->roaming)
        return;
    if (!p->caller_tid || !pthread_equal(p->caller, pthread_self())) {
        p->caller = pthread_self();
        p->caller_tid = (int32_t)gettid();
    }
    l->caller_tid = p->caller_tid;
    l->caller_cpu = cpus_current();
}

/* What a worker reported 2^32 loops ago must not count: no worker writes between loops, so the caller may. */
static void forget_reports(struct pool *p)
{
    for (int i = 1; i < p->n_threads; i++)
        atomic_store(&p->workers[i].done, 0);
}

/* Runs a loop of at least one unit; ctx is that of a staged loop. */
static void run_loop(struct pool *p, struct loop *l, const void *ctx)
{
    struct chunk c = {0, 0};
    if (l->n_units == 1 || p->n_threads == 1) {
        for (; c.unit < l->n_units; c.unit += c.count) {
            c.count = l->n_units - c.unit < l->most ? l->n_units - c.unit : l->most;
            run_own(p, l, ctx, c);
        }
        return;
    }
    const uint32_t epoch = epoch_of(atomic_load_explicit(&p->ticket, memory_order_relaxed)) + 1;
    if (epoch == 0)
        forget_reports(p);
    locate_caller(p, l);
    if (l->job) {
        l->bring = p->bring;
        l->bring_bytes = p->bring_bytes;
        p->bring_bytes = 0;
    }
    store_words(p->slots[epoch & 1].loop, l, sizeof *l);
    if (l->job)
        store_words(p->slots[epoch & 1].ctx, ctx, (size_t)l->ctx_bytes);
    open_epoch(p, epoch, l->n_units - 1);

    struct wait w = {.loop = l, .ctx = ctx, .epoch = epoch};
    const bool timed = l->job && p->patience_ns == POOL_ADAPTIVE;
    int64_t units = 0;
    w.start_ns = timed ? clock_now_ns() : 0;
    while (claim(p, l, epoch, &c)) {
        run_own(p, l, ctx, c);
        units += c.count;
    }
    if (timed) {
        const uint64_t now_ns = clock_now_ns();
        w.ns_per_unit = units ? (int64_t)(now_ns - w.start_ns) / units : PATIENCE_MAX_NS;
        w.start_ns = now_ns;
    }
    wait_for_workers(p, &w, l->n_units - units);
    atomic_store_explicit(&p->closed, epoch, memory_order_release);
}

/* Fills in the units: `unit` iterations each, more where a ticket would not hold their number. */
static void cut(struct loop *l, int64_t n, int64_t unit, int64_t most)
{
    l->n = n;
    l->unit = unit < 1 ? 1 : unit;
    if (n / l->unit >= MAX_UNITS)
        l->unit = n / MAX_UNITS + 1;
    l->n_units = n / l->unit + (n % l->unit != 0);
    most /= l->unit;
    l->most = most < 1 ? 1 : most > INT32_MAX ? INT32_MAX : (int32_t)most;
}

void pool_for(struct pool *p, int64_t n, int64_t chunk, pool_fn fn, void *ctx)
{
    struct loop l = {.fn = fn, .ctx = ctx};
    if (n <= 0)
        return;
    cut(&l, n, chunk, 1);
    run_loop(p, &l, NULL);
}

void pool_for_staged(struct pool *p, int64_t n, int64_t least, int64_t most, const struct pool_staged *job,
                     const void *ctx, size_t ctx_bytes)
{
    struct loop l = {.job = job, .ctx_bytes = (int32_t)ctx_bytes};
    if (n <= 0)
        return;
    cut(&l, n, least, most);
    run_loop(p, &l, ctx);
}

void pool_second_chunk(const struct pool *p, int64_t n, int64_t least, int64_t most, int64_t *begin,
                       int64_t *end)
{
    struct loop l = {0};
    cut(&l, n, least, most);
    const int64_t first = chunk_at(p, &l, 0).count;
    const struct chunk second = chunk_at(p, &l, first < l.n_units ? first : l.n_units);
    *begin = begin_of(&l, second) < n ? begin_of(&l, second) : n;
    *end = end_of(&l, second);
}

void pool_bring(struct pool *p, const void *at, size_t n_bytes)
{
    p->bring = (uintptr_t)at;
    p->bring_bytes = n_bytes;
}

void pool_set_patience(struct pool *p, int64_t ns)
{
    p->patience_ns = ns;
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
    struct worker *workers = mem_aligned((size_t)n_threads * sizeof *workers);
    uint8_t *stages = mem_aligned((size_t)n_threads * POOL_STAGE_BYTES);
    if (!p || !workers || !stages) {
        mem_free(p);
        mem_free(workers);
        mem_free(stages);
        return error_set(err, HASTEN_ERR_MEMORY, "starting %d workers: out of memory", n_threads);
    }
    memset(p, 0, sizeof *p);
    p->n_threads = n_threads;
    atomic_store(&p->ticket, word_of(FIRST_EPOCH, 0));
    atomic_store(&p->closed, FIRST_EPOCH);
    p->patience_ns = PATIENCE_DEFAULT;
    p->roaming = n_threads > 1 && n_threads <= cpus_allowed();
    p->workers = workers;
    p->stages = stages;
    memset(workers, 0, (size_t)n_threads * sizeof *workers);
    for (int i = 0; i < n_threads; i++) {
        workers[i].pool = p;
        workers[i].index = i;
        workers[i].stage = stages + (size_t)i * POOL_STAGE_BYTES;
    }
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
    open_epoch(p, epoch_of(atomic_load(&p->ticket)) + 1, p->n_threads);
    for (int i = 1; i <= p->n_started; i++)
        pthread_join(p->workers[i].thread, NULL);
    mem_free(p->workers);
    mem_free(p->stages);
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

int pool_default_threads(void)
{
    int threads = cpus_allowed();
    int quota = cgroup_cpu_limit("/proc/self/cgroup", "/sys/fs/cgroup");
    if (quota && quota < threads)
        threads = quota;
    if (threads < 1)
        threads = 1;
    return threads < LIMIT_THREADS ? threads : LIMIT_THREADS;
}
