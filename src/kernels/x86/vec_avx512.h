/* 16-lane forms of math.h and of the fixed reduction: the same operations, so the same bits, as the twins. */
#ifndef HASTEN_KERNELS_X86_VEC_AVX512_H
#define HASTEN_KERNELS_X86_VEC_AVX512_H
#include "kernels/math.h"
#include <immintrin.h>
#include <stdbool.h>

/* Mask of the lanes that exist when n values are left. */
MATH_INLINE __mmask16 v_tail(int64_t n)
{
    return (__mmask16)(n >= 16 ? 0xffffu : n <= 0 ? 0u : (1u << n) - 1u);
}

/* exp(x) = result * 2^n for x in the range of exp_f32_in_range. */
MATH_INLINE __m512 v_exp_mantissa(__m512 x, __m512 *n)
{
    const __m512 magic = _mm512_set1_ps(ROUND_MAGIC);
    *n = _mm512_sub_ps(_mm512_fmadd_ps(x, _mm512_set1_ps(EXP_LOG2E), magic), magic);
    __m512 r = _mm512_fmadd_ps(*n, _mm512_set1_ps(-EXP_LN2_HI), x);
    r = _mm512_fmadd_ps(*n, _mm512_set1_ps(-EXP_LN2_LO), r);
    __m512 q = _mm512_fmadd_ps(_mm512_set1_ps(EXP_C6), r, _mm512_set1_ps(EXP_C5));
    q = _mm512_fmadd_ps(q, r, _mm512_set1_ps(EXP_C4));
    q = _mm512_fmadd_ps(q, r, _mm512_set1_ps(EXP_C3));
    q = _mm512_fmadd_ps(q, r, _mm512_set1_ps(EXP_C2));
    return _mm512_add_ps(_mm512_set1_ps(1.0f), _mm512_fmadd_ps(q, _mm512_mul_ps(r, r), r));
}

/* Lanes whose result is 0, inf or NaN are computed as exp(0) and replaced: far out of range, scalef would
 * take a slow path of the hardware. */
MATH_INLINE __m512 v_exp(__m512 in)
{
    const __mmask16 high = _mm512_cmp_ps_mask(in, _mm512_set1_ps(EXP_MAX), _CMP_NLT_UQ);
    const __mmask16 low = _mm512_cmp_ps_mask(in, _mm512_set1_ps(EXP_MIN), _CMP_LT_OQ);
    const __m512 x = _mm512_maskz_mov_ps((__mmask16) ~(unsigned)(high | low), in);
    __m512 n;
    const __m512 p = v_exp_mantissa(x, &n);
    __m512 e = _mm512_scalef_ps(p, n); /* one rounding, as the twin's two multiplications */
    e = _mm512_mask_mov_ps(e, low, _mm512_setzero_ps());
    return _mm512_mask_add_ps(e, high, in, _mm512_set1_ps(INFINITY)); /* inf, or the NaN */
}

/* v_exp for arguments that are at most 0 or NaN, in the lanes of keep; 0 in the others. The same bits. */
MATH_INLINE __m512 v_exp_negative(__mmask16 keep, __m512 x)
{
    const __mmask16 live = _mm512_mask_cmp_ps_mask(keep, x, _mm512_set1_ps(EXP_MIN), _CMP_NLT_UQ);
    __m512 n;
    const __m512 p = v_exp_mantissa(x, &n);
    return _mm512_maskz_scalef_ps(live, p, n);
}

MATH_INLINE __m512 v_abs(__m512 x)
{
    return _mm512_castsi512_ps(_mm512_and_epi32(_mm512_castps_si512(x), _mm512_set1_epi32(0x7fffffff)));
}

MATH_INLINE __m512 v_neg(__m512 x)
{
    return _mm512_castsi512_ps(_mm512_xor_epi32(_mm512_castps_si512(x), _mm512_set1_epi32(INT32_MIN)));
}

MATH_INLINE __m512 v_tanh(__m512 x)
{
    const __m512 one = _mm512_set1_ps(1.0f), ax = v_abs(x);
    const __m512 z = _mm512_mul_ps(x, x);
    __m512 p = _mm512_fmadd_ps(_mm512_set1_ps(TANH_C4), z, _mm512_set1_ps(TANH_C3));
    p = _mm512_fmadd_ps(p, z, _mm512_set1_ps(TANH_C2));
    p = _mm512_fmadd_ps(p, z, _mm512_set1_ps(TANH_C1));
    p = _mm512_fmadd_ps(p, z, _mm512_set1_ps(TANH_C0));
    const __m512 small = _mm512_fmadd_ps(_mm512_mul_ps(p, z), x, x);
    const __m512 e = v_exp(_mm512_add_ps(ax, ax));
    const __m512 t = _mm512_sub_ps(one, _mm512_div_ps(_mm512_set1_ps(2.0f), _mm512_add_ps(e, one)));
    const __m512i sign = _mm512_and_epi32(_mm512_castps_si512(x), _mm512_set1_epi32(INT32_MIN));
    const __m512 large = _mm512_castsi512_ps(_mm512_or_epi32(_mm512_castps_si512(t), sign));
    return _mm512_mask_mov_ps(large, _mm512_cmp_ps_mask(ax, _mm512_set1_ps(TANH_SMALL), _CMP_LT_OQ), small);
}

/* The tree of the fixed reduction: lanes l and l + 8, then 4, 2, 1. */
MATH_INLINE float v_reduce_add(__m512 x)
{
    const __m256 a = _mm256_add_ps(_mm512_castps512_ps256(x), _mm512_extractf32x8_ps(x, 1));
    const __m128 b = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    const __m128 c = _mm_add_ps(b, _mm_movehl_ps(b, b));
    return _mm_cvtss_f32(_mm_add_ss(c, _mm_movehdup_ps(c)));
}

/* max(a, b) takes b where either is NaN: the upper lane wins only if it is greater, as in the twin. */
MATH_INLINE float v_reduce_max(__m512 x)
{
    const __m256 a = _mm256_max_ps(_mm512_extractf32x8_ps(x, 1), _mm512_castps512_ps256(x));
    const __m128 b = _mm_max_ps(_mm256_extractf128_ps(a, 1), _mm256_castps256_ps128(a));
    const __m128 c = _mm_max_ps(_mm_movehl_ps(b, b), b);
    return _mm_cvtss_f32(_mm_max_ss(_mm_movehdup_ps(c), c));
}

#endif
