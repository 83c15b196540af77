/* Element-wise kernels and the norm. Twins: ref/twin_ops.c. */
#include "kernels/layout.h"
#include "kernels/sets.h"
#include "kernels/x86/vec_avx512.h"

void avx512_rms_norm(const float *x, const float *w, int64_t n, float eps, float *y)
{
    __m512 acc = _mm512_setzero_ps();
    for (int64_t i = 0; i < n; i += 16) {
        const __m512 v = _mm512_maskz_loadu_ps(v_tail(n - i), x + i);
        acc = _mm512_fmadd_ps(v, v, acc);
    }
    const float scale = 1.0f / sqrtf(v_reduce_add(acc) / (float)n + eps);
    const __m512 r = _mm512_set1_ps(scale);
    for (int64_t i = 0; i < n; i += 16) {
        const __mmask16 m = v_tail(n - i);
        __m512 v = _mm512_mul_ps(_mm512_maskz_loadu_ps(m, x + i), r);
        if (w)
            v = _mm512_mul_ps(v, _mm512_maskz_loadu_ps(m, w + i));
        _mm512_mask_storeu_ps(y + i, m, v);
    }
}

MATH_INLINE void rotate(__m512 *a, __m512 *b, __m512 c, __m512 s)
{
    const __m512 x = _mm512_fmsub_ps(*a, c, _mm512_mul_ps(*b, s));
    *b = _mm512_fmadd_ps(*a, s, _mm512_mul_ps(*b, c));
    *a = x;
}

static void rope_neox(float *x, const float *cosines, const float *sines, int64_t half)
{
    for (int64_t i = 0; i < half; i += 16) {
        const __mmask16 m = v_tail(half - i);
        __m512 a = _mm512_maskz_loadu_ps(m, x + i), b = _mm512_maskz_loadu_ps(m, x + half + i);
        rotate(&a, &b, _mm512_maskz_loadu_ps(m, cosines + i), _mm512_maskz_loadu_ps(m, sines + i));
        _mm512_mask_storeu_ps(x + i, m, a);
        _mm512_mask_storeu_ps(x + half + i, m, b);
    }
}

static void rope_pairs(float *x, const float *cosines, const float *sines, int64_t half)
{
    const __m512i even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
    const __m512i odd = _mm512_add_epi32(even, _mm512_set1_epi32(1));
    const __m512i low = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
    const __m512i high = _mm512_add_epi32(low, _mm512_set1_epi32(8));
    for (int64_t i = 0; i < half; i += 16) {
        const __mmask16 m = v_tail(half - i), m0 = v_tail(2 * (half - i)), m1 = v_tail(2 * (half - i) - 16);
        const __m512 v0 = _mm512_maskz_loadu_ps(m0, x + 2 * i),
                     v1 = _mm512_maskz_loadu_ps(m1, x + 2 * i + 16);
        __m512 a = _mm512_permutex2var_ps(v0, even, v1), b = _mm512_permutex2var_ps(v0, odd, v1);
        rotate(&a, &b, _mm512_maskz_loadu_ps(m, cosines + i), _mm512_maskz_loadu_ps(m, sines + i));
        _mm512_mask_storeu_ps(x + 2 * i, m0, _mm512_permutex2var_ps(a, low, b));
        _mm512_mask_storeu_ps(x + 2 * i + 16, m1, _mm512_permutex2var_ps(a, high, b));
    }
}

void avx512_rope(float *x, const float *cosines, const float *sines, int64_t n_rot, bool neox)
{
    if (neox)
        rope_neox(x, cosines, sines, n_rot / 2);
    else
        rope_pairs(x, cosines, sines, n_rot / 2);
}

MATH_INLINE __m512 v_sigmoid_mul(__m512 x, __m512 minus_u)
{
    return _mm512_div_ps(x, _mm512_add_ps(_mm512_set1_ps(1.0f), v_exp(minus_u)));
}

void avx512_silu_mul(const float *gate, const float *up, int64_t n, float *y)
{
    for (int64_t i = 0; i < n; i += 16) {
        const __mmask16 m = v_tail(n - i);
        const __m512 g = _mm512_maskz_loadu_ps(m, gate + i);
        _mm512_mask_storeu_ps(y + i, m,
                              _mm512_mul_ps(v_sigmoid_mul(g, v_neg(g)), _mm512_maskz_loadu_ps(m, up + i)));
    }
}

void avx512_gelu_mul(const float *gate, const float *up, int64_t n, float *y)
{
    const __m512 one = _mm512_set1_ps(1.0f);
    for (int64_t i = 0; i < n; i += 16) {
        const __mmask16 m = v_tail(n - i);
        const __m512 g = _mm512_maskz_loadu_ps(m, gate + i);
        const __m512 cubic = _mm512_fmadd_ps(_mm512_mul_ps(_mm512_set1_ps(GELU_C), g), g, one);
        const __m512 u = _mm512_mul_ps(_mm512_mul_ps(_mm512_set1_ps(GELU_2S), g), cubic);
        _mm512_mask_storeu_ps(y + i, m,
                              _mm512_mul_ps(v_sigmoid_mul(g, v_neg(u)), _mm512_maskz_loadu_ps(m, up + i)));
    }
}

void avx512_add(const float *x, int64_t n, float *y)
{
    for (int64_t i = 0; i < n; i += 16) {
        const __mmask16 m = v_tail(n - i);
        _mm512_mask_storeu_ps(
            y + i, m, _mm512_add_ps(_mm512_maskz_loadu_ps(m, y + i), _mm512_maskz_loadu_ps(m, x + i)));
    }
}

void avx512_scale(float s, int64_t n, float *y)
{
    const __m512 vs = _mm512_set1_ps(s);
    for (int64_t i = 0; i < n; i += 16) {
        const __mmask16 m = v_tail(n - i);
        _mm512_mask_storeu_ps(y + i, m, _mm512_mul_ps(_mm512_maskz_loadu_ps(m, y + i), vs));
    }
}

void avx512_softcap(float cap, int64_t n, float *y)
{
    const __m512 c = _mm512_set1_ps(cap);
    for (int64_t i = 0; i < n; i += 16) {
        const __mmask16 m = v_tail(n - i);
        const __m512 v = v_tanh(_mm512_div_ps(_mm512_maskz_loadu_ps(m, y + i), c));
        _mm512_mask_storeu_ps(y + i, m, _mm512_mul_ps(c, v));
    }
}
