/* From blocks to tiles: the codebook, ternary and four-bit float types. As unpack_avx512.c: word j of 16 rows becomes
 * one vector. Codebook entries are gathered, 16 rows at a time; one of eight values is 32 bits wide, so that a gather
 * serves two vectors. Layouts of the blocks: formats/quant_iq.c.
 *
 * Tiles are those of the older types wherever these can hold the numbers (integers, exact):
 *   IQ4_NL, MXFP4    as Q8_0, Q5_0: offsets 128 and 16
 *   TQ1_0, TQ2_0     as Q3_K: offset 124, no scales
 *   IQ3_S            as Q4_K: q = 2 u - 15 with u in 0 .. 15, so scale * q = 2 scale * (u - 8) + scale
 *   IQ2, IQ3_XXS, IQ4_XS  scales as in Q6_K; the offset, times the scales, stands as mins that are added in integers
 *   IQ1              scale * q, which is odd and at most 135, as 2 u - 135 */
#include "formats/quant_iq.h"
#include "kernels/x86/words_avx512.h"

/* Shifts by constants, and no loop but over blocks: a third faster. */
#if defined(HASTEN_SANITIZED) || defined(__SANITIZE_ADDRESS__) || !defined(__OPTIMIZE__)
#define UNROLL
#else
#define UNROLL _Pragma("GCC unroll 16")
#endif

/* ---- pieces ------------------------------------------------------------------------------------ */

MATH_INLINE struct source rows_at(const uint8_t *src, size_t stride)
{
    return (struct source){.p = src, .stride = stride};
}

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

MATH_INLINE __m512 first_d(const uint8_t *src, size_t stride)
{
    return f16_low(gather_word(src, stride));
}

/* ---- IQ2: entries of eight values --------------------------------------------------------------- */

#define IQ_OFFSET 64 /* of IQ2 and IQ3_XXS, whose values are at most 62 */

/* Vectors q[0], q[1]: 64 plus or minus the values of an entry; its signs are byte `byte` of each word. */
MATH_INLINE void store_eight(uint8_t (*q)[64], __m512i entry, __m512i signs, int byte)
{
    const __m512i values =
        _mm512_set1_epi32((IQ_OFFSET + 8) | (IQ_OFFSET + 25) << 8 | (IQ_OFFSET + 43) << 16);
    const __m512i both = _mm512_set1_epi8((char)(2 * IQ_OFFSET)), sign = four_times(signs, byte);
    const __m512i low = _mm512_shuffle_epi8(values, low_nibbles(entry));
    const __m512i high = _mm512_shuffle_epi8(values, high_nibbles(entry));
    const __mmask64 minus_low = _mm512_test_epi8_mask(sign, _mm512_set1_epi32(0x08040201));
    const __mmask64 minus_high = _mm512_test_epi8_mask(sign, _mm512_set1_epi32((int)0x80402010u));
    _mm512_store_si512(q[0], _mm512_mask_sub_epi8(low, minus_low, both, low));
    _mm512_store_si512(q[1], _mm512_mask_sub_epi8(high, minus_high, both, high));
}

DECLARE_UNPACK_ROWS(iq2_xxs)
{
    struct tile_q8 *t = tile;
    (void)k;
    UNROLL for (int part = 0; part < 4; part++)
    { /* 64 elements */
        const int at = 2 + 16 * part;
        __m512i v[4];
        load_words(rows_at(src, stride), at, later(ahead, at - 2), part ? 1 : 2, v);
        UNROLL for (int h = 0; h < 2; h++)
        {
            const __m512i signs = even_signs(spread_sevens(v[2 * h + 1]));
            UNROLL for (int i = 0; i < 4; i++)
                store_eight(t->q + 16 * part + 8 * h + 2 * i,
                            look_up(iq2_xxs_grid, bytes_of(v[2 * h], 8 * (unsigned)i, 255)), signs, i);
        }
        store_two(t, 2 * part, odd_scale(v[1], 28, 15), odd_scale(v[3], 28, 15), IQ_OFFSET);
    }
    store_d(t, first_d(src, stride), 0.125f);
}

/* 16 scales of four bits from byte `at` of the block on. */
MATH_INLINE void store_nibble_scales(struct tile_q8 *t, const uint8_t *src, size_t stride)
{
    UNROLL for (int h = 0; h < 2; h++)
    {
        const __m512i w = gather_word(src + 4 * h, stride);
        UNROLL for (unsigned j = 0; j < 8; j += 2)
            store_two(t, 8 * h + (int)j, odd_scale(w, 4 * j, 15), odd_scale(w, 4 * j + 4, 15), IQ_OFFSET);
    }
}

DECLARE_UNPACK_ROWS(iq2_xs)
{
    struct tile_q8 *t = tile;
    (void)k;
    UNROLL for (int part = 0; part < 4; part++)
    {
        const int at = 2 + 16 * part;
        __m512i v[4];
        load_words(rows_at(src, stride), at, later(ahead, at - 2), part == 3 ? 2 : 1, v);
        UNROLL for (int h = 0; h < 2; h++)
        { /* two words hold four entries: nine bits of index, seven of signs */
            const __m512i a = v[2 * h], b = v[2 * h + 1];
            __m512i sevens = bytes_of(a, 9, 0x7f);
            sevens = or_masked(sevens, _mm512_srli_epi32(a, 17), _mm512_set1_epi32(0x7f00));
            sevens = or_masked(sevens, _mm512_slli_epi32(b, 7), _mm512_set1_epi32(0x7f0000));
            sevens = or_masked(sevens, _mm512_srli_epi32(b, 1), _mm512_set1_epi32(0x7f000000));
            const __m512i signs = even_signs(sevens);
            UNROLL for (int i = 0; i < 4; i++) store_eight(
                t->q + 16 * part + 8 * h + 2 * i,
                look_up(iq2_xs_grid, bytes_of(i < 2 ? a : b, 16 * (unsigned)(i % 2), 511)), signs, i);
        }
    }
    store_nibble_scales(t, src + 66, stride);
    store_d(t, first_d(src, stride), 0.125f);
}

DECLARE_UNPACK_ROWS(iq2_s)
{
    struct tile_q8 *t = tile;
    (void)k;
    UNROLL for (int half = 0; half < 2; half++)
    { /* 16 entries */
        __m512i low[4], signs[4];
        load_words(rows_at(src, stride), 2 + 16 * half, later(ahead, 16 * half), 1, low);
        load_words(rows_at(src, stride), 34 + 16 * half, later(ahead, 32 + 24 * half), 2, signs);
        const __m512i high = gather_word(src + 66 + 4 * half, stride);
        UNROLL for (int i = 0; i < 16; i++)
        {
            const __m512i upper = _mm512_slli_epi32(bytes_of(high, 2 * (unsigned)i, 3), 8);
            const __m512i index = _mm512_or_si512(bytes_of(low[i / 4], 8 * (unsigned)(i % 4), 255), upper);
            store_eight(t->q + 32 * half + 2 * i, look_up(iq2_s_grid, index), signs[i / 4], i % 4);
        }
    }
    store_nibble_scales(t, src + 74, stride);
    store_d(t, first_d(src, stride), 0.125f);
}

/* ---- IQ3: entries of four values ----------------------------------------------------------------- */

DECLARE_UNPACK_ROWS(iq3_xxs)
{
    const __m512i offset = _mm512_set1_epi8(IQ_OFFSET);
    struct tile_q8 *t = tile;
    (void)k;
    UNROLL for (int half = 0; half < 2; half++)
    {
        __m512i rest[4];
        load_words(rows_at(src, stride), 66 + 16 * half, later(ahead, 64 + 16 * half), 1, rest);
        UNROLL for (int j = 0; j < 4; j++) /* before the loops below, in which the words are used up */
            if (j % 2 == 0) store_two(t, 4 * half + j, odd_scale(rest[j], 28, 15),
                                      odd_scale(rest[j + 1], 28, 15), IQ_OFFSET);
        UNROLL for (int part = 0; part < 2; part++)
        { /* 64 elements */
            const int at = 2 + 32 * half + 16 * part;
            __m512i v[4];
            load_words(rows_at(src, stride), at, later(ahead, at - 2), 1, v);
            UNROLL for (int h = 0; h < 2; h++)
            {
                const __m512i signs = even_signs(spread_sevens(rest[2 * part + h]));
                UNROLL for (int i = 0; i < 8; i++)
                {
                    const __m512i entry =
                        look_up(iq3_xxs_grid, bytes_of(v[2 * h + i / 4], 8 * (unsigned)(i % 4), 255));
                    const __m512i bits = _mm512_set1_epi32(i % 2 ? (int)0x80402010u : 0x08040201);
                    const __mmask64 minus = _mm512_test_epi8_mask(four_times(signs, i / 2), bits);
                    const __m512i plus = _mm512_add_epi8(entry, offset);
                    _mm512_store_si512(t->q[32 * half + 16 * part + 8 * h + i],
                                       _mm512_mask_sub_epi8(plus, minus, offset, entry));
                }
            }
        }
    }
    store_d(t, first_d(src, stride), 0.25f);
}

DECLARE_UNPACK_ROWS(iq3_s)
{
    const __m512i seven = _mm512_set1_epi8(7), fifteen = _mm512_set1_epi8(15), eight = _mm512_set1_epi8(8);
    const __m512i scales = gather_word(src + 106, stride), low = _mm512_set1_epi32(0xffff);
    struct tile_q8 *t = tile;
    (void)k;
    UNROLL for (int half = 0; half < 2; half++)
    { /* 32 entries */
        const __m512i high = gather_word(src + 66 + 4 * half, stride);
        __m512i signs[4];
        load_words(rows_at(src, stride), 74 + 16 * half, later(ahead, 72 + 18 * half), 2, signs);
        UNROLL for (int part = 0; part < 2; part++)
        {
            const int at = 2 + 32 * half + 16 * part;
            __m512i v[4];
            load_words(rows_at(src, stride), at, later(ahead, at - 2), 1, v);
            UNROLL for (int i = 0; i < 16; i++)
            {
                const unsigned e = (unsigned)(16 * part + i);
                const __m512i upper = _mm512_slli_epi32(bytes_of(high, e, 1), 8);
                const __m512i index = _mm512_or_si512(bytes_of(v[i / 4], 8 * (unsigned)(i % 4), 255), upper);
                const __m512i entry = look_up(iq3_s_grid, index); /* odd, 1 to 15: (15 + v) / 2 = 8 + v / 2 */
                const __m512i u = or_masked(eight, _mm512_srli_epi32(entry, 1), seven);
                const __m512i bits = _mm512_set1_epi32(i % 2 ? (int)0x80402010u : 0x08040201);
                const __mmask64 minus = _mm512_test_epi8_mask(four_times(signs[e / 8], (int)e / 2 % 4), bits);
                _mm512_store_si512(t->q[32 * half + (int)e], _mm512_mask_sub_epi8(u, minus, fifteen, u));
            }
        }
    }
    UNROLL for (unsigned j = 0; j < 4; j++)
    {
        const __m512i s0 = odd_scale(scales, 8 * j, 15), s1 = odd_scale(scales, 8 * j + 4, 15);
        const __m512i pair = _mm512_or_si512(_mm512_and_si512(s0, low), _mm512_slli_epi32(s1, 16));
        _mm512_store_si512(t->pair[j], _mm512_slli_epi32(pair, 1));
        _mm512_store_si512(t->pair8[j], pair);
        _mm512_store_si512(t->min[j], _mm512_setzero_si512());
    }
    store_d(t, first_d(src, stride), 1.0f);
    _mm512_store_ps(t->m[0], _mm512_setzero_ps());
}

/* ---- IQ1: entries of eight of three values ------------------------------------------------------- */

/* u = (scale * q + 135) / 2 with q = 8 (c - 1) plus or minus 1, c in 0 .. 2: 4 scale * c + base. */
struct iq1_scale {
    __m512i size, base; /* 4 scale as int16; base in each byte */
};

/* minus: where q is an eighth less. */
MATH_INLINE struct iq1_scale iq1_scale(__m512i scale, __mmask16 minus)
{
    const __m512i seven = _mm512_sub_epi32(_mm512_slli_epi32(scale, 3), scale);
    const __m512i nine = _mm512_mask_add_epi32(seven, minus, _mm512_slli_epi32(scale, 3), scale);
    const __m512i base = _mm512_srli_epi32(_mm512_sub_epi32(_mm512_set1_epi32(135), nine), 1);
    const __m512i four = _mm512_slli_epi32(scale, 2);
    return (struct iq1_scale){_mm512_or_si512(four, _mm512_slli_epi32(four, 16)), four_times(base, 0)};
}

MATH_INLINE void store_eight_iq1(uint8_t (*q)[64], __m512i index, struct iq1_scale s)
{
    const __m512i entry = look_up(iq1_grid, index);
    _mm512_store_si512(q[0], _mm512_add_epi8(_mm512_mullo_epi16(low_nibbles(entry), s.size), s.base));
    _mm512_store_si512(q[1], _mm512_add_epi8(_mm512_mullo_epi16(high_nibbles(entry), s.size), s.base));
}

MATH_INLINE void finish_iq1(struct tile_q8 *t, __m512 d)
{
    UNROLL for (int j = 0; j < 4; j++) _mm512_store_si512(t->min[j], _mm512_set1_epi16(-135));
    store_d(t, d, 0.125f);
}

DECLARE_UNPACK_ROWS(iq1_s)
{
    struct tile_q8 *t = tile;
    __m512i high[4];
    (void)k;
    load_words(rows_at(src, stride), 34, later(ahead, 32), 2, high);
    UNROLL for (int half = 0; half < 2; half++)
    {
        __m512i v[4];
        load_words(rows_at(src, stride), 2 + 16 * half, later(ahead, 16 * half), 1, v);
        UNROLL for (int j = 0; j < 4; j++)
        { /* 32 elements, 16 bits of high */
            const unsigned at = 16 * (unsigned)(j % 2);
            const __m512i h = high[2 * half + j / 2];
            const __mmask16 minus = _mm512_test_epi32_mask(h, _mm512_set1_epi32((int)(0x8000u << at)));
            const struct iq1_scale s = iq1_scale(odd_scale(h, at + 12, 7), minus);
            UNROLL for (unsigned i = 0; i < 4; i++)
            {
                const __m512i upper = _mm512_slli_epi32(bytes_of(h, at + 3 * i, 7), 8);
                store_eight_iq1(t->q + 32 * half + 8 * j + 2 * (int)i,
                                _mm512_or_si512(bytes_of(v[j], 8 * i, 255), upper), s);
            }
        }
    }
    finish_iq1(t, first_d(src, stride));
}

DECLARE_UNPACK_ROWS(iq1_m)
{
    struct tile_q8 *t = tile;
    const __m512i scales[2] = {gather_word(src + 48, stride), gather_word(src + 52, stride)};
    __m512i high[4];
    (void)k;
    load_words(rows_at(src, stride), 32, later(ahead, 32), 2, high);
    UNROLL for (int half = 0; half < 2; half++)
    {
        __m512i v[4];
        load_words(rows_at(src, stride), 16 * half, later(ahead, 16 * half), 1, v);
        UNROLL for (unsigned i = 0; i < 16; i++)
        { /* entries; two share a scale */
            const __m512i h = high[2 * half + (int)i / 8];
            const unsigned at = 4 * (i % 8), j = i / 2;
            const __mmask16 minus = _mm512_test_epi32_mask(h, _mm512_set1_epi32((int)(8u << at)));
            const __m512i scale = odd_scale(scales[half], 16 * (j / 4) + 3 * (j % 4), 7);
            const __m512i upper = _mm512_slli_epi32(bytes_of(h, at, 7), 8);
            store_eight_iq1(t->q + 32 * half + 2 * (int)i,
                            _mm512_or_si512(bytes_of(v[i / 4], 8 * (i % 4), 255), upper),
                            iq1_scale(scale, minus));
        }
    }
    __m512i d = bytes_of(scales[0], 12, 0xf);
    d = or_masked(d, _mm512_srli_epi32(scales[0], 24), _mm512_set1_epi32(0xf0));
    d = or_masked(d, _mm512_srli_epi32(scales[1], 4), _mm512_set1_epi32(0xf00));
    d = or_masked(d, _mm512_srli_epi32(scales[1], 16), _mm512_set1_epi32(0xf000));
    finish_iq1(t, f16_low(d));
}

/* ---- nibbles ------------------------------------------------------------------------------------- */

/* 16 bytes per row: the low nibbles' values, then the high ones'. */
MATH_INLINE void store_nibbles(uint8_t (*q)[64], const __m512i v[4], __m512i values)
{
    UNROLL for (int j = 0; j < 4; j++)
    {
        _mm512_store_si512(q[j], _mm512_shuffle_epi8(values, low_nibbles(v[j])));
        _mm512_store_si512(q[j + 4], _mm512_shuffle_epi8(values, high_nibbles(v[j])));
    }
}

DECLARE_UNPACK_ROWS(iq4_nl)
{
    const __m512i values = sixteen(iq4_values, 128);
    struct tile_q8 *t = tile;
    for (int64_t b = 0; b < k / 32; b++, src += 18, ahead = later(ahead, 18)) {
        __m512i v[4];
        load_words(rows_at(src, stride), 2, ahead, 2, v);
        store_nibbles(t->q + 8 * b, v, values);
        _mm512_store_ps(t->d[b], first_d(src, stride));
    }
}

DECLARE_UNPACK_ROWS(iq4_xs)
{
    const __m512i values = sixteen(iq4_values, 128), bias = _mm512_set1_epi32(32);
    const __m512i head = gather_word(src, stride), low = gather_word(src + 4, stride);
    struct tile_q8 *t = tile;
    (void)k;
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
    UNROLL for (int j = 0; j < 8; j++)
    {
        __m512i v[4];
        load_words(rows_at(src, stride), 8 + 16 * j, later(ahead, 17 * j), 2, v);
        store_nibbles(t->q + 8 * j, v, values);
    }
    store_d(t, f16_low(head), 1.0f);
}

/* Halves of powers of two: below 2^-126 they are subnormal. */
MATH_INLINE __m512 halves_of_e8m0(__m512i e)
{
    const __mmask16 small = _mm512_cmplt_epu32_mask(e, _mm512_set1_epi32(2));
    const __m512i normal = _mm512_slli_epi32(_mm512_sub_epi32(e, _mm512_set1_epi32(1)), 23);
    return _mm512_castsi512_ps(_mm512_mask_sllv_epi32(normal, small, _mm512_set1_epi32(0x200000), e));
}

DECLARE_UNPACK_ROWS(mxfp4)
{
    const __m512i values = sixteen(e2m1_values, 16);
    struct tile_q8 *t = tile;
    for (int64_t b = 0; b < k / 32; b++, src += 17, ahead = later(ahead, 17)) {
        __m512i v[4];
        load_words(rows_at(src, stride), 1, ahead, 2, v);
        store_nibbles(t->q + 8 * b, v, values);
        _mm512_store_ps(t->d[b], halves_of_e8m0(bytes_of(gather_word(src, stride), 0, 255)));
    }
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

/* Scales of the first and the second half of each 32: d and m. */
DECLARE_UNPACK_ROWS(nvfp4)
{
    const __m512i values = sixteen(e2m1_values, 12);
    struct tile_q8 *t = tile;
    for (int64_t b = 0; b < k / 32; b += 2, src += 36, ahead = later(ahead, 36)) {
        const __m512i scales = gather_word(src, stride);
        UNROLL for (int h = 0; h < 2; h++)
        {
            uint8_t(*q)[64] = t->q + 8 * (b + h);
            __m512i v[4];
            load_words(rows_at(src, stride), 4 + 16 * h, later(ahead, 16 * h), 2, v);
            UNROLL for (int i = 0; i < 4; i++)
            { /* 8 elements in the low nibbles of two words, 8 in the high ones */
                uint8_t(*to)[64] = q + i / 2 * 4 + i % 2;
                _mm512_store_si512(to[0], _mm512_shuffle_epi8(values, low_nibbles(v[i])));
                _mm512_store_si512(to[2], _mm512_shuffle_epi8(values, high_nibbles(v[i])));
            }
            _mm512_store_ps(t->d[b + h], halves_of_ue4m3(bytes_of(scales, 16 * (unsigned)h, 255)));
            _mm512_store_ps(t->m[b + h], halves_of_ue4m3(bytes_of(scales, 16 * (unsigned)h + 8, 255)));
        }
    }
}

/* ---- ternary digits ------------------------------------------------------------------------------ */

/* The next digit of 64 numbers, 123 too high, and what is left of them: quant_iq.c. */
MATH_INLINE __m512i next_digit(__m512i *v)
{
    const __m512i one = _mm512_set1_epi8(1);
    const __mmask64 some = _mm512_cmpge_epu8_mask(*v, _mm512_set1_epi8(86));
    const __mmask64 two = _mm512_cmpge_epu8_mask(*v, _mm512_set1_epi8((char)171));
    __m512i digit = _mm512_mask_blend_epi8(some, _mm512_set1_epi8(123), _mm512_set1_epi8(124));
    digit = _mm512_mask_add_epi8(digit, two, digit, one);
    *v = _mm512_add_epi8(_mm512_add_epi8(*v, *v), *v);
    return digit;
}

DECLARE_UNPACK_ROWS(tq1_0)
{
    struct tile_q8 *t = tile;
    __m512i v[13];
    (void)k;
    UNROLL for (int part = 0; part < 3; part++)
        load_words(rows_at(src, stride), 16 * part, later(ahead, 16 * part), part == 2 ? 2 : 1, v + 4 * part);
    v[12] = gather_word(src + 48, stride);
    UNROLL for (int i = 0; i < 13; i++)
    {
        uint8_t(*to)[64] = t->q + (i < 8 ? i : i < 12 ? 32 + i : 60);
        const int step = i < 8 ? 8 : i < 12 ? 4 : 1;
        for (int digit = 0; digit < (i < 12 ? 5 : 4); digit++)
            _mm512_store_si512(to[step * digit], next_digit(&v[i]));
    }
    store_d(t, f16_high(gather_word(src + 50, stride)), 1.0f);
}

DECLARE_UNPACK_ROWS(tq2_0)
{
    const __m512i base = _mm512_set1_epi8(123);
    struct tile_q8 *t = tile;
    (void)k;
    UNROLL for (int part = 0; part < 4; part++)
    {
        __m512i v[4];
        load_words(rows_at(src, stride), 16 * part, later(ahead, 16 * part), part == 3 ? 2 : 1, v);
        UNROLL for (int group = 0; group < 4; group++) UNROLL for (int j = 0; j < 4; j++) _mm512_store_si512(
            t->q[part / 2 * 32 + group * 8 + part % 2 * 4 + j], _mm512_add_epi8(two_bits(v[j], group), base));
    }
    store_d(t, f16_high(gather_word(src + 62, stride)), 1.0f);
}
