/* What the files of the tokenizer share: the opened vocabulary, its indices and the working memory of one
 * encoding. vocab.c opens and checks, token_index.c looks up written forms, added.c finds control and
 * user-defined tokens in raw text, pretokenize.c cuts text into words, merge.c merges symbols, bpe.c and spm.c
 * give it their rules, encode.c and decode.c are the two ways through. Private to them. */
#ifndef HASTEN_TEXT_VOCAB_INTERNAL_H
#define HASTEN_TEXT_VOCAB_INTERNAL_H
#include "text/unicode.h"
#include "text/vocab.h"

enum vocab_kind {
    VOCAB_BPE,
    VOCAB_SPM
};
enum pretok {
    PRETOK_SMOLLM,
    PRETOK_QWEN2
};

#define SPM_SPACE "\xE2\x96\x81" /* U+2581, how SentencePiece writes a space */
#define SPM_SPACE_BYTES 3

/* ---- token_index.c: written form -> id ---------------------------------------------------------------- */

struct token_slot {
    uint64_t
        head; /* first 8 bytes of the text, zeros behind: short tokens are compared without leaving the slot */
    int32_t id; /* -1: free */
    uint16_t len, tag;
};

struct token_index { /* open addressing, at most three quarters full */
    struct token_slot *slots;
    uint64_t mask, seed;
    bool duplicates; /* some text was entered twice */
};

/* Room for n tokens. 0, or -1 when out of memory. */
int token_index_init(struct token_index *t, int64_t n);
void token_index_free(struct token_index *t);
/* Enters texts[id] unless an equal text is there already (the lowest id keeps the name). -1: too many collisions. */
int token_index_add(struct token_index *t, const struct gguf_str *texts, int32_t id);
/* Asks for the memory that a look-up of s will read: look-ups in a row then wait together, not one by one. */
void token_index_touch(const struct token_index *t, const char *s, size_t len);
int32_t token_index_find(const struct token_index *t, const struct gguf_str *texts, const char *s,
                         size_t len);

/* ---- added.c: tokens that are found in raw text before anything else ---------------------------------- */

struct added_node {
    int32_t child, next; /* first child, next sibling; -1: none */
    int32_t id;          /* token that ends here, or -1 */
    uint8_t byte;
};

struct added_tokens { /* a trie, one root per first byte */
    struct added_node *nodes;
    int32_t n, cap;
    int32_t first[256]; /* child of the root by byte; -1: none */
};

void added_init(struct added_tokens *a);
int added_insert(struct added_tokens *a, const char *s, size_t len, int32_t id); /* 0, or -1: out of memory */
void added_free(struct added_tokens *a);
/* The leftmost, then longest token in text[pos, len). Returns its id and where it lies; -1: none. */
int32_t added_next(const struct added_tokens *a, const char *text, size_t len, size_t pos, size_t *start,
                   size_t *end);

/* ---- the vocabulary ----------------------------------------------------------------------------------- */

struct bpe_merge {
    uint32_t left, right; /* ids; left == UINT32_MAX: free slot */
    uint32_t rank;
    int32_t id; /* of the merged token */
};

struct vocab {
    enum vocab_kind kind;
    enum pretok pre;
    const char *description;
    int32_t n, bos, eos;
    bool add_bos, add_prefix;
    struct gguf_str *texts; /* [n], into the file */
    uint8_t *types;         /* [n], enum vocab_token_type; VOCAB_EOG_BIT on top */
    struct token_index index;
    struct added_tokens added;
    int32_t byte_id[256]; /* token of a single byte; -1: none (BPE only) */

    /* BPE */
    struct bpe_merge *merges; /* hash table of pairs, at most three quarters full */
    uint64_t merge_mask, merge_seed;

    /* SentencePiece */
    uint32_t *score_order; /* [n]: smaller is merged first */
    size_t max_text_bytes; /* longest token */
    bool glue[256];        /* byte b stands directly before a U+2581 inside some token */
};

#define VOCAB_EOG_BIT 0x80u
#define VOCAB_TYPE_MASK 0x07u

/* ---- decode.c ----------------------------------------------------------------------------------------- */

struct vocab_cursor { /* where a text stands; zero: at its beginning */
    bool after_bos, started;
};

/* Appends the bytes of the next token of a text: drops the BOS that encode put in front and the dummy space. */
hasten_status vocab_decode_next(const struct vocab *v, struct vocab_cursor *at, int32_t id, bool special,
                                struct buf *out, struct hasten_error *err);

/* ---- merge.c: the loop that all kinds of BPE share ---------------------------------------------------- */

struct symbol {
    int32_t id;          /* token; -1: a byte that merges with nothing (SentencePiece fallback) */
    uint32_t start, len; /* bytes of the text it stands for; len 0: merged into its left neighbour */
    uint32_t chars;      /* characters of them */
    int32_t prev, next;  /* neighbours; -1: none */
    int32_t pair;        /* heap only: what it and its right neighbour become; -1: nothing */
};

struct merge_cand { /* ordered by (rank, id, pos) */
    uint64_t rank;
    int32_t id;  /* token that the pair becomes; -1: the pair does not merge */
    int32_t pos; /* index of its left symbol */
};

/* Working memory of one vocab_encode. */
struct encode_work {
    const struct vocab *v;
    struct tokens *out;
    struct unicode_nfc nfc;
    struct buf escaped; /* SentencePiece: the text with U+2581 for spaces */
    const char *text;   /* what symbols point into */
    struct symbol *syms;
    int64_t n_syms, cap_syms;
    struct merge_cand *heap;
    int64_t n_heap, cap_heap;
};

/* Says what the neighbours l, r become: fills rank and id (id -1: nothing). */
typedef void (*merge_rule)(const struct encode_work *w, const struct symbol *l, const struct symbol *r,
                           struct merge_cand *out);

/* Appends a symbol. 0, or -1 when out of memory. */
int merge_push(struct encode_work *w, int32_t id, size_t start, size_t len);
/* Merges the symbols until no pair merges: always the least candidate, in O(n log n), without recursion. */
int merge_run(struct encode_work *w, merge_rule rule);

/* ---- vocab.c, for bpe.c and spm.c ---- */

/* Element type and count of an array that a vocabulary cannot do without; a missing one is HASTEN_ERR_FILE. */
hasten_status vocab_required_array(const struct gguf *g, const char *key, enum gguf_value_type *elem,
                                   int64_t *n, struct hasten_error *err);

/* ---- bpe.c, spm.c, pretokenize.c ---------------------------------------------------------------------- */

hasten_status bpe_open(struct vocab *v, const struct gguf *g, struct hasten_error *err);
/* Appends the ids of one valid UTF-8 text. 0, or -1 when out of memory. */
int bpe_encode(struct encode_work *w, const char *text, size_t len);
/* Bytes of a token of the byte alphabet; a token with other characters stands for itself. -1: out of memory. */
int bpe_token_bytes(struct gguf_str text, struct buf *out);

hasten_status spm_open(struct vocab *v, const struct gguf *g, struct hasten_error *err);
int spm_encode(struct encode_work *w, const char *text, size_t len, bool prefix);

/* End of the word that begins at pos < len of a valid UTF-8 text. */
size_t pretok_next(enum pretok pre, const char *text, size_t len, size_t pos);

#endif
