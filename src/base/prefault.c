/* Reading a mapped file ahead (prefault.h). Owns the thread; pieces of PIECE bytes, so that it can be stopped. */
#include "base/prefault.h"
#include "base/cpus.h"
#include "base/mem.h"
#include "base/meminfo.h"
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define PIECE (1u << 20) /* short: others of the process wait for the map meanwhile */

struct prefault {
    pthread_t thread;
    atomic_bool stop, ended;
    _Atomic uint64_t done;
    int32_t n_range;
    struct prefault_range range[]; /* [n_range] */
};

#ifdef MADV_POPULATE_READ

/* False: stopped, or the system does not do it. */
static bool populate(struct prefault *p, struct prefault_range r)
{
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE) - 1, end = (uintptr_t)r.data + r.size;
    for (uintptr_t at = (uintptr_t)r.data & ~page; at < end; at += PIECE) {
        size_t n = end - at < PIECE ? end - at : PIECE;
        if (atomic_load(&p->stop) || madvise((void *)at, n, MADV_POPULATE_READ))
            return false;
        atomic_fetch_add(&p->done, n);
    }
    return true;
}

static void *run(void *arg)
{
    struct prefault *p = arg;
    for (int32_t i = 0; i < p->n_range && populate(p, p->range[i]); i++)
        ;
    atomic_store(&p->ended, true);
    return NULL;
}

/* The ranges together are at most `most` bytes. */
static bool fits(const struct prefault_range *range, int32_t n_range, uint64_t most)
{
    for (int32_t i = 0; i < n_range; most -= range[i++].size)
        if (range[i].size > most)
            return false;
    return true;
}

hasten_status prefault_start(const struct prefault_range *range, int32_t n_range, struct prefault **out,
                             struct hasten_error *err)
{
    uint64_t available;
    sigset_t all, before;
    *out = NULL;
    hasten_status st = meminfo_available("/proc/meminfo", "/sys/fs/cgroup", &available, err);
    if (st || !fits(range, n_range, available / 2) || cpus_allowed() < 2)
        return st;
    struct prefault *p = mem_calloc(1, sizeof *p + (size_t)n_range * sizeof *range);
    if (!p)
        return error_set(err, HASTEN_ERR_MEMORY, "reading ahead: out of memory");
    p->n_range = n_range;
    memcpy(p->range, range, (size_t)n_range * sizeof *range);
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before); /* signals are for the thread that started us */
    if (pthread_create(&p->thread, NULL, run, p))
        mem_free(p);
    else
        *out = p;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return HASTEN_OK;
}

#else

hasten_status prefault_start(const struct prefault_range *range, int32_t n_range, struct prefault **out,
                             struct hasten_error *err)
{
    (void)range;
    (void)n_range;
    (void)err;
    *out = NULL;
    return HASTEN_OK;
}

#endif

bool prefault_reading(const struct prefault *p, uint64_t *done, uint64_t *total)
{
    *total = 0;
    for (int32_t i = 0; i < p->n_range; i++)
        *total += p->range[i].size;
    const uint64_t got = atomic_load(&p->done);
    *done = got < *total ? got : *total; /* whole pages at the edges */
    return !atomic_load(&p->ended);
}

void prefault_cancel(struct prefault *p)
{
    if (p)
        atomic_store(&p->stop, true);
}

void prefault_stop(struct prefault *p)
{
    if (!p)
        return;
    atomic_store(&p->stop, true);
    pthread_join(p->thread, NULL);
    mem_free(p);
}
