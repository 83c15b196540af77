/* Grammars of tool calls (tool_grammar.h): text that does not hold a mark, calls of each family, the arguments' schemas. */
#include "sample/tool_grammar.h"
#include "base/limits.h"
#include "sample/json_schema.h"
#include "text/unicode.h"
#include <stdio.h>
#include <string.h>

struct maker {
    const struct tool_wish *wish;
    const struct vocab *vocab;
    json_t *notes;
    struct buf *out;
    struct hasten_error *err;
};

static hasten_status no_memory(struct hasten_error *err)
{
    return error_set(err, HASTEN_ERR_MEMORY, "tools: out of memory");
}

/* ---- texts ---------------------------------------------------------------------------------------------------- */

static int put_quoted(struct buf *b, const char *text)
{
    int bad = buf_putc(b, '"');
    for (const char *c = text; *c && !bad; c++)
        bad = *c == '"' || *c == '\\' ? buf_putc(b, '\\') || buf_putc(b, *c)
              : *c == '\n'            ? buf_puts(b, "\\n")
                                      : buf_putc(b, *c);
    return bad || buf_putc(b, '"');
}

/* A mark's control token; -1: it is text. */
static int32_t control_of(const struct maker *m, const char *mark)
{
    const int32_t id = m->vocab && mark ? vocab_find(m->vocab, mark, strlen(mark)) : -1;
    return id >= 0 && vocab_type(m->vocab, id) == VOCAB_CONTROL && !vocab_is_eog(m->vocab, id) ? id : -1;
}

static int put_mark(const struct maker *m, enum tool_mark which)
{
    const char *mark = tool_mark(m->wish->format, which);
    const int32_t id = control_of(m, mark);
    return id >= 0 ? buf_printf(m->out, "<[%d]>", (int)id) : put_quoted(m->out, mark);
}

#define MOST_MARK 64 /* characters */

static int put_one(struct buf *b, uint32_t c)
{
    return buf_printf(b, c < 0x10000 ? "\\u%04X" : "\\U%08X", (unsigned)c);
}

/* How much of the mark the text ends with after its first i characters and then c (Knuth, Morris and Pratt 1977). */
static int mark_next(const uint32_t *mark, int i, uint32_t c)
{
    for (int k = i + 1; k > 0; k--) {
        bool same = mark[k - 1] == c;
        for (int j = 0; j < k - 1 && same; j++)
            same = mark[j] == mark[i - (k - 1) + j];
        if (same)
            return k;
    }
    return 0;
}

/* Rules NAME0, NAME1 ...: any text in which the mark does not stand. NAMEi: its first i characters have just been read. */
static int put_without(struct buf *b, const char *name, const char *text)
{
    uint32_t mark[MOST_MARK];
    int n = 0, bad = 0;
    for (size_t at = 0, len = strlen(text); at < len && n < MOST_MARK; n++) {
        const int k = utf8_decode(text + at, len - at, &mark[n]);
        at += k > 0 ? (size_t)k : 1;
    }
    for (int i = 0; i < n && !bad; i++) {
        bad = buf_printf(b, "%s%d ::= \"\"", name, i);
        for (int j = 0; j < n && !bad; j++) {
            bool seen = false;
            for (int k = 0; k < j; k++)
                seen |= mark[k] == mark[j];
            const int next = mark_next(mark, i, mark[j]);
            if (!seen && next < n)
                bad = buf_puts(b, " | [") || put_one(b, mark[j]) || buf_printf(b, "] %s%d", name, next);
        }
        bad = bad || buf_puts(b, " | [^");
        for (int j = 0; j < n && !bad; j++)
            bad = put_one(b, mark[j]);
        bad = bad || buf_printf(b, "] %s0\n", name);
    }
    return bad;
}

static const char think_end[] = "</think>";

int thinking_rules(bool inside, const char *name, struct buf *gbnf)
{
    return buf_printf(gbnf, "root ::= %sthinking-0 \"%s\" [ \\n]{0,4}%s %s\n", inside ? "" : "(\"<think>\" ",
                      think_end, inside ? "" : ")?", name) ||
           put_without(gbnf, "thinking-", think_end);
}

/* ---- tools ---------------------------------------------------------------------------------------------------- */

static const json_t *function_of(const json_t *tool)
{
    const char *type = json_string_value(json_object_get(tool, "type"));
    return !type || strcmp(type, "function") == 0 ? json_object_get(tool, "function") : NULL;
}

/* The name of tool i, checked. NULL after filling err. */
static const char *name_of(const struct maker *m, size_t i)
{
    const json_t *f = function_of(json_array_get(m->wish->tools, i)), *v = json_object_get(f, "name");
    const char *name = json_string_value(v);
    bool good =
        name && *name && json_string_length(v) <= LIMIT_TOOL_NAME && strlen(name) == json_string_length(v);
    for (const char *c = name; good && *c; c++)
        good = (*c >= '0' && *c <= '9') || (*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') ||
               strchr("_-.:/", *c);
    if (!good)
        error_set(
            m->err, HASTEN_ERR_USAGE,
            "tools[%zu]: no function with a name (expected {\"type\":\"function\",\"function\":{\"name\":...}}, a name "
            "of letters, digits, _ - . : /)",
            i);
    return good ? name : NULL;
}

static bool is_wanted(const struct maker *m, const char *name)
{
    return m->wish->choice != TOOL_CHOICE_NAMED || strcmp(name, m->wish->name) == 0;
}

/* Rules tI-root ...: what tool i's arguments are. */
static hasten_status put_schema(const struct maker *m, size_t i)
{
    const json_t *f = function_of(json_array_get(m->wish->tools, i)),
                 *schema = json_object_get(f, "parameters");
    char what[64], prefix[32];
    struct hasten_error why = {0};
    snprintf(what, sizeof what, "tools[%zu].function.parameters", i);
    snprintf(prefix, sizeof prefix, "t%zu-", i);
    hasten_status st = HASTEN_OK;
    if (json_is_object(schema) || json_is_boolean(schema)) {
        st = json_schema_rules(what, schema, prefix, m->out, &why);
    } else if (schema && !json_is_null(schema)) {
        return error_set(m->err, HASTEN_ERR_USAGE, "%s: no schema (expected an object)", what);
    }
    if (st && (st == HASTEN_ERR_MEMORY || json_is_true(json_object_get(f, "strict"))))
        return error_set(m->err, st, "%s", why.message);
    if (schema && !st && !json_is_null(schema))
        return HASTEN_OK;
    if (st && m->notes) {
        struct buf note = {0};
        const int bad = buf_printf(&note, "%s (its arguments may be any object)", why.message) ||
                        json_array_append_new(m->notes, json_stringn(note.data, note.len));
        buf_free(&note);
        if (bad)
            return no_memory(m->err);
    }
    return buf_printf(m->out, "%sroot ::= json-object\n", prefix) ? no_memory(m->err) : HASTEN_OK;
}

/* What one tool's call looks like, between the marks. */
static int put_call(const struct maker *m, size_t i, const char *name)
{
    struct buf *b = m->out;
    int bad = buf_printf(b, "call-%zu ::= ", i);
    switch (m->wish->format.family) {
    case TOOLS_HERMES:
    case TOOLS_MISTRAL:
        bad = bad || buf_printf(b, "\"{\\\"name\\\": \\\"%s\\\", \\\"arguments\\\": \" t%zu-root", name, i);
        if (m->wish->format.family == TOOLS_MISTRAL)
            bad = bad || buf_puts(b, " (\", \\\"id\\\": \\\"\" [a-zA-Z0-9]{9} \"\\\"\")?");
        return bad || buf_puts(b, " \"}\"\n");
    case TOOLS_LLAMA3:
        return bad || buf_printf(b, "\"{\\\"name\\\": \\\"%s\\\", \\\"parameters\\\": \" t%zu-root \"}\"\n",
                                 name, i);
    case TOOLS_DEEPSEEK:
        return bad || buf_puts(b, "\"function\" ") || put_mark(m, TOOL_MARK_NAME_END) ||
               buf_printf(b, " \"%s\\n```json\\n\" t%zu-root \"\\n```\"\n", name, i);
    default:
        return bad || buf_printf(b, "\"%s\" ", name) || put_mark(m, TOOL_MARK_NAME_END) ||
               buf_printf(b, " t%zu-root\n", i);
    }
}

static hasten_status put_tools(const struct maker *m)
{
    struct buf any = {0};
    const size_t n = json_array_size(m->wish->tools);
    hasten_status st = HASTEN_OK;
    if (n > LIMIT_TOOLS)
        return error_set(m->err, HASTEN_ERR_LIMIT, "tools: %zu of them (expected at most %d)", n,
                         LIMIT_TOOLS);
    int bad = buf_puts(&any, "");
    for (size_t i = 0; i < n && !st && !bad; i++) {
        const char *name = name_of(m, i);
        if (!name) {
            buf_free(&any);
            return HASTEN_ERR_USAGE;
        }
        if (!is_wanted(m, name))
            continue;
        st = put_schema(m, i);
        if (!st)
            bad = put_call(m, i, name) || buf_printf(&any, any.len ? " | call-%zu" : "call-%zu", i);
    }
    if (!st && !bad && !any.len)
        st = error_set(m->err, HASTEN_ERR_USAGE, "tools: none of them is called '%.100s'",
                       m->wish->name ? m->wish->name : "");
    if (!st && (bad || buf_printf(m->out, "one-call ::= ") || buf_put(m->out, any.data, any.len) ||
                buf_puts(m->out, "\n")))
        st = no_memory(m->err);
    buf_free(&any);
    return st;
}

/* ---- answers -------------------------------------------------------------------------------------------------- */

/* "calls": one or more, with their marks. */
static int put_calls(const struct maker *m)
{
    struct buf *b = m->out;
    const bool more = m->wish->parallel;
    int bad = buf_puts(b, "calls ::= ");
    switch (m->wish->format.family) {
    case TOOLS_LLAMA3:
        return bad || buf_puts(b, "one-call\n");
    case TOOLS_HERMES:
        return bad ||
               buf_puts(b, more ? "marked-call (\"\\n\" marked-call)*\nmarked-call ::= "
                                : "marked-call\nmarked-call ::= ") ||
               put_mark(m, TOOL_MARK_BEGIN) || buf_puts(b, " \"\\n\" one-call \"\\n\" ") ||
               put_mark(m, TOOL_MARK_END) || buf_puts(b, "\n");
    case TOOLS_MISTRAL:
        return bad || put_mark(m, TOOL_MARK_BEGIN) ||
               buf_puts(b, more ? " \" \"? \"[\" one-call (\", \" one-call)* \"]\"\n"
                                : " \" \"? \"[\" one-call \"]\"\n");
    case TOOLS_MISTRAL_ARGS:
        return bad ||
               buf_puts(b, more ? "marked-call+\nmarked-call ::= " : "marked-call\nmarked-call ::= ") ||
               put_mark(m, TOOL_MARK_BEGIN) || buf_puts(b, " one-call\n");
    default:
        bad = bad || put_mark(m, TOOL_MARK_BEGIN) || buf_puts(b, " marked-call ");
        if (more)
            bad = bad || buf_puts(b, m->wish->format.family == TOOLS_DEEPSEEK ? "(\"\\n\"? marked-call)* "
                                                                              : "marked-call* ");
        return bad || put_mark(m, TOOL_MARK_END) || buf_puts(b, "\nmarked-call ::= ") ||
               put_mark(m, TOOL_MARK_CALL) || buf_puts(b, " one-call ") || put_mark(m, TOOL_MARK_CALL_END) ||
               buf_puts(b, "\n");
    }
}

/* "answer": what stands behind the reasoning. */
static int put_answer(const struct maker *m)
{
    struct buf *b = m->out;
    const char *mark = tool_mark(m->wish->format, TOOL_MARK_BEGIN);
    if (m->wish->choice != TOOL_CHOICE_AUTO)
        return buf_puts(b, "answer ::= calls\n");
    if (m->wish->content)
        return buf_printf(b, "answer ::= calls | %s\n", m->wish->content);
    if (m->wish->format.family == TOOLS_LLAMA3)
        return buf_puts(b, "answer ::= calls | [ \\n\\t]* ([^{ \\n\\t] .*)?\n");
    if (control_of(m, mark) >= 0)
        return buf_puts(b, "answer ::= .* calls?\n");
    return buf_puts(b, "answer ::= free-0 calls?\n") || put_without(b, "free-", mark);
}

static int put_root(const struct maker *m)
{
    if (m->wish->thinking || m->wish->format.thinks)
        return thinking_rules(m->wish->thinking, "answer", m->out);
    return buf_puts(m->out, "root ::= answer\n");
}

hasten_status tool_grammar(const struct tool_wish *w, const struct vocab *v, json_t *notes, struct buf *gbnf,
                           struct hasten_error *err)
{
    const struct maker m = {w, v, notes, gbnf, err};
    const size_t before = gbnf->len;
    if (w->format.family == TOOLS_NONE)
        return error_set(
            err, HASTEN_ERR_UNSUPPORTED,
            "tools: the model's chat template has no form of tool calls that is known: unsupported");
    if (!json_is_array(w->tools) || json_array_size(w->tools) == 0)
        return error_set(err, HASTEN_ERR_USAGE, "tools: none (expected an array of functions)");
    hasten_status st = HASTEN_OK;
    if (put_root(&m) || put_answer(&m) || put_calls(&m) || json_rules(gbnf))
        st = no_memory(err);
    if (!st)
        st = put_tools(&m);
    if (st)
        gbnf->len = before;
    return st;
}
