/* The engine's thread (motor.h). */
#include "serve/motor.h"
#include "base/mem.h"
#include <pthread.h>
#include <signal.h>

struct motor {
    struct batch *batch;
    void (*after)(void *ctx);
    void *ctx;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t more;
    struct work *first, **last; /* under the lock */
    bool stop;
    bool running; /* of who opened it */
};

/* The oldest piece of work; sleeps for one when there is nothing else to do. NULL: none. *stop: the end, once all is done. */
static struct work *next_work(struct motor *m, bool busy, bool *stop)
{
    pthread_mutex_lock(&m->lock);
    while (!busy && !m->first && !m->stop)
        pthread_cond_wait(&m->more, &m->lock);
    struct work *w = m->first;
    if (w) {
        m->first = w->next;
        if (!m->first)
            m->last = &m->first;
    }
    *stop = !w && m->stop;
    pthread_mutex_unlock(&m->lock);
    return w;
}

static void *turn(void *arg)
{
    struct motor *m = arg;
    bool busy = true, stop = false;
    while (!stop) {
        struct work *w;
        while ((w = next_work(m, busy, &stop))) {
            w->run(w);
            busy = true;
        }
        busy = m->batch && batch_turn(m->batch);
        if (m->after)
            m->after(m->ctx);
    }
    return NULL;
}

hasten_status motor_open(struct batch *batch, void (*after)(void *ctx), void *ctx, struct motor **out,
                         struct hasten_error *err)
{
    sigset_t all, old;
    struct motor *m = mem_calloc(1, sizeof *m);
    if (!m)
        return error_set(err, HASTEN_ERR_MEMORY, "serving: out of memory");
    m->batch = batch;
    m->after = after;
    m->ctx = ctx;
    m->last = &m->first;
    pthread_mutex_init(&m->lock, NULL);
    pthread_cond_init(&m->more, NULL);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    const int rc = pthread_create(&m->thread, NULL, turn, m);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (rc) {
        mem_free(m);
        return error_set(err, HASTEN_ERR_MEMORY, "serving: no thread could be started");
    }
    m->running = true;
    *out = m;
    return HASTEN_OK;
}

void motor_put(struct motor *m, struct work *w)
{
    w->next = NULL;
    pthread_mutex_lock(&m->lock);
    *m->last = w;
    m->last = &w->next;
    pthread_cond_signal(&m->more);
    pthread_mutex_unlock(&m->lock);
}

void motor_stop(struct motor *m)
{
    if (!m || !m->running)
        return;
    pthread_mutex_lock(&m->lock);
    m->stop = true;
    pthread_cond_signal(&m->more);
    pthread_mutex_unlock(&m->lock);
    pthread_join(m->thread, NULL);
    m->running = false;
}

void motor_close(struct motor *m)
{
    bool stop;
    if (!m)
        return;
    motor_stop(m);
    for (struct work *w; (w = next_work(m, true, &stop));)
        w->run(w);
    pthread_cond_destroy(&m->more);
    pthread_mutex_destroy(&m->lock);
    mem_free(m);
}
