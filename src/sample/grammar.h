/* Grammars as token masks: which tokens may come next so that the text can still become what the grammar says.
 *
 * A grammar (GBNF, gbnf.h) is compiled once and never changes. A vocabulary is prepared once per model. The two together
 * make a struct grammar_masks, which any number of sequences share, from any threads; each has a struct grammar_state.
 *
 * Two engines give equal masks, bit for bit: GRAMMAR_SCAN is the reference (an Earley parser that tries every token from
 * the start, byte by byte), GRAMMAR_TRIE the one to use (a trie of the vocabulary's bytes walked once for each place of
 * the grammar; what it finds is kept).
 *
 * A token is judged by its bytes, so a character may be cut anywhere. A token that ends a turn is allowed exactly where
 * the text is complete; other control tokens, tokens that the vocabulary has no text for and rows of the logits beyond
 * the vocabulary never. A text that is allowed so far can be completed in bytes; only a vocabulary without tokens for
 * these bytes can leave a mask without a bit. */
#ifndef HASTEN_SAMPLE_GRAMMAR_H
#define HASTEN_SAMPLE_GRAMMAR_H
#include "base/error.h"
#include "text/vocab.h"

struct grammar;

/* Parses and compiles text[0, len). name is for messages: HASTEN_ERR_FILE, HASTEN_ERR_UNSUPPORTED or HASTEN_ERR_LIMIT
 * with NAME:line:column where there is one. */
hasten_status grammar_open(const char *name, const char *text, size_t len, struct grammar **out,
                           struct hasten_error *err);
/* The same from a file ("-": stdin). */
hasten_status grammar_open_file(const char *path, struct grammar **out, struct hasten_error *err);
void grammar_close(struct grammar *g); /* NULL is fine */
int32_t grammar_n_rules(const struct grammar *g);
/* Does it name tokens of the vocabulary (<name>, <[id]>)? Then these are part of its texts. */
bool grammar_names_tokens(const struct grammar *g);

/* ---- the vocabulary -------------------------------------------------------------------------------------- */

struct token_trie;

/* n_vocab: rows of the logits, at least 1. Copies what it needs. About 12 bytes a byte of the vocabulary's text. */
hasten_status token_trie_open(const struct vocab *v, int32_t n_vocab, struct token_trie **out,
                              struct hasten_error *err);
/* From texts: text[n], ends[n] (1: ends a turn; its text is not looked at). */
hasten_status token_trie_of(const struct gguf_str *text, const uint8_t *ends, int32_t n,
                            struct token_trie **out, struct hasten_error *err);
void token_trie_close(struct token_trie *t); /* NULL is fine */

/* ---- masks ----------------------------------------------------------------------------------------------- */

enum grammar_engine {
    GRAMMAR_TRIE,
    GRAMMAR_SCAN
};

struct grammar_masks;

/* never_end: tokens that end a turn are not even allowed where the text is complete. Both must outlive it. */
hasten_status grammar_masks_open(const struct grammar *g, const struct token_trie *t,
                                 enum grammar_engine engine, bool never_end, struct grammar_masks **out,
                                 struct hasten_error *err);
void grammar_masks_close(struct grammar_masks *m);            /* after its states; NULL is fine */
int32_t grammar_masks_n_words(const struct grammar_masks *m); /* ceil(n_vocab / 64): the length of a mask */
size_t grammar_masks_bytes(struct grammar_masks *m);          /* of what it remembers now */

struct grammar_state; /* of one sequence */

hasten_status grammar_start(struct grammar_masks *m, struct grammar_state **out, struct hasten_error *err);
hasten_status grammar_clone(const struct grammar_state *s, struct grammar_state **out,
                            struct hasten_error *err);
void grammar_end(struct grammar_state *s); /* NULL is fine */

/* bits[n_words]: bit i % 64 of word i / 64 is set when token i is allowed. *n_allowed: how many are; 0 is no error. */
hasten_status grammar_mask(struct grammar_state *s, uint64_t *bits, int32_t *n_allowed,
                           struct hasten_error *err);
/* HASTEN_ERR_USAGE, and nothing changes, when the token is not allowed. */
hasten_status grammar_accept(struct grammar_state *s, int32_t token, struct hasten_error *err);
/* Takes the last n tokens back; HASTEN_ERR_USAGE when there are fewer. */
hasten_status grammar_rollback(struct grammar_state *s, int64_t n, struct hasten_error *err);
/* *token: the only one allowed, or -1 when there are none or several. bits[n_words]: scratch, then the mask. */
hasten_status grammar_forced(struct grammar_state *s, uint64_t *bits, int32_t *token,
                             struct hasten_error *err);
/* *complete: the text so far is one that the grammar says (it may go on). */
hasten_status grammar_complete(struct grammar_state *s, bool *complete, struct hasten_error *err);
int64_t grammar_n_tokens(const struct grammar_state *s); /* accepted and not taken back */

/* Could text[0, len) be the whole answer? For tests and checks; no vocabulary needed. */
hasten_status grammar_matches(const struct grammar *g, const char *text, size_t len, bool *whole,
                              bool *beginning, struct hasten_error *err);

#endif
