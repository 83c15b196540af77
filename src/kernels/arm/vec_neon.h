/* 16-lane forms of math.h and of the fixed reduction, as four vectors of four: the same operations, so the
 * same bits, as the twins. Only armv8-a is needed. */
#ifndef HASTEN_KERNELS_ARM_VEC_NEON_H
#define HASTEN_KERNELS_ARM_VEC_NEON_H
#include "kernels/math.h"
#include <arm_neon.h>
#include <stdbool.h>

/* Lane l of 16 is lane l % 4 of v[l / 4]. */
struct v16 {
    float32x4_t v[4];
};

/* The first n of 16 values, zeros for the rest; nothing beyond them is read. */
MATH_INLINE struct v16 v_load(const float *x, int64_t n)
{
    struct v16 r;
    float some[16] = {0};
    if (n < 16) {
        memcpy(some, x, (size_t)n * sizeof *x);
        x = some;
    }
    for (int i = 0; i < 4; i++)
        r.v[i] = vld1q_f32(x + 4 * i);
    return r;
}

MATH_INLINE void v_store(float *y, struct v16 x, int64_t n)
{
    float some[16];
    float *to = n < 16 ? some : y;
    for (int i = 0; i < 4; i++)
        vst1q_f32(to + 4 * i, x.v[i]);
    if (n < 16)
        memcpy(y, some, (size_t)n * sizeof *y);
}

/* ---- four lanes -------------------------------------------------------------------------------- */

/* Lanes whose result is 0, inf or NaN are computed as exp(0) and replaced. */
MATH_INLINE float32x4_t v_exp(float32x4_t in)
{
    const float32x4_t magic = vdupq_n_f32(ROUND_MAGIC);
    const uint32x4_t high = vmvnq_u32(vcltq_f32(in, vdupq_n_f32(EXP_MAX))); /* or NaN */
    const uint32x4_t low = vcltq_f32(in, vdupq_n_f32(EXP_MIN));
    const float32x4_t x = vreinterpretq_f32_u32(vbicq_u32(vreinterpretq_u32_f32(in), vorrq_u32(high, low)));
    const float32x4_t n = vsubq_f32(vfmaq_f32(magic, x, vdupq_n_f32(EXP_LOG2E)), magic);
    float32x4_t r = vfmaq_f32(x, n, vdupq_n_f32(-EXP_LN2_HI));
    r = vfmaq_f32(r, n, vdupq_n_f32(-EXP_LN2_LO));
    float32x4_t q = vfmaq_f32(vdupq_n_f32(EXP_C5), vdupq_n_f32(EXP_C6), r);
    q = vfmaq_f32(vdupq_n_f32(EXP_C4), q, r);
    q = vfmaq_f32(vdupq_n_f32(EXP_C3), q, r);
    q = vfmaq_f32(vdupq_n_f32(EXP_C2), q, r);
    const float32x4_t p = vaddq_f32(vdupq_n_f32(1.0f), vfmaq_f32(r, q, vmulq_f32(r, r)));
    const int32x4_t i = vcvtq_s32_f32(n), half = vshrq_n_s32(i, 1), bias = vdupq_n_s32(127);
    const float32x4_t s1 = vreinterpretq_f32_s32(vshlq_n_s32(vaddq_s32(half, bias), 23));
    const float32x4_t s2 = vreinterpretq_f32_s32(vshlq_n_s32(vaddq_s32(vsubq_s32(i, half), bias), 23));
    float32x4_t e = vmulq_f32(vmulq_f32(p, s1), s2);
    e = vreinterpretq_f32_u32(vbicq_u32(vreinterpretq_u32_f32(e), low));
    return vbslq_f32(high, vaddq_f32(in, vdupq_n_f32(INFINITY)), e); /* inf, or the NaN */
}

MATH_INLINE float32x4_t v_tanh(float32x4_t x)
{
    const float32x4_t one = vdupq_n_f32(1.0f), ax = vabsq_f32(x), z = vmulq_f32(x, x);
    float32x4_t p = vfmaq_f32(vdupq_n_f32(TANH_C3), vdupq_n_f32(TANH_C4), z);
    p = vfmaq_f32(vdupq_n_f32(TANH_C2), p, z);
    p = vfmaq_f32(vdupq_n_f32(TANH_C1), p, z);
    p = vfmaq_f32(vdupq_n_f32(TANH_C0), p, z);
    const float32x4_t small = vfmaq_f32(x, vmulq_f32(p, z), x);
    const float32x4_t e = v_exp(vaddq_f32(ax, ax));
    const float32x4_t t = vsubq_f32(one, vdivq_f32(vdupq_n_f32(2.0f), vaddq_f32(e, one)));
    const uint32x4_t sign = vandq_u32(vreinterpretq_u32_f32(x), vdupq_n_u32(0x80000000u));
    const float32x4_t large = vreinterpretq_f32_u32(vorrq_u32(vreinterpretq_u32_f32(t), sign));
    return vbslq_f32(vcltq_f32(ax, vdupq_n_f32(TANH_SMALL)), small, large);
}

/* x / (1 + exp(-u)) */
MATH_INLINE float32x4_t v_sigmoid_mul(float32x4_t x, float32x4_t u)
{
    return vdivq_f32(x, vaddq_f32(vdupq_n_f32(1.0f), v_exp(vnegq_f32(u))));
}

/* b where b > a, else a: a NaN in b never wins. */
MATH_INLINE float32x4_t v_greater(float32x4_t b, float32x4_t a)
{
    return vbslq_f32(vcgtq_f32(b, a), b, a);
}

/* ---- the tree of the fixed reduction: lanes l and l + 8, then 4, 2, 1 --------------------------- */

MATH_INLINE float v_reduce_add(struct v16 x)
{
    const float32x4_t a = vaddq_f32(vaddq_f32(x.v[0], x.v[2]), vaddq_f32(x.v[1], x.v[3]));
    const float32x2_t b = vadd_f32(vget_low_f32(a), vget_high_f32(a));
    return vget_lane_f32(b, 0) + vget_lane_f32(b, 1);
}

MATH_INLINE float v_reduce_max(struct v16 x)
{
    const float32x4_t a = v_greater(v_greater(x.v[3], x.v[1]), v_greater(x.v[2], x.v[0]));
    const float32x4_t b = v_greater(vextq_f32(a, a, 2), a);
    return vgetq_lane_f32(v_greater(vextq_f32(b, b, 1), b), 0);
}

#endif
