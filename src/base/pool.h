/* A fixed pool of workers. One caller at a time submits loops; iterations are claimed in chunks from a shared
 * counter, so a slow core slows only its own chunk. Waiting spins briefly, then sleeps on a futex. Who runs
 * an iteration must never show in its result. */
#ifndef HASTEN_BASE_POOL_H
#define HASTEN_BASE_POOL_H
#include "base/error.h"
#include <stdint.h>

struct pool;

/* Body of a loop: iterations [begin, end), by worker 0 <= worker < pool_size (0 is the calling thread). */
typedef void (*pool_fn)(void *ctx, int64_t begin, int64_t end, int worker);

/* n_threads includes the caller: n_threads - 1 threads are created. 1 <= n_threads <= LIMIT_THREADS. */
hasten_status pool_create(int n_threads, struct pool **out, struct hasten_error *err);
void pool_destroy(struct pool *p); /* joins the threads; NULL is fine */
int pool_size(const struct pool *p);
/* Runs fn over [0, n) in chunks of `chunk` iterations and returns when all are done. */
void pool_for(struct pool *p, int64_t n, int64_t chunk, pool_fn fn, void *ctx);

/* Time that each worker spent in bodies of loops, alone in its cache line. */
struct pool_busy {
    _Alignas(64) uint64_t ns;
};
/* Adds to busy[pool_size] from the next loop on; NULL (at the start): nothing is measured. */
void pool_watch(struct pool *p, struct pool_busy *busy);

/* Threads this process may use: affinity mask and cgroup CPU quota, at least 1. */
int pool_default_threads(void);

#endif
