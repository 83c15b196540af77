/* Owns the merge loop of byte-pair encoding (Sennrich et al., "Neural machine translation of rare words with
 * subword units", 2016): symbols in a linked list, candidates in a heap ordered by (rank, token,
 * position). The order and the treatment of candidates that went stale are those of Hugging Face's `tokenizers`:
 * the least rank first, the leftmost of equals.
 *
 * Short words, nearly all of real text, skip the heap: a scan for the least of a few candidates is cheaper and
 * takes the same one. */
#include "text/vocab_internal.h"

enum {
    MERGE_SCAN_SYMBOLS = 24, /* up to here the scan is used */
    HEAP_WAYS = 4            /* children of a node: fewer levels, fewer cache misses than two */
};

int merge_push(struct encode_work *w, int32_t id, size_t start, size_t len)
{
    if (w->n_syms == w->cap_syms) {
        int64_t cap = w->cap_syms ? w->cap_syms * 2 : 256;
        struct symbol *s = mem_realloc(w->syms, (size_t)cap * sizeof *s);
        if (!s)
            return -1;
        w->syms = s;
        w->cap_syms = cap;
    }
    int32_t i = (int32_t)w->n_syms++;
    w->syms[i] = (struct symbol){.id = id,
                                 .start = (uint32_t)start,
                                 .len = (uint32_t)len,
                                 .chars = 1,
                                 .prev = i - 1,
                                 .next = -1,
                                 .pair = -1};
    if (i)
        w->syms[i - 1].next = i;
    return 0;
}

static bool cand_less(const struct merge_cand *a, const struct merge_cand *b)
{
    if (a->rank != b->rank)
        return a->rank < b->rank;
    if (a->id != b->id)
        return a->id < b->id;
    return a->pos < b->pos;
}

static int heap_push(struct encode_work *w, struct merge_cand c)
{
    if (w->n_heap == w->cap_heap) {
        int64_t cap = w->cap_heap ? w->cap_heap * 2 : 256;
        struct merge_cand *p = mem_realloc(w->heap, (size_t)cap * sizeof *p);
        if (!p)
            return -1;
        w->heap = p;
        w->cap_heap = cap;
    }
    int64_t i = w->n_heap++;
    for (int64_t up; i > 0 && cand_less(&c, &w->heap[up = (i - 1) / HEAP_WAYS]); i = up)
        w->heap[i] = w->heap[up];
    w->heap[i] = c;
    return 0;
}

static struct merge_cand heap_pop(struct encode_work *w)
{
    struct merge_cand top = w->heap[0], last = w->heap[--w->n_heap];
    int64_t i = 0, n = w->n_heap;
    for (int64_t k; (k = HEAP_WAYS * i + 1) < n; i = k) {
        int64_t end = k + HEAP_WAYS < n ? k + HEAP_WAYS : n;
        for (int64_t j = k + 1; j < end; j++)
            if (cand_less(&w->heap[j], &w->heap[k]))
                k = j;
        if (!cand_less(&w->heap[k], &last))
            break;
        w->heap[i] = w->heap[k];
    }
    w->heap[i] = last;
    return top;
}

/* What symbol pos and its right neighbour become (id -1: nothing). */
static struct merge_cand pair_at(const struct encode_work *w, merge_rule rule, int32_t pos)
{
    struct merge_cand c = {.rank = 0, .id = -1, .pos = pos};
    int32_t next = w->syms[pos].next;
    if (next >= 0 && w->syms[pos].id >= 0 && w->syms[next].id >= 0)
        rule(w, &w->syms[pos], &w->syms[next], &c);
    return c;
}

/* Symbol pos swallows its right neighbour and becomes id. */
static void symbol_join(struct encode_work *w, int32_t pos, int32_t id)
{
    struct symbol *l = &w->syms[pos], *r = &w->syms[l->next];
    l->id = id;
    l->len += r->len;
    l->chars += r->chars;
    l->next = r->next;
    if (l->next >= 0)
        w->syms[l->next].prev = pos;
    r->len = 0;
}

static void merge_scan(struct encode_work *w, merge_rule rule)
{
    struct merge_cand pairs[MERGE_SCAN_SYMBOLS];
    for (int32_t i = 0; i < w->n_syms; i++)
        pairs[i] = pair_at(w, rule, i);
    for (;;) {
        const struct merge_cand *best = NULL;
        for (int32_t i = 0; i >= 0; i = w->syms[i].next)
            if (pairs[i].id >= 0 && (!best || cand_less(&pairs[i], best)))
                best = &pairs[i];
        if (!best)
            return;
        int32_t pos = best->pos, prev = w->syms[pos].prev;
        symbol_join(w, pos, best->id);
        pairs[pos] = pair_at(w, rule, pos);
        if (prev >= 0)
            pairs[prev] = pair_at(w, rule, prev);
    }
}

/* Works out the pair at pos anew and enters it. */
static int heap_enter(struct encode_work *w, merge_rule rule, int32_t pos)
{
    struct merge_cand c = pair_at(w, rule, pos);
    w->syms[pos].pair = c.id;
    return c.id >= 0 ? heap_push(w, c) : 0;
}

static int merge_heap(struct encode_work *w, merge_rule rule)
{
    w->n_heap = 0;
    for (int32_t i = 0; i < w->n_syms; i++)
        if (heap_enter(w, rule, i))
            return -1;
    while (w->n_heap) {
        struct merge_cand c = heap_pop(w);
        const struct symbol *s = &w->syms[c.pos];
        if (s->len == 0 || s->pair != c.id) /* gone, or the pair is another by now */
            continue;
        symbol_join(w, c.pos, c.id);
        if ((s->prev >= 0 && heap_enter(w, rule, s->prev)) || heap_enter(w, rule, c.pos))
            return -1;
    }
    return 0;
}

int merge_run(struct encode_work *w, merge_rule rule)
{
    if (w->n_syms < 2)
        return 0;
    if (w->n_syms > MERGE_SCAN_SYMBOLS)
        return merge_heap(w, rule);
    merge_scan(w, rule);
    return 0;
}
