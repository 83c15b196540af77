/* Server-sent events (sse.h). */
#include "bench/sse.h"
#include "base/limits.h"
#include <string.h>

static hasten_status out_of_memory(struct hasten_error *err)
{
    return error_set(err, HASTEN_ERR_MEMORY, "event stream: out of memory");
}

/* A whole line, without its end. */
static hasten_status take_line(struct sse *s, sse_event_fn fn, void *ctx, struct hasten_error *err)
{
    const char *line = s->line.data ? s->line.data : "";
    size_t len = s->line.len;
    hasten_status st = HASTEN_OK;
    if (!s->begun && len >= 3 && memcmp(line, "\xEF\xBB\xBF", 3) == 0) {
        line += 3;
        len -= 3;
    }
    s->begun = true;
    if (len == 0) {
        if (s->any)
            st = fn(ctx, s->data.data, s->data.len, err);
        s->any = false;
        buf_clear(&s->data);
    } else if ((len == 4 || (len > 4 && line[4] == ':')) && memcmp(line, "data", 4) == 0) {
        size_t from = len > 5 && line[5] == ' ' ? 6 : len > 4 ? 5 : 4;
        if (s->data.len + len > LIMIT_SSE_BYTES)
            return error_set(err, HASTEN_ERR_LIMIT, "event stream: an event of more than %d bytes",
                             LIMIT_SSE_BYTES);
        if ((s->any && buf_putc(&s->data, '\n')) || buf_put(&s->data, line + from, len - from))
            return out_of_memory(err);
        s->any = true;
    }
    return st;
}

hasten_status sse_push(struct sse *s, const char *bytes, size_t n, sse_event_fn fn, void *ctx,
                       struct hasten_error *err)
{
    for (size_t at = 0; at < n;) {
        if (s->after_cr && bytes[at] == '\n') {
            s->after_cr = false;
            at++;
            continue;
        }
        s->after_cr = false;
        size_t end = at;
        while (end < n && bytes[end] != '\n' && bytes[end] != '\r')
            end++;
        if (s->line.len + (end - at) > LIMIT_SSE_BYTES)
            return error_set(err, HASTEN_ERR_LIMIT, "event stream: a line of more than %d bytes",
                             LIMIT_SSE_BYTES);
        if (buf_put(&s->line, bytes + at, end - at))
            return out_of_memory(err);
        at = end;
        if (at == n)
            break;
        s->after_cr = bytes[at++] == '\r';
        const hasten_status st = take_line(s, fn, ctx, err);
        buf_clear(&s->line);
        if (st)
            return st;
    }
    return HASTEN_OK;
}

void sse_clear(struct sse *s)
{
    buf_clear(&s->line);
    buf_clear(&s->data);
    s->after_cr = s->any = s->begun = false;
}

void sse_free(struct sse *s)
{
    buf_free(&s->line);
    buf_free(&s->data);
    *s = (struct sse){0};
}
