/* The HTTP door: listening, connections, requests that become exchanges (exchange.h), answers that become bytes on the
 * wire. The one place that knows libmicrohttpd.
 *
 * One thread runs it. It reads and writes what is there and never waits for an answer: a connection whose answer is not
 * there yet sleeps and is woken, so that a request for /health is answered whatever the others wait for. That thread
 * also notices clients that leave while they wait, and ends what takes too long: a header that is not whole in time, a
 * body that drips, a client that does not read. Bounded: bytes of a header and of a body, of all bodies together, and
 * connections; beyond the last 503 with Retry-After. */
#ifndef HASTEN_SERVE_HTTP_H
#define HASTEN_SERVE_HTTP_H
#include "serve/exchange.h"

struct door_settings {
    const char *host;               /* "127.0.0.1", "::1", "0.0.0.0", a name */
    uint16_t port;                  /* 0: any */
    const char *tls_cert, *tls_key; /* PEM texts; NULL: plain */
    int max_connections;
    size_t max_body;    /* bytes */
    uint64_t header_ms; /* a header must be whole within; a connection that says nothing too */
    uint64_t idle_ms;   /* between requests, and for a client that takes no byte of its answer */
    uint32_t body_rate; /* bytes a second that a body must bring after its first header_ms */
    uint64_t ping_ms;   /* a comment into streams that said nothing for so long */
    bool admin;         /* exchanges are marked so */
    void (*handle)(void *ctx, struct exchange *x); /* in the door's thread: must not wait; a whole request */
    void (*finished)(void *ctx, struct exchange *x); /* in the door's thread: the exchange is over */
    /* A request whose header is whole: false after filling f to refuse it before its body is read. */
    bool (*admit)(void *ctx, struct exchange *x, struct fault *f);
    void *ctx;
};

/* Binds and begins to serve in a thread of its own. HASTEN_ERR_NETWORK: the address cannot be had; HASTEN_ERR_USAGE:
 * no such host; HASTEN_ERR_UNSUPPORTED: TLS in a build of the library without it. */
hasten_status door_open(const struct door_settings *s, struct door **out, struct hasten_error *err);
uint16_t door_port(const struct door *h);
int door_connections(const struct door *h);
/* Ends all connections and the thread. NULL is fine. No exchange may be answered afterwards that still is referenced. */
void door_close(struct door *h);
/* Is this an address that only this machine reaches? */
bool door_is_loopback(const char *host);

/* From exchange.c: this one has something to send; that many bytes of a body are free again. */
void door_wake(struct door *h, struct exchange *x);
void door_body_freed(struct door *h, size_t len);

#endif
