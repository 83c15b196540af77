/* The bytes of a vocabulary as a trie, written in preorder, so that a walk goes forward in memory and steps over a
 * subtree at once. Private to sample/. */
#ifndef HASTEN_SAMPLE_TOKEN_TRIE_H
#define HASTEN_SAMPLE_TOKEN_TRIE_H
#include "sample/grammar.h"
#include "sample/list.h"

struct trie_node {
    uint32_t skip;     /* the first node that is not below this one */
    uint32_t token_at; /* its tokens are ids[token_at, the next node's token_at) */
    uint16_t depth;    /* bytes up to it; the root: 0 */
    uint8_t byte;
};

struct trie_control { /* a control token: control_text.data[at, at + len) */
    int32_t id;
    uint32_t at, len;
};

struct token_trie {
    int32_t n_vocab, n_words;
    LIST(struct trie_node) nodes; /* and one more, whose token_at ends the last one's */
    int32_t *ids;                 /* [n_ids] by their bytes */
    int64_t n_ids;
    uint32_t
        *text_at; /* [n_vocab + 1] bytes of token i: text.data[text_at[i], text_at[i + 1]); none: not text */
    struct buf text;
    LIST(struct trie_control) controls; /* by id */
    struct buf control_text;
    uint64_t *ends;        /* [n_words] tokens that end a turn */
    int32_t n_ends, depth; /* depth: of the deepest node */
};

static inline bool token_ends(const struct token_trie *t, int32_t id)
{
    return t->ends[id / 64] >> (id % 64) & 1;
}

/* The token whose written form this is, a control token or one with this text; -1: none. */
int32_t token_trie_find(const struct token_trie *t, const char *text, size_t len);

#endif
