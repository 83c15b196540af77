/* One level of a load test: when which request goes out, and what is noted of it. It speaks through a transport, so
 * that it knows neither sockets nor libcurl (cli/http_streams.h).
 *
 * Closed loop: `streams` users, each of whom asks again when the answer is there. A refused request (a status, no
 * connection) is tried again after Retry-After, or after a growing pause of at most 5 s, as a request of its own. Open loop: users arrive by a
 * Poisson process of `rate` a second, whatever the server does, and a refused one leaves. A user with more than one turn
 * asks on after `think_ns`. Nothing is begun after the duration or the number of requests; what runs is awaited. */
#ifndef HASTEN_BENCH_LOAD_RUN_H
#define HASTEN_BENCH_LOAD_RUN_H
#include "bench/load.h"
#include "bench/talks.h"

struct load_transport {
    /* POSTs body[len], which is copied, on place `slot`, free until then. */
    hasten_status (*start)(void *ctx, int32_t slot, const char *body, size_t len, struct hasten_error *err);
    /* Waits at most wait_ms for something to come, and tells it by load_run_bytes and load_run_end. */
    hasten_status (*poll)(void *ctx, uint64_t wait_ms, struct hasten_error *err);
    void (*stop)(void *ctx, int32_t slot); /* ends it without a call of load_run_end */
    void *ctx;
};

struct load_settings {
    bool open;
    int32_t streams;      /* closed */
    double rate;          /* open: users a second */
    uint64_t duration_ns; /* 0: no bound; one of these three is given */
    int64_t requests;     /* 0: no bound */
    int64_t chats;        /* 0: no bound */
    int32_t turns;        /* of a chat; at least 1 */
    uint64_t think_ns, stall_ns;
    uint64_t seed;
    int64_t first_chat; /* number of the first conversation: levels do not repeat each other's */
    int32_t max_tokens;
    const char *model;
    const json_t *fields; /* further fields of every body, or NULL */
    const struct talks *talks;
    void (*progress)(void *ctx, int64_t done, int64_t total); /* total 0: unknown */
    void *progress_ctx;
};

struct load_run;

hasten_status load_run_open(const struct load_settings *s, const struct load_transport *t,
                            struct load_run **out, struct hasten_error *err);
void load_run_close(struct load_run *r);
/* HASTEN_ERR_CANCELLED with what came until then in the level; HASTEN_ERR_NETWORK when nobody answers. */
hasten_status load_run_level(struct load_run *r, struct load_level *out, const volatile int *cancel,
                             struct hasten_error *err);
int64_t load_run_chats(const struct load_run *r);      /* conversations begun: where the next level goes on */
int32_t load_run_slots(const struct load_settings *s); /* places that the transport must have */

/* The transport's: bytes of the body of an answer with status 200 (false: end it, the run has seen enough), or of
 * another answer. */
bool load_run_bytes(struct load_run *r, int32_t slot, int32_t status, const char *bytes, size_t n);
/* The answer is over. status 0: no connection, -1: it ended before an answer. whole: it ended as HTTP says it ends. why: of a failure. */
void load_run_end(struct load_run *r, int32_t slot, int32_t status, bool whole, uint64_t retry_after_ms,
                  const char *why);

#endif
