/* Owns the streaming way from ids to bytes: holds back what may not be shown yet, nothing else.
 *
 * Two things hold bytes back: a UTF-8 character that is not complete, and a suffix that could still become a stop
 * string. The second is the state of an Aho-Corasick automaton over all stop strings (Aho and Corasick,
 * "Efficient string matching", 1975): its depth is the length of the longest such suffix, so every byte costs
 * amortised constant time however tokens cut the text. When several stop strings end at one byte the longest
 * counts; the first end in the text wins. */
#include "text/detok.h"
#include "base/limits.h"
#include "text/vocab_internal.h"
#include <string.h>

struct stop_node {
    int32_t child, next; /* first child, next sibling; -1: none */
    int32_t fail;        /* state of the longest proper suffix */
    int32_t depth;
    int32_t match; /* bytes of the longest stop string that ends here; 0: none */
    uint8_t byte;
};

struct detok {
    const struct vocab *v;
    bool special, stopped;
    struct vocab_cursor at;
    struct stop_node *nodes; /* 0 is the root */
    int32_t n_nodes, state;
    struct buf held; /* bytes not given out yet; begins at a character border */
    uint8_t *border; /* [border_cap]: held[i] begins a character (or is a byte that belongs to none) */
    size_t border_cap;
    size_t decided;   /* held[0, decided) is cut into characters */
    struct buf token; /* bytes of the token at hand */
};

/* ---- automaton ---------------------------------------------------------------------------------------- */

static int32_t stop_child(const struct detok *d, int32_t node, uint8_t byte)
{
    int32_t i = d->nodes[node].child;
    while (i >= 0 && d->nodes[i].byte != byte)
        i = d->nodes[i].next;
    return i;
}

static int32_t stop_step(const struct detok *d, int32_t state, uint8_t byte)
{
    for (;;) {
        int32_t c = stop_child(d, state, byte);
        if (c >= 0)
            return c;
        if (state == 0)
            return 0;
        state = d->nodes[state].fail;
    }
}

static void stop_insert(struct detok *d, struct gguf_str s)
{
    int32_t node = 0;
    for (size_t i = 0; i < s.len; i++) {
        int32_t c = stop_child(d, node, (uint8_t)s.data[i]);
        if (c < 0) {
            c = d->n_nodes++;
            d->nodes[c] = (struct stop_node){.child = -1,
                                             .next = d->nodes[node].child,
                                             .depth = d->nodes[node].depth + 1,
                                             .byte = (uint8_t)s.data[i]};
            d->nodes[node].child = c;
        }
        node = c;
    }
    d->nodes[node].match = (int32_t)s.len;
}

/* Fills fail and match, breadth first; queue has room for all nodes. */
static void stop_link(struct detok *d, int32_t *queue)
{
    int32_t n = 0;
    queue[n++] = 0;
    for (int32_t k = 0; k < n; k++) {
        int32_t p = queue[k];
        for (int32_t c = d->nodes[p].child; c >= 0; c = d->nodes[c].next) {
            struct stop_node *node = &d->nodes[c];
            node->fail = p ? stop_step(d, d->nodes[p].fail, node->byte) : 0;
            if (!node->match)
                node->match = d->nodes[node->fail].match;
            queue[n++] = c;
        }
    }
}

static hasten_status stop_build(struct detok *d, const struct gguf_str *stops, int n_stops,
                                struct hasten_error *err)
{
    size_t total = 1;
    for (int i = 0; i < n_stops; i++) {
        if (stops[i].len < 1)
            return error_set(err, HASTEN_ERR_USAGE, "stop string %d is empty", i + 1);
        if (stops[i].len > LIMIT_STOP_BYTES)
            return error_set(err, HASTEN_ERR_LIMIT, "stop string %d has %zu bytes; the limit is %d", i + 1,
                             stops[i].len, LIMIT_STOP_BYTES);
        total += stops[i].len;
    }
    int32_t *queue = mem_array(total, sizeof *queue);
    d->nodes = mem_array(total, sizeof *d->nodes);
    if (!queue || !d->nodes) {
        mem_free(queue);
        return error_set(err, HASTEN_ERR_MEMORY, "out of memory for stop strings");
    }
    d->nodes[0] = (struct stop_node){.child = -1, .next = -1};
    d->n_nodes = 1;
    for (int i = 0; i < n_stops; i++)
        stop_insert(d, stops[i]);
    stop_link(d, queue);
    mem_free(queue);
    return HASTEN_OK;
}

/* ---- stream ------------------------------------------------------------------------------------------- */

hasten_status detok_open(const struct vocab *v, const struct gguf_str *stops, int n_stops, bool special,
                         bool continuation, struct detok **out, struct hasten_error *err)
{
    *out = NULL;
    if (n_stops < 0 || n_stops > LIMIT_STOP_STRINGS)
        return error_set(err, HASTEN_ERR_LIMIT, "%d stop strings; the limit is %d", n_stops,
                         LIMIT_STOP_STRINGS);
    struct detok *d = mem_calloc(1, sizeof *d);
    if (!d)
        return error_set(err, HASTEN_ERR_MEMORY, "out of memory for a detokenizer");
    d->v = v;
    d->special = special;
    d->at.after_bos = d->at.started = continuation;
    hasten_status st = stop_build(d, stops, n_stops, err);
    if (st) {
        detok_close(d);
        return st;
    }
    *out = d;
    return HASTEN_OK;
}

void detok_close(struct detok *d)
{
    if (!d)
        return;
    mem_free(d->nodes);
    mem_free(d->border);
    buf_free(&d->held);
    buf_free(&d->token);
    mem_free(d);
}

/* Appends the token's bytes to held, with room for their border marks. */
static int hold_token(struct detok *d)
{
    size_t need = d->held.len + d->token.len;
    if (need > d->border_cap) {
        size_t cap = d->border_cap ? d->border_cap : 64;
        while (cap < need)
            cap *= 2;
        uint8_t *p = mem_realloc(d->border, cap);
        if (!p)
            return -1;
        d->border = p;
        d->border_cap = cap;
    }
    return d->token.len ? buf_put(&d->held, d->token.data, d->token.len) : 0;
}

/* Cuts the undecided bytes of held into characters as far as they are complete. */
static void decide_borders(struct detok *d)
{
    while (d->decided < d->held.len) {
        uint32_t cp;
        int n = utf8_decode(d->held.data + d->decided, d->held.len - d->decided, &cp);
        if (n < 0)
            return;
        size_t len = n ? (size_t)n : 1;
        memset(d->border + d->decided, 0, len);
        d->border[d->decided] = 1;
        d->decided += len;
    }
}

/* Gives out held[0, n). */
static hasten_status give(struct detok *d, size_t n, struct buf *out, struct hasten_error *err)
{
    if (!n)
        return HASTEN_OK;
    if (buf_put(out, d->held.data, n))
        return error_set(err, HASTEN_ERR_MEMORY, "out of memory for %zu bytes of text", n);
    memmove(d->held.data, d->held.data + n, d->held.len - n);
    memmove(d->border, d->border + n, d->held.len - n);
    d->held.len -= n;
    d->decided = d->decided > n ? d->decided - n : 0;
    return HASTEN_OK;
}

hasten_status detok_push(struct detok *d, int32_t id, struct buf *out, bool *stopped,
                         struct hasten_error *err)
{
    *stopped = d->stopped;
    if (d->stopped)
        return HASTEN_OK;
    buf_clear(&d->token);
    struct vocab_cursor at = d->at;
    hasten_status st = vocab_decode_next(d->v, &at, id, d->special, &d->token, err);
    if (st)
        return st;
    size_t from = d->held.len;
    if (hold_token(d))
        return error_set(err, HASTEN_ERR_MEMORY, "out of memory for %zu bytes of text", d->token.len);
    d->at = at;
    for (size_t i = from; i < d->held.len; i++) {
        d->state = stop_step(d, d->state, (uint8_t)d->held.data[i]);
        int32_t match = d->nodes[d->state].match;
        if (match) {
            st = give(d, i + 1 - (size_t)match, out, err);
            d->stopped = *stopped = true;
            d->held.len = d->decided = 0;
            return st;
        }
    }
    decide_borders(d);
    size_t cut = d->held.len - (size_t)d->nodes[d->state].depth;
    if (cut >= d->decided)
        cut = d->decided;
    else
        while (!d->border[cut]) /* held[0] is a border */
            cut--;
    return give(d, cut, out, err);
}

hasten_status detok_finish(struct detok *d, struct buf *out, struct hasten_error *err)
{
    d->state = 0;
    return give(d, d->held.len, out, err);
}
