/* Blocks of quantised types read into vectors, one row at a time. Layouts: those of the GGUF specification,
 * as in ref/twin_blocks.c. blocks_iq_neon.h reads the newer types. The type is a constant wherever these are inlined, so each switch vanishes.
 *
 * Quants come out as they are stored, unsigned (but Q8_0); block_offset is what is to be subtracted. */
#ifndef HASTEN_KERNELS_ARM_BLOCKS_NEON_H
#define HASTEN_KERNELS_ARM_BLOCKS_NEON_H
#include "formats/quant.h"
#include "kernels/math.h"
#include <arm_neon.h>
#include <stdbool.h>

/* ---- constants of the types -------------------------------------------------------------------- */

MATH_INLINE int block_offset(uint32_t id)
{
    switch (id) {
    case QUANT_Q4_0:
        return 8;
    case QUANT_Q5_0:
        return 16;
    case QUANT_Q3_K:
        return 4;
    case QUANT_Q6_K:
        return 32;
    default:
        return 0;
    }
}

MATH_INLINE size_t block_bytes(uint32_t id)
{
    switch (id) {
    case QUANT_Q4_0:
        return 18;
    case QUANT_Q4_1:
        return 20;
    case QUANT_Q5_0:
        return 22;
    case QUANT_Q5_1:
        return 24;
    case QUANT_Q8_0:
        return 34;
    case QUANT_Q2_K:
        return 84;
    case QUANT_Q3_K:
        return 110;
    case QUANT_Q4_K:
        return 144;
    case QUANT_Q5_K:
        return 176;
    case QUANT_Q6_K:
        return 210;
    case QUANT_IQ1_S:
        return 50;
    case QUANT_IQ1_M:
        return 56;
    case QUANT_IQ2_XXS:
        return 66;
    case QUANT_IQ2_XS:
        return 74;
    case QUANT_IQ2_S:
        return 82;
    case QUANT_IQ3_XXS:
        return 98;
    case QUANT_IQ3_S:
        return 110;
    case QUANT_IQ4_NL:
        return 18;
    case QUANT_IQ4_XS:
        return 136;
    case QUANT_TQ1_0:
        return 54;
    case QUANT_TQ2_0:
        return 66;
    case QUANT_MXFP4:
        return 17;
    default:
        return 36; /* NVFP4 */
    }
}

/* Where a block's f16 scale lies; m or dmin, where there is one, lies right behind it. */
MATH_INLINE size_t block_d_at(uint32_t id)
{
    switch (id) {
    case QUANT_Q2_K:
        return 80;
    case QUANT_Q3_K:
        return 108;
    case QUANT_Q6_K:
        return 208;
    case QUANT_TQ1_0:
        return 52;
    case QUANT_TQ2_0:
        return 64;
    default:
        return 0;
    }
}

MATH_INLINE bool block_has_m(uint32_t id)
{
    return id == QUANT_Q4_1 || id == QUANT_Q5_1 || id == QUANT_Q2_K || id == QUANT_Q4_K || id == QUANT_Q5_K;
}

/* Elements of a sub-block of a 256-block. */
MATH_INLINE int block_sub(uint32_t id)
{
    return id == QUANT_Q4_K || id == QUANT_Q5_K ? 32 : 16;
}

/* ---- pieces ------------------------------------------------------------------------------------ */

MATH_INLINE uint32_t word_at(const uint8_t *p)
{
    uint32_t v;
    memcpy(&v, p, 4);
    return v;
}

/* f16 at p of 4 rows that each begin at rows[r] + at. */
MATH_INLINE float32x4_t f16_of_rows(const uint8_t *const rows[4], size_t at)
{
    uint16_t h[4];
    for (int r = 0; r < 4; r++)
        memcpy(&h[r], rows[r] + at, 2);
    return vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(h)));
}

MATH_INLINE uint8x16_t low_nibbles(uint8x16_t v)
{
    return vandq_u8(v, vdupq_n_u8(15));
}

/* (v >> by) & mask, by of either sign. */
MATH_INLINE uint8x16_t bits_of(uint8x16_t v, int by, uint8_t mask)
{
    return vandq_u8(vshlq_u8(v, vdupq_n_s8((int8_t)-by)), vdupq_n_u8(mask));
}

/* 0xff where bit 16 * half + j of bits is set, j being the lane. */
MATH_INLINE uint8x16_t spread_bits(uint32_t bits, int half)
{
    const uint64_t every = 0x0101010101010101ull;
    const uint64_t select = 0x8040201008040201ull;
    const uint64_t low = bits >> (16 * half) & 255, high = bits >> (16 * half + 8) & 255;
    const uint8x16_t v = vcombine_u8(vcreate_u8(low * every), vcreate_u8(high * every));
    return vtstq_u8(v, vcombine_u8(vcreate_u8(select), vcreate_u8(select)));
}

/* ---- 32-blocks --------------------------------------------------------------------------------- */

/* The 32 quants of a block. */
MATH_INLINE void load_old_32(uint32_t id, const uint8_t *src, int8x16_t q[2])
{
    if (id == QUANT_Q8_0) {
        q[0] = vld1q_s8((const int8_t *)src + 2);
        q[1] = vld1q_s8((const int8_t *)src + 18);
        return;
    }
    const uint8x16_t v = vld1q_u8(src + block_bytes(id) - 16);
    uint8x16_t u[2] = {low_nibbles(v), vshrq_n_u8(v, 4)};
    if (id == QUANT_Q5_0 || id == QUANT_Q5_1) {
        const uint32_t fifth = word_at(src + (id == QUANT_Q5_0 ? 2 : 4));
        for (int half = 0; half < 2; half++)
            u[half] = vorrq_u8(u[half], vandq_u8(spread_bits(fifth, half), vdupq_n_u8(16)));
    }
    q[0] = vreinterpretq_s8_u8(u[0]);
    q[1] = vreinterpretq_s8_u8(u[1]);
}

/* ---- 256-blocks -------------------------------------------------------------------------------- */

/* 64 of a block's quants: those from 64 * part on. */
MATH_INLINE void load_k_64(uint32_t id, const uint8_t *src, int part, int8x16_t q[4])
{
    const int half = part / 2, pair = part % 2;
    uint8x16_t u[4];
    for (int i = 0; i < 2; i++) { /* u[i], u[i + 2]: 16 elements each of two groups of 32 */
        if (id == QUANT_Q4_K || id == QUANT_Q5_K) {
            const uint8x16_t v = vld1q_u8(src + block_bytes(id) - 128 + part * 32 + i * 16);
            u[i] = low_nibbles(v);
            u[i + 2] = vshrq_n_u8(v, 4);
            if (id == QUANT_Q5_K) {
                const uint8x16_t h = vld1q_u8(src + 16 + i * 16);
                u[i] = vorrq_u8(u[i], bits_of(h, 2 * part - 4, 16));
                u[i + 2] = vorrq_u8(u[i + 2], bits_of(h, 2 * part - 3, 16));
            }
        } else if (id == QUANT_Q6_K) {
            const uint8x16_t h = vld1q_u8(src + 128 + half * 32 + i * 16);
            for (int g = 0; g < 2; g++) {
                const uint8x16_t v = vld1q_u8(src + half * 64 + g * 32 + i * 16);
                u[i + 2 * g] = vorrq_u8(bits_of(v, 4 * pair, 15), bits_of(h, 4 * pair + 2 * g - 4, 0x30));
            }
        } else { /* Q2_K, Q3_K */
            const uint8x16_t v = vld1q_u8(src + (id == QUANT_Q2_K ? 16 : 32) + half * 32 + i * 16);
            for (int g = 0; g < 2; g++) {
                u[i + 2 * g] = bits_of(v, 4 * pair + 2 * g, 3);
                if (id == QUANT_Q3_K)
                    u[i + 2 * g] =
                        vorrq_u8(u[i + 2 * g], bits_of(vld1q_u8(src + i * 16), 2 * part + g - 2, 4));
            }
        }
    }
    for (int i = 0; i < 4; i++)
        q[i] = vreinterpretq_s8_u8(u[i]);
}

/* Integer scales and mins of the sub-blocks: 8 or 16 of them. */
struct k_scales {
    int16x8_t scale[2], min[2];
};

MATH_INLINE int16x8_t widen_words(uint32_t low, uint32_t high)
{
    return vreinterpretq_s16_u16(vmovl_u8(vcreate_u8(low | (uint64_t)high << 32)));
}

MATH_INLINE struct k_scales load_k_scales(uint32_t id, const uint8_t *src)
{
    const uint32_t six = 0x3f3f3f3fu, four = 0x0f0f0f0fu, two = 0x30303030u;
    struct k_scales s = {{vdupq_n_s16(0), vdupq_n_s16(0)}, {vdupq_n_s16(0), vdupq_n_s16(0)}};
    if (id == QUANT_Q4_K || id == QUANT_Q5_K) {
        const uint32_t a = word_at(src + 4), b = word_at(src + 8), c = word_at(src + 12);
        s.scale[0] = widen_words(a & six, (c & four) | (a >> 2 & two));
        s.min[0] = widen_words(b & six, (c >> 4 & four) | (b >> 2 & two));
    } else if (id == QUANT_Q6_K) {
        const int8x16_t v = vld1q_s8((const int8_t *)src + 192);
        s.scale[0] = vmovl_s8(vget_low_s8(v));
        s.scale[1] = vmovl_high_s8(v);
    } else if (id == QUANT_Q3_K) {
        const uint32_t a = word_at(src + 96), b = word_at(src + 100), c = word_at(src + 104);
        const int16x8_t bias = vdupq_n_s16(32);
        s.scale[0] = vsubq_s16(widen_words((a & four) | (c << 4 & two), (b & four) | (c << 2 & two)), bias);
        s.scale[1] =
            vsubq_s16(widen_words((a >> 4 & four) | (c & two), (b >> 4 & four) | (c >> 2 & two)), bias);
    } else { /* Q2_K */
        const uint8x16_t v = vld1q_u8(src), low = low_nibbles(v), high = vshrq_n_u8(v, 4);
        s.scale[0] = vreinterpretq_s16_u16(vmovl_u8(vget_low_u8(low)));
        s.scale[1] = vreinterpretq_s16_u16(vmovl_high_u8(low));
        s.min[0] = vreinterpretq_s16_u16(vmovl_u8(vget_low_u8(high)));
        s.min[1] = vreinterpretq_s16_u16(vmovl_high_u8(high));
    }
    return s;
}

#endif
