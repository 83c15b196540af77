/* The stage store: what is kept between requests. A store holds sequences that nobody uses any more, so that a later
 * prompt begins with what they hold. A kept sequence is an ordinary one: its pages are shared copy on write, what methods
 * know of it lies in its flat state, so forking and cutting give exactness for every method that can follow them.
 *
 *     store_open(engine, &store, &err);
 *     store_take(store, scope, ids, n, &seq, &err);     a sequence that holds a beginning of ids[n], perhaps nothing
 *     ... steps: the rest of ids, an answer ...
 *     store_give(store, scope, seq);                    it is the store's again
 *     store_close(store);
 *
 * scope: a hash of everything that may not be shared although the engine is one (whose key, which name space): nothing
 * that was given under a scope is taken under another. A hit gives the same bits as a miss: rows of a kept sequence stand
 * in only where a fresh run of ids would compute the same ones (store_reach).
 *
 * The driver belongs to the engine's thread. It is also where the engine turns when pages run out (store_make_room). */
#ifndef HASTEN_ENGINE_STORE_H
#define HASTEN_ENGINE_STORE_H
#include "base/error.h"
#include <stdbool.h>
#include <stdint.h>

struct hasten_engine;
struct hasten_seq;

/* Since the store was opened; entries to bytes: now. */
struct store_figures {
    int64_t entries, positions; /* kept sequences; positions of them, those in common counted once */
    uint64_t bytes;             /* of KV pages for so many positions */
    uint64_t queries, hits;     /* takes; of these, those that began with something */
    uint64_t asked_tokens, hit_tokens;
    uint64_t given, evictions, evicted_tokens; /* evictions: of a whole sequence or of its end */
    /* of a tier on disk, else 0 */
    int64_t disk_entries;
    uint64_t disk_bytes, disk_hits, disk_writes,
        disk_failures; /* failures: files that could not be read or written */
};

/* Tables of a method of this stage. Any call may be made with any sequence of the engine that nobody else holds. */
struct store_ops {
    /* state: the method's (engine/method.h). */
    hasten_status (*open)(struct hasten_engine *e, const void *state, void **store, struct hasten_error *err);
    void (*close)(void *store); /* before its engine */
    /* *out: a sequence of the engine that holds the longest beginning of ids[n] that is known under `scope`: 0 or more
     * positions, at most n - 1. HASTEN_ERR_FULL: all sequences are in use. */
    hasten_status (*take)(void *store, uint64_t scope, const int32_t *ids, int64_t n, struct hasten_seq **out,
                          struct hasten_error *err);
    void (*give)(void *store, uint64_t scope, struct hasten_seq *seq); /* keeps it, or closes it */
    /* Gives up what is worth least until so many KV pages are free (as hasten_counters count them); false: nothing is
     * left to give up. */
    bool (*make_room)(void *store, int64_t pages);
    void (*figures)(const void *store, struct store_figures *out);
};

struct store;
/* The engine's method of this stage; without one, a store that keeps nothing. One at a time; the engine must outlive it. */
hasten_status store_open(struct hasten_engine *e, struct store **out, struct hasten_error *err);
void store_close(struct store *s); /* what it kept is closed; NULL is fine */
/* HASTEN_ERR_USAGE: n is below 1. */
hasten_status store_take(struct store *s, uint64_t scope, const int32_t *ids, int64_t n,
                         struct hasten_seq **out, struct hasten_error *err);
void store_give(struct store *s, uint64_t scope, struct hasten_seq *seq); /* NULL is fine */
/* A sequence that is in use, behind its prompt say, is kept too, as it is now: others may begin with it at once. It stays
 * the caller's; from now on it shares its pages. */
void store_share(struct store *s, uint64_t scope, struct hasten_seq *seq);
bool store_make_room(struct store *s, int64_t pages); /* true at once where they are; NULL: false */
void store_figures(const struct store *s, struct store_figures *out);
bool store_keeps(const struct store *s); /* is there a method? */

/* For methods: whether a row depends on its tokens alone, not on how long the prompt was said to be. */
bool store_rows_alike(const struct hasten_engine *e);
/* For methods: of the first n_common positions, which seq and a prompt of n tokens share, how many rows in seq are those
 * that a fresh run of the prompt would compute, and can be forked. Without methods that read prompts otherwise: all. With
 * them only rows that were computed as an announced prompt's, and none where entries were taken out at its end. */
int32_t store_reach(const struct hasten_seq *seq, int32_t n_common, int64_t n);

#endif
