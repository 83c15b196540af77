/* The passes of row.h for AVX-512: the simple ones by the compiler, the sums and the noise by hand. */
#include "kernels/row_body.h"
#include "kernels/x86/vec_avx512.h"

/* exp(x - max) where floor <= x <= max, else 0. */
static inline __m512 exp_from(__m512 x, __m512 floor, __m512 max)
{
    const __m512 gap = _mm512_sub_ps(x, max);
    __mmask16 in = _mm512_cmp_ps_mask(x, floor, _CMP_GE_OQ);
    in = _mm512_mask_cmp_ps_mask(in, gap, _mm512_set1_ps(EXP_MIN), _CMP_GE_OQ);
    in = _mm512_mask_cmp_ps_mask(in, gap, _mm512_setzero_ps(), _CMP_LE_OQ);
    const __m512 g = _mm512_maskz_mov_ps(in, gap);
    __m512 n;
    const __m512 p = v_exp_mantissa(g, &n);
    return _mm512_maskz_scalef_ps(in, p, n); /* one rounding, as the plain form's two multiplications */
}

static inline void add_cuts(struct row_sum *s, const __m512 x[4], const __m512 e[4], int32_t c)
{
    for (; c < s->n_cuts; c++) {
        const __m512 cut = _mm512_set1_ps(s->cut[c]);
        __m512 part[4];
        for (int i = 0; i < 4; i++)
            part[i] = _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(x[i], cut, _CMP_GE_OQ), e[i]);
        const __m512 sum = _mm512_add_ps(_mm512_add_ps(part[0], part[1]), _mm512_add_ps(part[2], part[3]));
        _mm512_storeu_ps(s->at_cut[c], _mm512_add_ps(_mm512_loadu_ps(s->at_cut[c]), sum));
    }
}

static void add(struct row_sum *s, const float *values, const float *block_max, int32_t n_blocks, float floor)
{
    const __m512 max = _mm512_set1_ps(s->max), least = _mm512_set1_ps(floor);
    __m512d lo = _mm512_loadu_pd(s->lane), hi = _mm512_loadu_pd(s->lane + 8);
    for (int32_t b = 0; b < n_blocks; b++) {
        if (!(block_max[b] >= floor))
            continue;
        __m512 x[4], e[4];
        for (int i = 0; i < 4; i++) {
            x[i] = _mm512_loadu_ps(values + (int64_t)b * ROW_BLOCK + 16 * i);
            e[i] = exp_from(x[i], least, max);
        }
        for (int i = 0; i < 4; i++) {
            lo = _mm512_add_pd(lo, _mm512_cvtps_pd(_mm512_castps512_ps256(e[i])));
            hi = _mm512_add_pd(hi, _mm512_cvtps_pd(_mm512_extractf32x8_ps(e[i], 1)));
        }
        int32_t c = 0;
        while (c < s->n_cuts && s->cut[c] > block_max[b])
            c++;
        add_cuts(s, x, e, c);
    }
    _mm512_storeu_pd(s->lane, lo);
    _mm512_storeu_pd(s->lane + 8, hi);
}

/* One round of Philox on 8 counters, a word in the low half of each 64-bit lane (the high halves hold rubbish, which
 * the multiplication does not read). */
static inline void philox_round(__m512i c[4], __m512i k0, __m512i k1)
{
    const __m512i p0 = _mm512_mul_epu32(c[0], _mm512_set1_epi64((int64_t)PHILOX_M0));
    const __m512i p1 = _mm512_mul_epu32(c[2], _mm512_set1_epi64((int64_t)PHILOX_M1));
    c[0] = _mm512_ternarylogic_epi64(_mm512_srli_epi64(p1, 32), c[1], k0, 0x96); /* exclusive or of three */
    c[2] = _mm512_ternarylogic_epi64(_mm512_srli_epi64(p0, 32), c[3], k1, 0x96);
    c[1] = p1;
    c[3] = p0;
}

static bool noise(const struct row_noise *s, uint32_t quad0, const uint32_t quad[ROW_LANES], uint32_t need,
                  uint32_t x[ROW_BLOCK])
{
    __m512i a[4], b[4];
    const __m512i first = _mm512_set1_epi64((int64_t)quad0);
    a[0] = _mm512_add_epi64(first, _mm512_cvtepu32_epi64(_mm256_loadu_si256((const __m256i *)quad)));
    b[0] = _mm512_add_epi64(first, _mm512_cvtepu32_epi64(_mm256_loadu_si256((const __m256i *)(quad + 8))));
    for (int w = 1; w < 4; w++)
        a[w] = b[w] = _mm512_set1_epi64((int64_t)s->counter[w]);
    for (int round = 0; round < PHILOX_ROUNDS; round++) {
        const __m512i k0 = _mm512_set1_epi64((int64_t)s->key[round][0]),
                      k1 = _mm512_set1_epi64((int64_t)s->key[round][1]);
        philox_round(a, k0, k1);
        philox_round(b, k0, k1);
    }
    const __m512i low = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
    const __m512i least = _mm512_set1_epi32((int32_t)need);
    __mmask16 any = 0;
    for (int w = 0; w < 4; w++) {
        const __m512i word = _mm512_permutex2var_epi32(a[w], low, b[w]);
        _mm512_storeu_si512(x + 16 * w, word);
        any |= _mm512_cmpge_epu32_mask(word, least);
    }
    return any != 0;
}

static uint64_t at_least(const float x[ROW_BLOCK], float floor)
{
    uint64_t bits = 0;
    for (int i = 0; i < 4; i++) {
        const __m512 v = _mm512_loadu_ps(x + 16 * i);
        const __mmask16 in = _mm512_cmp_ps_mask(v, _mm512_set1_ps(floor), _CMP_GE_OQ);
        bits |= (uint64_t)_mm512_mask_cmp_ps_mask(in, v, _mm512_set1_ps(FLT_MAX), _CMP_LE_OQ) << (16 * i);
    }
    return bits;
}

const struct row_passes row_passes_avx512 = {"avx512", maxima, copy, add, exps, noise, at_least, outside};
