/* From the file's blocks to tiles: 16 rows are read 16 bytes at a time and transposed as 32-bit words, so
 * that word j of 16 rows becomes one vector; nibbles and high bits are then separated on whole vectors.
 * Loads never leave a block. Layouts of the blocks: formats/quant.c, ref/twin_blocks.c. */
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

/* v[j] = 32-bit word j of 16 bytes of each of 16 rows. lines: to be fetched from each stream
 * ahead. */
MATH_INLINE void load_rows(const uint8_t *p, size_t stride, struct ahead ahead, int lines, __m512i v[4])
{
    for (int i = 0; i < AHEAD_STREAMS; i++)
        for (int l = 0; l < lines; l++)
            _mm_prefetch((const char *)ahead.at + (size_t)i * ahead.apart + 64 * l, _MM_HINT_T1);
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

MATH_INLINE __m512 f16_low(__m512i words)
{
    return _mm512_cvtph_ps(_mm512_cvtepi32_epi16(words));
}

MATH_INLINE __m512 f16_high(__m512i words)
{
    return f16_low(_mm512_srli_epi32(words, 16));
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

/* 16 bytes of nibbles per row: 8 vectors. */
MATH_INLINE void nibbles_32(const uint8_t *qs, size_t stride, struct ahead ahead, int lines, __m512i out[8])
{
    __m512i v[4];
    load_rows(qs, stride, ahead, lines, v);
    for (int j = 0; j < 4; j++) {
        out[j] = low_nibbles(v[j]);
        out[j + 4] = high_nibbles(v[j]);
    }
}

/* Adds bit 4: bit 4 j + b of each row's word belongs to byte b of vector j. */
MATH_INLINE void add_fifth_bits(__m512i words, __m512i q[8])
{
    const __m512i fifth = _mm512_set1_epi8(16);
    const __m512i bit_even = _mm512_set1_epi32(0x08040201), bit_odd = _mm512_set1_epi32((int)0x80402010u);
    for (int byte = 0; byte < 4; byte++) {
        const __m512i index = _mm512_add_epi8(_mm512_set4_epi32(0x0c0c0c0c, 0x08080808, 0x04040404, 0),
                                              _mm512_set1_epi8((char)byte));
        const __m512i spread = _mm512_shuffle_epi8(words, index);
        q[2 * byte] =
            _mm512_mask_add_epi8(q[2 * byte], _mm512_test_epi8_mask(spread, bit_even), q[2 * byte], fifth);
        q[2 * byte + 1] = _mm512_mask_add_epi8(q[2 * byte + 1], _mm512_test_epi8_mask(spread, bit_odd),
                                               q[2 * byte + 1], fifth);
    }
}

MATH_INLINE void store_32(struct tile_q8 *t, int64_t b, const __m512i q[8], __m512 d)
{
    for (int j = 0; j < 8; j++)
        _mm512_store_si512(t->q[b * 8 + j], q[j]);
    _mm512_store_ps(t->d[b], d);
}

void unpack_q4_0_avx512(const uint8_t *src, size_t stride, int64_t k, struct ahead ahead, void *tile)
{
    for (int64_t b = 0; b < k / 32; b++, src += 18, ahead = later(ahead, 18)) {
        __m512i q[8];
        nibbles_32(src + 2, stride, ahead, 2, q);
        store_32(tile, b, q, f16_low(gather_word(src, stride)));
    }
}

void unpack_q4_1_avx512(const uint8_t *src, size_t stride, int64_t k, struct ahead ahead, void *tile)
{
    struct tile_q8 *t = tile;
    for (int64_t b = 0; b < k / 32; b++, src += 20, ahead = later(ahead, 20)) {
        __m512i q[8];
        const __m512i head = gather_word(src, stride);
        nibbles_32(src + 4, stride, ahead, 2, q);
        store_32(t, b, q, f16_low(head));
        _mm512_store_ps(t->m[b], f16_high(head));
    }
}

void unpack_q5_0_avx512(const uint8_t *src, size_t stride, int64_t k, struct ahead ahead, void *tile)
{
    for (int64_t b = 0; b < k / 32; b++, src += 22, ahead = later(ahead, 22)) {
        __m512i q[8];
        nibbles_32(src + 6, stride, ahead, 2, q);
        add_fifth_bits(gather_word(src + 2, stride), q);
        store_32(tile, b, q, f16_low(gather_word(src, stride)));
    }
}

void unpack_q5_1_avx512(const uint8_t *src, size_t stride, int64_t k, struct ahead ahead, void *tile)
{
    struct tile_q8 *t = tile;
    for (int64_t b = 0; b < k / 32; b++, src += 24, ahead = later(ahead, 24)) {
        __m512i q[8];
        const __m512i head = gather_word(src, stride);
        nibbles_32(src + 8, stride, ahead, 2, q);
        add_fifth_bits(gather_word(src + 4, stride), q);
        store_32(t, b, q, f16_low(head));
        _mm512_store_ps(t->m[b], f16_high(head));
    }
}

void unpack_q8_0_avx512(const uint8_t *src, size_t stride, int64_t k, struct ahead ahead, void *tile)
{
    const __m512i sign = _mm512_set1_epi8(-128); /* signed to unsigned: + 128 */
    for (int64_t b = 0; b < k / 32; b++, src += 34, ahead = later(ahead, 34)) {
        __m512i q[8];
        load_rows(src + 2, stride, ahead, 2, q);
        load_rows(src + 18, stride, later(ahead, 17), 2, q + 4);
        for (int j = 0; j < 8; j++)
            q[j] = _mm512_xor_si512(q[j], sign);
        store_32(tile, b, q, f16_low(gather_word(src, stride)));
    }
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

/* d, dmin and 12 bytes of 6-bit scales and mins: the first 16 bytes of Q4_K and Q5_K. paired: how the scales
 * are wanted. */
MATH_INLINE void unpack_head_6bit(const uint8_t *src, size_t stride, struct ahead ahead, bool paired,
                                  struct tile_q8 *t)
{
    const __m512i six = _mm512_set1_epi8(63), two = _mm512_set1_epi8(0x30);
    __m512i v[4];
    load_rows(src, stride, ahead, 1, v);
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

void unpack_q4_k_avx512(const uint8_t *src, size_t stride, int64_t k, struct ahead ahead, void *tile)
{
    struct tile_q8 *t = tile;
    (void)k;
    unpack_head_6bit(src, stride, ahead, true, t);
    for (int part = 0; part < 8; part++) { /* 16 bytes: half of two sub-blocks */
        __m512i v[4];
        load_rows(src + 16 + part * 16, stride, later(ahead, 16 + part * 16), 1, v);
        for (int j = 0; j < 4; j++) {
            const int to = part / 2 * 16 + part % 2 * 4 + j;
            _mm512_store_si512(t->q[to], low_nibbles(v[j]));
            _mm512_store_si512(t->q[to + 8], high_nibbles(v[j]));
        }
    }
}

void unpack_q5_k_avx512(const uint8_t *src, size_t stride, int64_t k, struct ahead ahead, void *tile)
{
    struct tile_q8 *t = tile;
    const __m512i fifth = _mm512_set1_epi8(16);
    __m512i high[8];
    (void)k;
    unpack_head_6bit(src, stride, ahead, false, t);
    load_rows(src + 16, stride, later(ahead, 16), 1, high);
    load_rows(src + 32, stride, later(ahead, 32), 1, high + 4);
    for (int j = 0; j < 8; j++)
        high[j] = _mm512_rol_epi32(high[j], 4); /* bit 0 of each byte to bit 4 */
    for (int part = 0; part < 8; part++) {
        __m512i v[4];
        load_rows(src + 48 + part * 16, stride, later(ahead, 48 + part * 16), 1, v);
        for (int j = 0; j < 4; j++) {
            const int to = part / 2 * 16 + part % 2 * 4 + j;
            __m512i *h = &high[part % 2 * 4 + j];
            _mm512_store_si512(t->q[to], or_masked(low_nibbles(v[j]), *h, fifth));
            *h = _mm512_ror_epi32(*h, 1);
            _mm512_store_si512(t->q[to + 8], or_masked(high_nibbles(v[j]), *h, fifth));
            *h = _mm512_ror_epi32(*h, 1);
        }
    }
}

/* 128 elements: 64 bytes of low nibbles, 32 bytes of high pairs. */
/* ahead: of ql; that of qh follows from the distance. */
MATH_INLINE void unpack_q6_half(const uint8_t *ql, const uint8_t *qh, size_t stride, struct ahead ahead,
                                uint8_t (*q)[64])
{
    const __m512i pair = _mm512_set1_epi8(0x30);
    for (int part = 0; part < 2; part++) { /* 16 of the 32 columns */
        __m512i a[4], b[4], h[4];
        load_rows(ql + part * 16, stride, later(ahead, part * 16), 1, a);
        load_rows(ql + part * 16 + 32, stride, later(ahead, part * 16 + 32), 1, b);
        load_rows(qh + part * 16, stride, later(ahead, qh - ql + part * 16), 1, h);
        for (int j = 0; j < 4; j++) {
            uint8_t(*to)[64] = q + part * 4 + j;
            _mm512_store_si512(to[0], or_masked(low_nibbles(a[j]), _mm512_slli_epi32(h[j], 4), pair));
            _mm512_store_si512(to[8], or_masked(low_nibbles(b[j]), _mm512_slli_epi32(h[j], 2), pair));
            _mm512_store_si512(to[16], or_masked(high_nibbles(a[j]), h[j], pair));
            _mm512_store_si512(to[24], or_masked(high_nibbles(b[j]), _mm512_srli_epi32(h[j], 2), pair));
        }
    }
}

void unpack_q6_k_avx512(const uint8_t *src, size_t stride, int64_t k, struct ahead ahead, void *tile)
{
    struct tile_q8 *t = tile;
    __m512i s[4];
    (void)k;
    unpack_q6_half(src, src + 128, stride, ahead, t->q);
    unpack_q6_half(src + 64, src + 160, stride, later(ahead, 64), t->q + 32);
    load_rows(src + 192, stride, later(ahead, 192), 1, s);
    for (int j = 0; j < 4; j++) {
        _mm512_store_si512(t->scale[4 * j], _mm512_srai_epi32(_mm512_slli_epi32(s[j], 24), 24));
        _mm512_store_si512(t->scale[4 * j + 1], _mm512_srai_epi32(_mm512_slli_epi32(s[j], 16), 24));
        _mm512_store_si512(t->scale[4 * j + 2], _mm512_srai_epi32(_mm512_slli_epi32(s[j], 8), 24));
        _mm512_store_si512(t->scale[4 * j + 3], _mm512_srai_epi32(s[j], 24));
    }
    _mm512_store_ps(t->d[0], f16_high(gather_word(src + 206, stride)));
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

/* Stores scale * q: the products, at most 15 * 3, fit a byte, so two are made by one 16-bit multiplication. */
void unpack_q2_k_avx512(const uint8_t *src, size_t stride, int64_t k, struct ahead ahead, void *tile)
{
    struct tile_q8 *t = tile;
    __m512i s[4];
    (void)k;
    load_rows(src, stride, ahead, 1, s);
    for (int part = 0; part < 4; part++) { /* 16 bytes: sub-blocks 8 half + 2 group + part % 2 */
        __m512i v[4];
        load_rows(src + 16 + part * 16, stride, later(ahead, 16 + part * 16), 1, v);
        for (int group = 0; group < 4; group++) {
            const int sub = part / 2 * 8 + group * 2 + part % 2;
            const __m512i scale = byte_twice(low_nibbles(s[sub / 4]), sub % 4);
            for (int j = 0; j < 4; j++)
                _mm512_store_si512(t->q[sub * 4 + j], _mm512_mullo_epi16(two_bits(v[j], group), scale));
        }
    }
    for (int j = 0; j < 4; j++)
        store_mins(t, 2 * j, high_nibbles(s[j]));
    const __m512i d = gather_word(src + 80, stride);
    _mm512_store_ps(t->d[0], f16_low(d));
    _mm512_store_ps(t->m[0], f16_high(d));
}

/* The 16 scales of Q3_K, four bytes a row, as unsigned numbers that are 32 too high. */
MATH_INLINE void unpack_scales_q3(const uint8_t *src, size_t stride, struct ahead ahead, __m512i bytes[4])
{
    const __m512i pair = _mm512_set1_epi8(0x30);
    __m512i s[4];
    load_rows(src + 92, stride, later(ahead, 92), 1, s); /* words 1 to 3 are the scales */
    bytes[0] = or_masked(low_nibbles(s[1]), _mm512_slli_epi32(s[3], 4), pair);
    bytes[1] = or_masked(low_nibbles(s[2]), _mm512_slli_epi32(s[3], 2), pair);
    bytes[2] = or_masked(high_nibbles(s[1]), s[3], pair);
    bytes[3] = or_masked(high_nibbles(s[2]), _mm512_srli_epi32(s[3], 2), pair);
}

/* Stores scale * (q - 4) + 124, which lies in 0 .. 252. For a negative scale, scale * (q - 4) =
 * |scale| * ((7 - q) - 3), so the products |scale| * (q or 7 - q) are at most 224 and fit a byte. */
void unpack_q3_k_avx512(const uint8_t *src, size_t stride, int64_t k, struct ahead ahead, void *tile)
{
    const __m512i one = _mm512_set1_epi8(1);
    struct tile_q8 *t = tile;
    __m512i high[8], scales[4];
    (void)k;
    load_rows(src, stride, ahead, 1, high);
    load_rows(src + 16, stride, later(ahead, 16), 1, high + 4);
    unpack_scales_q3(src, stride, ahead, scales);
    for (int part = 0; part < 4; part++) {
        __m512i v[4];
        load_rows(src + 32 + part * 16, stride, later(ahead, 32 + part * 16), 1, v);
        for (int group = 0; group < 4; group++) {
            const int sub = part / 2 * 8 + group * 2 + part % 2;
            const __m512i scale =
                _mm512_sub_epi16(byte_twice(scales[sub / 4], sub % 4), _mm512_set1_epi16(32));
            const __m512i size = _mm512_abs_epi16(scale);
            const __mmask32 negative = _mm512_movepi16_mask(scale);
            const __m512i flip = _mm512_maskz_set1_epi16(negative, 0x0707);
            const __m512i four = _mm512_slli_epi16(size, 2),
                          less = _mm512_mask_sub_epi16(four, negative, four, size);
            const __m512i base = _mm512_sub_epi16(_mm512_set1_epi16(124), less); /* 124 - (3 or 4) |scale| */
            const __m512i bases =
                _mm512_or_si512(_mm512_and_si512(base, _mm512_set1_epi16(255)), _mm512_slli_epi16(base, 8));
            const __m512i by = _mm512_set1_epi32(part / 2 * 4 + group);
            for (int j = 0; j < 4; j++) {
                const __m512i bit = _mm512_and_si512(_mm512_srlv_epi32(high[part % 2 * 4 + j], by), one);
                const __m512i q = _mm512_or_si512(two_bits(v[j], group), _mm512_slli_epi32(bit, 2));
                const __m512i product = _mm512_mullo_epi16(_mm512_xor_si512(q, flip), size);
                _mm512_store_si512(t->q[sub * 4 + j], _mm512_add_epi8(product, bases));
            }
        }
    }
    _mm512_store_ps(t->d[0], f16_high(gather_word(src + 106, stride)));
}

/* ---- float types ------------------------------------------------------------------------------- */

void unpack_f32_avx512(const uint8_t *src, size_t stride, int64_t k, struct ahead ahead, void *tile)
{
    struct tile_f32 *t = tile;
    int64_t i = 0;
    for (; i + 4 <= k; i += 4) {
        __m512i v[4];
        load_rows(src + i * 4, stride, later(ahead, i * 4), 1, v);
        for (int j = 0; j < 4; j++)
            _mm512_store_si512(t->w[i + j], v[j]);
    }
    for (; i < k; i++)
        _mm512_store_si512(t->w[i], gather_word(src + i * 4, stride));
}

/* The last k % 8 columns of 16-bit types, one value at a time. */
static void unpack_16bit_tail(const uint8_t *src, size_t stride, int64_t from, int64_t k,
                              float (*convert)(uint16_t), struct tile_f32 *t)
{
    for (int64_t i = from; i < k; i++) {
        for (size_t r = 0; r < PANEL_ROWS; r++) {
            uint16_t h;
            memcpy(&h, src + r * stride + (size_t)i * 2, 2);
            t->w[i][r] = convert(h);
        }
    }
}

void unpack_f16_avx512(const uint8_t *src, size_t stride, int64_t k, struct ahead ahead, void *tile)
{
    struct tile_f32 *t = tile;
    int64_t i = 0;
    for (; i + 8 <= k; i += 8) {
        __m512i v[4];
        load_rows(src + i * 2, stride, later(ahead, i * 2), 1, v);
        for (int j = 0; j < 4; j++) {
            _mm512_store_ps(t->w[i + 2 * j], f16_low(v[j]));
            _mm512_store_ps(t->w[i + 2 * j + 1], f16_high(v[j]));
        }
    }
    unpack_16bit_tail(src, stride, i, k, f16_to_f32, t);
}

void unpack_bf16_avx512(const uint8_t *src, size_t stride, int64_t k, struct ahead ahead, void *tile)
{
    struct tile_f32 *t = tile;
    const __m512i upper = _mm512_set1_epi32((int)0xffff0000u);
    int64_t i = 0;
    for (; i + 8 <= k; i += 8) {
        __m512i v[4];
        load_rows(src + i * 2, stride, later(ahead, i * 2), 1, v);
        for (int j = 0; j < 4; j++) {
            _mm512_store_si512(t->w[i + 2 * j], _mm512_slli_epi32(v[j], 16));
            _mm512_store_si512(t->w[i + 2 * j + 1], _mm512_and_epi32(v[j], upper));
        }
    }
    unpack_16bit_tail(src, stride, i, k, bf16_to_f32, t);
}
