/* KV pages. A page holds 64 positions of one KV slot and one head (a "lane"): keys transposed, then
 * values [64][d_v], in one representation. All pages of a pool are blocks of one size, reference-counted and
 * copy-on-write: a fork shares them, and whoever writes into a shared page first gets a copy of its own.
 *
 * A sequence's pages are a table [page][lane]. This file knows positions and pages, not tokens or layers. */
#ifndef HASTEN_ENGINE_KV_H
#define HASTEN_ENGINE_KV_H
#include "base/error.h"
#include "kernels/kernels.h"

#define KV_PAGE ATTN_TILE /* positions of a page */

struct kv_lane { /* one (slot, head) */
    int32_t d_k, d_v;
};

struct kv_pool {
    enum kv_rep rep;
    int32_t n_lanes;
    struct kv_lane *lanes; /* [n_lanes], owned */
    size_t block_bytes;    /* of one page, a multiple of 64 */
    int64_t n_blocks, n_free;
    uint8_t *base;      /* [n_blocks × block_bytes], owned */
    int32_t *refs;      /* [n_blocks] */
    int32_t *free_list; /* [n_free] block numbers, taken from the end */
    bool poison;        /* fill freed pages with NaN */
};

/* What a lane holds are *entries*: entry i holds position i, until entries are taken out of it (kv_compact); then what
 * was left of positions below `sealed` lies together, and a later position lies at itself less what was taken. */
struct kv_seq {
    int32_t
        *table; /* [max_pages × n_lanes] block numbers; beyond the pages of a lane those of the past, or 0 */
    int32_t n_positions; /* that there are pages for */
    int32_t max_pages;
    int32_t sealed;     /* positions that were there when entries were last taken out; 0: never */
    int32_t *removed;   /* [n_lanes] entries taken out; NULL: nobody ever takes any */
    int32_t *positions; /* [n_lanes × max_pages × KV_PAGE] of the entries that were left; NULL with removed */
};

static inline int32_t kv_removed(const struct kv_seq *s, int32_t lane)
{
    return s->removed ? s->removed[lane] : 0;
}

/* Position of an entry. */
static inline int32_t kv_position(const struct kv_seq *s, int32_t lane, int32_t entry)
{
    const int32_t removed = kv_removed(s, lane);
    return entry < s->sealed - removed ? s->positions[(int64_t)lane * s->max_pages * KV_PAGE + entry]
                                       : entry + removed;
}

static inline int32_t kv_pages(const struct kv_seq *s, int32_t lane)
{
    return (s->n_positions - kv_removed(s, lane) + KV_PAGE - 1) / KV_PAGE;
}

/* Bytes of the page of a lane; of the whole pool with its tables. Overflow gives HASTEN_ERR_MEMORY. */
size_t kv_page_bytes(enum kv_rep rep, const struct kv_lane *lane);
hasten_status kv_pool_size(enum kv_rep rep, const struct kv_lane *lanes, int32_t n_lanes, int64_t n_pages,
                           uint64_t *bytes, struct hasten_error *err);
/* n_pages: pages that every lane can have in all sequences together. lanes are copied. */
hasten_status kv_pool_open(struct kv_pool *p, enum kv_rep rep, const struct kv_lane *lanes, int32_t n_lanes,
                           int64_t n_pages, bool poison, struct hasten_error *err);
void kv_pool_close(struct kv_pool *p);

/* Blocks that must be free before positions [from, to) can be written (new pages, copies of shared ones). */
int64_t kv_need(const struct kv_pool *p, const struct kv_seq *s, int32_t from, int32_t to);
/* Makes positions [from, to) writable, with what they hold. The caller has checked kv_need and max_pages. */
void kv_extend(struct kv_pool *p, struct kv_seq *s, int32_t from, int32_t to);
/* Keeps only the pages that hold positions below n_keep. Below `sealed` what was taken out is missed: then nothing is
 * kept, and the sequence is as new. Returns how many positions there are pages for, n_keep or 0. */
int32_t kv_shrink(struct kv_pool *p, struct kv_seq *s, int32_t n_keep);
/* dst (empty) gets the pages of src that hold positions below n_keep, shared. Returns as kv_shrink. */
int32_t kv_share(struct kv_pool *p, const struct kv_seq *src, struct kv_seq *dst, int32_t n_keep);
/* Keeps of a lane's entries of positions below length the n in `kept` (ascending), moved together; frees pages. Shared
 * pages are copied first: kv_shared says how many pages that may take. The caller sets s->sealed = length once all
 * lanes are done; positions of lanes that keep all must be written too (kept: NULL). */
void kv_compact(struct kv_pool *p, struct kv_seq *s, int32_t lane, int32_t length, const int32_t *kept,
                int32_t n);
/* s (without pages; removed, positions and sealed are what they will be) gets pages of its own for n_positions, of any
 * content. The caller has checked that kv_wanted are free. */
int64_t kv_wanted(const struct kv_pool *p, const struct kv_seq *s, int32_t n_positions);
void kv_take(struct kv_pool *p, struct kv_seq *s, int32_t n_positions);
/* dst's pages of its first n positions become src's, where the two hold the same entries there, bit for bit: what dst had
 * of its own goes back. Whole pages only; nothing while entries have been taken out of one of them. */
void kv_merge(struct kv_pool *p, const struct kv_seq *src, struct kv_seq *dst, int32_t n);
int64_t kv_shared(const struct kv_pool *p, const struct kv_seq *s, int32_t lane);
int64_t kv_blocks(const struct kv_pool *p, const struct kv_seq *s); /* pages held, of all lanes */

static inline struct kv_tile kv_tile_at(const struct kv_pool *p, const struct kv_seq *s, int32_t page,
                                        int32_t lane)
{ /* page: counted in entries of the lane */
    uint8_t *block = p->base + (size_t)s->table[(int64_t)page * p->n_lanes + lane] * p->block_bytes;
    return (struct kv_tile){.rep = p->rep, .k = block, .v = block + kv_key_bytes(p->rep, p->lanes[lane].d_k)};
}

#endif
