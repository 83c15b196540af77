/* The table of block formats and their decoders.
 *
 * Owns: what a ggml type id means (name, block, bytes) and how a block becomes float32. The layouts are those
 * of the GGUF specification; each decoder performs the float32 operations of the `gguf` Python package in its
 * order (tests/formats compares them bit for bit), so this file is the truth that kernels are held against.
 * Does not: encode, know about tensors or files, or try to be fast; kernels/ has its own readers. The codebook,
 * ternary and four-bit float formats are decoded in quant_iq.c. */
#include "formats/quant.h"
#include "formats/quant_iq.h"

#include <stddef.h>
#include <string.h>

/* ---- scalars ---- */

static float bits_to_f32(uint32_t u)
{
    float f;
    memcpy(&f, &u, sizeof f);
    return f;
}

static uint32_t f32_to_bits(float f)
{
    uint32_t u;
    memcpy(&u, &f, sizeof u);
    return u;
}

/* A NaN keeps its payload, signalling or not, as numpy has it. */
float f16_to_f32(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000) << 16;
    uint32_t exponent = (h >> 10) & 0x1f, mantissa = h & 0x3ff;
    if (exponent == 0x1f)
        return bits_to_f32(sign | 0x7f800000 | mantissa << 13);
    if (exponent == 0) { /* zero or subnormal: mantissa × 2^-24, exact */
        float magnitude = (float)mantissa * 0x1p-24f;
        return bits_to_f32(sign | f32_to_bits(magnitude));
    }
    return bits_to_f32(sign | (exponent + 112) << 23 | mantissa << 13);
}

/* A NaN becomes quiet and keeps the top of its payload, as the instructions of x86 and Arm do it. */
uint16_t f32_to_f16(float f)
{
    uint32_t u = f32_to_bits(f), sign = (u >> 16) & 0x8000, a = u & 0x7fffffff;
    if (a > 0x7f800000)
        return (uint16_t)(sign | 0x7e00 | ((a >> 13) & 0x3ff));
    if (a >= 0x477ff000) /* 65520, the midpoint above the largest finite value, rounds to infinity */
        return (uint16_t)(sign | 0x7c00);
    if (a < 0x38800000) { /* below 2^-14: the unit is 2^-24; adding 0.5 lets the FPU round to that unit */
        float rounded = bits_to_f32(a) + 0.5f;
        return (uint16_t)(sign | (f32_to_bits(rounded) - 0x3f000000));
    }
    a -= 112u << 23;
    return (uint16_t)(sign | ((a + 0xfff + ((a >> 13) & 1)) >> 13));
}

float bf16_to_f32(uint16_t b)
{
    return bits_to_f32((uint32_t)b << 16);
}

uint16_t f32_to_bf16(float f)
{
    uint32_t u = f32_to_bits(f);
    if ((u & 0x7fffffff) > 0x7f800000)
        return (uint16_t)(u >> 16 | 0x40);
    return (uint16_t)((u + 0x7fff + ((u >> 16) & 1)) >> 16);
}

static uint16_t load_u16(const uint8_t *p)
{
    return (uint16_t)(p[0] | p[1] << 8);
}

static uint32_t load_u32(const uint8_t *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static float load_f16(const uint8_t *p)
{
    return f16_to_f32(load_u16(p));
}

/* ---- plain floats ---- */

static void decode_f32(const void *src, int64_t n, float *dst)
{
    memcpy(dst, src, (size_t)n * sizeof *dst);
}

static void decode_f16(const void *src, int64_t n, float *dst)
{
    const uint8_t *p = src;
    for (int64_t i = 0; i < n; i++)
        dst[i] = load_f16(p + 2 * i);
}

static void decode_bf16(const void *src, int64_t n, float *dst)
{
    const uint8_t *p = src;
    for (int64_t i = 0; i < n; i++)
        dst[i] = bf16_to_f32(load_u16(p + 2 * i));
}

/* ---- blocks of 32 ------------------------------------------------------------------------------
 * Byte j of qs holds element j in its low and element j + 16 in its high four bits. */

static void decode_q4_0(const void *src, int64_t n, float *dst) /* f16 d, qs[16]: d (q - 8) */
{
    const uint8_t *p = src;
    for (int64_t b = 0; b < n / 32; b++, p += 18, dst += 32) {
        float d = load_f16(p);
        for (int j = 0; j < 16; j++) {
            dst[j] = d * (float)((p[2 + j] & 15) - 8);
            dst[j + 16] = d * (float)((p[2 + j] >> 4) - 8);
        }
    }
}

static void decode_q4_1(const void *src, int64_t n, float *dst) /* f16 d, f16 m, qs[16]: d q + m */
{
    const uint8_t *p = src;
    for (int64_t b = 0; b < n / 32; b++, p += 20, dst += 32) {
        float d = load_f16(p), m = load_f16(p + 2);
        for (int j = 0; j < 16; j++) {
            dst[j] = d * (float)(p[4 + j] & 15) + m;
            dst[j + 16] = d * (float)(p[4 + j] >> 4) + m;
        }
    }
}

static void decode_q5_0(const void *src, int64_t n, float *dst) /* f16 d, u32 high bits, qs[16]: d (q - 16) */
{
    const uint8_t *p = src;
    for (int64_t b = 0; b < n / 32; b++, p += 22, dst += 32) {
        float d = load_f16(p);
        uint32_t high = load_u32(p + 2);
        for (int j = 0; j < 16; j++) {
            int lo = (p[6 + j] & 15) | (int)((high >> j) & 1) << 4;
            int hi = (p[6 + j] >> 4) | (int)((high >> (j + 16)) & 1) << 4;
            dst[j] = d * (float)(lo - 16);
            dst[j + 16] = d * (float)(hi - 16);
        }
    }
}

static void decode_q5_1(const void *src, int64_t n, float *dst) /* f16 d, f16 m, u32 high, qs[16]: d q + m */
{
    const uint8_t *p = src;
    for (int64_t b = 0; b < n / 32; b++, p += 24, dst += 32) {
        float d = load_f16(p), m = load_f16(p + 2);
        uint32_t high = load_u32(p + 4);
        for (int j = 0; j < 16; j++) {
            int lo = (p[8 + j] & 15) | (int)((high >> j) & 1) << 4;
            int hi = (p[8 + j] >> 4) | (int)((high >> (j + 16)) & 1) << 4;
            dst[j] = d * (float)lo + m;
            dst[j + 16] = d * (float)hi + m;
        }
    }
}

static void decode_q8_0(const void *src, int64_t n, float *dst) /* f16 d, i8 qs[32]: q d */
{
    const uint8_t *p = src;
    for (int64_t b = 0; b < n / 32; b++, p += 34, dst += 32) {
        float d = load_f16(p);
        for (int j = 0; j < 32; j++)
            dst[j] = (float)(int8_t)p[2 + j] * d;
    }
}

/* ---- blocks of 256 with sub-scales -------------------------------------------------------------
 * 2-bit parts come as two runs of 32 bytes; byte l of run r holds elements 128 r + 32 s + l, s = 0..3, at
 * bits 2 s. */

static void decode_q2_k(const void *src, int64_t n, float *dst) /* u8 scales[16], qs[64], f16 d, f16 dmin */
{
    const uint8_t *p = src;
    for (int64_t b = 0; b < n / 256; b++, p += 84, dst += 256) {
        const uint8_t *qs = p + 16;
        float d = load_f16(p + 80), dmin = load_f16(p + 82);
        for (int i = 0; i < 256; i++) {
            int scale = p[i / 16], q = (qs[i / 128 * 32 + i % 32] >> (i / 32 % 4 * 2)) & 3;
            dst[i] = d * (float)(scale & 15) * (float)q - dmin * (float)(scale >> 4);
        }
    }
}

/* 16 six-bit scales in 12 bytes: low four bits in bytes 0-7 (nibbles), high two in bytes 8-11; offset 32. */
static void q3_k_scales(const uint8_t packed[12], int out[16])
{
    for (int i = 0; i < 16; i++) {
        int low = (packed[i % 8] >> (i / 8 * 4)) & 15;
        int high = (packed[8 + i % 4] >> (i / 4 * 2)) & 3;
        out[i] = (low | high << 4) - 32;
    }
}

static void decode_q3_k(const void *src, int64_t n, float *dst) /* u8 hmask[32], qs[64], scales[12], f16 d */
{
    const uint8_t *p = src;
    for (int64_t b = 0; b < n / 256; b++, p += 110, dst += 256) {
        const uint8_t *qs = p + 32;
        float d = load_f16(p + 108);
        int scales[16];
        q3_k_scales(p + 96, scales);
        for (int i = 0; i < 256; i++) {
            int low = (qs[i / 128 * 32 + i % 32] >> (i / 32 % 4 * 2)) & 3;
            int set = (p[i % 32] >> (i / 32)) & 1; /* the mask bit adds 4, the offset is -4 */
            dst[i] = d * (float)scales[i / 16] * (float)(low - (set ? 0 : 4));
        }
    }
}

/* 8 scales and 8 minima of six bits in 12 bytes: the first four of each whole in bytes 0-3 and 4-7, the other
 * four with their low nibbles in bytes 8-11 and their high two bits on top of bytes 0-7. */
static void k_scale_min(const uint8_t packed[12], int scale[8], int min[8])
{
    for (int i = 0; i < 4; i++) {
        scale[i] = packed[i] & 63;
        min[i] = packed[i + 4] & 63;
        scale[i + 4] = (packed[i + 8] & 15) | packed[i] >> 6 << 4;
        min[i + 4] = packed[i + 8] >> 4 | packed[i + 4] >> 6 << 4;
    }
}

/* Four bits: byte l of run r (32 bytes) holds elements 64 r + l (low) and 64 r + 32 + l (high). */
static void decode_q4_k(const void *src, int64_t n, float *dst) /* f16 d, dmin, scales[12], qs[128] */
{
    const uint8_t *p = src;
    for (int64_t b = 0; b < n / 256; b++, p += 144, dst += 256) {
        float d = load_f16(p), dmin = load_f16(p + 2);
        int scale[8], min[8];
        k_scale_min(p + 4, scale, min);
        for (int s = 0; s < 8; s++) {
            const uint8_t *qs = p + 16 + s / 2 * 32;
            float ds = d * (float)scale[s], ms = dmin * (float)min[s];
            for (int l = 0; l < 32; l++)
                dst[32 * s + l] = ds * (float)((qs[l] >> (s % 2 * 4)) & 15) - ms;
        }
    }
}

static void decode_q5_k(const void *src, int64_t n, float *dst) /* f16 d, dmin, scales[12], qh[32], qs[128] */
{
    const uint8_t *p = src;
    for (int64_t b = 0; b < n / 256; b++, p += 176, dst += 256) {
        float d = load_f16(p), dmin = load_f16(p + 2);
        const uint8_t *qh = p + 16;
        int scale[8], min[8];
        k_scale_min(p + 4, scale, min);
        for (int s = 0; s < 8; s++) {
            const uint8_t *qs = p + 48 + s / 2 * 32;
            float ds = d * (float)scale[s], ms = dmin * (float)min[s];
            for (int l = 0; l < 32; l++) {
                int q = ((qs[l] >> (s % 2 * 4)) & 15) | ((qh[l] >> s) & 1) << 4;
                dst[32 * s + l] = ds * (float)q - ms;
            }
        }
    }
}

/* Low four bits: byte l of run r (64 bytes) holds elements 128 r + l (low) and 128 r + 64 + l (high). */
static void decode_q6_k(const void *src, int64_t n, float *dst) /* ql[128], qh[64], i8 scales[16], f16 d */
{
    const uint8_t *p = src;
    for (int64_t b = 0; b < n / 256; b++, p += 210, dst += 256) {
        float d = load_f16(p + 208);
        for (int i = 0; i < 256; i++) {
            int low = (p[i / 128 * 64 + i % 64] >> (i / 64 % 2 * 4)) & 15;
            int high = (p[128 + i / 128 * 32 + i % 32] >> (i / 32 % 4 * 2)) & 3;
            dst[i] = d * (float)(int8_t)p[192 + i / 16] * (float)((low | high << 4) - 32);
        }
    }
}

/* ---- the table ---------------------------------------------------------------------------------
 * Ids 4, 5, 31-33 and 36-38 belonged to types that were withdrawn; nobody may use them. */

static const struct quant_type types[] = {
    {QUANT_F32, "F32", 1, 4, decode_f32},
    {QUANT_F16, "F16", 1, 2, decode_f16},
    {QUANT_Q4_0, "Q4_0", 32, 18, decode_q4_0},
    {QUANT_Q4_1, "Q4_1", 32, 20, decode_q4_1},
    {QUANT_Q5_0, "Q5_0", 32, 22, decode_q5_0},
    {QUANT_Q5_1, "Q5_1", 32, 24, decode_q5_1},
    {QUANT_Q8_0, "Q8_0", 32, 34, decode_q8_0},
    {9, "Q8_1", 32, 36, NULL}, /* lives only between kernels; gguf-py still lists its older 40 bytes */
    {QUANT_Q2_K, "Q2_K", 256, 84, decode_q2_k},
    {QUANT_Q3_K, "Q3_K", 256, 110, decode_q3_k},
    {QUANT_Q4_K, "Q4_K", 256, 144, decode_q4_k},
    {QUANT_Q5_K, "Q5_K", 256, 176, decode_q5_k},
    {QUANT_Q6_K, "Q6_K", 256, 210, decode_q6_k},
    {15, "Q8_K", 256, 292, NULL},
    {QUANT_IQ2_XXS, "IQ2_XXS", 256, 66, decode_iq2_xxs},
    {QUANT_IQ2_XS, "IQ2_XS", 256, 74, decode_iq2_xs},
    {QUANT_IQ3_XXS, "IQ3_XXS", 256, 98, decode_iq3_xxs},
    {QUANT_IQ1_S, "IQ1_S", 256, 50, decode_iq1_s},
    {QUANT_IQ4_NL, "IQ4_NL", 32, 18, decode_iq4_nl},
    {QUANT_IQ3_S, "IQ3_S", 256, 110, decode_iq3_s},
    {QUANT_IQ2_S, "IQ2_S", 256, 82, decode_iq2_s},
    {QUANT_IQ4_XS, "IQ4_XS", 256, 136, decode_iq4_xs},
    {24, "I8", 1, 1, NULL},
    {25, "I16", 1, 2, NULL},
    {26, "I32", 1, 4, NULL},
    {27, "I64", 1, 8, NULL},
    {28, "F64", 1, 8, NULL},
    {QUANT_IQ1_M, "IQ1_M", 256, 56, decode_iq1_m},
    {QUANT_BF16, "BF16", 1, 2, decode_bf16},
    {QUANT_TQ1_0, "TQ1_0", 256, 54, decode_tq1_0},
    {QUANT_TQ2_0, "TQ2_0", 256, 66, decode_tq2_0},
    {QUANT_MXFP4, "MXFP4", 32, 17, decode_mxfp4},
    {QUANT_NVFP4, "NVFP4", 64, 36, decode_nvfp4},
    {41, "Q1_0", 128, 18, NULL},
};

const struct quant_type *quant_type_get(uint32_t id)
{
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
        if (types[i].id == id)
            return &types[i];
    return NULL;
}
