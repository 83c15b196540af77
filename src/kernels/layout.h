/* How an activation row lies in memory in its quantised forms, shared by the twins and the fast kernels.
 *
 * Beside the int8 values stand the sums that the products need, so that offsets of unsigned weights are folded
 * in exactly: sum (q_w - offset) * q_x = sum q_w * q_x + negN, negN = -offset * sum q_x. All arrays of a row are
 * contiguous; every byte up to the row's end is defined (padding is zero). */
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

/* ACT_Q8_32: byte offsets of the arrays of a row; nb = k / 32 groups. q: int8[k] at 0. */
struct act32_layout {
    size_t d;      /* f32[nb]   scale of the group */
    size_t ds;     /* f32[nb]   d * (float)sum(q) */
    size_t neg8;   /* int32[nb] -8 * sum(q): Q4_0 */
    size_t neg16;  /* int32[nb] -16 * sum(q): Q5_0 */
    size_t neg128; /* int32[nb] -128 * sum(q): Q8_0, whose bytes are shifted to unsigned */
    size_t used, bytes;
};

static inline struct act32_layout act32_layout(int64_t k)
{
    struct act32_layout a;
    const size_t step = (size_t)k / 32 * 4;
    a.d = round_up_64((size_t)k);
    a.ds = a.d + step;
    a.neg8 = a.ds + step;
    a.neg16 = a.neg8 + step;
    a.neg128 = a.neg16 + step;
    a.used = a.neg128 + step;
    a.bytes = round_up_64(a.used);
    return a;
}

/* ACT_Q8_256: nb = k / 256 groups. q: int8[k] at 0. */
struct act256_layout {
    size_t neg32; /* int32[nb][16] -32 * sum of 16 q: Q6_K */
    size_t neg4;  /* int32[nb][16] -4 * sum of 16 q: Q3_K */
    size_t sum16; /* int16[nb][16] sums of 16 q: mins of Q2_K */
    size_t sum32; /* int16[nb][8]  sums of 32 q: mins of Q4_K, Q5_K */
    size_t d;     /* f32[nb] */
    size_t used, bytes;
};

static inline struct act256_layout act256_layout(int64_t k)
{
    struct act256_layout a;
    const size_t nb = (size_t)k / 256;
    a.neg32 = (size_t)k;
    a.neg4 = a.neg32 + nb * 64;
    a.sum16 = a.neg4 + nb * 64;
    a.sum32 = a.sum16 + nb * 32;
    a.d = a.sum32 + nb * 16;
    a.used = a.d + nb * 4;
    a.bytes = round_up_64(a.used);
    return a;
}

/* The one NaN that matmul stores and act_make writes as a scale. */
static inline float canonical_nan(void)
{
    return __builtin_nanf("");
}

static inline const uint8_t *act_row(const struct act *a, int64_t i)
{
    return a->rows + (size_t)i * a->row_stride;
}

static inline const uint8_t *weight_row(const struct weight *w, int64_t r)
{
    return w->data + (size_t)r * (size_t)w->row_bytes;
}

#endif
