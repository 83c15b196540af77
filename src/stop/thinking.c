/* See thinking.h. */
#include "stop/thinking.h"
#include "base/mem.h"
#include "model/loaded.h"
#include <string.h>

/* Pairs that models use, the opening one first. */
static const char *const pairs[][2] = {
    {"<think>", "</think>"},           {"<|begin_of_thought|>", "<|end_of_thought|>"},
    {"[THINK]", "[/THINK]"},           {"<thinking>", "</thinking>"},
    {"<seed:think>", "</seed:think>"}, {"<reasoning>", "</reasoning>"},
};
#define N_PAIRS (sizeof pairs / sizeof *pairs)

static hasten_status set(struct delimiter *d, const char *text, struct hasten_error *err)
{
    const size_t len = strlen(text);
    if (len == 0 || len > THINKING_BYTES)
        return error_set(err, HASTEN_ERR_USAGE, "delimiter of thinking: found %zu bytes (expected 1 to %d)",
                         len, THINKING_BYTES);
    memcpy(d->text, text, len + 1);
    d->len = (int32_t)len;
    return HASTEN_OK;
}

static bool in_template(const struct vocab *v, const char *text)
{
    const struct gguf_str t = vocab_chat_template(v);
    return t.len && memmem(t.data, t.len, text, strlen(text));
}

/* The first pair that are tokens, else the first that the template names. */
static hasten_status find_pair(struct thinking *t, struct hasten_error *err)
{
    const struct vocab *v = t->vocab;
    for (int by_template = 0; by_template < 2; by_template++)
        for (size_t i = 0; i < N_PAIRS; i++) {
            const bool is = by_template ? in_template(v, pairs[i][0]) && in_template(v, pairs[i][1])
                                        : vocab_find(v, pairs[i][0], strlen(pairs[i][0])) >= 0 &&
                                              vocab_find(v, pairs[i][1], strlen(pairs[i][1])) >= 0;
            if (!is)
                continue;
            const hasten_status st = set(&t->open, pairs[i][0], err);
            return st ? st : set(&t->close, pairs[i][1], err);
        }
    return HASTEN_OK;
}

/* Its one token, or which tokens can end it. */
static hasten_status index_tokens(const struct vocab *v, struct delimiter *d, struct hasten_error *err)
{
    struct buf bytes = {0};
    hasten_status st = HASTEN_OK;
    d->id = d->len ? vocab_find(v, d->text, (size_t)d->len) : -1;
    d->most = d->id >= 0 ? 1 : d->len;
    if (d->len == 0 || d->id >= 0)
        return HASTEN_OK;
    d->may_end = mem_calloc((size_t)vocab_size(v), 1);
    if (!d->may_end)
        return error_set(err, HASTEN_ERR_MEMORY, "--stop-when: out of memory");
    for (int32_t id = 0; id < vocab_size(v) && !st; id++) {
        buf_clear(&bytes);
        st = vocab_token_bytes(v, id, true, &bytes, err);
        d->may_end[id] = bytes.len && memchr(bytes.data, d->text[d->len - 1], bytes.len) != NULL;
    }
    buf_free(&bytes);
    return st;
}

/* Room for some tokens; longer ones are no part of a delimiter. */
static hasten_status open_scratch(struct thinking *t, struct hasten_error *err)
{
    static const char blank[16 * THINKING_BYTES];
    t->text = mem_calloc(1, sizeof *t->text);
    if (!t->text || buf_put(t->text, blank, sizeof blank))
        return error_set(err, HASTEN_ERR_MEMORY, "--stop-when: out of memory");
    buf_clear(t->text);
    return HASTEN_OK;
}

hasten_status thinking_open(const struct method_site *site, const char *open, const char *close,
                            struct thinking *t, struct hasten_error *err)
{
    *t = (struct thinking){.vocab = model_vocab(site->model)};
    if (!open != !close)
        return error_set(err, HASTEN_ERR_USAGE, "found %s alone (expected open and close)",
                         open ? "open" : "close");
    hasten_status st = open ? set(&t->open, open, err) : find_pair(t, err);
    if (!st)
        st = open_scratch(t, err);
    if (!st && open)
        st = set(&t->close, close, err);
    if (!st)
        st = index_tokens(t->vocab, &t->open, err);
    if (!st)
        st = index_tokens(t->vocab, &t->close, err);
    if (st)
        thinking_close(t);
    return st;
}

void thinking_close(struct thinking *t)
{
    mem_free(t->open.may_end);
    mem_free(t->close.may_end);
    if (t->text)
        buf_free(t->text);
    mem_free(t->text);
    *t = (struct thinking){0};
}

/* The bytes of the last tokens, put together from the end. */
struct tail {
    char bytes[4 * THINKING_BYTES];
    int32_t at;                         /* they are bytes[at ..] */
    int64_t starts[4 * THINKING_BYTES]; /* of each byte the place of its token */
};

static bool prepend(const struct thinking *t, int32_t id, int64_t place, struct tail *tail)
{
    struct buf *b = t->text;
    struct hasten_error err;
    buf_clear(b);
    const bool fits = id >= 0 && id < vocab_size(t->vocab) &&
                      !vocab_token_bytes(t->vocab, id, true, b, &err) && b->len <= (size_t)tail->at;
    for (size_t i = 0; fits && i < b->len; i++) {
        tail->bytes[tail->at - (int32_t)b->len + (int32_t)i] = b->data[i];
        tail->starts[tail->at - (int32_t)b->len + (int32_t)i] = place;
    }
    tail->at -= fits ? (int32_t)b->len : 0;
    return fits;
}

bool thinking_ends(const struct thinking *t, const struct delimiter *d, const int32_t *path, int64_t n,
                   int32_t id, int64_t *start, int32_t *before)
{
    *start = n;
    *before = 0;
    if (d->len == 0 || d->id >= 0)
        return d->len && id == d->id;
    if (id < 0 || id >= vocab_size(t->vocab) || !d->may_end[id])
        return false;
    struct tail tail = {.at = sizeof tail.bytes};
    if (!prepend(t, id, n, &tail))
        return false;
    const int32_t last = tail.at, end = sizeof tail.bytes;
    for (int64_t i = n - 1; i >= 0 && last - tail.at < d->len; i--)
        if (!prepend(t, path[i], i, &tail))
            break;
    for (int32_t at = tail.at; at + d->len <= end; at++) {
        if (at + d->len <= last || memcmp(tail.bytes + at, d->text, (size_t)d->len) != 0)
            continue;
        *start = tail.starts[at];
        for (int32_t i = at; i > tail.at && tail.starts[i - 1] == *start; i--)
            ++*before;
        return true;
    }
    return false;
}

int64_t thinking_broken_off(const struct thinking *t, const struct delimiter *d, const int32_t *path,
                            int64_t n)
{
    struct tail tail = {.at = sizeof tail.bytes};
    const int32_t end = sizeof tail.bytes;
    int64_t start = n;
    if (d->len == 0 || d->id >= 0)
        return n;
    for (int64_t i = n - 1; i >= 0 && end - tail.at < d->len - 1; i--) {
        if (!prepend(t, path[i], i, &tail))
            break;
        if (end - tail.at < d->len && memcmp(tail.bytes + tail.at, d->text, (size_t)(end - tail.at)) == 0)
            start = i;
    }
    return start;
}

bool thinking_begun(const struct thinking *t, const int32_t *path, int64_t n)
{
    const struct delimiter *d = &t->open;
    struct tail tail = {.at = sizeof tail.bytes};
    int32_t end = sizeof tail.bytes;
    if (d->len == 0)
        return false;
    for (int64_t i = n - 1; i >= 0 && i >= n - THINKING_BYTES; i--)
        if (!prepend(t, path[i], i, &tail))
            break;
    while (end > tail.at && strchr(" \t\r\n", tail.bytes[end - 1]) && tail.bytes[end - 1])
        end--;
    return end - tail.at >= d->len && memcmp(tail.bytes + end - d->len, d->text, (size_t)d->len) == 0;
}

hasten_status thinking_encode(const struct thinking *t, const char *text, struct tokens *out,
                              struct hasten_error *err)
{
    struct buf b = {0};
    int bad = buf_puts(&b, "");
    for (const char *p = text; *p && !bad; p++) {
        const bool escaped = *p == '\\' && p[1] && strchr("nt\\", p[1]);
        p += escaped;
        bad = buf_putc(&b, !escaped ? *p : *p == 'n' ? '\n' : *p == 't' ? '\t' : '\\');
    }
    hasten_status st = bad ? error_set(err, HASTEN_ERR_MEMORY, "--stop-when: out of memory")
                           : vocab_encode(t->vocab, b.data, b.len, VOCAB_SPECIAL | VOCAB_NO_PREFIX, out, err);
    buf_free(&b);
    return st;
}
