/* Continues one text in several ways at once: the prompt is computed once, forked, and all branches share each step.
 *
 *     cc -o branches branches.c $(pkg-config --cflags --libs hasten)
 *     ./branches MODEL.gguf "Once upon a time" [BRANCHES [TOKENS]] */
#include <hasten/hasten.h>
#include <hasten/sample.h>
#include <hasten/text.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST 16

struct branch {
    struct hasten_seq *seq;
    struct hasten_sampler *sampler;
    int32_t next;
};

struct branches {
    struct hasten_model *model;
    struct hasten_engine *engine;
    struct branch branch[MOST];
    int32_t n;
    int32_t of_item[MOST];     /* the branch of each item of the step in progress */
    struct hasten_error error; /* of choosing */
};

/* Rows come in the order of the items: one each. */
static int choose(void *ctx, const float *logits, const struct hasten_logits_row *rows, int32_t n_rows,
                  int32_t n_vocab)
{
    struct branches *b = ctx;
    for (int32_t i = 0; i < n_rows; i++) {
        struct branch *to = &b->branch[b->of_item[rows[i].item]];
        if (hasten_sampler_choose(to->sampler, logits + (size_t)i * (size_t)n_vocab,
                                  hasten_seq_tokens(to->seq), hasten_seq_length(to->seq), &to->next,
                                  &b->error))
            return 1;
    }
    return 0;
}

static hasten_status open_all(struct branches *b, const char *path, struct hasten_error *err)
{
    struct hasten_engine_settings settings;
    struct hasten_sampler_settings law;
    hasten_status st;
    hasten_engine_default_settings(&settings);
    settings.n_seq_max = b->n;
    settings.n_ctx = 1024;
    if ((st = hasten_model_open(path, &b->model, err)) ||
        (st = hasten_engine_open(b->model, &settings, &b->engine, err)) ||
        (st = hasten_sampler_default_settings(b->model, &law, err)))
        return st;
    for (int32_t i = 0; i < b->n && !st; i++) {
        law.stream = (uint32_t)i; /* each branch has its own noise */
        st = hasten_sampler_open(b->model, &law, &b->branch[i].sampler, err);
    }
    return st;
}

/* All but the last token of the prompt go into branch 0, whose forks are the others. */
static hasten_status prefill(struct branches *b, const char *prompt, struct hasten_error *err)
{
    struct hasten_ids ids = {0};
    hasten_status st = hasten_tokenize(b->model, prompt, strlen(prompt), HASTEN_TEXT_BOS, &ids, err);
    if (!st)
        st = hasten_seq_open(b->engine, &b->branch[0].seq, err);
    const int32_t n = (int32_t)ids.n - 1;
    const struct hasten_item item = {.seq = b->branch[0].seq, .tokens = ids.ids, .n = n, .want_from = n};
    if (!st && n > 0)
        st = hasten_step(b->engine, &item, 1, NULL, NULL, NULL, err);
    for (int32_t i = 0; i < b->n && !st; i++) {
        if (i > 0)
            st = hasten_seq_fork(b->branch[0].seq, n > 0 ? n : 0, &b->branch[i].seq, err);
        b->branch[i].next = n >= 0 ? ids.ids[n] : 0;
    }
    hasten_ids_free(&ids);
    return st;
}

/* Appends to every branch that goes on the token chosen for it last: one step for all of them. */
static hasten_status advance(struct branches *b, bool *any, struct hasten_error *err)
{
    struct hasten_item items[MOST];
    int32_t n = 0;
    for (int32_t i = 0; i < b->n; i++)
        if (!hasten_token_ends(b->model, b->branch[i].next)) {
            b->of_item[n] = i;
            items[n++] = (struct hasten_item){.seq = b->branch[i].seq, .tokens = &b->branch[i].next, .n = 1};
        }
    *any = n > 0;
    b->error.status = HASTEN_OK; /* errors are written on failure only */
    const hasten_status st = n > 0 ? hasten_step(b->engine, items, n, choose, b, NULL, err) : HASTEN_OK;
    if (!st && b->error.status)
        *err = b->error;
    return st ? st : b->error.status;
}

static hasten_status show(const struct branches *b, struct hasten_error *err)
{
    struct hasten_bytes text = {0};
    hasten_status st = HASTEN_OK;
    for (int32_t i = 0; i < b->n && !st; i++) {
        text.len = 0;
        const struct hasten_seq *s = b->branch[i].seq;
        st = hasten_detokenize(b->model, hasten_seq_tokens(s), hasten_seq_length(s), false, &text, err);
        printf("--- %d\n%s\n", (int)i + 1, text.data ? text.data : "");
    }
    hasten_bytes_free(&text);
    return st;
}

int main(int argc, char **argv)
{
    struct branches b = {0};
    struct hasten_error err;
    b.n = argc > 3 ? atoi(argv[3]) : 3;
    const int n_tokens = argc > 4 ? atoi(argv[4]) : 40;
    if (argc < 3 || b.n < 1 || b.n > MOST) {
        fprintf(stderr, "usage: branches MODEL PROMPT [BRANCHES, 1 to %d [TOKENS]]\n", MOST);
        return 2;
    }
    bool any = true;
    hasten_status st = open_all(&b, argv[1], &err);
    if (!st)
        st = prefill(&b, argv[2], &err);
    for (int i = 0; i <= n_tokens && any && !st; i++) /* the first appends the end of the prompt */
        st = advance(&b, &any, &err);
    if (!st)
        st = show(&b, &err);
    if (st)
        fprintf(stderr, "branches: %s\n", err.message);
    for (int32_t i = 0; i < b.n; i++)
        hasten_sampler_close(b.branch[i].sampler);
    hasten_engine_close(b.engine);
    hasten_model_close(b.model);
    return hasten_exit_code(st);
}
