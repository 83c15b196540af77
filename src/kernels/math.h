/* exp, tanh and sigmoid in f32, as always-inlined scalar forms. The vector forms in x86/ perform the same
 * operations lane by lane, so that every set gives the same bits; change both or neither.
 *
 * exp: Cody-Waite reduction x = n ln2 + r with ln2 in two parts, then 1 + r + r^2 q(r), q of degree 4 by
 * weighted least squares at Chebyshev nodes (relative error 3.1e-9 before rounding). Measured over every
 * third float whose result is normal: at most 1.009 ulp. tests/checkasm holds it to 1.02 ulp on a sample. */
#ifndef HASTEN_KERNELS_MATH_H
#define HASTEN_KERNELS_MATH_H
#include <math.h>
#include <stdint.h>
#include <string.h>

#define MATH_INLINE static inline __attribute__((always_inline, unused))

#define EXP_LOG2E 0x1.715476p+0f
#define EXP_LN2_HI 0x1.63p-1f
#define EXP_LN2_LO -0x1.bd0106p-13f
#define EXP_C2 0x1.fffffcp-2f
#define EXP_C3 0x1.555492p-3f
#define EXP_C4 0x1.5558f2p-5f
#define EXP_C5 0x1.1239e4p-7f
#define EXP_C6 0x1.6a243p-10f
#define EXP_MAX 0x1.62e43p+6f  /* first float above ln FLT_MAX: +inf from here */
#define EXP_MIN -104.0f        /* below ln of half the least denormal: 0 from here down */
#define ROUND_MAGIC 0x1.8p+23f /* adding it rounds |x| < 2^22 to an integer, to nearest even */

/* tanh(x) = x + x z P(z), z = x^2, for |x| < 0.625 (relative error of P's fit 4.2e-9); else by exp. */
#define TANH_SMALL 0.625f
#define TANH_C0 -0x1.555534p-2f
#define TANH_C1 0x1.110768p-3f
#define TANH_C2 -0x1.b84448p-5f
#define TANH_C3 0x1.5256cep-6f
#define TANH_C4 -0x1.76abf6p-8f

/* gelu (tanh form; Hendrycks and Gimpel 2016): x sigmoid(2u), u = sqrt(2/pi) (x + 0.044715 x^3). */
#define GELU_C 0.044715f
#define GELU_2S 1.5957691216f /* 2 sqrt(2/pi) */

MATH_INLINE float bits_f32(uint32_t u)
{
    float f;
    memcpy(&f, &u, 4);
    return f;
}

MATH_INLINE uint32_t f32_bits(float f)
{
    uint32_t u;
    memcpy(&u, &f, 4);
    return u;
}

/* exp for EXP_MIN <= x < EXP_MAX, without a branch. */
MATH_INLINE float exp_f32_in_range(float x)
{
    const float z = fmaf(x, EXP_LOG2E, ROUND_MAGIC);
    const float n = z - ROUND_MAGIC;
    float r = fmaf(n, -EXP_LN2_HI, x);
    r = fmaf(n, -EXP_LN2_LO, r);
    float q = fmaf(EXP_C6, r, EXP_C5);
    q = fmaf(q, r, EXP_C4);
    q = fmaf(q, r, EXP_C3);
    q = fmaf(q, r, EXP_C2);
    const float p = 1.0f + fmaf(q, r * r, r);
    /* p 2^n in two exact-then-rounded steps: -150 <= n <= 128, so each half is a normal power of two. */
    const int32_t i = (int32_t)n;
    const int32_t half = i >> 1;
    const float s1 = bits_f32((uint32_t)(half + 127) << 23);
    const float s2 = bits_f32((uint32_t)(i - half + 127) << 23);
    return p * s1 * s2;
}

MATH_INLINE float exp_f32_inline(float x)
{
    if (!(x < EXP_MAX))
        return x != x ? x : INFINITY;
    return x < EXP_MIN ? 0.0f : exp_f32_in_range(x);
}

MATH_INLINE float tanh_f32_inline(float x)
{
    const float ax = bits_f32(f32_bits(x) & 0x7fffffffu);
    if (ax < TANH_SMALL) {
        const float z = x * x;
        float p = fmaf(TANH_C4, z, TANH_C3);
        p = fmaf(p, z, TANH_C2);
        p = fmaf(p, z, TANH_C1);
        p = fmaf(p, z, TANH_C0);
        return fmaf(p * z, x, x);
    }
    const float t = 1.0f - 2.0f / (exp_f32_inline(ax + ax) + 1.0f);
    return bits_f32(f32_bits(t) | (f32_bits(x) & 0x80000000u));
}

MATH_INLINE float silu_f32_inline(float x)
{
    return x / (1.0f + exp_f32_inline(-x));
}

MATH_INLINE float gelu_f32_inline(float x)
{
    const float u = (GELU_2S * x) * fmaf(GELU_C * x, x, 1.0f);
    return x / (1.0f + exp_f32_inline(-u));
}

#endif
