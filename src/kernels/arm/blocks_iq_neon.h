/* Blocks of the codebook, ternary and four-bit float types read into vectors, as blocks_neon.h does it for the others;
 * and for all types what is behind one name. Layouts: formats/quant_iq.c. Quants come out signed, as they are. */
#ifndef HASTEN_KERNELS_ARM_BLOCKS_IQ_NEON_H
#define HASTEN_KERNELS_ARM_BLOCKS_IQ_NEON_H
#include "formats/quant_iq.h"
#include "kernels/arm/blocks_neon.h"

MATH_INLINE bool block_is_32(uint32_t id)
{
    return id < QUANT_Q2_K || id == QUANT_IQ4_NL || id == QUANT_MXFP4;
}

MATH_INLINE uint32_t half_at(const uint8_t *p)
{
    uint16_t v;
    memcpy(&v, p, 2);
    return v;
}

MATH_INLINE int8x16_t values_of(const int8_t values[16], uint8x16_t codes)
{
    return vqtbl1q_s8(vld1q_s8(values), codes);
}

/* ---- 16 elements of a codebook type ------------------------------------------------------------- */

/* Two entries of eight numbers. */
MATH_INLINE uint8x16_t eights(uint32_t a, uint32_t b)
{
    const uint32x4_t v = {a, b, 0, 0};
    const uint8x16_t w = vreinterpretq_u8_u32(v);
    return vreinterpretq_u8_u32(
        vzip1q_u32(vreinterpretq_u32_u8(low_nibbles(w)), vreinterpretq_u32_u8(vshrq_n_u8(w, 4))));
}

/* Negates the lanes whose bit of signs is set. */
MATH_INLINE int8x16_t signed_by(uint8x16_t q, uint32_t signs)
{
    const uint8x16_t minus = spread_bits(signs, 0);
    return vreinterpretq_s8_u8(vsubq_u8(veorq_u8(q, minus), minus));
}

/* Two times seven bits of signs, as 16. */
MATH_INLINE uint32_t signs_16(uint32_t first, uint32_t second)
{
    return quant_eight_signs(first & 127) | quant_eight_signs(second & 127) << 8;
}

MATH_INLINE int8x16_t iq2_16(uint32_t a, uint32_t b, uint32_t signs)
{
    const uint8x16_t values =
        vreinterpretq_u8_u64(vcombine_u64(vcreate_u64(8 | 25 << 8 | 43 << 16), vcreate_u64(0)));
    return signed_by(vqtbl1q_u8(values, eights(a, b)), signs);
}

MATH_INLINE int8x16_t iq3_16(const uint32_t *grid, const uint32_t index[4], uint32_t signs)
{
    const uint32x4_t v = {grid[index[0]], grid[index[1]], grid[index[2]], grid[index[3]]};
    return signed_by(vreinterpretq_u8_u32(v), signs);
}

/* minus: bit 0, 1: whether the first, the second eight numbers are an eighth less, not more. */
MATH_INLINE int8x16_t iq1_16(uint32_t a, uint32_t b, uint32_t minus)
{
    const uint8x8_t first = vdup_n_u8((uint8_t)(7 + 2 * (minus & 1))),
                    second = vdup_n_u8((uint8_t)(7 + (minus & 2)));
    const uint8x16_t codes = eights(iq1_grid[a], iq1_grid[b]);
    return vreinterpretq_s8_u8(vsubq_u8(vshlq_n_u8(codes, 3), vcombine_u8(first, second)));
}

/* Elements 16 g on of a block. */
MATH_INLINE int8x16_t codebook_16(uint32_t id, const uint8_t *src, int g)
{
    const uint8_t *pair = src + 2 + 2 * g; /* IQ1_S, IQ2_S: low bits of two entries */
    if (id == QUANT_IQ2_XXS) {
        const uint8_t *index = src + 2 + 8 * (g / 2) + g % 2 * 2;
        const uint32_t rest = word_at(src + 6 + 8 * (g / 2)) >> (g % 2 * 14);
        return iq2_16(iq2_xxs_grid[index[0]], iq2_xxs_grid[index[1]], signs_16(rest, rest >> 7));
    }
    if (id == QUANT_IQ2_XS) {
        const uint32_t w = word_at(src + 2 + 4 * g);
        return iq2_16(iq2_xs_grid[w & 511], iq2_xs_grid[w >> 16 & 511], signs_16(w >> 9, w >> 25));
    }
    if (id == QUANT_IQ2_S) {
        const uint32_t high = (uint32_t)src[66 + g / 2] >> (g % 2 * 4);
        return iq2_16(iq2_s_grid[pair[0] | (high & 3) << 8], iq2_s_grid[pair[1] | (high & 12) << 6],
                      half_at(src + 34 + 2 * g));
    }
    if (id == QUANT_IQ3_XXS || id == QUANT_IQ3_S) {
        const uint8_t *low = src + 2 + 4 * g;
        const uint32_t high = (uint32_t)src[66 + g / 2] >> (g % 2 * 4);
        const uint32_t rest = word_at(src + 66 + 4 * (g / 2)) >> (g % 2 * 14);
        uint32_t index[4];
        for (int i = 0; i < 4; i++)
            index[i] = low[i] | (id == QUANT_IQ3_S ? (high >> i & 1) << 8 : 0);
        return id == QUANT_IQ3_S ? iq3_16(iq3_s_grid, index, half_at(src + 74 + 2 * g))
                                 : iq3_16(iq3_xxs_grid, index, signs_16(rest, rest >> 7));
    }
    if (id == QUANT_IQ1_S) {
        const uint32_t high = half_at(src + 34 + 2 * (g / 2)), at = (uint32_t)(g % 2 * 6);
        return iq1_16(pair[0] | (high >> at & 7) << 8, pair[1] | (high >> (at + 3) & 7) << 8,
                      (high >> 15) * 3);
    }
    const uint32_t high = src[32 + g]; /* IQ1_M */
    return iq1_16(src[2 * g] | (high & 7) << 8, src[2 * g + 1] | (high & 0x70) << 4,
                  (high >> 3 & 1) | (high >> 6 & 2));
}

/* ---- ternary digits ------------------------------------------------------------------------------ */

/* Digit number n of 16 bytes, minus 1: quant_iq.c. */
MATH_INLINE int8x16_t digit_16(uint8x16_t v, int n)
{
    static const uint8_t power[5] = {1, 3, 9, 27, 81};
    v = vmulq_u8(v, vdupq_n_u8(power[n]));
    const uint8x16_t some = vcgeq_u8(v, vdupq_n_u8(86)), two = vcgeq_u8(v, vdupq_n_u8(171));
    return vsubq_s8(vdupq_n_s8(-1), vreinterpretq_s8_u8(vaddq_u8(some, two))); /* true is -1 */
}

MATH_INLINE int8x16_t ternary_16(uint32_t id, const uint8_t *src, int g)
{
    if (id == QUANT_TQ2_0) {
        const uint8x16_t v = vld1q_u8(src + g / 8 * 32 + g % 2 * 16);
        return vsubq_s8(vreinterpretq_s8_u8(bits_of(v, g % 8 / 2 * 2, 3)), vdupq_n_s8(1));
    }
    if (g < 10)
        return digit_16(vld1q_u8(src + g % 2 * 16), g / 2);
    if (g < 15)
        return digit_16(vld1q_u8(src + 32), g - 10);
    const uint32x4_t four = vdupq_n_u32(word_at(src + 48));
    const uint32x4_t power = {1, 3, 9, 27};
    return digit_16(
        vmulq_u8(vreinterpretq_u8_u32(four), vreinterpretq_u8_u32(vmulq_n_u32(power, 0x01010101))), 0);
}

/* ---- for all types ------------------------------------------------------------------------------- */

/* The 32 quants of a block of 32. */
MATH_INLINE void load_32(uint32_t id, const uint8_t *src, int8x16_t q[2])
{
    if (id != QUANT_IQ4_NL && id != QUANT_MXFP4) {
        load_old_32(id, src, q);
        return;
    }
    const int8_t *values = id == QUANT_MXFP4 ? e2m1_values : iq4_values;
    const uint8x16_t v = vld1q_u8(src + block_bytes(id) - 16);
    q[0] = values_of(values, low_nibbles(v));
    q[1] = values_of(values, vshrq_n_u8(v, 4));
}

/* 64 of a 256-block's quants: those from 64 * part on. */
MATH_INLINE void load_64(uint32_t id, const uint8_t *src, int part, int8x16_t q[4])
{
    if (id <= QUANT_Q6_K) {
        load_k_64(id, src, part, q);
        return;
    }
    for (int i = 0; i < 4; i++) {
        const int g = 4 * part + i;
        if (id == QUANT_TQ1_0 || id == QUANT_TQ2_0) {
            q[i] = ternary_16(id, src, g);
        } else if (id == QUANT_IQ4_XS) {
            const uint8x16_t v = vld1q_u8(src + 8 + g / 2 * 16);
            q[i] = values_of(iq4_values, g % 2 ? vshrq_n_u8(v, 4) : low_nibbles(v));
        } else {
            q[i] = codebook_16(id, src, g);
        }
    }
}

/* The scale of elements 16 g on of the types that load_k_scales does not know. */
MATH_INLINE int scale_16(uint32_t id, const uint8_t *src, int g)
{
    switch (id) {
    case QUANT_IQ2_XXS:
        return 2 * (src[9 + 8 * (g / 2)] >> 4) + 1;
    case QUANT_IQ2_XS:
        return 2 * (src[66 + g / 2] >> (g % 2 * 4) & 15) + 1;
    case QUANT_IQ2_S:
        return 2 * (src[74 + g / 2] >> (g % 2 * 4) & 15) + 1;
    case QUANT_IQ3_XXS:
        return 2 * (src[69 + 4 * (g / 2)] >> 4) + 1;
    case QUANT_IQ3_S:
        return 2 * (src[106 + g / 4] >> (g / 2 % 2 * 4) & 15) + 1;
    case QUANT_IQ1_S:
        return 2 * (src[35 + 2 * (g / 2)] >> 4 & 7) + 1;
    case QUANT_IQ1_M:
        return (int)(2 * (half_at(src + 48 + 2 * (g / 4)) >> (3 * (g % 4)) & 7) + 1);
    case QUANT_IQ4_XS:
        return ((src[4 + g / 4] >> (g / 2 % 2 * 4) & 15) | (int)(half_at(src + 2) >> (g / 2 * 2) & 3) << 4) -
               32;
    default: /* TQ */
        return 1;
    }
}

MATH_INLINE struct k_scales load_scales(uint32_t id, const uint8_t *src)
{
    if (id <= QUANT_Q6_K)
        return load_k_scales(id, src);
    int16_t scale[16];
    for (int g = 0; g < 16; g++)
        scale[g] = (int16_t)scale_16(id, src, g);
    return (struct k_scales){{vld1q_s16(scale), vld1q_s16(scale + 8)}, {vdupq_n_s16(0), vdupq_n_s16(0)}};
}

MATH_INLINE float d_of_iq1_m(const uint8_t *src)
{
    uint32_t d = 0;
    for (int i = 0; i < 4; i++)
        d |= (uint32_t)src[49 + 2 * i] >> 4 << (4 * i);
    return f16_to_f32((uint16_t)d);
}

/* d of the blocks of 4 rows that each begin at rows[r] + at. */
MATH_INLINE float32x4_t d_of_rows(uint32_t id, const uint8_t *const rows[4], size_t at)
{
    if (id == QUANT_MXFP4 || id == QUANT_IQ1_M) {
        float d[4];
        for (int r = 0; r < 4; r++)
            d[r] = id == QUANT_MXFP4 ? e8m0_half(rows[r][at]) : d_of_iq1_m(rows[r] + at) * 0.125f;
        return vld1q_f32(d);
    }
    const float32x4_t d = f16_of_rows(rows, at + block_d_at(id));
    const bool eighth = id == QUANT_IQ1_S || id == QUANT_IQ2_XXS || id == QUANT_IQ2_XS || id == QUANT_IQ2_S;
    return eighth ? vmulq_n_f32(d, 0.125f) : id == QUANT_IQ3_XXS ? vmulq_n_f32(d, 0.25f) : d;
}

#endif
