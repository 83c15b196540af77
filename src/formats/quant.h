/* The table of block formats: for each public ggml type its id, name, block, bytes and decoder.
 * The decoders are the truth; they equal the `gguf` Python package bit for bit. */
#ifndef HASTEN_FORMATS_QUANT_H
#define HASTEN_FORMATS_QUANT_H
#include <stdint.h>

enum quant_id { /* values as in the GGUF specification */
    QUANT_F32 = 0,
    QUANT_F16 = 1,
    QUANT_Q4_0 = 2,
    QUANT_Q4_1 = 3,
    QUANT_Q5_0 = 6,
    QUANT_Q5_1 = 7,
    QUANT_Q8_0 = 8,
    QUANT_Q2_K = 10,
    QUANT_Q3_K = 11,
    QUANT_Q4_K = 12,
    QUANT_Q5_K = 13,
    QUANT_Q6_K = 14,
    QUANT_IQ2_XXS = 16,
    QUANT_IQ2_XS = 17,
    QUANT_IQ3_XXS = 18,
    QUANT_IQ1_S = 19,
    QUANT_IQ4_NL = 20,
    QUANT_IQ3_S = 21,
    QUANT_IQ2_S = 22,
    QUANT_IQ4_XS = 23,
    QUANT_IQ1_M = 29,
    QUANT_BF16 = 30,
    QUANT_TQ1_0 = 34,
    QUANT_TQ2_0 = 35,
    QUANT_MXFP4 = 39,
    QUANT_NVFP4 = 40
};

struct quant_type {
    uint32_t id;
    const char *name; /* "Q4_K" */
    int32_t block;    /* elements per block; every row is a whole number of blocks */
    int32_t block_bytes;
    /* n (a multiple of block) elements from src (of any alignment) to dst. NULL: known, not decodable yet. */
    void (*decode)(const void *src, int64_t n, float *dst);
};

/* The entry of a ggml type id, or NULL if no public type has it. */
const struct quant_type *quant_type_get(uint32_t id);

/* Scalar conversions, IEEE, round to nearest even; NaN stays NaN. */
float f16_to_f32(uint16_t h);
uint16_t f32_to_f16(float f);
float bf16_to_f32(uint16_t b);
uint16_t f32_to_bf16(float f);

#endif
