/* From the file's blocks to tiles: the codebook, ternary and four-bit float types. As unpack_avx2.c; codebook entries
 * are gathered, 8 rows at a time. Layouts of the blocks: formats/quant_iq.c.
 *
 * Tiles are those of older types for MXFP4 (Q5_0), IQ4_NL (Q8_0) and TQ (Q3_K: scales 1). The codebooks' values,
 * and those of IQ4_XS, are too large for pairs of products in int16; they are stored times their scales, as int16. */
#include "formats/quant_iq.h"
#include "kernels/x86/panel_avx2.h"
#include "kernels/x86/rows_avx2.h"

/* ---- pieces ------------------------------------------------------------------------------------ */

MATH_INLINE __m256i bits_at(__m256i words, unsigned at, unsigned mask)
{
    if (at == 0)
        return _mm256_and_si256(words, _mm256_set1_epi32((int)mask));
    if (at == 24 && mask == 255)
        return _mm256_srli_epi32(words, 24);
    return _mm256_and_si256(_mm256_srlv_epi32(words, _mm256_set1_epi32((int)at)),
                            _mm256_set1_epi32((int)mask));
}

/* Byte `byte` of each word, four times. */
MATH_INLINE __m256i four_times(__m256i words, int byte)
{
    const __m256i first = _mm256_broadcastsi128_si256(_mm_setr_epi32(0, 0x04040404, 0x08080808, 0x0c0c0c0c));
    return _mm256_shuffle_epi8(words, _mm256_add_epi8(first, _mm256_set1_epi8((char)byte)));
}

MATH_INLINE __m256i sixteen(const int8_t values[16], int offset)
{
    const __m128i v = _mm_loadu_si128((const __m128i *)(const void *)values);
    return _mm256_broadcastsi128_si256(_mm_add_epi8(v, _mm_set1_epi8((char)offset)));
}

MATH_INLINE __m256i look_up(const uint32_t *grid, __m256i index)
{
    return _mm256_i32gather_epi32((const int *)(const void *)grid, index, 4);
}

/* Four times seven bits of signs become bytes of eight: the last makes the number of minus signs even. */
MATH_INLINE __m256i even_signs(__m256i sevens)
{
    const __m256i odd = _mm256_broadcastsi128_si256(
        _mm_setr_epi32(0x00808000, (int)0x80000080u, (int)0x80000080u, 0x00808000));
    const __m256i low = _mm256_shuffle_epi8(odd, low_nibbles(sevens));
    const __m256i high = _mm256_shuffle_epi8(odd, high_nibbles(sevens));
    return _mm256_xor_si256(sevens, _mm256_xor_si256(low, high));
}

/* Fields of seven bits, one after the other in each word, become bytes. */
MATH_INLINE __m256i spread_sevens(__m256i w)
{
    __m256i s = _mm256_and_si256(w, _mm256_set1_epi32(0x7f));
    s = or_masked(s, _mm256_slli_epi32(w, 1), _mm256_set1_epi32(0x7f00));
    s = or_masked(s, _mm256_slli_epi32(w, 2), _mm256_set1_epi32(0x7f0000));
    return or_masked(s, _mm256_slli_epi32(w, 3), _mm256_set1_epi32(0x7f000000));
}

/* Negates the bytes where bit 0, 1, 2, 3 (upper: 4, 5, 6, 7) of the word's bytes of signs is set. */
MATH_INLINE __m256i signed_by(__m256i q, __m256i signs, bool upper)
{
    const __m256i bits = _mm256_set1_epi32(upper ? (int)0x80402010u : 0x08040201);
    const __m256i minus = _mm256_cmpeq_epi8(_mm256_and_si256(signs, bits), bits);
    return _mm256_sub_epi8(_mm256_xor_si256(q, minus), minus);
}

/* A number in both 16-bit halves of its word. */
MATH_INLINE __m256i twice(__m256i words)
{
    return _mm256_or_si256(_mm256_and_si256(words, _mm256_set1_epi32(0xffff)), _mm256_slli_epi32(words, 16));
}

/* 2 x + 1 of the bits at `at` of each word, twice. */
MATH_INLINE __m256i odd_scale(__m256i words, unsigned at, unsigned mask)
{
    return twice(_mm256_add_epi32(_mm256_slli_epi32(bits_at(words, at, mask), 1), _mm256_set1_epi32(1)));
}

/* Signed bytes of vector v, as int16 times scale. */
MATH_INLINE void store_wide(struct tile_q16 *t, int64_t v, __m256i bytes, __m256i scale)
{
    const __m256i first =
        _mm256_broadcastsi128_si256(_mm_setr_epi8(-1, 0, -1, 1, -1, 4, -1, 5, -1, 8, -1, 9, -1, 12, -1, 13));
    const __m256i second = _mm256_broadcastsi128_si256(
        _mm_setr_epi8(-1, 2, -1, 3, -1, 6, -1, 7, -1, 10, -1, 11, -1, 14, -1, 15));
    const __m256i a = _mm256_srai_epi16(_mm256_shuffle_epi8(bytes, first), 8);
    const __m256i b = _mm256_srai_epi16(_mm256_shuffle_epi8(bytes, second), 8);
    store_q(t->q[2 * v], _mm256_mullo_epi16(a, scale));
    store_q(t->q[2 * v + 1], _mm256_mullo_epi16(b, scale));
}

MATH_INLINE void store_d(struct tile_q16 *t, __m256 d, float by)
{
    _mm256_store_ps(t->d[0], _mm256_mul_ps(d, _mm256_set1_ps(by)));
}

/* ---- IQ2, IQ3 ------------------------------------------------------------------------------------ */

/* Vectors v, v + 1: an entry of eight values, whose signs are byte `byte` of each word. */
MATH_INLINE void store_eight(struct tile_q16 *t, int v, __m256i entry, __m256i signs, int byte, __m256i scale)
{
    const __m256i values = _mm256_set1_epi32(8 | 25 << 8 | 43 << 16), sign = four_times(signs, byte);
    store_wide(t, v, signed_by(_mm256_shuffle_epi8(values, low_nibbles(entry)), sign, false), scale);
    store_wide(t, v + 1, signed_by(_mm256_shuffle_epi8(values, high_nibbles(entry)), sign, true), scale);
}

DECLARE_UNPACK(unpack_iq2_xxs)
{
    struct tile_q16 *t = tile;
    (void)k;
    UNROLL for (int part = 0; part < 4; part++)
    { /* 64 elements */
        __m256i v[4];
        load_rows(src + 2 + 16 * part, stride, v);
        UNROLL for (int h = 0; h < 2; h++)
        {
            const __m256i signs = even_signs(spread_sevens(v[2 * h + 1]));
            const __m256i scale = odd_scale(v[2 * h + 1], 28, 15);
            UNROLL for (int i = 0; i < 4; i++)
                store_eight(t, 16 * part + 8 * h + 2 * i,
                            look_up(iq2_xxs_grid, bits_at(v[2 * h], 8 * (unsigned)i, 255)), signs, i, scale);
        }
    }
    store_d(t, load_halves(src, stride), 0.125f);
}

DECLARE_UNPACK(unpack_iq2_xs)
{
    const __m256i scales[2] = {load_words(src + 66, stride), load_words(src + 70, stride)};
    struct tile_q16 *t = tile;
    (void)k;
    UNROLL for (int part = 0; part < 4; part++)
    {
        __m256i v[4];
        load_rows(src + 2 + 16 * part, stride, v);
        UNROLL for (int h = 0; h < 2; h++)
        { /* two words hold four entries: nine bits of index, seven of signs */
            const __m256i a = v[2 * h], b = v[2 * h + 1];
            __m256i sevens = bits_at(a, 9, 0x7f);
            sevens = or_masked(sevens, _mm256_srli_epi32(a, 17), _mm256_set1_epi32(0x7f00));
            sevens = or_masked(sevens, _mm256_slli_epi32(b, 7), _mm256_set1_epi32(0x7f0000));
            sevens = or_masked(sevens, _mm256_srli_epi32(b, 1), _mm256_set1_epi32(0x7f000000));
            const __m256i signs = even_signs(sevens);
            UNROLL for (int i = 0; i < 4; i++)
            {
                const unsigned sub = (unsigned)(4 * part + 2 * h + i / 2);
                store_eight(t, 16 * part + 8 * h + 2 * i,
                            look_up(iq2_xs_grid, bits_at(i < 2 ? a : b, 16 * (unsigned)(i % 2), 511)), signs,
                            i, odd_scale(scales[sub / 8], 4 * (sub % 8), 15));
            }
        }
    }
    store_d(t, load_halves(src, stride), 0.125f);
}

DECLARE_UNPACK(unpack_iq2_s)
{
    struct tile_q16 *t = tile;
    (void)k;
    UNROLL for (int half = 0; half < 2; half++)
    { /* 16 entries */
        const __m256i high = load_words(src + 66 + 4 * half, stride);
        const __m256i scales = load_words(src + 74 + 4 * half, stride);
        __m256i low[4], signs[4];
        load_rows(src + 2 + 16 * half, stride, low);
        load_rows(src + 34 + 16 * half, stride, signs);
        UNROLL for (unsigned i = 0; i < 16; i++)
        {
            const __m256i upper = _mm256_slli_epi32(bits_at(high, 2 * i, 3), 8);
            const __m256i index = _mm256_or_si256(bits_at(low[i / 4], 8 * (i % 4), 255), upper);
            store_eight(t, 32 * half + 2 * (int)i, look_up(iq2_s_grid, index), signs[i / 4], (int)i % 4,
                        odd_scale(scales, 4 * (i / 2), 15));
        }
    }
    store_d(t, load_halves(src, stride), 0.125f);
}

DECLARE_UNPACK(unpack_iq3_xxs)
{
    struct tile_q16 *t = tile;
    (void)k;
    UNROLL for (int half = 0; half < 2; half++)
    {
        __m256i rest[4];
        load_rows(src + 66 + 16 * half, stride, rest);
        UNROLL for (int part = 0; part < 2; part++)
        { /* 64 elements */
            __m256i v[4];
            load_rows(src + 2 + 32 * half + 16 * part, stride, v);
            UNROLL for (int h = 0; h < 2; h++)
            {
                const __m256i word = rest[2 * part + h], signs = even_signs(spread_sevens(word));
                const __m256i scale = odd_scale(word, 28, 15);
                UNROLL for (int i = 0; i < 8; i++)
                {
                    const __m256i entry =
                        look_up(iq3_xxs_grid, bits_at(v[2 * h + i / 4], 8 * (unsigned)(i % 4), 255));
                    store_wide(t, 32 * half + 16 * part + 8 * h + i,
                               signed_by(entry, four_times(signs, i / 2), i % 2), scale);
                }
            }
        }
    }
    store_d(t, load_halves(src, stride), 0.25f);
}

DECLARE_UNPACK(unpack_iq3_s)
{
    const __m256i scales = load_words(src + 106, stride);
    struct tile_q16 *t = tile;
    (void)k;
    UNROLL for (int half = 0; half < 2; half++)
    { /* 32 entries */
        const __m256i high = load_words(src + 66 + 4 * half, stride);
        __m256i signs[4];
        load_rows(src + 74 + 16 * half, stride, signs);
        UNROLL for (int part = 0; part < 2; part++)
        {
            __m256i v[4];
            load_rows(src + 2 + 32 * half + 16 * part, stride, v);
            UNROLL for (int i = 0; i < 16; i++)
            {
                const int e = 16 * part + i;
                const __m256i upper = _mm256_slli_epi32(bits_at(high, (unsigned)e, 1), 8);
                const __m256i index = _mm256_or_si256(bits_at(v[i / 4], 8 * (unsigned)(i % 4), 255), upper);
                store_wide(t, 32 * half + e,
                           signed_by(look_up(iq3_s_grid, index), four_times(signs[e / 8], e / 2 % 4), i % 2),
                           odd_scale(scales, 4 * (unsigned)(4 * half + e / 8), 15));
            }
        }
    }
    store_d(t, load_halves(src, stride), 1.0f);
}

/* ---- IQ1 ----------------------------------------------------------------------------------------- */

/* An entry of eight numbers c in 0 .. 2, which mean 8 (c - 1) plus 1 where the bit is 0, less 1 where it is 1. */
MATH_INLINE void store_eight_iq1(struct tile_q16 *t, int v, __m256i index, __m256i bit, __m256i scale)
{
    const __m256i entry = look_up(iq1_grid, index);
    const __m256i shift =
        _mm256_sub_epi32(_mm256_set1_epi32(7), _mm256_slli_epi32(bit, 1)); /* 8 - (1 or -1) */
    const __m256i less = four_times(_mm256_sub_epi32(_mm256_set1_epi32(14), shift), 0);
    const __m256i low = _mm256_slli_epi32(low_nibbles(entry), 3),
                  high = _mm256_slli_epi32(high_nibbles(entry), 3);
    store_wide(t, v, _mm256_sub_epi8(low, less), scale);
    store_wide(t, v + 1, _mm256_sub_epi8(high, less), scale);
}

DECLARE_UNPACK(unpack_iq1_s)
{
    struct tile_q16 *t = tile;
    __m256i high[4];
    (void)k;
    load_rows(src + 34, stride, high);
    UNROLL for (int half = 0; half < 2; half++)
    {
        __m256i v[4];
        load_rows(src + 2 + 16 * half, stride, v);
        UNROLL for (int j = 0; j < 4; j++)
        { /* 32 elements, 16 bits of high */
            const unsigned at = 16 * (unsigned)(j % 2);
            const __m256i h = high[2 * half + j / 2], scale = odd_scale(h, at + 12, 7);
            UNROLL for (unsigned i = 0; i < 4; i++)
            {
                const __m256i upper = _mm256_slli_epi32(bits_at(h, at + 3 * i, 7), 8);
                store_eight_iq1(t, 32 * half + 8 * j + 2 * (int)i,
                                _mm256_or_si256(bits_at(v[j], 8 * i, 255), upper), bits_at(h, at + 15, 1),
                                scale);
            }
        }
    }
    store_d(t, load_halves(src, stride), 0.125f);
}

DECLARE_UNPACK(unpack_iq1_m)
{
    const __m256i scales[2] = {load_words(src + 48, stride), load_words(src + 52, stride)};
    struct tile_q16 *t = tile;
    __m256i high[4];
    (void)k;
    load_rows(src + 32, stride, high);
    UNROLL for (int half = 0; half < 2; half++)
    {
        __m256i v[4];
        load_rows(src + 16 * half, stride, v);
        UNROLL for (unsigned i = 0; i < 16; i++)
        { /* entries; two share a scale */
            const __m256i h = high[2 * half + (int)i / 8];
            const unsigned at = 4 * (i % 8), j = i / 2;
            const __m256i upper = _mm256_slli_epi32(bits_at(h, at, 7), 8);
            store_eight_iq1(t, 32 * half + 2 * (int)i,
                            _mm256_or_si256(bits_at(v[i / 4], 8 * (i % 4), 255), upper),
                            bits_at(h, at + 3, 1), odd_scale(scales[half], 16 * (j / 4) + 3 * (j % 4), 7));
        }
    }
    __m256i d = bits_at(scales[0], 12, 0xf);
    d = or_masked(d, _mm256_srli_epi32(scales[0], 24), _mm256_set1_epi32(0xf0));
    d = or_masked(d, _mm256_srli_epi32(scales[1], 4), _mm256_set1_epi32(0xf00));
    d = or_masked(d, _mm256_srli_epi32(scales[1], 16), _mm256_set1_epi32(0xf000));
    store_d(t, f16_low(d), 0.125f);
}

/* ---- nibbles ------------------------------------------------------------------------------------- */

DECLARE_UNPACK(unpack_iq4_nl)
{
    const __m256i values = sixteen(iq4_values, 0), one = _mm256_set1_epi16(1);
    struct tile_q16 *t = tile;
    for (int64_t b = 0; b < k / 32; b++, src += 18) {
        __m256i v[4];
        load_rows(src + 2, stride, v);
        UNROLL for (int j = 0; j < 4; j++)
        {
            store_wide(t, 8 * b + j, _mm256_shuffle_epi8(values, low_nibbles(v[j])), one);
            store_wide(t, 8 * b + j + 4, _mm256_shuffle_epi8(values, high_nibbles(v[j])), one);
        }
        _mm256_store_ps(t->d[b], load_halves(src, stride));
    }
}

DECLARE_UNPACK(unpack_iq4_xs)
{
    const __m256i values = sixteen(iq4_values, 0), bias = _mm256_set1_epi32(32);
    const __m256i head = load_words(src, stride), low = load_words(src + 4, stride);
    struct tile_q16 *t = tile;
    (void)k;
    UNROLL for (int j = 0; j < 8; j++)
    {
        const __m256i upper = _mm256_slli_epi32(bits_at(head, 16 + 2 * (unsigned)j, 3), 4);
        const __m256i scale =
            twice(_mm256_sub_epi32(_mm256_or_si256(bits_at(low, 4 * (unsigned)j, 15), upper), bias));
        __m256i v[4];
        load_rows(src + 8 + 16 * j, stride, v);
        UNROLL for (int i = 0; i < 4; i++)
        {
            store_wide(t, 8 * j + i, _mm256_shuffle_epi8(values, low_nibbles(v[i])), scale);
            store_wide(t, 8 * j + i + 4, _mm256_shuffle_epi8(values, high_nibbles(v[i])), scale);
        }
    }
    store_d(t, f16_low(head), 1.0f);
}

/* Halves of powers of two: below 2^-126 they are subnormal. */
MATH_INLINE __m256 halves_of_e8m0(__m256i e)
{
    const __m256i normal = _mm256_slli_epi32(_mm256_sub_epi32(e, _mm256_set1_epi32(1)), 23);
    const __m256i small = _mm256_sllv_epi32(_mm256_set1_epi32(0x200000), e);
    const __m256i is_normal = _mm256_cmpgt_epi32(e, _mm256_set1_epi32(1));
    return _mm256_castsi256_ps(_mm256_blendv_epi8(small, normal, is_normal));
}

DECLARE_UNPACK(unpack_mxfp4)
{
    const __m256i values = sixteen(e2m1_values, 16);
    struct tile_q8 *t = tile;
    for (int64_t b = 0; b < k / 32; b++, src += 17) {
        __m256i v[4];
        load_rows(src + 1, stride, v);
        UNROLL for (int j = 0; j < 4; j++)
        {
            store_q(t->q[8 * b + j], _mm256_shuffle_epi8(values, low_nibbles(v[j])));
            store_q(t->q[8 * b + j + 4], _mm256_shuffle_epi8(values, high_nibbles(v[j])));
        }
        _mm256_store_ps(t->d[b], halves_of_e8m0(bits_at(load_words(src, stride), 0, 255)));
    }
}

/* Exponent 0: the mantissa times 2^-10. */
MATH_INLINE __m256 halves_of_ue4m3(__m256i x)
{
    const __m256i seven = _mm256_and_si256(x, _mm256_set1_epi32(0x7f));
    const __m256i normal = _mm256_add_epi32(_mm256_slli_epi32(seven, 20), _mm256_set1_epi32(119 << 23));
    const __m256 small = _mm256_mul_ps(_mm256_cvtepi32_ps(seven), _mm256_set1_ps(0x1p-10f));
    const __m256i is_normal = _mm256_cmpgt_epi32(seven, _mm256_set1_epi32(7));
    const __m256 d = _mm256_blendv_ps(small, _mm256_castsi256_ps(normal), _mm256_castsi256_ps(is_normal));
    return _mm256_andnot_ps(_mm256_castsi256_ps(_mm256_cmpeq_epi32(x, _mm256_set1_epi32(0x7f))), d);
}

/* Scales of the first and the second half of each 32: d and m. */
DECLARE_UNPACK(unpack_nvfp4)
{
    const __m256i values = sixteen(e2m1_values, 12);
    struct tile_q8 *t = tile;
    for (int64_t b = 0; b < k / 32; b += 2, src += 36) {
        const __m256i scales = load_words(src, stride);
        UNROLL for (int h = 0; h < 2; h++)
        {
            __m256i v[4];
            load_rows(src + 4 + 16 * h, stride, v);
            UNROLL for (int i = 0; i < 4; i++)
            { /* 8 elements in the low nibbles of two words, 8 in the high ones */
                uint8_t(*to)[32] = t->q + 8 * (b + h) + i / 2 * 4 + i % 2;
                store_q(to[0], _mm256_shuffle_epi8(values, low_nibbles(v[i])));
                store_q(to[2], _mm256_shuffle_epi8(values, high_nibbles(v[i])));
            }
            _mm256_store_ps(t->d[b + h], halves_of_ue4m3(bits_at(scales, 16 * (unsigned)h, 255)));
            _mm256_store_ps(t->m[b + h], halves_of_ue4m3(bits_at(scales, 16 * (unsigned)h + 8, 255)));
        }
    }
}

/* ---- ternary digits ------------------------------------------------------------------------------ */

/* Q3_K's offset is 4: digits are stored 3 too high; scales are 1. */
MATH_INLINE void finish_ternary(struct tile_q8 *t, __m256 d)
{
    UNROLL for (int j = 0; j < 16; j++) store_q(t->scale[j], _mm256_set1_epi16(1));
    _mm256_store_ps(t->d[0], d);
}

/* The next digit of 32 numbers and what is left of them: quant_iq.c. */
MATH_INLINE __m256i next_digit(__m256i *v)
{
    const __m256i some = _mm256_cmpeq_epi8(_mm256_max_epu8(*v, _mm256_set1_epi8(86)), *v);
    const __m256i two = _mm256_cmpeq_epi8(_mm256_max_epu8(*v, _mm256_set1_epi8((char)171)), *v);
    *v = _mm256_add_epi8(_mm256_add_epi8(*v, *v), *v);
    return _mm256_sub_epi8(_mm256_set1_epi8(3), _mm256_add_epi8(some, two));
}

DECLARE_UNPACK(unpack_tq1_0)
{
    struct tile_q8 *t = tile;
    __m256i v[13];
    (void)k;
    UNROLL for (int part = 0; part < 3; part++) load_rows(src + 16 * part, stride, v + 4 * part);
    v[12] = load_words(src + 48, stride);
    UNROLL for (int i = 0; i < 13; i++)
    {
        uint8_t(*to)[32] = t->q + (i < 8 ? i : i < 12 ? 32 + i : 60);
        const int step = i < 8 ? 8 : i < 12 ? 4 : 1;
        for (int digit = 0; digit < (i < 12 ? 5 : 4); digit++)
            store_q(to[step * digit], next_digit(&v[i]));
    }
    finish_ternary(t, f16_high(load_words(src + 50, stride)));
}

DECLARE_UNPACK(unpack_tq2_0)
{
    struct tile_q8 *t = tile;
    (void)k;
    UNROLL for (int part = 0; part < 4; part++)
    {
        __m256i v[4];
        load_rows(src + 16 * part, stride, v);
        UNROLL for (int group = 0; group < 4; group++) UNROLL for (int j = 0; j < 4; j++)
            store_q(t->q[part / 2 * 32 + group * 8 + part % 2 * 4 + j],
                    _mm256_add_epi8(_mm256_and_si256(_mm256_srlv_epi32(v[j], _mm256_set1_epi32(2 * group)),
                                                     _mm256_set1_epi8(3)),
                                    _mm256_set1_epi8(3)));
    }
    finish_ternary(t, f16_high(load_words(src + 62, stride)));
}
