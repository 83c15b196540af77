/* See finite.h. Where the scales lie is the layout of each block (quant.c, quant_iq.c). */
#include "formats/finite.h"
#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

/* Types whose blocks hold one or two f16 scales, and integers otherwise: their products stay far below the largest
 * float, so the block is finite if its scales are. */
struct scales {
    uint32_t id;
    int16_t at[2]; /* bytes from the start of the block; the same twice: one scale */
};

static const struct scales f16_scales[] = {
    {QUANT_F16, {0, 0}},     {QUANT_Q4_0, {0, 0}},    {QUANT_Q4_1, {0, 2}},     {QUANT_Q5_0, {0, 0}},
    {QUANT_Q5_1, {0, 2}},    {QUANT_Q8_0, {0, 0}},    {QUANT_Q2_K, {80, 82}},   {QUANT_Q3_K, {108, 108}},
    {QUANT_Q4_K, {0, 2}},    {QUANT_Q5_K, {0, 2}},    {QUANT_Q6_K, {208, 208}}, {QUANT_IQ2_XXS, {0, 0}},
    {QUANT_IQ2_XS, {0, 0}},  {QUANT_IQ3_XXS, {0, 0}}, {QUANT_IQ1_S, {0, 0}},    {QUANT_IQ4_NL, {0, 0}},
    {QUANT_IQ3_S, {0, 0}},   {QUANT_IQ2_S, {0, 0}},   {QUANT_IQ4_XS, {0, 0}},   {QUANT_TQ1_0, {52, 52}},
    {QUANT_TQ2_0, {64, 64}},
};

static inline uint16_t load16(const uint8_t *p)
{
    uint16_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

static inline bool f16_odd(uint16_t h)
{
    return (h & 0x7C00) == 0x7C00;
}

/* The four scale words of IQ1_M hold a f16 in their top nibbles. */
static bool iq1_m_odd(const uint8_t *block)
{
    const uint8_t *s = block + 48;
    return f16_odd((uint16_t)((load16(s) >> 12) | ((load16(s + 2) >> 8) & 0x00F0) |
                              ((load16(s + 4) >> 4) & 0x0F00) | (load16(s + 6) & 0xF000)));
}

/* A scale 2^(e - 127) on values up to 6 (as halves: 2^(e - 128) on up to 12): finite below e = 253; 255 is NaN. */
static bool mxfp4_odd(const uint8_t *block)
{
    return block[0] >= 253;
}

/* Four scales in E4M3: NaN is all ones, whatever the sign. */
static bool nvfp4_odd(const uint8_t *block)
{
    return (block[0] & 0x7F) == 0x7F || (block[1] & 0x7F) == 0x7F || (block[2] & 0x7F) == 0x7F ||
           (block[3] & 0x7F) == 0x7F;
}

/* Scales that say NaN, though the decoders take them for numbers: index of the first value that one holds for. */
static int32_t nan_scale(uint32_t id, const uint8_t *block)
{
    if (id == QUANT_MXFP4 && block[0] == 255)
        return 0;
    for (int32_t i = 0; i < 4 && id == QUANT_NVFP4; i++)
        if ((block[i] & 0x7F) == 0x7F)
            return 16 * i;
    return -1;
}

struct search {
    const struct quant_type *type;
    int64_t n_bad;
    struct finite_find *first;
};

/* The decoder's word on one block. */
static void judge(struct search *s, const uint8_t *block, int64_t number)
{
    float x[FINITE_BLOCK];
    s->type->decode(block, s->type->block, x);
    for (int32_t i = 0; i < s->type->block; i++)
        if (!isfinite(x[i])) {
            if (!s->n_bad++)
                *s->first = (struct finite_find){number, i, x[i]};
            return;
        }
    const int32_t at = nan_scale(s->type->id, block);
    if (at >= 0 && !s->n_bad++)
        *s->first = (struct finite_find){number, at, NAN};
}

static void search_scales(struct search *s, const struct scales *at, const uint8_t *data, int64_t n)
{
    const size_t step = (size_t)s->type->block_bytes;
    for (int64_t i = 0; i < n; i++) {
        const uint8_t *block = data + (size_t)i * step;
        if (f16_odd(load16(block + at->at[0])) || f16_odd(load16(block + at->at[1])))
            judge(s, block, i);
    }
}

typedef bool (*odd_fn)(const uint8_t *block);

static void search_odd(struct search *s, odd_fn odd, const uint8_t *data, int64_t n)
{
    const size_t step = (size_t)s->type->block_bytes;
    for (int64_t i = 0; i < n; i++)
        if (!odd || odd(data + (size_t)i * step))
            judge(s, data + (size_t)i * step, i);
}

#define PIECE 1024 /* values, between two looks at what was found */

/* Plain floats: a piece is searched without a branch, then a bad one value by value. */
static void search_f32(struct search *s, const uint8_t *data, int64_t n)
{
    for (int64_t from = 0; from < n; from += PIECE) {
        const int64_t count = n - from < PIECE ? n - from : PIECE;
        uint32_t x[PIECE], bad = 0;
        memcpy(x, data + (size_t)from * 4, (size_t)count * 4);
        for (int64_t i = 0; i < count; i++)
            bad |= (uint32_t)((x[i] & 0x7F800000u) == 0x7F800000u);
        for (int64_t i = 0; bad && i < count; i++)
            judge(s, data + (size_t)(from + i) * 4, from + i);
    }
}

static void search_16(struct search *s, uint16_t ones, const uint8_t *data, int64_t n)
{
    for (int64_t from = 0; from < n; from += PIECE) {
        const int64_t count = n - from < PIECE ? n - from : PIECE;
        uint16_t x[PIECE], bad = 0;
        memcpy(x, data + (size_t)from * 2, (size_t)count * 2);
        for (int64_t i = 0; i < count; i++)
            bad |= (uint16_t)((x[i] & ones) == ones);
        for (int64_t i = 0; bad && i < count; i++)
            judge(s, data + (size_t)(from + i) * 2, from + i);
    }
}

int64_t finite_search(const struct quant_type *type, const void *data, int64_t n_blocks,
                      struct finite_find *first)
{
    struct search s = {.type = type, .first = first};
    switch (type->id) {
    case QUANT_F32:
        search_f32(&s, data, n_blocks);
        return s.n_bad;
    case QUANT_F16:
        search_16(&s, 0x7C00, data, n_blocks);
        return s.n_bad;
    case QUANT_BF16:
        search_16(&s, 0x7F80, data, n_blocks);
        return s.n_bad;
    case QUANT_IQ1_M:
        search_odd(&s, iq1_m_odd, data, n_blocks);
        return s.n_bad;
    case QUANT_MXFP4:
        search_odd(&s, mxfp4_odd, data, n_blocks);
        return s.n_bad;
    case QUANT_NVFP4:
        search_odd(&s, nvfp4_odd, data, n_blocks);
        return s.n_bad;
    default:
        break;
    }
    for (size_t i = 0; i < sizeof f16_scales / sizeof *f16_scales; i++)
        if (f16_scales[i].id == type->id) {
            search_scales(&s, &f16_scales[i], data, n_blocks);
            return s.n_bad;
        }
    search_odd(&s, NULL, data, n_blocks);
    return s.n_bad;
}
