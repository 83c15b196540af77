/* See world.h. */
#include "world.h"
#include "model/loaded.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static void must(hasten_status st, const struct hasten_error *err)
{
    if (st)
        fail_msg("%s", err->message);
}

struct hasten_model *world_model(const char *path)
{
    struct hasten_model *m = NULL;
    struct hasten_error err;
    if (hasten_model_open(path, &m, &err)) {
        fprintf(stderr, "%s\n", err.message);
        exit(1);
    }
    return m;
}

static void open_engine(struct world *w)
{
    struct hasten_error err;
    must(hasten_engine_open(w->model, &w->settings, &w->engine, &err), &err);
    must(hasten_seq_open(w->engine, &w->seq, &err), &err);
    must(sampler_open(hasten_model_n_vocab(w->model), &w->sampler, &err), &err);
    must(sampler_memory_open(&w->memory, &err), &err);
    sampler_default_settings(&w->law.settings);
    w->law.settings.temperature = 0;
    w->law.settings.seed = 5;
    w->law.sampler = w->sampler;
    w->law.memory = w->memory;
    w->law.n_predict = -1;
}

static void set_methods(struct world *w, const struct method *own, const char *const *specs)
{
    int n = 0;
    static char stage[METHODS_MAX][16];
    if (own)
        w->methods[n++] = (struct hasten_method_use){NULL, "", own};
    for (; specs && *specs; specs++, n++) {
        const size_t len = strcspn(*specs, " ");
        snprintf(stage[n], sizeof stage[n], "%.*s", (int)len, *specs);
        w->methods[n] = (struct hasten_method_use){stage[n], *specs + len + 1, NULL};
    }
    w->settings.methods = w->methods;
    w->settings.n_methods = n;
}

static void set_world(struct world *w, const struct hasten_model *m, int32_t n_ctx)
{
    *w = (struct world){.model = m};
    hasten_engine_default_settings(&w->settings);
    w->settings.n_threads = 1;
    w->settings.n_ctx = n_ctx ? n_ctx : 512;
    w->settings.poison = true;
}

void world_open(struct world *w, const struct hasten_model *m, const char *const *specs, int32_t n_ctx,
                int32_t n_seq_max)
{
    set_world(w, m, n_ctx);
    w->settings.n_seq_max = n_seq_max ? n_seq_max : 1;
    set_methods(w, NULL, specs);
    open_engine(w);
}

void world_open_with(struct world *w, const struct hasten_model *m, const struct method *own,
                     const char *const *specs, int32_t n_ctx)
{
    set_world(w, m, n_ctx);
    set_methods(w, own, specs);
    open_engine(w);
}

void world_close(struct world *w)
{
    hasten_seq_close(w->seq);
    hasten_engine_close(w->engine);
    sampler_close(w->sampler);
    sampler_memory_close(w->memory);
    *w = (struct world){0};
}

struct tokens world_ids(const struct hasten_model *m, const char *text)
{
    struct tokens ids = {0};
    struct hasten_error err;
    must(vocab_encode(model_vocab(m), text, strlen(text), VOCAB_BOS | VOCAB_SPECIAL, &ids, &err), &err);
    return ids;
}

void world_answer(struct world *w, const int32_t *ids, int64_t n, struct answer *out)
{
    struct hasten_error err;
    const struct run_task task = {.engine = w->engine,
                                  .seq = w->seq,
                                  .vocab = model_vocab(w->model),
                                  .law = &w->law,
                                  .ids = ids,
                                  .n = n};
    *out = (struct answer){0};
    must(run_answer(&task, NULL, NULL, out, &err), &err);
}

void world_says(struct world *w, const char *prompt, const char *want)
{
    struct answer a;
    struct tokens ids = world_ids(w->model, prompt);
    world_answer(w, ids.ids, ids.n, &a);
    assert_string_equal(a.text.data ? a.text.data : "", want);
    answer_free(&a);
    tokens_free(&ids);
}

/* ---- comparing ------------------------------------------------------------------------------------------------ */

struct row {
    float *logits;
};

static int keep_row(void *ctx, const float *logits, const struct hasten_logits_row *rows, int32_t n_rows,
                    int32_t n_vocab)
{
    const struct row *r = ctx;
    (void)rows, (void)n_rows;
    memcpy(r->logits, logits, (size_t)n_vocab * sizeof *logits);
    return 0;
}

/* The logits behind one more token, which is taken back; false: the context is full. */
static bool one_more(struct world *w, float *logits)
{
    struct hasten_error err;
    const int32_t token = 3, n = hasten_seq_length(w->seq);
    const struct hasten_item item = {.seq = w->seq, .tokens = &token, .n = 1, .want_from = 0};
    struct row r = {logits};
    if (n == hasten_engine_n_ctx(w->engine))
        return false;
    must(hasten_step(w->engine, &item, 1, keep_row, &r, NULL, &err), &err);
    must(hasten_seq_truncate(w->seq, n, &err), &err);
    return true;
}

static bool same_state(struct world *a, struct world *b)
{
    const int32_t n = hasten_seq_length(a->seq);
    const size_t bytes = (size_t)hasten_model_n_vocab(a->model) * sizeof(float);
    if (n != hasten_seq_length(b->seq) ||
        memcmp(hasten_seq_tokens(a->seq), hasten_seq_tokens(b->seq), (size_t)n * sizeof(int32_t)) != 0 ||
        hasten_seq_bytes(a->seq) != hasten_seq_bytes(b->seq))
        return false;
    float *x = calloc(2, bytes);
    float *y = x + bytes / sizeof(float);
    assert_non_null(x);
    const bool got = one_more(a, x), same = got == one_more(b, y) && memcmp(x, y, bytes) == 0;
    free(x);
    return same;
}

static bool same_answer(const struct answer *x, const struct answer *y)
{
    return x->ids.n == y->ids.n && x->finish == y->finish && x->by_stop_string == y->by_stop_string &&
           x->predicted_n == y->predicted_n && x->text.len == y->text.len &&
           (x->text.len == 0 || memcmp(x->text.data, y->text.data, x->text.len) == 0) &&
           (x->ids.n == 0 || memcmp(x->ids.ids, y->ids.ids, (size_t)x->ids.n * sizeof *x->ids.ids) == 0) &&
           (!x->chosen || memcmp(x->chosen, y->chosen, (size_t)x->ids.n * sizeof *x->chosen) == 0);
}

bool world_equal(struct world *a, const struct answer *x, struct world *b, const struct answer *y)
{
    return same_answer(x, y) && same_state(a, b);
}

void answer_must_equal(struct world *a, const struct answer *x, struct world *b, const struct answer *y,
                       const char *what)
{
    if (!same_answer(x, y))
        fail_msg("%s: %lld and %lld tokens, finish %d and %d, texts\n%s\nand\n%s", what, (long long)x->ids.n,
                 (long long)y->ids.n, (int)x->finish, (int)y->finish, x->text.data ? x->text.data : "",
                 y->text.data ? y->text.data : "");
    if (!same_state(a, b))
        fail_msg("%s: what the sequences hold differs: %d and %d positions", what,
                 (int)hasten_seq_length(a->seq), (int)hasten_seq_length(b->seq));
}
