/* Reading a mapped file ahead (prefault.h). Owns the thread; pieces of PIECE bytes, so that it can be stopped. */
#include "base/prefault.h"
#include "base/cpus.h"
#include "base/mem.h"
#include "base/meminfo.h"
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/mman.h>

#define PIECE (8u << 20)

struct prefault {
    pthread_t thread;
    const uint8_t *data;
    uint64_t size;
    atomic_bool stop;
};

#ifdef MADV_POPULATE_READ

static void *run(void *arg)
{
    struct prefault *p = arg;
    for (uint64_t at = 0; at < p->size && !atomic_load(&p->stop); at += PIECE) {
        size_t n = p->size - at < PIECE ? (size_t)(p->size - at) : PIECE;
        if (madvise((void *)(uintptr_t)(p->data + at), n, MADV_POPULATE_READ))
            break;
    }
    return NULL;
}

hasten_status prefault_start(const void *data, uint64_t size, struct prefault **out, struct hasten_error *err)
{
    uint64_t available;
    sigset_t all, before;
    *out = NULL;
    hasten_status st = meminfo_available("/proc/meminfo", "/sys/fs/cgroup", &available, err);
    if (st || size > available / 2 || cpus_allowed() < 2)
        return st;
    struct prefault *p = mem_calloc(1, sizeof *p);
    if (!p)
        return error_set(err, HASTEN_ERR_MEMORY, "reading ahead: out of memory");
    p->data = data;
    p->size = size;
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

hasten_status prefault_start(const void *data, uint64_t size, struct prefault **out, struct hasten_error *err)
{
    (void)data;
    (void)size;
    (void)err;
    *out = NULL;
    return HASTEN_OK;
}

#endif

void prefault_stop(struct prefault *p)
{
    if (!p)
        return;
    atomic_store(&p->stop, true);
    pthread_join(p->thread, NULL);
    mem_free(p);
}
