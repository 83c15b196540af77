/* Anthropic's Messages API: /v1/messages and /v1/messages/count_tokens. Owns how their bodies become chat's, and how answers
 * are written: blocks of text, thinking and tool_use, whole or as events. */
#include "serve/structured.h"
#include "serve/translate.h"
#include <stdio.h>
#include <string.h>

/* ---- from messages to chat -------------------------------------------------------------------------------------- */

static bool bad_block(struct translation *t, size_t i, size_t k, const char *what)
{
    char param[64];
    snprintf(param, sizeof param, "messages.%zu.content.%zu", i, k);
    return fault_set(t->f, 400, "unsupported_value", param, "%s: %s", param, what);
}

/* A call of the assistant's into a message's list. */
static bool add_call(struct translation *t, const json_t *block, json_t *calls)
{
    const json_t *id = json_object_get(block, "id"), *name = json_object_get(block, "name"),
                 *input = json_object_get(block, "input");
    if (!json_is_string(name) || (input && !json_is_object(input)))
        return false;
    json_t *call =
        json_pack("{s:s, s:s, s:{s:O, s:o}}", "id", json_is_string(id) ? json_string_value(id) : "", "type",
                  "function", "function", "name", name, "arguments",
                  input ? json_incref((json_t *)(uintptr_t)input) : json_object());
    t->bad = t->bad || !call || json_array_append_new(calls, call);
    return true;
}

/* What a tool answered is a message of its own. */
static bool add_result(struct translation *t, const json_t *block, size_t i)
{
    char where[64];
    snprintf(where, sizeof where, "messages.%zu.content", i);
    return translation_result(t, json_object_get(block, "tool_use_id"), json_object_get(block, "content"),
                              "text", where);
}

struct blocks { /* of one message */
    struct buf text, thinking;
    json_t *calls;
    bool any_text;
};

static bool take_block(struct translation *t, const json_t *block, bool user, size_t i, size_t k,
                       struct blocks *b)
{
    const char *type = json_string_value(json_object_get(block, "type"));
    const json_t *text = json_object_get(block, "text"), *thought = json_object_get(block, "thinking");
    if (!type)
        return bad_block(t, i, k,
                         "a block without a type (expected text, tool_use, tool_result or thinking)");
    if (strcmp(type, "text") == 0 && json_is_string(text)) {
        t->bad = t->bad || (b->any_text && buf_putc(&b->text, '\n')) ||
                 buf_put(&b->text, json_string_value(text), json_string_length(text));
        b->any_text = true;
        return true;
    }
    if (strcmp(type, "tool_result") == 0 && user)
        return add_result(t, block, i);
    if (strcmp(type, "tool_use") == 0 && !user)
        return add_call(t, block, b->calls) ||
               bad_block(t, i, k, "tool_use without a name, or whose input is no object");
    if (strcmp(type, "thinking") == 0 && !user && json_is_string(thought)) {
        t->bad = t->bad || buf_put(&b->thinking, json_string_value(thought), json_string_length(thought));
        return true;
    }
    if (strcmp(type, "redacted_thinking") == 0 && !user)
        return true;
    return bad_block(
        t, i, k,
        "a block of a type that is not supported here (expected text, tool_use, tool_result or thinking)");
}

static void put_message(struct translation *t, bool user, struct blocks *b)
{
    const bool calls = json_array_size(b->calls) > 0;
    if (user && !b->any_text)
        return; /* results alone */
    json_t *m = translation_message(t, user ? "user" : "assistant",
                                    b->any_text ? json_stringn(b->text.data ? b->text.data : "", b->text.len)
                                    : calls     ? NULL
                                                : json_string(""));
    if (m && calls)
        t->bad = t->bad || json_object_set(m, "tool_calls", b->calls);
    if (m && b->thinking.len)
        t->bad = t->bad ||
                 json_object_set_new(m, "reasoning_content", json_stringn(b->thinking.data, b->thinking.len));
}

static bool take_message(struct translation *t, const json_t *message, size_t i, bool last)
{
    char param[64];
    const char *role = json_string_value(json_object_get(message, "role"));
    const json_t *content = json_object_get(message, "content");
    const bool user = role && strcmp(role, "user") == 0;
    struct blocks b = {.calls = json_array()};
    snprintf(param, sizeof param, "messages.%zu", i);
    bool ok = true;
    if (!role || (!user && strcmp(role, "assistant")) ||
        (!json_is_string(content) && !json_is_array(content)))
        ok = fault_set(t->f, 400, "invalid_value", param,
                       "%s: expected the role user or assistant, and content (a string, or blocks)", param);
    else if (!user && last)
        ok = fault_set(
            t->f, 400, "unsupported_value", param,
            "%s: the last message is the assistant's: going on with it is not supported (expected the user's)",
            param);
    else if (json_is_string(content))
        translation_message(t, role, json_incref((json_t *)(uintptr_t)content));
    for (size_t k = 0; k < json_array_size(content) && ok; k++)
        ok = take_block(t, json_array_get(content, k), user, i, k, &b);
    if (ok && json_is_array(content))
        put_message(t, user, &b);
    buf_free(&b.text);
    buf_free(&b.thinking);
    json_decref(b.calls);
    return ok;
}

static bool take_tools(struct translation *t)
{
    const json_t *tools = json_object_get(t->from, "tools"), *tool;
    size_t i;
    if (tools && !json_is_array(tools) && !json_is_null(tools))
        return fault_set(t->f, 400, "invalid_value", "tools", "tools: expected an array");
    json_array_foreach(tools, i, tool)
    {
        const char *type = json_string_value(json_object_get(tool, "type"));
        const json_t *name = json_object_get(tool, "name");
        if (!json_is_string(name) || (type && strcmp(type, "custom")))
            return fault_set(
                t->f, 400, "unsupported_value", "tools",
                "tools.%zu: type '%.40s' is not supported (expected {\"name\",\"input_schema\"})", i,
                type ? type : "?");
        translation_tool(t, json_string_value(name), json_object_get(tool, "description"),
                         json_object_get(tool, "input_schema"), json_object_get(tool, "strict"));
    }
    return true;
}

static bool take_choice(struct translation *t)
{
    const json_t *v = json_object_get(t->from, "tool_choice"), *name = json_object_get(v, "name");
    const char *type = json_string_value(json_object_get(v, "type"));
    if (!v || json_is_null(v))
        return true;
    if (json_is_true(json_object_get(v, "disable_parallel_tool_use")))
        translation_set(t, "parallel_tool_calls", json_false());
    if (type && (strcmp(type, "auto") == 0 || strcmp(type, "none") == 0))
        translation_set(t, "tool_choice", json_string(type));
    else if (type && strcmp(type, "any") == 0)
        translation_set(t, "tool_choice", json_string("required"));
    else if (type && strcmp(type, "tool") == 0 && json_is_string(name))
        translation_set(t, "tool_choice",
                        json_pack("{s:s, s:{s:O}}", "type", "function", "function", "name", name));
    else
        return fault_set(t->f, 400, "invalid_value", "tool_choice",
                         "tool_choice: expected {\"type\":\"auto\"}, any, none, or tool with a name");
    return true;
}

/* Thinking is the template's business, where it has a variable for it. */
static bool take_thinking(struct translation *t)
{
    const json_t *v = json_object_get(t->from, "thinking"),
                 *kwargs = json_object_get(t->from, "chat_template_kwargs");
    const char *type = json_string_value(json_object_get(v, "type"));
    if (!v || json_is_null(v))
        return true;
    if (!type || (strcmp(type, "enabled") && strcmp(type, "disabled") && strcmp(type, "adaptive")))
        return fault_set(t->f, 400, "invalid_value", "thinking",
                         "thinking: expected {\"type\":\"enabled\"} or disabled");
    json_t *copy = json_is_object(kwargs) ? json_copy((json_t *)(uintptr_t)kwargs) : json_object();
    t->bad = t->bad || !copy ||
             json_object_set_new(copy, "enable_thinking", json_boolean(strcmp(type, "disabled") != 0));
    translation_set(t, "chat_template_kwargs", copy);
    return true;
}

static bool take_format(struct translation *t)
{
    const json_t *config = json_object_get(t->from, "output_config"),
                 *v = json_object_get(t->from, "output_format");
    const json_t *format = v ? v : json_object_get(config, "format"),
                 *schema = json_object_get(format, "schema");
    if (!format || json_is_null(format))
        return true;
    if (!schema)
        return fault_set(t->f, 400, "invalid_value", "output_config",
                         "output_config: expected {\"format\":{\"type\":\"json_schema\",\"schema\":{...}}}");
    translation_set(t, "response_format",
                    json_pack("{s:s, s:{s:O}}", "type", "json_schema", "json_schema", "schema", schema));
    return true;
}

static bool to_chat(struct translation *t)
{
    const json_t *system = json_object_get(t->from, "system"),
                 *messages = json_object_get(t->from, "messages"),
                 *stops = json_object_get(t->from, "stop_sequences");
    translation_pass(
        t, "messages system tools tool_choice thinking stop_sequences metadata output_config output_format "
           "service_tier context_management inference_geo n");
    if (system && !json_is_null(system)) {
        json_t *text = translation_text(t, system, "text", "system");
        if (!text)
            return false;
        translation_message(t, "system", text);
    }
    if (!json_is_array(messages) || json_array_size(messages) == 0)
        return fault_set(t->f, 400, "invalid_value", "messages", "messages: expected an array of messages");
    for (size_t i = 0; i < json_array_size(messages); i++)
        if (!take_message(t, json_array_get(messages, i), i, i + 1 == json_array_size(messages)))
            return false;
    if (stops && !json_is_null(stops))
        translation_set(t, "stop", json_incref((json_t *)(uintptr_t)stops));
    return take_tools(t) && take_choice(t) && take_thinking(t) && take_format(t);
}

/* ---- events ----------------------------------------------------------------------------------------------------- */

enum block {
    BLOCK_NONE,
    BLOCK_TEXT,
    BLOCK_THINKING,
    BLOCK_TOOL
};

struct stream { /* the block that is open, and its number */
    enum block open;
    int32_t index;
};

static struct stream *stream_of(const struct generation *g)
{
    return g->wire_state;
}

static void event(struct generation *g, const char *name, struct buf *b, int bad)
{
    generation_event(g, name, b, bad);
    buf_free(b);
}

static int put_usage(struct buf *b, const struct usage *u)
{
    return buf_printf(
        b,
        "{\"input_tokens\":%lld,\"cache_creation_input_tokens\":0,\"cache_read_input_tokens\":%lld,\"output_tokens\":%lld}",
        (long long)(u->prompt - u->cached), (long long)u->cached, (long long)u->answer);
}

static const char *stop_reason(const struct choice *c)
{
    if (!c->finish)
        return NULL;
    if (strcmp(c->finish, "tool_calls") == 0)
        return "tool_use";
    if (strcmp(c->finish, "length") == 0)
        return "max_tokens";
    return strcmp(c->finish, "stop") == 0 && c->answer.by_stop_string ? "stop_sequence" : "end_turn";
}

/* Which of several ended it is not kept. */
static int put_stop(struct buf *b, const struct choice *c)
{
    const bool known = c->answer.by_stop_string && c->law.n_stops == 1;
    return buf_puts(b, "\"stop_reason\":") || out_str(b, stop_reason(c)) ||
           buf_puts(b, ",\"stop_sequence\":") ||
           (known ? out_text(b, c->law.stops[0].data, c->law.stops[0].len) : buf_puts(b, "null"));
}

static int put_head(struct buf *b, const struct generation *g)
{
    return buf_puts(b, "{\"id\":") || out_str(b, g->id) ||
           buf_puts(b, ",\"type\":\"message\",\"role\":\"assistant\",\"model\":") ||
           out_str(b, g->server->set.id);
}

static void begin(struct choice *c)
{
    struct buf b = {0};
    struct usage u = generation_usage(c->g);
    u.answer = 0;
    const int bad = buf_puts(&b, "{\"type\":\"message_start\",\"message\":") || put_head(&b, c->g) ||
                    buf_puts(&b, ",\"content\":[],\"stop_reason\":null,\"stop_sequence\":null,\"usage\":") ||
                    put_usage(&b, &u) || part_warnings(&b, c->g) || buf_puts(&b, "}}");
    event(c->g, "message_start", &b, bad);
}

static void close_block(struct generation *g)
{
    struct buf b = {0};
    struct stream *s = stream_of(g);
    if (s->open == BLOCK_NONE)
        return;
    const int bad = buf_printf(&b, "{\"type\":\"content_block_stop\",\"index\":%d}", (int)s->index++);
    s->open = BLOCK_NONE;
    event(g, "content_block_stop", &b, bad);
}

static void open_block(struct generation *g, enum block kind, const struct call *k)
{
    struct buf b = {0};
    struct stream *s = stream_of(g);
    close_block(g);
    s->open = kind;
    int bad =
        buf_printf(&b, "{\"type\":\"content_block_start\",\"index\":%d,\"content_block\":", (int)s->index);
    if (kind == BLOCK_TOOL)
        bad = bad || buf_puts(&b, "{\"type\":\"tool_use\",\"id\":") || out_str(&b, k->id.data) ||
              buf_puts(&b, ",\"name\":") || out_text(&b, k->name.data, k->name.len) ||
              buf_puts(&b, ",\"input\":{}}}");
    else
        bad = bad || buf_puts(&b, kind == BLOCK_TEXT
                                      ? "{\"type\":\"text\",\"text\":\"\"}}"
                                      : "{\"type\":\"thinking\",\"thinking\":\"\",\"signature\":\"\"}}");
    event(g, "content_block_start", &b, bad);
}

static void delta(struct generation *g, const char *type, const char *key, const char *text, size_t len)
{
    struct buf b = {0};
    const int bad =
        buf_printf(&b, "{\"type\":\"content_block_delta\",\"index\":%d,\"delta\":{\"type\":\"%s\",\"%s\":",
                   (int)stream_of(g)->index, type, key) ||
        out_text(&b, text, len) || buf_puts(&b, "}}");
    event(g, "content_block_delta", &b, bad);
}

static void text(struct choice *c, enum said what, const char *s, size_t len)
{
    const enum block kind = what == SAID_CONTENT ? BLOCK_TEXT : BLOCK_THINKING;
    if (stream_of(c->g)->open != kind)
        open_block(c->g, kind, NULL);
    delta(c->g, kind == BLOCK_TEXT ? "text_delta" : "thinking_delta",
          kind == BLOCK_TEXT ? "text" : "thinking", s, len);
}

static void call(struct choice *c, int32_t index, const char *arguments, size_t len, bool begins)
{
    if (begins)
        open_block(c->g, BLOCK_TOOL, &c->calls[index]);
    if (len)
        delta(c->g, "input_json_delta", "partial_json", arguments, len);
}

static void finish(struct choice *c)
{
    struct buf b = {0};
    const struct usage u = generation_usage(c->g);
    close_block(c->g);
    const int bad = buf_puts(&b, "{\"type\":\"message_delta\",\"delta\":{") || put_stop(&b, c) ||
                    buf_puts(&b, "},\"usage\":") || put_usage(&b, &u) || part_receipt(&b, c->g) ||
                    buf_putc(&b, '}');
    event(c->g, "message_delta", &b, bad);
}

static void end(struct generation *g)
{
    struct buf b = {0};
    event(g, "message_stop", &b, buf_puts(&b, "{\"type\":\"message_stop\"}"));
}

static void fail(struct generation *g, const struct fault *f)
{
    struct buf b = {0};
    event(g, "error", &b, fault_json_as(f, true, &b));
}

/* ---- whole ------------------------------------------------------------------------------------------------------ */

/* What a call was asked with; {} where the answer was cut before it was whole. */
static int put_input(struct buf *b, const struct buf *arguments)
{
    struct hasten_error err;
    json_t *v = NULL;
    const bool whole = arguments->data &&
                       !json_parse("arguments", arguments->data, arguments->len, &v, &err) &&
                       json_is_object(v);
    json_decref(v);
    return whole ? buf_put(b, arguments->data, arguments->len) : buf_puts(b, "{}");
}

static int put_content(struct buf *b, const struct choice *c)
{
    int bad = 0;
    if (c->reasoning.len)
        bad = buf_puts(b, "{\"type\":\"thinking\",\"thinking\":") ||
              out_text(b, c->reasoning.data, c->reasoning.len) || buf_puts(b, ",\"signature\":\"\"}");
    if (c->content.len || (!c->n_calls && !c->reasoning.len))
        bad = bad || out_comma(b) || buf_puts(b, "{\"type\":\"text\",\"text\":") ||
              out_text(b, c->content.data ? c->content.data : "", c->content.len) || buf_putc(b, '}');
    for (int32_t i = 0; i < c->n_calls && !bad; i++) {
        const struct call *k = &c->calls[i];
        bad = out_comma(b) || buf_puts(b, "{\"type\":\"tool_use\",\"id\":") || out_str(b, k->id.data) ||
              buf_puts(b, ",\"name\":") || out_text(b, k->name.data, k->name.len) ||
              buf_puts(b, ",\"input\":") || put_input(b, &k->arguments) || buf_putc(b, '}');
    }
    return bad;
}

static int whole(struct generation *g, struct buf *b)
{
    const struct usage u = generation_usage(g);
    const struct choice *c = &g->choices[0];
    return put_head(b, g) || buf_puts(b, ",\"content\":[") || put_content(b, c) || buf_puts(b, "],") ||
           put_stop(b, c) || buf_puts(b, ",\"usage\":") || put_usage(b, &u) || part_warnings(b, g) ||
           part_receipt(b, g) || buf_putc(b, '}');
}

static const struct wire messages_wire = {"msg_", begin, NULL, text, call, finish, end, fail, whole, NULL};

/* ---- endpoints -------------------------------------------------------------------------------------------------- */

/* False after the exchange was answered. */
static bool open_chat(struct server *s, struct exchange *x, struct generation **g)
{
    struct fault f = {0};
    struct translation t;
    json_t *from;
    bool ok = translation_open(&t, x, &from, &f);
    if (ok) {
        const bool read = to_chat(&t);
        ok = translation_done(&t) && read;
    }
    json_decref(from);
    if (!ok)
        exchange_fail(x, &f);
    return ok && generation_open_as(s, x, EP_CHAT, &messages_wire, t.to, NULL, g);
}

void api_messages(struct server *s, struct exchange *x)
{
    struct generation *g;
    if (!open_chat(s, x, &g))
        return;
    g->wire_state = mem_calloc(1, sizeof(struct stream));
    g->free_state = mem_free;
    if (g->wire_state) {
        chat_start(g);
        return;
    }
    struct fault f = {0};
    fault_set(&f, 503, "out_of_memory", NULL, "no memory for the request");
    generation_refuse(g, &f);
}

void api_count_tokens(struct server *s, struct exchange *x)
{
    struct generation *g;
    struct fault f = {0};
    struct buf b = {0};
    int64_t n;
    if (!open_chat(s, x, &g))
        return;
    const bool ok = chat_count(g, &n, &f);
    if (ok)
        exchange_answer_json(x, &b, buf_printf(&b, "{\"input_tokens\":%lld}", (long long)n));
    generation_refuse(g, ok ? NULL : &f);
}
