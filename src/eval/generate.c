/* Continuous batching of conversations (generate.h). */
#include "eval/generate.h"
#include "engine/engine.h"
#include "run/run.h"
#include <string.h>

#define RETOKENIZED 8 /* more tokens that an answer may take when it is read again as text */
#define MAX_STOPS 8

struct slot { /* one conversation under way */
    bool busy;
    struct eval_answered a;
    struct hasten_seq *seq;
    struct speculation *drafts; /* of the sequence */
    json_t *messages;
    struct tokens path; /* the prompt of the turn */
    int32_t turn;
    struct sampling law;
    struct gguf_str stops[MAX_STOPS];
    struct run *run; /* of the turn */
    struct answer answer;
    bool wants; /* more rows of the step */
};

struct batch {
    const struct eval_generator *g;
    const struct vocab *vocab;
    struct slot *slots; /* [n] */
    int32_t n;
    struct hasten_item *items; /* [n] of a step */
    struct slot **owners;      /* [n] of these items */
    struct sampler *sampler;   /* nothing in it survives a call, so the slots share it */
};

/* ---- prompts ------------------------------------------------------------------------------------------- */

static hasten_status say(json_t *messages, const char *role, const char *text, size_t len,
                         struct hasten_error *err)
{
    json_t *content = json_stringn(text ? text : "", len);
    if (!content) { /* an answer that ends within a character, or a text from outside */
        struct buf clean = {0};
        for (size_t i = 0; i < len; i++)
            if ((unsigned char)text[i] < 0x80 && buf_putc(&clean, text[i]))
                break;
        content = json_stringn(clean.data ? clean.data : "", clean.len);
        buf_free(&clean);
    }
    json_t *m = content ? json_pack("{s:s, s:o}", "role", role, "content", content) : NULL;
    return m && !json_array_append_new(messages, m) ? HASTEN_OK : eval_no_memory(err);
}

static hasten_status encode(const struct prompter *p, const json_t *messages, struct tokens *out,
                            struct hasten_error *err)
{
    struct prompt text = {0};
    out->n = 0;
    hasten_status st = prompter_render(p, messages, NULL, true, &text, err);
    if (!st)
        st = prompter_encode(p, &text, 0, out, err);
    prompt_free(&text);
    return st;
}

int64_t eval_item_tokens(const struct prompter *p, const struct vocab *v, const struct eval_item *item,
                         struct hasten_error *err)
{
    struct tokens ids = {0};
    int64_t n = 0;
    hasten_status st = HASTEN_OK;
    json_t *messages = json_array();
    for (int32_t i = 0; i < item->n_turns && !st; i++) {
        const struct buf *t = &item->turns[i];
        n += item->max_new[i] + (i > 0 ? RETOKENIZED : 0);
        if (!p)
            st = vocab_encode(v, t->data, t->len, i == 0 ? VOCAB_BOS : VOCAB_NO_PREFIX, &ids, err);
        else if (!(st = say(messages, "user", t->data, t->len, err)) && i + 1 < item->n_turns)
            st = say(messages, "assistant", "", 0, err);
    }
    if (!st && p)
        st = encode(p, messages, &ids, err);
    json_decref(messages);
    n += ids.n;
    tokens_free(&ids);
    return st ? -1 : n;
}

/* Tokens of the path that a question does not change: what is the same when the turn ends with its context. */
static hasten_status count_context(const struct batch *b, const struct slot *s, int32_t *n,
                                   struct hasten_error *err)
{
    const struct buf *t = &s->a.item.turns[0];
    struct tokens other = {0};
    json_t *messages = json_array();
    hasten_status st = messages ? HASTEN_OK : eval_no_memory(err);
    if (!st && !b->g->prompter)
        st = vocab_encode(b->vocab, t->data, s->a.item.context, VOCAB_BOS, &other, err);
    else if (!st && !(st = say(messages, "user", t->data, s->a.item.context, err)))
        st = encode(b->g->prompter, messages, &other, err);
    for (*n = 0; *n < other.n && *n < s->path.n && other.ids[*n] == s->path.ids[*n];)
        ++*n;
    tokens_free(&other);
    json_decref(messages);
    return st;
}

/* The law of a turn. */
static void set_law(struct batch *b, struct slot *s)
{
    const struct eval_item *item = &s->a.item;
    s->law = (struct sampling){.sampler = b->sampler, .n_predict = item->max_new[s->turn], .stops = s->stops};
    sampler_default_settings(&s->law.settings);
    s->law.settings.temperature = 0;
    for (int32_t i = 0; i < item->n_stops && i < MAX_STOPS; i++)
        s->stops[s->law.n_stops++] = (struct gguf_str){item->stops[i], strlen(item->stops[i])};
}

/* A run over the path. Of another conversation nothing is kept: what a method does with it should not depend on who was
 * here before. */
static hasten_status open_run(struct batch *b, struct slot *s, struct hasten_error *err)
{
    const struct eval_item *item = &s->a.item;
    struct run_task task = {.engine = b->g->engine,
                            .seq = s->seq,
                            .vocab = b->vocab,
                            .law = &s->law,
                            .ids = s->path.ids,
                            .n = s->path.n,
                            .drafts = s->drafts,
                            .cancel = b->g->cancel};
    hasten_status st = s->turn == 0 ? hasten_seq_truncate(s->seq, 0, err) : HASTEN_OK;
    if (!st && b->g->blind && s->turn == 0 && item->context > 0)
        st = count_context(b, s, &task.n_announced, err);
    set_law(b, s);
    answer_free(&s->answer);
    if (!st)
        st = run_open(&task, &s->answer, &s->run, err);
    s->a.n_prompt += s->answer.prompt_n - s->answer.cached_n;
    return st;
}

/* The next user message is part of the path; the sequence keeps what it holds of it. */
static hasten_status begin_turn(struct batch *b, struct slot *s, struct hasten_error *err)
{
    const struct eval_item *item = &s->a.item;
    const struct buf *t = &item->turns[s->turn];
    hasten_status st = HASTEN_OK;
    if (b->g->prompter) {
        st = say(s->messages, "user", t->data, t->len, err);
        if (!st)
            st = encode(b->g->prompter, s->messages, &s->path, err);
    } else {
        st = vocab_encode(b->vocab, t->data, t->len, s->turn == 0 ? VOCAB_BOS : VOCAB_NO_PREFIX, &s->path,
                          err);
    }
    if (!st && s->path.n < 1)
        st = error_set(err, HASTEN_ERR_USAGE,
                       "eval: item %s has a prompt without tokens (expected at least one)", item->id.data);
    return st ? st : open_run(b, s, err);
}

/* ---- slots --------------------------------------------------------------------------------------------- */

static void clear_slot(struct slot *s)
{
    eval_item_clear(&s->a.item);
    for (int i = 0; i < EVAL_MAX_TURNS; i++)
        buf_free(&s->a.answers[i]);
    json_decref(s->messages);
    run_close(s->run);
    answer_free(&s->answer);
    tokens_free(&s->path);
    *s = (struct slot){.seq = s->seq, .drafts = s->drafts};
}

/* False when there is nothing to fill it with. */
static bool fill_slot(struct batch *b, struct slot *s, hasten_status *st, struct hasten_error *err)
{
    if (!b->g->next(b->g->ctx, &s->a.item, &s->a.tag, st, err))
        return false;
    s->busy = true;
    s->messages = json_array();
    if (!s->messages)
        *st = eval_no_memory(err);
    if (!*st)
        *st = begin_turn(b, s, err);
    return !*st;
}

/* The run is through: its text is the answer, and the next turn begins. */
static hasten_status end_turn(struct batch *b, struct slot *s, struct hasten_error *err)
{
    struct buf *answer = &s->a.answers[s->turn];
    hasten_status st = HASTEN_OK;
    *answer = s->answer.text;
    s->answer.text = (struct buf){0};
    s->a.cut[s->turn] = s->answer.finish == FINISH_LENGTH;
    s->a.n_predicted += s->answer.predicted_n;
    run_close(s->run);
    s->run = NULL;
    for (int64_t i = 0; i < s->answer.ids.n && !b->g->prompter && !st; i++)
        st = tokens_push(&s->path, s->answer.ids.ids[i]) ? eval_no_memory(err) : HASTEN_OK;
    if (!st && ++s->turn < s->a.item.n_turns) {
        if (b->g->prompter)
            st = say(s->messages, "assistant", answer->data, answer->len, err);
        return st ? st : begin_turn(b, s, err);
    }
    if (!st)
        st = b->g->done(b->g->ctx, &s->a, err);
    clear_slot(s);
    return st;
}

/* ---- steps --------------------------------------------------------------------------------------------- */

static int take_rows(void *ctx, const float *logits, const struct hasten_logits_row *rows, int32_t n_rows,
                     int32_t n_vocab)
{
    struct batch *b = ctx;
    for (int32_t i = 0; i < n_rows; i++) {
        struct slot *s = b->owners[rows[i].item];
        if (s->wants)
            s->wants = run_take(s->run, logits + (int64_t)i * n_vocab);
    }
    return 0;
}

/* Adds what a slot's run wants next to the step, or ends its turn. */
static hasten_status plan_slot(struct batch *b, struct slot *s, int32_t *n, int32_t *room,
                               struct hasten_error *err)
{
    if (!run_next(s->run, b->g->n_batch, &b->items[*n]))
        return end_turn(b, s, err);
    *room -= b->items[*n].n;
    s->wants = true;
    b->owners[(*n)++] = s;
    return HASTEN_OK;
}

/* First the conversations that are being answered, then prompts in the order of the slots, while there is room. */
static hasten_status plan(struct batch *b, int32_t *n, struct hasten_error *err)
{
    hasten_status st = HASTEN_OK;
    int32_t room = b->g->n_batch;
    uint64_t done, total;
    *n = 0;
    for (int pass = 0; pass < 2; pass++)
        for (int32_t i = 0; i < b->n && !st; i++) {
            struct slot *s = &b->slots[i];
            const bool reading = s->busy && run_reading(s->run, &done, &total);
            if (s->busy && reading == (pass == 1) && (!reading || room > 0))
                st = plan_slot(b, s, n, &room, err);
        }
    return st;
}

static hasten_status step(struct batch *b, struct hasten_error *err)
{
    int32_t n;
    hasten_status st = plan(b, &n, err);
    if (st || n == 0)
        return st;
    st = hasten_step(b->g->engine, b->items, n, take_rows, b, b->g->cancel, err);
    if (st == HASTEN_ERR_CANCELLED)
        return st;
    hasten_status first = HASTEN_OK;
    for (int32_t i = 0; i < n && !first; i++)
        first = run_after(b->owners[i]->run, st, err);
    return first;
}

static hasten_status open_batch(struct batch *b, struct hasten_error *err)
{
    b->slots = mem_calloc((size_t)b->n, sizeof *b->slots);
    b->items = mem_array((size_t)b->n, sizeof *b->items);
    b->owners = mem_array((size_t)b->n, sizeof(struct slot *));
    if (!b->slots || !b->items || !b->owners)
        return eval_no_memory(err);
    hasten_status st = sampler_open(hasten_model_n_vocab(b->g->engine->model), &b->sampler, err);
    for (int32_t i = 0; i < b->n && !st; i++) {
        st = hasten_seq_open(b->g->engine, &b->slots[i].seq, err);
        if (!st)
            st = speculation_open(b->g->engine, &b->slots[i].drafts, err);
    }
    return st;
}

static void close_batch(struct batch *b)
{
    for (int32_t i = 0; i < b->n && b->slots; i++) {
        clear_slot(&b->slots[i]);
        speculation_close(b->slots[i].drafts);
        hasten_seq_close(b->slots[i].seq);
    }
    sampler_close(b->sampler);
    mem_free(b->slots);
    mem_free(b->items);
    mem_free(b->owners);
}

hasten_status eval_generate(const struct eval_generator *g, struct hasten_error *err)
{
    struct batch b = {.g = g, .vocab = model_vocab(g->engine->model), .n = g->n_parallel};
    bool more = true;
    hasten_status st = open_batch(&b, err);
    while (!st) {
        int32_t busy = 0;
        for (int32_t i = 0; i < b.n && !st; i++) {
            if (!b.slots[i].busy && more)
                more = fill_slot(&b, &b.slots[i], &st, err);
            busy += b.slots[i].busy;
        }
        if (st || busy == 0)
            break;
        st = step(&b, err);
    }
    close_batch(&b);
    return st;
}
