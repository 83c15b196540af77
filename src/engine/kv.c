/* The pool of KV pages: see kv.h. One thread at a time; no allocation after kv_pool_open. */
#include "engine/kv.h"
#include "base/checked.h"
#include "base/mem.h"
#include <string.h>

size_t kv_page_bytes(enum kv_rep rep, const struct kv_lane *lane)
{
    return kv_key_bytes(rep, lane->d_k) + kv_value_bytes(rep, lane->d_v);
}

static size_t largest_page(enum kv_rep rep, const struct kv_lane *lanes, int32_t n_lanes)
{
    size_t largest = 64;
    for (int32_t i = 0; i < n_lanes; i++) {
        const size_t b = kv_page_bytes(rep, &lanes[i]);
        largest = b > largest ? b : largest;
    }
    return largest;
}

hasten_status kv_pool_size(enum kv_rep rep, const struct kv_lane *lanes, int32_t n_lanes, int64_t n_pages,
                           uint64_t *bytes, struct hasten_error *err)
{
    uint64_t n_blocks, total;
    if (checked_mul_u64((uint64_t)n_pages, (uint64_t)n_lanes, &n_blocks) || n_blocks > INT32_MAX ||
        checked_mul_u64(n_blocks, largest_page(rep, lanes, n_lanes) + 2 * sizeof(int32_t), &total))
        return error_set(
            err, HASTEN_ERR_MEMORY,
            "planning the KV pool: %lld pages of %d lanes are too many (expected fewer than 2^31 blocks)",
            (long long)n_pages, n_lanes);
    *bytes = total;
    return HASTEN_OK;
}

/* All ones: a NaN in f16, bf16 and f32, and as the scale of q8. */
static void fill_nan(const struct kv_pool *p, int64_t block)
{
    memset(p->base + (size_t)block * p->block_bytes, 0xff, p->block_bytes);
}

hasten_status kv_pool_open(struct kv_pool *p, enum kv_rep rep, const struct kv_lane *lanes, int32_t n_lanes,
                           int64_t n_pages, bool poison, struct hasten_error *err)
{
    uint64_t bytes;
    memset(p, 0, sizeof *p);
    hasten_status st = kv_pool_size(rep, lanes, n_lanes, n_pages, &bytes, err);
    if (st)
        return st;
    p->rep = rep;
    p->n_lanes = n_lanes;
    p->block_bytes = largest_page(rep, lanes, n_lanes);
    p->n_blocks = p->n_free = n_pages * n_lanes;
    p->poison = poison;
    p->lanes = mem_array((size_t)n_lanes, sizeof *p->lanes);
    p->refs = mem_calloc((size_t)p->n_blocks, sizeof *p->refs);
    p->free_list = mem_array((size_t)p->n_blocks, sizeof *p->free_list);
    p->base = mem_map((size_t)p->n_blocks * p->block_bytes);
    if (!p->lanes || !p->refs || !p->free_list || !p->base) {
        kv_pool_close(p);
        return error_set(err, HASTEN_ERR_MEMORY, "allocating the KV pool: out of memory for %llu bytes",
                         (unsigned long long)bytes);
    }
    memcpy(p->lanes, lanes, (size_t)n_lanes * sizeof *lanes);
    for (int64_t i = 0; i < p->n_blocks; i++) {
        p->free_list[i] = (int32_t)(p->n_blocks - 1 - i);
        if (poison)
            fill_nan(p, i);
    }
    return HASTEN_OK;
}

void kv_pool_close(struct kv_pool *p)
{
    if (p->base)
        mem_unmap(p->base, (size_t)p->n_blocks * p->block_bytes);
    mem_free(p->free_list);
    mem_free(p->refs);
    mem_free(p->lanes);
    memset(p, 0, sizeof *p);
}

static int32_t pages_of(int32_t positions)
{
    return (positions + KV_PAGE - 1) / KV_PAGE;
}

static int32_t take(struct kv_pool *p)
{
    const int32_t block = p->free_list[--p->n_free];
    p->refs[block] = 1;
    return block;
}

static void release(struct kv_pool *p, int32_t block)
{
    if (--p->refs[block] > 0)
        return;
    if (p->poison)
        fill_nan(p, block);
    p->free_list[p->n_free++] = block;
}

/* A copy of the page at *entry that only this sequence has. */
static void make_own(struct kv_pool *p, int32_t *entry)
{
    if (p->refs[*entry] == 1)
        return;
    const int32_t copy = take(p);
    memcpy(p->base + (size_t)copy * p->block_bytes, p->base + (size_t)*entry * p->block_bytes,
           p->block_bytes);
    release(p, *entry);
    *entry = copy;
}

static int32_t *entry_at(const struct kv_pool *p, const struct kv_seq *s, int32_t page, int32_t lane)
{
    return &s->table[(int64_t)page * p->n_lanes + lane];
}

int64_t kv_need(const struct kv_pool *p, const struct kv_seq *s, int32_t from, int32_t to)
{
    int64_t need = 0;
    for (int32_t lane = 0; lane < p->n_lanes; lane++) {
        const int32_t removed = kv_removed(s, lane), held = kv_pages(s, lane);
        for (int32_t page = (from - removed) / KV_PAGE; page < held; page++)
            need += p->refs[*entry_at(p, s, page, lane)] > 1;
        need += pages_of(to - removed) - held;
    }
    return need;
}

void kv_extend(struct kv_pool *p, struct kv_seq *s, int32_t from, int32_t to)
{
    for (int32_t lane = 0; lane < p->n_lanes; lane++) {
        const int32_t removed = kv_removed(s, lane), held = kv_pages(s, lane), end = pages_of(to - removed);
        for (int32_t page = (from - removed) / KV_PAGE; page < held; page++)
            make_own(p, entry_at(p, s, page, lane));
        for (int32_t page = held; page < end; page++)
            *entry_at(p, s, page, lane) = take(p);
    }
    s->n_positions = to > s->n_positions ? to : s->n_positions;
}

static void release_from(struct kv_pool *p, const struct kv_seq *s, int32_t lane, int32_t first, int32_t end)
{
    for (int32_t page = end - 1; page >= first; page--)
        release(p, *entry_at(p, s, page, lane));
}

static void forget_removed(const struct kv_pool *p, struct kv_seq *s)
{
    s->sealed = 0;
    for (int32_t lane = 0; s->removed && lane < p->n_lanes; lane++)
        s->removed[lane] = 0;
}

int32_t kv_shrink(struct kv_pool *p, struct kv_seq *s, int32_t n_keep)
{
    if (n_keep >= s->n_positions)
        return s->n_positions;
    const int32_t keep = n_keep < s->sealed ? 0 : n_keep;
    for (int32_t lane = 0; lane < p->n_lanes; lane++) {
        const int32_t first = keep ? pages_of(keep - kv_removed(s, lane)) : 0;
        release_from(p, s, lane, first, kv_pages(s, lane));
    }
    s->n_positions = keep;
    if (keep == 0)
        forget_removed(p, s);
    return keep;
}

int32_t kv_share(struct kv_pool *p, const struct kv_seq *src, struct kv_seq *dst, int32_t n_keep)
{
    dst->n_positions = n_keep < src->sealed ? 0 : n_keep < src->n_positions ? n_keep : src->n_positions;
    forget_removed(p, dst);
    if (dst->n_positions == 0)
        return 0;
    dst->sealed = src->sealed;
    for (int32_t lane = 0; lane < p->n_lanes; lane++) {
        if (src->removed) {
            const int64_t at = (int64_t)lane * src->max_pages * KV_PAGE;
            dst->removed[lane] = src->removed[lane];
            memcpy(dst->positions + at, src->positions + at,
                   (size_t)(src->sealed - src->removed[lane]) * sizeof *dst->positions);
        }
        for (int32_t page = 0; page < kv_pages(dst, lane); page++) {
            const int32_t block = *entry_at(p, src, page, lane);
            *entry_at(p, dst, page, lane) = block;
            p->refs[block]++;
        }
    }
    return dst->n_positions;
}

int64_t kv_wanted(const struct kv_pool *p, const struct kv_seq *s, int32_t n_positions)
{
    int64_t n = 0;
    for (int32_t lane = 0; lane < p->n_lanes; lane++)
        n += pages_of(n_positions - kv_removed(s, lane));
    return n;
}

void kv_take(struct kv_pool *p, struct kv_seq *s, int32_t n_positions)
{
    s->n_positions = n_positions;
    for (int32_t lane = 0; lane < p->n_lanes; lane++)
        for (int32_t page = 0; page < kv_pages(s, lane); page++)
            *entry_at(p, s, page, lane) = take(p);
}

void kv_merge(struct kv_pool *p, const struct kv_seq *src, struct kv_seq *dst, int32_t n)
{
    n = n < src->n_positions ? n : src->n_positions;
    n = n < dst->n_positions ? n : dst->n_positions;
    if (src->sealed || dst->sealed)
        return;
    for (int32_t page = 0; page < n / KV_PAGE; page++)
        for (int32_t lane = 0; lane < p->n_lanes; lane++) {
            int32_t *own = entry_at(p, dst, page, lane);
            const int32_t other = *entry_at(p, src, page, lane);
            if (*own == other)
                continue;
            release(p, *own);
            *own = other;
            p->refs[other]++;
        }
}

int64_t kv_shared(const struct kv_pool *p, const struct kv_seq *s, int32_t lane)
{
    int64_t n = 0;
    for (int32_t page = 0; page < kv_pages(s, lane); page++)
        n += p->refs[*entry_at(p, s, page, lane)] > 1;
    return n;
}

int64_t kv_blocks(const struct kv_pool *p, const struct kv_seq *s)
{
    int64_t n = 0;
    for (int32_t lane = 0; lane < p->n_lanes; lane++)
        n += kv_pages(s, lane);
    return n;
}

void kv_compact(struct kv_pool *p, struct kv_seq *s, int32_t lane, int32_t length, const int32_t *kept,
                int32_t n)
{
    int32_t *positions = s->positions + (int64_t)lane * s->max_pages * KV_PAGE;
    const int32_t m = length - s->removed[lane], held = kv_pages(s, lane);
    int32_t first = 0;
    n = kept ? n : m;
    while (first < n && (!kept || kept[first] == first))
        first++;
    for (int32_t page = first / KV_PAGE; n < m && page < held; page++)
        make_own(p, entry_at(p, s, page, lane));
    for (int32_t i = first; i < n; i++) {
        const struct kv_tile from = kv_tile_at(p, s, kept[i] / KV_PAGE, lane),
                             to = kv_tile_at(p, s, i / KV_PAGE, lane);
        kv_move(&from, kept[i] % KV_PAGE, p->lanes[lane].d_k, p->lanes[lane].d_v, &to, i % KV_PAGE);
    }
    for (int32_t i = 0; i < n; i++) /* ascending: what is read lies at i or behind it */
        positions[i] = kv_position(s, lane, kept ? kept[i] : i);
    const int32_t end = (s->n_positions - (s->removed[lane] + m - n) + KV_PAGE - 1) / KV_PAGE;
    release_from(p, s, lane, end, held);
    s->removed[lane] += m - n;
}
