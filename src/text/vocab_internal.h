/* What the files of the tokenizer share: the opened vocabulary, its indices and the working memory of one
 * encoding. vocab.c checks and answers, vocab_gguf.c and vocab_json.c read the two kinds of files, recipe.c and
 * json_steps.c say how a text is prepared, token_index.c looks up written forms, added.c finds control and
 * user-defined tokens in text, normalize.c and pretokenize.c prepare text and cut it into words, merge.c merges
 * symbols, bpe.c, spm.c and wordpiece.c are the models, encode.c and decode.c the two ways through. Private to
 * them. */
#ifndef HASTEN_TEXT_VOCAB_INTERNAL_H
#define HASTEN_TEXT_VOCAB_INTERNAL_H
#include "text/pretok.h"
#include "text/vocab.h"
#include <jansson.h>

enum vocab_kind {
    VOCAB_BPE, /* on bytes, or on characters with byte fallback (raw) */
    VOCAB_SPM,
    VOCAB_WPM
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

/* The longest token that text[pos, len) begins with, and its end; -1: none. */
int32_t added_longest(const struct added_tokens *a, const char *text, size_t len, size_t pos, size_t *end);

/* ---- how a text is prepared (recipe.c, json_steps.c, normalize.c) ------------------------------------- */

enum text_op {
    TEXT_NFC,
    TEXT_NFD,
    TEXT_NFKC,
    TEXT_NFKD,
    TEXT_LOWER,
    TEXT_DROP_MARKS,   /* combining characters */
    TEXT_DROP_ACCENTS, /* of them, the nonspacing ones */
    TEXT_CLEAN,        /* BERT: drops control characters, makes every space U+0020 */
    TEXT_SPACE_CJK,    /* BERT: spaces around ideographs */
    TEXT_STRIP_LEFT,
    TEXT_STRIP_RIGHT,
    TEXT_REPLACE,        /* from by to */
    TEXT_PREPEND,        /* to in front, unless empty */
    TEXT_PREPEND_MISSING /* the same unless the text begins with it */
};

struct text_step {
    uint8_t op;      /* enum text_op */
    bool first_only; /* only at the beginning of the whole text */
    struct gguf_str from, to;
};

#define RECIPE_TEXT_STEPS 12
struct text_recipe {
    struct text_step norm[RECIPE_TEXT_STEPS],
        pre[RECIPE_TEXT_STEPS]; /* pre: behind the search for added tokens */
    struct pretok_step split[PRETOK_STEPS];
    int n_norm, n_pre, n_split;
    bool fallback; /* raw: a character without a token becomes the tokens of its bytes */
    bool raw;      /* BPE on characters, not on the byte alphabet */
    bool whole;    /* a word that is a token is that token, whatever the merges say */
    bool lines;    /* the same for words of line ends only */
    bool add_bos;  /* what a file without the key means */
    bool tail;     /* a text that is embedded ends with SEP or EOS */
};

/* How tokenizer.ggml.pre says; false: no such name. */
bool recipe_by_name(struct gguf_str name, struct text_recipe *out);
/* BERT's: clean, ideographs apart, without accents and in lower case when lower; words and punctuation. */
void recipe_bert(bool lower, struct text_recipe *out);
void recipe_add_text(struct text_recipe *r, enum text_op op);
/* Whether two prepare text alike; what stands around it does not count. */
bool recipe_same(const struct text_recipe *a, const struct text_recipe *b);
/* A name in tokenizer.ggml.pre under which text is prepared so; len 0: none. */
struct gguf_str recipe_name(const struct text_recipe *r);

/* ---- the vocabulary ----------------------------------------------------------------------------------- */

struct bpe_merge {
    uint32_t left, right; /* ids; left == UINT32_MAX: free slot */
    uint32_t rank;
    int32_t id; /* of the merged token */
};

enum { /* struct vocab.found: what a tokenizer.json says of a token (of a GGUF file: FOUND_RSTRIP alone) */
    FOUND_LSTRIP = 1,
    FOUND_RSTRIP = 2,
    FOUND_SINGLE_WORD = 4,
    FOUND_TAIL = 8,   /* WordPiece: continues a word */
    FOUND_ADDED = 16, /* is among added_tokens */
    FOUND_NORMAL = 32 /* is found in normalised text */
};

struct vocab {
    enum vocab_kind kind;
    struct text_recipe recipe;
    char description[64];
    int32_t n, bos, eos, tail,
        unk;                  /* tail: what VOCAB_EOS puts behind; unk: what stands for what has no token */
    bool add_bos, add_prefix; /* add_prefix: SentencePiece puts a space in front */
    bool strip_prefix;        /* decoding drops the first space */
    bool fuse_unk;
    struct gguf_str *texts; /* [n], into the file */
    uint8_t *types;         /* [n], enum vocab_token_type; VOCAB_EOG_BIT on top */
    uint8_t *found;         /* [n], FOUND_*; NULL: a GGUF file */
    struct token_index index;
    struct added_tokens added, added_normal; /* found in raw text; in normalised text */
    int32_t byte_id[256];                    /* token of a single byte; -1: none */
    struct gguf_str template;
    char *owned, *owned_steps, *owned_template; /* of a tokenizer.json; NULL: all text lies in the file */
    int32_t word_chars;                         /* WordPiece: a longer word is unknown */
    size_t max_text_bytes;                      /* longest token */

    /* BPE */
    struct bpe_merge *merges; /* hash table of pairs, at most three quarters full */
    uint64_t merge_mask, merge_seed;

    /* SentencePiece */
    uint32_t *score_order; /* [n]: smaller is merged first */
    bool glue[256]; /* byte b stands directly before a U+2581 inside some token (BPE on characters too) */

    /* WordPiece: tokens that begin a word (without U+2581) and that continue one */
    struct added_tokens heads, tails;
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
    unsigned flags;
    struct unicode_nfc nfc;
    struct buf escaped; /* SentencePiece: the text with U+2581 for spaces */
    struct buf norm[2]; /* text between two steps of normalisation */
    struct buf pre[2];  /* the same behind the search for added tokens */
    struct pretok pretok;
    const char *text; /* what symbols point into */
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

/* ---- vocab.c: what both kinds of files go through ------------------------------------------------------ */

/* Memory for n tokens: texts, types (all normal), index. */
hasten_status vocab_reserve(struct vocab *v, int64_t n, const char *path, const char *key,
                            struct hasten_error *err);
/* Enters all texts into the index. */
hasten_status vocab_index_texts(struct vocab *v, const char *path, const char *key, struct hasten_error *err);
/* Marks what ends a turn by name (control or user-defined tokens only), and EOS. */
void vocab_mark_eog(struct vocab *v);
/* A new, empty vocabulary; NULL: out of memory. */
struct vocab *vocab_new(void);
/* Text must never become a control token, by no merge. */
bool vocab_is_text(const struct vocab *v, int32_t id);

/* ---- bpe.c, spm.c, wordpiece.c ------------------------------------------------------------------------- */

struct merge_pair {
    struct gguf_str left, right;
};
/* Where merges come from, in order of rank. read: fills out[0, n) with merges [from, from + n). */
struct merge_source {
    const void *from;
    int64_t n;
    const char *path, *key; /* for messages */
    bool skip_control; /* leave merges of control tokens out (converters write them); else they are refused */
    hasten_status (*read)(const struct merge_source *src, int64_t from, int n, struct merge_pair *out,
                          struct hasten_error *err);
};
#define MERGE_BLOCK 32 /* most that read is asked for */

/* Finds the tokens of bytes, enters the merges. */
hasten_status bpe_open(struct vocab *v, const struct merge_source *src, struct hasten_error *err);
/* Appends the ids of one valid UTF-8 text, normalised. 0, or -1 when out of memory. */
int bpe_encode(struct encode_work *w, const char *text, size_t len);
/* Bytes of a token of the byte alphabet; a token with other characters stands for itself. -1: out of memory. */
int bpe_token_bytes(struct gguf_str text, struct buf *out);

hasten_status spm_open(struct vocab *v, const struct gguf *g, struct hasten_error *err);
int spm_encode(struct encode_work *w, const char *text, size_t len, bool prefix);
/* Finds the tokens of bytes, <0x00> to <0xFF>; a missing one stays -1 and its name is *missing. */
void spm_find_bytes(struct vocab *v, int *missing);
/* Fills max_text_bytes and glue. */
void spm_find_glue(struct vocab *v);
/* Whether a text may be cut before the U+2581 at s[end], end > 0: no token reaches across. */
bool spm_border(const struct vocab *v, const char *s, size_t len, size_t end);

/* Texts in GGUF's form: U+2581 in front of what begins a word, nothing in front of what continues one.
 * prefix: what the file writes in front of those, if it does ("##"). */
hasten_status wordpiece_open(struct vocab *v, const char *path, struct gguf_str prefix,
                             struct hasten_error *err);
int wordpiece_encode(struct encode_work *w, const char *text, size_t len);

/* ---- json_steps.c: tokenizer.json's normalizer, pre_tokenizer, decoder --------------------------------- */

hasten_status json_read_steps(struct vocab *v, const char *path, const json_t *doc, struct hasten_error *err);
bool json_text_is(const json_t *value, const char *text);

/* ---- normalize.c --------------------------------------------------------------------------------------- */

/* Applies the steps to s[0, len), valid UTF-8; the result lives until the next call with the same two buffers.
 * prefix: texts may be put in front; first: s begins the whole text. 0, or -1 when out of memory. */
int text_prepare(struct encode_work *w, struct buf bufs[2], const struct text_step *steps, int n, bool prefix,
                 bool first, const char **s, size_t *len);

#endif
