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
#include "kernels/x86/words_iq_avx512.h"

/* ---- pieces ------------------------------------------------------------------------------------ */

/* A block of words_bytes bytes in words, which begin at byte `first`, and perhaps d outside them. */
MATH_INLINE struct source block_at(bool packed, const uint8_t *src, size_t stride, int first, int words_bytes)
{
    return (struct source){src, stride, packed, first, NULL, src + words_bytes * PANEL_ROWS};
}

#define DEFINE_UNPACK(name)                                                                                  \
    MATH_INLINE void unpack_##name(bool packed, const uint8_t *src, size_t stride, int64_t k,                \
                                   struct ahead ahead, void *tile)

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

DEFINE_UNPACK(iq2_xxs)
{
    const struct source from = block_at(packed, src, stride, 2, 64);
    struct tile_q8 *t = tile;
    (void)k;
    UNROLL for (int part = 0; part < 4; part++)
    { /* 64 elements */
        const int at = 2 + 16 * part;
        __m512i v[4];
        load_words(from, at, later(ahead, at - 2), part ? 1 : 2, v);
        UNROLL for (int h = 0; h < 2; h++)
        {
            const __m512i signs = even_signs(spread_sevens(v[2 * h + 1]));
            UNROLL for (int i = 0; i < 4; i++)
                store_eight(t->q + 16 * part + 8 * h + 2 * i,
                            look_up(iq2_xxs_grid, bytes_of(v[2 * h], 8 * (unsigned)i, 255)), signs, i);
        }
        store_two(t, 2 * part, odd_scale(v[1], 28, 15), odd_scale(v[3], 28, 15), IQ_OFFSET);
    }
    store_d(t, load_first_d(from), 0.125f);
}
UNPACK(iq2_xxs)

/* 16 scales of four bits from byte `at` of the block on. */
MATH_INLINE void store_nibble_scales(struct tile_q8 *t, struct source from, int at)
{
    UNROLL for (int h = 0; h < 2; h++)
    {
        const __m512i w = load_word(from, at + 4 * h);
        UNROLL for (unsigned j = 0; j < 8; j += 2)
            store_two(t, 8 * h + (int)j, odd_scale(w, 4 * j, 15), odd_scale(w, 4 * j + 4, 15), IQ_OFFSET);
    }
}

DEFINE_UNPACK(iq2_xs)
{
    const struct source from = block_at(packed, src, stride, 2, 72);
    struct tile_q8 *t = tile;
    (void)k;
    UNROLL for (int part = 0; part < 4; part++)
    {
        const int at = 2 + 16 * part;
        __m512i v[4];
        load_words(from, at, later(ahead, at - 2), part == 3 ? 2 : 1, v);
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
    store_nibble_scales(t, from, 66);
    store_d(t, load_first_d(from), 0.125f);
}
UNPACK(iq2_xs)

DEFINE_UNPACK(iq2_s)
{
    const struct source from = block_at(packed, src, stride, 2, 80);
    struct tile_q8 *t = tile;
    (void)k;
    UNROLL for (int half = 0; half < 2; half++)
    { /* 16 entries */
        __m512i low[4], signs[4];
        load_words(from, 2 + 16 * half, later(ahead, 16 * half), 1, low);
        load_words(from, 34 + 16 * half, later(ahead, 32 + 24 * half), 2, signs);
        const __m512i high = load_word(from, 66 + 4 * half);
        UNROLL for (int i = 0; i < 16; i++)
        {
            const __m512i upper = _mm512_slli_epi32(bytes_of(high, 2 * (unsigned)i, 3), 8);
            const __m512i index = _mm512_or_si512(bytes_of(low[i / 4], 8 * (unsigned)(i % 4), 255), upper);
            store_eight(t->q + 32 * half + 2 * i, look_up(iq2_s_grid, index), signs[i / 4], i % 4);
        }
    }
    store_nibble_scales(t, from, 74);
    store_d(t, load_first_d(from), 0.125f);
}
UNPACK(iq2_s)

/* ---- IQ3: entries of four values ----------------------------------------------------------------- */

DEFINE_UNPACK(iq3_xxs)
{
    const struct source from = block_at(packed, src, stride, 2, 96);
    const __m512i offset = _mm512_set1_epi8(IQ_OFFSET);
    struct tile_q8 *t = tile;
    (void)k;
    UNROLL for (int half = 0; half < 2; half++)
    {
        __m512i rest[4];
        load_words(from, 66 + 16 * half, later(ahead, 64 + 16 * half), 1, rest);
        UNROLL for (int j = 0; j < 4; j++) /* before the loops below, in which the words are used up */
            if (j % 2 == 0) store_two(t, 4 * half + j, odd_scale(rest[j], 28, 15),
                                      odd_scale(rest[j + 1], 28, 15), IQ_OFFSET);
        UNROLL for (int part = 0; part < 2; part++)
        { /* 64 elements */
            const int at = 2 + 32 * half + 16 * part;
            __m512i v[4];
            load_words(from, at, later(ahead, at - 2), 1, v);
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
    store_d(t, load_first_d(from), 0.25f);
}
UNPACK(iq3_xxs)

DEFINE_UNPACK(iq3_s)
{
    const struct source from = block_at(packed, src, stride, 2, 108);
    const __m512i seven = _mm512_set1_epi8(7), fifteen = _mm512_set1_epi8(15), eight = _mm512_set1_epi8(8);
    const __m512i scales = load_word(from, 106), low = _mm512_set1_epi32(0xffff);
    struct tile_q8 *t = tile;
    (void)k;
    UNROLL for (int half = 0; half < 2; half++)
    { /* 32 entries */
        const __m512i high = load_word(from, 66 + 4 * half);
        __m512i signs[4];
        load_words(from, 74 + 16 * half, later(ahead, 72 + 18 * half), 2, signs);
        UNROLL for (int part = 0; part < 2; part++)
        {
            const int at = 2 + 32 * half + 16 * part;
            __m512i v[4];
            load_words(from, at, later(ahead, at - 2), 1, v);
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
    store_d(t, load_first_d(from), 1.0f);
    _mm512_store_ps(t->m[0], _mm512_setzero_ps());
}
UNPACK(iq3_s)

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

DEFINE_UNPACK(iq1_s)
{
    const struct source from = block_at(packed, src, stride, 2, 48);
    struct tile_q8 *t = tile;
    __m512i high[4];
    (void)k;
    load_words(from, 34, later(ahead, 32), 2, high);
    UNROLL for (int half = 0; half < 2; half++)
    {
        __m512i v[4];
        load_words(from, 2 + 16 * half, later(ahead, 16 * half), 1, v);
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
    finish_iq1(t, load_first_d(from));
}
UNPACK(iq1_s)

DEFINE_UNPACK(iq1_m)
{
    const struct source from = block_at(packed, src, stride, 0, 56);
    struct tile_q8 *t = tile;
    const __m512i scales[2] = {load_word(from, 48), load_word(from, 52)};
    __m512i high[4];
    (void)k;
    load_words(from, 32, later(ahead, 32), 2, high);
    UNROLL for (int half = 0; half < 2; half++)
    {
        __m512i v[4];
        load_words(from, 16 * half, later(ahead, 16 * half), 1, v);
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
UNPACK(iq1_m)

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

DEFINE_UNPACK(iq4_nl)
{
    const __m512i values = sixteen(iq4_values, 128);
    struct tile_q8 *t = tile;
    const int64_t n = k / 32, step = packed ? 16 * PANEL_ROWS : 18;
    for (int64_t b = 0; b < n; b++, ahead = later(ahead, 18)) {
        const struct source from = {
            src + b * step, stride, packed, 2, NULL, src + (n * 16 + b * 2) * PANEL_ROWS};
        __m512i v[4];
        load_words(from, 2, ahead, 2, v);
        store_nibbles(t->q + 8 * b, v, values);
        _mm512_store_ps(t->d[b], load_first_d(from));
    }
}
UNPACK(iq4_nl)

DEFINE_UNPACK(iq4_xs)
{
    const struct source from = block_at(packed, src, stride, 0, 136);
    const __m512i values = sixteen(iq4_values, 128);
    struct tile_q8 *t = tile;
    (void)k;
    store_head_iq4_xs(t, load_word(from, 0), load_word(from, 4));
    UNROLL for (int j = 0; j < 8; j++)
    {
        __m512i v[4];
        load_words(from, 8 + 16 * j, later(ahead, 17 * j), 2, v);
        store_nibbles(t->q + 8 * j, v, values);
    }
}
UNPACK(iq4_xs)

DEFINE_UNPACK(mxfp4)
{
    const __m512i values = sixteen(e2m1_values, 16);
    struct tile_q8 *t = tile;
    const int64_t n = k / 32, step = packed ? 16 * PANEL_ROWS : 17;
    for (int64_t b = 0; b < n; b++, ahead = later(ahead, 17)) {
        const struct source from = {src + b * step, stride, packed, 1, NULL, NULL};
        const uint8_t *e = src + (n * 16 + b) * PANEL_ROWS;
        __m512i v[4];
        load_words(from, 1, ahead, 2, v);
        store_nibbles(t->q + 8 * b, v, values);
        _mm512_store_ps(t->d[b],
                        halves_of_e8m0(packed ? load_bytes(e) : bytes_of(load_word(from, 0), 0, 255)));
    }
}
UNPACK(mxfp4)

/* Scales of the first and the second half of each 32: d and m. */
DEFINE_UNPACK(nvfp4)
{
    const __m512i values = sixteen(e2m1_values, 12);
    struct tile_q8 *t = tile;
    for (int64_t b = 0; b < k / 32; b += 2, src += 36 * (packed ? PANEL_ROWS : 1), ahead = later(ahead, 36)) {
        const struct source from = block_at(packed, src, stride, 0, 36);
        const __m512i scales = load_word(from, 0);
        UNROLL for (int h = 0; h < 2; h++)
        {
            uint8_t(*q)[64] = t->q + 8 * (b + h);
            __m512i v[4];
            load_words(from, 4 + 16 * h, later(ahead, 16 * h), 2, v);
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
UNPACK(nvfp4)

/* ---- ternary digits ------------------------------------------------------------------------------ */

DEFINE_UNPACK(tq1_0)
{
    const struct source from = block_at(packed, src, stride, 0, 52);
    struct tile_q8 *t = tile;
    __m512i v[13];
    (void)k;
    UNROLL for (int part = 0; part < 3; part++)
        load_words(from, 16 * part, later(ahead, 16 * part), part == 2 ? 2 : 1, v + 4 * part);
    v[12] = load_word(from, 48);
    UNROLL for (int i = 0; i < 13; i++)
    {
        uint8_t(*to)[64] = t->q + (i < 8 ? i : i < 12 ? 32 + i : 60);
        const int step = i < 8 ? 8 : i < 12 ? 4 : 1;
        for (int digit = 0; digit < (i < 12 ? 5 : 4); digit++)
            _mm512_store_si512(to[step * digit], next_digit(&v[i], 123));
    }
    store_d(t, load_last_d(from, 52), 1.0f);
}
UNPACK(tq1_0)

DEFINE_UNPACK(tq2_0)
{
    const struct source from = block_at(packed, src, stride, 0, 64);
    const __m512i base = _mm512_set1_epi8(123);
    struct tile_q8 *t = tile;
    (void)k;
    UNROLL for (int part = 0; part < 4; part++)
    {
        __m512i v[4];
        load_words(from, 16 * part, later(ahead, 16 * part), part == 3 ? 2 : 1, v);
        UNROLL for (int group = 0; group < 4; group++) UNROLL for (int j = 0; j < 4; j++) _mm512_store_si512(
            t->q[part / 2 * 32 + group * 8 + part % 2 * 4 + j], _mm512_add_epi8(two_bits(v[j], group), base));
    }
    store_d(t, load_last_d(from, 64), 1.0f);
}
UNPACK(tq2_0)
