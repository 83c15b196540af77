/* Fuzz target of the chat template interpreter: a template, a NUL, and its context as JSON (an empty
 * object when there is none). The corpus is made by tests/text_template/make_corpus.py. */
#include "base/clock.h"
#include "base/mem.h"
#include "text/template.h"

#include <stdint.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static json_t *read_context(const char *text, size_t len)
{
    struct hasten_error err = {0};
    json_t *context = NULL;
    hasten_status s = json_parse("fuzz.json", text, len, &context, &err);
    if (s == HASTEN_OK)
        return context;
    if (context || err.status != s || !strstr(err.message, "fuzz.json"))
        __builtin_trap();
    return json_object();
}

/* Following where the bytes come from changes no text, and says something of each byte. (It takes memory, so that the
 * bound may be met where it was not.) */
static void follow_origins(const struct template *t, const json_t *content, hasten_status s,
                           const struct buf *want)
{
    struct buf out = {0}, origin = {0};
    json_t *own = json_object();
    hasten_status followed = template_render_origin(t, own, content, &out, &origin, NULL);
    if (origin.len != out.len || (followed == HASTEN_OK && s != HASTEN_OK))
        __builtin_trap();
    if (followed == HASTEN_OK &&
        (out.len != want->len || (out.len && memcmp(out.data, want->data, out.len) != 0)))
        __builtin_trap();
    for (size_t i = 0; i < origin.len; i++)
        if ((unsigned char)origin.data[i] > 1)
            __builtin_trap();
    json_decref(own);
    buf_free(&out);
    buf_free(&origin);
}

/* Rendering twice gives the same, failing leaves the buffer as it was. */
static void render(const struct template *t, const json_t *context)
{
    struct hasten_error err = {0};
    struct buf a = {0}, b = {0};
    hasten_status s = template_render(t, context, &a, &err);
    if (s != HASTEN_OK && (a.len || err.status != s || !strstr(err.message, ": line ")))
        __builtin_trap();
    if (template_render(t, context, &b, NULL) != s || a.len != b.len ||
        (a.len && memcmp(a.data, b.data, a.len) != 0))
        __builtin_trap();
    follow_origins(t, context, s, &a);
    buf_free(&a);
    buf_free(&b);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct hasten_error err = {0};
    struct template *t = NULL;
    const uint8_t *nul = size ? memchr(data, 0, size) : NULL;
    size_t len = nul ? (size_t)(nul - data) : size;
    clock_set_fake(1, 0, 1720098309);
    hasten_status s = template_open("fuzz", (const char *)data, len, &t, &err);
    if (s != HASTEN_OK) {
        if (t || err.status != s || !strstr(err.message, "fuzz"))
            __builtin_trap();
        return 0;
    }
    json_t *context = read_context(nul ? (const char *)nul + 1 : "{}", nul ? size - len - 1 : 2);
    if (context)
        render(t, context);
    json_decref(context);
    template_close(t);
    return 0;
}
