/* Hasten: text. A model's vocabulary turns text into token ids and back; its chat template turns a conversation into
 * a prompt. Any thread, at any time, also while engines run: a model never changes, and neither does a chat. A stream
 * belongs to one thread at a time. Text is UTF-8 with an explicit length; any bytes are taken (NUL and what is no
 * UTF-8 too).
 *
 * Results are appended to growable lists, struct hasten_ids and struct hasten_bytes: set them to zero before first
 * use, set n (len) to 0 to use them again, free them with their own call. On failure what was there stays; what a
 * failed call had appended so far may follow it. */
#ifndef HASTEN_TEXT_H
#define HASTEN_TEXT_H
#include "hasten/hasten.h"

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

struct hasten_ids {
    int32_t *ids; /* [n] */
    int64_t n, cap;
};
void hasten_ids_free(struct hasten_ids *l); /* leaves it zero */

struct hasten_bytes {
    char *data; /* [len], then a NUL; NULL while nothing was ever appended */
    size_t len, cap;
};
void hasten_bytes_free(struct hasten_bytes *b); /* leaves it zero */

/* ---- tokens --------------------------------------------------------------------------------------------- */

enum {                   /* flags of hasten_tokenize */
    HASTEN_TEXT_BOS = 1, /* begin with the token for that, if the model wants one: a text from its start */
    HASTEN_TEXT_SPECIAL = 2,   /* text may form control tokens ("<|im_end|>"); never for what users wrote */
    HASTEN_TEXT_CONTINUES = 4, /* the text goes on from an earlier one: no dummy space (SentencePiece) */
    HASTEN_TEXT_EOS = 8        /* end with the token that ends a text, if the model wants one (embeddings) */
};

/* Appends the ids of text[0, len). HASTEN_ERR_MEMORY; HASTEN_ERR_LIMIT for a text beyond 256 MiB. */
hasten_status hasten_tokenize(const struct hasten_model *m, const char *text, size_t len, unsigned flags,
                              struct hasten_ids *out, struct hasten_error *err);
/* Appends the bytes of ids[0, n). special: control tokens as they are written, else they give nothing.
 * HASTEN_ERR_USAGE naming an id that the vocabulary does not have. */
hasten_status hasten_detokenize(const struct hasten_model *m, const int32_t *ids, int64_t n, bool special,
                                struct hasten_bytes *out, struct hasten_error *err);
/* Whether a model says with this token that its turn or text is over. */
bool hasten_token_ends(const struct hasten_model *m, int32_t id);
/* The number of tokens that have a text; at most hasten_model_n_vocab. */
int32_t hasten_model_n_tokens(const struct hasten_model *m);

/* ---- streams -------------------------------------------------------------------------------------------- */

/* From ids, one by one, to bytes that may be shown: never half a character, never a part of a stop string. */
struct hasten_stream;

/* stops[n_stops]: NUL-terminated, copied; at most 64 of 1 to 1,024 bytes (HASTEN_ERR_LIMIT). continues: the ids go
 * on from a prompt, as answers do. m must outlive the stream. */
hasten_status hasten_stream_open(const struct hasten_model *m, const char *const *stops, int32_t n_stops,
                                 bool continues, struct hasten_stream **out, struct hasten_error *err);
/* Appends what may be shown now. *stopped: a stop string is complete; what comes before it has been given out, and
 * nothing more will be. HASTEN_ERR_USAGE for an id that the vocabulary does not have. */
hasten_status hasten_stream_push(struct hasten_stream *s, int32_t id, struct hasten_bytes *out, bool *stopped,
                                 struct hasten_error *err);
/* At the end: appends what was held back. */
hasten_status hasten_stream_finish(struct hasten_stream *s, struct hasten_bytes *out,
                                   struct hasten_error *err);
void hasten_stream_close(struct hasten_stream *s); /* NULL is fine */

/* ---- chats ---------------------------------------------------------------------------------------------- */

/* A model's chat template, read and ready. */
struct hasten_chat;

struct hasten_message {
    const char *role;    /* NUL-terminated: "system", "user", "assistant" */
    const char *content; /* NUL-terminated UTF-8 */
};

/* HASTEN_ERR_UNSUPPORTED for a model without a chat template, HASTEN_ERR_TEMPLATE (line, column) for one that cannot
 * be read. m must outlive the chat. */
hasten_status hasten_chat_open(const struct hasten_model *m, struct hasten_chat **out,
                               struct hasten_error *err);
/* Appends the ids of a whole conversation, BOS included where the model wants it. begin_answer: with what begins the
 * answer of the assistant. Content cannot speak control tokens, whatever it spells: only the template can.
 * HASTEN_ERR_TEMPLATE where the template refuses the conversation, HASTEN_ERR_USAGE for content that is no UTF-8. */
hasten_status hasten_chat_encode(const struct hasten_chat *c, const struct hasten_message *messages,
                                 int32_t n, bool begin_answer, struct hasten_ids *out,
                                 struct hasten_error *err);
/* The same for a JSON array of messages as OpenAI's API has it (tool calls and all), and, unless NULL, one of tools.
 * Both NUL-terminated. HASTEN_ERR_FILE with line and column for what is no JSON. */
hasten_status hasten_chat_encode_json(const struct hasten_chat *c, const char *messages, const char *tools,
                                      bool begin_answer, struct hasten_ids *out, struct hasten_error *err);
void hasten_chat_close(struct hasten_chat *c); /* NULL is fine */

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
