/* Random and hostile inputs. */
#include "checkasm.h"
#include <math.h>
#include <string.h>

const uint32_t all_types[] = {
    QUANT_F32,    QUANT_F16,     QUANT_BF16,   QUANT_Q4_0,  QUANT_Q4_1,    QUANT_Q5_0,  QUANT_Q5_1,
    QUANT_Q8_0,   QUANT_Q2_K,    QUANT_Q3_K,   QUANT_Q4_K,  QUANT_Q5_K,    QUANT_Q6_K,  QUANT_IQ1_S,
    QUANT_IQ1_M,  QUANT_IQ2_XXS, QUANT_IQ2_XS, QUANT_IQ2_S, QUANT_IQ3_XXS, QUANT_IQ3_S, QUANT_IQ4_NL,
    QUANT_IQ4_XS, QUANT_TQ1_0,   QUANT_TQ2_0,  QUANT_MXFP4, QUANT_NVFP4};
const int n_types = sizeof all_types / sizeof *all_types;

uint32_t rng_u32(struct rng *r)
{
    r->state = r->state * 6364136223846793005ull + 1442695040888963407ull;
    const uint64_t x = (r->state ^ (r->state >> 33)) * 0xff51afd7ed558ccdull;
    return (uint32_t)(x >> 32);
}

float rng_float(struct rng *r)
{
    return (float)(rng_u32(r) >> 8) * 0x1p-23f - 1.0f;
}

static float float_of_bits(uint32_t u)
{
    float f;
    memcpy(&f, &u, sizeof f);
    return f;
}

void fill_floats(struct rng *r, enum x_kind kind, int64_t n, float *x)
{
    static const float levels[] = {33.0f, 63.5f, 68.0f};
    const float level = levels[rng_u32(r) % 3] / 127.0f, signs = rng_u32(r) & 1 ? 1.0f : -1.0f;
    for (int64_t i = 0; i < n; i++) {
        switch (kind) {
        case X_ZERO:
            x[i] = 0.0f;
            break;
        case X_NEG_ZERO:
            x[i] = rng_u32(r) & 1 ? -0.0f : 0.0f;
            break;
        case X_DENORMAL:
            x[i] = rng_float(r) * 0x1p-130f;
            break;
        case X_HUGE:
            x[i] = rng_float(r) * 3.4e38f;
            break;
        case X_EQUAL:
            x[i] = 1.0f;
            break;
        case X_MINUS:
            x[i] = -1.0f;
            break;
        case X_SIGNS:
            x[i] = rng_u32(r) & 1 ? 1.0f : -1.0f;
            break;
        case X_LEVEL: /* the first 16 of 256 are small but for the 1 */
            x[i] = i % 256 == 0   ? 1.0f
                   : i % 256 < 16 ? 0.1f
                                  : (level + rng_float(r) * 0.004f) * (rng_u32(r) & 1 ? 1.0f : signs);
            break;
        case X_BITS:
            x[i] = float_of_bits(rng_u32(r));
            break;
        default:
            x[i] = rng_float(r) * (rng_u32(r) % 16 ? 1.0f : 20.0f);
            break;
        }
    }
    if (n > 0 && (kind == X_NAN || kind == X_INF))
        x[rng_u32(r) % (uint32_t)n] = kind == X_NAN ? NAN : rng_u32(r) & 1 ? INFINITY : -INFINITY;
}

/* Byte offsets of the f16 scales in a block; -1: none. */
static void scale_offsets(uint32_t id, int at[2])
{
    at[0] = 0;
    at[1] = -1;
    if (id == QUANT_Q4_1 || id == QUANT_Q5_1 || id == QUANT_Q4_K || id == QUANT_Q5_K)
        at[1] = 2;
    if (id == QUANT_Q2_K) {
        at[0] = 80;
        at[1] = 82;
    }
    if (id == QUANT_Q3_K)
        at[0] = 108;
    if (id == QUANT_Q6_K)
        at[0] = 208;
    if (id == QUANT_TQ1_0)
        at[0] = 52;
    if (id == QUANT_TQ2_0)
        at[0] = 64;
    if (id == QUANT_IQ1_M || id == QUANT_MXFP4 || id == QUANT_NVFP4) /* fill_scale */
        at[0] = -1;
}

static uint16_t scale_f16(struct rng *r, enum w_kind kind)
{
    const uint16_t sign = (uint16_t)(rng_u32(r) & 0x8000);
    if (kind == W_DENORMAL)
        return (uint16_t)(sign | (rng_u32(r) & 0x3ff));
    if (kind == W_SPECIAL)
        return (uint16_t)rng_u32(r);
    if (kind == W_RANDOM)
        return f32_to_f16(rng_float(r) * 0.05f);
    return (uint16_t)(sign | 0x7bff); /* 65504, the largest */
}

/* Scales that are not two neighbouring bytes. Those of NVFP4 may be any bytes. */
static void fill_scale(struct rng *r, enum w_kind kind, uint32_t id, uint8_t *block)
{
    if (id == QUANT_IQ1_M) { /* a nibble on top of each of four words */
        const uint16_t h = scale_f16(r, kind);
        for (int i = 0; i < 4; i++)
            block[49 + 2 * i] = (uint8_t)((block[49 + 2 * i] & 15) | (h >> (4 * i) & 15) << 4);
    }
    if (id == QUANT_MXFP4 && kind != W_SPECIAL) /* powers of two of moderate size, or the smallest */
        block[0] = (uint8_t)(kind == W_DENORMAL ? rng_u32(r) % 4 : 110 + rng_u32(r) % 32);
}

static void fill_value(struct rng *r, enum w_kind kind, const struct quant_type *type, uint8_t *dst)
{
    float f;
    fill_floats(r, kind == W_SPECIAL ? X_BITS : kind == W_DENORMAL ? X_DENORMAL : X_RANDOM, 1, &f);
    if (kind == W_ZEROS || kind == W_ONES)
        f = kind == W_ZEROS ? -0.0f : 1.0f;
    if (kind == W_128 || kind == W_EXTREMES)
        f *= type->id == QUANT_F16 ? 1e3f : 1e30f;
    const uint16_t h = type->id == QUANT_F16 ? f32_to_f16(f) : f32_to_bf16(f);
    memcpy(dst, type->id == QUANT_F32 ? (const void *)&f : (const void *)&h, (size_t)type->block_bytes);
}

void fill_blocks(struct rng *r, enum w_kind kind, const struct quant_type *type, int64_t n_blocks,
                 uint8_t *dst)
{
    int at[2];
    scale_offsets(type->id, at);
    for (int64_t b = 0; b < n_blocks; b++, dst += type->block_bytes) {
        if (type->block == 1) {
            fill_value(r, kind, type, dst);
            continue;
        }
        uint8_t extreme = 0;
        for (int i = 0; i < type->block_bytes; i++) {
            static const uint8_t extremes[] = {0, 0x7f, 0x80, 0xff};
            if (i % 16 == 0)
                extreme = extremes[rng_u32(r) % 4];
            dst[i] = (uint8_t)(kind == W_ZEROS      ? 0
                               : kind == W_ONES     ? 0xff
                               : kind == W_128      ? 0x80
                               : kind == W_EXTREMES ? extreme
                                                    : rng_u32(r));
        }
        fill_scale(r, kind, type->id, dst);
        for (int i = 0; i < 2; i++) {
            const uint16_t h = scale_f16(r, kind);
            if (at[i] >= 0)
                memcpy(dst + at[i], &h, 2);
        }
    }
}
