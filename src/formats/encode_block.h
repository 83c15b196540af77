/* What the encoders of blocks share: a block made ready for fitting, and scales as float16. Private to them. */
#ifndef HASTEN_FORMATS_ENCODE_BLOCK_H
#define HASTEN_FORMATS_ENCODE_BLOCK_H
#include "formats/encode_fit.h"
#include <stdbool.h>
#include <stdint.h>

#define ENCODE_MAX_BLOCK 256

/* n values, divided by 2^exponent so that the largest lies in [0.5, 1]; weights with the largest 1. */
struct encode_block {
    float x[ENCODE_MAX_BLOCK], w[ENCODE_MAX_BLOCK];
    int exponent;
    bool zero; /* no value reaches half of the smallest float16: x is all zeros */
};

/* -1, or the index of the first value that is not finite. importance: NULL, or [n]. */
int encode_load(const float *x, const float *importance, int n, struct encode_block *out);

/* The finite float16 nearest to d * 2^exponent; *back: what it stands for in the block's units. */
uint16_t encode_f16(float d, int exponent, float *back);

static inline void encode_store_u16(uint8_t *p, uint16_t v)
{
    p[0] = (uint8_t)(v & 0xff);
    p[1] = (uint8_t)(v >> 8);
}

/* One block of 256 values, loaded, to its bytes. */
void encode_q2_k(const struct encode_block *b, uint8_t *dst);
void encode_q3_k(const struct encode_block *b, uint8_t *dst);
void encode_q4_k(const struct encode_block *b, uint8_t *dst);
void encode_q5_k(const struct encode_block *b, uint8_t *dst);
void encode_q6_k(const struct encode_block *b, uint8_t *dst);

#endif
