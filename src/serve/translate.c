/* Translating bodies (translate.h). */
#include "serve/translate.h"
#include <stdio.h>
#include <string.h>

bool translation_open(struct translation *t, struct exchange *x, json_t **from, struct fault *f)
{
    struct hasten_error err;
    *t = (struct translation){.f = f};
    *from = NULL;
    if (json_parse("body", x->body.data ? x->body.data : "", x->body.len, from, &err)) {
        fault_of(f, &err);
        f->code = f->status == 400 ? "invalid_json" : f->code;
        return false;
    }
    if (!json_is_object(*from))
        return fault_set(f, 400, "invalid_json", NULL, "the body is no JSON object (expected one)");
    t->from = *from;
    t->to = json_object();
    t->messages = json_array();
    t->bad = !t->to || json_object_set(t->to, "messages", t->messages);
    json_decref(t->messages); /* to holds it */
    return true;
}

void translation_set(struct translation *t, const char *name, json_t *value)
{
    t->bad = t->bad || !value || json_object_set_new(t->to, name, value);
}

/* Is the word one of the list's, which blanks part? */
static bool listed(const char *list, const char *word)
{
    const size_t n = strlen(word);
    for (const char *at = strstr(list, word); at; at = strstr(at + 1, word))
        if ((at == list || at[-1] == ' ') && (at[n] == ' ' || !at[n]))
            return n > 0;
    return false;
}

void translation_pass(struct translation *t, const char *but)
{
    const char *key;
    json_t *v;
    json_object_foreach((json_t *)(uintptr_t)t->from, key, v)
    {
        if (!listed(but, key) && !json_is_null(v))
            t->bad = t->bad || json_object_set(t->to, key, v);
    }
}

json_t *translation_message(struct translation *t, const char *role, json_t *content)
{
    json_t *m = json_object();
    t->bad = t->bad || !m || json_object_set_new(m, "role", json_string(role)) ||
             json_object_set_new(m, "content", content ? content : json_null()) ||
             json_array_append(t->messages, m);
    json_decref(m); /* the list holds it */
    return t->bad ? NULL : m;
}

void translation_tool(struct translation *t, const char *name, const json_t *description,
                      const json_t *schema, const json_t *strict)
{
    json_t *tools = json_object_get(t->to, "tools"), *tool = json_object(), *function = json_object();
    if (!tools) {
        tools = json_array();
        translation_set(t, "tools", tools);
    }
    t->bad = t->bad || !tool || !function || json_object_set_new(tool, "type", json_string("function")) ||
             json_object_set(tool, "function", function) ||
             json_object_set_new(function, "name", json_string(name)) ||
             (json_is_string(description) &&
              json_object_set(function, "description", (json_t *)(uintptr_t)description)) ||
             (schema && json_object_set(function, "parameters", (json_t *)(uintptr_t)schema)) ||
             (json_is_true(strict) && json_object_set_new(function, "strict", json_true())) ||
             json_array_append(tools, tool);
    json_decref(tool);
    json_decref(function);
}

json_t *translation_text(struct translation *t, const json_t *v, const char *types, const char *where)
{
    struct buf text = {0};
    if (json_is_string(v))
        return json_incref((json_t *)(uintptr_t)v);
    int bad = buf_puts(&text, "");
    for (size_t i = 0; i < json_array_size(v); i++) {
        const json_t *part = json_array_get(v, i), *s = json_object_get(part, "text");
        const char *type = json_string_value(json_object_get(part, "type"));
        if (!type || !listed(types, type) || !json_is_string(s)) {
            fault_set(t->f, 400, "unsupported_value", where, "%s: a part of type '%.32s' (expected text)",
                      where, type ? type : "?");
            buf_free(&text);
            return NULL;
        }
        bad = bad || (i && buf_putc(&text, '\n')) ||
              buf_put(&text, json_string_value(s), json_string_length(s));
    }
    if (v && !json_is_null(v) && !json_is_array(v)) {
        fault_set(t->f, 400, "invalid_value", where, "%s: expected a string, or text parts", where);
        buf_free(&text);
        return NULL;
    }
    json_t *out = bad ? NULL : json_stringn(text.data, text.len);
    buf_free(&text);
    t->bad = t->bad || !out;
    return out;
}

bool translation_result(struct translation *t, const json_t *id, const json_t *content, const char *types,
                        const char *where)
{
    json_t *text = translation_text(t, content, types, where);
    if (!text)
        return false;
    json_t *m = translation_message(t, "tool", text);
    if (m && json_is_string(id))
        t->bad = t->bad || json_object_set(m, "tool_call_id", (json_t *)(uintptr_t)id);
    return true;
}

bool translation_done(struct translation *t)
{
    if (t->bad && !t->f->status)
        fault_set(t->f, 503, "out_of_memory", NULL, "no memory for the request");
    if (!t->f->status)
        return true;
    json_decref(t->to);
    t->to = NULL;
    return false;
}
