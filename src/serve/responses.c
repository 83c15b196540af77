/* OpenAI's Responses API: /v1/responses. Owns how its bodies become chat's, and how answers are written: items of reasoning,
 * message and function_call, whole or as events. Nothing is stored, so previous_response_id is refused. */
#include "serve/structured.h"
#include "serve/translate.h"
#include <stdio.h>
#include <string.h>

#define PARTS "input_text output_text text refusal"

/* ---- from items to chat ----------------------------------------------------------------------------------------- */

static bool bad_item(struct translation *t, size_t i, const char *what)
{
    char param[64];
    snprintf(param, sizeof param, "input[%zu]", i);
    return fault_set(t->f, 400, "invalid_value", param, "%s: %s", param, what);
}

/* Calls that follow each other are one message's. */
static bool take_call(struct translation *t, const json_t *item, size_t i)
{
    const json_t *id = json_object_get(item, "call_id"), *name = json_object_get(item, "name"),
                 *arguments = json_object_get(item, "arguments");
    json_t *last = json_array_get(t->messages, json_array_size(t->messages) - 1),
           *calls = json_object_get(last, "tool_calls");
    if (!json_is_string(id) || !json_is_string(name) || !json_is_string(arguments))
        return bad_item(t, i, "expected a function_call with call_id, name and arguments");
    if (!calls) {
        const char *role = json_string_value(json_object_get(last, "role"));
        if (!role || strcmp(role, "assistant"))
            last = translation_message(t, "assistant", NULL);
        calls = json_array();
        t->bad = t->bad || !last || !calls || json_object_set_new(last, "tool_calls", calls);
    }
    json_t *call = json_pack("{s:O, s:s, s:{s:O, s:O}}", "id", id, "type", "function", "function", "name",
                             name, "arguments", arguments);
    t->bad = t->bad || !call || json_array_append_new(calls, call);
    return true;
}

static bool take_output(struct translation *t, const json_t *item, size_t i)
{
    char where[64];
    snprintf(where, sizeof where, "input[%zu].output", i);
    return translation_result(t, json_object_get(item, "call_id"), json_object_get(item, "output"), PARTS,
                              where);
}

static bool take_item(struct translation *t, const json_t *item, size_t i)
{
    char where[64];
    const char *type = json_string_value(json_object_get(item, "type")),
               *role = json_string_value(json_object_get(item, "role"));
    if (type && strcmp(type, "function_call") == 0)
        return take_call(t, item, i);
    if (type && strcmp(type, "function_call_output") == 0)
        return take_output(t, item, i);
    if (type && strcmp(type, "reasoning") == 0)
        return true;
    if ((type && strcmp(type, "message")) || !role)
        return bad_item(
            t, i,
            "an item of a type that is not supported (expected message, function_call, function_call_output or reasoning)");
    snprintf(where, sizeof where, "input[%zu].content", i);
    json_t *text = translation_text(t, json_object_get(item, "content"), PARTS, where);
    if (text)
        translation_message(t, strcmp(role, "developer") == 0 ? "system" : role, text);
    return text != NULL;
}

static bool take_input(struct translation *t)
{
    const json_t *input = json_object_get(t->from, "input"),
                 *instructions = json_object_get(t->from, "instructions");
    if (json_is_string(instructions))
        translation_message(t, "system", json_incref((json_t *)(uintptr_t)instructions));
    else if (instructions && !json_is_null(instructions))
        return fault_set(t->f, 400, "invalid_value", "instructions", "instructions: expected a string");
    if (json_is_string(input)) {
        translation_message(t, "user", json_incref((json_t *)(uintptr_t)input));
        return true;
    }
    if (!json_is_array(input) || json_array_size(input) == 0)
        return fault_set(t->f, 400, "invalid_value", "input",
                         "input: expected a string, or an array of items");
    for (size_t i = 0; i < json_array_size(input); i++)
        if (!take_item(t, json_array_get(input, i), i))
            return false;
    return true;
}

static bool take_tools(struct translation *t)
{
    const json_t *tools = json_object_get(t->from, "tools"),
                 *choice = json_object_get(t->from, "tool_choice"), *tool;
    const json_t *name = json_object_get(choice, "name");
    size_t i;
    if (tools && !json_is_array(tools) && !json_is_null(tools))
        return fault_set(t->f, 400, "invalid_value", "tools", "tools: expected an array");
    json_array_foreach(tools, i, tool)
    {
        const char *type = json_string_value(json_object_get(tool, "type")),
                   *called = json_string_value(json_object_get(tool, "name"));
        if (!type || strcmp(type, "function") || !called)
            return fault_set(t->f, 400, "unsupported_value", "tools",
                             "tools[%zu]: type '%.40s' is not supported (expected function)", i,
                             type ? type : "?");
        translation_tool(t, called, json_object_get(tool, "description"), json_object_get(tool, "parameters"),
                         json_object_get(tool, "strict"));
    }
    if (json_is_object(choice) && json_is_string(name))
        translation_set(t, "tool_choice",
                        json_pack("{s:s, s:{s:O}}", "type", "function", "function", "name", name));
    else if (choice && !json_is_null(choice))
        translation_set(t, "tool_choice", json_incref((json_t *)(uintptr_t)choice));
    return true;
}

static bool take_text(struct translation *t)
{
    const json_t *text = json_object_get(t->from, "text"), *format = json_object_get(text, "format"),
                 *schema = json_object_get(format, "schema");
    const char *type = json_string_value(json_object_get(format, "type"));
    if (text && !json_is_null(text) && !json_is_object(text))
        return fault_set(t->f, 400, "invalid_value", "text", "text: expected an object");
    if (!type || strcmp(type, "text") == 0)
        return true;
    if (schema)
        translation_set(t, "response_format",
                        json_pack("{s:s, s:{s:O}}", "type", type, "json_schema", "schema", schema));
    else
        translation_set(t, "response_format", json_pack("{s:s}", "type", type));
    return true;
}

static bool refused(struct translation *t, const char *name, const char *why)
{
    const json_t *v = json_object_get(t->from, name);
    return v && !json_is_null(v) && !json_is_false(v) &&
           !fault_set(t->f, 400, "unsupported_parameter", name, "%s: not supported (%s)", name, why);
}

static bool to_chat(struct translation *t)
{
    const json_t *most = json_object_get(t->from, "max_output_tokens"),
                 *effort = json_object_get(json_object_get(t->from, "reasoning"), "effort");
    if (refused(t, "previous_response_id", "answers are not stored; send the conversation") ||
        refused(t, "conversation", "answers are not stored; send the conversation") ||
        refused(t, "messages", "expected input") || refused(t, "background", "answers are not stored") ||
        refused(t, "prompt", "a stored template"))
        return false;
    translation_pass(
        t,
        "input messages instructions tools tool_choice text max_output_tokens reasoning previous_response_id conversation background prompt "
        "store include metadata truncation service_tier prompt_cache_key prompt_cache_retention safety_identifier user "
        "max_tool_calls top_logprobs stream_options n");
    if (most && !json_is_null(most))
        translation_set(t, "max_completion_tokens", json_incref((json_t *)(uintptr_t)most));
    if (json_is_string(effort))
        translation_set(t, "reasoning_effort", json_incref((json_t *)(uintptr_t)effort));
    return take_input(t) && take_tools(t) && take_text(t);
}

/* ---- the response ------------------------------------------------------------------------------------------------ */

enum item {
    ITEM_NONE,
    ITEM_REASONING,
    ITEM_MESSAGE,
    ITEM_CALL
};

struct stream {
    json_t *from;    /* the request, of which the response repeats some */
    struct buf done; /* the items that are whole */
    struct buf text; /* of the one that is open */
    enum item open;
    int32_t index, call;
    int64_t sequence;
};

static struct stream *stream_of(const struct generation *g)
{
    return g->wire_state;
}

static void free_stream(void *state)
{
    struct stream *s = state;
    json_decref(s->from);
    buf_free(&s->done);
    buf_free(&s->text);
    mem_free(s);
}

static int put_id(struct buf *b, const struct generation *g, enum item kind, int32_t index)
{
    static const char *const prefixes[] = {"", "rs", "msg", "fc"};
    return buf_printf(b, "\"%s_%s_%d\"", prefixes[kind], g->x->id, (int)index);
}

/* An item, empty or with all it says. */
static int put_item(struct buf *b, const struct generation *g, enum item kind, int32_t index,
                    const struct call *k, const struct buf *text, bool whole)
{
    const char *said = text->data ? text->data : "", *status = whole ? "completed" : "in_progress";
    int bad = buf_puts(b, "{\"id\":") || put_id(b, g, kind, index);
    if (kind == ITEM_CALL)
        return bad || buf_printf(b, ",\"type\":\"function_call\",\"status\":\"%s\",\"call_id\":", status) ||
               out_str(b, k->id.data) || buf_puts(b, ",\"name\":") ||
               out_text(b, k->name.data, k->name.len) || buf_puts(b, ",\"arguments\":") ||
               out_text(b, said, text->len) || buf_putc(b, '}');
    if (kind == ITEM_REASONING)
        bad = bad ||
              buf_printf(b, ",\"type\":\"reasoning\",\"status\":\"%s\",\"summary\":[],\"content\":[", status);
    else
        bad = bad ||
              buf_printf(b, ",\"type\":\"message\",\"status\":\"%s\",\"role\":\"assistant\",\"content\":[",
                         status);
    if (whole)
        bad = bad ||
              buf_puts(b, kind == ITEM_REASONING
                              ? "{\"type\":\"reasoning_text\",\"text\":"
                              : "{\"type\":\"output_text\",\"annotations\":[],\"logprobs\":[],\"text\":") ||
              out_text(b, said, text->len) || buf_putc(b, '}');
    return bad || buf_puts(b, "]}");
}

/* A field of the request, or what it is without. */
static int put_echo(struct buf *b, const json_t *from, const char *name, const char *otherwise)
{
    const json_t *v = json_object_get(from, name);
    char *text = v ? json_dumps(v, JSON_COMPACT | JSON_ENCODE_ANY) : NULL;
    const int bad = buf_printf(b, ",\"%s\":", name) || (v && !text) || buf_puts(b, text ? text : otherwise);
    mem_free(text);
    return bad;
}

static int put_usage(struct buf *b, const struct usage *u)
{
    return buf_printf(
        b,
        ",\"usage\":{\"input_tokens\":%lld,\"input_tokens_details\":{\"cached_tokens\":%lld},\"output_tokens\":%lld,"
        "\"output_tokens_details\":{\"reasoning_tokens\":0},\"total_tokens\":%lld}",
        (long long)u->prompt, (long long)u->cached, (long long)u->answer, (long long)(u->prompt + u->answer));
}

static int put_response(struct buf *b, const struct generation *g, const struct buf *items, bool over)
{
    const struct usage u = generation_usage(g);
    const json_t *from = stream_of(g)->from;
    const bool cut = over && g->choices[0].finish && strcmp(g->choices[0].finish, "length") == 0;
    int bad =
        buf_puts(b, "{\"id\":") || out_str(b, g->id) ||
        buf_printf(
            b,
            ",\"object\":\"response\",\"created_at\":%lld,\"status\":\"%s\",\"background\":false,\"error\":null,\"incomplete_details\":%s,\"model\":",
            (long long)g->created,
            !over ? "in_progress"
            : cut ? "incomplete"
                  : "completed",
            cut ? "{\"reason\":\"max_output_tokens\"}" : "null") ||
        out_str(b, g->server->set.id) || buf_puts(b, ",\"output\":[") ||
        (items->len && buf_put(b, items->data, items->len)) ||
        buf_puts(b, "],\"previous_response_id\":null,\"store\":false");
    bad = bad || put_echo(b, from, "instructions", "null") ||
          put_echo(b, from, "max_output_tokens", "null") || put_echo(b, from, "metadata", "{}") ||
          put_echo(b, from, "parallel_tool_calls", "true") ||
          put_echo(b, from, "reasoning", "{\"effort\":null,\"summary\":null}") ||
          put_echo(b, from, "temperature", "null") ||
          put_echo(b, from, "text", "{\"format\":{\"type\":\"text\"}}") ||
          put_echo(b, from, "tool_choice", "\"auto\"") || put_echo(b, from, "tools", "[]") ||
          put_echo(b, from, "top_p", "null") || put_echo(b, from, "truncation", "\"disabled\"");
    bad = bad || (over ? put_usage(b, &u) : buf_puts(b, ",\"usage\":null"));
    return bad || (over && (part_warnings(b, g) || part_receipt(b, g))) || buf_putc(b, '}');
}

/* ---- events ------------------------------------------------------------------------------------------------------ */

/* What every event begins with; the rest is the caller's, up to `send`. */
static int event(struct buf *b, struct generation *g, const char *type)
{
    return buf_printf(b, "{\"type\":\"%s\",\"sequence_number\":%lld", type,
                      (long long)stream_of(g)->sequence++);
}

static void send(struct generation *g, const char *type, struct buf *b, int bad)
{
    generation_event(g, type, b, bad || buf_putc(b, '}'));
    buf_free(b);
}

static void response_event(struct generation *g, const char *type, bool over)
{
    struct buf b = {0};
    send(g, type, &b,
         event(&b, g, type) || buf_puts(&b, ",\"response\":") ||
             put_response(&b, g, &stream_of(g)->done, over));
}

static int put_place(struct buf *b, const struct generation *g, bool part)
{
    const struct stream *s = stream_of(g);
    return buf_puts(b, ",\"item_id\":") || put_id(b, g, s->open, s->index) ||
           buf_printf(b, ",\"output_index\":%d", (int)s->index) ||
           (part && buf_puts(b, ",\"content_index\":0"));
}

static void part_event(struct generation *g, const char *type, const struct buf *text)
{
    struct buf b = {0};
    send(g, type, &b,
         event(&b, g, type) || put_place(&b, g, true) ||
             buf_puts(&b,
                      ",\"part\":{\"type\":\"output_text\",\"annotations\":[],\"logprobs\":[],\"text\":") ||
             out_text(&b, text->data ? text->data : "", text->len) || buf_putc(&b, '}'));
}

static void item_event(struct generation *g, const char *type, bool whole)
{
    struct buf b = {0};
    const struct stream *s = stream_of(g);
    const struct call *k = s->open == ITEM_CALL ? &g->choices[0].calls[s->call] : NULL;
    send(g, type, &b,
         event(&b, g, type) || buf_printf(&b, ",\"output_index\":%d,\"item\":", (int)s->index) ||
             put_item(&b, g, s->open, s->index, k, whole ? &s->text : &(struct buf){0}, whole));
}

static void text_event(struct generation *g, const char *type, const char *key, const char *text, size_t len)
{
    struct buf b = {0};
    const bool part = stream_of(g)->open != ITEM_CALL;
    send(g, type, &b,
         event(&b, g, type) || put_place(&b, g, part) ||
             (stream_of(g)->open == ITEM_MESSAGE && buf_puts(&b, ",\"logprobs\":[]")) ||
             buf_printf(&b, ",\"%s\":", key) || out_text(&b, text, len));
}

static void close_item(struct generation *g)
{
    static const char *const done[] = {"", "response.reasoning_text.done", "response.output_text.done",
                                       "response.function_call_arguments.done"};
    struct stream *s = stream_of(g);
    if (s->open == ITEM_NONE)
        return;
    text_event(g, done[s->open], s->open == ITEM_CALL ? "arguments" : "text",
               s->text.data ? s->text.data : "", s->text.len);
    if (s->open == ITEM_MESSAGE)
        part_event(g, "response.content_part.done", &s->text);
    item_event(g, "response.output_item.done", true);
    const struct call *k = s->open == ITEM_CALL ? &g->choices[0].calls[s->call] : NULL;
    if (out_comma(&s->done) || put_item(&s->done, g, s->open, s->index, k, &s->text, true))
        g->cancel = true;
    s->open = ITEM_NONE;
    s->index++;
    buf_clear(&s->text);
}

static void open_item(struct generation *g, enum item kind, int32_t call)
{
    struct stream *s = stream_of(g);
    close_item(g);
    s->open = kind;
    s->call = call;
    item_event(g, "response.output_item.added", false);
    if (kind == ITEM_MESSAGE)
        part_event(g, "response.content_part.added", &s->text);
}

static void more(struct generation *g, const char *type, const char *text, size_t len)
{
    if (buf_put(&stream_of(g)->text, text, len))
        g->cancel = true;
    text_event(g, type, "delta", text, len);
}

static void begin(struct choice *c)
{
    response_event(c->g, "response.created", false);
    response_event(c->g, "response.in_progress", false);
}

static void text(struct choice *c, enum said what, const char *t, size_t len)
{
    const enum item kind = what == SAID_CONTENT ? ITEM_MESSAGE : ITEM_REASONING;
    if (stream_of(c->g)->open != kind)
        open_item(c->g, kind, 0);
    more(c->g, kind == ITEM_MESSAGE ? "response.output_text.delta" : "response.reasoning_text.delta", t, len);
}

static void call(struct choice *c, int32_t index, const char *arguments, size_t len, bool begins)
{
    if (begins)
        open_item(c->g, ITEM_CALL, index);
    if (len)
        more(c->g, "response.function_call_arguments.delta", arguments, len);
}

static void finish(struct choice *c)
{
    close_item(c->g);
}

static void end(struct generation *g)
{
    const char *f = g->choices[0].finish;
    response_event(g, f && strcmp(f, "length") == 0 ? "response.incomplete" : "response.completed", true);
}

static void fail(struct generation *g, const struct fault *f)
{
    struct buf b = {0};
    send(g, "error", &b,
         event(&b, g, "error") || buf_puts(&b, ",\"code\":") || out_str(&b, f->code ? f->code : f->type) ||
             buf_puts(&b, ",\"message\":") || out_str(&b, f->message) || buf_puts(&b, ",\"param\":") ||
             out_str(&b, f->param[0] ? f->param : NULL));
}

static int whole(struct generation *g, struct buf *b)
{
    const struct choice *c = &g->choices[0];
    struct buf items = {0};
    int32_t n = 0;
    int bad = buf_puts(&items, "");
    if (c->reasoning.len)
        bad = bad || put_item(&items, g, ITEM_REASONING, n++, NULL, &c->reasoning, true);
    if (c->content.len || !c->n_calls)
        bad = bad || (items.len && buf_putc(&items, ',')) ||
              put_item(&items, g, ITEM_MESSAGE, n++, NULL, &c->content, true);
    for (int32_t i = 0; i < c->n_calls && !bad; i++)
        bad = (items.len && buf_putc(&items, ',')) ||
              put_item(&items, g, ITEM_CALL, n++, &c->calls[i], &c->calls[i].arguments, true);
    bad = bad || put_response(b, g, &items, true);
    buf_free(&items);
    return bad;
}

static const struct wire responses_wire = {"resp_", begin, NULL, text, call, finish, end, fail, whole, NULL};

/* ---- the endpoint ------------------------------------------------------------------------------------------------ */

void api_responses(struct server *s, struct exchange *x)
{
    struct generation *g;
    struct fault f = {0};
    struct translation t;
    json_t *from;
    bool ok = translation_open(&t, x, &from, &f);
    if (ok) {
        const bool read = to_chat(&t);
        ok = translation_done(&t) && read;
    }
    if (!ok)
        exchange_fail(x, &f);
    if (!ok || !generation_open_as(s, x, EP_CHAT, &responses_wire, t.to, NULL, &g)) {
        json_decref(from);
        return;
    }
    struct stream *state = mem_calloc(1, sizeof *state);
    if (state) {
        *state = (struct stream){.from = from};
        g->wire_state = state;
        g->free_state = free_stream;
        chat_start(g);
        return;
    }
    json_decref(from);
    fault_set(&f, 503, "out_of_memory", NULL, "no memory for the request");
    generation_refuse(g, &f);
}
