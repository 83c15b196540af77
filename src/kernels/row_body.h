/* The simple passes of row.h, in plain C whose loops over 16 and 64 values compilers turn into vectors. Included by
 * each build (row.c, x86/row_avx2.c, x86/row_avx512.c). Nothing here may depend on the instruction set: fused
 * operations are written out. */
#include "kernels/math.h"
#include "kernels/row.h"
#include <float.h>

MATH_INLINE float finite_or_lowest(float x)
{
    return bits_f32(f32_bits(x) & 0x7fffffffu) <= FLT_MAX ? x : -INFINITY;
}

MATH_INLINE float maximum_of_64(const float *x)
{
    float m[ROW_LANES];
    for (int j = 0; j < ROW_LANES; j++) {
        float a = finite_or_lowest(x[j]), b = finite_or_lowest(x[j + 16]), c = finite_or_lowest(x[j + 32]),
              d = finite_or_lowest(x[j + 48]);
        a = b > a ? b : a;
        c = d > c ? d : c;
        m[j] = c > a ? c : a;
    }
    for (int half = ROW_LANES / 2; half; half /= 2)
        for (int j = 0; j < half; j++)
            m[j] = m[j + half] > m[j] ? m[j + half] : m[j];
    return m[0];
}

static void maxima(const float *x, int32_t n_blocks, float *block_max)
{
    for (int32_t b = 0; b < n_blocks; b++)
        block_max[b] = maximum_of_64(x + (int64_t)b * ROW_BLOCK);
}

static void copy(const float *x, int32_t n_blocks, float *to, float *block_max)
{
    for (int32_t b = 0; b < n_blocks; b++) {
        const float *from = x + (int64_t)b * ROW_BLOCK;
        float *at = to + (int64_t)b * ROW_BLOCK;
        for (int j = 0; j < ROW_BLOCK; j++)
            at[j] = finite_or_lowest(from[j]);
        block_max[b] = maximum_of_64(at);
    }
}

/* exp_f32 for x <= 0 without a branch: the same bits. */
MATH_INLINE float exp_not_positive(float in)
{
    const int low = in < EXP_MIN;
    const float e = exp_f32_in_range(low ? 0.0f : in);
    return low ? 0.0f : e;
}

static void exps(const float *x, int64_t n, float max, float *e)
{
    for (int64_t i = 0; i < n; i += ROW_LANES)
        for (int j = 0; j < ROW_LANES; j++)
            e[i + j] = exp_not_positive(x[i + j] - max);
}

static int64_t outside(const int32_t *v, int64_t n, int32_t below)
{
    int64_t bad = 0;
    for (int64_t i = 0; i < n; i++)
        bad += (uint32_t)v[i] >= (uint32_t)below;
    return bad;
}
