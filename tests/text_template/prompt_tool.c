/* Driver of test_inject.py, JSON lines in and out: {"model": PATH} opens a file with a vocabulary and a chat template;
 * {"messages", "tools", "generation"} renders and encodes it and answers {"text", "ids": the control tokens among the
 * ids in their order, "careless": the same when the text is encoded without regard to where it comes from, "content":
 * the number of bytes that stem from content, "cpu_ms"} or {"error"}. */
#include "base/clock.h"
#include "text/prompt.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct subject {
    struct gguf *gguf;
    struct vocab *vocab;
    struct prompter *prompter;
};

static void answer(json_t *o)
{
    char *text = json_dumps(o, JSON_COMPACT);
    puts(text);
    fflush(stdout);
    free(text);
    json_decref(o);
}

static void close_subject(struct subject *s)
{
    prompter_close(s->prompter);
    vocab_close(s->vocab);
    gguf_close(s->gguf);
    *s = (struct subject){0};
}

static hasten_status open_subject(struct subject *s, const char *path, struct hasten_error *err)
{
    close_subject(s);
    hasten_status st = gguf_open(path, &s->gguf, err);
    if (!st)
        st = vocab_open(s->gguf, &s->vocab, err);
    if (!st)
        st = prompter_open(s->gguf, s->vocab, &s->prompter, err);
    return st;
}

static json_t *controls(const struct vocab *v, const struct tokens *ids)
{
    json_t *list = json_array();
    for (int64_t i = 0; i < ids->n; i++)
        if (vocab_type(v, ids->ids[i]) == VOCAB_CONTROL)
            json_array_append_new(list, json_integer(ids->ids[i]));
    return list;
}

static double cpu_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static hasten_status encode(const struct subject *s, const json_t *in, json_t **out, struct hasten_error *err)
{
    struct prompt p = {0};
    struct tokens ids = {0}, careless = {0};
    struct buf back = {0};
    const json_t *tools = json_object_get(in, "tools");
    const double begin = cpu_ms();
    hasten_status st = prompter_render(s->prompter, json_object_get(in, "messages"), tools,
                                       json_is_true(json_object_get(in, "generation")), &p, err);
    if (!st)
        st = prompter_encode(s->prompter, &p, 0, &ids, err);
    const double ms = cpu_ms() - begin;
    if (!st)
        st =
            vocab_encode(s->vocab, p.text.data ? p.text.data : "", p.text.len, VOCAB_SPECIAL, &careless, err);
    if (!st)
        st = vocab_decode(s->vocab, ids.ids, ids.n, true, &back, err);
    if (!st && (back.len != p.text.len || (back.len && memcmp(back.data, p.text.data, back.len) != 0)))
        st = error_set(err, HASTEN_ERR_INTERNAL, "the ids decode to another text");
    size_t content = 0;
    for (size_t i = 0; i < p.n_spans; i++)
        content += p.spans[i].end - p.spans[i].begin;
    if (!st)
        *out = json_pack("{s:s%, s:o, s:o, s:I, s:f}", "text", p.text.data ? p.text.data : "", p.text.len,
                         "ids", controls(s->vocab, &ids), "careless", controls(s->vocab, &careless),
                         "content", (json_int_t)content, "cpu_ms", ms);
    prompt_free(&p);
    tokens_free(&ids);
    tokens_free(&careless);
    buf_free(&back);
    return st;
}

int main(void)
{
    char *line = NULL;
    size_t cap = 0;
    ssize_t n;
    struct subject s = {0};
    clock_set_fake(1, 0, 1720098309);
    while ((n = getline(&line, &cap, stdin)) > 0) {
        struct hasten_error err = {0};
        json_t *in = NULL, *out = NULL;
        hasten_status st = json_parse("line", line, (size_t)n, &in, &err);
        const char *path = json_string_value(json_object_get(in, "model"));
        if (!st && path)
            st = open_subject(&s, path, &err);
        else if (!st)
            st = encode(&s, in, &out, &err);
        answer(st ? json_pack("{s:s}", "error", err.message) : out ? out : json_object());
        json_decref(in);
    }
    close_subject(&s);
    free(line);
    return 0;
}
