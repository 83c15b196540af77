/* From what a request calls its prompt to token ids (request.h). Generation, tokenize and render use the same, so that
 * what a router counts is what is computed. */
#include "serve/inside.h"
#include "serve/structured.h"
#include <stdio.h>
#include <string.h>

/* ---- conversations ------------------------------------------------------------------------------------------ */

/* The text of content parts, joined by newlines: what most templates want. NULL after filling f. */
static json_t *flat_content(const json_t *parts, size_t message, struct fault *f)
{
    struct buf text = {0};
    char param[64];
    int bad = buf_puts(&text, "");
    for (size_t i = 0; i < json_array_size(parts); i++) {
        const json_t *part = json_array_get(parts, i), *t = json_object_get(part, "text");
        const char *type = json_string_value(json_object_get(part, "type"));
        snprintf(param, sizeof param, "messages[%zu].content[%zu]", message, i);
        if (!type || !json_is_string(t) || (strcmp(type, "text") != 0 && strcmp(type, "input_text") != 0)) {
            fault_set(f, 400, "unsupported_value", param, "%s: a part of type '%.32s' (expected text parts)",
                      param, type ? type : "?");
            buf_free(&text);
            return NULL;
        }
        bad |= (i && buf_putc(&text, '\n')) || buf_put(&text, json_string_value(t), json_string_length(t));
    }
    json_t *v = bad ? NULL : json_stringn(text.data, text.len);
    buf_free(&text);
    if (!v)
        fault_set(f, 503, "out_of_memory", NULL, "no memory for the messages");
    return v;
}

/* A message as templates know it, checked: a new reference, or NULL after filling f. */
static json_t *message_for_template(const struct server *s, const json_t *m, size_t i, struct fault *f)
{
    char param[64];
    json_t *content = json_object_get(m, "content");
    const char *role = json_string_value(json_object_get(m, "role"));
    snprintf(param, sizeof param, "messages[%zu]", i);
    if (!role || !*role) {
        fault_set(f, 400, "invalid_value", param, "%s: expected an object with a role and a content", param);
        return NULL;
    }
    if (content && !json_is_string(content) && !json_is_array(content) && !json_is_null(content)) {
        snprintf(param, sizeof param, "messages[%zu].content", i);
        fault_set(f, 400, "invalid_value", param, "%s: expected a string, or an array of text parts", param);
        return NULL;
    }
    json_t *copy = json_copy((json_t *)(uintptr_t)m);
    if (copy && strcmp(role, "developer") == 0)
        json_object_set_new(copy, "role", json_string("system"));
    if (copy && json_is_array(content)) {
        json_t *flat = flat_content(content, i, f);
        if (!flat) {
            json_decref(copy);
            return NULL;
        }
        json_object_set_new(copy, "content", flat);
    }
    if (!copy)
        fault_set(f, 503, "out_of_memory", NULL, "no memory for the messages");
    if (copy && !structured_calls(s, copy, i, f)) {
        json_decref(copy);
        return NULL;
    }
    return copy;
}

static json_t *messages_for_template(const struct server *s, const json_t *messages, struct fault *f)
{
    json_t *list = json_array();
    for (size_t i = 0; i < json_array_size(messages) && list; i++) {
        json_t *m = message_for_template(s, json_array_get(messages, i), i, f);
        if (!m || json_array_append_new(list, m)) {
            json_decref(list);
            return NULL;
        }
    }
    if (!list)
        fault_set(f, 503, "out_of_memory", NULL, "no memory for the messages");
    return list;
}

/* The template's further variables: chat_template_kwargs and what clients send beside it. */
static json_t *variables_of(const struct params *p)
{
    json_t *v = p->chat_template_kwargs ? json_copy(p->chat_template_kwargs) : json_object();
    if (p->reasoning_effort && v && !json_object_get(v, "reasoning_effort"))
        json_object_set(v, "reasoning_effort", p->reasoning_effort);
    return v;
}

bool prompt_of_chat(struct server *s, const struct params *p, struct tokens *ids, struct buf *text,
                    struct fault *f)
{
    struct prompt out = {0};
    struct hasten_error err;
    if (!s->prompter)
        return fault_set(f, 400, "no_chat_template", "messages",
                         "the model has no chat template (expected a prompt at /v1/completions)");
    if (!p->messages || json_array_size(p->messages) == 0)
        return fault_set(f, 400, p->messages ? "invalid_value" : "missing_required_parameter", "messages",
                         "messages: %s (expected an array of messages)", p->messages ? "empty" : "missing");
    json_t *messages = messages_for_template(s, p->messages, f),
           *variables = messages ? variables_of(p) : NULL;
    bool ok = messages && variables;
    if (messages && !variables)
        fault_set(f, 503, "out_of_memory", NULL, "no memory for the messages");
    if (ok && prompter_render_with(s->prompter, messages, p->tools, variables, p->add_generation_prompt, &out,
                                   &err))
        ok = fault_of(f, &err);
    ok =
        ok && (!ids || !text || server_check_text(s, out.text.len, "messages", f)); /* both: to be answered */
    if (ok && ids && prompter_encode(s->prompter, &out, 0, ids, &err))
        ok = fault_of(f, &err);
    if (ok && text && buf_put(text, out.text.data ? out.text.data : "", out.text.len))
        ok = fault_set(f, 503, "out_of_memory", NULL, "no memory for the prompt");
    prompt_free(&out);
    json_decref(messages);
    json_decref(variables);
    return ok;
}

/* ---- the four forms ----------------------------------------------------------------------------------------- */

/* BOS is not put before a text that writes it. */
static unsigned flags_for(const struct server *s, unsigned flags, const char *text, size_t len)
{
    const int32_t bos = vocab_bos(s->vocab);
    if (!(flags & VOCAB_BOS) || !(flags & VOCAB_SPECIAL) || bos < 0)
        return flags;
    const struct gguf_str b = vocab_text(s->vocab, bos);
    return b.len && len >= b.len && memcmp(text, b.data, b.len) == 0 ? flags & ~(unsigned)VOCAB_BOS : flags;
}

static bool ids_of_text(struct server *s, const json_t *v, unsigned flags, struct tokens *ids,
                        struct fault *f)
{
    struct hasten_error err;
    const char *text = json_string_value(v);
    const size_t len = json_string_length(v);
    return server_check_text(s, len, "prompt", f) &&
           (!vocab_encode(s->vocab, text, len, flags_for(s, flags, text, len), ids, &err) ||
            fault_of(f, &err));
}

static bool ids_of_array(struct server *s, const char *name, const json_t *v, struct tokens *ids,
                         struct fault *f)
{
    for (size_t i = 0; i < json_array_size(v); i++) {
        const json_t *x = json_array_get(v, i);
        const json_int_t id = json_is_integer(x) ? json_integer_value(x) : -1;
        if (id < 0 || id >= s->n_vocab)
            return fault_set(f, 400, "invalid_value", name,
                             "%s: element %zu is no token id (expected integers from 0 to %d)", name, i,
                             (int)s->n_vocab - 1);
        if (tokens_push(ids, (int32_t)id))
            return fault_set(f, 503, "out_of_memory", name, "no memory for the prompt");
    }
    return true;
}

static bool add_one(struct server *s, const char *name, const json_t *v, unsigned flags, prompt_add_fn add,
                    void *ctx, struct fault *f)
{
    struct tokens ids = {0};
    bool ok = json_is_string(v) ? ids_of_text(s, v, flags, &ids, f)
              : json_is_array(v)
                  ? ids_of_array(s, name, v, &ids, f)
                  : fault_set(f, 400, "invalid_value", name,
                              "%s: expected a string, strings, token ids, or lists of token ids", name);
    if (ok && ids.n == 0)
        ok = fault_set(f, 400, "invalid_value", name, "%s: without tokens (expected at least one)", name);
    ok = ok && add(ctx, &ids, f);
    tokens_free(&ids);
    return ok;
}

bool prompts_of_value(struct server *s, const char *name, const json_t *v, unsigned flags, int32_t most,
                      prompt_add_fn add, void *ctx, struct fault *f)
{
    const json_t *first = json_array_get(v, 0);
    if (!v)
        return fault_set(f, 400, "missing_required_parameter", name, "%s: missing (expected one)", name);
    if (!json_is_array(v) || json_is_integer(first))
        return add_one(s, name, v, flags, add, ctx, f);
    if (json_array_size(v) == 0 || json_array_size(v) > (size_t)most)
        return fault_set(f, 400, "invalid_value", name, "%s: %zu elements (expected 1 to %d)", name,
                         json_array_size(v), (int)most);
    for (size_t i = 0; i < json_array_size(v); i++)
        if (!add_one(s, name, json_array_get(v, i), flags, add, ctx, f))
            return false;
    return true;
}
