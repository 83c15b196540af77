/* A radix tree over the tokens of kept sequences: which of them begin like a prompt. It compares tokens in full and
 * hashes nothing, so there is no hit by mistake. Scopes have a root each.
 *
 * A node's label is a run of tokens, [from, to) of any sequence that passes through it (its owner). Every node but a
 * root has children or is where a sequence ends, so there are at most twice as many as sequences, and their memory is
 * taken once. It owns no tokens: a sequence must stay as it is while it is in the tree. */
#ifndef HASTEN_STORE_TREE_H
#define HASTEN_STORE_TREE_H
#include "base/error.h"
#include <stdbool.h>
#include <stdint.h>

struct tree_node {
    int32_t parent, child, next; /* numbers of nodes; -1: none. next: of siblings, of roots, of free nodes */
    int32_t from, to;
    int32_t owner; /* a path through it */
    int32_t end;   /* the path that ends at `to`, or -1 */
    uint64_t scope;
    uint64_t used; /* when it was last of use */
    uint32_t hits;
};

struct tree_path { /* tokens [n], borrowed while it is in the tree */
    const int32_t *tokens;
    int32_t n;
    int32_t node; /* where it ends; -1: not in the tree */
    uint64_t scope;
};

struct tree {
    struct tree_node *node; /* [cap] */
    int32_t cap, roots, free;
    struct tree_path *path; /* [n_paths], by number */
    int32_t n_paths;
};

hasten_status tree_open(struct tree *t, int32_t n_paths, struct hasten_error *err);
void tree_close(struct tree *t);

struct tree_hit {
    int32_t node;   /* the last one with tokens in common, or a root; -1: the scope is not known */
    int32_t common; /* tokens */
    int32_t path;   /* one that begins with them; -1: none */
};
struct tree_hit tree_find(const struct tree *t, uint64_t scope, const int32_t *tokens, int32_t n);
/* Path number i: at least one token, no other path of its scope with the same. */
void tree_add(struct tree *t, int32_t i, uint64_t scope, const int32_t *tokens, int32_t n, uint64_t now);
void tree_remove(struct tree *t, int32_t i);
/* Notes a use of everything from a node up. */
void tree_touch(struct tree *t, int32_t node, uint64_t now);
/* Positions of all labels: those that sequences have in common count once. */
int64_t tree_positions(const struct tree *t);
/* For tests: "" or what is wrong with it. */
const char *tree_problem(const struct tree *t);

#endif
