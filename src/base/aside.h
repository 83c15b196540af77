/* One piece of work aside: a thread of its own runs a function to its end while the caller does something else. For work
 * that waits (files) beside the one thread that an engine belongs to. */
#ifndef HASTEN_BASE_ASIDE_H
#define HASTEN_BASE_ASIDE_H
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

struct aside { /* zero-initialise; one thread calls what follows */
    pthread_t thread;
    bool running; /* a thread is to be joined */
    atomic_bool done;
    void (*fn)(void *ctx);
    void *ctx;
};
/* Runs fn(ctx), at once and here where there can be no thread. Nothing may be running. Signals do not reach it. */
void aside_start(struct aside *a, void (*fn)(void *ctx), void *ctx);
bool aside_done(struct aside *a); /* would aside_wait return at once? */
void aside_wait(struct aside *a); /* what fn wrote can be read; nothing is running. Fine when nothing was */

#endif
