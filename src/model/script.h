/* The scripted model: logits without weights, for tests of what is built on an engine (the command, servers,
 * schedulers). Opened by a name instead of a path:
 *
 *     script:FILE[,vocab=N|MODEL][,ctx=N]               what comes next stands in a file of rules (docs/scripted.md)
 *     script:hash=SEED[,vocab=N|MODEL][,ctx=N][,length=N]   it follows from a hash of all tokens so far
 *
 * This folder knows names, vocabulary and rules; engine/scripted.c is the forward pass. The logits of a position are a
 * function of the tokens up to it, and each position's state is made of the one before it alone, which the engine keeps
 * in the KV pages: a page that is lost, stale or another sequence's changes the logits, as it would with weights. */
#ifndef HASTEN_MODEL_SCRIPT_H
#define HASTEN_MODEL_SCRIPT_H
#include "model/loaded.h"

#define SCRIPT_MAX_RULES 256
#define SCRIPT_MAX_IFS 64
#define SCRIPT_NAN (-1) /* an item: a row of logits of which none is finite */

/* What the engine keeps of a position. */
struct script_state {
    uint64_t hash; /* of the tokens up to here */
    uint64_t seen; /* bit i: `if` i has stood somewhere up to here */
    int32_t token;
};

struct script_items {
    int32_t *ids; /* [n] token ids, or SCRIPT_NAN */
    int64_t n, cap;
};

enum script_kind {
    SCRIPT_AT, /* from position `at` on: items */
    SCRIPT_AFTER, /* after what ends with `after` and goes on as items do; perhaps only if `condition` was seen */
};
struct script_rule {
    enum script_kind kind;
    int32_t at, condition; /* condition: a bit of seen, or -1 */
    struct script_items after, items;
};

struct script {
    bool hashed;
    uint64_t seed;
    int32_t length;            /* hashed: tokens of an answer, on average; 0: without end */
    struct script_rule *rules; /* [n_rules] */
    int32_t n_rules;
    struct script_items ifs[SCRIPT_MAX_IFS];
    int32_t n_ifs, otherwise; /* what follows when no rule says: a token or SCRIPT_NAN */
    int32_t n_vocab, end;     /* end: the token that ends an answer, or -1 */
    uint8_t *spoken;          /* [n_vocab] hashed: tokens that are likely; owned */
    uint8_t *file;            /* the bytes of the built-in vocabulary, as a GGUF file; owned, or NULL */
};

bool script_named(const char *path); /* "script:..." */
/* Fills a zeroed model. HASTEN_ERR_USAGE: a name that is none; HASTEN_ERR_FILE with the line: rules that are none. */
hasten_status script_load(struct hasten_model *m, const char *path, struct hasten_error *err);
void script_close(struct script *s); /* NULL is fine */

/* script_rules.c: reads text[0, len) into s; name is for messages. */
hasten_status script_read_rules(struct script *s, const struct vocab *v, const char *name, const char *text,
                                size_t len, struct hasten_error *err);
/* script_vocab.c: a vocabulary of the 256 bytes (token id = byte), the control tokens of ChatML, and as many unused
 * ones as n_vocab wants, as a GGUF file in memory. */
#define SCRIPT_MIN_VOCAB 259 /* bytes, <|endoftext|>, <|im_start|>, <|im_end|> */
hasten_status script_make_vocab(int32_t n_vocab, int32_t n_ctx, uint8_t **file, size_t *size,
                                struct hasten_error *err);

/* The token at an earlier position of the same sequence. */
typedef int32_t (*script_back_fn)(const void *ctx, int32_t pos);

/* The state at position pos, whose token is `token`; before: of pos - 1, NULL at 0. */
struct script_state script_next(const struct script *s, const struct script_state *before, int32_t pos,
                                int32_t token, script_back_fn back, const void *ctx);
/* The row of logits [n_vocab] of position pos in that state: what stands at pos + 1. */
void script_logits(const struct script *s, const struct script_state *at, int32_t pos, script_back_fn back,
                   const void *ctx, float *row);

#endif
