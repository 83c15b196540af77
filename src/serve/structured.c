/* Forms of answers (structured.h). Owns how tool_choice, parallel_tool_calls and response_format are read, and the splitter
 * over text/tools.h. */
#include "serve/structured.h"
#include "base/rng.h"
#include "sample/json_schema.h"
#include "sample/tool_grammar.h"
#include "serve/inside.h"
#include <stdio.h>
#include <string.h>

struct form {
    struct tool_format format;
    struct tool_wish wish;
    bool calls; /* may there be any? */
};

static bool no_memory(struct fault *f)
{
    return fault_set(f, 503, "out_of_memory", NULL, "no memory for the request");
}

static struct tool_format format_of(const struct server *s)
{
    const struct gguf_str source = vocab_chat_template(s->vocab);
    return tool_format_detect(source.len ? source.data : "", source.len);
}

/* ---- tools ---------------------------------------------------------------------------------------------------- */

static bool bad_choice(struct fault *f)
{
    return fault_set(f, 400, "invalid_value", "tool_choice",
                     "tool_choice: expected \"auto\", \"none\", \"required\", or "
                     "{\"type\":\"function\",\"function\":{\"name\":...}}");
}

static bool take_choice(struct generation *g, struct form *form, struct fault *f)
{
    const json_t *v = g->p.tool_choice;
    const char *word = json_string_value(v);
    form->calls = json_array_size(g->p.tools) > 0;
    if (json_is_object(v)) {
        const json_t *name = json_object_get(json_object_get(v, "function"), "name");
        if (!json_is_string(name))
            return bad_choice(f);
        form->wish.choice = TOOL_CHOICE_NAMED;
        form->wish.name = json_string_value(name);
    } else if (v && (!word || (strcmp(word, "auto") && strcmp(word, "none") && strcmp(word, "required")))) {
        return bad_choice(f);
    } else if (word && strcmp(word, "required") == 0) {
        form->wish.choice = TOOL_CHOICE_REQUIRED;
    }
    if (!form->calls && form->wish.choice != TOOL_CHOICE_AUTO)
        return fault_set(f, 400, "invalid_value", "tool_choice",
                         "tool_choice: without tools (expected both)");
    if (word && strcmp(word, "none") == 0) {
        form->calls = false;
        g->p.tools = NULL; /* the model is not told of them */
    }
    return true;
}

static bool take_tools(struct generation *g, struct form *form, struct fault *f)
{
    const json_t *parallel = g->p.parallel_tool_calls;
    form->format = format_of(g->server);
    if (!take_choice(g, form, f))
        return false;
    if (parallel && !json_is_boolean(parallel))
        return fault_set(f, 400, "invalid_value", "parallel_tool_calls",
                         "parallel_tool_calls: expected true or false");
    if (form->calls && form->format.family == TOOLS_NONE)
        return fault_set(
            f, 400, "unsupported_value", "tools",
            "tools: not supported with this model (its chat template has no form of tool calls that is known)");
    form->wish.format = form->format;
    form->wish.tools = g->p.tools;
    form->wish.parallel = !json_is_false(parallel);
    return true;
}

/* ---- response_format ------------------------------------------------------------------------------------------ */

/* The field that asks for a form: llama.cpp's clients have one for a schema alone. */
static const char *field_of_form(const struct generation *g)
{
    return g->p.json_schema ? "json_schema" : "response_format";
}

static bool bad_schema(const struct generation *g, struct fault *f, const struct hasten_error *err)
{
    fault_of(f, err);
    if (f->status == 400)
        f->code = "unsupported_value";
    snprintf(f->param, sizeof f->param, "%s", field_of_form(g));
    return false;
}

/* Rules of which rf-root is what the answer must be; *any: there is something that it must be. */
static bool put_format(struct generation *g, struct buf *rules, bool *any, struct fault *f)
{
    const json_t *v = g->p.response_format, *of = json_object_get(v, "json_schema");
    const char *type = g->p.json_schema ? "json_schema" : json_string_value(json_object_get(v, "type"));
    const json_t *schema = g->p.json_schema ? g->p.json_schema : json_object_get(of ? of : v, "schema");
    struct hasten_error err;
    *any = (v || g->p.json_schema) && (!type || strcmp(type, "text"));
    if (!*any)
        return true;
    if (!type || (strcmp(type, "json_object") && strcmp(type, "json_schema")))
        return fault_set(f, 400, "unsupported_value", "response_format",
                         "response_format: type '%.32s' (expected text, json_object or json_schema)",
                         type ? type : "");
    if (json_is_object(schema) || json_is_boolean(schema))
        return !json_schema_rules(field_of_form(g), schema, "rf-", rules, &err) || bad_schema(g, f, &err);
    if (strcmp(type, "json_schema") == 0)
        return fault_set(f, 400, "invalid_value", "response_format",
                         "response_format: no schema (expected "
                         "{\"type\":\"json_schema\",\"json_schema\":{\"name\":...,\"schema\":{...}}})");
    return !buf_puts(rules, "rf-root ::= json-object\n") || no_memory(f);
}

bool structured_format(struct generation *g, struct fault *f)
{
    struct buf gbnf = {0};
    bool any, ok = put_format(g, &gbnf, &any, f);
    if (ok && any)
        ok = ((!buf_puts(&gbnf, "root ::= rf-root\n") && !json_rules(&gbnf)) || no_memory(f)) &&
             generation_set_grammar(g, field_of_form(g), gbnf.data, gbnf.len, f);
    buf_free(&gbnf);
    return ok;
}

/* ---- the grammar ---------------------------------------------------------------------------------------------- */

static bool add_notes(struct generation *g, json_t *notes)
{
    if (!json_array_size(notes))
        return true;
    if (!g->warnings)
        g->warnings = json_array();
    return g->warnings && !json_array_extend(g->warnings, notes);
}

static bool put_calls(struct generation *g, struct form *form, struct buf *gbnf, struct fault *f)
{
    struct hasten_error err;
    json_t *notes = json_array();
    bool ok = notes || no_memory(f);
    if (ok && tool_grammar(&form->wish, g->server->vocab, notes, gbnf, &err)) {
        ok = fault_of(f, &err);
        snprintf(f->param, sizeof f->param, "%s",
                 form->wish.choice == TOOL_CHOICE_NAMED && strstr(err.message, "none of them") ? "tool_choice"
                                                                                               : "tools");
    }
    if (ok && !add_notes(g, notes))
        ok = no_memory(f);
    json_decref(notes);
    return ok;
}

static bool set_grammar(struct generation *g, struct form *form, struct fault *f)
{
    struct buf rules = {0}, gbnf = {0};
    bool any, ok = put_format(g, &rules, &any, f);
    if (ok && any && form->wish.choice == TOOL_CHOICE_AUTO)
        form->wish.content = "rf-root";
    if (ok && form->calls) {
        ok = put_calls(g, form, &gbnf, f);
    } else if (ok && any) {
        const int bad = form->format.thinks ? thinking_rules(form->wish.thinking, "rf-root", &gbnf)
                                            : buf_puts(&gbnf, "root ::= rf-root\n");
        ok = (!bad && !json_rules(&gbnf)) || no_memory(f);
    }
    if (ok && any && buf_put(&gbnf, rules.data, rules.len))
        ok = no_memory(f);
    if (ok && gbnf.len)
        ok = generation_set_grammar(g, form->calls ? "tools" : field_of_form(g), gbnf.data, gbnf.len, f);
    buf_free(&rules);
    buf_free(&gbnf);
    return ok;
}

/* ---- the splitter --------------------------------------------------------------------------------------------- */

struct split { /* of one choice */
    struct tool_parser *parser;
    struct choice *choice;
    bool short_ids; /* nine letters and digits, which is what Mistral's templates take */
    struct hasten_error *err;
};

static int on_text(void *ctx, enum tool_said what, const char *text, size_t len)
{
    struct split *s = ctx;
    generation_say(s->choice, what == TOOL_SAID_CONTENT ? SAID_CONTENT : SAID_REASONING, text, len);
    return s->choice->g->failed;
}

static int on_call(void *ctx, int32_t index, const char *name, size_t len)
{
    static const char letters[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    struct split *s = ctx;
    char id[40] = "call_";
    const int from = s->short_ids ? 0 : 5, n = s->short_ids ? 9 : 24;
    uint64_t noise = 0;
    (void)index;
    for (int i = 0; i < n; i++) {
        noise = i % 8 ? noise / 62 : random_seed();
        id[from + i] = letters[noise % 62];
    }
    id[from + n] = 0;
    return generation_call_begin(s->choice, id, name, len, s->err) != HASTEN_OK;
}

static int on_arguments(void *ctx, int32_t index, const char *text, size_t len)
{
    struct split *s = ctx;
    (void)index;
    return generation_call_arguments(s->choice, text, len, s->err) != HASTEN_OK;
}

static hasten_status push(void *state, struct choice *c, const char *text, size_t len,
                          struct hasten_error *err)
{
    struct split *s = state;
    s->choice = c;
    s->err = err;
    return tool_parser_push(s->parser, text, len, err);
}

static hasten_status finish(void *state, struct choice *c, struct hasten_error *err)
{
    struct split *s = state;
    s->choice = c;
    s->err = err;
    return tool_parser_finish(s->parser, err);
}

static void close_split(void *state)
{
    struct split *s = state;
    tool_parser_close(s->parser);
    mem_free(s);
}

static const struct splitter_ops ops = {push, finish, close_split};

static bool set_splitters(struct generation *g, const struct form *form, struct fault *f)
{
    struct hasten_error err;
    struct tool_format format = form->format;
    if (!form->calls)
        format.family = TOOLS_NONE;
    if (!form->calls && !format.thinks && !form->wish.thinking)
        return true;
    for (int32_t i = 0; i < g->n_choices; i++) {
        struct split *s = mem_calloc(1, sizeof *s);
        if (!s)
            return no_memory(f);
        const struct tool_events on = {on_text, on_call, on_arguments, s};
        s->short_ids = format.family == TOOLS_MISTRAL || format.family == TOOLS_MISTRAL_ARGS;
        if (tool_parser_open(format, form->wish.thinking, &on, &s->parser, &err)) {
            mem_free(s);
            return fault_of(f, &err);
        }
        g->choices[i].splitter = (struct splitter){&ops, s};
    }
    return true;
}

/* ---- conversations -------------------------------------------------------------------------------------------- */

/* A call's arguments: OpenAI's clients send a string; most templates want what it says. */
static json_t *arguments_for(const json_t *v, bool as_text)
{
    struct hasten_error err;
    json_t *parsed = NULL;
    if (json_is_string(v) && !as_text &&
        !json_parse("arguments", json_string_value(v), json_string_length(v), &parsed, &err)) {
        if (json_is_object(parsed))
            return parsed;
        json_decref(parsed);
    }
    if (json_is_object(v) && as_text) {
        char *text = json_dumps(v, 0);
        parsed = text ? json_string(text) : NULL;
        mem_free(text);
        return parsed;
    }
    return v ? json_incref((json_t *)(uintptr_t)v) : json_object();
}

static json_t *call_for(const json_t *call, bool as_text)
{
    const json_t *f = json_object_get(call, "function"), *name = json_object_get(f, "name");
    json_t *copy = json_copy((json_t *)(uintptr_t)call), *function = json_copy((json_t *)(uintptr_t)f);
    int bad =
        !copy || !function || !json_is_string(name) ||
        json_object_set_new(function, "arguments", arguments_for(json_object_get(f, "arguments"), as_text));
    if (!bad && !json_object_get(copy, "type"))
        bad = json_object_set_new(copy, "type", json_string("function"));
    bad = bad || json_object_set(copy, "function", function);
    json_decref(function);
    if (bad) {
        json_decref(copy);
        return NULL;
    }
    return copy;
}

bool structured_calls(const struct server *s, json_t *m, size_t i, struct fault *f)
{
    const json_t *calls = json_object_get(m, "tool_calls"), *call;
    const struct tool_format format = format_of(s);
    char param[64];
    size_t k;
    if (!calls || json_is_null(calls) || (json_is_array(calls) && json_array_size(calls) == 0)) {
        json_object_del(m, "tool_calls");
        return true;
    }
    snprintf(param, sizeof param, "messages[%zu].tool_calls", i);
    json_t *list = json_is_array(calls) ? json_array() : NULL;
    int bad = !list;
    json_array_foreach(calls, k, call)
    {
        bad = bad || json_array_append_new(list, call_for(call, format.family == TOOLS_DEEPSEEK));
    }
    if (bad || json_object_set(m, "tool_calls", list) ||
        (!json_object_get(m, "content") && json_object_set_new(m, "content", json_null()))) {
        json_decref(list);
        return fault_set(
            f, 400, "invalid_value", param,
            "%s: expected calls {\"id\",\"type\":\"function\",\"function\":{\"name\",\"arguments\"}}", param);
    }
    json_decref(list);
    return true;
}

bool chat_count(struct generation *g, int64_t *n, struct fault *f)
{
    struct form form = {0};
    struct tokens ids = {0};
    const bool ok = take_tools(g, &form, f) && prompt_of_chat(g->server, &g->p, &ids, NULL, f);
    *n = ids.n;
    tokens_free(&ids);
    return ok;
}

void chat_start(struct generation *g)
{
    struct fault f = {0};
    struct form form = {0};
    struct tokens ids = {0};
    struct buf text = {0};
    bool ok = take_tools(g, &form, &f) && prompt_of_chat(g->server, &g->p, &ids, &text, &f);
    if (ok) {
        form.wish.thinking = tool_prompt_thinks(text.data ? text.data : "", text.len);
        ok = generation_add_prompt(g, &ids, &f) && set_grammar(g, &form, &f) && generation_prepare(g, &f) &&
             set_splitters(g, &form, &f);
    }
    tokens_free(&ids);
    buf_free(&text);
    if (ok)
        generation_start(g);
    else
        generation_refuse(g, &f);
}
