/* Many POSTs at once over http or https, their answers told as they come; and single requests. For load tests: no
 * redirects, no retries, nothing is judged. Like http.c, on libcurl; proxies are libcurl's, but for this machine's own addresses. */
#ifndef HASTEN_CLI_HTTP_STREAMS_H
#define HASTEN_CLI_HTTP_STREAMS_H
#include "base/error.h"
#include "base/mem.h"
#include <stdbool.h>
#include <stdint.h>

struct http_streams;

struct http_streams_ops {
    /* A piece of a body; false: it is not wanted any more, and `end` follows. */
    bool (*bytes)(void *ctx, int32_t slot, int32_t status, const char *bytes, size_t n);
    /* status 0: no connection, -1: it ended before an answer; whole: it ended as HTTP says; why: a sentence, when
     * not. */
    void (*end)(void *ctx, int32_t slot, int32_t status, bool whole, uint64_t retry_after_ms,
                const char *why);
    void *ctx;
};

/* n places; key: a bearer token, or NULL; wait_ms: for a connection, and for single answers as a whole. */
hasten_status http_streams_open(int32_t n, const char *key, uint64_t wait_ms, struct http_streams **out,
                                struct hasten_error *err);
void http_streams_close(struct http_streams *h);
void http_streams_listen(struct http_streams *h, const struct http_streams_ops *ops);

hasten_status http_streams_start(struct http_streams *h, int32_t slot, const char *url, const char *body,
                                 size_t len, struct hasten_error *err);
hasten_status http_streams_poll(struct http_streams *h, uint64_t wait_ms, struct hasten_error *err);
void http_streams_stop(struct http_streams *h, int32_t slot);

/* A GET, or with a body a POST, to its end: at most `most` bytes of the answer. HASTEN_ERR_NETWORK: none came. */
hasten_status http_streams_ask(struct http_streams *h, const char *url, const char *body, size_t most,
                               struct buf *answer, int32_t *status, struct hasten_error *err);

#endif
