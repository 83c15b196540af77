/* See tree.h. */
#include "store/tree.h"
#include "base/mem.h"
#include <string.h>

hasten_status tree_open(struct tree *t, int32_t n_paths, struct hasten_error *err)
{
    /* A path adds a leaf, a node where it leaves another's label, and perhaps a root. */
    *t = (struct tree){.cap = 3 * n_paths, .roots = -1, .n_paths = n_paths};
    t->node = mem_calloc((size_t)t->cap, sizeof *t->node);
    t->path = mem_calloc((size_t)n_paths, sizeof *t->path);
    if (!t->node || !t->path) {
        tree_close(t);
        return error_set(err, HASTEN_ERR_MEMORY, "opening a store: out of memory for %d sequences",
                         (int)n_paths);
    }
    for (int32_t i = 0; i < t->cap; i++)
        t->node[i].next = i + 1 < t->cap ? i + 1 : -1;
    for (int32_t i = 0; i < n_paths; i++)
        t->path[i].node = -1;
    return HASTEN_OK;
}

void tree_close(struct tree *t)
{
    mem_free(t->node);
    mem_free(t->path);
    *t = (struct tree){0};
}

static int32_t new_node(struct tree *t, struct tree_node n)
{
    const int32_t i = t->free;
    t->free = t->node[i].next;
    t->node[i] = n;
    return i;
}

static void free_node(struct tree *t, int32_t i)
{
    t->node[i] = (struct tree_node){.next = t->free};
    t->free = i;
}

/* The list in which a node stands. */
static int32_t *list_of(struct tree *t, int32_t i)
{
    const int32_t parent = t->node[i].parent;
    return parent < 0 ? &t->roots : &t->node[parent].child;
}

static void unlink_node(struct tree *t, int32_t i)
{
    int32_t *at = list_of(t, i);
    while (*at != i)
        at = &t->node[*at].next;
    *at = t->node[i].next;
}

static void link_node(struct tree *t, int32_t i)
{
    int32_t *list = list_of(t, i);
    t->node[i].next = *list;
    *list = i;
}

static int32_t token_of(const struct tree *t, const struct tree_node *n, int32_t pos)
{
    return t->path[n->owner].tokens[pos];
}

/* ---- finding -------------------------------------------------------------------------------------------------- */

static int32_t root_of(const struct tree *t, uint64_t scope)
{
    int32_t i = t->roots;
    while (i >= 0 && t->node[i].scope != scope)
        i = t->node[i].next;
    return i;
}

static int32_t child_with(const struct tree *t, int32_t parent, int32_t token)
{
    int32_t i = t->node[parent].child;
    while (i >= 0 && token_of(t, &t->node[i], t->node[i].from) != token)
        i = t->node[i].next;
    return i;
}

struct tree_hit tree_find(const struct tree *t, uint64_t scope, const int32_t *tokens, int32_t n)
{
    struct tree_hit h = {root_of(t, scope), 0, -1};
    while (h.node >= 0 && h.common == t->node[h.node].to && h.common < n) {
        const int32_t i = child_with(t, h.node, tokens[h.common]);
        if (i < 0)
            break;
        h.node = i;
        h.path = t->node[i].owner;
        while (h.common < n && h.common < t->node[i].to &&
               token_of(t, &t->node[i], h.common) == tokens[h.common])
            h.common++;
    }
    return h;
}

void tree_touch(struct tree *t, int32_t node, uint64_t now)
{
    for (; node >= 0; node = t->node[node].parent) {
        t->node[node].used = now;
        t->node[node].hits++;
    }
}

/* ---- changing ------------------------------------------------------------------------------------------------- */

/* The upper part of a label becomes a node of its own, above what is left. Returns it. */
static int32_t split(struct tree *t, int32_t i, int32_t at)
{
    struct tree_node upper = t->node[i];
    unlink_node(t, i);
    upper.to = at;
    upper.end = -1;
    upper.child = -1;
    const int32_t above = new_node(t, upper);
    link_node(t, above);
    t->node[i].from = at;
    t->node[i].parent = above;
    link_node(t, i);
    return above;
}

void tree_add(struct tree *t, int32_t i, uint64_t scope, const int32_t *tokens, int32_t n, uint64_t now)
{
    const struct tree_node none = {
        .parent = -1, .child = -1, .next = -1, .owner = -1, .end = -1, .scope = scope};
    struct tree_hit h = tree_find(t, scope, tokens, n);
    t->path[i] = (struct tree_path){.tokens = tokens, .n = n, .scope = scope};
    if (h.node < 0) {
        h.node = new_node(t, none);
        link_node(t, h.node);
    }
    if (h.common < t->node[h.node].to)
        h.node = split(t, h.node, h.common);
    if (h.common < n) {
        struct tree_node leaf = none;
        leaf.parent = h.node;
        leaf.from = h.common;
        leaf.to = n;
        leaf.owner = i;
        h.node = new_node(t, leaf);
        link_node(t, h.node);
    }
    t->node[h.node].end = i;
    t->path[i].node = h.node;
    for (int32_t k = h.node; k >= 0; k = t->node[k].parent)
        t->node[k].used = now;
}

/* A node with neither an end nor children goes; one with a single child becomes a part of the child's label. */
static int32_t tidy(struct tree *t, int32_t i)
{
    const struct tree_node n = t->node[i];
    if (n.end >= 0 || (n.child >= 0 && (n.parent < 0 || t->node[n.child].next >= 0)))
        return i;
    unlink_node(t, i);
    if (n.child >= 0) {
        struct tree_node *c = &t->node[n.child];
        c->from = n.from;
        c->parent = n.parent;
        c->used = c->used > n.used ? c->used : n.used;
        link_node(t, n.child);
    }
    free_node(t, i);
    return n.child >= 0 ? n.child : -1;
}

void tree_remove(struct tree *t, int32_t i)
{
    int32_t at = t->path[i].node;
    if (at < 0)
        return;
    t->node[at].end = -1;
    while (at >= 0) {
        const int32_t parent = t->node[at].parent, left = tidy(t, at);
        struct tree_node *n = left >= 0 ? &t->node[left] : NULL;
        if (n && n->owner == i) /* some other path goes through it */
            n->owner = n->end >= 0 ? n->end : n->child >= 0 ? t->node[n->child].owner : -1;
        at = parent;
    }
    t->path[i] = (struct tree_path){.node = -1};
}

/* ---- looking -------------------------------------------------------------------------------------------------- */

int64_t tree_positions(const struct tree *t)
{
    int64_t n = 0;
    for (int32_t i = 0; i < t->cap; i++) /* free nodes have an empty label */
        n += t->node[i].to - t->node[i].from;
    return n;
}

static const char *path_problem(const struct tree *t, int32_t i)
{
    const struct tree_path *p = &t->path[i];
    const struct tree_hit h = tree_find(t, p->scope, p->tokens, p->n);
    if (h.node != p->node || h.common != p->n || t->node[h.node].end != i)
        return "a path does not lead to its node";
    for (int32_t k = p->node; k >= 0; k = t->node[k].parent) {
        const struct tree_node *n = &t->node[k];
        if (n->parent >= 0 && (n->from >= n->to || n->from != t->node[n->parent].to))
            return "a label does not begin where its parent's ends";
        if (n->parent >= 0 && (n->owner < 0 || t->path[n->owner].node < 0 || t->path[n->owner].n < n->to))
            return "an owner does not reach its node";
        if (n->parent >= 0 && n->end < 0 && (n->child < 0 || t->node[n->child].next < 0))
            return "a node has no reason";
    }
    return "";
}

const char *tree_problem(const struct tree *t)
{
    const char *what = "";
    for (int32_t i = 0; i < t->n_paths && !*what; i++)
        if (t->path[i].node >= 0)
            what = path_problem(t, i);
    for (int32_t i = t->roots; i >= 0 && !*what; i = t->node[i].next)
        if (t->node[i].child < 0)
            what = "a root has no child";
    return what;
}
