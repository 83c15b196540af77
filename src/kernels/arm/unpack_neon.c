/* Makes tiles (panel_neon.h) of 16 rows from the file's blocks: each row's quants are laid out in order, then
 * words of 4 are transposed over 4 rows at a time. */
#include "kernels/arm/blocks_iq_neon.h"
#include "kernels/arm/panel_neon.h"

/* 4 rows of 4 words become 4 vectors, each with the same word of all rows. */
MATH_INLINE void transpose_4(int32x4_t v[4])
{
    const int64x2_t a = vreinterpretq_s64_s32(vtrn1q_s32(v[0], v[1]));
    const int64x2_t b = vreinterpretq_s64_s32(vtrn2q_s32(v[0], v[1]));
    const int64x2_t c = vreinterpretq_s64_s32(vtrn1q_s32(v[2], v[3]));
    const int64x2_t d = vreinterpretq_s64_s32(vtrn2q_s32(v[2], v[3]));
    v[0] = vreinterpretq_s32_s64(vtrn1q_s64(a, c));
    v[1] = vreinterpretq_s32_s64(vtrn1q_s64(b, d));
    v[2] = vreinterpretq_s32_s64(vtrn2q_s64(a, c));
    v[3] = vreinterpretq_s32_s64(vtrn2q_s64(b, d));
}

/* n quants (a multiple of 16) of 4 rows into words first_word on of a tile, at rows row .. row + 3. */
MATH_INLINE void interleave(int8_t (*rows)[TILE_K], int n, int first_word, int row, struct tile_q8 *t)
{
    for (int at = 0; at < n; at += 16) {
        int32x4_t v[4];
        for (int r = 0; r < 4; r++)
            v[r] = vreinterpretq_s32_s8(vld1q_s8(rows[r] + at));
        transpose_4(v);
        for (int i = 0; i < 4; i++)
            vst1q_s8(t->q[first_word + at / 4 + i] + 4 * row, vreinterpretq_s8_s32(v[i]));
    }
}

MATH_INLINE void unpack_32(uint32_t id, const uint8_t *const rows[PANEL_ROWS], int64_t k, struct tile_q8 *t)
{
    const int8x16_t offset = vdupq_n_s8((int8_t)block_offset(id));
    for (int b = 0; b < (int)(k / 32); b++) {
        const size_t at = (size_t)b * block_bytes(id);
        for (int row = 0; row < PANEL_ROWS; row += 4) {
            int8_t lines[4][TILE_K];
            for (int r = 0; r < 4; r++) {
                int8x16_t q[2];
                load_32(id, rows[row + r] + at, q);
                vst1q_s8(lines[r], vsubq_s8(q[0], offset));
                vst1q_s8(lines[r] + 16, vsubq_s8(q[1], offset));
            }
            interleave(lines, 32, 8 * b, row, t);
            vst1q_f32(t->d[b] + row, d_of_rows(id, rows + row, at));
            if (block_has_m(id))
                vst1q_f32(t->m[b] + row, f16_of_rows(rows + row, at + 2));
        }
    }
}

MATH_INLINE void store_scales(uint32_t id, struct k_scales s, int row, struct tile_q8 *t)
{
    int16_t scale[16], min[16];
    for (int i = 0; i < 2; i++) {
        vst1q_s16(scale + 8 * i, s.scale[i]);
        vst1q_s16(min + 8 * i, s.min[i]);
    }
    for (int j = 0; j < 256 / block_sub(id); j++) {
        t->scale[j][row] = scale[j];
        if (block_has_m(id))
            t->min[j][row] = min[j];
    }
}

MATH_INLINE void unpack_256(uint32_t id, const uint8_t *const rows[PANEL_ROWS], struct tile_q8 *t)
{
    const int8x16_t offset = vdupq_n_s8((int8_t)block_offset(id));
    for (int row = 0; row < PANEL_ROWS; row += 4) {
        int8_t lines[4][TILE_K];
        for (int r = 0; r < 4; r++) {
            for (int part = 0; part < 4; part++) {
                int8x16_t q[4];
                load_64(id, rows[row + r], part, q);
                for (int i = 0; i < 4; i++)
                    vst1q_s8(lines[r] + part * 64 + i * 16, vsubq_s8(q[i], offset));
            }
            store_scales(id, load_scales(id, rows[row + r]), row + r, t);
        }
        interleave(lines, TILE_K, 0, row, t);
        vst1q_f32(t->d[0] + row, d_of_rows(id, rows + row, 0));
        if (block_has_m(id))
            vst1q_f32(t->m[0] + row, f16_of_rows(rows + row, block_d_at(id) + 2));
    }
}

#define UNPACK_32(type, id)                                                                                  \
    DECLARE_UNPACK(type)                                                                                     \
    {                                                                                                        \
        unpack_32(id, rows, k, tile);                                                                        \
    }
#define UNPACK_256(type, id)                                                                                 \
    DECLARE_UNPACK(type)                                                                                     \
    {                                                                                                        \
        (void)k;                                                                                             \
        unpack_256(id, rows, tile);                                                                          \
    }
UNPACK_32(q4_0, QUANT_Q4_0)
UNPACK_32(q4_1, QUANT_Q4_1)
UNPACK_32(q5_0, QUANT_Q5_0)
UNPACK_32(q5_1, QUANT_Q5_1)
UNPACK_32(q8_0, QUANT_Q8_0)
UNPACK_256(q2_k, QUANT_Q2_K)
UNPACK_256(q3_k, QUANT_Q3_K)
UNPACK_256(q4_k, QUANT_Q4_K)
UNPACK_256(q5_k, QUANT_Q5_K)
UNPACK_256(q6_k, QUANT_Q6_K)
UNPACK_32(iq4_nl, QUANT_IQ4_NL)
UNPACK_32(mxfp4, QUANT_MXFP4)
UNPACK_256(iq1_s, QUANT_IQ1_S)
UNPACK_256(iq1_m, QUANT_IQ1_M)
UNPACK_256(iq2_xxs, QUANT_IQ2_XXS)
UNPACK_256(iq2_xs, QUANT_IQ2_XS)
UNPACK_256(iq2_s, QUANT_IQ2_S)
UNPACK_256(iq3_xxs, QUANT_IQ3_XXS)
UNPACK_256(iq3_s, QUANT_IQ3_S)
UNPACK_256(iq4_xs, QUANT_IQ4_XS)
UNPACK_256(tq1_0, QUANT_TQ1_0)
UNPACK_256(tq2_0, QUANT_TQ2_0)

/* Blocks of 64; scales of the first and the second half of each 32: d and m. */
DECLARE_UNPACK(nvfp4)
{
    struct tile_q8 *t = tile;
    for (int64_t at = 0; at < k; at += 64) {
        for (int row = 0; row < PANEL_ROWS; row += 4) {
            int8_t lines[4][TILE_K];
            for (int r = 0; r < 4; r++) {
                const uint8_t *src = rows[row + r] + at / 64 * 36;
                for (int h = 0; h < 4; h++) { /* 8 elements in low nibbles, 8 in high ones */
                    const uint8x8_t v = vld1_u8(src + 4 + 8 * h);
                    const uint8x16_t codes = vcombine_u8(vand_u8(v, vdup_n_u8(15)), vshr_n_u8(v, 4));
                    vst1q_s8(lines[r] + 16 * h, values_of(e2m1_values, codes));
                    (h % 2 ? t->m : t->d)[at / 32 + h / 2][row + r] = ue4m3_half(src[h]);
                }
            }
            interleave(lines, 64, (int)at / 4, row, t);
        }
    }
}

/* ---- float types ------------------------------------------------------------------------------- */

/* 4 values from element i on. */
MATH_INLINE float32x4_t load_floats(uint32_t id, const uint8_t *row, int64_t i)
{
    if (id == QUANT_F32)
        return vreinterpretq_f32_u8(vld1q_u8(row + 4 * i));
    const uint16x4_t h = vreinterpret_u16_u8(vld1_u8(row + 2 * i));
    if (id == QUANT_F16)
        return vcvt_f32_f16(vreinterpret_f16_u16(h));
    return vreinterpretq_f32_u32(vshll_n_u16(h, 16));
}

MATH_INLINE float load_float(uint32_t id, const uint8_t *row, int64_t i)
{
    uint16_t h;
    if (id == QUANT_F32)
        return bits_f32(word_at(row + 4 * i));
    memcpy(&h, row + 2 * i, 2);
    return id == QUANT_F16 ? f16_to_f32(h) : bf16_to_f32(h);
}

MATH_INLINE void unpack_floats(uint32_t id, const uint8_t *const rows[PANEL_ROWS], int64_t k,
                               struct tile_f32 *t)
{
    for (int row = 0; row < PANEL_ROWS; row += 4) {
        int64_t at = 0;
        for (; at + 4 <= k; at += 4) {
            int32x4_t v[4];
            for (int r = 0; r < 4; r++)
                v[r] = vreinterpretq_s32_f32(load_floats(id, rows[row + r], at));
            transpose_4(v);
            for (int i = 0; i < 4; i++)
                vst1q_f32(t->w[at + i] + row, vreinterpretq_f32_s32(v[i]));
        }
        for (; at < k; at++)
            for (int r = 0; r < 4; r++)
                t->w[at][row + r] = load_float(id, rows[row + r], at);
    }
}

#define UNPACK_FLOATS(type, id)                                                                              \
    DECLARE_UNPACK(type)                                                                                     \
    {                                                                                                        \
        unpack_floats(id, rows, k, tile);                                                                    \
    }
UNPACK_FLOATS(f32, QUANT_F32)
UNPACK_FLOATS(f16, QUANT_F16)
UNPACK_FLOATS(bf16, QUANT_BF16)
