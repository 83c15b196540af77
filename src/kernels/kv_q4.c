/* Keys and values in four bits: storing, and reading a page as if it were one of q8. One build for every set: a page is
 * made into the q8 page of the same values, exactly (all of it is integers and shifts), and folded by the set's own q8
 * kernel; so the arithmetic is that of q8, and the twins of q8 are those of q4. attention.h says how a page lies. */
#include "kernels/attention.h"
#include "kernels/sets.h"
#include <string.h>

/* ---- storing ------------------------------------------------------------------------------------------------ */

/* The largest magnitude of n values; *finite: whether all are. */
static float largest(const float *x, int64_t n, bool *finite)
{
    uint32_t amax = 0;
    for (int64_t i = 0; i < n; i++) {
        const uint32_t u = f32_bits(x[i]) & 0x7fffffffu;
        amax = u > amax ? u : amax;
    }
    *finite = amax < 0x7f800000u;
    return bits_f32(amax);
}

/* Where the nibbles of an entry lie: number i of n at `step` i from bytes on if i < split, else in the upper half of the byte
 * of i - split. Nobody else's nibbles lie in these bytes, so entries can be stored by several workers at once. */
struct place {
    uint8_t *bytes;
    int64_t split, each; /* each: nibbles that lie side by side */
    int64_t stride;      /* bytes from one group of these to the next */
};

static void put(const struct place *p, int64_t i, int q)
{
    const int64_t c = i < p->split ? i : i - p->split;
    uint8_t *b = p->bytes + c / p->each * p->stride + c % p->each;
    *b = i < p->split ? (uint8_t)((*b & 0xf0) | q) : (uint8_t)((*b & 0x0f) | q << 4);
}

static void put_all(const struct place *p, int q)
{
    for (int64_t i = 0; i < 2 * p->split; i++)
        put(p, i, q);
}

/* Components x[n], from number d0 on, in steps of whole multiples of unit, which is not 0. */
static void store_block(const float *x, int64_t n, int64_t d0, float unit, const struct place *steps,
                        const struct place *numbers)
{
    for (int64_t at = 0; at < n; at += Q4_SUB) {
        const int64_t m = n - at < Q4_SUB ? n - at : Q4_SUB;
        bool finite;
        const float top = largest(x + at, m, &finite), want = ceilf(top / (7.5f * unit));
        const int number = want > Q4_SUB_MAX ? (int)Q4_SUB_MAX : (int)want;
        const float inverse = number ? 1.0f / ((float)number * unit) : 0.0f;
        put(numbers, (d0 + at) / Q4_SUB, number);
        for (int64_t i = 0; i < m; i++) {
            const float q = (x[at + i] * inverse + ROUND_MAGIC) - ROUND_MAGIC;
            put(steps, d0 + at + i, 8 + (int)(q < -8.0f ? -8.0f : q > 7.0f ? 7.0f : q));
        }
    }
}

/* The unit of values whose largest magnitude is top, so that 15 units of 7.5 steps reach it; 0: all become zeros. */
static float unit_of(float top)
{
    return top < ACT_AMAX_MIN ? 0.0f : top / (7.5f * Q4_SUB_MAX);
}

/* Where a value is not finite the scale is NaN. */
static void store_key(const float *x, int64_t n, const struct place *steps, const struct place *numbers,
                      uint16_t *scales)
{
    for (int64_t b = 0; b < q8_blocks(n); b++) {
        const int64_t d0 = b * Q8_BLOCK, m = n - d0 < Q8_BLOCK ? n - d0 : Q8_BLOCK;
        bool finite;
        const float top = largest(x + d0, m, &finite);
        const uint16_t scale = finite ? bf16_round(unit_of(top)) : 0x7fc0;
        scales[b * ATTN_TILE] = scale;
        if (finite && scale)
            store_block(x + d0, m, d0, bf16_value(scale), steps, numbers);
    }
}

/* Where a value is not finite the scale is infinite. */
static void store_value(const float *x, int64_t n, const struct place *steps, const struct place *numbers,
                        float *scale)
{
    bool finite;
    const float top = largest(x, n, &finite);
    *scale = finite ? unit_of(top) : INFINITY;
    if (finite && *scale > 0)
        store_block(x, n, 0, *scale, steps, numbers);
}

void q4_store(int64_t d_k, int64_t d_v, int32_t e, const float *k, const float *v, void *tile_k, void *tile_v)
{
    const struct place key[2] = {
        {(uint8_t *)tile_k + 4 * e, 4 * q4_quads(d_k), 4, 4 * ATTN_TILE},
        {(uint8_t *)(uintptr_t)q4_key_numbers(tile_k, d_k) + e, q4_numbers(d_k), 1, ATTN_TILE}};
    const struct place value[2] = {
        {(uint8_t *)tile_v + e / 4 * q4_half(d_v) * 4 + e % 4, q4_half(d_v), 1, 4},
        {(uint8_t *)(uintptr_t)q4_value_numbers(tile_v, d_v) + e, q4_numbers(d_v), 1, ATTN_TILE}};
    for (int i = 0; i < 2; i++) { /* zeros */
        put_all(&key[i], i ? 0 : 8);
        put_all(&value[i], i ? 0 : 8);
    }
    store_key(k, d_k, &key[0], &key[1], (uint16_t *)(uintptr_t)q4_key_scales(tile_k, d_k) + e);
    store_value(v, d_v, &value[0], &value[1], (float *)(uintptr_t)q4_value_scales(tile_v, d_v) + e);
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

/* Four bytes for each of 64 positions: n positions' numbers (`shift`: 0, the low ones, or 4), each four times. */
MATH_INLINE void spread(const uint8_t *numbers, int shift, int8_t out[4 * ATTN_TILE])
{
    for (int e = 0; e < ATTN_TILE; e++)
        for (int i = 0; i < 4; i++)
            out[4 * e + i] = (int8_t)(numbers[e] >> shift & 15);
}

/* A quad of 64 keys; 128 to each value. */
MATH_INLINE void unpack_quad(const uint8_t *from, int shift, const int8_t number[4 * ATTN_TILE], uint8_t *to)
{
    for (int i = 0; i < 4 * ATTN_TILE; i++)
        to[i] = (uint8_t)(((from[i] >> shift & 15) - 8) * number[i] + 128);
}

CLONES_WIDE static void unpack_keys(const uint8_t *from, const uint8_t *numbers, int64_t d_k, uint8_t *to)
{
    const int64_t quads = q8_quads(d_k), low = q4_quads(d_k), n = q4_numbers(d_k);
    int8_t number[4 * ATTN_TILE];
    for (int64_t q = 0; q < quads; q++) {
        const int64_t sub = q * 4 / Q4_SUB, row = (q < low ? q : q - low) * 4 * ATTN_TILE;
        if (q * 4 % Q4_SUB == 0 && sub < n)
            spread(numbers + sub * ATTN_TILE, 0, number);
        else if (q * 4 % Q4_SUB == 0)
            spread(numbers + (sub - n) * ATTN_TILE, 4, number);
        if (q < low)
            unpack_quad(from + row, 0, number, to + q * 4 * ATTN_TILE);
        else
            unpack_quad(from + row, 4, number, to + q * 4 * ATTN_TILE);
    }
}

CLONES_WIDE static void unpack_scales(const uint16_t *from, int64_t n, float *to)
{
    for (int64_t i = 0; i < n; i++)
        to[i] = bf16_value(from[i]);
}

/* n components of four positions in turn, each times its position's number. */
MATH_INLINE void unpack_block(const uint8_t *from, int shift, int64_t n, const int8_t number[4], int8_t *to)
{
    for (int64_t i = 0; i < n; i++)
        for (int p = 0; p < 4; p++)
            to[4 * i + p] = (int8_t)(((from[4 * i + p] >> shift & 15) - 8) * number[p]);
}

CLONES_WIDE static void unpack_values(const uint8_t *from, int64_t d_v, const uint8_t *numbers, int8_t *to)
{
    const int64_t half = q4_half(d_v);
    for (int64_t j = 0; j < ATTN_TILE / 4; j++, from += 4 * half, to += 4 * d_v) {
        for (int64_t d = 0, n; d < d_v; d += n) { /* as far as a number or a half goes */
            const int64_t end = d < half ? half : d_v, sub = d / Q4_SUB, block = (sub + 1) * Q4_SUB;
            int8_t number[4];
            for (int p = 0; p < 4; p++)
                number[p] = (int8_t)q4_number(numbers, d_v, sub, 4 * j + p);
            n = (block < end ? block : end) - d;
            if (d < half)
                unpack_block(from + 4 * d, 0, n, number, to + 4 * d);
            else
                unpack_block(from + 4 * (d - half), 4, n, number, to + 4 * d);
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
    bring(t->next, kv_key_bytes(KV_Q4, d_k) + kv_value_bytes(KV_Q4, d_v));
    unpack_keys(t->k, q4_key_numbers(t->k, d_k), d_k, k);
    unpack_scales(q4_key_scales(t->k, d_k), q8_blocks(d_k) * ATTN_TILE,
                  (float *)(uintptr_t)q8_key_scales(k, d_k));
    unpack_values(t->v, d_v, q4_value_numbers(t->v, d_v), (int8_t *)v);
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
