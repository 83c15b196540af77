/* The server: its life, and what its endpoints share. Prints nothing; what happens goes to a function of the caller.
 *
 * Threads: the door's (http.h) answers what needs no thinking (health, metrics, lists) and hands the rest to desks, a few
 * threads that parse, render and tokenise; the engine's thread (motor.h) runs the batch. So neither a long prompt nor a
 * long step keeps a probe waiting. */
#ifndef HASTEN_SERVE_SERVER_H
#define HASTEN_SERVE_SERVER_H
#include "base/error.h"
#include "hasten/hasten.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct server;

struct server_event { /* for a log; strings are borrowed for the call */
    bool failed;
    const char *message;            /* without a request */
    const char *id, *method, *path; /* of a request that is over; NULL: no request */
    int status;                     /* 0: the client left before there was one */
    double ms;
    int32_t prompt_n, cached_n, predicted_n;
    const char *finish; /* finish_reason; NULL: none */
    bool left;          /* the client left before the end */
};

struct server_settings {
    const char *host;       /* NULL: it does not listen, and is asked from within */
    uint16_t port;          /* 0: any */
    const char *admin_host; /* NULL: /health and /metrics at the one door; else at another too */
    uint16_t admin_port;
    const char *key_file;           /* NULL: none */
    bool no_auth;                   /* an address that others reach, without keys */
    bool public_models;             /* /v1/models without a key */
    bool shared_cache;              /* prompts of different keys may share what is computed */
    const char *tls_cert, *tls_key; /* PEM texts, or NULL */
    const char *id;                 /* the model's, in answers and lists */
    const char *argument;           /* the model as the command line says it; taken for the id too */
    int32_t n_slots, queue;
    double itl_ms;       /* 0: no target */
    uint64_t timeout_ms; /* of a request; 0: none */
    uint64_t header_ms, idle_ms, ping_ms;
    size_t max_body;
    int max_connections, n_desks;
    enum hasten_pooling pooling;
    void (*log)(void *ctx, const struct server_event *e); /* NULL, or from any of its threads */
    void *log_ctx;
};

/* The defaults; id and argument are the caller's to set. */
void server_default_settings(struct server_settings *s);
/* Listens; until server_load every request but for the process's state is 503. Settings and their strings must outlive
 * it. HASTEN_ERR_USAGE: another address than loopback without keys and without no_auth. */
hasten_status server_open(const struct server_settings *s, struct server **out, struct hasten_error *err);
uint16_t server_port(const struct server *s);
uint16_t server_admin_port(const struct server *s);
/* The model is there: begins to answer. They must outlive the server, and nobody else may use the engine. methods: JSON
 * array of what the engine runs with, for receipts (kept). */
struct json_t;
hasten_status server_load(struct server *s, const struct hasten_model *m, struct hasten_engine *e,
                          struct json_t *methods, struct hasten_error *err);
hasten_status server_reload(struct server *s, struct hasten_error *err); /* the keys */
/* No new requests (503), /health says so. */
void server_drain(struct server *s);
/* A request from within, without a door: x (exchange_open(NULL)) has its method, path, body and id. It is answered once it
 * is `ended`. */
struct exchange;
void server_ask(struct server *s, struct exchange *x);
int server_busy(struct server *s); /* requests for text that are not over */
/* Ends what still runs, then everything. NULL is fine. */
void server_close(struct server *s);

#endif
