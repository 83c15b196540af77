/* The words of blocks, of 16 rows at once, and what is done to them: shared by what makes tiles (unpack_avx512.c) and
 * what multiplies packed panels directly (few_avx512.c). Layouts of the blocks: formats/quant.c. */
#ifndef HASTEN_KERNELS_X86_WORDS_AVX512_H
#define HASTEN_KERNELS_X86_WORDS_AVX512_H
#include "kernels/x86/panel_avx512.h"
#include "kernels/x86/vec_avx512.h"

/* ---- transposition ----------------------------------------------------------------------------- */

MATH_INLINE __m512i load_4_rows(const uint8_t *p, size_t step)
{
    __m512i v = _mm512_castsi128_si512(_mm_loadu_si128((const __m128i *)(const void *)p));
    v = _mm512_mask_broadcast_i32x4(v, 0x00f0, _mm_loadu_si128((const __m128i *)(const void *)(p + step)));
    v = _mm512_mask_broadcast_i32x4(v, 0x0f00,
                                    _mm_loadu_si128((const __m128i *)(const void *)(p + 2 * step)));
    return _mm512_mask_broadcast_i32x4(v, 0xf000,
                                       _mm_loadu_si128((const __m128i *)(const void *)(p + 3 * step)));
}

/* What is to be fetched when `bytes` of each row have been unpacked. */
MATH_INLINE struct ahead later(struct ahead a, int64_t bytes)
{
    a.at += PANEL_ROWS / AHEAD_STREAMS * bytes;
    return a;
}

/* v[j] = 32-bit word j of 16 bytes of each of 16 rows. */
MATH_INLINE void load_rows(const uint8_t *p, size_t stride, __m512i v[4])
{
    const __m512i a = load_4_rows(p, 4 * stride), b = load_4_rows(p + stride, 4 * stride);
    const __m512i c = load_4_rows(p + 2 * stride, 4 * stride), d = load_4_rows(p + 3 * stride, 4 * stride);
    const __m512i ab0 = _mm512_unpacklo_epi32(a, b), ab1 = _mm512_unpackhi_epi32(a, b);
    const __m512i cd0 = _mm512_unpacklo_epi32(c, d), cd1 = _mm512_unpackhi_epi32(c, d);
    v[0] = _mm512_unpacklo_epi64(ab0, cd0);
    v[1] = _mm512_unpackhi_epi64(ab0, cd0);
    v[2] = _mm512_unpacklo_epi64(ab1, cd1);
    v[3] = _mm512_unpackhi_epi64(ab1, cd1);
}

/* The 32-bit word at p of each row. (Without optimisation GCC makes the intrinsic a macro that trips over
 * its own mask constant.) */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wsign-conversion"
MATH_INLINE __m512i gather_word(const uint8_t *p, size_t stride)
{
    const __m512i lane = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    return _mm512_i32gather_epi32(_mm512_mullo_epi32(lane, _mm512_set1_epi32((int)stride)), p, 1);
}
#pragma GCC diagnostic pop

/* Blocks of 16 rows: at p, stride bytes apart; or packed at p, where the words of a block begin with that at its
 * byte `first`, or where `order` says for each 16 bytes of it; d, when it is no part of a word, stands at d. All but
 * the pointers is known at compile time. */
struct source {
    const uint8_t *p;
    size_t stride;
    bool packed;
    int first;
    const uint8_t *order, *d;
};

/* The order of packed.c's pieces, in words. */
static const uint8_t q2_order[] = {1, 5, 9, 13, 17, 0};
static const uint8_t q3_order[] = {3, 7, 11, 15, 19, 23, 0};
static const uint8_t q6_order[] = {8, 20, 12, 24, 32, 44, 36, 48, 4, 16, 28, 40, 0};

/* Where the word at byte `at` of a packed block is. */
MATH_INLINE const uint8_t *word_at(struct source s, int at)
{
    const int word = s.order ? s.order[at / 16] + at % 16 / 4 : (at - s.first) / 4;
    return s.p + word * 4 * PANEL_ROWS;
}

/* v[j] = the word at byte at + 4 j of the block, of each row. lines: to be fetched from each stream ahead. */
MATH_INLINE void load_words(struct source s, int at, struct ahead ahead, int lines, __m512i v[4])
{
    for (int i = 0; i < AHEAD_STREAMS; i++)
        for (int l = 0; l < lines; l++)
            _mm_prefetch((const char *)ahead.at + (size_t)i * ahead.apart + 64 * l, _MM_HINT_T1);
    if (!s.packed) {
        load_rows(s.p + at, s.stride, v);
        return;
    }
    for (int j = 0; j < 4; j++)
        v[j] = _mm512_load_si512(word_at(s, at) + 64 * j);
}

MATH_INLINE __m512i load_word(struct source s, int at)
{
    return s.packed ? _mm512_load_si512(word_at(s, at)) : gather_word(s.p + at, s.stride);
}

MATH_INLINE __m512 f16_low(__m512i words)
{
    return _mm512_cvtph_ps(_mm512_cvtepi32_epi16(words));
}

MATH_INLINE __m512 f16_high(__m512i words)
{
    return f16_low(_mm512_srli_epi32(words, 16));
}

/* 16 neighbouring numbers of a packed panel. */
MATH_INLINE __m512 load_f16(const uint8_t *p)
{
    return _mm512_cvtph_ps(_mm256_load_si256((const __m256i *)(const void *)p));
}

/* d of a block in which it is the first or the last two bytes, and no part of a word of the packed form. */
MATH_INLINE __m512 load_first_d(struct source s)
{
    return s.packed ? load_f16(s.d) : f16_low(gather_word(s.p, s.stride));
}

MATH_INLINE __m512 load_last_d(struct source s, int at)
{
    return s.packed ? load_first_d(s) : f16_high(gather_word(s.p + at - 2, s.stride));
}

MATH_INLINE __m512i low_nibbles(__m512i v)
{
    return _mm512_and_si512(v, _mm512_set1_epi8(15));
}

MATH_INLINE __m512i high_nibbles(__m512i v)
{
    return low_nibbles(_mm512_srli_epi32(v, 4));
}

/* a | (b & mask) */
MATH_INLINE __m512i or_masked(__m512i a, __m512i b, __m512i mask)
{
    return _mm512_ternarylogic_epi32(a, b, mask, 0xf8);
}

/* ---- 32-blocks --------------------------------------------------------------------------------- */

/* Adds bit 4 to vector j of a 32-block: bit 4 j + b of each row's word belongs to byte b. */
MATH_INLINE __m512i with_fifth_bits(__m512i q, __m512i words, int j)
{
    const __m512i index = _mm512_add_epi8(_mm512_set4_epi32(0x0c0c0c0c, 0x08080808, 0x04040404, 0),
                                          _mm512_set1_epi8((char)(j / 2)));
    const __m512i bit = _mm512_set1_epi32(j % 2 ? (int)0x80402010u : 0x08040201);
    const __mmask64 set = _mm512_test_epi8_mask(_mm512_shuffle_epi8(words, index), bit);
    return _mm512_mask_add_epi8(q, set, q, _mm512_set1_epi8(16));
}

/* ---- 256-blocks -------------------------------------------------------------------------------- */

MATH_INLINE __m512i word_byte(__m512i words, unsigned byte)
{
    return _mm512_and_epi32(_mm512_srlv_epi32(words, _mm512_set1_epi32((int)(8 * byte))),
                            _mm512_set1_epi32(255));
}

/* Four unsigned bytes per row become scale[first ... first + 3]. */
MATH_INLINE void store_scales(struct tile_q8 *t, int first, __m512i bytes)
{
    for (int j = 0; j < 4; j++)
        _mm512_store_si512(t->scale[first + j], word_byte(bytes, (unsigned)j));
}

/* Four signed bytes per row become scale[first ... first + 3]. */
MATH_INLINE void store_signed_scales(struct tile_q8 *t, int first, __m512i bytes)
{
    for (int j = 0; j < 4; j++)
        _mm512_store_si512(t->scale[first + j],
                           _mm512_srai_epi32(_mm512_sllv_epi32(bytes, _mm512_set1_epi32(24 - 8 * j)), 24));
}

/* Four unsigned bytes per row become two vectors of pairs of 16-bit mins. */
MATH_INLINE void store_mins(struct tile_q8 *t, int first, __m512i bytes)
{
    const __m512i low = _mm512_set1_epi32(0x00ff), high = _mm512_set1_epi32(0x00ff0000);
    const __m512i upper = _mm512_srli_epi32(bytes, 16);
    _mm512_store_si512(t->min[first],
                       or_masked(_mm512_and_epi32(bytes, low), _mm512_slli_epi32(bytes, 8), high));
    _mm512_store_si512(t->min[first + 1],
                       or_masked(_mm512_and_epi32(upper, low), _mm512_slli_epi32(upper, 8), high));
}

/* Four unsigned bytes per row become pair[first], pair[first + 1], and 8 times these. */
MATH_INLINE void store_scale_pairs(struct tile_q8 *t, int first, __m512i bytes)
{
    const __m512i low = _mm512_set1_epi32(0x00ff), high = _mm512_set1_epi32(0x00ff0000);
    for (int j = 0; j < 2; j++, bytes = _mm512_srli_epi32(bytes, 16)) {
        const __m512i pair = or_masked(_mm512_and_epi32(bytes, low), _mm512_slli_epi32(bytes, 8), high);
        _mm512_store_si512(t->pair[first + j], pair);
        _mm512_store_si512(t->pair8[first + j], _mm512_slli_epi32(pair, 3));
    }
}

/* Four signed bytes per row become pair[first] and pair[first + 1]. */
MATH_INLINE void store_signed_pairs(struct tile_q8 *t, int first, __m512i bytes)
{
    for (int j = 0; j < 2; j++, bytes = _mm512_srli_epi32(bytes, 16)) {
        const __m512i high =
            _mm512_and_si512(_mm512_slli_epi32(bytes, 16), _mm512_set1_epi32((int)0xff000000u));
        const __m512i pair = or_masked(high, _mm512_slli_epi32(bytes, 8), _mm512_set1_epi32(0xff00));
        _mm512_store_si512(t->pair[first + j], _mm512_srai_epi16(pair, 8));
    }
}

/* d, dmin and 12 bytes of 6-bit scales and mins: the first 16 bytes of Q4_K and Q5_K. paired: how the scales
 * are wanted. */
MATH_INLINE void unpack_head_6bit(struct source s, struct ahead ahead, int lines, bool paired,
                                  struct tile_q8 *t)
{
    const __m512i six = _mm512_set1_epi8(63), two = _mm512_set1_epi8(0x30);
    __m512i v[4];
    load_words(s, 0, ahead, lines, v);
    _mm512_store_ps(t->d[0], f16_low(v[0]));
    _mm512_store_ps(t->m[0], f16_high(v[0]));
    const __m512i scales0 = _mm512_and_si512(v[1], six);
    const __m512i scales4 = or_masked(low_nibbles(v[3]), _mm512_srli_epi32(v[1], 2), two);
    if (paired) {
        store_scale_pairs(t, 0, scales0);
        store_scale_pairs(t, 2, scales4);
    } else {
        store_scales(t, 0, scales0);
        store_scales(t, 4, scales4);
    }
    store_mins(t, 0, _mm512_and_si512(v[2], six));
    store_mins(t, 2, or_masked(high_nibbles(v[3]), _mm512_srli_epi32(v[2], 2), two));
}

/* Byte `byte` of each row's word as both 16-bit halves of it. */
MATH_INLINE __m512i byte_twice(__m512i words, int byte)
{
    const __m512i index = _mm512_set4_epi32(0x0c0c0c0c, 0x08080808, 0x04040404, 0);
    return _mm512_maskz_shuffle_epi8(0x5555555555555555, words,
                                     _mm512_add_epi8(index, _mm512_set1_epi8((char)byte)));
}

/* 64 bytes of 2-bit quants per row: element 32 g + 16 h + i of each half of 128 stands in byte 16 h + i, at
 * bits 2 g. */
MATH_INLINE __m512i two_bits(__m512i bytes, int group)
{
    return _mm512_and_si512(_mm512_srlv_epi32(bytes, _mm512_set1_epi32(2 * group)), _mm512_set1_epi8(3));
}

/* The 16 scales of Q3_K, four bytes a row, as unsigned numbers that are 32 too high. */
MATH_INLINE void unpack_scales_q3(struct source b, struct ahead ahead, int lines, __m512i bytes[4])
{
    const __m512i pair = _mm512_set1_epi8(0x30);
    __m512i s[4];
    if (b.packed)
        for (int j = 1; j < 4; j++)
            s[j] = load_word(b, 92 + 4 * j);
    else
        load_words(b, 92, later(ahead, 92), lines, s); /* words 1 to 3 are the scales */
    bytes[0] = or_masked(low_nibbles(s[1]), _mm512_slli_epi32(s[3], 4), pair);
    bytes[1] = or_masked(low_nibbles(s[2]), _mm512_slli_epi32(s[3], 2), pair);
    bytes[2] = or_masked(high_nibbles(s[1]), s[3], pair);
    bytes[3] = or_masked(high_nibbles(s[2]), _mm512_srli_epi32(s[3], 2), pair);
}

/* What becomes of the quants of a sub-block of Q3_K: scale * (q - 4) + 124, which lies in 0 .. 252. For a negative
 * scale, scale * (q - 4) = |scale| * ((7 - q) - 3), so the products |scale| * (q or 7 - q) are at most 224 and fit
 * a byte. */
struct q3_scale {
    __m512i size, flip,
        base; /* |scale|; 7 in the bytes to be turned round; 124 - (3 or 4) |scale| in each byte */
};

/* The scale in byte `byte` of each row's word, 32 too high. */
MATH_INLINE struct q3_scale q3_scale(__m512i words, int byte)
{
    const __m512i scale = _mm512_sub_epi16(byte_twice(words, byte), _mm512_set1_epi16(32));
    const __mmask32 negative = _mm512_movepi16_mask(scale);
    struct q3_scale s;
    s.size = _mm512_abs_epi16(scale);
    s.flip = _mm512_maskz_set1_epi16(negative, 0x0707);
    const __m512i four = _mm512_slli_epi16(s.size, 2),
                  less = _mm512_mask_sub_epi16(four, negative, four, s.size);
    const __m512i base = _mm512_sub_epi16(_mm512_set1_epi16(124), less);
    s.base = _mm512_or_si512(_mm512_and_si512(base, _mm512_set1_epi16(255)), _mm512_slli_epi16(base, 8));
    return s;
}

/* The quants of group `group` of bytes, whose third bits are bit `bit` of high. */
MATH_INLINE __m512i q3_quants(__m512i bytes, int group, __m512i high, int bit, struct q3_scale s)
{
    const __m512i third =
        _mm512_and_si512(_mm512_srlv_epi32(high, _mm512_set1_epi32(bit)), _mm512_set1_epi8(1));
    const __m512i q = _mm512_or_si512(two_bits(bytes, group), _mm512_slli_epi32(third, 2));
    return _mm512_add_epi8(_mm512_mullo_epi16(_mm512_xor_si512(q, s.flip), s.size), s.base);
}

/* Defines both forms of unpacking: unpack_<name>(packed, src, stride, k, ahead, tile) from the file and packed. */
#define UNPACK(name)                                                                                         \
    DECLARE_UNPACK_ROWS(name)                                                                                \
    {                                                                                                        \
        unpack_##name(false, src, stride, k, ahead, tile);                                                   \
    }                                                                                                        \
    DECLARE_UNPACK_ROWS(name##_packed)                                                                       \
    {                                                                                                        \
        unpack_##name(true, src, stride, k, ahead, tile);                                                    \
    }

#endif
