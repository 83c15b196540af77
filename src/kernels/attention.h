/* What the attention kernels of all sets share: the states of a merge; and for the low representations of keys and
 * values, bf16, q8 and q4, how their pages and queries lie in memory, and the scalar forms of their arithmetic, which
 * the twins use and every fast kernel must equal (kernels.h says what is computed). Private to kernels/. */
#ifndef HASTEN_KERNELS_ATTENTION_H
#define HASTEN_KERNELS_ATTENTION_H
#include "kernels/kernels.h"
#include "kernels/layout.h"
#include "kernels/math.h"

/* ---- merging ------------------------------------------------------------------------------------------------ */

/* attn_merge but for the outputs of two sides that both hold something: then true, and oa is to become
 * fma(oa, *ca, ob * *cb). */
MATH_INLINE bool attn_merge_states(int64_t d_v, const struct attn_state *sb, const float *ob,
                                   struct attn_state *sa, float *oa, float *ca, float *cb)
{
    if (sb->l == 0)
        return false;
    if (sa->l == 0) {
        *sa = *sb;
        memcpy(oa, ob, (size_t)d_v * sizeof *oa);
        return false;
    }
    const float m = sb->m > sa->m ? sb->m : sa->m;
    *ca = exp_f32_inline(sa->m - m);
    *cb = exp_f32_inline(sb->m - m);
    sa->l = fmaf(sa->l, *ca, sb->l * *cb);
    sa->m = m;
    return true;
}

/* ---- 2^y for probabilities that are rounded to 8 bits --------------------------------------------------------
 * y = s log2(e) - m log2(e) by one fma; 2^n P(y - n) with n = y to the nearest integer, P a cubic of least
 * relative error, 7.5e-5. Below 2^-125: 0, so that results are normal. */
#define COARSE_MIN -125.0f
#define COARSE_C0 0x1.fff692p-1f
#define COARSE_C1 0x1.62f31ap-1f
#define COARSE_C2 0x1.f0de1ap-3f
#define COARSE_C3 0x1.c3f76p-5f

/* minus_m: -(m * EXP_LOG2E). */
MATH_INLINE float exp_coarse_inline(float s, float minus_m)
{
    const float y = fmaf(s, EXP_LOG2E, minus_m);
    if (y < COARSE_MIN)
        return 0.0f;
    if (y != y)
        return y;
    const float n = (y + ROUND_MAGIC) - ROUND_MAGIC, r = y - n;
    float p = fmaf(COARSE_C3, r, COARSE_C2);
    p = fmaf(p, r, COARSE_C1);
    p = fmaf(p, r, COARSE_C0);
    return p * bits_f32((uint32_t)((int32_t)n + 127) << 23);
}

/* ---- bf16 --------------------------------------------------------------------------------------------------- */

/* To nearest even; denormals become zeros, NaNs quiet: as VCVTNEPS2BF16 does. */
MATH_INLINE uint16_t bf16_round(float x)
{
    const uint32_t u = f32_bits(x), magnitude = u & 0x7fffffffu;
    if (magnitude > 0x7f800000u)
        return (uint16_t)(u >> 16 | 0x40);
    if (magnitude < 0x00800000u)
        return (uint16_t)(u >> 16 & 0x8000);
    return (uint16_t)((u + 0x7fff + (u >> 16 & 1)) >> 16);
}

MATH_INLINE float bf16_value(uint16_t b)
{
    return bits_f32((uint32_t)b << 16);
}

MATH_INLINE float without_denormals(float x)
{
    return f32_bits(x) & 0x7f800000u ? x : bits_f32(f32_bits(x) & 0x80000000u);
}

/* a * b + acc rounded once, a and b of bf16: denormals are zeros on the way in, and on the way out if the sum,
 * rounded as if exponents had no end, is below 2^-126. (x86 calls that tininess after rounding.) */
MATH_INLINE float bf16_fma(float acc, float a, float b)
{
    acc = without_denormals(acc);
    a = without_denormals(a);
    b = without_denormals(b);
    const float r = fmaf(a, b, acc);
    if (fabsf(r) ==
        0x1p-126f) { /* exact, or rounded up to it: all is tiny, so scaling by 2^64 loses nothing */
        const bool a_less = fabsf(a) < fabsf(b);
        const float scaled = fmaf(a_less ? a * 0x1p64f : a, a_less ? b : b * 0x1p64f, acc * 0x1p64f);
        if (fabsf(scaled) < 0x1p-62f)
            return copysignf(0.0f, r);
    }
    return without_denormals(r);
}

/* One pair of VDPBF16PS (Intel SDM vol. 2): the odd element first. */
MATH_INLINE float bf16_pair(float acc, const uint16_t a[2], const uint16_t b[2])
{
    acc = bf16_fma(acc, bf16_value(a[1]), bf16_value(b[1]));
    return bf16_fma(acc, bf16_value(a[0]), bf16_value(b[0]));
}

/* ---- q8 ----------------------------------------------------------------------------------------------------- */

#define Q8_BLOCK 32 /* key components that share a scale */

/* Keys of a page: bytes k + 128 [ceil(d_k / 4)][64][4], then scales f32 [blocks][64]. Values: int8
 * [16][d_v][4] (four positions together), then scales f32 [64]. */
static inline int64_t q8_quads(int64_t d_k)
{
    return (d_k + 3) / 4;
}

static inline int64_t q8_blocks(int64_t d_k)
{
    return (d_k + Q8_BLOCK - 1) / Q8_BLOCK;
}

static inline const float *q8_key_scales(const void *k, int64_t d_k)
{
    return (const float *)(const void *)((const uint8_t *)k + q8_quads(d_k) * 4 * ATTN_TILE);
}

static inline const float *q8_value_scales(const void *v, int64_t d_v)
{
    return (const float *)(const void *)((const uint8_t *)v + d_v * ATTN_TILE);
}

/* ---- q4: what q8 would hold, in half the bytes and a little (kv_q4.c) ---------------------------------------
 * A component is step * number * scale: steps of -8 .. 7, a number of 0 .. 15 for 8 components, a scale for 32 of a key
 * (bf16), for all of a value (f32). Step times number is a byte, that of a page of q8.
 * Keys: steps + 8 as nibbles [ceil(quads / 2)][64][4], the quads of the first half low, those of the second high; numbers
 * [ceil(n / 2)][64], n = ceil(d_k / 8), low and high alike; scales [blocks][64]. Values: steps [16][ceil(d_v / 2)][4], the
 * components of the first half low; numbers as for keys; scales [64]. A byte is of one position alone. */
#define Q4_SUB 8 /* components that share a number */
#define Q4_SUB_MAX 15.0f

static inline int64_t q4_quads(int64_t d_k)
{
    return (q8_quads(d_k) + 1) / 2;
}

static inline int64_t q4_half(int64_t d_v)
{
    return (d_v + 1) / 2;
}

/* Half of the numbers of a key or value, rounded up. */
static inline int64_t q4_numbers(int64_t d)
{
    return (d + 2 * Q4_SUB - 1) / (2 * Q4_SUB);
}

static inline const uint8_t *q4_key_numbers(const void *k, int64_t d_k)
{
    return (const uint8_t *)k + q4_quads(d_k) * 4 * ATTN_TILE;
}

static inline const uint16_t *q4_key_scales(const void *k, int64_t d_k)
{
    return (const uint16_t *)(const void *)(q4_key_numbers(k, d_k) + q4_numbers(d_k) * ATTN_TILE);
}

static inline const uint8_t *q4_value_numbers(const void *v, int64_t d_v)
{
    return (const uint8_t *)v + q4_half(d_v) * ATTN_TILE;
}

static inline const float *q4_value_scales(const void *v, int64_t d_v)
{
    return (const float *)(const void *)(q4_value_numbers(v, d_v) + q4_numbers(d_v) * ATTN_TILE);
}

/* The number of components from 8 * sub on, of d, of entry e. */
MATH_INLINE int q4_number(const uint8_t *numbers, int64_t d, int64_t sub, int64_t e)
{
    const int64_t low = q4_numbers(d);
    const uint8_t b = numbers[(sub < low ? sub : sub - low) * ATTN_TILE + e];
    return sub < low ? b & 15 : b >> 4;
}

/* Step times number of component d of entry e. */
MATH_INLINE int q4_key(const void *k, int64_t d_k, int64_t d, int64_t e)
{
    const int64_t quad = d / 4, low = q4_quads(d_k);
    const uint8_t b = ((const uint8_t *)k)[((quad < low ? quad : quad - low) * ATTN_TILE + e) * 4 + d % 4];
    return ((quad < low ? b & 15 : b >> 4) - 8) * q4_number(q4_key_numbers(k, d_k), d_k, d / Q4_SUB, e);
}

MATH_INLINE int q4_value(const void *v, int64_t d_v, int64_t e, int64_t d)
{
    const int64_t half = q4_half(d_v);
    const uint8_t b = ((const uint8_t *)v)[(e / 4 * half + (d < half ? d : d - half)) * 4 + e % 4];
    return ((d < half ? b & 15 : b >> 4) - 8) * q4_number(q4_value_numbers(v, d_v), d_v, d / Q4_SUB, e);
}

void q4_store(int64_t d_k, int64_t d_v, int32_t e, const float *k, const float *v, void *tile_k,
              void *tile_v);
/* The q8 page of the same values, in scratch of q4_scratch_bytes, 64-byte aligned. */
struct kv_tile q4_as_q8(const struct kv_tile *t, int64_t d_k, int64_t d_v, void *scratch);
size_t q4_scratch_bytes(int64_t d_k, int64_t d_v);
/* attn_tile of a set, by its own for q8. scratch: q4_scratch_bytes and what that needs. */
typedef void (*attn_tile_fn)(const struct kv_tile *t, int64_t d_k, int64_t d_v, int64_t n_q, const void *q,
                             const struct attn_visible *vis, float softcap, struct attn_state *state,
                             float *o, void *scratch);
void q4_tile(attn_tile_fn of_q8, const struct kv_tile *t, int64_t d_k, int64_t d_v, int64_t n_q,
             const void *q, const struct attn_visible *vis, float softcap, struct attn_state *state, float *o,
             void *scratch);

/* A prepared query: int8 [4 quads], then per block the scale and -128 times the sum of the block. */
struct q8_query {
    const int8_t *q;
    const float *d;
    const int32_t *offset;
};

static inline struct q8_query q8_query_at(const void *row, int64_t d_k)
{
    const uint8_t *p = row;
    const float *d = (const float *)(const void *)(p + 4 * q8_quads(d_k));
    return (struct q8_query){row, d, (const int32_t *)(const void *)(d + q8_blocks(d_k))};
}

/* Component d of the key of entry e, as a float: exact. */
MATH_INLINE float key_at(enum kv_rep rep, const void *k, int64_t d_k, int64_t d, int64_t e)
{
    switch (rep) {
    case KV_F16:
        return f16_to_f32(((const uint16_t *)k)[d * ATTN_TILE + e]);
    case KV_F32:
        return ((const float *)k)[d * ATTN_TILE + e];
    case KV_BF16:
        return bf16_value(((const uint16_t *)k)[(d / 2 * ATTN_TILE + e) * 2 + d % 2]);
    case KV_Q8:
        return (float)(((const uint8_t *)k)[(d / 4 * ATTN_TILE + e) * 4 + d % 4] - 128) *
               q8_key_scales(k, d_k)[d / Q8_BLOCK * ATTN_TILE + e];
    case KV_Q4:
        return (float)q4_key(k, d_k, d, e) * bf16_value(q4_key_scales(k, d_k)[d / Q8_BLOCK * ATTN_TILE + e]);
    case KV_REPS:
        break;
    }
    return 0;
}

/* The parts of the twin of attn_tile that differ (ref/twin_attention_low.c). p: 64 raw scores (softcap not yet
 * applied); probabilities that l sums. */
void twin_low_store(enum kv_rep rep, int64_t d_k, int64_t d_v, int32_t e, const float *k, const float *v,
                    void *tile_k, void *tile_v);
void twin_low_query(enum kv_rep rep, int64_t d_k, const float *q, void *dst);
void twin_low_scores(const struct kv_tile *t, int64_t d_k, const void *q, uint64_t visible,
                     float score[ATTN_TILE]);
void twin_low_fold(const struct kv_tile *t, int64_t d_v, const float p[ATTN_TILE], uint64_t visible,
                   float keep, bool fresh, float *o);

#if defined(__x86_64__)
/* Tiles of bf16 pages (x86/attention_bf16_avx512.c): the form that suits this CPU, or, for tests, one of them
 * (dot: only where the CPU has AVX512_BF16). */
#define BF16_TILE(name)                                                                                      \
    void name(const struct kv_tile *t, int64_t d_k, int64_t d_v, int64_t n_q, const void *q,                 \
              const struct attn_visible *vis, float softcap, struct attn_state *state, float *o,             \
              void *scratch)
BF16_TILE(avx512_bf16_tile);
BF16_TILE(avx512_bf16_tile_dot);
BF16_TILE(avx512_bf16_tile_fma);
#endif

#endif
