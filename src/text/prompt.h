/* From a conversation to token ids: the model's chat template, rendered and encoded so that only the template
 * can speak control tokens.
 *
 * The danger: a user's text may spell `<|im_end|>`, or a template may make it spell that (lower case, a character
 * replaced, two parts joined); in the rendered prompt it looks like the template's own. What is done: the interpreter
 * follows the origin of every byte (template.h, template_render_origin), and a control token is recognised only where
 * each of its bytes is the template's own; the rest is encoded as plain text. Where content spells nothing of the
 * kind, the prompt is encoded exactly as rendered. */
#ifndef HASTEN_TEXT_PROMPT_H
#define HASTEN_TEXT_PROMPT_H
#include "text/template.h"
#include "text/vocab.h"

struct prompter; /* immutable after prompter_open; usable from any thread */

/* v and g must outlive it. g NULL: the template is the one that v was opened with (tokenizer_config.json). Without a
 * chat template *out = NULL and HASTEN_OK. */
hasten_status prompter_open(const struct gguf *g, const struct vocab *v, struct prompter **out,
                            struct hasten_error *err);
void prompter_close(struct prompter *p);

/* A rendered prompt: its text, and which parts of it stem from content. Zero-initialise. */
struct prompt_span {
    size_t begin, end; /* bytes of text */
};
struct prompt {
    struct buf text;
    struct prompt_span *spans; /* [n_spans] of content, ascending, apart, none empty */
    size_t n_spans, cap_spans;
};
void prompt_free(struct prompt *p);

/* messages: an OpenAI messages array (its `content` strings; other shapes are the template's business). tools:
 * array or NULL. HASTEN_ERR_TEMPLATE, HASTEN_ERR_USAGE (messages not an array of objects). */
hasten_status prompter_render(const struct prompter *p, const json_t *messages, const json_t *tools,
                              bool add_generation_prompt, struct prompt *out, struct hasten_error *err);

/* The same with further variables of the template (an object, or NULL), such as enable_thinking. They come from outside,
 * like content; names that the prompter sets itself are left out. */
hasten_status prompter_render_with(const struct prompter *p, const json_t *messages, const json_t *tools,
                                   const json_t *variables, bool add_generation_prompt, struct prompt *out,
                                   struct hasten_error *err);

/* Appends the ids of text[from, end). From 0 the file's BOS is put in front if it asks for one and the template
 * has not written it; from elsewhere the text continues an earlier one. */
hasten_status prompter_encode(const struct prompter *p, const struct prompt *prompt, size_t from,
                              struct tokens *out, struct hasten_error *err);

#endif
