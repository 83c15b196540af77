/* From blocks to tiles: word j of 16 rows becomes one vector; nibbles and high bits are then separated on whole
 * vectors. The words come from the file's blocks, of which 16 rows are read 16 bytes at a time and transposed, or lie
 * ready in a packed panel (kernels/packed.h). Loads never leave a block or a panel. Layouts of the blocks:
 * formats/quant.c, ref/twin_blocks.c. */
#include "kernels/x86/words_avx512.h"

MATH_INLINE void store_32(struct tile_q8 *t, int64_t b, const __m512i q[8], __m512 d)
{
    for (int j = 0; j < 8; j++)
        _mm512_store_si512(t->q[b * 8 + j], q[j]);
    _mm512_store_ps(t->d[b], d);
}

/* Where the parts of a 32-block lie, in bytes from its beginning; d is first, m, if there is, follows it. 0: the type
 * has no such part. */
struct block_32 {
    int m, high, q, q_bytes;
};

/* 8 vectors of quants. */
MATH_INLINE void quants_32(struct block_32 f, struct source s, struct ahead ahead, __m512i q[8])
{
    load_words(s, f.q, ahead, 2, q);
    if (f.q_bytes == 32) { /* signed to unsigned: + 128 */
        load_words(s, f.q + 16, later(ahead, 17), 2, q + 4);
        for (int j = 0; j < 8; j++)
            q[j] = _mm512_xor_si512(q[j], _mm512_set1_epi8(-128));
        return;
    }
    for (int j = 0; j < 4; j++) {
        q[j + 4] = high_nibbles(q[j]);
        q[j] = low_nibbles(q[j]);
    }
    if (f.high) {
        const __m512i words = load_word(s, f.high);
        for (int j = 0; j < 8; j++)
            q[j] = with_fifth_bits(q[j], words, j);
    }
}

MATH_INLINE void unpack_32(struct block_32 f, bool packed, const uint8_t *src, size_t stride, int64_t k,
                           struct ahead ahead, struct tile_q8 *t)
{
    const int bytes = f.q + f.q_bytes, first = f.m ? 0 : 2; /* d alone is no word */
    const int64_t n = k / 32, step = packed ? (bytes - first) * PANEL_ROWS : bytes;
    for (int64_t b = 0; b < n; b++, ahead = later(ahead, bytes)) {
        const struct source s = {src + b * step, stride, packed,
                                 first,          NULL,   src + n * step + b * 2 * PANEL_ROWS};
        __m512i q[8];
        quants_32(f, s, ahead, q);
        if (f.m) {
            const __m512i head = load_word(s, 0);
            store_32(t, b, q, f16_low(head));
            _mm512_store_ps(t->m[b], f16_high(head));
        } else {
            store_32(t, b, q, load_first_d(s));
        }
    }
}

#define UNPACK_32(name, ...)                                                                                 \
    MATH_INLINE void unpack_##name(bool packed, const uint8_t *src, size_t stride, int64_t k,                \
                                   struct ahead ahead, void *tile)                                           \
    {                                                                                                        \
        unpack_32((struct block_32){__VA_ARGS__}, packed, src, stride, k, ahead, tile);                      \
    }                                                                                                        \
    UNPACK(name)

UNPACK_32(q4_0, .q = 2, .q_bytes = 16)
UNPACK_32(q4_1, .m = 2, .q = 4, .q_bytes = 16)
UNPACK_32(q5_0, .high = 2, .q = 6, .q_bytes = 16)
UNPACK_32(q5_1, .m = 2, .high = 4, .q = 8, .q_bytes = 16)
UNPACK_32(q8_0, .q = 2, .q_bytes = 32)

/* ---- 256-blocks -------------------------------------------------------------------------------- */

MATH_INLINE void unpack_q4_k(bool packed, const uint8_t *src, size_t stride, int64_t k, struct ahead ahead,
                             void *tile)
{
    const struct source b = {src, stride, packed, 0, NULL, NULL};
    struct tile_q8 *t = tile;
    (void)k;
    unpack_head_6bit(b, ahead, 1, true, t);
    for (int part = 0; part < 8; part++) { /* 16 bytes: half of two sub-blocks */
        __m512i v[4];
        load_words(b, 16 + part * 16, later(ahead, 16 + part * 16), 1, v);
        for (int j = 0; j < 4; j++) {
            const int to = part / 2 * 16 + part % 2 * 4 + j;
            _mm512_store_si512(t->q[to], low_nibbles(v[j]));
            _mm512_store_si512(t->q[to + 8], high_nibbles(v[j]));
        }
    }
}
UNPACK(q4_k)

MATH_INLINE void unpack_q5_k(bool packed, const uint8_t *src, size_t stride, int64_t k, struct ahead ahead,
                             void *tile)
{
    const struct source b = {src, stride, packed, 0, NULL, NULL};
    struct tile_q8 *t = tile;
    const __m512i fifth = _mm512_set1_epi8(16);
    __m512i high[8];
    (void)k;
    unpack_head_6bit(b, ahead, 1, true, t);
    load_words(b, 16, later(ahead, 16), 1, high);
    load_words(b, 32, later(ahead, 32), 1, high + 4);
    for (int j = 0; j < 8; j++)
        high[j] = _mm512_rol_epi32(high[j], 4); /* bit 0 of each byte to bit 4 */
    for (int part = 0; part < 8; part++) {
        __m512i v[4];
        load_words(b, 48 + part * 16, later(ahead, 48 + part * 16), 1, v);
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
UNPACK(q5_k)

/* 128 elements: 64 bytes of low nibbles at ql, 32 bytes of high pairs at qh. ahead: of ql; that of qh follows from
 * the distance. */
MATH_INLINE void unpack_q6_half(struct source s, int ql, int qh, struct ahead ahead, uint8_t (*q)[64])
{
    const __m512i pair = _mm512_set1_epi8(0x30);
    for (int part = 0; part < 2; part++) { /* 16 of the 32 columns */
        __m512i a[4], b[4], h[4];
        load_words(s, ql + part * 16, later(ahead, part * 16), 1, a);
        load_words(s, ql + part * 16 + 32, later(ahead, part * 16 + 32), 1, b);
        load_words(s, qh + part * 16, later(ahead, qh - ql + part * 16), 1, h);
        for (int j = 0; j < 4; j++) {
            uint8_t(*to)[64] = q + part * 4 + j;
            _mm512_store_si512(to[0], or_masked(low_nibbles(a[j]), _mm512_slli_epi32(h[j], 4), pair));
            _mm512_store_si512(to[8], or_masked(low_nibbles(b[j]), _mm512_slli_epi32(h[j], 2), pair));
            _mm512_store_si512(to[16], or_masked(high_nibbles(a[j]), h[j], pair));
            _mm512_store_si512(to[24], or_masked(high_nibbles(b[j]), _mm512_srli_epi32(h[j], 2), pair));
        }
    }
}

MATH_INLINE void unpack_q6_k(bool packed, const uint8_t *src, size_t stride, int64_t k, struct ahead ahead,
                             void *tile)
{
    const struct source b = {src, stride, packed, 0, q6_order, src + 208 * PANEL_ROWS};
    struct tile_q8 *t = tile;
    __m512i s[4];
    (void)k;
    unpack_q6_half(b, 0, 128, ahead, t->q);
    unpack_q6_half(b, 64, 160, later(ahead, 64), t->q + 32);
    load_words(b, 192, later(ahead, 192), 1, s);
    for (int j = 0; j < 4; j++)
        store_signed_pairs(t, 2 * j, s[j]);
    _mm512_store_ps(t->d[0], load_last_d(b, 208));
}
UNPACK(q6_k)

/* Stores scale * q: the products, at most 15 * 3, fit a byte, so two are made by one 16-bit multiplication. */
MATH_INLINE void unpack_q2_k(bool packed, const uint8_t *src, size_t stride, int64_t k, struct ahead ahead,
                             void *tile)
{
    const struct source b = {src, stride, packed, 0, q2_order, NULL};
    struct tile_q8 *t = tile;
    __m512i s[4];
    (void)k;
    load_words(b, 0, ahead, 1, s);
    for (int part = 0; part < 4; part++) { /* 16 bytes: sub-blocks 8 half + 2 group + part % 2 */
        __m512i v[4];
        load_words(b, 16 + part * 16, later(ahead, 16 + part * 16), 1, v);
        for (int group = 0; group < 4; group++) {
            const int sub = part / 2 * 8 + group * 2 + part % 2;
            const __m512i scale = byte_twice(low_nibbles(s[sub / 4]), sub % 4);
            for (int j = 0; j < 4; j++)
                _mm512_store_si512(t->q[sub * 4 + j], _mm512_mullo_epi16(two_bits(v[j], group), scale));
        }
    }
    for (int j = 0; j < 4; j++)
        store_mins(t, 2 * j, high_nibbles(s[j]));
    const __m512i d = load_word(b, 80);
    _mm512_store_ps(t->d[0], f16_low(d));
    _mm512_store_ps(t->m[0], f16_high(d));
}
UNPACK(q2_k)

/* Stores what q3_quants makes. */
MATH_INLINE void unpack_q3_k(bool packed, const uint8_t *src, size_t stride, int64_t k, struct ahead ahead,
                             void *tile)
{
    const struct source b = {src, stride, packed, 0, q3_order, src + 108 * PANEL_ROWS};
    struct tile_q8 *t = tile;
    __m512i high[8], scales[4];
    (void)k;
    load_words(b, 0, ahead, 1, high);
    load_words(b, 16, later(ahead, 16), 1, high + 4);
    unpack_scales_q3(b, ahead, 1, scales);
    for (int part = 0; part < 4; part++) {
        __m512i v[4];
        load_words(b, 32 + part * 16, later(ahead, 32 + part * 16), 1, v);
        for (int group = 0; group < 4; group++) {
            const int sub = part / 2 * 8 + group * 2 + part % 2;
            const struct q3_scale scale = q3_scale(scales[sub / 4], sub % 4);
            for (int j = 0; j < 4; j++)
                _mm512_store_si512(t->q[sub * 4 + j], q3_quants(v[j], group, high[part % 2 * 4 + j],
                                                                part / 2 * 4 + group, scale));
        }
    }
    _mm512_store_ps(t->d[0], load_last_d(b, 108));
}
UNPACK(q3_k)

/* ---- float types ------------------------------------------------------------------------------- */

/* The 16-bit value i of each of 16 rows, as 32 bits: packed, or one of the last k % 8, taken one by one. */
MATH_INLINE __m512i halves_at(bool packed, const uint8_t *src, size_t stride, int64_t i, struct ahead ahead)
{
    uint16_t h[PANEL_ROWS];
    if (packed) {
        if (i % 8 == 0)
            for (int a = 0; a < AHEAD_STREAMS; a++)
                _mm_prefetch((const char *)later(ahead, i * 2).at + (size_t)a * ahead.apart, _MM_HINT_T1);
        return _mm512_cvtepu16_epi32(
            _mm256_load_si256((const __m256i *)(const void *)(src + i * 2 * PANEL_ROWS)));
    }
    for (size_t r = 0; r < PANEL_ROWS; r++)
        memcpy(&h[r], src + r * stride + (size_t)i * 2, 2);
    return _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)(const void *)h));
}

MATH_INLINE void unpack_f32(bool packed, const uint8_t *src, size_t stride, int64_t k, struct ahead ahead,
                            void *tile)
{
    struct tile_f32 *t = tile;
    const struct source b = {src, stride, packed, 0, NULL, NULL};
    int64_t i = 0;
    for (; i + 4 <= k; i += 4) {
        __m512i v[4];
        load_words(b, (int)i * 4, later(ahead, i * 4), 1, v);
        for (int j = 0; j < 4; j++)
            _mm512_store_si512(t->w[i + j], v[j]);
    }
    for (; i < k; i++)
        _mm512_store_si512(t->w[i], load_word(b, (int)i * 4));
}
UNPACK(f32)

MATH_INLINE __m512i f16_bits_to_f32(__m512i h)
{
    return _mm512_castps_si512(f16_low(h));
}

MATH_INLINE __m512i bf16_bits_to_f32(__m512i h)
{
    return _mm512_slli_epi32(h, 16);
}

/* 16-bit types: packed, the values of 16 rows lie side by side; else words hold two neighbouring ones of a row. */
#define UNPACK_16(name)                                                                                      \
    MATH_INLINE void unpack_##name(bool packed, const uint8_t *src, size_t stride, int64_t k,                \
                                   struct ahead ahead, void *tile)                                           \
    {                                                                                                        \
        struct tile_f32 *t = tile;                                                                           \
        const struct source b = {src, stride, false, 0, NULL, NULL};                                         \
        int64_t i = 0;                                                                                       \
        for (; i + 8 <= k && !packed; i += 8) {                                                              \
            __m512i v[4];                                                                                    \
            load_words(b, (int)i * 2, later(ahead, i * 2), 1, v);                                            \
            for (int j = 0; j < 4; j++) {                                                                    \
                _mm512_store_si512(t->w[i + 2 * j], name##_bits_to_f32(v[j]));                               \
                _mm512_store_si512(t->w[i + 2 * j + 1], name##_bits_to_f32(_mm512_srli_epi32(v[j], 16)));    \
            }                                                                                                \
        }                                                                                                    \
        for (; i < k; i++)                                                                                   \
            _mm512_store_si512(t->w[i], name##_bits_to_f32(halves_at(packed, src, stride, i, ahead)));       \
    }                                                                                                        \
    UNPACK(name)

UNPACK_16(f16)
UNPACK_16(bf16)
