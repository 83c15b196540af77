/* Walks over the trie (mask_tree.h). */
#include "sample/mask_tree.h"

#define LIST_TOKENS 512 /* so many are kept as a list */
#define FEW_WEIGHT 16   /* exits of at most this weight are walked each time */
#define MAX_DEPTH 4     /* so many frames are looked through */
#define MAX_LOOKS 64    /* walks joined into one mask; beyond, the whole trie is walked in the parse */

static void set_bit(uint64_t *bits, int32_t i)
{
    bits[i / 64] |= 1ull << i % 64;
}

static int32_t count_bits(const uint64_t *bits, int32_t n_words)
{
    int32_t n = 0;
    for (int32_t i = 0; i < n_words; i++)
        n += __builtin_popcountll(bits[i]);
    return n;
}

/* ---- lists of tokens ------------------------------------------------------------------------------------ */

static void list_free(struct token_list *l)
{
    mem_free(l->ids);
    mem_free(l->bits);
}

static int list_of_bits(struct mask_tree *t, const uint64_t *bits, struct token_list *out)
{
    const int32_t words = t->trie->n_words;
    *out = (struct token_list){.n = count_bits(bits, words)};
    if (out->n > LIST_TOKENS) {
        out->bits = mem_array((size_t)words, sizeof *out->bits);
        if (!out->bits)
            return -1;
        memcpy(out->bits, bits, (size_t)words * sizeof *bits);
        t->bytes += (size_t)words * sizeof *bits;
        return 0;
    }
    out->ids = mem_array((size_t)out->n + 1, sizeof *out->ids);
    if (!out->ids)
        return -1;
    int32_t n = 0;
    for (int32_t i = 0; i < words; i++)
        for (uint64_t left = bits[i]; left; left &= left - 1)
            out->ids[n++] = i * 64 + __builtin_ctzll(left);
    t->bytes += (size_t)n * sizeof *out->ids;
    return 0;
}

static void add_list(const struct token_list *l, int32_t words, uint64_t *bits)
{
    if (l->bits)
        for (int32_t i = 0; i < words; i++)
            bits[i] |= l->bits[i];
    else
        for (int32_t i = 0; i < l->n; i++)
            set_bit(bits, l->ids[i]);
}

/* ---- walking -------------------------------------------------------------------------------------------- */

/* Is there a byte below this node that can follow the rule? */
static bool can_follow(const struct mask_tree *t, uint32_t node, const struct byte_set *follow, int64_t *n)
{
    const struct trie_node *nodes = t->trie->nodes.at;
    bool yes = false;
    for (uint32_t k = node + 1; k < nodes[node].skip; k = nodes[k].skip) {
        yes |= byte_in(follow, nodes[k].byte);
        ++*n;
    }
    return yes;
}

/* An exit that is worth keeping; its weight in *weight. */
static int note_exit(struct mask_tree *t, uint32_t node, const struct byte_set *follow, int64_t *weight)
{
    int64_t n = 1;
    if (!can_follow(t, node, follow, &n))
        return 0;
    *weight += n;
    return LIST_PUSH(&t->exits, node);
}

/* Adds to bits the tokens below a node, from a parse that stands there. follow: NULL, or exits are noted. */
static int walk(struct mask_tree *t, uint32_t top, int32_t parse, uint64_t *bits,
                const struct byte_set *follow, int64_t *weight)
{
    const struct trie_node *nodes = t->trie->nodes.at;
    const uint32_t end = nodes[top].skip;
    int32_t *path = t->path;
    path[nodes[top].depth] = parse;
    for (uint32_t i = top + 1; i < end;) {
        const struct trie_node *node = &nodes[i];
        const int32_t next = stacks_next(t->stacks, path[node->depth - 1], node->byte);
        if (next < 0) {
            if (next == PARSE_FAILED)
                return -1;
            i = node->skip;
            continue;
        }
        path[node->depth] = next;
        for (uint32_t k = node->token_at; k < node[1].token_at; k++)
            set_bit(bits, t->trie->ids[k]);
        if (follow && t->stacks->parses.at[next].complete && note_exit(t, i, follow, weight))
            return -1;
        i++;
    }
    return 0;
}

/* Keeps what was found by the walk at work: t->found, t->exits. */
static int32_t keep_walk(struct mask_tree *t, int32_t parse, int64_t weight)
{
    struct walked w = {
        .n_exits = (int32_t)t->exits.n, .weight = weight, .parse = parse, .first = -1, .next = -1};
    if (list_of_bits(t, t->found, &w.tokens))
        return -1;
    if (w.n_exits) {
        w.exits = mem_array((size_t)w.n_exits, sizeof *w.exits);
        if (w.exits)
            memcpy(w.exits, t->exits.at, (size_t)w.n_exits * sizeof *w.exits);
    }
    if ((w.n_exits && !w.exits) || LIST_PUSH(&t->walks, w)) {
        list_free(&w.tokens);
        mem_free(w.exits);
        return -1;
    }
    t->bytes += sizeof w + (size_t)w.n_exits * sizeof *w.exits;
    return (int32_t)(t->walks.n - 1);
}

/* t->group: the places, standing in rules whose frames nobody knows. What can follow these rules, and whether one of
 * them may end at once. */
static int32_t group_parse(struct mask_tree *t, struct byte_set *follow, bool *ends)
{
    *follow = (struct byte_set){0};
    *ends = false;
    for (int64_t i = 0; i < t->group.n; i++) {
        struct head *h = &t->group.at[i];
        const struct byte_set *more = &t->net->follow[t->net->rule_of[h->place]];
        for (int k = 0; k < 4; k++)
            follow->bits[k] |= more->bits[k];
        *ends |= t->net->final[h->place];
        h->frame = 0;
    }
    return stacks_of(t->stacks, t->group.at, t->group.n);
}

/* The walk of a group from the root of the trie. */
static int32_t walk_of_group(struct mask_tree *t)
{
    struct byte_set follow;
    bool ends;
    const int32_t parse = group_parse(t, &follow, &ends);
    int64_t weight = 0;
    if (parse < 0)
        return -1;
    while (t->of_bottom.n <= parse)
        if (LIST_PUSH(&t->of_bottom, 0))
            return -1;
    if (t->of_bottom.at[parse])
        return t->of_bottom.at[parse] - 1;
    t->exits.n = 0;
    memset(t->found, 0, (size_t)t->trie->n_words * sizeof *t->found);
    if (walk(t, 0, parse, t->found, &follow, &weight))
        return -1;
    const int32_t made = keep_walk(t, parse, weight);
    t->of_bottom.at[parse] = made + 1;
    return made;
}

/* The walk that goes on with a group from the exits of walk `above`. */
static int32_t walk_below(struct mask_tree *t, int32_t above)
{
    struct byte_set follow;
    bool ends;
    const int32_t parse = group_parse(t, &follow, &ends);
    int64_t weight = 0;
    if (parse < 0)
        return -1;
    for (int32_t k = t->walks.at[above].first; k >= 0; k = t->walks.at[k].next)
        if (t->walks.at[k].parse == parse)
            return k;
    const struct walked w = t->walks.at[above];
    t->exits.n = 0;
    memset(t->found, 0, (size_t)t->trie->n_words * sizeof *t->found);
    add_list(&w.tokens, t->trie->n_words, t->found);
    for (int32_t i = 0; i < w.n_exits; i++)
        if ((ends && note_exit(t, w.exits[i], &follow, &weight)) ||
            walk(t, w.exits[i], parse, t->found, &follow, &weight))
            return -1;
    const int32_t made = keep_walk(t, parse, weight);
    if (made >= 0) {
        t->walks.at[made].next = t->walks.at[above].first;
        t->walks.at[above].first = made;
    }
    return made;
}

/* ---- masks ---------------------------------------------------------------------------------------------- */

struct look { /* a walk, and the frame of the head that it was for */
    int32_t walk, frame, depth;
};

/* The exits of a walk, in the parse that its frame goes on as. */
static int walk_exits(struct mask_tree *t, const struct walked *w, const struct frame *f, uint64_t *bits)
{
    const int32_t parse = stacks_of(t->stacks, t->stacks->heads.at + f->at, f->n);
    if (parse == PARSE_FAILED)
        return -1;
    for (int32_t i = 0; i < w->n_exits && parse >= 0; i++)
        if (walk(t, w->exits[i], parse, bits, NULL, NULL))
            return -1;
    return 0;
}

/* The frames of some heads in ascending order, one after another: the next above *frame; false: there is none. */
static bool next_group(struct mask_tree *t, int64_t from, int64_t to, int32_t *frame)
{
    int32_t next = INT32_MAX;
    for (int64_t i = from; i < to; i++)
        if (t->stacks->heads.at[i].frame > *frame && t->stacks->heads.at[i].frame < next)
            next = t->stacks->heads.at[i].frame;
    *frame = next;
    return next != INT32_MAX;
}

/* The heads with this frame into t->group. */
static int gather(struct mask_tree *t, int64_t from, int64_t to, int32_t frame)
{
    t->group.n = 0;
    for (int64_t i = from; i < to; i++)
        if (t->stacks->heads.at[i].frame == frame && LIST_PUSH(&t->group, t->stacks->heads.at[i]))
            return -1;
    return 0;
}

/* Adds what one look allows, or puts looks at the walks below it on the stack. */
static int look(struct mask_tree *t, struct look l, struct look *stack, int32_t *n, uint64_t *bits)
{
    const struct walked w = t->walks.at[l.walk];
    const struct frame f = t->stacks->frames.at[l.frame];
    if (w.n_exits == 0 || f.n == 0 || w.weight <= FEW_WEIGHT || l.depth == MAX_DEPTH) {
        add_list(&w.tokens, t->trie->n_words, bits);
        return w.n_exits && f.n ? walk_exits(t, &w, &f, bits) : 0;
    }
    for (int32_t frame = -1; next_group(t, f.at, f.at + f.n, &frame);) {
        if (*n == MAX_LOOKS) {
            t->n_looks = MAX_LOOKS + 1;
            return 0;
        }
        const int32_t below = gather(t, f.at, f.at + f.n, frame) ? -1 : walk_below(t, l.walk);
        if (below < 0)
            return -1;
        stack[(*n)++] = (struct look){below, frame, l.depth + 1};
    }
    return 0;
}

static int make_mask(struct mask_tree *t, int32_t parse, uint64_t *bits)
{
    struct look stack[MAX_LOOKS];
    const struct parse p = t->stacks->parses.at[parse];
    t->n_looks = 0;
    memset(bits, 0, (size_t)t->trie->n_words * sizeof *bits);
    for (int32_t frame = -1; t->n_looks <= MAX_LOOKS && next_group(t, p.at, p.at + p.n_own, &frame);) {
        int32_t n = 1;
        stack[0] = (struct look){gather(t, p.at, p.at + p.n_own, frame) ? -1 : walk_of_group(t), frame, 1};
        if (stack[0].walk < 0)
            return -1;
        for (; n && t->n_looks <= MAX_LOOKS; t->n_looks++) {
            const struct look l = stack[--n];
            if (look(t, l, stack, &n, bits))
                return -1;
        }
    }
    /* too ambiguous to be put together: the parse itself walks the trie */
    return t->n_looks > MAX_LOOKS ? walk(t, 0, parse, bits, NULL, NULL) : 0;
}

static int keep_mask(struct mask_tree *t, int32_t parse, const uint64_t *bits)
{
    struct token_list l;
    while (t->of_parse.n <= parse)
        if (LIST_PUSH(&t->of_parse, 0))
            return -1;
    if (list_of_bits(t, bits, &l))
        return -1;
    if (LIST_PUSH(&t->masks, l)) {
        list_free(&l);
        return -1;
    }
    t->of_parse.at[parse] = (int32_t)t->masks.n;
    t->bytes += sizeof l;
    return 0;
}

int32_t mask_tree_mask(struct mask_tree *t, int32_t parse, uint64_t *bits)
{
    const size_t size = (size_t)t->trie->n_words * sizeof *bits;
    if ((parse >= t->of_parse.n || !t->of_parse.at[parse]) &&
        (make_mask(t, parse, bits) || keep_mask(t, parse, bits)))
        return -1;
    const struct token_list *l = &t->masks.at[t->of_parse.at[parse] - 1];
    if (l->bits) {
        memcpy(bits, l->bits, size);
    } else {
        memset(bits, 0, size);
        add_list(l, t->trie->n_words, bits);
    }
    return l->n;
}

int mask_tree_open(struct mask_tree *t, const struct network *n, const struct token_trie *trie,
                   struct stacks *stacks)
{
    *t = (struct mask_tree){.net = n, .trie = trie, .stacks = stacks};
    t->path = mem_array((size_t)trie->depth + 1, sizeof *t->path);
    t->found = mem_array((size_t)trie->n_words, sizeof *t->found);
    if (t->path && t->found)
        return 0;
    mask_tree_clear(t);
    return -1;
}

void mask_tree_clear(struct mask_tree *t)
{
    for (int64_t i = 0; i < t->walks.n; i++) {
        list_free(&t->walks.at[i].tokens);
        mem_free(t->walks.at[i].exits);
    }
    for (int64_t i = 0; i < t->masks.n; i++)
        list_free(&t->masks.at[i]);
    LIST_FREE(&t->walks);
    LIST_FREE(&t->masks);
    LIST_FREE(&t->of_parse);
    LIST_FREE(&t->of_bottom);
    LIST_FREE(&t->group);
    LIST_FREE(&t->exits);
    mem_free(t->path);
    mem_free(t->found);
    *t = (struct mask_tree){0};
}
