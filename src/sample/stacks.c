/* Interned parses (stacks.h). */
#include "sample/stacks.h"
#include <stdlib.h>

static uint64_t mix(uint64_t h, uint64_t x)
{
    h = (h ^ x) * 0x9E3779B97F4A7C15u;
    return h ^ h >> 32;
}

static uint64_t pair_of(struct head h)
{
    return (uint64_t)(uint32_t)h.place << 32 | (uint32_t)h.frame;
}

static uint64_t hash_heads(const struct head *h, int64_t n, bool flag)
{
    uint64_t x = mix((uint64_t)n, flag);
    for (int64_t i = 0; i < n; i++)
        x = mix(x, pair_of(h[i]));
    return x;
}

static int by_pair(const void *a, const void *b)
{
    struct head x, y;
    memcpy(&x, a, sizeof x);
    memcpy(&y, b, sizeof y);
    return pair_of(x) < pair_of(y) ? -1 : pair_of(x) > pair_of(y);
}

static void sort_heads(struct head *h, int64_t n)
{
    if (n > 16) {
        qsort(h, (size_t)n, sizeof *h, by_pair);
        return;
    }
    for (int64_t i = 1; i < n; i++) {
        const struct head x = h[i];
        int64_t k = i;
        for (; k > 0 && pair_of(h[k - 1]) > pair_of(x); k--)
            h[k] = h[k - 1];
        h[k] = x;
    }
}

/* ---- a set of heads ------------------------------------------------------------------------------------- */

#define SET_SCAN 16 /* so few are searched without the table */

static int64_t set_slot(const struct head_set *s, struct head h)
{
    int64_t k = (int64_t)(mix(1, pair_of(h)) & (uint64_t)(s->n_table - 1));
    while (s->table[k] && pair_of(s->list.at[s->table[k] - 1]) != pair_of(h))
        k = (k + 1) & (s->n_table - 1);
    return k;
}

/* The table holds the whole list from SET_SCAN on. */
static int set_rebuild(struct head_set *s)
{
    if (4 * s->list.n > s->n_table) {
        const int64_t n = s->n_table ? 2 * s->n_table : 8 * SET_SCAN;
        int32_t *table = mem_array((size_t)n, sizeof *table);
        if (!table)
            return -1;
        mem_free(s->table);
        s->table = table;
        s->n_table = n;
    } else if (s->list.n != SET_SCAN) {
        return 0;
    }
    memset(s->table, 0, (size_t)s->n_table * sizeof *s->table);
    for (int64_t i = 0; i < s->list.n; i++)
        s->table[set_slot(s, s->list.at[i])] = (int32_t)i + 1;
    return 0;
}

static int set_add(struct head_set *s, struct head h)
{
    if (s->list.n < SET_SCAN) {
        for (int64_t i = 0; i < s->list.n; i++)
            if (pair_of(s->list.at[i]) == pair_of(h))
                return 0;
        if (LIST_PUSH(&s->list, h))
            return -1;
        return s->list.n == SET_SCAN ? set_rebuild(s) : 0;
    }
    const int64_t k = set_slot(s, h);
    if (s->table[k])
        return 0;
    if (LIST_PUSH(&s->list, h))
        return -1;
    s->table[k] = (int32_t)s->list.n;
    return set_rebuild(s);
}

/* ---- frames --------------------------------------------------------------------------------------------- */

static bool same_heads(const struct stacks *s, int64_t at, const struct head *h, int64_t n)
{
    return n == 0 || memcmp(s->heads.at + at, h, (size_t)n * sizeof *h) == 0;
}

static int push_heads(struct stacks *s, const struct head *h, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        if (LIST_PUSH(&s->heads, h[i]))
            return -1;
    s->bytes += (size_t)n * sizeof *h;
    return 0;
}

/* Room in a hash table for one more than n numbers: hash_at says a number's hash. */
static int widen(struct stacks *s, int32_t **table, int64_t *n_table, int64_t n,
                 uint64_t (*hash_at)(const struct stacks *s, int64_t i))
{
    if (2 * n < *n_table)
        return 0;
    const int64_t wide = *n_table ? 2 * *n_table : 256;
    int32_t *t = mem_calloc((size_t)wide, sizeof *t);
    if (!t)
        return -1;
    for (int64_t i = 0; i < n; i++) {
        int64_t k = (int64_t)(hash_at(s, i) & (uint64_t)(wide - 1));
        while (t[k])
            k = (k + 1) & (wide - 1);
        t[k] = (int32_t)i + 1;
    }
    mem_free(*table);
    *table = t;
    *n_table = wide;
    s->bytes += (size_t)(wide / 2) * sizeof *t;
    return 0;
}

static uint64_t frame_hash(const struct stacks *s, int64_t i)
{
    const struct frame *f = &s->frames.at[i];
    return hash_heads(s->heads.at + f->at, f->n, f->bottom);
}

static uint64_t parse_hash(const struct stacks *s, int64_t i)
{
    return s->parses.at[i].hash;
}

/* h[n]: sorted here, and each kept once. */
static int32_t intern_frame(struct stacks *s, struct head *h, int64_t n, bool bottom)
{
    int64_t kept = 0;
    sort_heads(h, n);
    for (int64_t i = 0; i < n; i++)
        if (!kept || pair_of(h[kept - 1]) != pair_of(h[i]))
            h[kept++] = h[i];
    if (widen(s, &s->frame_table, &s->n_frame_table, s->frames.n, frame_hash))
        return -1;
    int64_t k = (int64_t)(hash_heads(h, kept, bottom) & (uint64_t)(s->n_frame_table - 1));
    for (; s->frame_table[k]; k = (k + 1) & (s->n_frame_table - 1)) {
        const struct frame *f = &s->frames.at[s->frame_table[k] - 1];
        if (f->n == kept && f->bottom == bottom && same_heads(s, f->at, h, kept))
            return s->frame_table[k] - 1;
    }
    const struct frame made = {.at = s->heads.n, .n = (int32_t)kept, .bottom = bottom};
    if (push_heads(s, h, kept) || LIST_PUSH(&s->frames, made))
        return -1;
    s->bytes += sizeof made;
    s->frame_table[k] = (int32_t)s->frames.n;
    return (int32_t)(s->frames.n - 1);
}

/* ---- calls ---------------------------------------------------------------------------------------------- */

static struct pending *pending_of(struct stacks *s, int32_t rule)
{
    for (int64_t i = 0; i < s->n_pending; i++)
        if (s->pending.at[i].rule == rule)
            return &s->pending.at[i];
    if (s->n_pending == s->pending.n && LIST_PUSH(&s->pending, (struct pending){0}))
        return NULL;
    struct pending *p = &s->pending.at[s->n_pending++];
    p->rule = rule;
    p->bottom = p->made = false;
    p->heads.n = 0;
    return p;
}

/* Notes the calls of a head. A call that has nothing to come back for hands its frame's heads on. */
static int note_calls(struct stacks *s, struct head h)
{
    const struct network *n = s->net;
    const struct frame f = s->frames.at[h.frame];
    for (int32_t i = n->call_at[h.place]; i < n->call_at[h.place + 1]; i++) {
        const struct net_call c = n->calls[i];
        struct pending *p = pending_of(s, c.rule);
        if (!p)
            return -1;
        if (!net_ends(n, c.to)) {
            if (LIST_PUSH(&p->heads, (struct head){c.to, h.frame}))
                return -1;
            continue;
        }
        p->bottom |= f.bottom;
        for (int32_t k = 0; k < f.n; k++)
            if (LIST_PUSH(&p->heads, s->heads.at[f.at + k]))
                return -1;
    }
    return 0;
}

/* Makes the frames of all calls, in the order of ranks, since a rule's start may call others. */
static int make_calls(struct stacks *s, int32_t parse)
{
    const struct network *n = s->net;
    for (;;) {
        int64_t next = -1;
        for (int64_t i = 0; i < s->n_pending; i++)
            if (!s->pending.at[i].made &&
                (next < 0 || n->rank[s->pending.at[i].rule] < n->rank[s->pending.at[next].rule]))
                next = i;
        if (next < 0)
            return 0;
        struct pending *p = &s->pending.at[next];
        p->made = true;
        const struct head h = {n->start[p->rule], intern_frame(s, p->heads.at, p->heads.n, p->bottom)};
        if (h.frame < 0 || note_calls(s, h))
            return -1;
        /* the parse's heads are gathered behind the frames' and moved to the end afterwards */
        if (n->edge_at[h.place] < n->edge_at[h.place + 1] && LIST_PUSH(&s->own.list, h))
            return -1;
        s->parses.at[parse].n = (int32_t)s->own.list.n;
    }
}

/* ---- parses --------------------------------------------------------------------------------------------- */

/* Rules that end here let what called them go on. Heads that can do nothing more go. */
static int follow_ends(struct stacks *s, bool *complete)
{
    const struct network *n = s->net;
    int64_t kept = 0;
    *complete = false;
    for (int64_t i = 0; i < s->own.list.n; i++) {
        const struct head h = s->own.list.at[i];
        const struct frame f = s->frames.at[h.frame];
        if (!n->final[h.place])
            continue;
        *complete |= f.bottom;
        for (int32_t k = 0; k < f.n; k++)
            if (set_add(&s->own, s->heads.at[f.at + k]))
                return -1;
    }
    for (int64_t i = 0; i < s->own.list.n; i++)
        if (!net_ends(n, s->own.list.at[i].place))
            s->own.list.at[kept++] = s->own.list.at[i];
    s->own.list.n = kept;
    sort_heads(s->own.list.at, kept);
    return 0;
}

static int32_t make_parse(struct stacks *s, bool complete, uint64_t hash)
{
    const int64_t n_own = s->own.list.n;
    const int32_t made = (int32_t)s->parses.n;
    if (LIST_PUSH(
            &s->parses,
            (struct parse){.n_own = (int32_t)n_own, .n = (int32_t)n_own, .complete = complete, .hash = hash}))
        return -1;
    s->n_pending = 0;
    for (int64_t i = 0; i < n_own; i++)
        if (note_calls(s, s->own.list.at[i]))
            return -1;
    if (make_calls(s, made))
        return -1;
    s->parses.at[made].at = s->heads.n;
    s->bytes += sizeof(struct parse);
    return push_heads(s, s->own.list.at, s->own.list.n) ? -1 : made;
}

/* The parse whose heads are in s->own. */
static int32_t intern_parse(struct stacks *s)
{
    bool complete;
    if (follow_ends(s, &complete))
        return PARSE_FAILED;
    const int64_t n = s->own.list.n;
    if (n == 0 && !complete)
        return PARSE_DEAD;
    if (widen(s, &s->parse_table, &s->n_parse_table, s->parses.n, parse_hash))
        return PARSE_FAILED;
    const uint64_t hash = hash_heads(s->own.list.at, n, complete);
    int64_t k = (int64_t)(hash & (uint64_t)(s->n_parse_table - 1));
    for (; s->parse_table[k]; k = (k + 1) & (s->n_parse_table - 1)) {
        const struct parse *p = &s->parses.at[s->parse_table[k] - 1];
        if (p->hash == hash && p->n_own == n && p->complete == complete &&
            same_heads(s, p->at, s->own.list.at, n))
            return s->parse_table[k] - 1;
    }
    const int64_t before = s->parses.n;
    const int32_t made = make_parse(s, complete, hash);
    if (made < 0) {
        s->parses.n = before;
        return PARSE_FAILED;
    }
    s->parse_table[k] = made + 1;
    return made;
}

int32_t stacks_of(struct stacks *s, const struct head *heads, int64_t n)
{
    s->own.list.n = 0;
    for (int64_t i = 0; i < n; i++)
        if (set_add(&s->own, heads[i]))
            return PARSE_FAILED;
    return intern_parse(s);
}

int32_t stacks_start(struct stacks *s)
{
    const struct head h = {s->net->start[s->net->root], 0};
    return stacks_of(s, &h, 1);
}

int32_t stacks_make_next(struct stacks *s, int32_t parse, uint8_t byte)
{
    const struct network *n = s->net;
    const struct parse p = s->parses.at[parse];
    s->own.list.n = 0;
    for (int32_t i = 0; i < p.n; i++) {
        const struct head h = s->heads.at[p.at + i];
        for (int32_t e = n->edge_at[h.place]; e < n->edge_at[h.place + 1]; e++)
            if (n->edges[e].lo <= byte && byte <= n->edges[e].hi &&
                set_add(&s->own, (struct head){n->edges[e].to, h.frame}))
                return PARSE_FAILED;
    }
    const int32_t next = intern_parse(s);
    if (next == PARSE_FAILED)
        return next;
    if (!s->parses.at[parse].next) {
        s->parses.at[parse].next = mem_calloc(256, sizeof(int32_t));
        if (!s->parses.at[parse].next)
            return PARSE_FAILED;
        s->bytes += 256 * sizeof(int32_t);
    }
    s->parses.at[parse].next[byte] = next + 2;
    return next;
}

int stacks_open(struct stacks *s)
{
    struct head none;
    return intern_frame(s, &none, 0, true) < 0 ? -1 : 0;
}

void stacks_clear(struct stacks *s)
{
    for (int64_t i = 0; i < s->parses.n; i++)
        mem_free(s->parses.at[i].next);
    for (int64_t i = 0; i < s->pending.n; i++)
        LIST_FREE(&s->pending.at[i].heads);
    LIST_FREE(&s->heads);
    LIST_FREE(&s->frames);
    LIST_FREE(&s->parses);
    LIST_FREE(&s->own.list);
    LIST_FREE(&s->pending);
    mem_free(s->own.table);
    mem_free(s->frame_table);
    mem_free(s->parse_table);
    *s = (struct stacks){.net = s->net};
}
