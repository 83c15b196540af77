/* The stage cache: what the cache keeps, and in which form. A method either says how keys and values are represented
 * (role "represent"), or which are kept, and then: at lengths that the method names (cache_ops.next) the driver (cache.c) asks for
 * a score of every entry of every layer and KV head, keeps the best of them beside the pinned ones, and moves what is
 * kept together, so that pages become free. Positions never change: keys stay rotated as they were. Layers with a
 * sliding window are left alone.
 *
 * A pass ends at such a length, so what a row sees is a function of the tokens before it, whatever the chunks. A
 * sequence that is cut back to before its last such length is computed again from its tokens at the next step. */
#ifndef HASTEN_ENGINE_CACHE_H
#define HASTEN_ENGINE_CACHE_H
#include "engine/attend.h"

struct layer;

/* One layer and KV head at such a length, and the queries that came last. */
struct cache_lane {
    struct kv_view kv;
    int32_t n_queries, n_heads; /* n_queries: cache_ops.window, or the length if it is less; of the group */
    const float *const
        *q; /* [n_queries]: [n_heads × d_k] each, rotated, not yet times scale; the newest last */
    float scale, softcap;
};

struct cache_ops {
    /* The representation it stands for; all else is NULL then. */
    bool represents;
    enum hasten_kv_type kv_type;

    /* The length above `length` at which the method acts next, INT32_MAX: never. n_prompt: announced, or -1. */
    int32_t (*next)(const void *state, int32_t length, int32_t n_prompt);
    /* Queries of each layer that score wants to see. NULL: none. */
    int32_t (*window)(const void *knobs);
    size_t (*scratch_bytes)(const struct method_site *,
                            const void *knobs); /* of a worker, for score. NULL: none */
    /* How many of n entries a lane keeps, pinned ones included, which stay even if they are more. */
    int32_t (*keep)(const void *state, int32_t layer, int32_t n);
    void (*pins)(const void *state, int32_t *sink, int32_t *recent);
    /* score [kv.n]: the higher the better; ties go to the lower entry, NaN last. Different lanes at once. */
    void (*score)(const void *state, void *seq, const struct cache_lane *lane, float *score, void *scratch);
    /* NULL, or told which entries stay (ascending), in the order in which they now lie. */
    void (*kept)(const void *state, void *seq, const struct cache_lane *lane, const int32_t *entries,
                 int32_t n);
    /* NULL, or told that all lanes are done, at a sequence of `length`. */
    void (*done)(const void *state, void *seq, int32_t length);
};

/* cache_ops.next of most methods: every so many tokens, or (every = 0) at the end of an announced prompt. */
int32_t cache_next_at(int32_t every, int32_t length, int32_t n_prompt);
/* mass [kv.n] = the sum, over the lane's queries and heads, of the probabilities with which they read each entry
 * (queries see what was there at their position). average: divided by the queries that could see it. scratch:
 * cache_mass_scratch. */
void cache_query_mass(const struct cache_lane *lane, bool average, float *mass, void *scratch);
size_t cache_mass_scratch(const struct method_site *site, int32_t window);

struct hasten_engine;
struct hasten_seq;

/* What the driver works with. Of each sequence: queries [n_layer × window × width] behind the flat states. */
struct caching {
    const struct method_use *use; /* NULL: everything is kept */
    int32_t window;
    int64_t width;     /* floats of a row's queries in a layer: the most */
    size_t queries_at; /* in a sequence's flat state */
    uint8_t *scratch;  /* [n_threads × scratch_bytes] */
    size_t scratch_bytes;
    int32_t *counts, *kept; /* while acting: entries that lanes keep [n_lanes], which [n_lanes × n_ctx] */
};

size_t caching_seq_bytes(const struct method_site *site, const struct method_use *u);
size_t caching_bytes(const struct method_site *site, const struct method_use *u, struct caching *out,
                     uint8_t *memory);
/* The length at which a pass over positions from `from` on must end at the latest, at least from + 1. */
int32_t cache_next(const struct hasten_engine *e, const struct hasten_seq *s, int32_t from);
/* Rows of the pass whose queries will be wanted are noted. */
void cache_watch(struct hasten_engine *e, const struct layer *l, int32_t layer);
/* After a pass: acts on s if it has reached a length at which the method does. */
void cache_act(struct hasten_engine *e, struct hasten_seq *s, int32_t length);
/* Pages that acting within [from, to] may take because they are shared. */
int64_t cache_need(const struct hasten_engine *e, const struct hasten_seq *s, int32_t from, int32_t to);

#endif
