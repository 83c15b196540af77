/* Tiny vocabularies as GGUF files in memory, whole or with one fault, for the tests of src/text. */
#ifndef HASTEN_TESTS_TEXT_SUPPORT_H
#define HASTEN_TESTS_TEXT_SUPPORT_H
#include "tiny_vocab.h"

#include "base/mem.h"
#include "formats/gguf.h"
#include "text/vocab.h"

enum text_fault {
    FAULT_NONE,
    FAULT_NO_MODEL,
    FAULT_MODEL, /* "wordpiece" */
    FAULT_NO_PRE,
    FAULT_PRE, /* "deepseek" */
    FAULT_NO_TOKENS,
    FAULT_TOKENS_ARE_U32,
    FAULT_TOKENS_EMPTY,
    FAULT_TOKEN_TOO_LONG,
    FAULT_TYPES_SHORT,
    FAULT_TYPES_ARE_STRINGS,
    FAULT_TYPE_RANGE, /* a 9 among them */
    FAULT_BOS_RANGE,
    FAULT_EOS_RANGE,
    FAULT_EOT_RANGE,
    FAULT_EOS_LIST, /* an id out of range in eos_token_ids */
    FAULT_ADD_BOS_IS_STRING,
    FAULT_NO_MERGES_OR_SCORES,
    FAULT_MERGES_OR_SCORES_TYPE,
    FAULT_SCORES_SHORT, /* SentencePiece only, as the next one */
    FAULT_SCORE_NAN,
    FAULT_NO_BYTE_TOKEN,
    FAULT_BYTE_IS_CONTROL,
    FAULT_MERGE_NO_SPACE, /* BPE only, down to the end */
    FAULT_MERGE_TWO_SPACES,
    FAULT_MERGE_LEFT,
    FAULT_MERGE_RESULT,
    FAULT_MERGE_CONTROL,
    FAULT_N
};

enum text_model { /* what the tokens of a tiny vocabulary become */
    TEXT_AS_KIND,
    TEXT_GEMMA4, /* of TINY_GEMMA3: BPE on characters, with its merges */
    TEXT_BERT    /* of TINY_SMOLLM: WordPiece, the control tokens being [UNK], [CLS] and [SEP] */
};

struct text_options {
    enum tiny_vocab_kind kind;
    int32_t n_tokens;
    enum text_model model;
    const char *pre; /* tokenizer.ggml.pre; NULL: that of the kind */
    int prefix;      /* SentencePiece: add_space_prefix */
    int no_types;    /* leave token_type out */
    enum text_fault fault;
};

/* The file's bytes. 0, or -1. */
int text_file(const struct text_options *o, struct buf *out);
/* The same vocabulary as a tokenizer.json: pre_tokenizer is its part of that name (JSON), normalizer too; NULL: null. */
int text_json(const struct text_options *o, const char *normalizer, const char *pre_tokenizer,
              struct buf *out);

/* One name of every pre-tokeniser that GGUF files name. */
extern const char *const text_pre_names[];
extern const int text_n_pre_names;

struct text_vocab {
    struct buf file;
    struct gguf *g;
    struct vocab *v;
};
/* Opens the vocabulary of text_file(o). */
hasten_status text_vocab_open(const struct text_options *o, struct text_vocab *out, struct hasten_error *err);
void text_vocab_close(struct text_vocab *t);

#endif
