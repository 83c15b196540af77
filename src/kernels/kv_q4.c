/* Keys and values in four bits: storing, and reading a page as if it were one of q8. One build for every set: a page is
 * made into the q8 page of the same values, exactly (all of it is integers and shifts), and folded by the set's own q8
 * kernel; so the arithmetic is that of q8, and the twins of q8 are those of q4. attention.h says how a page lies. */
#include "kernels/attention.h"
#include "kernels/sets.h"
#include <string.h>

/* ---- storing ------------------------------------------------------------------------------------------------ */

/* The value of largest magnitude of n; *finite: whether all are. */
static float largest(const float *x, int64_t n, bool *finite)
{
    uint32_t amax = 0;
    float at = 0;
    for (int64_t i = 0; i < n; i++) {
        const uint32_t u = f32_bits(x[i]) & 0x7fffffffu;
        at = u > amax ? x[i] : at;
        amax = u > amax ? u : amax;
    }
    *finite = amax < 0x7f800000u;
    return at;
}

/* x / scale, to nearest, as a nibble: 8 is 0. */
static uint8_t nibble(float x, float inverse)
{
    const float q = (x * inverse + ROUND_MAGIC) - ROUND_MAGIC;
    return (uint8_t)(8 + (int)(q < -8.0f ? -8.0f : q > 7.0f ? 7.0f : q));
}

/* Where the nibbles of an entry lie: component d of n in byte `at` of d if d < split, else in the upper half of that of
 * d - split. Nobody else's nibbles lie in these bytes, so entries can be stored by several workers at once. */
struct place {
    uint8_t *bytes;
    int64_t split, each; /* each: components that lie side by side */
    int64_t stride;      /* bytes from one group of these to the next */
    int64_t step;        /* bytes from one component to the next within a group */
};

static void put(const struct place *p, int64_t d, uint8_t q)
{
    const int64_t c = d < p->split ? d : d - p->split;
    uint8_t *b = p->bytes + c / p->each * p->stride + c % p->each * p->step;
    *b = d < p->split ? (uint8_t)((*b & 0xf0) | q) : (uint8_t)((*b & 0x0f) | q << 4);
}

static void put_zeros(const struct place *p)
{
    for (int64_t d = 0; d < 2 * p->split; d++)
        put(p, d, 8);
}

/* Blocks of 32 of x[n] to nibbles, the scale of each chosen so that its largest value is -8 steps (as Q4_0 does),
 * rounded to bf16. Where a value is not finite the scale is NaN. */
static void store_key(const float *x, int64_t n, const struct place *to, uint16_t *scales)
{
    for (int64_t b = 0; b < q8_blocks(n); b++) {
        const int64_t d0 = b * Q8_BLOCK, m = n - d0 < Q8_BLOCK ? n - d0 : Q8_BLOCK;
        bool finite;
        const float top = largest(x + d0, m, &finite);
        const bool none = !finite || fabsf(top) < ACT_AMAX_MIN;
        const uint16_t scale = !finite ? 0x7fc0 : none ? 0 : bf16_round(top / -8.0f);
        const float inverse = none ? 0.0f : 1.0f / bf16_value(scale);
        scales[b * ATTN_TILE] = scale;
        for (int64_t i = 0; i < m && !none; i++)
            put(to, d0 + i, nibble(x[d0 + i], inverse));
    }
}

/* Blocks of 32 of x[n] to nibbles; the scale of a block is a whole number of -15 .. 15 times that of all, so that a
 * value times its block's number is a byte. Where a value is not finite the scale is infinite. */
static void store_value(const float *x, int64_t n, const struct place *to, int8_t *subs, float *scale)
{
    bool finite;
    const float top = fabsf(largest(x, n, &finite));
    const bool none = !finite || top < ACT_AMAX_MIN;
    const float unit = top / (8.0f * Q4_SUB_MAX);
    *scale = !finite ? INFINITY : none ? 0.0f : unit;
    for (int64_t b = 0; b < q8_blocks(n); b++) {
        const int64_t d0 = b * Q8_BLOCK, m = n - d0 < Q8_BLOCK ? n - d0 : Q8_BLOCK;
        const float own = none ? 0.0f : largest(x + d0, m, &finite);
        const float steps = none ? 0.0f : ceilf(fabsf(own) / 8.0f / unit);
        const int sub = steps > Q4_SUB_MAX ? (int)Q4_SUB_MAX : (int)steps;
        subs[b * ATTN_TILE] = (int8_t)(own > 0 ? -sub : sub);
        const float inverse = sub ? 1.0f / ((float)subs[b * ATTN_TILE] * unit) : 0.0f;
        for (int64_t i = 0; i < m && sub; i++)
            put(to, d0 + i, nibble(x[d0 + i], inverse));
    }
}

void q4_store(int64_t d_k, int64_t d_v, int32_t e, const float *k, const float *v, void *tile_k, void *tile_v)
{
    const struct place key = {(uint8_t *)tile_k + 4 * e, 4 * q4_quads(d_k), 4, 4 * ATTN_TILE, 1};
    const struct place value = {(uint8_t *)tile_v + e / 4 * q4_half(d_v) * 4 + e % 4, q4_half(d_v), 1, 4, 0};
    put_zeros(&key);
    put_zeros(&value);
    store_key(k, d_k, &key, (uint16_t *)(uintptr_t)q4_key_scales(tile_k, d_k) + e);
    store_value(v, d_v, &value, (int8_t *)(uintptr_t)q4_value_subs(tile_v, d_v) + e,
                (float *)(uintptr_t)q4_value_scales(tile_v, d_v) + e);
}

/* ---- reading ------------------------------------------------------------------------------------------------ */

static size_t round_up(size_t n)
{
    return (n + 63) & ~(size_t)63;
}

size_t q4_scratch_bytes(int64_t d_k, int64_t d_v)
{
    return round_up(kv_key_bytes(KV_Q8, d_k)) + round_up(kv_value_bytes(KV_Q8, d_v));
}

/* n bytes of keys: 120 to a nibble is 128 to the value. */
CLONES_WIDE static void unpack_keys(const uint8_t *from, int64_t n_low, int64_t n_high, uint8_t *to)
{
    for (int64_t i = 0; i < n_low; i++)
        to[i] = (uint8_t)((from[i] & 15) + 120);
    for (int64_t i = 0; i < n_high; i++)
        to[n_low + i] = (uint8_t)((from[i] >> 4) + 120);
}

CLONES_WIDE static void unpack_scales(const uint16_t *from, int64_t n, float *to)
{
    for (int64_t i = 0; i < n; i++)
        to[i] = bf16_value(from[i]);
}

/* n nibbles (`shift`: 0, the low ones, or 4) of four positions in turn, each times its position's number. */
MATH_INLINE void unpack_block(const uint8_t *from, int shift, int64_t n, const int8_t sub[4], int8_t *to)
{
    for (int64_t i = 0; i < n; i++)
        for (int p = 0; p < 4; p++)
            to[4 * i + p] = (int8_t)(((from[4 * i + p] >> shift & 15) - 8) * sub[p]);
}

CLONES_WIDE static void unpack_values(const uint8_t *from, int64_t d_v, const int8_t *subs, int8_t *to)
{
    const int64_t half = q4_half(d_v);
    for (int64_t j = 0; j < ATTN_TILE / 4; j++, from += 4 * half, to += 4 * d_v) {
        for (int64_t d = 0, n; d < d_v; d += n) { /* as far as a block or a half goes */
            const int64_t end = d < half ? half : d_v, block = (d / Q8_BLOCK + 1) * Q8_BLOCK;
            n = (block < end ? block : end) - d;
            const int shift = d < half ? 0 : 4;
            unpack_block(from + 4 * (d < half ? d : d - half), shift, n,
                         subs + d / Q8_BLOCK * ATTN_TILE + 4 * j, to + 4 * d);
        }
    }
}

static void bring(const uint8_t *p, size_t bytes)
{
    for (size_t i = 0; p && i < bytes; i += 64)
        __builtin_prefetch(p + i);
}

struct kv_tile q4_as_q8(const struct kv_tile *t, int64_t d_k, int64_t d_v, void *scratch)
{
    uint8_t *k = scratch, *v = k + round_up(kv_key_bytes(KV_Q8, d_k));
    const int64_t low = q4_quads(d_k), high = q8_quads(d_k) - low;
    bring(t->next, kv_key_bytes(KV_Q4, d_k) + kv_value_bytes(KV_Q4, d_v));
    unpack_keys(t->k, low * 4 * ATTN_TILE, high * 4 * ATTN_TILE, k);
    unpack_scales(q4_key_scales(t->k, d_k), q8_blocks(d_k) * ATTN_TILE,
                  (float *)(uintptr_t)q8_key_scales(k, d_k));
    unpack_values(t->v, d_v, q4_value_subs(t->v, d_v), (int8_t *)v);
    memcpy((void *)(uintptr_t)q8_value_scales(v, d_v), q4_value_scales(t->v, d_v), ATTN_TILE * sizeof(float));
    return (struct kv_tile){.rep = KV_Q8, .k = k, .v = v};
}

void q4_tile(attn_tile_fn of_q8, const struct kv_tile *t, int64_t d_k, int64_t d_v, int64_t n_q,
             const void *q, const struct attn_visible *vis, float softcap, struct attn_state *state, float *o,
             void *scratch)
{
    uint64_t any = 0;
    for (int64_t i = 0; i < n_q; i++)
        any |= visible_bits(&vis[i]);
    if (!any)
        return;
    const struct kv_tile as = q4_as_q8(t, d_k, d_v, scratch);
    of_q8(&as, d_k, d_v, n_q, q, vis, softcap, state, o, (uint8_t *)scratch + q4_scratch_bytes(d_k, d_v));
}
