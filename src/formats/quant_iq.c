/* Decoders of the codebook (IQ), ternary (TQ) and four-bit float formats.
 *
 * Owns: the layouts of these blocks, read into integers (quant_iq.h), and the decoders that quant.c lists, made
 * from these integers. The layouts are those of ggml, as the `gguf` Python package decodes them (tests/formats
 * compares bit for bit). Does not: encode, or try to be fast; kernels/ has its own readers. */
#include "formats/quant_iq.h"
#include <stdbool.h>
#include <string.h>

const int8_t iq4_values[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
const int8_t e2m1_values[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

static uint32_t load_u16(const uint8_t *p)
{
    return (uint32_t)(p[0] | p[1] << 8);
}

static uint32_t load_u32(const uint8_t *p)
{
    return load_u16(p) | load_u16(p + 2) << 16;
}

static float load_f16(const uint8_t *p)
{
    return f16_to_f32((uint16_t)load_u16(p));
}

float e8m0_half(uint8_t e)
{
    uint32_t bits = e < 2 ? 0x00200000u << e : (uint32_t)(e - 1) << 23; /* below 2^-126: subnormal */
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

float ue4m3_half(uint8_t x)
{
    const int exponent = x >> 3 & 15, mantissa = x & 7;
    if (x == 0x7f)
        return 0.0f;
    return exponent ? (float)((8 + mantissa) << exponent) * 0x1p-11f : (float)mantissa * 0x1p-10f;
}

/* ---- codebooks ----------------------------------------------------------------------------------------------- */

/* Eight values of an iq2 codebook; bit e of signs: element e is negative. */
static void put_iq2(uint32_t entry, uint32_t signs, int8_t q[8])
{
    static const int8_t values[4] = {8, 25, 43, 0};
    for (int e = 0; e < 8; e++) {
        int8_t v = values[entry >> (8 * (e % 4) + 4 * (e / 4)) & 3];
        q[e] = (int8_t)(signs >> e & 1 ? -v : v);
    }
}

static void put_iq3(uint32_t entry, uint32_t signs, int8_t q[4])
{
    for (int e = 0; e < 4; e++) {
        int v = (int)(entry >> (8 * e) & 255);
        q[e] = (int8_t)(signs >> e & 1 ? -v : v);
    }
}

/* Eight values -1, 0, 1, each an eighth more or less, in eighths. */
static void put_iq1(uint32_t entry, bool less, int8_t q[8])
{
    for (int e = 0; e < 8; e++) {
        int v = (int)(entry >> (8 * (e % 4) + 4 * (e / 4)) & 3) - 1;
        q[e] = (int8_t)(8 * v + (less ? -1 : 1));
    }
}

/* f16 d, then per 32: four u8 indices, u32 with four times seven signs and, on top, a scale of four bits. */
void quant_ints_iq2_xxs(const uint8_t *block, struct quant_ints *out)
{
    out->d = load_f16(block) * 0.125f;
    for (int j = 0; j < 8; j++) {
        const uint8_t *index = block + 2 + 8 * j;
        const uint32_t rest = load_u32(index + 4);
        out->scale[2 * j] = out->scale[2 * j + 1] = (int8_t)(2 * (rest >> 28) + 1);
        for (int i = 0; i < 4; i++)
            put_iq2(iq2_xxs_grid[index[i]], quant_eight_signs(rest >> (7 * i) & 127),
                    out->q + 32 * j + 8 * i);
    }
}

/* f16 d, u16[32]: nine bits of index, seven signs; u8[8]: scales of four bits per 16. */
void quant_ints_iq2_xs(const uint8_t *block, struct quant_ints *out)
{
    out->d = load_f16(block) * 0.125f;
    for (int j = 0; j < 16; j++)
        out->scale[j] = (int8_t)(2 * (block[66 + j / 2] >> (j % 2 * 4) & 15) + 1);
    for (int i = 0; i < 32; i++) {
        const uint32_t v = load_u16(block + 2 + 2 * i);
        put_iq2(iq2_xs_grid[v & 511], quant_eight_signs(v >> 9), out->q + 8 * i);
    }
}

/* f16 d, u8[32]: low bits of indices, u8[32]: signs, u8[8]: high two bits of indices, u8[8]: scales per 16. */
void quant_ints_iq2_s(const uint8_t *block, struct quant_ints *out)
{
    out->d = load_f16(block) * 0.125f;
    for (int j = 0; j < 16; j++)
        out->scale[j] = (int8_t)(2 * (block[74 + j / 2] >> (j % 2 * 4) & 15) + 1);
    for (int i = 0; i < 32; i++) {
        const uint32_t index = block[2 + i] | (uint32_t)(block[66 + i / 4] >> (i % 4 * 2) & 3) << 8;
        put_iq2(iq2_s_grid[index], block[34 + i], out->q + 8 * i);
    }
}

/* f16 d, u8[64]: indices, u32[8]: signs and scale per 32 as in IQ2_XXS. */
void quant_ints_iq3_xxs(const uint8_t *block, struct quant_ints *out)
{
    out->d = load_f16(block) * 0.25f;
    for (int j = 0; j < 8; j++) {
        const uint32_t rest = load_u32(block + 66 + 4 * j);
        out->scale[2 * j] = out->scale[2 * j + 1] = (int8_t)(2 * (rest >> 28) + 1);
        for (int i = 0; i < 8; i++)
            put_iq3(iq3_xxs_grid[block[2 + 8 * j + i]],
                    quant_eight_signs(rest >> (i / 2 * 7) & 127) >> (i % 2 * 4), out->q + 32 * j + 4 * i);
    }
}

/* f16 d, u8[64]: low bits of indices, u8[8]: high bits, u8[32]: signs, u8[4]: scales of four bits per 32. */
void quant_ints_iq3_s(const uint8_t *block, struct quant_ints *out)
{
    out->d = load_f16(block);
    for (int j = 0; j < 16; j++)
        out->scale[j] = (int8_t)(2 * (block[106 + j / 4] >> (j / 2 % 2 * 4) & 15) + 1);
    for (int i = 0; i < 64; i++) {
        const uint32_t index = block[2 + i] | (uint32_t)(block[66 + i / 8] >> (i % 8) & 1) << 8;
        put_iq3(iq3_s_grid[index], (uint32_t)block[74 + i / 2] >> (i % 2 * 4), out->q + 4 * i);
    }
}

/* f16 d, u8[32]: low bits of indices, u16[8]: per 32 four times three high bits, a scale of three, a sign. */
void quant_ints_iq1_s(const uint8_t *block, struct quant_ints *out)
{
    out->d = load_f16(block) * 0.125f;
    for (int j = 0; j < 8; j++) {
        const uint32_t high = load_u16(block + 34 + 2 * j);
        out->scale[2 * j] = out->scale[2 * j + 1] = (int8_t)(2 * (high >> 12 & 7) + 1);
        for (int i = 0; i < 4; i++) {
            const uint32_t index = block[2 + 4 * j + i] | (high >> (3 * i) & 7) << 8;
            put_iq1(iq1_grid[index], high >> 15, out->q + 32 * j + 8 * i);
        }
    }
}

/* u8[32]: low bits of indices, u8[16]: nibbles of three high bits and a sign per 8, u16[4]: four scales of three bits
 * per 16 each, and on top a quarter of the f16 d. */
void quant_ints_iq1_m(const uint8_t *block, struct quant_ints *out)
{
    uint32_t d = 0;
    for (int j = 0; j < 4; j++) {
        const uint32_t v = load_u16(block + 48 + 2 * j);
        d |= v >> 12 << (4 * j);
        for (int i = 0; i < 4; i++)
            out->scale[4 * j + i] = (int8_t)(2 * (v >> (3 * i) & 7) + 1);
    }
    out->d = f16_to_f32((uint16_t)d) * 0.125f;
    for (int i = 0; i < 32; i++) {
        const uint32_t high = (uint32_t)block[32 + i / 2] >> (i % 2 * 4);
        put_iq1(iq1_grid[block[i] | (high & 7) << 8], high & 8, out->q + 8 * i);
    }
}

/* ---- nibbles and ternary digits -------------------------------------------------------------------------------- */

/* 16 bytes: the low nibbles are elements 0 to 15, the high ones 16 to 31. */
static void put_nibbles(const uint8_t *qs, const int8_t values[16], int8_t q[32])
{
    for (int i = 0; i < 16; i++) {
        q[i] = values[qs[i] & 15];
        q[i + 16] = values[qs[i] >> 4];
    }
}

/* f16 d, u16: high two bits of eight scales, u8[4]: low four, u8[128]: nibbles. */
void quant_ints_iq4_xs(const uint8_t *block, struct quant_ints *out)
{
    out->d = load_f16(block);
    for (int j = 0; j < 8; j++) {
        const int low = block[4 + j / 2] >> (j % 2 * 4) & 15,
                  high = (int)(load_u16(block + 2) >> (2 * j) & 3);
        out->scale[2 * j] = out->scale[2 * j + 1] = (int8_t)((low | high << 4) - 32);
        put_nibbles(block + 8 + 16 * j, iq4_values, out->q + 32 * j);
    }
}

/* n bytes hold n * digits ternary digits each: digit t of byte i belongs to element t * n + i. A byte is the fraction
 * 0.abcde in base 3, times 256 and rounded up; its first digit is what a multiplication by 3 carries out. */
static void put_ternary(const uint8_t *bytes, int n, int digits, int8_t *q)
{
    for (int i = 0; i < n; i++) {
        unsigned v = bytes[i];
        for (int t = 0; t < digits; t++, v = v * 3 & 255)
            q[t * n + i] = (int8_t)((int)(v * 3 >> 8) - 1);
    }
}

/* u8[32] and u8[16] of five ternary digits, u8[4] of four; f16 d. */
void quant_ints_tq1_0(const uint8_t *block, struct quant_ints *out)
{
    put_ternary(block, 32, 5, out->q);
    put_ternary(block + 32, 16, 5, out->q + 160);
    put_ternary(block + 48, 4, 4, out->q + 240);
    memset(out->scale, 1, sizeof out->scale);
    out->d = load_f16(block + 52);
}

/* u8[64] of pairs of bits as in Q2_K, minus 1; f16 d. */
void quant_ints_tq2_0(const uint8_t *block, struct quant_ints *out)
{
    for (int e = 0; e < 256; e++)
        out->q[e] = (int8_t)((block[e / 128 * 32 + e % 32] >> (e / 32 % 4 * 2) & 3) - 1);
    memset(out->scale, 1, sizeof out->scale);
    out->d = load_f16(block + 64);
}

/* ---- decoders -------------------------------------------------------------------------------------------------- */

#define DECODE_256(type, block_bytes)                                                                        \
    void decode_##type(const void *src, int64_t n, float *dst)                                               \
    {                                                                                                        \
        const uint8_t *block = src;                                                                          \
        struct quant_ints v;                                                                                 \
        for (int64_t b = 0; b < n / 256; b++, block += (block_bytes), dst += 256) {                          \
            quant_ints_##type(block, &v);                                                                    \
            for (int e = 0; e < 256; e++)                                                                    \
                dst[e] = v.d * (float)v.scale[e / 16] * (float)v.q[e];                                       \
        }                                                                                                    \
    }
DECODE_256(iq2_xxs, 66)
DECODE_256(iq2_xs, 74)
DECODE_256(iq2_s, 82)
DECODE_256(iq3_xxs, 98)
DECODE_256(iq3_s, 110)
DECODE_256(iq1_s, 50)
DECODE_256(iq1_m, 56)
DECODE_256(iq4_xs, 136)
DECODE_256(tq1_0, 54)
DECODE_256(tq2_0, 66)

void decode_iq4_nl(const void *src, int64_t n, float *dst) /* f16 d, nibbles */
{
    const uint8_t *p = src;
    for (int64_t b = 0; b < n / 32; b++, p += 18, dst += 32) {
        int8_t q[32];
        const float d = load_f16(p);
        put_nibbles(p + 2, iq4_values, q);
        for (int e = 0; e < 32; e++)
            dst[e] = d * (float)q[e];
    }
}

void decode_mxfp4(const void *src, int64_t n, float *dst) /* E8M0 scale, nibbles */
{
    const uint8_t *p = src;
    for (int64_t b = 0; b < n / 32; b++, p += 17, dst += 32) {
        int8_t q[32];
        put_nibbles(p + 1, e2m1_values, q);
        for (int e = 0; e < 32; e++)
            dst[e] = e8m0_half(p[0]) * (float)q[e];
    }
}

void decode_nvfp4(const void *src, int64_t n,
                  float *dst) /* four UE4M3 scales, then 16 elements in 8 bytes each */
{
    const uint8_t *p = src;
    for (int64_t b = 0; b < n / 64; b++, p += 36, dst += 64) {
        for (int e = 0; e < 64; e++) {
            const int code = p[4 + e / 16 * 8 + e % 8] >> (e / 8 % 2 * 4) & 15;
            dst[e] = ue4m3_half(p[e / 16]) * (float)e2m1_values[code];
        }
    }
}
