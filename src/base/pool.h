/* A fixed pool of workers. One caller at a time submits loops; iterations are claimed in chunks from a shared
 * counter, so a slow core slows only its own chunk. Waiting spins briefly, then sleeps on a futex. Who runs
 * an iteration must never show in its result.
 *
 * A worker that the system takes off its core in the middle of a chunk holds up the whole loop for a slice of
 * the scheduler, some milliseconds. Loops whose results are small should therefore be staged: the caller then
 * computes such a chunk again and goes on without the straggler. */
#ifndef HASTEN_BASE_POOL_H
#define HASTEN_BASE_POOL_H
#include "base/error.h"
#include <stddef.h>
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

#define POOL_CTX_BYTES 512          /* the most that a staged loop's ctx may take */
#define POOL_STAGE_BYTES (80 << 10) /* private memory of a worker for the results of one chunk */

/* Body of a staged loop. A chunk is a pure function of ctx and of what ctx points to.
 *
 * compute with stage == NULL writes the results where they belong. Otherwise stage is the worker's private
 * memory, 64-byte aligned, POOL_STAGE_BYTES long, and compute writes nothing else that others may see. Such a
 * call may be a straggler whose loop is long over: then its inputs may be changing under its hands and its
 * results are dropped. So it must not trust values it reads through ctx where that could harm it: an index
 * must be checked, memory must live as long as the pool. ctx itself is a copy, with the bits of the loop.
 *
 * publish copies what compute staged for the same chunk to where it belongs; for a chunk it is called at most
 * once, and while the loop runs. */
struct pool_staged {
    void (*compute)(const void *ctx, int64_t begin, int64_t end, int worker, void *stage);
    void (*publish)(const void *ctx, int64_t begin, int64_t end, const void *stage);
};

/* Runs a staged loop over [0, n) and returns when all results are published. Chunks are multiples of `least`
 * iterations (the last may be shorter), `most` at most, and shrink towards the end, so that the workers end
 * together; where they lie depends on n, least, most and pool_size alone. job: static storage. ctx: copied,
 * ctx_bytes <= POOL_CTX_BYTES. */
void pool_for_staged(struct pool *p, int64_t n, int64_t least, int64_t most, const struct pool_staged *job,
                     const void *ctx, size_t ctx_bytes);

/* The chunk of a staged loop that follows the caller's first: what a single worker beside it is likely to begin with. */
void pool_second_chunk(const struct pool *p, int64_t n, int64_t least, int64_t most, int64_t *begin,
                       int64_t *end);
/* A hint for the staged loop that is submitted next: a worker that has found its last chunk in it brings these bytes into
 * its second-level cache, until another loop begins. Any address will do; nothing is read. */
void pool_bring(struct pool *p, const void *at, size_t n_bytes);

/* Time that each worker spent in bodies of loops, alone in its cache line. */
struct pool_busy {
    _Alignas(64) uint64_t ns;
};
/* Adds to busy[pool_size] from the next loop on; NULL (at the start): nothing is measured. What stragglers do
 * in vain is not counted. */
void pool_watch(struct pool *p, struct pool_busy *busy);

/* For tests. When a staged loop has no chunk left to take, the caller computes chunks again that are not done
 * after `ns`; POOL_ADAPTIVE: after about twice their usual time; POOL_NEVER: it waits. */
#define POOL_ADAPTIVE (-1)
#define POOL_NEVER (-2)
void pool_set_patience(struct pool *p, int64_t ns);

/* Threads this process may use: affinity mask and cgroup CPU quota, at least 1. */
int pool_default_threads(void);

#endif
