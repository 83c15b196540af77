/* The public calls for conversations (hasten/text.h), over text/prompt.h. */
#include "hasten/text.h"
#include "model/loaded.h"
#include "text/prompt.h"
#include "text/unicode.h"
#include <string.h>

struct hasten_chat {
    struct prompter *prompter;
};

hasten_status hasten_chat_open(const struct hasten_model *m, struct hasten_chat **out,
                               struct hasten_error *err)
{
    struct hasten_chat *c = mem_calloc(1, sizeof *c);
    if (!c)
        return error_set(err, HASTEN_ERR_MEMORY, "opening a chat: out of memory");
    hasten_status st = prompter_open(m->gguf, m->vocab, &c->prompter, err);
    if (!st && !c->prompter)
        st = error_set(err, HASTEN_ERR_UNSUPPORTED,
                       "opening a chat: the model has no chat template (expected tokenizer.chat_template)");
    if (st)
        mem_free(c);
    else
        *out = c;
    return st;
}

void hasten_chat_close(struct hasten_chat *c)
{
    if (c)
        prompter_close(c->prompter);
    mem_free(c);
}

static hasten_status encode(const struct hasten_chat *c, const json_t *messages, const json_t *tools,
                            bool begin_answer, struct hasten_ids *out, struct hasten_error *err)
{
    struct prompt p = {0};
    struct tokens t = {out->ids, out->n, out->cap};
    hasten_status st = prompter_render(c->prompter, messages, tools, begin_answer, &p, err);
    if (!st)
        st = prompter_encode(c->prompter, &p, 0, &t, err);
    *out = (struct hasten_ids){t.ids, t.n, t.cap};
    prompt_free(&p);
    return st;
}

/* Steals `item` also when it fails. */
static int append(json_t *list, json_t *item)
{
    return json_array_append_new(list, item);
}

static bool is_utf8(const char *text)
{
    const size_t len = strlen(text);
    return utf8_valid_run(text, len) == len;
}

/* JSON strings hold UTF-8 only. */
static hasten_status add_message(json_t *list, const struct hasten_message *m, int32_t i,
                                 struct hasten_error *err)
{
    if (!m->role || !m->content)
        return error_set(err, HASTEN_ERR_USAGE, "a chat: message %d has no %s (expected a string)", i,
                         m->role ? "content" : "role");
    if (!is_utf8(m->role) || !is_utf8(m->content))
        return error_set(err, HASTEN_ERR_USAGE, "a chat: message %d: role or content is no UTF-8", i);
    json_t *role = json_string(m->role), *content = json_string(m->content);
    json_t *message = role && content ? json_object() : NULL;
    const int bad =
        !message || json_object_set(message, "role", role) || json_object_set(message, "content", content);
    json_decref(role);
    json_decref(content);
    if (bad)
        json_decref(message);
    if (bad || append(list, message))
        return error_set(err, HASTEN_ERR_MEMORY, "a chat: out of memory");
    return HASTEN_OK;
}

hasten_status hasten_chat_encode(const struct hasten_chat *c, const struct hasten_message *messages,
                                 int32_t n, bool begin_answer, struct hasten_ids *out,
                                 struct hasten_error *err)
{
    json_t *list = json_array();
    hasten_status st = list ? HASTEN_OK : error_set(err, HASTEN_ERR_MEMORY, "a chat: out of memory");
    for (int32_t i = 0; i < n && !st; i++)
        st = add_message(list, &messages[i], i, err);
    if (!st)
        st = encode(c, list, NULL, begin_answer, out, err);
    json_decref(list);
    return st;
}

hasten_status hasten_chat_encode_json(const struct hasten_chat *c, const char *messages, const char *tools,
                                      bool begin_answer, struct hasten_ids *out, struct hasten_error *err)
{
    json_t *list = NULL, *offered = NULL;
    hasten_status st = json_parse("messages", messages, strlen(messages), &list, err);
    if (!st && tools)
        st = json_parse("tools", tools, strlen(tools), &offered, err);
    if (!st)
        st = encode(c, list, offered, begin_answer, out, err);
    json_decref(list);
    json_decref(offered);
    return st;
}
