/* Chat templates: a bounded, sandboxed interpreter of the Jinja subset that chat templates use, with the
 * semantics of Python's jinja2 as Hugging Face transformers configures it (trim_blocks, lstrip_blocks, loop
 * controls, tojson without HTML escapes, raise_exception, strftime_now).
 *
 * It can reach nothing but its context. Bounds: see LIMIT_TEMPLATE_* (source, nesting, steps, output, memory).
 * Every failure of a template is HASTEN_ERR_TEMPLATE with "line L, column C: ...", a failed allocation is
 * HASTEN_ERR_MEMORY; there is no fallback. */
#ifndef HASTEN_TEXT_TEMPLATE_H
#define HASTEN_TEXT_TEMPLATE_H
#include "base/error.h"
#include "base/json.h"
#include "base/mem.h"
#include <stddef.h>

struct template;

/* Parses source[0, len). name is used in messages. The template is immutable and thread-safe afterwards. */
hasten_status template_open(const char *name, const char *source, size_t len, struct template **out,
                            struct hasten_error *err);
void template_close(struct template *t);
/* Renders with the variables of context (a JSON object: messages, add_generation_prompt, bos_token, ...).
 * Appends to out; on failure out is as before. */
hasten_status template_render(const struct template *t, const json_t *context, struct buf *out,
                              struct hasten_error *err);
/* The same, and where each byte comes from. content: an object of further variables, which came from outside
 * (messages, tools, documents). Appends to origin one byte per byte appended to out: 1 where it stems from a string of
 * content, however the template moved, cut, changed or escaped it; 0 where the template, context or the interpreter
 * wrote it. A "role" with one of the usual names (jinja_arena.c) counts as the template's own: '<|' + role + '|>'. */
hasten_status template_render_origin(const struct template *t, const json_t *context, const json_t *content,
                                     struct buf *out, struct buf *origin, struct hasten_error *err);

#endif
