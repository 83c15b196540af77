/* The stage attend: which entries of the cache a query reads. A method clears bits of what a query would see; kernels
 * select the rest away, never multiply it, and pages without a bit are not even read. So with no bit cleared the
 * result is the plain engine's to the bit, in any representation of the cache.
 *
 * The driver (attend.c) calls `append` once new keys of a layer are in their pages, then `select` for each row and KV
 * head, both by all workers at once, in any order; then attention runs. Layers with a sliding window are left alone. */
#ifndef HASTEN_ENGINE_ATTEND_H
#define HASTEN_ENGINE_ATTEND_H
#include "engine/kv.h"
#include "engine/method.h"

/* One layer and KV head of one sequence: entries [0, n), in ascending positions; entry i holds position i unless a
 * method of the stage cache took some out (kv_position says). */
struct kv_view {
    const struct kv_pool *pool;
    const struct kv_seq *seq;
    int32_t layer, head_kv, lane; /* lane: number of (layer, head) among all of the model */
    int32_t n, d_k, d_v;
};
/* Entries [from, from + n) as floats: k [n × d_k], v [n × d_v]; either may be NULL. Keys are rotated, and as the cache
 * keeps them. */
void kv_view_read(const struct kv_view *v, int32_t from, int32_t n, float *k, float *out);

/* Components of a key, of the widest layer: what scratch for one is sized by. */
int64_t kv_widest_key(const struct method_site *site);

/* The query heads of a row that share a KV head. */
struct attend_query {
    struct kv_view kv; /* the entries that would be read; the row's own is the last */
    int32_t pos;       /* of the row */
    int32_t n_prompt;  /* announced length of the prompt: rows from here on are decoded; -1: not announced */
    int32_t n_heads;   /* of the group */
    const float *q;    /* [n_heads × d_k], rotated, not yet times scale */
    float scale;       /* of q.k before softmax */
};

struct attend_ops {
    /* Bytes of scratch of a worker, for append and select. NULL: none. */
    size_t (*scratch_bytes)(const struct method_site *, const void *knobs);
    /* Whether anything may be cleared for rows at pos; false costs nothing. NULL: always. Must not look at more. */
    bool (*active)(const void *state, int32_t layer, int32_t pos, int32_t n_prompt);
    /* Entries [from, kv->n) of a lane are new; seq: the lane's sequence's flat state. Different lanes at once. NULL: nothing to
     * be kept. May be called again for entries that were truncated and came back, with the same result. */
    void (*append)(const void *state, void *seq, const struct kv_view *kv, int32_t from, void *scratch);
    /* seen: bit e % 64 of word e / 64 set for every entry below q->kv.n, no others. Clears what is not read. The row's
     * own entry is read in any case. per_head: a set of words for each of the q->n_heads, `stride` words apart;
     * otherwise one for all. */
    void (*select)(const void *state, const void *seq, const struct attend_query *q, uint64_t *seen,
                   int64_t stride, void *scratch);
    bool per_head;
};

/* ---- for methods: what they share (attend_tools.c) ------------------------------------------------------------ */

/* Clears, of seen [n / 64 rounded up], all entries in [from, to). */
void attend_clear(uint64_t *seen, int32_t from, int32_t to);
void attend_keep(uint64_t *seen, int32_t from, int32_t to); /* the reverse */
/* The k largest of score [n] by descending score, of equal ones the lower index, NaN last: their indices, ascending,
 * into chosen [k]. work: [n] indices of scratch. k <= n. */
void attend_top_k(const float *score, int32_t n, int32_t k, int32_t *chosen, int32_t *work);
/* What no method drops: the first `sink` entries, the last `recent` ones. Is entry e of n one? */
static inline bool attend_pinned(int32_t e, int32_t n, int32_t sink, int32_t recent)
{
    return e < sink || e >= n - recent;
}

#endif
