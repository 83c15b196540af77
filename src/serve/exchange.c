/* Exchanges (exchange.h). Owns the queue of bytes between an answerer and a client, and who wakes whom. */
#include "serve/exchange.h"
#include "base/clock.h"
#include "base/limits.h"
#include "serve/http.h"
#include <string.h>

#define KEEP_BYTES (64u << 10) /* of a queue that has been emptied */

struct exchange *exchange_open(struct door *http)
{
    struct exchange *x = mem_calloc(1, sizeof *x);
    if (!x)
        return NULL;
    pthread_mutex_init(&x->lock, NULL);
    atomic_init(&x->refs, 1);
    x->http = http;
    x->t0 = clock_now_ns();
    return x;
}

struct exchange *exchange_ref(struct exchange *x)
{
    atomic_fetch_add_explicit(&x->refs, 1, memory_order_relaxed);
    return x;
}

void exchange_unref(struct exchange *x)
{
    if (!x || atomic_fetch_sub_explicit(&x->refs, 1, memory_order_acq_rel) != 1)
        return;
    pthread_mutex_destroy(&x->lock);
    if (x->http)
        door_body_freed(x->http, x->body.len);
    mem_free(x->path);
    buf_free(&x->body);
    mem_free(x->key);
    mem_free(x->origin);
    mem_free(x->host);
    mem_free(x->if_none_match);
    buf_free(&x->out);
    mem_free(x);
}

/* Under the lock: is the door to be told? */
static bool wake(struct exchange *x)
{
    const bool was = x->asleep;
    x->asleep = false;
    return was;
}

static void unlock_and_wake(struct exchange *x, bool awake)
{
    pthread_mutex_unlock(&x->lock);
    if (awake && x->http)
        door_wake(x->http, x);
}

void exchange_answer(struct exchange *x, int status, const char *type, struct buf *body)
{
    bool awake = false;
    pthread_mutex_lock(&x->lock);
    if (!x->status) {
        x->status = status;
        x->content_type = type;
        buf_free(&x->out);
        x->out = *body;
        x->ended = true;
        *body = (struct buf){0};
        awake = wake(x);
    }
    unlock_and_wake(x, awake);
    buf_free(body);
}

void exchange_fail(struct exchange *x, const struct fault *f)
{
    struct buf b = {0};
    struct fault memory;
    if (!f->status) { /* what fails without a word is an allocation */
        fault_set(&memory, 503, "out_of_memory", NULL, "no memory for the request");
        f = &memory;
    }
    if (fault_json_as(f, x->path && strncmp(x->path, "/v1/messages", strlen("/v1/messages")) == 0, &b))
        buf_clear(&b);
    pthread_mutex_lock(&x->lock);
    if (!x->status)
        x->retry_after = f->retry_after;
    pthread_mutex_unlock(&x->lock);
    exchange_answer(x, f->status, "application/json", &b);
}

void exchange_answer_json(struct exchange *x, struct buf *json, int bad)
{
    struct fault f = {0};
    if (!bad) {
        exchange_answer(x, 200, "application/json", json);
        return;
    }
    buf_free(json);
    fault_set(&f, 503, "out_of_memory", NULL, "no memory for the answer");
    exchange_fail(x, &f);
}

void exchange_answer_error(struct exchange *x, const struct hasten_error *err)
{
    struct fault f = {0};
    fault_of(&f, err);
    exchange_fail(x, &f);
}

void exchange_begin(struct exchange *x)
{
    bool awake = false;
    pthread_mutex_lock(&x->lock);
    if (!x->status) {
        x->status = 200;
        x->content_type = "text/event-stream";
        x->stream = x->sse = true;
        x->last_ns = clock_now_ns();
        awake = wake(x);
    }
    unlock_and_wake(x, awake);
}

bool exchange_write(struct exchange *x, const void *data, size_t len)
{
    bool ok = false, awake = false;
    pthread_mutex_lock(&x->lock);
    if (!x->gone && !x->ended && x->out.len - x->from + len <= LIMIT_SERVE_UNREAD) {
        if (x->from == x->out.len) {
            buf_clear(&x->out);
            x->from = 0;
        }
        ok = buf_put(&x->out, data, len) == 0;
        x->last_ns = clock_now_ns();
        awake = ok && wake(x);
    }
    unlock_and_wake(x, awake);
    return ok;
}

void exchange_end(struct exchange *x)
{
    pthread_mutex_lock(&x->lock);
    x->ended = true;
    const bool awake = wake(x);
    unlock_and_wake(x, awake);
}

void exchange_on_gone(struct exchange *x, void (*fn)(void *ctx), void *ctx)
{
    pthread_mutex_lock(&x->lock);
    const bool now = x->gone && fn;
    x->on_gone = now ? NULL : fn;
    x->gone_ctx = ctx;
    pthread_mutex_unlock(&x->lock);
    if (now)
        fn(ctx);
}

bool exchange_gone(struct exchange *x)
{
    pthread_mutex_lock(&x->lock);
    const bool gone = x->gone;
    pthread_mutex_unlock(&x->lock);
    return gone;
}

/* The call is made under the lock, so that exchange_on_gone(x, NULL, NULL) waits for one that runs. */
void exchange_leave(struct exchange *x)
{
    pthread_mutex_lock(&x->lock);
    const bool told = x->gone;
    x->gone = true;
    if (!told && x->on_gone && !x->ended)
        x->on_gone(x->gone_ctx);
    x->on_gone = NULL;
    pthread_mutex_unlock(&x->lock);
}

size_t exchange_take(struct exchange *x, char *dst, size_t max, enum exchange_state *state)
{
    pthread_mutex_lock(&x->lock);
    size_t n = x->out.len - x->from;
    n = n < max ? n : max;
    if (n) {
        memcpy(dst, x->out.data + x->from, n);
        x->from += n;
    }
    if (x->from == x->out.len && x->out.cap > KEEP_BYTES) {
        buf_free(&x->out);
        x->from = 0;
    }
    *state = x->gone ? EXCHANGE_LEFT : x->ended ? EXCHANGE_ENDED : EXCHANGE_OPEN;
    x->asleep = n == 0 && *state == EXCHANGE_OPEN;
    pthread_mutex_unlock(&x->lock);
    return n;
}
