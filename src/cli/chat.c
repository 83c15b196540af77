/* Conversations (chat.h).
 *
 * How a turn prefills only what is new: the text behind the sequence (`said`) and its ids are kept. When the
 * newly rendered conversation begins with that text, only the rest is encoded and appended to the ids: the
 * answer keeps the very tokens the model chose, which re-encoding might split otherwise. When it does not (the
 * template rewrites an answer, a stop string cut it, turns were dropped), all is encoded again and the sequence
 * keeps the longest common prefix (generate.c). Either way the result equals a fresh run on the same ids.
 *
 * When the context is full, the oldest question and answer go first, never the system message. */
#include "cli/chat.h"
#include <jansson.h>
#include <string.h>

static hasten_status no_memory(struct hasten_error *err)
{
    return error_set(err, HASTEN_ERR_MEMORY, "chat: out of memory");
}

static void forget_text(struct chat *c)
{
    buf_clear(&c->said);
    c->ids.n = 0;
    c->answered = false;
}

static hasten_status add_message(struct chat *c, const char *role, json_t *content, struct hasten_error *err)
{
    json_t *m = json_pack("{s:s, s:o}", "role", role, "content", content);
    return json_array_append_new(c->messages, m) ? no_memory(err) : HASTEN_OK;
}

static bool has_system(const struct chat *c)
{
    const json_t *first = json_array_get(c->messages, 0);
    const char *role = json_string_value(json_object_get(first, "role"));
    return role && strcmp(role, "system") == 0;
}

/* Text from outside as a JSON string; the template works on characters, so it must be UTF-8. */
static hasten_status text_json(const char *what, const char *text, size_t len, json_t **out,
                               struct hasten_error *err)
{
    *out = json_stringn(text, len);
    return *out ? HASTEN_OK
                : error_set(err, HASTEN_ERR_USAGE,
                            "%s: not valid UTF-8 (expected UTF-8; --raw takes any bytes)", what);
}

hasten_status chat_restart(struct chat *c, const char *system, struct hasten_error *err)
{
    if (system && *system && !c->prompter)
        return error_set(err, HASTEN_ERR_USAGE,
                         "system prompt: there is no chat template to hold it (expected it in the prompt)");
    json_t *kept = has_system(c) ? json_incref(json_array_get(c->messages, 0)) : NULL;
    json_array_clear(c->messages);
    forget_text(c);
    if (!system) {
        if (kept && json_array_append_new(c->messages, kept))
            return no_memory(err);
        return HASTEN_OK;
    }
    json_decref(kept);
    json_t *content = NULL;
    if (!*system)
        return HASTEN_OK;
    hasten_status st = text_json("system prompt", system, strlen(system), &content, err);
    return st ? st : add_message(c, "system", content, err);
}

hasten_status chat_open(struct chat *c, struct session *s, struct sampling *law, struct ui *ui, bool raw,
                        const char *system, struct hasten_error *err)
{
    c->session = s;
    c->law = law;
    c->ui = ui;
    c->messages = json_array();
    if (!c->messages)
        return no_memory(err);
    hasten_status st = HASTEN_OK;
    if (!raw && prompter_open(s->gguf, s->vocab, &c->prompter, err))
        st = error_prefix(err, "%s", s->path.data);
    if (!st && system)
        st = chat_restart(c, system, err);
    if (!st && !raw && !c->prompter)
        ui_note(ui, "%s has no chat template: completing raw", s->path.data);
    if (st)
        chat_close(c);
    return st;
}

void chat_close(struct chat *c)
{
    prompter_close(c->prompter);
    json_decref(c->messages);
    buf_free(&c->said);
    tokens_free(&c->ids);
    *c = (struct chat){0};
}

/* ---- prompts ------------------------------------------------------------------------------------------- */

static hasten_status raw_prompt(struct chat *c, const char *text, size_t len, struct hasten_error *err)
{
    unsigned flags = c->ids.n ? VOCAB_NO_PREFIX : VOCAB_BOS;
    return vocab_encode(c->session->vocab, text, len, flags, &c->ids, err);
}

/* The conversation as ids into c->ids, keeping what still stands. */
static hasten_status rendered_prompt(struct chat *c, struct hasten_error *err)
{
    struct prompt p = {0};
    hasten_status st = prompter_render(c->prompter, c->messages, NULL, true, &p, err);
    if (st)
        error_prefix(err, "%s", c->session->path.data);
    bool extends = !st && c->ids.n > 0 && p.text.len > c->said.len &&
                   memcmp(p.text.data, c->said.data, c->said.len) == 0;
    if (!st && !extends)
        forget_text(c);
    if (!st)
        st = prompter_encode(c->prompter, &p, extends ? c->said.len : 0, &c->ids, err);
    if (!st) {
        buf_clear(&c->said);
        if (buf_put(&c->said, p.text.data ? p.text.data : "", p.text.len))
            st = no_memory(err);
    }
    prompt_free(&p);
    return st;
}

static bool drop_oldest_turn(struct chat *c)
{
    size_t first = has_system(c), n = json_array_size(c->messages);
    if (n < first + 3) /* only the new question is left */
        return false;
    json_array_remove(c->messages, first);
    json_array_remove(c->messages, first);
    forget_text(c);
    return true;
}

/* Room kept for an answer: what was asked for, at most a quarter of the context. */
static int64_t answer_room(const struct chat *c)
{
    int64_t quarter = hasten_engine_n_ctx(c->session->engine) / 4;
    return c->law->n_predict >= 0 && c->law->n_predict < quarter ? c->law->n_predict : quarter;
}

static hasten_status fit_prompt(struct chat *c, struct hasten_error *err)
{
    int64_t n_ctx = hasten_engine_n_ctx(c->session->engine);
    int dropped = 0;
    hasten_status st = rendered_prompt(c, err);
    while (!st && c->ids.n + answer_room(c) > n_ctx && drop_oldest_turn(c)) {
        dropped++;
        st = rendered_prompt(c, err);
    }
    bool fits = c->ids.n <= n_ctx; /* else the turn fails, and what was dropped comes back */
    if (!st && fits && dropped == 1)
        ui_note(c->ui, "the context of %lld tokens is full: dropped the oldest turn", (long long)n_ctx);
    else if (!st && fits && dropped)
        ui_note(c->ui, "the context of %lld tokens is full: dropped the %d oldest turns", (long long)n_ctx,
                dropped);
    return st;
}

/* ---- turns --------------------------------------------------------------------------------------------- */

/* After an answer: may its tokens stand for its text in the next prompt? Not when text was held back (a stop
 * string, hidden control tokens). The text is that of the message (invalid UTF-8 replaced), which the template
 * will render; the tokens are those the model chose. Raw, the transcript simply goes on after them. */
static void remember_answer(struct chat *c, const struct answer *a, const json_t *message)
{
    bool exact = !c->prompter || !a->by_stop_string;
    for (int64_t i = 0; i < a->ids.n && exact && c->prompter; i++)
        exact = vocab_type(c->session->vocab, a->ids.ids[i]) != VOCAB_CONTROL;
    int bad = !exact;
    for (int64_t i = 0; i < a->ids.n && !bad; i++)
        bad |= tokens_push(&c->ids, a->ids.ids[i]);
    const json_t *content = json_object_get(message, "content");
    if (content && !bad)
        bad |= buf_put(&c->said, json_string_value(content), json_string_length(content));
    if (bad)
        forget_text(c);
}

static hasten_status turn(struct chat *c, const char *text, size_t len, answer_fn show, void *show_ctx,
                          struct answer *out, struct hasten_error *err)
{
    hasten_status st;
    if (c->prompter) {
        json_t *content = NULL;
        st = text_json("prompt", text, len, &content, err);
        if (!st)
            st = add_message(c, "user", content, err);
        if (!st)
            st = fit_prompt(c, err);
    } else {
        st = raw_prompt(c, text, len, err);
    }
    return st ? st
              : answer_generate(c->session, c->law, c->ids.ids, c->ids.n, show, show_ctx, c->ui, out, err);
}

hasten_status chat_turn(struct chat *c, const char *text, size_t len, answer_fn show, void *show_ctx,
                        struct answer *out, struct hasten_error *err)
{
    const int64_t n_before = c->ids.n;
    json_t *before = json_copy(c->messages);
    if (!before)
        return no_memory(err);
    hasten_status st = turn(c, text, len, show, show_ctx, out, err);
    if (!st && c->prompter) {
        json_t *content = json_bytes(out->text.data ? out->text.data : "", out->text.len);
        st = content ? add_message(c, "assistant", content, err) : no_memory(err);
    }
    if (st) {
        json_decref(c->messages);
        c->messages = before;
        if (c->prompter)
            forget_text(c);
        else
            c->ids.n = n_before; /* the transcript is nowhere else */
        return st;
    }
    json_decref(before);
    if (!c->prompter) {
        c->asked_at = n_before;
        buf_clear(&c->said);
        c->answered = buf_put(&c->said, text, len) == 0;
    }
    remember_answer(c, out, json_array_get(c->messages, json_array_size(c->messages) - 1));
    return HASTEN_OK;
}

bool chat_can_repeat(const struct chat *c)
{
    return c->prompter ? json_array_size(c->messages) >= (size_t)has_system(c) + 2 : c->answered;
}

static hasten_status repeat_rendered(struct chat *c, answer_fn show, void *show_ctx, struct answer *out,
                                     struct hasten_error *err)
{
    const size_t n = json_array_size(c->messages);
    json_t *before = c->messages, *shorter = json_copy(before);
    if (!shorter)
        return no_memory(err);
    const json_t *question = json_object_get(json_array_get(before, n - 2), "content");
    json_array_remove(shorter, n - 1);
    json_array_remove(shorter, n - 2);
    c->messages = shorter;
    forget_text(c);
    hasten_status st =
        chat_turn(c, json_string_value(question), json_string_length(question), show, show_ctx, out, err);
    if (st) {
        json_decref(c->messages);
        c->messages = before;
    } else {
        json_decref(before);
    }
    return st;
}

/* Raw, the transcript is nowhere but in the ids: those of the question and its answer are kept meanwhile. */
static hasten_status repeat_raw(struct chat *c, answer_fn show, void *show_ctx, struct answer *out,
                                struct hasten_error *err)
{
    struct tokens ids = {0};
    struct buf question = {0};
    int bad = buf_put(&question, c->said.data ? c->said.data : "", c->said.len);
    for (int64_t i = 0; i < c->ids.n && !bad; i++)
        bad = tokens_push(&ids, c->ids.ids[i]);
    hasten_status st = bad ? no_memory(err) : HASTEN_OK;
    if (!st) {
        c->ids.n = c->asked_at;
        st = chat_turn(c, question.data, question.len, show, show_ctx, out, err);
        if (st) {
            struct tokens shorter = c->ids;
            c->ids = ids;
            ids = shorter;
        }
    }
    tokens_free(&ids);
    buf_free(&question);
    return st;
}

hasten_status chat_repeat(struct chat *c, answer_fn show, void *show_ctx, struct answer *out,
                          struct hasten_error *err)
{
    return c->prompter ? repeat_rendered(c, show, show_ctx, out, err)
                       : repeat_raw(c, show, show_ctx, out, err);
}
