/* Random blocks: the quants are random bits, the scales are chosen so that the decoded weights have the
 * wanted spread (each format's q has a known standard deviation) and differ from block to block. */
#include "tiny_weights.h"

#include "base/rng.h"

#include <math.h>
#include <string.h>

struct tiny_rng tiny_rng_make(uint64_t seed, uint32_t stream)
{
    return (struct tiny_rng){.key = {(uint32_t)seed, (uint32_t)(seed >> 32)}, .counter = {0, 0, stream, 0}};
}

uint32_t tiny_rng_u32(struct tiny_rng *r)
{
    if (r->left == 0) {
        philox4x32(r->counter, r->key, r->out);
        r->counter[0]++;
        r->left = 4;
    }
    return r->out[--r->left];
}

float tiny_rng_uniform(struct tiny_rng *r)
{
    return (float)((int32_t)tiny_rng_u32(r) >> 8) * 0x1p-23f;
}

static void put_f16(uint8_t *p, float f)
{
    uint16_t h = f32_to_f16(f);
    p[0] = (uint8_t)h;
    p[1] = (uint8_t)(h >> 8);
}

static int below(struct tiny_rng *r, int n)
{
    return (int)(tiny_rng_u32(r) % (uint32_t)n);
}

/* 8 scales and 8 minima of six bits, minima near the scales, in the packing of Q4_K and Q5_K. */
static void put_scale_min(uint8_t p[12], struct tiny_rng *r)
{
    int scale[8], min[8];
    for (int i = 0; i < 8; i++) {
        scale[i] = 1 + below(r, 63);
        min[i] = scale[i] - (below(r, 8) == 0);
    }
    for (int i = 0; i < 4; i++) {
        p[i] = (uint8_t)(scale[i] | (scale[i + 4] & 0x30) << 2);
        p[i + 4] = (uint8_t)(min[i] | (min[i + 4] & 0x30) << 2);
        p[i + 8] = (uint8_t)((scale[i + 4] & 15) | (min[i + 4] & 15) << 4);
    }
}

/* The codebook, ternary and four-bit float types: the deviations are those of blocks of random bits. */
static int put_newer_scales(uint32_t type, uint8_t *p, float s)
{
    static const struct {
        uint32_t type;
        int at; /* of d */
        float deviation;
    } known[] = {
        {QUANT_IQ2_XXS, 0, 53.5f},  {QUANT_IQ2_XS, 0, 55.9f},   {QUANT_IQ2_S, 0, 56.4f},
        {QUANT_IQ3_XXS, 0, 142.4f}, {QUANT_IQ3_S, 0, 140.0f},   {QUANT_IQ1_S, 0, 7.2f},
        {QUANT_IQ4_NL, 0, 67.5f},   {QUANT_IQ4_XS, 0, 1243.0f}, {QUANT_TQ1_0, 52, 0.817f},
        {QUANT_TQ2_0, 64, 1.22f},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (known[i].type == type) {
            put_f16(p + known[i].at, s / known[i].deviation);
            return 0;
        }
    }
    if (type == QUANT_IQ1_M) { /* a nibble of d on top of each of four words */
        const uint16_t h = f32_to_f16(s / 7.2f);
        for (int i = 0; i < 4; i++)
            p[49 + 2 * i] = (uint8_t)((p[49 + 2 * i] & 15) | (h >> (4 * i) & 15) << 4);
        return 0;
    }
    if (type == QUANT_NVFP4) { /* E4M3 without sign, halved: here a power of two times 1 + 3 bits */
        const int exponent = 8 + (int)floorf(log2f(s / 2.93f));
        for (int i = 0; i < 4; i++)
            p[i] = (uint8_t)((exponent < 1 ? 1 : exponent > 15 ? 15 : exponent) << 3 | (p[i] & 3));
        return 0;
    }
    return -1;
}

/* Overwrites the scales of a block of random bits. s: wanted standard deviation. */
static int put_scales(uint32_t type, uint8_t *p, float s, struct tiny_rng *r)
{
    switch (type) {
    case QUANT_Q4_0:
        put_f16(p, s / 4.61f);
        return 0;
    case QUANT_Q4_1:
        put_f16(p, s / 4.61f);
        put_f16(p + 2, s / 4.61f * -7.5f);
        return 0;
    case QUANT_Q5_0:
        put_f16(p, s / 9.23f);
        return 0;
    case QUANT_Q5_1:
        put_f16(p, s / 9.23f);
        put_f16(p + 2, s / 9.23f * -15.5f);
        return 0;
    case QUANT_Q8_0:
        put_f16(p, s / 73.9f);
        return 0;
    case QUANT_Q2_K: /* scale and minimum of a sub-block are equal: dmin = 1.5 d centres q = 0..3 */
        for (int i = 0; i < 16; i++)
            p[i] = (uint8_t)(17 * (1 + below(r, 15)));
        put_f16(p + 80, s / 10.2f);
        put_f16(p + 82, s / 10.2f * 1.5f);
        return 0;
    case QUANT_Q3_K:
        put_f16(p + 108, s / 42.3f);
        return 0;
    case QUANT_Q4_K:
        put_scale_min(p + 4, r);
        put_f16(p, s / 169.0f);
        put_f16(p + 2, s / 169.0f * 7.5f);
        return 0;
    case QUANT_Q5_K:
        put_scale_min(p + 4, r);
        put_f16(p, s / 339.0f);
        put_f16(p + 2, s / 339.0f * 15.5f);
        return 0;
    case QUANT_Q6_K:
        put_f16(p + 208, s / 1365.0f);
        return 0;
    case QUANT_MXFP4: /* a power of two at most sqrt(2) off; E2M1 has a deviation of 2.93 */
        p[0] = (uint8_t)(127 + (int)lrintf(log2f(s / 2.93f)));
        return 0;
    default:
        return put_newer_scales(type, p, s);
    }
}

static void plain_weight(uint32_t type, float value, uint8_t *p)
{
    uint16_t half = type == QUANT_F16 ? f32_to_f16(value) : f32_to_bf16(value);
    if (type == QUANT_F32)
        memcpy(p, &value, 4);
    else
        memcpy(p, &half, 2);
}

int tiny_weights(const struct quant_type *type, int64_t n, float std, struct tiny_rng *r, void *out)
{
    uint8_t *p = out;
    if (!type->decode)
        return -1;
    for (int64_t i = 0; i < n / type->block; i++, p += type->block_bytes) {
        if (type->block == 1) {
            plain_weight(type->id, std * 1.7320508f * tiny_rng_uniform(r), p);
            continue;
        }
        for (int j = 0; j < type->block_bytes; j++)
            p[j] = (uint8_t)(tiny_rng_u32(r) >> 24);
        if (put_scales(type->id, p, std * (1.0f + 0.5f * tiny_rng_uniform(r)), r))
            return -1;
    }
    return 0;
}
