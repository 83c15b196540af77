/* Element-wise kernels, the norm, and the quantisation of activations. Twins: ref/twin_ops.c,
 * twin_matmul.c. */
#include "kernels/arm/vec_neon.h"
#include "kernels/layout.h"
#include "kernels/sets.h"

void neon_rms_norm(const float *x, const float *w, int64_t n, float eps, float *y)
{
    struct v16 acc = {{vdupq_n_f32(0), vdupq_n_f32(0), vdupq_n_f32(0), vdupq_n_f32(0)}};
    for (int64_t at = 0; at < n; at += 16) {
        const struct v16 v = v_load(x + at, n - at);
        for (int i = 0; i < 4; i++)
            acc.v[i] = vfmaq_f32(acc.v[i], v.v[i], v.v[i]);
    }
    const float32x4_t r = vdupq_n_f32(1.0f / sqrtf(v_reduce_add(acc) / (float)n + eps));
    for (int64_t at = 0; at < n; at += 16) {
        struct v16 v = v_load(x + at, n - at);
        for (int i = 0; i < 4; i++)
            v.v[i] = vmulq_f32(v.v[i], r);
        if (w) {
            const struct v16 by = v_load(w + at, n - at);
            for (int i = 0; i < 4; i++)
                v.v[i] = vmulq_f32(v.v[i], by.v[i]);
        }
        v_store(y + at, v, n - at);
    }
}

MATH_INLINE void rotate(float32x4_t *a, float32x4_t *b, float32x4_t c, float32x4_t s)
{
    const float32x4_t x = vfmaq_f32(vnegq_f32(vmulq_f32(*b, s)), *a, c);
    *b = vfmaq_f32(vmulq_f32(*b, c), *a, s);
    *a = x;
}

static void rope_neox(float *x, const float *cosines, const float *sines, int64_t half)
{
    for (int64_t at = 0; at < half; at += 16) {
        const int64_t left = half - at;
        struct v16 a = v_load(x + at, left), b = v_load(x + half + at, left);
        const struct v16 c = v_load(cosines + at, left), s = v_load(sines + at, left);
        for (int i = 0; i < 4; i++)
            rotate(&a.v[i], &b.v[i], c.v[i], s.v[i]);
        v_store(x + at, a, left);
        v_store(x + half + at, b, left);
    }
}

static void rope_pairs(float *x, const float *cosines, const float *sines, int64_t half)
{
    int64_t at = 0;
    for (; at + 4 <= half; at += 4) {
        float32x4x2_t v = vld2q_f32(x + 2 * at);
        rotate(&v.val[0], &v.val[1], vld1q_f32(cosines + at), vld1q_f32(sines + at));
        vst2q_f32(x + 2 * at, v);
    }
    if (at < half)
        twin_rope(x + 2 * at, cosines + at, sines + at, 2 * (half - at), false);
}

void neon_rope(float *x, const float *cosines, const float *sines, int64_t n_rot, bool neox)
{
    if (neox)
        rope_neox(x, cosines, sines, n_rot / 2);
    else
        rope_pairs(x, cosines, sines, n_rot / 2);
}

void neon_silu_mul(const float *gate, const float *up, int64_t n, float *y)
{
    for (int64_t at = 0; at < n; at += 16) {
        struct v16 g = v_load(gate + at, n - at);
        const struct v16 u = v_load(up + at, n - at);
        for (int i = 0; i < 4; i++)
            g.v[i] = vmulq_f32(v_sigmoid_mul(g.v[i], g.v[i]), u.v[i]);
        v_store(y + at, g, n - at);
    }
}

MATH_INLINE float32x4_t v_gelu(float32x4_t x)
{
    const float32x4_t cubic = vfmaq_f32(vdupq_n_f32(1.0f), vmulq_f32(vdupq_n_f32(GELU_C), x), x);
    return v_sigmoid_mul(x, vmulq_f32(vmulq_f32(vdupq_n_f32(GELU_2S), x), cubic));
}

void neon_gelu_mul(const float *gate, const float *up, int64_t n, float *y)
{
    for (int64_t at = 0; at < n; at += 16) {
        struct v16 g = v_load(gate + at, n - at);
        const struct v16 u = v_load(up + at, n - at);
        for (int i = 0; i < 4; i++)
            g.v[i] = vmulq_f32(v_gelu(g.v[i]), u.v[i]);
        v_store(y + at, g, n - at);
    }
}

void neon_add(const float *x, int64_t n, float *y)
{
    for (int64_t at = 0; at < n; at += 16) {
        const struct v16 b = v_load(x + at, n - at);
        struct v16 a = v_load(y + at, n - at);
        for (int i = 0; i < 4; i++)
            a.v[i] = vaddq_f32(a.v[i], b.v[i]);
        v_store(y + at, a, n - at);
    }
}

void neon_scale(float s, int64_t n, float *y)
{
    for (int64_t at = 0; at < n; at += 16) {
        struct v16 a = v_load(y + at, n - at);
        for (int i = 0; i < 4; i++)
            a.v[i] = vmulq_n_f32(a.v[i], s);
        v_store(y + at, a, n - at);
    }
}

void neon_softcap(float cap, int64_t n, float *y)
{
    const float32x4_t c = vdupq_n_f32(cap);
    for (int64_t at = 0; at < n; at += 16) {
        struct v16 a = v_load(y + at, n - at);
        for (int i = 0; i < 4; i++)
            a.v[i] = vmulq_f32(c, v_tanh(vdivq_f32(a.v[i], c)));
        v_store(y + at, a, n - at);
    }
}

/* ---- activations ------------------------------------------------------------------------------- */

/* Bits of the largest magnitude among n values (a multiple of 16): ordered as the magnitudes, NaN above. */
MATH_INLINE uint32_t amax_bits(const float *x, int64_t n)
{
    uint32x4_t most[4] = {vdupq_n_u32(0), vdupq_n_u32(0), vdupq_n_u32(0), vdupq_n_u32(0)};
    for (int64_t at = 0; at < n; at += 16)
        for (int i = 0; i < 4; i++)
            most[i] = vmaxq_u32(most[i], vreinterpretq_u32_f32(vabsq_f32(vld1q_f32(x + at + 4 * i))));
    return vmaxvq_u32(vmaxq_u32(vmaxq_u32(most[0], most[1]), vmaxq_u32(most[2], most[3])));
}

struct group_scale {
    float d, inverse; /* inverse: 0 where q is to be 0 whatever x is */
};

MATH_INLINE struct group_scale group_scale(uint32_t amax)
{
    if (amax >= 0x7f800000u)
        return (struct group_scale){canonical_nan(), 0.0f};
    const float f = bits_f32(amax);
    if (f < ACT_AMAX_MIN)
        return (struct group_scale){0.0f, 0.0f};
    return (struct group_scale){f / 127.0f, 127.0f / f};
}

/* Quantises 16 values; returns their sum. */
MATH_INLINE int32_t quantise_16(const float *x, float inverse, int8_t *q)
{
    int32x4_t v[4];
    if (!(inverse > 0.0f)) {
        vst1q_s8(q, vdupq_n_s8(0));
        return 0;
    }
    for (int i = 0; i < 4; i++)
        v[i] = vcvtnq_s32_f32(vmulq_n_f32(vld1q_f32(x + 4 * i), inverse));
    const int16x8_t a = vcombine_s16(vmovn_s32(v[0]), vmovn_s32(v[1]));
    const int16x8_t b = vcombine_s16(vmovn_s32(v[2]), vmovn_s32(v[3]));
    vst1q_s8(q, vcombine_s8(vmovn_s16(a), vmovn_s16(b)));
    return vaddvq_s16(vaddq_s16(a, b));
}

static void make_q8_32(const float *x, int64_t k, struct act_block_32 *blocks)
{
    if (k % ACT_BLOCK)
        memset(&blocks[k / ACT_BLOCK], 0, sizeof *blocks);
    for (int64_t g = 0; g < k / 32; g++) {
        struct act_block_32 *a = &blocks[g / 8];
        const int64_t b = g % 8;
        const struct group_scale s = group_scale(amax_bits(x + g * 32, 32));
        const int32_t first = quantise_16(x + g * 32, s.inverse, a->q + b * 32);
        const int32_t second = quantise_16(x + g * 32 + 16, s.inverse, a->q + b * 32 + 16),
                      sum = first + second;
        a->d[b] = s.d;
        a->ds[b] = s.d * (float)sum;
        a->neg8[b] = -8 * sum;
        a->neg16[b] = -16 * sum;
        a->neg128[b] = -128 * sum;
        a->neg12[2 * b] = (int16_t)(-12 * first);
        a->neg12[2 * b + 1] = (int16_t)(-12 * second);
    }
}

static void make_q8_256(const float *x, int64_t k, struct act_block_256 *a)
{
    for (int64_t b = 0; b < k / 256; b++, a++, x += 256) {
        const struct group_scale s = group_scale(amax_bits(x, 256));
        int32_t total = 0;
        a->d = s.d;
        for (int64_t j = 0; j < 16; j++) {
            const int32_t sum = quantise_16(x + j * 16, s.inverse, a->q + j * 16);
            a->neg32[j] = -32 * sum;
            a->sum16[j] = (int16_t)sum;
            total += sum;
        }
        for (int64_t j = 0; j < 8; j++) {
            const int32_t sum = a->sum16[2 * j] + a->sum16[2 * j + 1];
            a->sum32[j] = (int16_t)sum;
            a->neg8[j] = -8 * sum;
        }
        a->neg124 = -124 * total;
        act_bound_256(a);
        memset(a->zero, 0, sizeof a->zero);
    }
}

void neon_act_make(enum act_form form, const float *x, int64_t k, void *dst)
{
    if (form == ACT_Q8_32)
        make_q8_32(x, k, dst);
    else if (form == ACT_Q8_256)
        make_q8_256(x, k, dst);
    else
        twin_act_make(form, x, k, dst);
}
