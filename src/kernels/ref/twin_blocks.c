/* Block layouts of the quantised types, read into plain integers. The layouts are those of the GGUF
 * specification and of formats/quant.c, whose decoders tests/checkasm holds these against. */
#include "kernels/ref/twin_blocks.h"
#include "formats/quant_iq.h"
#include <stddef.h>
#include <string.h>

static uint16_t load_u16(const uint8_t *p)
{
    return (uint16_t)(p[0] | p[1] << 8);
}

static float load_f16(const uint8_t *p)
{
    return f16_to_f32(load_u16(p));
}

static uint32_t load_u32(const uint8_t *p)
{
    return (uint32_t)load_u16(p) | (uint32_t)load_u16(p + 2) << 16;
}

/* 32 nibbles: the low ones are elements 0..15, the high ones 16..31; high holds bit 4 of each element. */
static void nibbles_32(const uint8_t *qs, uint32_t high, int offset, int8_t *q)
{
    for (int j = 0; j < 16; j++) {
        q[j] = (int8_t)(((qs[j] & 15) | (int)(high >> j & 1) << 4) - offset);
        q[j + 16] = (int8_t)(((qs[j] >> 4) | (int)(high >> (j + 16) & 1) << 4) - offset);
    }
}

static void unpack_q4_0(const uint8_t *src, int64_t n_blocks, const struct twin_row *row)
{
    for (int64_t b = 0; b < n_blocks; b++, src += 18) {
        row->d[b] = load_f16(src);
        nibbles_32(src + 2, 0, 8, row->q + b * 32);
    }
}

static void unpack_q4_1(const uint8_t *src, int64_t n_blocks, const struct twin_row *row)
{
    for (int64_t b = 0; b < n_blocks; b++, src += 20) {
        row->d[b] = load_f16(src);
        row->m[b] = load_f16(src + 2);
        nibbles_32(src + 4, 0, 0, row->q + b * 32);
    }
}

static void unpack_q5_0(const uint8_t *src, int64_t n_blocks, const struct twin_row *row)
{
    for (int64_t b = 0; b < n_blocks; b++, src += 22) {
        row->d[b] = load_f16(src);
        nibbles_32(src + 6, load_u32(src + 2), 16, row->q + b * 32);
    }
}

static void unpack_q5_1(const uint8_t *src, int64_t n_blocks, const struct twin_row *row)
{
    for (int64_t b = 0; b < n_blocks; b++, src += 24) {
        row->d[b] = load_f16(src);
        row->m[b] = load_f16(src + 2);
        nibbles_32(src + 8, load_u32(src + 4), 0, row->q + b * 32);
    }
}

static void unpack_q8_0(const uint8_t *src, int64_t n_blocks, const struct twin_row *row)
{
    for (int64_t b = 0; b < n_blocks; b++, src += 34) {
        row->d[b] = load_f16(src);
        memcpy(row->q + b * 32, src + 2, 32);
    }
}

/* scales[16] (4 bits scale, 4 bits min), qs[64], d, dmin. */
static void unpack_q2_k(const uint8_t *src, int64_t n_blocks, const struct twin_row *row)
{
    for (int64_t b = 0; b < n_blocks; b++, src += 84) {
        for (int j = 0; j < 16; j++) {
            row->scale[b * 16 + j] = (int8_t)(src[j] & 15);
            row->min[b * 16 + j] = src[j] >> 4;
        }
        for (int e = 0; e < 256; e++)
            row->q[b * 256 + e] = (int8_t)(src[16 + e / 128 * 32 + e % 32] >> (e % 128 / 32 * 2) & 3);
        row->d[b] = load_f16(src + 80);
        row->m[b] = load_f16(src + 82);
    }
}

/* hmask[32], qs[64], scales[12] (6 bits each, minus 32), d. */
static void unpack_q3_k(const uint8_t *src, int64_t n_blocks, const struct twin_row *row)
{
    for (int64_t b = 0; b < n_blocks; b++, src += 110) {
        const uint8_t *s = src + 96;
        for (int j = 0; j < 16; j++) {
            const int low = j < 8 ? s[j] & 15 : s[j - 8] >> 4;
            const int high = s[8 + j % 4] >> (j / 4 * 2) & 3;
            row->scale[b * 16 + j] = (int8_t)((low | high << 4) - 32);
        }
        for (int e = 0; e < 256; e++) {
            const int low = src[32 + e / 128 * 32 + e % 32] >> (e % 128 / 32 * 2) & 3;
            row->q[b * 256 + e] = (int8_t)((low | (src[e % 32] >> (e / 32) & 1) << 2) - 4);
        }
        row->d[b] = load_f16(src + 108);
    }
}

/* The 12 bytes that hold 8 scales and 8 mins of 6 bits in Q4_K and Q5_K. */
static void scales_6bit(const uint8_t *s, int8_t *scale, uint8_t *min)
{
    for (int j = 0; j < 4; j++) {
        scale[j] = (int8_t)(s[j] & 63);
        min[j] = s[4 + j] & 63;
        scale[4 + j] = (int8_t)((s[8 + j] & 15) | s[j] >> 6 << 4);
        min[4 + j] = (uint8_t)(s[8 + j] >> 4 | s[4 + j] >> 6 << 4);
    }
}

/* d, dmin, scales[12], qs[128]: 64 elements in 32 bytes, low nibbles first. */
static void unpack_q4_k(const uint8_t *src, int64_t n_blocks, const struct twin_row *row)
{
    for (int64_t b = 0; b < n_blocks; b++, src += 144) {
        row->d[b] = load_f16(src);
        row->m[b] = load_f16(src + 2);
        scales_6bit(src + 4, row->scale + b * 8, row->min + b * 8);
        for (int e = 0; e < 256; e++)
            row->q[b * 256 + e] = (int8_t)(src[16 + e / 64 * 32 + e % 32] >> (e / 32 % 2 * 4) & 15);
    }
}

/* As Q4_K with qh[32] before qs: bit e / 32 of qh[e % 32] is bit 4 of element e. */
static void unpack_q5_k(const uint8_t *src, int64_t n_blocks, const struct twin_row *row)
{
    for (int64_t b = 0; b < n_blocks; b++, src += 176) {
        row->d[b] = load_f16(src);
        row->m[b] = load_f16(src + 2);
        scales_6bit(src + 4, row->scale + b * 8, row->min + b * 8);
        for (int e = 0; e < 256; e++) {
            const int low = src[48 + e / 64 * 32 + e % 32] >> (e / 32 % 2 * 4) & 15;
            row->q[b * 256 + e] = (int8_t)(low | (src[16 + e % 32] >> (e / 32) & 1) << 4);
        }
    }
}

/* ql[128], qh[64], scales int8[16], d; halves of 128 elements, each 64 bytes of ql and 32 of qh. */
static void unpack_q6_k(const uint8_t *src, int64_t n_blocks, const struct twin_row *row)
{
    for (int64_t b = 0; b < n_blocks; b++, src += 210) {
        for (int e = 0; e < 256; e++) {
            const int half = e / 128, part = e % 128 / 32, l = e % 32;
            const int low = src[half * 64 + part % 2 * 32 + l] >> (part / 2 * 4) & 15;
            const int high = src[128 + half * 32 + l] >> (part * 2) & 3;
            row->q[b * 256 + e] = (int8_t)((low | high << 4) - 32);
        }
        memcpy(row->scale + b * 16, src + 192, 16);
        row->d[b] = load_f16(src + 208);
    }
}

/* ---- codebooks, ternary digits, four-bit floats ----------------------------------------------------------------- */

static void unpack_iq4_nl(const uint8_t *src, int64_t n_blocks, const struct twin_row *row)
{
    for (int64_t b = 0; b < n_blocks; b++, src += 18) {
        row->d[b] = load_f16(src);
        nibbles_32(src + 2, 0, 0, row->q + b * 32);
        for (int e = 0; e < 32; e++)
            row->q[b * 32 + e] = iq4_values[row->q[b * 32 + e]];
    }
}

static void unpack_mxfp4(const uint8_t *src, int64_t n_blocks, const struct twin_row *row)
{
    for (int64_t b = 0; b < n_blocks; b++, src += 17) {
        row->d[b] = e8m0_half(src[0]);
        nibbles_32(src + 1, 0, 0, row->q + b * 32);
        for (int e = 0; e < 32; e++)
            row->q[b * 32 + e] = e2m1_values[row->q[b * 32 + e]];
    }
}

/* Blocks of 64: four scales, then 16 elements in 8 bytes each. */
static void unpack_nvfp4(const uint8_t *src, int64_t n_blocks, const struct twin_row *row)
{
    for (int64_t b = 0; b < n_blocks; b++, src += 36) {
        for (int h = 0; h < 2; h++) {
            row->d[2 * b + h] = ue4m3_half(src[2 * h]);
            row->m[2 * b + h] = ue4m3_half(src[2 * h + 1]);
        }
        for (int e = 0; e < 64; e++)
            row->q[b * 64 + e] = e2m1_values[src[4 + e / 16 * 8 + e % 8] >> (e / 8 % 2 * 4) & 15];
    }
}

/* The formats that quant_iq.h reads into integers. */
#define UNPACK_INTS(type, bytes)                                                                             \
    static void unpack_##type(const uint8_t *src, int64_t n_blocks, const struct twin_row *row)              \
    {                                                                                                        \
        struct quant_ints v;                                                                                 \
        for (int64_t b = 0; b < n_blocks; b++, src += (bytes)) {                                             \
            quant_ints_##type(src, &v);                                                                      \
            row->d[b] = v.d;                                                                                 \
            memcpy(row->scale + b * 16, v.scale, sizeof v.scale);                                            \
            memcpy(row->q + b * 256, v.q, sizeof v.q);                                                       \
        }                                                                                                    \
    }
UNPACK_INTS(iq2_xxs, 66)
UNPACK_INTS(iq2_xs, 74)
UNPACK_INTS(iq2_s, 82)
UNPACK_INTS(iq3_xxs, 98)
UNPACK_INTS(iq3_s, 110)
UNPACK_INTS(iq1_s, 50)
UNPACK_INTS(iq1_m, 56)
UNPACK_INTS(iq4_xs, 136)
UNPACK_INTS(tq1_0, 54)
UNPACK_INTS(tq2_0, 66)

static const struct twin_format formats[] = {
    {QUANT_Q4_0, 32, 0, unpack_q4_0},       {QUANT_Q4_1, 32, 1, unpack_q4_1},
    {QUANT_Q5_0, 32, 0, unpack_q5_0},       {QUANT_Q5_1, 32, 1, unpack_q5_1},
    {QUANT_Q8_0, 32, 0, unpack_q8_0},       {QUANT_Q2_K, 16, 1, unpack_q2_k},
    {QUANT_Q3_K, 16, 0, unpack_q3_k},       {QUANT_Q4_K, 32, 1, unpack_q4_k},
    {QUANT_Q5_K, 32, 1, unpack_q5_k},       {QUANT_Q6_K, 16, 0, unpack_q6_k},
    {QUANT_IQ4_NL, 32, 0, unpack_iq4_nl},   {QUANT_MXFP4, 32, 0, unpack_mxfp4},
    {QUANT_NVFP4, 16, 0, unpack_nvfp4},     {QUANT_IQ2_XXS, 16, 0, unpack_iq2_xxs},
    {QUANT_IQ2_XS, 16, 0, unpack_iq2_xs},   {QUANT_IQ2_S, 16, 0, unpack_iq2_s},
    {QUANT_IQ3_XXS, 16, 0, unpack_iq3_xxs}, {QUANT_IQ3_S, 16, 0, unpack_iq3_s},
    {QUANT_IQ1_S, 16, 0, unpack_iq1_s},     {QUANT_IQ1_M, 16, 0, unpack_iq1_m},
    {QUANT_IQ4_XS, 16, 0, unpack_iq4_xs},   {QUANT_TQ1_0, 16, 0, unpack_tq1_0},
    {QUANT_TQ2_0, 16, 0, unpack_tq2_0},
};

const struct twin_format *twin_format_get(uint32_t id)
{
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
        if (formats[i].id == id)
            return &formats[i];
    return NULL;
}
