/* Tokenizers: bytes to token ids and back, from the vocabulary inside a GGUF file or a tokenizer.json.
 *
 * Kinds: BPE, on bytes (tokenizer.ggml.model "gpt2") or on characters with byte fallback ("gemma4"),
 * SentencePiece with byte fallback ("llama"), WordPiece ("bert"). An unknown model, pre-tokeniser or step of a
 * tokenizer.json is refused by name (HASTEN_ERR_UNSUPPORTED). Immutable after opening and usable from any
 * thread. Linear time, no recursion, any bytes (invalid UTF-8 and NUL included). */
#ifndef HASTEN_TEXT_VOCAB_H
#define HASTEN_TEXT_VOCAB_H
#include "base/error.h"
#include "base/mem.h"
#include "formats/gguf.h"

struct vocab;

enum {                   /* flags of vocab_encode */
    VOCAB_BOS = 1,       /* put the file's BOS in front when the file asks for it (add_bos_token) */
    VOCAB_SPECIAL = 2,   /* text may form control tokens; without it they are encoded as ordinary text */
    VOCAB_NO_PREFIX = 4, /* no dummy space in front (continuation of a text) */
    VOCAB_EOS =
        8 /* put the token that ends a text ([SEP], EOS) behind when the file asks for it (embeddings) */
};

enum vocab_token_type { /* values as in tokenizer.ggml.token_type */
    VOCAB_NORMAL = 1,
    VOCAB_UNKNOWN = 2,
    VOCAB_CONTROL = 3,
    VOCAB_USER_DEFINED = 4,
    VOCAB_UNUSED = 5,
    VOCAB_BYTE = 6
};

struct tokens { /* growable list; zero-initialise; free with tokens_free */
    int32_t *ids;
    int64_t n, cap;
};
int tokens_push(struct tokens *t, int32_t id); /* 0, or -1 when out of memory */
void tokens_free(struct tokens *t);

/* Copies what it needs from g's tables by reference: g must outlive the vocab. */
hasten_status vocab_open(const struct gguf *g, struct vocab **out, struct hasten_error *err);
/* The files of a Hugging Face model folder, as texts; they need not outlive the call. */
struct vocab_json {
    const char *path; /* of tokenizer.json, for messages */
    const char *tokenizer;
    size_t tokenizer_len;
    const char
        *config; /* tokenizer_config.json: chat_template, bos_token, eos_token, add_bos_token; NULL: none */
    size_t config_len;
    const char *template; /* chat_template.jinja, which newer folders have instead; NULL: none */
    size_t template_len;
};
/* Reads tokenizer.json (BPE on bytes or with byte fallback, WordPiece). HASTEN_ERR_FILE: not such a document,
 * HASTEN_ERR_UNSUPPORTED: a model, step or expression that Hasten does not know, named. */
hasten_status vocab_open_json(const struct vocab_json *src, struct vocab **out, struct hasten_error *err);
void vocab_close(struct vocab *v);
struct gguf_compose;
/* A vocabulary of a tokenizer.json as keys tokenizer.ggml.* but the chat template, for n_rows rows of embeddings. *put is
 * false, and nothing written, where GGUF has no words for what it does. */
hasten_status vocab_put_keys(const struct vocab *v, int64_t n_rows, struct gguf_compose *c, bool *put,
                             struct hasten_error *err);

int32_t vocab_size(const struct vocab *v);
int32_t vocab_bos(const struct vocab *v); /* -1: none */
int32_t vocab_eos(const struct vocab *v); /* -1: none */
int32_t vocab_sep(const struct vocab *v); /* what VOCAB_EOS puts behind a text; -1: nothing */
bool vocab_add_bos(const struct vocab *v);
/* The model's chat template (tokenizer.chat_template, chat_template); len 0: it has none. */
struct gguf_str vocab_chat_template(const struct vocab *v);
/* True for every token that ends a turn: EOS, EOT, EOM and tokens known by name (<|im_end|>, <end_of_turn>,
 * <|eot_id|>, <|endoftext|> ...). */
bool vocab_is_eog(const struct vocab *v, int32_t id);
enum vocab_token_type vocab_type(const struct vocab *v, int32_t id);
/* The token as written in the file (BPE's byte alphabet, SentencePiece's U+2581). Pointer into the file. */
struct gguf_str vocab_text(const struct vocab *v, int32_t id);
int32_t vocab_find(const struct vocab *v, const char *text, size_t len); /* by written form; -1: none */
const char *vocab_describe(const struct vocab *v);                       /* "bpe/qwen2", "spm" */

/* Appends the ids of text[0, len) to out. */
hasten_status vocab_encode(const struct vocab *v, const char *text, size_t len, unsigned flags,
                           struct tokens *out, struct hasten_error *err);

/* Appends the bytes of one token to out (control tokens: their written form when special, else nothing).
 * For SentencePiece U+2581 becomes a space; the dummy space of the first token is the caller's business
 * (detok handles it). Invalid ids are HASTEN_ERR_USAGE naming the id. */
hasten_status vocab_token_bytes(const struct vocab *v, int32_t id, bool special, struct buf *out,
                                struct hasten_error *err);

/* detokenize(tokenize(x)) == x byte for byte, except where ids equal to the reference's forbid it: qwen2 gives
 * NFC(x), SentencePiece a space for U+2581, a byte that the vocabulary has no token for is dropped (bpe.c names
 * them; SmolLM2 lacks 21). Appends the bytes of all ids (BOS dropped, dummy space removed). */
hasten_status vocab_decode(const struct vocab *v, const int32_t *ids, int64_t n, bool special,
                           struct buf *out, struct hasten_error *err);

#endif
