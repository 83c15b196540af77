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

/* The pages that a sequence has already from `from` on, which may be shared: entries of its table. */
struct entries {
    int64_t first, end;
};

static struct entries held_from(const struct kv_pool *p, const struct kv_seq *s, int32_t from)
{
    const int64_t end = (int64_t)s->n_pages * p->n_lanes, first = (int64_t)(from / KV_PAGE) * p->n_lanes;
    return (struct entries){first < end ? first : end, end};
}

int64_t kv_need(const struct kv_pool *p, const struct kv_seq *s, int32_t from, int32_t to)
{
    const struct entries held = held_from(p, s, from);
    int64_t need = (int64_t)(pages_of(to) - s->n_pages) * p->n_lanes;
    for (int64_t i = held.first; i < held.end; i++)
        need += p->refs[s->table[i]] > 1;
    return need;
}

void kv_extend(struct kv_pool *p, struct kv_seq *s, int32_t from, int32_t to)
{
    const struct entries held = held_from(p, s, from);
    for (int64_t i = held.first; i < held.end; i++) {
        if (p->refs[s->table[i]] == 1)
            continue;
        const int32_t copy = take(p);
        memcpy(p->base + (size_t)copy * p->block_bytes, p->base + (size_t)s->table[i] * p->block_bytes,
               p->block_bytes);
        release(p, s->table[i]);
        s->table[i] = copy;
    }
    const int32_t n_pages = pages_of(to);
    for (; s->n_pages < n_pages; s->n_pages++)
        for (int32_t lane = 0; lane < p->n_lanes; lane++)
            s->table[(int64_t)s->n_pages * p->n_lanes + lane] = take(p);
}

void kv_shrink(struct kv_pool *p, struct kv_seq *s, int32_t n_keep)
{
    const int32_t n_pages = pages_of(n_keep);
    while (s->n_pages > n_pages) {
        s->n_pages--;
        for (int32_t lane = 0; lane < p->n_lanes; lane++)
            release(p, s->table[(int64_t)s->n_pages * p->n_lanes + lane]);
    }
}

void kv_share(struct kv_pool *p, const struct kv_seq *src, struct kv_seq *dst, int32_t n_keep)
{
    dst->n_pages = pages_of(n_keep);
    const int64_t n = (int64_t)dst->n_pages * p->n_lanes;
    for (int64_t i = 0; i < n; i++) {
        dst->table[i] = src->table[i];
        p->refs[src->table[i]]++;
    }
}
