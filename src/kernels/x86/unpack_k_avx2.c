/* From the file's blocks to tiles: the types of 256-element blocks, Q2_K to Q6_K. As unpack_avx2.c. */
#include "kernels/x86/panel_avx2.h"
#include "kernels/x86/rows_avx2.h"

/* Byte number byte of each word as int16, twice. */
MATH_INLINE __m256i twice(__m256i words, int byte, bool is_signed)
{
    const __m256i at = _mm256_broadcastsi128_si256(
                      _mm_setr_epi8(-1, 0, -1, 0, -1, 4, -1, 4, -1, 8, -1, 8, -1, 12, -1, 12)),
                  upper = _mm256_set1_epi16((short)(byte << 8)), lower = _mm256_set1_epi16((short)byte);
    if (is_signed)
        return _mm256_srai_epi16(_mm256_shuffle_epi8(words, _mm256_add_epi8(at, upper)), 8);
    return _mm256_shuffle_epi8(words, _mm256_add_epi8(_mm256_alignr_epi8(at, at, 1), lower));
}

/* Four bytes per row become scale[first ... first + 3]. */
MATH_INLINE void store_scales(struct tile_q8 *t, int first, __m256i bytes, bool is_signed)
{
    UNROLL for (int j = 0; j < 4; j++) store_q(t->scale[first + j], twice(bytes, j, is_signed));
}

/* Four unsigned bytes per row become two vectors of pairs of 16-bit mins. */
MATH_INLINE void store_mins(struct tile_q8 *t, int first, __m256i bytes)
{
    const __m256i low = _mm256_set1_epi32(0x00ff), high = _mm256_set1_epi32(0x00ff0000);
    const __m256i upper = _mm256_srli_epi32(bytes, 16);
    store_q(t->min[first], or_masked(_mm256_and_si256(bytes, low), _mm256_slli_epi32(bytes, 8), high));
    store_q(t->min[first + 1], or_masked(_mm256_and_si256(upper, low), _mm256_slli_epi32(upper, 8), high));
}

/* d, dmin and 12 bytes of 6-bit scales and mins: the first 16 bytes of Q4_K and Q5_K. */
MATH_INLINE void unpack_head_6bit(const uint8_t *src, size_t stride, struct tile_q8 *t)
{
    const __m256i six = _mm256_set1_epi8(63), two = _mm256_set1_epi8(0x30);
    __m256i v[4];
    load_rows(src, stride, v);
    _mm256_store_ps(t->d[0], f16_low(v[0]));
    _mm256_store_ps(t->m[0], f16_high(v[0]));
    store_scales(t, 0, _mm256_and_si256(v[1], six), false);
    store_mins(t, 0, _mm256_and_si256(v[2], six));
    store_scales(t, 4, or_masked(low_nibbles(v[3]), _mm256_srli_epi32(v[1], 2), two), false);
    store_mins(t, 2, or_masked(high_nibbles(v[3]), _mm256_srli_epi32(v[2], 2), two));
}

DECLARE_UNPACK(unpack_q4_k)
{
    struct tile_q8 *t = tile;
    (void)k;
    unpack_head_6bit(src, stride, t);
    UNROLL for (int part = 0; part < 8; part++)
    { /* 16 bytes: half of two sub-blocks */
        __m256i v[4];
        load_rows(src + 16 + part * 16, stride, v);
        for (int j = 0; j < 4; j++) {
            const int to = part / 2 * 16 + part % 2 * 4 + j;
            store_q(t->q[to], low_nibbles(v[j]));
            store_q(t->q[to + 8], high_nibbles(v[j]));
        }
    }
}

DECLARE_UNPACK(unpack_q5_k)
{
    struct tile_q8 *t = tile;
    const __m256i fifth = _mm256_set1_epi8(16);
    __m256i high[8];
    (void)k;
    unpack_head_6bit(src, stride, t);
    load_rows(src + 16, stride, high);
    load_rows(src + 32, stride, high + 4);
    UNROLL for (int part = 0; part < 8; part++)
    { /* two bits of the high bytes: to bit 4 */
        const int pair = part / 2;
        __m256i v[4];
        load_rows(src + 48 + part * 16, stride, v);
        for (int j = 0; j < 4; j++) {
            const int to = pair * 16 + part % 2 * 4 + j;
            const __m256i h = high[part % 2 * 4 + j];
            const __m256i h0 =
                pair < 2 ? _mm256_slli_epi32(h, 4 - 2 * pair) : _mm256_srli_epi32(h, 2 * pair - 4);
            const __m256i h1 =
                pair < 2 ? _mm256_slli_epi32(h, 3 - 2 * pair) : _mm256_srli_epi32(h, 2 * pair - 3);
            store_q(t->q[to], or_masked(low_nibbles(v[j]), h0, fifth));
            store_q(t->q[to + 8], or_masked(high_nibbles(v[j]), h1, fifth));
        }
    }
}

/* 128 elements: 64 bytes of low nibbles, 32 bytes of high pairs. */
MATH_INLINE void unpack_q6_half(const uint8_t *ql, const uint8_t *qh, size_t stride, uint8_t (*q)[32])
{
    const __m256i pair = _mm256_set1_epi8(0x30);
    for (int part = 0; part < 2; part++) { /* 16 of the 32 columns */
        __m256i a[4], b[4], h[4];
        load_rows(ql + part * 16, stride, a);
        load_rows(ql + part * 16 + 32, stride, b);
        load_rows(qh + part * 16, stride, h);
        for (int j = 0; j < 4; j++) {
            uint8_t(*to)[32] = q + part * 4 + j;
            store_q(to[0], or_masked(low_nibbles(a[j]), _mm256_slli_epi32(h[j], 4), pair));
            store_q(to[8], or_masked(low_nibbles(b[j]), _mm256_slli_epi32(h[j], 2), pair));
            store_q(to[16], or_masked(high_nibbles(a[j]), h[j], pair));
            store_q(to[24], or_masked(high_nibbles(b[j]), _mm256_srli_epi32(h[j], 2), pair));
        }
    }
}

DECLARE_UNPACK(unpack_q6_k)
{
    struct tile_q8 *t = tile;
    __m256i s[4];
    (void)k;
    unpack_q6_half(src, src + 128, stride, t->q);
    unpack_q6_half(src + 64, src + 160, stride, t->q + 32);
    load_rows(src + 192, stride, s);
    for (int j = 0; j < 4; j++)
        store_scales(t, 4 * j, s[j], true);
    _mm256_store_ps(t->d[0], f16_high(load_words(src + 206, stride)));
}

/* 64 bytes of 2-bit quants per row; high[j] holds, at bit e / 32 of each byte, a third bit, or is NULL. */
MATH_INLINE void unpack_2bit(const uint8_t *qs, size_t stride, const __m256i *high, struct tile_q8 *t)
{
    const __m256i three = _mm256_set1_epi8(3), four = _mm256_set1_epi8(4);
    UNROLL for (int part = 0; part < 4; part++)
    { /* 16 bytes: half of 4 groups of 32 */
        __m256i v[4];
        load_rows(qs + part * 16, stride, v);
        for (int j = 0; j < 4; j++) {
            UNROLL for (int group = 0; group < 4; group++)
            {
                __m256i q = _mm256_and_si256(_mm256_srli_epi32(v[j], 2 * group), three);
                if (high) {
                    const int bit = part / 2 * 4 + group;
                    const __m256i h = high[part % 2 * 4 + j];
                    q = or_masked(q, bit < 2 ? _mm256_slli_epi32(h, 2 - bit) : _mm256_srli_epi32(h, bit - 2),
                                  four);
                }
                store_q(t->q[part / 2 * 32 + group * 8 + part % 2 * 4 + j], q);
            }
        }
    }
}

DECLARE_UNPACK(unpack_q2_k)
{
    struct tile_q8 *t = tile;
    __m256i s[4];
    (void)k;
    load_rows(src, stride, s);
    for (int j = 0; j < 4; j++) {
        store_scales(t, 4 * j, low_nibbles(s[j]), false);
        store_mins(t, 2 * j, high_nibbles(s[j]));
    }
    unpack_2bit(src + 16, stride, NULL, t);
    const __m256i d = load_words(src + 80, stride);
    _mm256_store_ps(t->d[0], f16_low(d));
    _mm256_store_ps(t->m[0], f16_high(d));
}

DECLARE_UNPACK(unpack_q3_k)
{
    struct tile_q8 *t = tile;
    const __m256i pair = _mm256_set1_epi8(0x30), bias = _mm256_set1_epi8(32);
    __m256i high[8], s[4];
    (void)k;
    load_rows(src, stride, high);
    load_rows(src + 16, stride, high + 4);
    unpack_2bit(src + 32, stride, high, t);
    load_rows(src + 92, stride, s); /* words 1 to 3 are the scales */
    const __m256i bytes[4] = {or_masked(low_nibbles(s[1]), _mm256_slli_epi32(s[3], 4), pair),
                              or_masked(low_nibbles(s[2]), _mm256_slli_epi32(s[3], 2), pair),
                              or_masked(high_nibbles(s[1]), s[3], pair),
                              or_masked(high_nibbles(s[2]), _mm256_srli_epi32(s[3], 2), pair)};
    for (int j = 0; j < 4; j++)
        store_scales(t, 4 * j, _mm256_sub_epi8(bytes[j], bias), true);
    _mm256_store_ps(t->d[0], f16_high(load_words(src + 106, stride)));
}
