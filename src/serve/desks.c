/* Desks: threads that answer what takes thinking, parsing a body, rendering a template, compiling a grammar (inside.h). */
#include "serve/inside.h"
#include <signal.h>

#define MOST_DESKS 16

struct paper { /* an exchange that waits for a desk */
    struct paper *next;
    struct server *s;
    struct exchange *x;
    endpoint_fn fn;
};

struct desks {
    pthread_t threads[MOST_DESKS];
    int n;
    pthread_mutex_t lock;
    pthread_cond_t more;
    struct paper *first, **last; /* under the lock */
    bool stop;
};

static void *work_at_desk(void *arg)
{
    struct desks *d = arg;
    for (;;) {
        pthread_mutex_lock(&d->lock);
        while (!d->first && !d->stop)
            pthread_cond_wait(&d->more, &d->lock);
        struct paper *p = d->first;
        if (p) {
            d->first = p->next;
            if (!d->first)
                d->last = &d->first;
        }
        pthread_mutex_unlock(&d->lock);
        if (!p)
            return NULL;
        p->fn(p->s, p->x);
        exchange_unref(p->x);
        mem_free(p);
    }
}

hasten_status desks_open(int n, struct desks **out, struct hasten_error *err)
{
    sigset_t all, old;
    struct desks *d = mem_calloc(1, sizeof *d);
    if (!d)
        return error_set(err, HASTEN_ERR_MEMORY, "serving: out of memory");
    d->last = &d->first;
    pthread_mutex_init(&d->lock, NULL);
    pthread_cond_init(&d->more, NULL);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    while (d->n < n && d->n < MOST_DESKS && pthread_create(&d->threads[d->n], NULL, work_at_desk, d) == 0)
        d->n++;
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (d->n == 0) {
        desks_close(d);
        return error_set(err, HASTEN_ERR_MEMORY, "serving: no thread could be started");
    }
    *out = d;
    return HASTEN_OK;
}

void desks_put(struct desks *d, struct server *s, struct exchange *x, endpoint_fn fn)
{
    struct paper *p = mem_calloc(1, sizeof *p);
    if (!p) {
        exchange_answer_json(x, &(struct buf){0}, 1);
        return;
    }
    *p = (struct paper){NULL, s, exchange_ref(x), fn};
    pthread_mutex_lock(&d->lock);
    *d->last = p;
    d->last = &p->next;
    pthread_cond_signal(&d->more);
    pthread_mutex_unlock(&d->lock);
}

void desks_close(struct desks *d)
{
    if (!d)
        return;
    pthread_mutex_lock(&d->lock);
    d->stop = true;
    pthread_cond_broadcast(&d->more);
    pthread_mutex_unlock(&d->lock);
    for (int i = 0; i < d->n; i++)
        pthread_join(d->threads[i], NULL);
    pthread_cond_destroy(&d->more);
    pthread_mutex_destroy(&d->lock);
    mem_free(d);
}
