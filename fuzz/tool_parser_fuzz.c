/* Fuzz target of the parser of answers: a byte for the form, one for where the text is cut, and an answer. However it is cut,
 * the same is said: the same content, reasoning, names and arguments. The corpus is made by tests/text/test_tools.py. */
#include "base/mem.h"
#include "fuzz.h"
#include "text/tools.h"

struct told {
    struct buf content, reasoning, calls;
    int32_t n;
};

static int on_text(void *ctx, enum tool_said what, const char *text, size_t len)
{
    struct told *t = ctx;
    check(len > 0);
    return buf_put(what == TOOL_SAID_CONTENT ? &t->content : &t->reasoning, text, len);
}

static int on_call(void *ctx, int32_t index, const char *name, size_t len)
{
    struct told *t = ctx;
    check(index == t->n++ && len > 0);
    return buf_puts(&t->calls, "\n+") || buf_put(&t->calls, name, len) || buf_putc(&t->calls, ' ');
}

static int on_arguments(void *ctx, int32_t index, const char *text, size_t len)
{
    struct told *t = ctx;
    check(index == t->n - 1 && len > 0);
    return buf_put(&t->calls, text, len);
}

static void tell(struct tool_format f, bool thinking, const char *text, size_t len, size_t step,
                 struct told *t)
{
    struct hasten_error err;
    struct tool_parser *p;
    const struct tool_events on = {on_text, on_call, on_arguments, t};
    check(tool_parser_open(f, thinking, &on, &p, &err) == HASTEN_OK);
    for (size_t at = 0; at < len; at += step)
        check(tool_parser_push(p, text + at, len - at < step ? len - at : step, &err) == HASTEN_OK);
    check(tool_parser_finish(p, &err) == HASTEN_OK);
    check(tool_parser_n_calls(p) == t->n && t->content.len + t->reasoning.len <= len);
    tool_parser_close(p);
}

static void same(const struct buf *a, const struct buf *b)
{
    check(a->len == b->len && (!a->len || memcmp(a->data, b->data, a->len) == 0));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct told a = {0}, b = {0};
    if (size < 2 || size > 4096)
        return 0;
    const struct tool_format f = {.family = (enum tool_family)(data[0] % 7), .wide = data[0] >> 6 & 1};
    const bool thinking = data[0] >> 7;
    tell(f, thinking, (const char *)data + 2, size - 2, size, &a);
    tell(f, thinking, (const char *)data + 2, size - 2, 1 + data[1] % 16, &b);
    same(&a.content, &b.content);
    same(&a.reasoning, &b.reasoning);
    same(&a.calls, &b.calls);
    check(a.n == b.n);
    buf_free(&a.content);
    buf_free(&a.reasoning);
    buf_free(&a.calls);
    buf_free(&b.content);
    buf_free(&b.reasoning);
    buf_free(&b.calls);
    return 0;
}
