/* Masks of parses, by one walk over the vocabulary's trie for each place instead of one for each parse. Private to
 * sample/.
 *
 * What a head (place, frame) allows is what its place allows while its rule has not ended, whatever the frame, and, from
 * the nodes of the trie where the rule may end, what the frame's heads allow below these nodes. So the places of a parse
 * that share a frame are walked once, with nothing known of the frame, and the result is kept: the tokens, and the nodes
 * where the rule ends ("exits": only those below which a byte stands that can follow the rule). A walk with many exits is
 * taken on from them for the places that the frame goes on at, and that is kept as well, below it; few exits are walked
 * when a mask is asked for, in the parse as it is. The mask of a whole parse is kept too. */
#ifndef HASTEN_SAMPLE_MASK_TREE_H
#define HASTEN_SAMPLE_MASK_TREE_H
#include "sample/stacks.h"
#include "sample/token_trie.h"

struct token_list { /* some tokens: as a list if few, else as bits */
    int32_t *ids;   /* [n] or NULL */
    uint64_t *bits; /* [n_words] or NULL */
    int32_t n;
};

struct walked {
    struct token_list tokens;
    uint32_t *exits; /* [n_exits] nodes of the trie */
    int32_t n_exits;
    int64_t weight;      /* about how many nodes a walk from the exits looks at */
    int32_t parse;       /* where it stood at first: places, each with the bottom for a frame */
    int32_t first, next; /* below it: the walks that go on from its exits; beside it. -1: none */
};

struct mask_tree {
    const struct network *net;
    const struct token_trie *trie;
    struct stacks *stacks;
    LIST(struct walked) walks;
    LIST(int32_t) of_bottom;       /* by parse: the walk from the trie's root + 1 */
    LIST(struct token_list) masks; /* of parses */
    LIST(int32_t) of_parse;        /* by parse: number + 1 */
    LIST(struct head) group;
    int32_t *path;        /* [trie->depth + 1] the parse at each depth of a walk */
    uint64_t *found;      /* [n_words] */
    LIST(uint32_t) exits; /* of the walk at work */
    int64_t n_looks;      /* of the mask at work */
    size_t bytes;
};

/* 0, or -1 when out of memory. */
int mask_tree_open(struct mask_tree *t, const struct network *n, const struct token_trie *trie,
                   struct stacks *stacks);
void mask_tree_clear(struct mask_tree *t); /* forgets all; open again */
/* bits[n_words]: the tokens of text that a parse allows; how many, or -1 when out of memory. */
int32_t mask_tree_mask(struct mask_tree *t, int32_t parse, uint64_t *bits);

#endif
