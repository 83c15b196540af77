/* From the file's blocks to tiles: the types of 32-element blocks and the float types. 8 rows are read 16 bytes
 * at a time and transposed as 32-bit words; nibbles and high bits are then separated on whole vectors. Loads
 * never leave a block. Layouts of the blocks: formats/quant.c, ref/twin_blocks.c. */
#include "kernels/x86/panel_avx2.h"
#include "kernels/x86/rows_avx2.h"

/* ---- 32-blocks --------------------------------------------------------------------------------- */

/* 16 bytes of nibbles per row: 8 vectors. */
MATH_INLINE void nibbles_32(const uint8_t *qs, size_t stride, __m256i out[8])
{
    __m256i v[4];
    load_rows(qs, stride, v);
    for (int j = 0; j < 4; j++) {
        out[j] = low_nibbles(v[j]);
        out[j + 4] = high_nibbles(v[j]);
    }
}

/* Adds bit 4: bit 4 j + b of each row's word belongs to byte b of vector j. */
MATH_INLINE void add_fifth_bits(__m256i words, __m256i q[8])
{
    const __m256i fifth = _mm256_set1_epi8(16);
    const __m256i even = _mm256_set1_epi32(0x08040201), odd = _mm256_set1_epi32((int)0x80402010u);
    for (int byte = 0; byte < 4; byte++) {
        const __m256i first =
            _mm256_set_epi32(0x0c0c0c0c, 0x08080808, 0x04040404, 0, 0x0c0c0c0c, 0x08080808, 0x04040404, 0);
        const __m256i spread =
            _mm256_shuffle_epi8(words, _mm256_add_epi8(first, _mm256_set1_epi8((char)byte)));
        const __m256i set0 = _mm256_cmpeq_epi8(_mm256_and_si256(spread, even), even);
        const __m256i set1 = _mm256_cmpeq_epi8(_mm256_and_si256(spread, odd), odd);
        q[2 * byte] = or_masked(q[2 * byte], set0, fifth);
        q[2 * byte + 1] = or_masked(q[2 * byte + 1], set1, fifth);
    }
}

MATH_INLINE void store_32(struct tile_q8 *t, int64_t b, const __m256i q[8], __m256 d)
{
    for (int j = 0; j < 8; j++)
        store_q(t->q[b * 8 + j], q[j]);
    _mm256_store_ps(t->d[b], d);
}

DECLARE_UNPACK(unpack_q4_0)
{
    for (int64_t b = 0; b < k / 32; b++, src += 18) {
        __m256i q[8];
        nibbles_32(src + 2, stride, q);
        store_32(tile, b, q, load_halves(src, stride));
    }
}

DECLARE_UNPACK(unpack_q4_1)
{
    struct tile_q8 *t = tile;
    for (int64_t b = 0; b < k / 32; b++, src += 20) {
        __m256i q[8];
        const __m256i head = load_words(src, stride);
        nibbles_32(src + 4, stride, q);
        store_32(t, b, q, f16_low(head));
        _mm256_store_ps(t->m[b], f16_high(head));
    }
}

DECLARE_UNPACK(unpack_q5_0)
{
    for (int64_t b = 0; b < k / 32; b++, src += 22) {
        __m256i q[8];
        nibbles_32(src + 6, stride, q);
        add_fifth_bits(load_words(src + 2, stride), q);
        store_32(tile, b, q, load_halves(src, stride));
    }
}

DECLARE_UNPACK(unpack_q5_1)
{
    struct tile_q8 *t = tile;
    for (int64_t b = 0; b < k / 32; b++, src += 24) {
        __m256i q[8];
        const __m256i head = load_words(src, stride);
        nibbles_32(src + 8, stride, q);
        add_fifth_bits(load_words(src + 4, stride), q);
        store_32(t, b, q, f16_low(head));
        _mm256_store_ps(t->m[b], f16_high(head));
    }
}

/* Bytes 0, 1 and 2, 3 of each word become two vectors of pairs of int16. */
DECLARE_UNPACK(unpack_q8_0)
{
    struct tile_q16 *t = tile;
    const __m256i first =
        _mm256_broadcastsi128_si256(_mm_setr_epi8(-1, 0, -1, 1, -1, 4, -1, 5, -1, 8, -1, 9, -1, 12, -1, 13));
    const __m256i second = _mm256_broadcastsi128_si256(
        _mm_setr_epi8(-1, 2, -1, 3, -1, 6, -1, 7, -1, 10, -1, 11, -1, 14, -1, 15));
    for (int64_t b = 0; b < k / 32; b++, src += 34) {
        __m256i v[8];
        load_rows(src + 2, stride, v);
        load_rows(src + 18, stride, v + 4);
        for (int j = 0; j < 8; j++) {
            store_q(t->q[b * 16 + 2 * j], _mm256_srai_epi16(_mm256_shuffle_epi8(v[j], first), 8));
            store_q(t->q[b * 16 + 2 * j + 1], _mm256_srai_epi16(_mm256_shuffle_epi8(v[j], second), 8));
        }
        _mm256_store_ps(t->d[b], load_halves(src, stride));
    }
}

/* ---- float types ------------------------------------------------------------------------------- */

DECLARE_UNPACK(unpack_f32)
{
    struct tile_f32 *t = tile;
    int64_t i = 0;
    for (; i + 4 <= k; i += 4) {
        __m256i v[4];
        load_rows(src + i * 4, stride, v);
        for (int j = 0; j < 4; j++)
            store_q(t->w[i + j], v[j]);
    }
    for (; i < k; i++)
        store_q(t->w[i], load_words(src + i * 4, stride));
}

/* Converted row by row, then transposed as floats. */
DECLARE_UNPACK(unpack_f16)
{
    float rows[TILE_ROWS][TILE_K_F32] __attribute__((aligned(64)));
    for (size_t r = 0; r < TILE_ROWS; r++) {
        const uint8_t *h = src + r * stride;
        int64_t i = 0;
        for (; i + 8 <= k; i += 8)
            _mm256_store_ps(&rows[r][i],
                            _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)(h + i * 2))));
        for (; i < k; i++) {
            uint16_t v;
            memcpy(&v, h + i * 2, 2);
            rows[r][i] = f16_to_f32(v);
        }
    }
    unpack_f32_avx2((const uint8_t *)rows, sizeof rows[0], k, tile);
}

DECLARE_UNPACK(unpack_bf16)
{
    struct tile_f32 *t = tile;
    const __m256i upper = _mm256_set1_epi32((int)0xffff0000u);
    int64_t i = 0;
    for (; i + 8 <= k; i += 8) {
        __m256i v[4];
        load_rows(src + i * 2, stride, v);
        for (int j = 0; j < 4; j++) {
            store_q(t->w[i + 2 * j], _mm256_slli_epi32(v[j], 16));
            store_q(t->w[i + 2 * j + 1], _mm256_and_si256(v[j], upper));
        }
    }
    for (; i < k; i++) { /* the last k % 8, one value at a time */
        for (size_t r = 0; r < TILE_ROWS; r++) {
            uint16_t h;
            memcpy(&h, src + r * stride + (size_t)i * 2, 2);
            t->w[i][r] = bf16_to_f32(h);
        }
    }
}
