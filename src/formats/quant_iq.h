/* What stands in the blocks of the codebook, ternary and four-bit float formats, as integers; their codebooks.
 * For formats/ and the kernels: everybody else reads blocks through quant.h.
 *
 * Every one of the 256-element formats means d * scale * q with one scale of a few bits per 16 elements and q in a
 * byte. Fractions in the formats' definitions ((1/2 + s) / 4 and the like) are part of d: the product is exact in
 * f32 in whatever order it is made. */
#ifndef HASTEN_FORMATS_QUANT_IQ_H
#define HASTEN_FORMATS_QUANT_IQ_H
#include "formats/quant.h"

/* One block of 256: element e is d * scale[e / 16] * q[e]. */
struct quant_ints {
    float d;
    int8_t scale[16];
    int8_t q[256];
};

/* Reads one block (of any alignment) of the type named. |q| and |scale| are at most:
 * IQ2: 43, 31. IQ3_XXS: 62, 31. IQ3_S: 15, 31. IQ1: 9, 15. IQ4_XS: 127, 32. TQ: 2, 1. */
void quant_ints_iq2_xxs(const uint8_t *block, struct quant_ints *out);
void quant_ints_iq2_xs(const uint8_t *block, struct quant_ints *out);
void quant_ints_iq2_s(const uint8_t *block, struct quant_ints *out);
void quant_ints_iq3_xxs(const uint8_t *block, struct quant_ints *out);
void quant_ints_iq3_s(const uint8_t *block, struct quant_ints *out);
void quant_ints_iq1_s(const uint8_t *block, struct quant_ints *out);
void quant_ints_iq1_m(const uint8_t *block, struct quant_ints *out);
void quant_ints_iq4_xs(const uint8_t *block, struct quant_ints *out);
void quant_ints_tq1_0(const uint8_t *block, struct quant_ints *out);
void quant_ints_tq2_0(const uint8_t *block, struct quant_ints *out);

/* The values of four-bit codes: IQ4_NL and IQ4_XS; twice those of E2M1 (OCP Microscaling Formats 1.0): MXFP4, NVFP4. */
extern const int8_t iq4_values[16], e2m1_values[16];
/* Half the value of a power-of-two scale byte (E8M0, bias 127), and of a scale byte without sign with three bits of
 * mantissa (UE4M3, bias 7; 0x7f is 0): halves, as the values above are doubled. */
float e8m0_half(uint8_t e);
float ue4m3_half(uint8_t x);

/* Seven bits of signs stand for eight: the last one makes the number of minus signs even. */
static inline uint32_t quant_eight_signs(uint32_t seven)
{
    uint32_t parity = seven ^ seven >> 4;
    parity ^= parity >> 2;
    parity ^= parity >> 1;
    return seven | (parity & 1) << 7;
}

/* The decoders, for the table in quant.c; as quant_type.decode. */
void decode_iq2_xxs(const void *src, int64_t n, float *dst);
void decode_iq2_xs(const void *src, int64_t n, float *dst);
void decode_iq2_s(const void *src, int64_t n, float *dst);
void decode_iq3_xxs(const void *src, int64_t n, float *dst);
void decode_iq3_s(const void *src, int64_t n, float *dst);
void decode_iq1_s(const void *src, int64_t n, float *dst);
void decode_iq1_m(const void *src, int64_t n, float *dst);
void decode_iq4_nl(const void *src, int64_t n, float *dst);
void decode_iq4_xs(const void *src, int64_t n, float *dst);
void decode_tq1_0(const void *src, int64_t n, float *dst);
void decode_tq2_0(const void *src, int64_t n, float *dst);
void decode_mxfp4(const void *src, int64_t n, float *dst);
void decode_nvfp4(const void *src, int64_t n, float *dst);

/* Codebooks (quant_iq_tables.c). An entry of eight values holds numbers 0 to 2 of values, elements 0 to 3 in the low
 * nibbles of bytes 0 to 3, elements 4 to 7 in the high ones: of 8, 25, 43 (iq2) and of -1, 0, 1 (iq1). An entry of
 * four values holds them as bytes. */
extern const uint32_t iq2_xxs_grid[256], iq2_xs_grid[512], iq2_s_grid[1024], iq1_grid[2048];
extern const uint32_t iq3_xxs_grid[256], iq3_s_grid[512];

#endif
