/* An exchange: one HTTP request and its answer, while they are under way. The door (http.h) makes it when the request is
 * whole and reads the answer; whoever answers it, in any thread, writes it. Neither waits for the other: what is written
 * lies in a queue of bytes until the client takes it.
 *
 * Counted: the door holds it until the client has all or is gone, an answerer as long as it likes. An answer is either
 * whole (exchange_answer) or a stream (exchange_begin, exchange_write, exchange_end), and begins once. */
#ifndef HASTEN_SERVE_EXCHANGE_H
#define HASTEN_SERVE_EXCHANGE_H
#include "serve/errors.h"
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define EXCHANGE_ID_BYTES 129

struct door;
struct link;
struct exchange_header {
    const char *name, *value;
};
struct exchange {
    /* of the request; constant once a handler has seen it */
    char method[16];
    char *path; /* decoded, without the query */
    struct buf body;
    char *key;                  /* what Authorization: Bearer or x-api-key says; NULL: nothing */
    char *origin, *host;        /* headers; NULL: none */
    char *if_none_match;        /* the same */
    char id[EXCHANGE_ID_BYTES]; /* X-Request-Id, the client's or ours */
    uint64_t t0;                /* clock_now_ns when its header was complete */
    bool admin;                 /* it came in at the door for metrics and health */
    /* of the server: which key it came with (0: none), its hash */
    uint64_t tenant;
    /* for the log; set by who answers, before the end */
    int32_t prompt_n, cached_n, predicted_n;
    const char *finish; /* static */

    /* of the answer; under the lock */
    pthread_mutex_t lock;
    int status; /* 0: not begun */
    const char *content_type, *allow, *etag;
    const struct exchange_header *headers; /* [n_headers], static, beside those that the door makes */
    size_t n_headers;
    int retry_after;
    bool stream, ended, gone, asleep, sse;
    struct buf out; /* bytes from `from` on are not taken yet */
    size_t from;
    uint64_t last_ns; /* when something was last written into a stream */
    void (*on_gone)(void *ctx);
    void *gone_ctx;

    atomic_int refs;
    /* of the door */
    struct door *http; /* NULL: asked from within (server_ask) */
    struct link *link; /* its connection; NULL: over */
    struct exchange *next_ready;
    bool is_ready;
};

struct exchange *exchange_ref(struct exchange *x);
void exchange_unref(struct exchange *x); /* NULL is fine */

/* Answers with a whole body; takes body's memory (and leaves it zero). type: static, "application/json". */
void exchange_answer(struct exchange *x, int status, const char *type, struct buf *body);
/* The same with an error; with a JSON value that was built with `bad` ORed along the way: memory may have run out. */
void exchange_fail(struct exchange *x, const struct fault *f);
void exchange_answer_json(struct exchange *x, struct buf *json, int bad);
void exchange_answer_error(struct exchange *x,
                           const struct hasten_error *err); /* fault_of, then exchange_fail */

/* Begins a stream of server-sent events: its header leaves at once. */
void exchange_begin(struct exchange *x);
/* Appends; false when nobody reads any more (gone, or so far behind that it is as good as gone). */
bool exchange_write(struct exchange *x, const void *data, size_t len);
void exchange_end(struct exchange *x);

/* Called once, in the door's thread, when the client has left before the end; at once if it has. NULL: never again (it
 * is not running when this returns). */
void exchange_on_gone(struct exchange *x, void (*fn)(void *ctx), void *ctx);
bool exchange_gone(struct exchange *x);

/* ---- for the door ------------------------------------------------------------------------------------------- */

struct exchange *exchange_open(struct door *http);
/* Marks it gone and tells who wants to know. */
void exchange_leave(struct exchange *x);
/* Copies up to max bytes of the stream to dst: how many; 0 where nothing is there. *state then says whether something may
 * follow: the next write wakes the door. */
enum exchange_state {
    EXCHANGE_OPEN,
    EXCHANGE_ENDED,
    EXCHANGE_LEFT
};
size_t exchange_take(struct exchange *x, char *dst, size_t max, enum exchange_state *state);

#endif
