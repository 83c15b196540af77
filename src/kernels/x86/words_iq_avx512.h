/* The words of codebook, ternary and four-bit float blocks, of 16 rows at once, and what is done to them: shared by what
 * makes tiles (unpack_iq_avx512.c) and what multiplies packed panels directly (few_iq_avx512.c). Layouts of the blocks:
 * formats/quant_iq.c. */
#ifndef HASTEN_KERNELS_X86_WORDS_IQ_AVX512_H
#define HASTEN_KERNELS_X86_WORDS_IQ_AVX512_H
#include "formats/quant_iq.h"
#include "kernels/x86/words_avx512.h"

/* Shifts by constants, and no loop but over blocks: a third faster. */
#if defined(HASTEN_SANITIZED) || defined(__SANITIZE_ADDRESS__) || !defined(__OPTIMIZE__)
#define UNROLL
#else
#define UNROLL _Pragma("GCC unroll 16")
#endif

MATH_INLINE __m512i bytes_of(__m512i words, unsigned at, unsigned mask)
{
    if (at == 0)
        return _mm512_and_epi32(words, _mm512_set1_epi32((int)mask));
    if (at == 24 && mask == 255)
        return _mm512_srli_epi32(words, 24);
    return _mm512_and_epi32(_mm512_srlv_epi32(words, _mm512_set1_epi32((int)at)),
                            _mm512_set1_epi32((int)mask));
}

/* Byte `byte` of each word, four times. */
MATH_INLINE __m512i four_times(__m512i words, int byte)
{
    const __m512i first = _mm512_set4_epi32(0x0c0c0c0c, 0x08080808, 0x04040404, 0);
    return _mm512_shuffle_epi8(words, _mm512_add_epi8(first, _mm512_set1_epi8((char)byte)));
}

MATH_INLINE __m512i sixteen(const int8_t values[16], int offset)
{
    const __m128i v = _mm_loadu_si128((const __m128i *)(const void *)values);
    return _mm512_broadcast_i32x4(_mm_add_epi8(v, _mm_set1_epi8((char)offset)));
}

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wsign-conversion"
MATH_INLINE __m512i look_up(const uint32_t *grid, __m512i index)
{
    return _mm512_i32gather_epi32(index, grid, 4);
}
#pragma GCC diagnostic pop

/* Four times seven bits of signs become bytes of eight: the last makes the number of minus signs even. */
MATH_INLINE __m512i even_signs(__m512i sevens)
{
    const __m512i odd = _mm512_set4_epi32(0x00808000, (int)0x80000080u, (int)0x80000080u, 0x00808000);
    const __m512i low = _mm512_shuffle_epi8(odd, low_nibbles(sevens));
    const __m512i high = _mm512_shuffle_epi8(odd, high_nibbles(sevens));
    return _mm512_ternarylogic_epi32(sevens, low, high, 0x96); /* bit 7 of sevens is 0 */
}

/* Fields of seven bits, one after the other in each word, become bytes. */
MATH_INLINE __m512i spread_sevens(__m512i w)
{
    const __m512i second = _mm512_set1_epi32(0x7f00), third = _mm512_set1_epi32(0x7f0000);
    const __m512i fourth = _mm512_set1_epi32(0x7f000000);
    __m512i s = _mm512_and_si512(w, _mm512_set1_epi32(0x7f));
    s = or_masked(s, _mm512_slli_epi32(w, 1), second);
    s = or_masked(s, _mm512_slli_epi32(w, 2), third);
    return or_masked(s, _mm512_slli_epi32(w, 3), fourth);
}

/* Scales of two neighbouring sub-blocks, and -by times them as mins. */
MATH_INLINE void store_two(struct tile_q8 *t, int j, __m512i s0, __m512i s1, int by)
{
    const __m512i low = _mm512_set1_epi32(0xffff), times = _mm512_set1_epi16((short)-by);
    _mm512_store_si512(t->scale[j], s0);
    _mm512_store_si512(t->scale[j + 1], s1);
    const __m512i both = _mm512_or_si512(_mm512_and_si512(s0, low), _mm512_slli_epi32(s1, 16));
    _mm512_store_si512(t->min[j / 2], _mm512_mullo_epi16(both, times));
}

/* 2 x + 1 of the n bits at `at` of each word. */
MATH_INLINE __m512i odd_scale(__m512i words, unsigned at, unsigned mask)
{
    return _mm512_add_epi32(_mm512_slli_epi32(bytes_of(words, at, mask), 1), _mm512_set1_epi32(1));
}

MATH_INLINE void store_d(struct tile_q8 *t, __m512 d, float by)
{
    _mm512_store_ps(t->d[0], _mm512_mul_ps(d, _mm512_set1_ps(by)));
}

/* The first two words of IQ4_XS: d, and 6-bit scales in two parts. */
MATH_INLINE void store_head_iq4_xs(struct tile_q8 *t, __m512i head, __m512i low)
{
    const __m512i bias = _mm512_set1_epi32(32);
    UNROLL for (unsigned j = 0; j < 8; j += 2)
    {
        __m512i s[2];
        UNROLL for (unsigned i = 0; i < 2; i++)
        {
            const __m512i upper = _mm512_slli_epi32(bytes_of(head, 16 + 2 * (j + i), 3), 4);
            s[i] = _mm512_sub_epi32(_mm512_or_si512(bytes_of(low, 4 * (j + i), 15), upper), bias);
        }
        store_two(t, (int)j, s[0], s[1], 128);
    }
    store_d(t, f16_low(head), 1.0f);
}

/* ---- scales in bytes ---------------------------------------------------------------------------- */

/* 16 neighbouring bytes of a packed panel. */
MATH_INLINE __m512i load_bytes(const uint8_t *p)
{
    return _mm512_cvtepu8_epi32(_mm_load_si128((const __m128i *)(const void *)p));
}

/* Halves of powers of two: below 2^-126 they are subnormal. */
MATH_INLINE __m512 halves_of_e8m0(__m512i e)
{
    const __mmask16 small = _mm512_cmplt_epu32_mask(e, _mm512_set1_epi32(2));
    const __m512i normal = _mm512_slli_epi32(_mm512_sub_epi32(e, _mm512_set1_epi32(1)), 23);
    return _mm512_castsi512_ps(_mm512_mask_sllv_epi32(normal, small, _mm512_set1_epi32(0x200000), e));
}

/* Exponent 0: the mantissa times 2^-10. */
MATH_INLINE __m512 halves_of_ue4m3(__m512i x)
{
    const __m512i seven = _mm512_and_si512(x, _mm512_set1_epi32(0x7f));
    const __m512i normal = _mm512_add_epi32(_mm512_slli_epi32(seven, 20), _mm512_set1_epi32(119 << 23));
    const __mmask16 small = _mm512_cmplt_epi32_mask(seven, _mm512_set1_epi32(8));
    const __mmask16 number = _mm512_cmpneq_epi32_mask(x, _mm512_set1_epi32(0x7f));
    const __m512 d = _mm512_mask_mul_ps(_mm512_castsi512_ps(normal), small, _mm512_cvtepi32_ps(seven),
                                        _mm512_set1_ps(0x1p-10f));
    return _mm512_maskz_mov_ps(number, d);
}

/* ---- ternary digits ------------------------------------------------------------------------------ */

/* The next digit of 64 numbers, `base` too high, and what is left of them: quant_iq.c. */
MATH_INLINE __m512i next_digit(__m512i *v, int base)
{
    const __m512i zero = _mm512_set1_epi8((char)base), one = _mm512_set1_epi8((char)(base + 1));
    const __mmask64 some = _mm512_cmpge_epu8_mask(*v, _mm512_set1_epi8(86));
    const __mmask64 two = _mm512_cmpge_epu8_mask(*v, _mm512_set1_epi8((char)171));
    const __m512i digit = _mm512_mask_blend_epi8(some, zero, one);
    *v = _mm512_add_epi8(_mm512_add_epi8(*v, *v), *v);
    return _mm512_mask_add_epi8(digit, two, digit, _mm512_set1_epi8(1));
}

#endif
