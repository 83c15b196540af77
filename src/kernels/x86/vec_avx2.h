/* 8-lane forms of math.h, and the fixed reduction of 16 lanes as two vectors: the same operations, so the same
 * bits, as the twins. */
#ifndef HASTEN_KERNELS_X86_VEC_AVX2_H
#define HASTEN_KERNELS_X86_VEC_AVX2_H
#include "kernels/math.h"
#include <immintrin.h>
#include <stdbool.h>

/* Before loops over registers: they must vanish early, or GCC keeps the registers in memory too. Not under
 * sanitizers, which would instrument every copy for minutes. */
#if defined(HASTEN_SANITIZED)
#define UNROLL
#else
#define UNROLL _Pragma("GCC unroll 16")
#endif

/* Mask of the lanes that exist when n values are left. */
MATH_INLINE __m256i v_tail(int64_t n)
{
    const int32_t left = n >= 8 ? 8 : n <= 0 ? 0 : (int32_t)n;
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(left), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

/* Mask of the lanes whose bit is set. */
MATH_INLINE __m256 v_bits(uint32_t bits)
{
    const __m256i lane = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
    const __m256i set = _mm256_and_si256(_mm256_set1_epi32((int32_t)bits), lane);
    return _mm256_castsi256_ps(_mm256_cmpeq_epi32(set, lane));
}

/* The first n values at p (at most 8), zeros behind them; nothing behind them is read or written. */
MATH_INLINE __m256 v_load(const float *p, int64_t n)
{
    return n >= 8 ? _mm256_loadu_ps(p) : _mm256_maskload_ps(p, v_tail(n));
}

MATH_INLINE void v_store(float *p, int64_t n, __m256 v)
{
    if (n >= 8)
        _mm256_storeu_ps(p, v);
    else
        _mm256_maskstore_ps(p, v_tail(n), v);
}

MATH_INLINE __m256 v_abs(__m256 x)
{
    return _mm256_and_ps(x, _mm256_castsi256_ps(_mm256_set1_epi32(0x7fffffff)));
}

MATH_INLINE __m256 v_neg(__m256 x)
{
    return _mm256_xor_ps(x, _mm256_set1_ps(-0.0f));
}

/* exp(x) = result * 2^n for x in the range of exp_f32_in_range. */
MATH_INLINE __m256 v_exp_mantissa(__m256 x, __m256 *n)
{
    const __m256 magic = _mm256_set1_ps(ROUND_MAGIC);
    *n = _mm256_sub_ps(_mm256_fmadd_ps(x, _mm256_set1_ps(EXP_LOG2E), magic), magic);
    __m256 r = _mm256_fmadd_ps(*n, _mm256_set1_ps(-EXP_LN2_HI), x);
    r = _mm256_fmadd_ps(*n, _mm256_set1_ps(-EXP_LN2_LO), r);
    __m256 q = _mm256_fmadd_ps(_mm256_set1_ps(EXP_C6), r, _mm256_set1_ps(EXP_C5));
    q = _mm256_fmadd_ps(q, r, _mm256_set1_ps(EXP_C4));
    q = _mm256_fmadd_ps(q, r, _mm256_set1_ps(EXP_C3));
    q = _mm256_fmadd_ps(q, r, _mm256_set1_ps(EXP_C2));
    return _mm256_add_ps(_mm256_set1_ps(1.0f), _mm256_fmadd_ps(q, _mm256_mul_ps(r, r), r));
}

/* p * 2^n in two steps, as exp_f32_in_range. */
MATH_INLINE __m256 v_scale(__m256 p, __m256 n)
{
    const __m256i i = _mm256_cvttps_epi32(n), half = _mm256_srai_epi32(i, 1), bias = _mm256_set1_epi32(127);
    const __m256i s1 = _mm256_slli_epi32(_mm256_add_epi32(half, bias), 23);
    const __m256i s2 = _mm256_slli_epi32(_mm256_add_epi32(_mm256_sub_epi32(i, half), bias), 23);
    return _mm256_mul_ps(_mm256_mul_ps(p, _mm256_castsi256_ps(s1)), _mm256_castsi256_ps(s2));
}

/* Lanes whose result is 0, inf or NaN are computed as exp(0) and replaced. */
MATH_INLINE __m256 v_exp(__m256 in)
{
    const __m256 high = _mm256_cmp_ps(in, _mm256_set1_ps(EXP_MAX), _CMP_NLT_UQ);
    const __m256 low = _mm256_cmp_ps(in, _mm256_set1_ps(EXP_MIN), _CMP_LT_OQ);
    const __m256 x = _mm256_andnot_ps(_mm256_or_ps(high, low), in);
    __m256 n;
    const __m256 p = v_exp_mantissa(x, &n);
    __m256 e = v_scale(p, n);
    e = _mm256_andnot_ps(low, e);
    return _mm256_blendv_ps(e, _mm256_add_ps(in, _mm256_set1_ps(INFINITY)), high); /* inf, or the NaN */
}

MATH_INLINE __m256 v_tanh(__m256 x)
{
    const __m256 one = _mm256_set1_ps(1.0f), ax = v_abs(x), z = _mm256_mul_ps(x, x);
    __m256 p = _mm256_fmadd_ps(_mm256_set1_ps(TANH_C4), z, _mm256_set1_ps(TANH_C3));
    p = _mm256_fmadd_ps(p, z, _mm256_set1_ps(TANH_C2));
    p = _mm256_fmadd_ps(p, z, _mm256_set1_ps(TANH_C1));
    p = _mm256_fmadd_ps(p, z, _mm256_set1_ps(TANH_C0));
    const __m256 small = _mm256_fmadd_ps(_mm256_mul_ps(p, z), x, x);
    const __m256 e = v_exp(_mm256_add_ps(ax, ax));
    const __m256 t = _mm256_sub_ps(one, _mm256_div_ps(_mm256_set1_ps(2.0f), _mm256_add_ps(e, one)));
    const __m256 large = _mm256_or_ps(t, _mm256_and_ps(x, _mm256_set1_ps(-0.0f)));
    return _mm256_blendv_ps(large, small, _mm256_cmp_ps(ax, _mm256_set1_ps(TANH_SMALL), _CMP_LT_OQ));
}

/* The tree of the fixed reduction: lanes l (in a) and l + 8 (in b), then 4, 2, 1. */
MATH_INLINE float v_reduce_add(__m256 a, __m256 b)
{
    const __m256 s = _mm256_add_ps(a, b);
    const __m128 t = _mm_add_ps(_mm256_castps256_ps128(s), _mm256_extractf128_ps(s, 1));
    const __m128 u = _mm_add_ps(t, _mm_movehl_ps(t, t));
    return _mm_cvtss_f32(_mm_add_ss(u, _mm_movehdup_ps(u)));
}

/* max(a, b) takes b where either is NaN: the upper lane wins only if it is greater, as in the twin. */
MATH_INLINE float v_reduce_max(__m256 a, __m256 b)
{
    const __m256 s = _mm256_max_ps(b, a);
    const __m128 t = _mm_max_ps(_mm256_extractf128_ps(s, 1), _mm256_castps256_ps128(s));
    const __m128 u = _mm_max_ps(_mm_movehl_ps(t, t), t);
    return _mm_cvtss_f32(_mm_max_ss(_mm_movehdup_ps(u), u));
}

MATH_INLINE int32_t v_reduce_add_i32(__m256i v)
{
    __m128i s = _mm_add_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
    s = _mm_add_epi32(s, _mm_shuffle_epi32(s, 0x4e));
    return _mm_cvtsi128_si32(_mm_add_epi32(s, _mm_shuffle_epi32(s, 0xb1)));
}

#endif
