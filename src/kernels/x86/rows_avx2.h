/* Reading 8 rows of blocks at once: 16 bytes, words and half floats of each row, transposed. Loads never leave
 * what they are asked for. */
#ifndef HASTEN_KERNELS_X86_ROWS_AVX2_H
#define HASTEN_KERNELS_X86_ROWS_AVX2_H
#include "kernels/x86/vec_avx2.h"
#include <stddef.h>

MATH_INLINE __m256i load_2_rows(const uint8_t *p, size_t step)
{
    const __m256i v = _mm256_castsi128_si256(_mm_loadu_si128((const __m128i *)(const void *)p));
    return _mm256_inserti128_si256(v, _mm_loadu_si128((const __m128i *)(const void *)(p + step)), 1);
}

/* v[j] = 32-bit word j of 16 bytes of each of 8 rows. */
MATH_INLINE void load_rows(const uint8_t *p, size_t stride, __m256i v[4])
{
    const __m256i a = load_2_rows(p, 4 * stride), b = load_2_rows(p + stride, 4 * stride);
    const __m256i c = load_2_rows(p + 2 * stride, 4 * stride), d = load_2_rows(p + 3 * stride, 4 * stride);
    const __m256i ab0 = _mm256_unpacklo_epi32(a, b), ab1 = _mm256_unpackhi_epi32(a, b);
    const __m256i cd0 = _mm256_unpacklo_epi32(c, d), cd1 = _mm256_unpackhi_epi32(c, d);
    v[0] = _mm256_unpacklo_epi64(ab0, cd0);
    v[1] = _mm256_unpackhi_epi64(ab0, cd0);
    v[2] = _mm256_unpacklo_epi64(ab1, cd1);
    v[3] = _mm256_unpackhi_epi64(ab1, cd1);
}

MATH_INLINE __m128i load_word(const uint8_t *p)
{
    int32_t w;
    memcpy(&w, p, 4);
    return _mm_cvtsi32_si128(w);
}

/* The 32-bit word at p of each row. */
MATH_INLINE __m256i load_words(const uint8_t *p, size_t stride)
{
    __m128i half[2];
    for (size_t h = 0; h < 2; h++) {
        const uint8_t *r = p + 4 * h * stride;
        const __m128i a = _mm_unpacklo_epi32(load_word(r), load_word(r + stride));
        const __m128i b = _mm_unpacklo_epi32(load_word(r + 2 * stride), load_word(r + 3 * stride));
        half[h] = _mm_unpacklo_epi64(a, b);
    }
    return _mm256_inserti128_si256(_mm256_castsi128_si256(half[0]), half[1], 1);
}

/* The lower halves of 8 words, as f32; the upper ones. */
MATH_INLINE __m256 f16_low(__m256i words)
{
    const __m256i low = _mm256_and_si256(words, _mm256_set1_epi32(0xffff));
    return _mm256_cvtph_ps(_mm_packus_epi32(_mm256_castsi256_si128(low), _mm256_extracti128_si256(low, 1)));
}

MATH_INLINE __m256 f16_high(__m256i words)
{
    return f16_low(_mm256_srli_epi32(words, 16));
}

/* The half float at p of each row, as f32; the two bytes behind it are read too. */
MATH_INLINE __m256 load_halves(const uint8_t *p, size_t stride)
{
    return f16_low(load_words(p, stride));
}

MATH_INLINE __m256i low_nibbles(__m256i v)
{
    return _mm256_and_si256(v, _mm256_set1_epi8(15));
}

MATH_INLINE __m256i high_nibbles(__m256i v)
{
    return low_nibbles(_mm256_srli_epi32(v, 4));
}

/* a | (b & mask) */
MATH_INLINE __m256i or_masked(__m256i a, __m256i b, __m256i mask)
{
    return _mm256_or_si256(a, _mm256_and_si256(b, mask));
}

MATH_INLINE void store_q(void *to, __m256i v)
{
    _mm256_store_si256((__m256i *)to, v);
}

#endif
