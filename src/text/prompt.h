/* From a conversation to token ids: the model's chat template, rendered and encoded so that only the template
 * can speak control tokens.
 *
 * The danger: a user's text may spell `<|im_end|>`; in the rendered prompt it looks like the template's own.
 * What is done: before rendering, a private mark (a sequence of private-use characters that occurs nowhere in
 * the input) is put inside every spelling of a control token in the messages and tools, and at an end of a
 * string that could complete one together with the template's text. The template moves text about as it likes;
 * a spelling from content carries its mark with it. After rendering the marks are taken out, their places kept,
 * and a control token is recognised only where no mark lies inside; text between is encoded as plain text.
 * Strings without such spellings are not touched, so ordinary prompts are encoded exactly as rendered. */
#ifndef HASTEN_TEXT_PROMPT_H
#define HASTEN_TEXT_PROMPT_H
#include "text/template.h"
#include "text/vocab.h"

struct prompter; /* immutable after prompter_open; usable from any thread */

/* v and g must outlive it. A file without tokenizer.chat_template gives *out = NULL and HASTEN_OK. */
hasten_status prompter_open(const struct gguf *g, const struct vocab *v, struct prompter **out,
                            struct hasten_error *err);
void prompter_close(struct prompter *p);

/* A rendered prompt: its text, and where content spells control tokens. Zero-initialise. */
struct prompt {
    struct buf text;
    size_t
        *marks; /* [n_marks] ascending byte offsets into text: strictly inside a spelling that is content */
    size_t n_marks, cap_marks;
};
void prompt_free(struct prompt *p);

/* messages: an OpenAI messages array (its `content` strings; other shapes are the template's business). tools:
 * array or NULL. HASTEN_ERR_TEMPLATE, HASTEN_ERR_USAGE (messages not an array of objects). */
hasten_status prompter_render(const struct prompter *p, const json_t *messages, const json_t *tools,
                              bool add_generation_prompt, struct prompt *out, struct hasten_error *err);

/* Appends the ids of text[from, end). From 0 the file's BOS is put in front if it asks for one and the template
 * has not written it; from elsewhere the text continues an earlier one. */
hasten_status prompter_encode(const struct prompter *p, const struct prompt *prompt, size_t from,
                              struct tokens *out, struct hasten_error *err);

#endif
