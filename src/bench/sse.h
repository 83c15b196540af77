/* Server-sent events as they come in pieces (WHATWG HTML, section 9.2): the data of each event, whole. Fields other than
 * `data`, comments and an event that the end of the stream cuts are dropped. */
#ifndef HASTEN_BENCH_SSE_H
#define HASTEN_BENCH_SSE_H
#include "base/error.h"
#include "base/mem.h"
#include <stdbool.h>

struct sse { /* zero-initialise; sse_free */
    struct buf line, data;
    bool after_cr; /* a line feed now belongs to the line before */
    bool any;      /* the event has a data field */
    bool begun;
};

/* data[len], which ends with a NUL, is the callee's until it returns; a failure ends the push with it. */
typedef hasten_status (*sse_event_fn)(void *ctx, char *data, size_t len, struct hasten_error *err);

/* HASTEN_ERR_LIMIT: an event above LIMIT_SSE_BYTES. */
hasten_status sse_push(struct sse *s, const char *bytes, size_t n, sse_event_fn fn, void *ctx,
                       struct hasten_error *err);
void sse_clear(struct sse *s); /* for the next stream; keeps memory */
void sse_free(struct sse *s);

#endif
