/* Driver of test_template.py: reads {"template", "context"} as JSON lines, answers {"ok"} or {"error"}
 * as JSON lines. A line {"sweep": [template, context]} renders with every allocation failing in turn
 * instead and answers {"swept": number of allocations}. The clock stands at 2024-07-04 13:05:09 UTC. */
#include "base/clock.h"
#include "base/mem.h"
#include "text/template.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void answer(const char *key, json_t *value)
{
    json_t *o = json_pack("{s:o}", key, value ? value : json_null());
    char *text = json_dumps(o, JSON_COMPACT);
    puts(text);
    fflush(stdout);
    free(text);
    json_decref(o);
}

/* The same with the origins followed: the same text. */
static hasten_status render_followed(const struct template *t, const json_t *content, const struct buf *want,
                                     struct hasten_error *err)
{
    struct buf out = {0}, origin = {0};
    json_t *own = json_object();
    hasten_status s = template_render_origin(t, own, content, &out, &origin, err);
    if (s == HASTEN_OK && (out.len != want->len || origin.len != out.len ||
                           (out.len && memcmp(out.data, want->data, out.len) != 0)))
        s = error_set(err, HASTEN_ERR_INTERNAL, "another text when the origins are followed");
    json_decref(own);
    buf_free(&out);
    buf_free(&origin);
    return s;
}

static hasten_status render(json_t *source, json_t *context, struct buf *out, struct hasten_error *err)
{
    struct template *t;
    hasten_status s = template_open("t", json_string_value(source), json_string_length(source), &t, err);
    if (s != HASTEN_OK)
        return s;
    s = template_render(t, context, out, err);
    if (s == HASTEN_OK)
        s = render_followed(t, context, out, err);
    template_close(t);
    return s;
}

/* Fails the nth allocation, once and for ever, for n = 1, 2, ... until nothing fails any more. */
static void sweep(json_t *source, json_t *context)
{
    struct hasten_error err;
    struct mem_stats before, after;
    uint64_t n = 1;
    for (uint64_t forever = 0; forever < 2; forever++) {
        for (n = 1;; n++) {
            struct buf out = {0};
            mem_stats_get(&before);
            mem_fail_at(n, forever);
            hasten_status s = render(source, context, &out, &err);
            uint64_t failed = mem_fail_count();
            mem_fail_at(0, 0);
            buf_free(&out);
            mem_stats_get(&after);
            if (after.live_bytes != before.live_bytes)
                return answer("error", json_sprintf("leak at allocation %d", (int)n));
            if (!failed)
                break;
            if (s != HASTEN_ERR_MEMORY)
                return answer("error", json_sprintf("status %d at allocation %d", (int)s, (int)n));
        }
    }
    answer("swept", json_integer((json_int_t)n - 1));
}

int main(void)
{
    char *line = NULL;
    size_t cap = 0;
    ssize_t n;
    clock_set_fake(1, 0, 1720098309);
    while ((n = getline(&line, &cap, stdin)) > 0) {
        struct hasten_error err = {0};
        struct buf out = {0};
        json_t *in = NULL;
        if (json_parse("line", line, (size_t)n, &in, &err) != HASTEN_OK) {
            answer("bad", json_string(err.message));
            continue;
        }
        json_t *s = json_object_get(in, "sweep");
        if (s) {
            sweep(json_array_get(s, 0), json_array_get(s, 1));
        } else if (render(json_object_get(in, "template"), json_object_get(in, "context"), &out, &err) ==
                   HASTEN_OK) {
            answer("ok", json_stringn(out.data ? out.data : "", out.len));
        } else {
            answer("error", json_string(err.message));
        }
        buf_free(&out);
        json_decref(in);
    }
    free(line);
    return 0;
}
