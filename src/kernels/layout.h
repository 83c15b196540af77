/* How an activation row lies in memory in its quantised forms, shared by the twins and the fast kernels:
 * an array of blocks of 256 values, each a whole number of cache lines, the last one filled up with zeros.
 *
 * Beside the int8 values stand the sums that the products need, so that offsets of unsigned weights are
 * folded in exactly: sum (q_w - offset) * q_x = sum q_w * q_x + negN, negN = -offset * sum q_x. */
#ifndef HASTEN_KERNELS_LAYOUT_H
#define HASTEN_KERNELS_LAYOUT_H
#include "kernels/kernels.h"
#include <math.h>

#define ROW_ALIGN 64
#define ACT_AMAX_MIN 0x1p-100f /* a group whose largest magnitude is below this is stored as zeros */

static inline size_t round_up_64(size_t n)
{
    return (n + 63) & ~(size_t)63;
}

#define ACT_BLOCK 256

/* 256 values of ACT_Q8_32: 8 groups. */
struct act_block_32 {
    int8_t q[ACT_BLOCK];
    float d[8];        /* scale of the group */
    float ds[8];       /* d * (float)sum(q) */
    int32_t neg8[8];   /* -8 * sum(q): Q4_0 */
    int32_t neg16[8];  /* -16 * sum(q): Q5_0 */
    int32_t neg128[8]; /* -128 * sum(q): Q8_0, whose bytes are shifted to unsigned */
    int16_t neg12[16]; /* -12 * sum of 16 q: NVFP4 */
};

/* 256 values of ACT_Q8_256: one group. */
struct act_block_256 {
    int8_t q[ACT_BLOCK];
    int32_t neg32[16]; /* -32 * sum of 16 q: Q6_K */
    int32_t neg8[8];   /* -8 * sum of 32 q: Q4_K */
    int16_t sum16[16]; /* sums of 16 q: mins of Q2_K */
    int16_t sum32[8];  /* sums of 32 q: mins of Q4_K, Q5_K */
    float d;
    int32_t neg124; /* -124 * sum of all q: Q3_K, its sub-block scales multiplied into the quants */
    /* Bounds that tell where the products of a sub-block fit 16 bits: the largest sum of |q| over 16; the largest
     * sum over 32 of the positive or of the negative q alone. */
    int32_t most16, most32;
    int32_t zero[8];
};

#define ACT_BLOCK_BYTES 448
_Static_assert(sizeof(struct act_block_32) == ACT_BLOCK_BYTES, "7 cache lines");
_Static_assert(sizeof(struct act_block_256) == ACT_BLOCK_BYTES, "7 cache lines");

/* The one NaN that matmul stores and act_make writes as a scale. */
static inline float canonical_nan(void)
{
    return __builtin_nanf("");
}

/* Fills most16 and most32 from q. */
static inline void act_bound_256(struct act_block_256 *a)
{
    int32_t most16 = 0, most32 = 0;
    for (int g = 0; g < ACT_BLOCK / 32; g++) {
        int32_t all[2] = {0, 0}, sum = 0;
        for (int h = 0; h < 2; h++) {
            for (int i = 0; i < 16; i++) {
                const int32_t q = a->q[g * 32 + h * 16 + i];
                all[h] += q < 0 ? -q : q;
                sum += q;
            }
            most16 = all[h] > most16 ? all[h] : most16;
        }
        const int32_t side = (all[0] + all[1] + (sum < 0 ? -sum : sum)) / 2;
        most32 = side > most32 ? side : most32;
    }
    a->most16 = most16;
    a->most32 = most32;
}

static inline const uint8_t *act_row(const struct act *a, int64_t i)
{
    return a->rows + (size_t)i * a->row_stride;
}

/* Prepared query i of attn_tile, in the form of f16 and f32 pages. */
static inline const float *attn_query_at(const void *q, int64_t d_k, int64_t i)
{
    return (const float *)(const void *)((const uint8_t *)q + (size_t)i * attn_query_bytes(d_k));
}

static inline const uint8_t *weight_row(const struct weight *w, int64_t r)
{
    return w->data + (size_t)r * (size_t)w->row_bytes;
}

#endif
