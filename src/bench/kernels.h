/* Each kernel on its own: every set that this CPU has, every format, several numbers of columns; beside the
 * limits of the same run. Times are the best of several calls of one or two milliseconds each. */
#ifndef HASTEN_BENCH_KERNELS_H
#define HASTEN_BENCH_KERNELS_H
#include "bench/limits.h"
#include "kernels/kernels.h"

#define BENCH_MAX_SETS 6

struct bench_kernel_row {
    const char *set;    /* "avx512" */
    const char *kernel; /* "matmul" */
    const char *form;   /* weight type, KV representation and head size, or "" */
    int64_t n;          /* columns of a product, queries of attention, values of a row */
    int threads;        /* at work: the pool's in products and attention, one else */
    double gbs;         /* 10^9 bytes a second: weights, pages, or what a row operation reads and writes */
    double gops;        /* 10^9 operations a second; 0: not counted */
    double bus_share;   /* of the read limit of as many threads; 0 where the data stay in cache */
    double peak_share;  /* of the arithmetic peak that belongs to the form; 0: none does */
};

struct bench_kernels {
    struct pool *pool;
    const struct bench_limits *limits;
    const struct quant_type *only; /* one weight format and nothing else, or NULL */
    int budget_ms;                 /* per figure */
    const volatile int *cancel;    /* or NULL */
    /* Receives each figure as it is measured; non-zero stops. */
    int (*row)(void *ctx, const struct bench_kernel_row *row);
    void *ctx;
};

/* HASTEN_ERR_MEMORY, HASTEN_ERR_CANCELLED. */
hasten_status bench_kernels_run(const struct bench_kernels *b, struct hasten_error *err);

/* The sets of kernels that run here, slowest first: reference, plain, ... Returns their number. */
int bench_kernel_sets(const struct kernels *sets[BENCH_MAX_SETS]);

/* One product alone, as bench_kernels_run measures it (doctor). */
hasten_status bench_matmul(const struct bench_kernels *b, const struct kernels *set,
                           const struct quant_type *type, int64_t n, struct bench_kernel_row *out,
                           struct hasten_error *err);

#endif
