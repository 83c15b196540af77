/* The limits of this machine, measured: what any engine could reach at most, by arithmetic and by memory.
 *
 * Machines are shared, so a limit is the best of many short windows (about a millisecond each): the machine
 * when nobody disturbs it. Reading goes round and round in a buffer of several times the last cache, so that
 * what a window reads was last touched a whole buffer ago. */
#ifndef HASTEN_BENCH_LIMITS_H
#define HASTEN_BENCH_LIMITS_H
#include "base/pool.h"
#include "kernels/peak.h"
#include <stdbool.h>

#define BENCH_CURVE_MAX 8

struct bench_peak {
    const char *how; /* the instruction; NULL: this machine has none, or it is masked */
    double one, all; /* 10^9 operations a second: one thread, all threads */
};

/* Read speed at one size of the data: in caches each thread has its own buffer of that size. */
struct bench_curve_point {
    uint64_t bytes;
    bool per_thread;
    double gbs; /* all threads together */
};

struct bench_limits {
    int threads;
    struct bench_peak peak[PEAK_KINDS]; /* by enum peak_kind */
    uint64_t read_bytes, cache_bytes;   /* the buffer; the last cache as the system reports it, 0: unknown */
    double read_one, read_all;          /* 10^9 bytes a second: best window */
    double read_median;                 /* of all threads' windows: how quiet the machine was */
    struct bench_curve_point curve[BENCH_CURVE_MAX];
    int n_curve;
};

/* Measures with the pool's threads, about budget_ms per figure (20: quick, 200: careful). curve: also read
 * speeds at several sizes. max_bytes: of the buffer, 0: as the machine allows. HASTEN_ERR_MEMORY when there is
 * no room for it, HASTEN_ERR_CANCELLED when *cancel (NULL: never) became non-zero. */
hasten_status bench_measure_limits(struct pool *pool, int budget_ms, bool curve, uint64_t max_bytes,
                                   const volatile int *cancel, struct bench_limits *out,
                                   struct hasten_error *err);
/* The peak for products of halves, in 10^9 operations a second by all threads: bf16 or f32, whichever is faster
 * here (on some CPUs vdpbf16ps does half the work of two fused multiply-adds). */
double bench_limits_half(const struct bench_limits *l);
/* Keeps the better of each figure of two measurements of one run. */
void bench_limits_merge(struct bench_limits *into, const struct bench_limits *other);

#endif
