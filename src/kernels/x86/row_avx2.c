/* The passes of row.h for AVX2: the simple ones by the compiler, the sums and the noise by hand. */
#include "kernels/row_body.h"
#include "kernels/x86/vec_avx2.h"

/* exp(x - max) where floor <= x <= max, else 0. */
static inline __m256 exp_from(__m256 x, __m256 floor, __m256 max)
{
    const __m256 gap = _mm256_sub_ps(x, max);
    const __m256 in = _mm256_and_ps(_mm256_cmp_ps(x, floor, _CMP_GE_OQ),
                                    _mm256_and_ps(_mm256_cmp_ps(gap, _mm256_set1_ps(EXP_MIN), _CMP_GE_OQ),
                                                  _mm256_cmp_ps(gap, _mm256_setzero_ps(), _CMP_LE_OQ)));
    const __m256 g = _mm256_and_ps(in, gap);
    __m256 n;
    const __m256 p = v_exp_mantissa(g, &n);
    return _mm256_and_ps(in, v_scale(p, n));
}

/* at_cut[0, 8) from the halves j of the 16-lane groups, at_cut[8, 16) from the others. */
static inline void add_cuts(struct row_sum *s, const __m256 x[8], const __m256 e[8], int32_t c)
{
    for (; c < s->n_cuts; c++) {
        const __m256 cut = _mm256_set1_ps(s->cut[c]);
        for (int j = 0; j < 2; j++) {
            __m256 part[4];
            for (int i = 0; i < 4; i++)
                part[i] = _mm256_and_ps(_mm256_cmp_ps(x[2 * i + j], cut, _CMP_GE_OQ), e[2 * i + j]);
            const __m256 sum =
                _mm256_add_ps(_mm256_add_ps(part[0], part[1]), _mm256_add_ps(part[2], part[3]));
            float *to = s->at_cut[c] + 8 * j;
            _mm256_storeu_ps(to, _mm256_add_ps(_mm256_loadu_ps(to), sum));
        }
    }
}

static void add(struct row_sum *s, const float *values, const float *block_max, int32_t n_blocks, float floor)
{
    const __m256 max = _mm256_set1_ps(s->max), least = _mm256_set1_ps(floor);
    __m256d lane[4];
    for (int j = 0; j < 4; j++)
        lane[j] = _mm256_loadu_pd(s->lane + 4 * j);
    for (int32_t b = 0; b < n_blocks; b++) {
        if (!(block_max[b] >= floor))
            continue;
        __m256 x[8], e[8];
        for (int i = 0; i < 8; i++) {
            x[i] = _mm256_loadu_ps(values + (int64_t)b * ROW_BLOCK + 8 * i);
            e[i] = exp_from(x[i], least, max);
        }
        for (int i = 0; i < 4; i++)
            for (int j = 0; j < 2; j++) {
                const __m256 v = e[2 * i + j];
                lane[2 * j] = _mm256_add_pd(lane[2 * j], _mm256_cvtps_pd(_mm256_castps256_ps128(v)));
                lane[2 * j + 1] =
                    _mm256_add_pd(lane[2 * j + 1], _mm256_cvtps_pd(_mm256_extractf128_ps(v, 1)));
            }
        int32_t c = 0;
        while (c < s->n_cuts && s->cut[c] > block_max[b])
            c++;
        add_cuts(s, x, e, c);
    }
    for (int j = 0; j < 4; j++)
        _mm256_storeu_pd(s->lane + 4 * j, lane[j]);
}

/* One round of Philox on 4 counters, a word in the low half of each 64-bit lane (the high halves hold rubbish, which
 * the multiplication does not read). */
static inline void philox_round(__m256i c[4], __m256i k0, __m256i k1)
{
    const __m256i p0 = _mm256_mul_epu32(c[0], _mm256_set1_epi64x((int64_t)PHILOX_M0));
    const __m256i p1 = _mm256_mul_epu32(c[2], _mm256_set1_epi64x((int64_t)PHILOX_M1));
    c[0] = _mm256_xor_si256(_mm256_srli_epi64(p1, 32), _mm256_xor_si256(c[1], k0));
    c[2] = _mm256_xor_si256(_mm256_srli_epi64(p0, 32), _mm256_xor_si256(c[3], k1));
    c[1] = p1;
    c[3] = p0;
}

/* The low halves of two vectors' lanes, in order. */
static inline __m256i low_halves(__m256i a, __m256i b)
{
    const __m256 mixed = _mm256_shuffle_ps(_mm256_castsi256_ps(a), _mm256_castsi256_ps(b), 0x88);
    return _mm256_permute4x64_epi64(_mm256_castps_si256(mixed), 0xd8);
}

static bool noise(const struct row_noise *s, uint32_t quad0, const uint32_t quad[ROW_LANES], uint32_t need,
                  uint32_t x[ROW_BLOCK])
{
    const __m256i first = _mm256_set1_epi64x((int64_t)quad0), least = _mm256_set1_epi32((int32_t)need);
    __m256i any = _mm256_setzero_si256();
    for (int part = 0; part < 2; part++) { /* 8 counters at a time: what the registers hold */
        __m256i a[4], b[4];
        const __m128i *at = (const __m128i *)(quad + 8 * part);
        a[0] = _mm256_add_epi64(first, _mm256_cvtepu32_epi64(_mm_loadu_si128(at)));
        b[0] = _mm256_add_epi64(first, _mm256_cvtepu32_epi64(_mm_loadu_si128(at + 1)));
        for (int w = 1; w < 4; w++)
            a[w] = b[w] = _mm256_set1_epi64x((int64_t)s->counter[w]);
        for (int round = 0; round < PHILOX_ROUNDS; round++) {
            const __m256i k0 = _mm256_set1_epi64x((int64_t)s->key[round][0]),
                          k1 = _mm256_set1_epi64x((int64_t)s->key[round][1]);
            philox_round(a, k0, k1);
            philox_round(b, k0, k1);
        }
        for (int w = 0; w < 4; w++) {
            const __m256i word = low_halves(a[w], b[w]);
            _mm256_storeu_si256((__m256i *)(x + 16 * w + 8 * part), word);
            any = _mm256_or_si256(any, _mm256_cmpeq_epi32(_mm256_max_epu32(word, least), word));
        }
    }
    return _mm256_movemask_epi8(any) != 0;
}

static uint64_t at_least(const float x[ROW_BLOCK], float floor)
{
    uint64_t bits = 0;
    for (int i = 0; i < 8; i++) {
        const __m256 v = _mm256_loadu_ps(x + 8 * i);
        const __m256 in = _mm256_and_ps(_mm256_cmp_ps(v, _mm256_set1_ps(floor), _CMP_GE_OQ),
                                        _mm256_cmp_ps(v, _mm256_set1_ps(FLT_MAX), _CMP_LE_OQ));
        bits |= (uint64_t)(uint32_t)_mm256_movemask_ps(in) << (8 * i);
    }
    return bits;
}

const struct row_passes row_passes_avx2 = {"avx2", maxima, copy, add, exps, noise, at_least, outside};
