/* Continuous batching of conversations (generate.h). */
#include "eval/generate.h"
#include "engine/engine.h"
#include "sample/sampler.h"
#include "text/detok.h"
#include <string.h>

#define RETOKENIZED 8 /* more tokens that an answer may take when it is read again as text */

struct slot { /* one conversation under way */
    bool busy;
    struct eval_answered a;
    struct hasten_seq *seq;
    json_t *messages;
    struct tokens path; /* prompt and answer so far; what the sequence lacks is pending */
    int32_t turn, n_new;
    struct detok *detok;
    int32_t given; /* tokens of the step that runs */
    int32_t chosen;
};

struct batch {
    const struct eval_generator *g;
    const struct vocab *vocab;
    struct slot *slots; /* [n] */
    int32_t n;
    struct hasten_item *items; /* [n] of a step */
    struct slot **owners;      /* [n] of these items */
    struct sampler *sampler;
    struct sampler_settings law;
    hasten_status status; /* of the sink */
    struct hasten_error *err;
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
    const int32_t *held = hasten_seq_tokens(s->seq), have = hasten_seq_length(s->seq);
    int32_t keep = 0;
    /* Of another conversation nothing is kept: what a method does with it should not depend on who was here before. */
    while (s->turn > 0 && keep < have && keep < s->path.n - 1 && held[keep] == s->path.ids[keep])
        keep++;
    if (!st)
        st = hasten_seq_truncate(s->seq, keep, err);
    int32_t prompt = (int32_t)s->path.n;
    if (!st && b->g->blind && s->turn == 0 && item->context > 0)
        st = count_context(b, s, &prompt, err);
    if (!st)
        st = hasten_seq_announce(s->seq, prompt, err);
    struct gguf_str stops[8] = {{0}};
    const int32_t n_stops = item->n_stops < 8 ? item->n_stops : 8;
    for (int32_t i = 0; i < n_stops; i++)
        stops[i] = (struct gguf_str){item->stops[i], strlen(item->stops[i])};
    detok_close(s->detok);
    s->detok = NULL;
    if (!st)
        st = detok_open(b->vocab, stops, n_stops, false, true, &s->detok, err);
    s->n_new = 0;
    s->a.n_prompt += (int32_t)s->path.n - keep;
    return st;
}

/* ---- slots --------------------------------------------------------------------------------------------- */

static void clear_slot(struct slot *s)
{
    eval_item_clear(&s->a.item);
    for (int i = 0; i < EVAL_MAX_TURNS; i++)
        buf_free(&s->a.answers[i]);
    json_decref(s->messages);
    detok_close(s->detok);
    tokens_free(&s->path);
    *s = (struct slot){.seq = s->seq};
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

static hasten_status end_turn(struct batch *b, struct slot *s, struct hasten_error *err)
{
    struct buf *answer = &s->a.answers[s->turn];
    hasten_status st = detok_finish(s->detok, answer, err);
    if (st)
        return st;
    if (++s->turn < s->a.item.n_turns) {
        if (b->g->prompter)
            st = say(s->messages, "assistant", answer->data, answer->len, err);
        return st ? st : begin_turn(b, s, err);
    }
    st = b->g->done(b->g->ctx, &s->a, err);
    clear_slot(s);
    return st;
}

/* The token that was chosen for a slot joins its path, or ends its turn. */
static hasten_status take_chosen(struct batch *b, struct slot *s, struct hasten_error *err)
{
    const struct eval_item *item = &s->a.item;
    bool stopped = false;
    s->a.n_predicted++;
    if (vocab_is_eog(b->vocab, s->chosen))
        return end_turn(b, s, err);
    hasten_status st = detok_push(s->detok, s->chosen, &s->a.answers[s->turn], &stopped, err);
    if (st)
        return st;
    s->n_new++;
    s->a.cut[s->turn] = s->n_new >= item->max_new[s->turn] && !stopped;
    if (stopped || s->a.cut[s->turn])
        return end_turn(b, s, err);
    return tokens_push(&s->path, s->chosen) ? eval_no_memory(err) : HASTEN_OK;
}

/* ---- steps --------------------------------------------------------------------------------------------- */

static int choose(void *ctx, const float *logits, const struct hasten_logits_row *rows, int32_t n_rows,
                  int32_t n_vocab)
{
    struct batch *b = ctx;
    for (int32_t i = 0; i < n_rows && !b->status; i++) {
        struct slot *s = b->owners[rows[i].item];
        struct token_logprob chosen = {0};
        b->status = sampler_choose(b->sampler, NULL, &b->law, logits + (int64_t)i * n_vocab, s->path.ids,
                                   s->path.n, s->path.n, &chosen, NULL, b->err);
        s->chosen = chosen.id;
    }
    return b->status != HASTEN_OK;
}

/* Rows of a step: first one for each conversation that is being answered, then prompts in the order of the slots. */
static int32_t plan(struct batch *b)
{
    int32_t n = 0, room = b->g->n_batch;
    for (int pass = 0; pass < 2; pass++)
        for (int32_t i = 0; i < b->n; i++) {
            struct slot *s = &b->slots[i];
            const int32_t have = s->busy ? hasten_seq_length(s->seq) : 0;
            const int32_t pending = s->busy ? (int32_t)s->path.n - have : 0;
            if (!s->busy || (pass == 0) != (pending == 1) || room == 0)
                continue;
            s->given = pending < room ? pending : room;
            room -= s->given;
            b->owners[n] = s;
            b->items[n++] = (struct hasten_item){.seq = s->seq,
                                                 .tokens = s->path.ids + have,
                                                 .n = s->given,
                                                 .want_from = s->given - (s->given == pending)};
        }
    return n;
}

static hasten_status step(struct batch *b, struct hasten_error *err)
{
    const int32_t n = plan(b);
    hasten_status st = hasten_step(b->g->engine, b->items, n, choose, b, b->g->cancel, err);
    if (!st)
        st = b->status;
    for (int32_t i = 0; i < n && !st; i++)
        if (b->items[i].want_from < b->items[i].n)
            st = take_chosen(b, b->owners[i], err);
    return st;
}

static hasten_status open_batch(struct batch *b, struct hasten_error *err)
{
    b->slots = mem_calloc((size_t)b->n, sizeof *b->slots);
    b->items = mem_array((size_t)b->n, sizeof *b->items);
    b->owners = mem_array((size_t)b->n, sizeof(struct slot *));
    if (!b->slots || !b->items || !b->owners)
        return eval_no_memory(err);
    sampler_default_settings(&b->law);
    b->law.temperature = 0;
    hasten_status st = sampler_open(hasten_model_n_vocab(b->g->engine->model), &b->sampler, err);
    for (int32_t i = 0; i < b->n && !st; i++)
        st = hasten_seq_open(b->g->engine, &b->slots[i].seq, err);
    return st;
}

static void close_batch(struct batch *b)
{
    for (int32_t i = 0; i < b->n && b->slots; i++) {
        clear_slot(&b->slots[i]);
        hasten_seq_close(b->slots[i].seq);
    }
    sampler_close(b->sampler);
    mem_free(b->slots);
    mem_free(b->items);
    mem_free(b->owners);
}

hasten_status eval_generate(const struct eval_generator *g, struct hasten_error *err)
{
    struct batch b = {.g = g, .vocab = model_vocab(g->engine->model), .n = g->n_parallel, .err = err};
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
