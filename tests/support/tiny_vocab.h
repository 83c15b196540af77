/* Small but real vocabularies for tests: byte-level BPE and SentencePiece with byte fallback, trained (plain
 * pair counting) on a page of text that is part of the program. */
#ifndef HASTEN_TESTS_TINY_VOCAB_H
#define HASTEN_TESTS_TINY_VOCAB_H
#include <stddef.h>
#include <stdint.h>

#define TINY_TOKEN_BYTES 48
#define TINY_MIN_VOCAB 384 /* 256 bytes, characters, control tokens */

enum tiny_token_type { /* values of tokenizer.ggml.token_type */
    TINY_NORMAL = 1,
    TINY_CONTROL = 3,
    TINY_USER_DEFINED = 4,
    TINY_UNUSED = 5,
    TINY_BYTE = 6
};

struct tiny_token {
    char text[TINY_TOKEN_BYTES];
    uint32_t len;
    int32_t type;
    float score; /* SentencePiece only */
};

struct tiny_merge {
    char text[2 * TINY_TOKEN_BYTES]; /* "left right" */
    uint32_t len;
};

struct tiny_vocab {
    struct tiny_token *tokens; /* [n_tokens] */
    struct tiny_merge *merges; /* [n_merges] in order of rank; SentencePiece files hold scores instead */
    int32_t n_tokens, n_merges;
    int32_t bos, eos, pad, unk;
};

enum tiny_vocab_kind {
    TINY_SMOLLM, /* BPE; control tokens <|endoftext|> <|im_start|> <|im_end|> first */
    TINY_QWEN2,  /* BPE; the same control tokens last */
    TINY_GEMMA3  /* SentencePiece: control tokens, runs of newlines and spaces, 256 bytes, scored pieces */
};

/* Exactly n_tokens tokens (>= TINY_MIN_VOCAB); filled up with unused ones when the text gives no more merges.
 * 0, or -1 when out of memory or n_tokens is too small. */
int tiny_vocab_make(enum tiny_vocab_kind kind, int32_t n_tokens, struct tiny_vocab *out);
void tiny_vocab_free(struct tiny_vocab *v);

#endif
