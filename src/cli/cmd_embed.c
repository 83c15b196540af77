/* `hasten embed`: one vector for each line of text, as a JSON array on a line of its own.
 *
 * The tokenizer puts around a text what the model was trained with ([CLS] and [SEP], BOS, EOS). All lines are read and
 * tokenised first, so that the engine is planned for the longest of them; then they are embedded many at a time. */
#include "base/clock.h"
#include "base/file.h"
#include "base/limits.h"
#include "cli/session.h"
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BATCH 64     /* lines of one call */
#define SEQUENCES 16 /* texts that share a pass */

struct embed_args {
    const char *prompt, *file;
    int pooling; /* enum hasten_pooling */
    bool normalize;
    struct ui ui;
    struct model_args model;
};

static const struct option_def embed_defs[] = {
    {"prompt", "p", OPT_STRING, offsetof(struct embed_args, prompt), 0, 0, NULL, "TEXT", "the text, whole"},
    {"file", "f", OPT_STRING, offsetof(struct embed_args, file), 0, 0, NULL, "FILE",
     "a text on each line; - is stdin, which is also read without -p and -f"},
    {"pooling", NULL, OPT_CHOICE, offsetof(struct embed_args, pooling), 0, 0, NULL, "model|mean|cls|last",
     "how the tokens' vectors become one [model: as its file says]"},
    {"normalize", NULL, OPT_FLAG, offsetof(struct embed_args, normalize), 0, 0, NULL, NULL, "to length 1"},
};

struct job {
    const struct embed_args *args;
    struct ui *ui;
    struct buf path;
    struct hasten_model *model;
    struct hasten_engine *engine;
    struct tokens ids;         /* of all texts, one behind the other */
    struct hasten_text *texts; /* [n] tokens are set once all ids are there */
    int32_t n, cap;
};

static hasten_status no_memory(struct hasten_error *err)
{
    return error_set(err, HASTEN_ERR_MEMORY, "embed: out of memory");
}

/* ---- texts ---- */

static hasten_status add_text(struct job *j, const char *text, size_t len, struct hasten_error *err)
{
    const int64_t before = j->ids.n;
    if (j->n == j->cap) {
        const int32_t cap = j->cap ? 2 * j->cap : 64;
        struct hasten_text *p = cap > 0 ? mem_realloc(j->texts, (size_t)cap * sizeof *p) : NULL;
        if (!p)
            return no_memory(err);
        j->texts = p;
        j->cap = cap;
    }
    hasten_status st = vocab_encode(model_vocab(j->model), text, len, VOCAB_BOS | VOCAB_EOS, &j->ids, err);
    if (st)
        return st;
    const int64_t n = j->ids.n - before;
    if (n < 1)
        return error_set(err, HASTEN_ERR_USAGE, "embed: line %d is empty (expected a text)", (int)j->n + 1);
    if (n > hasten_model_n_ctx_train(j->model))
        return error_set(err, HASTEN_ERR_FULL, "embed: line %d has %lld tokens (expected at most %d)",
                         (int)j->n + 1, (long long)n, (int)hasten_model_n_ctx_train(j->model));
    j->texts[j->n++].n = (int32_t)n;
    return HASTEN_OK;
}

static hasten_status add_lines(struct job *j, const char *text, size_t len, struct hasten_error *err)
{
    hasten_status st = HASTEN_OK;
    for (size_t at = 0, end; at < len && !st; at = end + 1) {
        const char *newline = memchr(text + at, '\n', len - at);
        end = newline ? (size_t)(newline - text) : len;
        const size_t n = end - at;
        st = add_text(j, text + at, n && text[end - 1] == '\r' ? n - 1 : n, err);
    }
    return st;
}

static hasten_status read_texts(struct job *j, struct hasten_error *err)
{
    const struct embed_args *a = j->args;
    char *text = NULL;
    size_t len = 0;
    hasten_status st;
    if (a->prompt) {
        st = add_text(j, a->prompt, strlen(a->prompt), err);
    } else {
        st = file_slurp(a->file ? a->file : "-", LIMIT_TEXT_BYTES, &text, &len, err);
        if (!st)
            st = add_lines(j, text, len, err);
        mem_free(text);
    }
    const int32_t *at = j->ids.ids;
    for (int32_t i = 0; i < j->n && !st; at += j->texts[i++].n)
        j->texts[i].tokens = at;
    return st;
}

/* ---- vectors ---- */

static hasten_status open_engine(struct job *j, const struct hasten_engine_settings *wanted,
                                 struct hasten_error *err)
{
    struct hasten_engine_settings s = *wanted;
    struct adapters adapters = {0};
    int32_t longest = 1;
    for (int32_t i = 0; i < j->n; i++)
        longest = j->texts[i].n > longest ? j->texts[i].n : longest;
    s.n_threads = cli_threads(s.n_threads, j->ui);
    s.n_ctx = s.n_ctx ? s.n_ctx : longest;
    s.n_seq_max = j->n < SEQUENCES ? j->n : SEQUENCES;
    hasten_status st = adapters_open(&j->args->model.lora, j->model, &adapters, &s, err);
    if (!st)
        st = hasten_engine_open(j->model, &s, &j->engine, err);
    adapters_close(&adapters);
    return st;
}

/* The shortest decimal that reads as the same float. */
static int put_floats(struct buf *out, const float *v, int32_t n)
{
    int bad = buf_putc(out, '[');
    for (int32_t i = 0; i < n && !bad; i++) {
        char text[32];
        for (int digits = 6; digits <= 9; digits++) {
            snprintf(text, sizeof text, "%.*g", digits, (double)v[i]);
            if (strtof(text, NULL) == v[i])
                break;
        }
        bad = buf_printf(out, i ? ",%s" : "%s", text);
    }
    return bad || buf_puts(out, "]\n");
}

static hasten_status print_vectors(struct job *j, int32_t first, int32_t n, const float *v, struct buf *line,
                                   struct hasten_error *err)
{
    const int32_t d = hasten_model_n_embd(j->model);
    for (int32_t i = 0; i < n; i++) {
        buf_clear(line);
        if (j->args->ui.json && buf_printf(line, "{\"index\":%d,\"tokens\":%d,\"embedding\":",
                                           (int)(first + i), (int)j->texts[first + i].n))
            return no_memory(err);
        if (put_floats(line, v + (int64_t)i * d, d))
            return no_memory(err);
        if (j->args->ui.json) {
            line->len--; /* the newline */
            if (buf_puts(line, "}\n"))
                return no_memory(err);
        }
        if (cli_out(line->data, line->len))
            return error_set(err, HASTEN_ERR_DISK, "embed: stdout is closed or full (expected room)");
    }
    return HASTEN_OK;
}

static hasten_status embed_all(struct job *j, const volatile int *cancel, struct hasten_error *err)
{
    const uint64_t t0 = clock_now_ns();
    struct buf line = {0};
    float *v = mem_array((size_t)BATCH * (size_t)hasten_model_n_embd(j->model), sizeof *v);
    hasten_status st = v ? HASTEN_OK : no_memory(err);
    for (int32_t at = 0, n; at < j->n && !st; at += n) {
        n = j->n - at < BATCH ? j->n - at : BATCH;
        st = hasten_embed(j->engine, j->texts + at, n, (enum hasten_pooling)j->args->pooling,
                          j->args->normalize, v, cancel, err);
        if (!st)
            st = print_vectors(j, at, n, v, &line, err);
        ui_progress(j->ui, "embed", (uint64_t)(at + n), (uint64_t)j->n, "texts", t0);
    }
    ui_progress_end(j->ui);
    buf_free(&line);
    mem_free(v);
    return st;
}

static hasten_status check_pooling(const struct job *j, struct hasten_error *err)
{
    if (j->args->pooling == HASTEN_POOLING_MODEL && hasten_model_pooling(j->model) == HASTEN_POOLING_MODEL)
        return error_set(err, HASTEN_ERR_USAGE,
                         "embed: %s names no pooling (expected --pooling mean, cls or last)", j->path.data);
    return HASTEN_OK;
}

int cmd_embed(const struct command *c, int argc, char **argv)
{
    struct embed_args a = {0};
    struct option_group groups[] = {ui_group(&a.ui),
                                    {.title = "Embed:",
                                     .defs = embed_defs,
                                     .n = (int)(sizeof embed_defs / sizeof *embed_defs),
                                     .dst = &a},
                                    model_group(&a.model)};
    struct option_positionals pos;
    struct hasten_error err;
    struct hasten_engine_settings settings;
    struct job j = {.args = &a, .ui = &a.ui};
    int rc = command_parse(c, &a.ui, groups, 3, 1, argc, argv, &pos);
    if (rc >= 0)
        return rc;
    const char *model = model_argument(&a.model, &pos, &err);
    hasten_status st = model ? HASTEN_OK : HASTEN_ERR_USAGE;
    if (a.prompt && a.file)
        st = error_set(&err, HASTEN_ERR_USAGE, "embed: both -p and -f (expected one of them)");
    if (!st)
        st = model_settings(&a.model, &groups[2], &settings, &err);
    if (!st)
        st = model_resolve(model, &j.path, &err);
    if (!st)
        st = hasten_model_open(j.path.data, &j.model, &err);
    if (!st)
        st = check_pooling(&j, &err);
    if (!st)
        st = read_texts(&j, &err);
    const volatile int *cancel = interrupt_arm();
    if (!st && j.n)
        st = open_engine(&j, &settings, &err);
    if (!st && j.n)
        st = embed_all(&j, cancel, &err);
    interrupt_disarm();
    hasten_engine_close(j.engine);
    hasten_model_close(j.model);
    tokens_free(&j.ids);
    mem_free(j.texts);
    buf_free(&j.path);
    options_free(groups, 3);
    return st ? ui_fail(&a.ui, &err) : cli_finish(0);
}
