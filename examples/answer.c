/* Answers one question, token by token: a model, an engine, a sequence, a step for the prompt and one for each token.
 *
 *     cc -o answer answer.c $(pkg-config --cflags --libs hasten)
 *     ./answer MODEL.gguf "Why is the sky blue?" [TOKENS [TEMPERATURE]] */
#include <hasten/hasten.h>
#include <hasten/sample.h>
#include <hasten/text.h>
#include <stdio.h>
#include <stdlib.h>

struct answer {
    struct hasten_model *model;
    struct hasten_engine *engine;
    struct hasten_seq *seq;
    struct hasten_chat *chat;
    struct hasten_stream *stream;
    struct hasten_sampler *sampler;
    struct hasten_ids prompt;
    struct hasten_bytes text;
    int32_t next;              /* the token that was chosen last */
    struct hasten_error error; /* of choosing */
};

/* The sink: gets the row of logits that the step was asked for. */
static int choose(void *ctx, const float *logits, const struct hasten_logits_row *rows, int32_t n_rows,
                  int32_t n_vocab)
{
    struct answer *a = ctx;
    (void)rows, (void)n_rows, (void)n_vocab;
    a->error.status = HASTEN_OK; /* errors are written on failure only */
    return hasten_sampler_choose(a->sampler, logits, hasten_seq_tokens(a->seq), hasten_seq_length(a->seq),
                                 &a->next, &a->error) != HASTEN_OK;
}

/* Appends tokens to the sequence, and chooses the one that follows. */
static hasten_status step(struct answer *a, const int32_t *tokens, int32_t n, struct hasten_error *err)
{
    const struct hasten_item item = {.seq = a->seq, .tokens = tokens, .n = n, .want_from = n - 1};
    const hasten_status st = hasten_step(a->engine, &item, 1, choose, a, NULL, err);
    if (!st && a->error.status)
        *err = a->error;
    return st ? st : a->error.status;
}

static hasten_status open_all(struct answer *a, const char *path, float temperature, struct hasten_error *err)
{
    struct hasten_engine_settings settings;
    struct hasten_sampler_settings law;
    hasten_status st;
    hasten_engine_default_settings(&settings);
    if ((st = hasten_model_open(path, &a->model, err)) ||
        (st = hasten_engine_open(a->model, &settings, &a->engine, err)) ||
        (st = hasten_seq_open(a->engine, &a->seq, err)) || (st = hasten_chat_open(a->model, &a->chat, err)) ||
        (st = hasten_stream_open(a->model, NULL, 0, true, &a->stream, err)) ||
        (st = hasten_sampler_default_settings(a->model, &law, err)))
        return st;
    law.temperature = temperature;
    return hasten_sampler_open(a->model, &law, &a->sampler, err);
}

/* Prints what may be shown, and forgets it. */
static void show(struct hasten_bytes *text)
{
    if (text->len > 0)
        fwrite(text->data, 1, text->len, stdout);
    fflush(stdout);
    text->len = 0;
}

static hasten_status talk(struct answer *a, const char *question, int n_tokens, struct hasten_error *err)
{
    const struct hasten_message message = {.role = "user", .content = question};
    bool stopped = false;
    hasten_status st;
    if ((st = hasten_chat_encode(a->chat, &message, 1, true, &a->prompt, err)) ||
        (st = step(a, a->prompt.ids, (int32_t)a->prompt.n, err)))
        return st;
    for (int i = 0; i < n_tokens && !hasten_token_ends(a->model, a->next); i++) {
        if ((st = hasten_stream_push(a->stream, a->next, &a->text, &stopped, err)))
            return st;
        show(&a->text);
        if ((st = step(a, &a->next, 1, err)))
            return st;
    }
    st = hasten_stream_finish(a->stream, &a->text, err);
    show(&a->text);
    printf("\n");
    return st;
}

int main(int argc, char **argv)
{
    struct answer a = {0};
    struct hasten_error err;
    if (argc < 3) {
        fprintf(stderr, "usage: answer MODEL QUESTION [TOKENS [TEMPERATURE]]\n");
        return 2;
    }
    hasten_status st = open_all(&a, argv[1], argc > 4 ? strtof(argv[4], NULL) : 0, &err);
    if (!st)
        st = talk(&a, argv[2], argc > 3 ? atoi(argv[3]) : 256, &err);
    if (st)
        fprintf(stderr, "answer: %s\n", err.message);
    hasten_bytes_free(&a.text);
    hasten_ids_free(&a.prompt);
    hasten_sampler_close(a.sampler);
    hasten_stream_close(a.stream);
    hasten_chat_close(a.chat);
    hasten_engine_close(a.engine); /* and its sequences */
    hasten_model_close(a.model);
    return hasten_exit_code(st);
}
