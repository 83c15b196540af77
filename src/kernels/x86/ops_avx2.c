/* Element-wise kernels, the norm, and the quantisation of activations, for AVX2 with FMA. Twins:
 * ref/twin_ops.c, twin_matmul.c. */
#include "kernels/layout.h"
#include "kernels/sets.h"
#include "kernels/x86/vec_avx2.h"

void avx2_rms_norm(const float *x, const float *w, int64_t n, float eps, float *y)
{
    __m256 a = _mm256_setzero_ps(), b = a;
    for (int64_t i = 0; i < n; i += 16) {
        const __m256 u = v_load(x + i, n - i), v = v_load(x + i + 8, n - i - 8);
        a = _mm256_fmadd_ps(u, u, a);
        b = _mm256_fmadd_ps(v, v, b);
    }
    const float scale = 1.0f / sqrtf(v_reduce_add(a, b) / (float)n + eps);
    const __m256 r = _mm256_set1_ps(scale);
    for (int64_t i = 0; i < n; i += 8) {
        __m256 v = _mm256_mul_ps(v_load(x + i, n - i), r);
        if (w)
            v = _mm256_mul_ps(v, v_load(w + i, n - i));
        v_store(y + i, n - i, v);
    }
}

MATH_INLINE void rotate(__m256 *a, __m256 *b, __m256 c, __m256 s)
{
    const __m256 x = _mm256_fmsub_ps(*a, c, _mm256_mul_ps(*b, s));
    *b = _mm256_fmadd_ps(*a, s, _mm256_mul_ps(*b, c));
    *a = x;
}

static void rope_neox(float *x, const float *cosines, const float *sines, int64_t half)
{
    for (int64_t i = 0; i < half; i += 8) {
        const int64_t n = half - i;
        __m256 a = v_load(x + i, n), b = v_load(x + half + i, n);
        rotate(&a, &b, v_load(cosines + i, n), v_load(sines + i, n));
        v_store(x + i, n, a);
        v_store(x + half + i, n, b);
    }
}

/* Pairs lie side by side: within each half of a vector, shuffles separate and interleave them; the angles are
 * brought into the same order. */
static void rope_pairs(float *x, const float *cosines, const float *sines, int64_t half)
{
    for (int64_t i = 0; i < half; i += 8) {
        const int64_t n = half - i;
        const __m256i order = _mm256_setr_epi32(0, 1, 4, 5, 2, 3, 6, 7);
        const __m256 u = v_load(x + 2 * i, 2 * n), v = v_load(x + 2 * i + 8, 2 * n - 8);
        __m256 a = _mm256_shuffle_ps(u, v, 0x88), b = _mm256_shuffle_ps(u, v, 0xdd);
        rotate(&a, &b, _mm256_permutevar8x32_ps(v_load(cosines + i, n), order),
               _mm256_permutevar8x32_ps(v_load(sines + i, n), order));
        v_store(x + 2 * i, 2 * n, _mm256_unpacklo_ps(a, b));
        v_store(x + 2 * i + 8, 2 * n - 8, _mm256_unpackhi_ps(a, b));
    }
}

void avx2_rope(float *x, const float *cosines, const float *sines, int64_t n_rot, bool neox)
{
    if (neox)
        rope_neox(x, cosines, sines, n_rot / 2);
    else
        rope_pairs(x, cosines, sines, n_rot / 2);
}

MATH_INLINE __m256 v_sigmoid_mul(__m256 x, __m256 minus_u)
{
    return _mm256_div_ps(x, _mm256_add_ps(_mm256_set1_ps(1.0f), v_exp(minus_u)));
}

void avx2_silu_mul(const float *gate, const float *up, int64_t n, float *y)
{
    for (int64_t i = 0; i < n; i += 8) {
        const __m256 g = v_load(gate + i, n - i);
        v_store(y + i, n - i, _mm256_mul_ps(v_sigmoid_mul(g, v_neg(g)), v_load(up + i, n - i)));
    }
}

void avx2_gelu_mul(const float *gate, const float *up, int64_t n, float *y)
{
    const __m256 one = _mm256_set1_ps(1.0f);
    for (int64_t i = 0; i < n; i += 8) {
        const __m256 g = v_load(gate + i, n - i);
        const __m256 cubic = _mm256_fmadd_ps(_mm256_mul_ps(_mm256_set1_ps(GELU_C), g), g, one);
        const __m256 u = _mm256_mul_ps(_mm256_mul_ps(_mm256_set1_ps(GELU_2S), g), cubic);
        v_store(y + i, n - i, _mm256_mul_ps(v_sigmoid_mul(g, v_neg(u)), v_load(up + i, n - i)));
    }
}

void avx2_add(const float *x, int64_t n, float *y)
{
    for (int64_t i = 0; i < n; i += 8)
        v_store(y + i, n - i, _mm256_add_ps(v_load(y + i, n - i), v_load(x + i, n - i)));
}

void avx2_scale(float s, int64_t n, float *y)
{
    const __m256 vs = _mm256_set1_ps(s);
    for (int64_t i = 0; i < n; i += 8)
        v_store(y + i, n - i, _mm256_mul_ps(v_load(y + i, n - i), vs));
}

void avx2_softcap(float cap, int64_t n, float *y)
{
    const __m256 c = _mm256_set1_ps(cap);
    for (int64_t i = 0; i < n; i += 8)
        v_store(y + i, n - i, _mm256_mul_ps(c, v_tanh(_mm256_div_ps(v_load(y + i, n - i), c))));
}

/* ---- activations ------------------------------------------------------------------------------- */

/* Bits of the largest magnitude among n values (a multiple of 32). */
MATH_INLINE uint32_t amax_bits(const float *x, int64_t n)
{
    const __m256i magnitude = _mm256_set1_epi32(0x7fffffff);
    __m256i max[4] = {_mm256_setzero_si256(), _mm256_setzero_si256(), _mm256_setzero_si256(),
                      _mm256_setzero_si256()};
    for (int64_t i = 0; i < n; i += 32)
        for (int j = 0; j < 4; j++)
            max[j] = _mm256_max_epu32(
                max[j], _mm256_and_si256(_mm256_castps_si256(_mm256_loadu_ps(x + i + 8 * j)), magnitude));
    const __m256i m = _mm256_max_epu32(_mm256_max_epu32(max[0], max[1]), _mm256_max_epu32(max[2], max[3]));
    __m128i s = _mm_max_epu32(_mm256_castsi256_si128(m), _mm256_extracti128_si256(m, 1));
    s = _mm_max_epu32(s, _mm_shuffle_epi32(s, 0x4e));
    return (uint32_t)_mm_cvtsi128_si32(_mm_max_epu32(s, _mm_shuffle_epi32(s, 0xb1)));
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

MATH_INLINE __m256i quantise_8(const float *x, __m256 inverse)
{
    return _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_loadu_ps(x), inverse));
}

/* Quantises 32 values; sum[0], sum[1]: the sums of the first and of the last 16. */
MATH_INLINE void quantise_32(const float *x, float inverse, int8_t *q, int32_t sum[2])
{
    if (!(inverse > 0.0f)) {
        memset(q, 0, 32);
        sum[0] = sum[1] = 0;
        return;
    }
    const __m256 by = _mm256_set1_ps(inverse);
    const __m256i a = quantise_8(x, by), b = quantise_8(x + 8, by);
    const __m256i c = quantise_8(x + 16, by), d = quantise_8(x + 24, by);
    sum[0] = v_reduce_add_i32(_mm256_add_epi32(a, b));
    sum[1] = v_reduce_add_i32(_mm256_add_epi32(c, d));
    const __m256i bytes = _mm256_packs_epi16(_mm256_packs_epi32(a, b), _mm256_packs_epi32(c, d));
    const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    _mm256_storeu_si256((__m256i *)(void *)q, _mm256_permutevar8x32_epi32(bytes, order));
}

static void make_q8_32(const float *x, int64_t k, struct act_block_32 *blocks)
{
    if (k % ACT_BLOCK)
        memset(&blocks[k / ACT_BLOCK], 0, sizeof *blocks);
    for (int64_t i = 0; i < k / 32; i++) {
        struct act_block_32 *a = &blocks[i / 8];
        const int64_t b = i % 8;
        const struct group_scale s = group_scale(amax_bits(x + i * 32, 32));
        int32_t halves[2];
        quantise_32(x + i * 32, s.inverse, a->q + b * 32, halves);
        const int32_t sum = halves[0] + halves[1];
        a->d[b] = s.d;
        a->ds[b] = s.d * (float)sum;
        a->neg8[b] = -8 * sum;
        a->neg16[b] = -16 * sum;
        a->neg128[b] = -128 * sum;
        for (int64_t h = 0; h < 2; h++)
            a->neg12[2 * b + h] = (int16_t)(-12 * halves[h]);
    }
}

static void make_q8_256(const float *x, int64_t k, struct act_block_256 *a)
{
    for (int64_t b = 0; b < k / 256; b++, a++, x += 256) {
        const struct group_scale s = group_scale(amax_bits(x, 256));
        int32_t total = 0;
        a->d = s.d;
        for (int64_t j = 0; j < 8; j++) {
            int32_t halves[2];
            quantise_32(x + j * 32, s.inverse, a->q + j * 32, halves);
            const int32_t sum = halves[0] + halves[1];
            for (int64_t h = 0; h < 2; h++) {
                a->neg32[2 * j + h] = -32 * halves[h];
                a->sum16[2 * j + h] = (int16_t)halves[h];
            }
            a->sum32[j] = (int16_t)sum;
            a->neg8[j] = -8 * sum;
            total += sum;
        }
        a->neg124 = -124 * total;
        act_bound_256(a);
        memset(a->zero, 0, sizeof a->zero);
    }
}

void avx2_act_make(enum act_form form, const float *x, int64_t k, void *dst)
{
    if (form == ACT_Q8_32)
        make_q8_32(x, k, dst);
    else if (form == ACT_Q8_256)
        make_q8_256(x, k, dst);
    else
        twin_act_make(form, x, k, dst);
}
