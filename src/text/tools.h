/* Tool calls in the texts of models: which form a model's chat template writes them in, and an answer taken apart into
 * content, reasoning and calls while it comes.
 *
 *     hermes    <tool_call>\n{"name": "f", "arguments": {...}}\n</tool_call>, once for each call (Hermes, Qwen 2.5, Qwen 3)
 *     llama3    {"name": "f", "parameters": {...}}, perhaps behind <|python_tag|>; one call, and nothing beside it
 *     mistral   [TOOL_CALLS] [{"name": "f", "arguments": {...}}, ...], or [TOOL_CALLS]f[ARGS]{...}, once for each call
 *     deepseek  <|tool_calls_begin|><|tool_call_begin|>function<|tool_sep|>f\n```json\n{...}\n```<|tool_call_end|>...
 *               (its own bars and blanks, U+FF5C and U+2581, or ASCII's), or ...f<|tool_sep|>{...}<|tool_call_end|> (V3.1)
 *
 * What it does not do: choose what may be called; sample/tool_grammar.h makes the grammar of these forms. */
#ifndef HASTEN_TEXT_TOOLS_H
#define HASTEN_TEXT_TOOLS_H
#include "base/error.h"
#include "base/mem.h"
#include <stdbool.h>

enum tool_family {
    TOOLS_NONE, /* the template has none that we know */
    TOOLS_HERMES,
    TOOLS_LLAMA3,
    TOOLS_MISTRAL,
    TOOLS_MISTRAL_ARGS, /* with [ARGS] */
    TOOLS_DEEPSEEK,
    TOOLS_DEEPSEEK_BARE /* V3.1: without the word function and without fences */
};

struct tool_format {
    enum tool_family family;
    bool wide;   /* deepseek: with bars and blanks of its own */
    bool thinks; /* the template knows <think> */
};

/* From the source of a chat template. */
struct tool_format tool_format_detect(const char *source, size_t len);
const char *tool_family_name(enum tool_family f);

enum tool_mark {
    TOOL_MARK_BEGIN, /* before the first call, or before each (hermes, mistral with [ARGS]) */
    TOOL_MARK_END,   /* behind them */
    TOOL_MARK_CALL,  /* deepseek: around one call, and behind its name */
    TOOL_MARK_CALL_END,
    TOOL_MARK_NAME_END /* also mistral's [ARGS] */
};
/* The text of a mark; NULL where the family has none. It may be a control token. */
const char *tool_mark(struct tool_format f, enum tool_mark m);

/* Does a rendered prompt end inside <think>, so that the answer begins with reasoning? */
bool tool_prompt_thinks(const char *prompt, size_t len);

/* ---- answers --------------------------------------------------------------------------------------------------- */

enum tool_said {
    TOOL_SAID_CONTENT,
    TOOL_SAID_REASONING
};

/* Called as soon as something is sure; non-zero ends the push with HASTEN_ERR_MEMORY. What is said of a call comes in order:
 * it begins (its name whole), pieces of its arguments (JSON as the model wrote it; together the whole), the next call. */
struct tool_events {
    int (*text)(void *ctx, enum tool_said what, const char *text, size_t len);
    int (*call)(void *ctx, int32_t index, const char *name, size_t len);
    int (*arguments)(void *ctx, int32_t index, const char *text, size_t len);
    void *ctx;
};

struct tool_parser;

/* format.family TOOLS_NONE: only reasoning is split off. thinking: the answer begins inside <think>. White space between
 * content and calls, and around reasoning, belongs to neither. */
hasten_status tool_parser_open(struct tool_format format, bool thinking, const struct tool_events *events,
                               struct tool_parser **out, struct hasten_error *err);
void tool_parser_close(struct tool_parser *p); /* NULL is fine */
/* More text. What could still become a mark is held back. */
hasten_status tool_parser_push(struct tool_parser *p, const char *text, size_t len, struct hasten_error *err);
/* No more will come: gives out what was held back. What looked like a call, but has no name, is content. */
hasten_status tool_parser_finish(struct tool_parser *p, struct hasten_error *err);
int32_t tool_parser_n_calls(const struct tool_parser *p);

#endif
