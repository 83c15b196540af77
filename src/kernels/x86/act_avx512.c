/* Quantisation of activations. Twin: ref/twin_matmul.c. A block of 256 values at a time, so that scales and sums
 * of its groups are made in vectors: groups of 32 stand in lanes 0 to 7, groups of 16 in lanes 0 to 15. */
#include "kernels/layout.h"
#include "kernels/sets.h"
#include "kernels/x86/vec_avx512.h"

#define VECTORS (ACT_BLOCK / 16)

/* Scales of 16 groups from the bits of their largest magnitudes. */
struct group_scales {
    __m512 d, inverse;
    __mmask16 live; /* groups whose q is not simply 0 */
};

MATH_INLINE struct group_scales scales_of(__m512i amax)
{
    const __m512 f = _mm512_castsi512_ps(amax), limit = _mm512_set1_ps(127.0f);
    const __mmask16 finite = _mm512_cmplt_epu32_mask(amax, _mm512_set1_epi32(0x7f800000));
    struct group_scales s;
    s.live = _mm512_mask_cmp_ps_mask(finite, f, _mm512_set1_ps(ACT_AMAX_MIN), _CMP_GE_OQ);
    s.d =
        _mm512_mask_blend_ps(finite, _mm512_set1_ps(canonical_nan()), _mm512_maskz_div_ps(s.live, f, limit));
    s.inverse = _mm512_maskz_div_ps(s.live, limit, f);
    return s;
}

/* n values, zeros behind them. */
MATH_INLINE void load_block(const float *x, int64_t n, __m512 v[VECTORS])
{
    for (int i = 0; i < VECTORS; i++)
        v[i] = _mm512_maskz_loadu_ps(v_tail(n - i * 16), x + (n > i * 16 ? i * 16 : 0));
}

MATH_INLINE __m512i magnitude_bits(__m512 x)
{
    return _mm512_and_epi32(_mm512_castps_si512(x), _mm512_set1_epi32(0x7fffffff));
}

/* 64 numbers of four vectors as bytes, in order. */
MATH_INLINE __m512i narrow(const __m512i v[4])
{
    const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    const __m512i words = _mm512_packs_epi16(_mm512_packs_epi32(v[0], v[1]), _mm512_packs_epi32(v[2], v[3]));
    return _mm512_permutexvar_epi32(order, words);
}

/* s[b] holds sums of 4 values each; lane i of the result is the sum of values 16 i to 16 i + 15. */
MATH_INLINE __m512i add_fours(const __m512i s[4])
{
    const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    const __m512i a = _mm512_add_epi32(_mm512_unpacklo_epi32(s[0], s[1]), _mm512_unpackhi_epi32(s[0], s[1]));
    const __m512i b = _mm512_add_epi32(_mm512_unpacklo_epi32(s[2], s[3]), _mm512_unpackhi_epi32(s[2], s[3]));
    const __m512i c = _mm512_add_epi32(_mm512_unpacklo_epi64(a, b), _mm512_unpackhi_epi64(a, b));
    return _mm512_permutexvar_epi32(order, c);
}

/* q[b] holds 64 values; lane i of the result is the sum of values 16 i to 16 i + 15. */
MATH_INLINE __m512i sums_of_16(const __m512i q[4])
{
    const __m512i ones = _mm512_set1_epi8(1), zero = _mm512_setzero_si512();
    __m512i s[4];
    for (int i = 0; i < 4; i++)
        s[i] = _mm512_dpbusd_epi32(zero, ones, q[i]);
    return add_fours(s);
}

/* The same of magnitudes. */
MATH_INLINE __m512i magnitudes_of_16(const __m512i q[4])
{
    const __m512i ones = _mm512_set1_epi8(1), zero = _mm512_setzero_si512();
    __m512i s[4];
    for (int i = 0; i < 4; i++)
        s[i] = _mm512_dpbusd_epi32(zero, _mm512_abs_epi8(q[i]), ones);
    return add_fours(s);
}

/* Lane i: the sum of lanes 2 i and 2 i + 1, i < 8. */
MATH_INLINE __m256i sums_of_32(__m512i sums16)
{
    return _mm512_cvtepi64_epi32(_mm512_add_epi32(sums16, _mm512_srli_epi64(sums16, 32)));
}

MATH_INLINE __m256i times(__m256i v, int by)
{
    return _mm256_mullo_epi32(v, _mm256_set1_epi32(by));
}

/* Largest magnitude of each of the 8 groups of 32, as bits in lanes 0 to 7. */
MATH_INLINE __m512i amax_of_32(const __m512 v[VECTORS])
{
    const __m512i order = _mm512_setr_epi32(0, 1, 2, 3, 8, 9, 10, 11, 0, 0, 0, 0, 0, 0, 0, 0);
    __m512i m[8], two[4], four[2];
    for (int g = 0; g < 8; g++)
        m[g] = _mm512_max_epu32(magnitude_bits(v[2 * g]), magnitude_bits(v[2 * g + 1]));
    for (int g = 0; g < 4; g++)
        two[g] = _mm512_max_epu32(_mm512_unpacklo_epi32(m[2 * g], m[2 * g + 1]),
                                  _mm512_unpackhi_epi32(m[2 * g], m[2 * g + 1]));
    for (int g = 0; g < 2; g++) /* each 128-bit lane: groups 4 g to 4 g + 3 */
        four[g] = _mm512_max_epu32(_mm512_unpacklo_epi64(two[2 * g], two[2 * g + 1]),
                                   _mm512_unpackhi_epi64(two[2 * g], two[2 * g + 1]));
    const __m512i half = _mm512_max_epu32(_mm512_shuffle_i64x2(four[0], four[1], 0x44),
                                          _mm512_shuffle_i64x2(four[0], four[1], 0xee));
    /* 128-bit lanes: 0 and 1 hold groups 0 to 3, 2 and 3 hold groups 4 to 7 */
    return _mm512_permutexvar_epi32(order, _mm512_max_epu32(half, _mm512_shuffle_i64x2(half, half, 0xb1)));
}

static void make_q8_32(const float *x, int64_t k, struct act_block_32 *a)
{
    for (; k > 0; k -= ACT_BLOCK, x += ACT_BLOCK, a++) {
        __m512 v[VECTORS];
        __m512i q[4];
        load_block(x, k, v);
        const struct group_scales s = scales_of(amax_of_32(v));
        for (int b = 0; b < 4; b++) {
            __m512i n[4];
            for (int i = 0; i < 4; i++) {
                const int group = 2 * b + i / 2;
                const __m512 by = _mm512_permutexvar_ps(_mm512_set1_epi32(group), s.inverse);
                const __mmask16 live = (__mmask16)(s.live >> group & 1 ? 0xffff : 0);
                n[i] = _mm512_maskz_cvtps_epi32(live, _mm512_mul_ps(v[4 * b + i], by));
            }
            q[b] = narrow(n);
            _mm512_store_si512(a->q + 64 * b, q[b]);
        }
        const __m512i sum16 = sums_of_16(q);
        const __m256i sum = sums_of_32(sum16);
        const __m256 d = _mm512_castps512_ps256(s.d);
        _mm256_store_ps(a->d, d);
        _mm256_store_ps(a->ds, _mm256_mul_ps(d, _mm256_cvtepi32_ps(sum)));
        _mm256_store_si256((__m256i *)(void *)a->neg8, times(sum, -8));
        _mm256_store_si256((__m256i *)(void *)a->neg16, times(sum, -16));
        _mm256_store_si256((__m256i *)(void *)a->neg128, times(sum, -128));
        _mm256_store_si256((__m256i *)(void *)a->neg12,
                           _mm512_cvtepi32_epi16(_mm512_mullo_epi32(sum16, _mm512_set1_epi32(-12))));
    }
}

static void make_q8_256(const float *x, int64_t k, struct act_block_256 *a)
{
    for (; k > 0; k -= ACT_BLOCK, x += ACT_BLOCK, a++) {
        __m512 v[VECTORS];
        __m512i q[4], m[4];
        load_block(x, ACT_BLOCK, v);
        for (int i = 0; i < 4; i++)
            m[i] = magnitude_bits(v[i]);
        for (int i = 4; i < VECTORS; i++)
            m[i % 4] = _mm512_max_epu32(m[i % 4], magnitude_bits(v[i]));
        const uint32_t amax = _mm512_reduce_max_epu32(
            _mm512_max_epu32(_mm512_max_epu32(m[0], m[1]), _mm512_max_epu32(m[2], m[3])));
        const struct group_scales s = scales_of(_mm512_set1_epi32((int32_t)amax));
        for (int b = 0; b < 4; b++) {
            __m512i n[4];
            for (int i = 0; i < 4; i++)
                n[i] = _mm512_maskz_cvtps_epi32(s.live, _mm512_mul_ps(v[4 * b + i], s.inverse));
            q[b] = narrow(n);
            _mm512_store_si512(a->q + 64 * b, q[b]);
        }
        const __m512i sum16 = sums_of_16(q);
        const __m256i sum32 = sums_of_32(sum16);
        const __m512i all16 = magnitudes_of_16(q);
        const __m256i side = _mm256_add_epi32(sums_of_32(all16), _mm256_abs_epi32(sum32)); /* doubled */
        _mm512_store_si512(a->neg32, _mm512_slli_epi32(_mm512_sub_epi32(_mm512_setzero_si512(), sum16), 5));
        _mm256_store_si256((__m256i *)(void *)a->neg8, times(sum32, -8));
        _mm256_store_si256((__m256i *)(void *)a->sum16, _mm512_cvtepi32_epi16(sum16));
        _mm_store_si128((__m128i *)(void *)a->sum32, _mm256_cvtepi32_epi16(sum32));
        a->d = _mm512_cvtss_f32(s.d);
        a->neg124 = -124 * _mm512_reduce_add_epi32(sum16);
        a->most16 = _mm512_reduce_max_epi32(all16);
        a->most32 = _mm512_reduce_max_epi32(_mm512_zextsi256_si512(side)) / 2;
        memset(a->zero, 0, sizeof a->zero);
    }
}

void avx512_act_make(enum act_form form, const float *x, int64_t k, void *dst)
{
    if (form == ACT_Q8_32)
        make_q8_32(x, k, dst);
    else if (form == ACT_Q8_256)
        make_q8_256(x, k, dst);
    else
        twin_act_make(form, x, k, dst);
}
