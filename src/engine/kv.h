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

struct kv_seq {
    int32_t *table; /* [max_pages × n_lanes] block numbers; beyond n_pages those of the past, or 0 */
    int32_t n_pages, max_pages;
};

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
/* Keeps only the pages that hold positions below n_keep. */
void kv_shrink(struct kv_pool *p, struct kv_seq *s, int32_t n_keep);
/* dst (empty) gets the pages of src that hold positions below n_keep, shared. */
void kv_share(struct kv_pool *p, const struct kv_seq *src, struct kv_seq *dst, int32_t n_keep);

static inline struct kv_tile kv_tile_at(const struct kv_pool *p, const struct kv_seq *s, int32_t page,
                                        int32_t lane)
{
    uint8_t *block = p->base + (size_t)s->table[(int64_t)page * p->n_lanes + lane] * p->block_bytes;
    return (struct kv_tile){.rep = p->rep, .k = block, .v = block + kv_key_bytes(p->rep, p->lanes[lane].d_k)};
}

#endif
