/* See aside.h. A thread for each piece: pieces take milliseconds, a thread some ten microseconds. */
#include "base/aside.h"
#include <signal.h>

static void *run(void *arg)
{
    struct aside *a = arg;
    a->fn(a->ctx);
    atomic_store(&a->done, true);
    return NULL;
}

void aside_start(struct aside *a, void (*fn)(void *ctx), void *ctx)
{
    sigset_t all, before;
    a->fn = fn;
    a->ctx = ctx;
    atomic_store(&a->done, false);
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before); /* signals are for the thread that started us */
    a->running = pthread_create(&a->thread, NULL, run, a) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (!a->running)
        run(a);
}

bool aside_done(struct aside *a)
{
    return !a->running || atomic_load(&a->done);
}

void aside_wait(struct aside *a)
{
    if (a->running)
        pthread_join(a->thread, NULL);
    a->running = false;
}
