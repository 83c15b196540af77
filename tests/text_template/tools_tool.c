/* What the tests of tool calls ask, as lines of JSON on stdin and stdout (test_tools.py).
 *
 *     {"template": source, "context": {...}}                   -> {"family", "wide", "thinks", "text"}
 *     {"template": source, "answer": text, "thinking": bool, "cuts": [n...]}
 *         -> {"content", "reasoning", "calls": [{"name", "arguments"}], "pieces": n}
 *     {"template": source, "tools": [...], "choice": "auto" | "required" | name, "parallel": bool, "thinking": bool, "texts": [...]}
 *         -> {"fits": [bool...], "notes": [...]} or {"error"} */
#include "base/mem.h"
#include "sample/grammar.h"
#include "sample/tool_grammar.h"
#include "text/template.h"
#include "text/tools.h"
#include <jansson.h>
#include <stdio.h>
#include <string.h>

struct told {
    struct buf content, reasoning;
    struct buf name[16], arguments[16];
    int n, pieces;
};

static int on_text(void *ctx, enum tool_said what, const char *text, size_t len)
{
    struct told *t = ctx;
    t->pieces++;
    return buf_put(what == TOOL_SAID_CONTENT ? &t->content : &t->reasoning, text, len);
}

static int on_call(void *ctx, int32_t index, const char *name, size_t len)
{
    struct told *t = ctx;
    t->n = index + 1;
    t->pieces++;
    return index >= 16 || buf_put(&t->name[index], name, len);
}

static int on_arguments(void *ctx, int32_t index, const char *text, size_t len)
{
    struct told *t = ctx;
    t->pieces++;
    return buf_put(&t->arguments[index], text, len);
}

static json_t *text_of(const struct buf *b)
{
    return json_stringn(b->data ? b->data : "", b->len);
}

static hasten_status parse(struct tool_format f, const json_t *q, json_t *a, struct hasten_error *err)
{
    struct told t = {0};
    const struct tool_events on = {on_text, on_call, on_arguments, &t};
    struct tool_parser *p;
    const json_t *answer = json_object_get(q, "answer"), *cuts = json_object_get(q, "cuts");
    const char *text = json_string_value(answer);
    const size_t len = json_string_length(answer);
    hasten_status st = tool_parser_open(f, json_is_true(json_object_get(q, "thinking")), &on, &p, err);
    size_t at = 0;
    for (size_t i = 0; i <= json_array_size(cuts) && !st; i++) {
        size_t to = i < json_array_size(cuts) ? (size_t)json_integer_value(json_array_get(cuts, i)) : len;
        to = to > len ? len : to < at ? at : to;
        st = tool_parser_push(p, text + at, to - at, err);
        at = to;
    }
    if (!st)
        st = tool_parser_finish(p, err);
    tool_parser_close(p);
    json_t *calls = json_array();
    for (int i = 0; i < t.n; i++) {
        json_array_append_new(calls, json_pack("{s:o, s:o}", "name", text_of(&t.name[i]), "arguments",
                                               text_of(&t.arguments[i])));
        buf_free(&t.name[i]);
        buf_free(&t.arguments[i]);
    }
    json_object_set_new(a, "content", text_of(&t.content));
    json_object_set_new(a, "reasoning", text_of(&t.reasoning));
    json_object_set_new(a, "calls", calls);
    json_object_set_new(a, "pieces", json_integer(t.pieces));
    buf_free(&t.content);
    buf_free(&t.reasoning);
    return st;
}

static hasten_status fit(struct tool_format f, const json_t *q, json_t *a, struct hasten_error *err)
{
    const char *choice = json_string_value(json_object_get(q, "choice"));
    struct tool_wish w = {.format = f,
                          .tools = json_object_get(q, "tools"),
                          .name = choice,
                          .choice = strcmp(choice, "auto") == 0       ? TOOL_CHOICE_AUTO
                                    : strcmp(choice, "required") == 0 ? TOOL_CHOICE_REQUIRED
                                                                      : TOOL_CHOICE_NAMED,
                          .parallel = json_is_true(json_object_get(q, "parallel")),
                          .thinking = json_is_true(json_object_get(q, "thinking"))};
    struct buf gbnf = {0};
    struct grammar *g = NULL;
    json_t *notes = json_array(), *fits = json_array();
    const json_t *one;
    size_t i;
    hasten_status st = tool_grammar(&w, NULL, notes, &gbnf, err);
    if (!st)
        st = grammar_open("grammar", gbnf.data, gbnf.len, &g, err);
    json_array_foreach(json_object_get(q, "texts"), i, one)
    {
        bool whole = false, beginning;
        if (!st)
            st = grammar_matches(g, json_string_value(one), json_string_length(one), &whole, &beginning, err);
        json_array_append_new(fits, json_boolean(whole));
    }
    json_object_set_new(a, "fits", fits);
    json_object_set_new(a, "notes", notes);
    grammar_close(g);
    buf_free(&gbnf);
    return st;
}

static hasten_status render(const json_t *source, const json_t *q, json_t *a, struct hasten_error *err)
{
    struct template *t = NULL;
    struct buf out = {0};
    hasten_status st =
        template_open("template", json_string_value(source), json_string_length(source), &t, err);
    if (!st)
        st = template_render(t, json_object_get(q, "context"), &out, err);
    json_object_set_new(a, "text", text_of(&out));
    template_close(t);
    buf_free(&out);
    return st;
}

int main(void)
{
    struct hasten_error err = {0};
    json_t *q;
    json_set_alloc_funcs(mem_alloc, mem_free);
    while ((q = json_loadf(stdin, JSON_DISABLE_EOF_CHECK | JSON_ALLOW_NUL, NULL))) {
        json_t *a = json_object();
        const json_t *source = json_object_get(q, "template");
        const struct tool_format f =
            tool_format_detect(json_string_value(source), json_string_length(source));
        json_object_set_new(a, "family", json_string(tool_family_name(f.family)));
        json_object_set_new(a, "thinks", json_boolean(f.thinks));
        const hasten_status st = json_object_get(q, "answer")  ? parse(f, q, a, &err)
                                 : json_object_get(q, "tools") ? fit(f, q, a, &err)
                                                               : render(source, q, a, &err);
        if (st)
            json_object_set_new(a, "error", json_string(err.message));
        json_dumpf(a, stdout, JSON_COMPACT);
        putchar('\n');
        fflush(stdout);
        json_decref(a);
        json_decref(q);
    }
    return 0;
}
