/* Keys and values back out of a page, as floats: the inverse of kv_store up to its rounding. One build for every set:
 * it is for methods that look at a cache, not for the pass. */
#include "kernels/attention.h"
#include "formats/quant.h"
#include <string.h>

static void load_value(const struct kv_tile *t, int64_t d_v, int32_t e, float *v)
{
    const uint16_t *half = t->v;
    for (int64_t d = 0; d < d_v; d++) {
        switch (t->rep) {
        case KV_F16:
            v[d] = f16_to_f32(half[e * d_v + d]);
            break;
        case KV_F32:
            v[d] = ((const float *)t->v)[e * d_v + d];
            break;
        case KV_BF16:
            v[d] = bf16_value(half[(e / 2 * d_v + d) * 2 + e % 2]);
            break;
        case KV_Q8:
            v[d] =
                (float)((const int8_t *)t->v)[(e / 4 * d_v + d) * 4 + e % 4] * q8_value_scales(t->v, d_v)[e];
            break;
        case KV_Q4:
            v[d] = (float)q4_value(t->v, d_v, e, d) * q4_value_scales(t->v, d_v)[e];
            break;
        case KV_REPS:
            break;
        }
    }
}

void kv_load(const struct kv_tile *t, int64_t d_k, int64_t d_v, int32_t e, float *k, float *v)
{
    for (int64_t d = 0; k && d < d_k; d++)
        k[d] = key_at(t->rep, t->k, d_k, d, e);
    if (v)
        load_value(t, d_v, e, v);
}

/* n elements of `size` bytes, `stride` elements apart. */
static void move_elements(const void *from, void *to, int64_t n, size_t size, int64_t stride)
{
    for (int64_t i = 0; i < n; i++)
        memcpy((char *)to + (size_t)(i * stride) * size, (const char *)from + (size_t)(i * stride) * size,
               size);
}

static void *at(const void *base, int64_t bytes)
{
    return (char *)(uintptr_t)base + bytes;
}

void kv_move(const struct kv_tile *from, int32_t e, int64_t d_k, int64_t d_v, const struct kv_tile *to,
             int32_t f)
{
    const void *k = from->k, *v = from->v;
    switch (from->rep) {
    case KV_F16:
        move_elements(at(k, 2 * e), at(to->k, 2 * f), d_k, 2, ATTN_TILE);
        memcpy(at(to->v, 2 * f * d_v), at(v, 2 * e * d_v), (size_t)(2 * d_v));
        break;
    case KV_F32:
        move_elements(at(k, 4 * e), at(to->k, 4 * f), d_k, 4, ATTN_TILE);
        memcpy(at(to->v, 4 * f * d_v), at(v, 4 * e * d_v), (size_t)(4 * d_v));
        break;
    case KV_BF16: /* pairs of components; values in pairs of positions */
        move_elements(at(k, 4 * e), at(to->k, 4 * f), (d_k + 1) / 2, 4, ATTN_TILE);
        move_elements(at(v, (e / 2 * d_v * 2 + e % 2) * 2), at(to->v, (f / 2 * d_v * 2 + f % 2) * 2), d_v, 2,
                      2);
        break;
    case KV_Q8: /* four components; values in fours of positions */
        move_elements(at(k, 4 * e), at(to->k, 4 * f), q8_quads(d_k), 4, ATTN_TILE);
        move_elements(q8_key_scales(k, d_k) + e, (void *)(uintptr_t)(q8_key_scales(to->k, d_k) + f),
                      q8_blocks(d_k), sizeof(float), ATTN_TILE);
        move_elements(at(v, e / 4 * d_v * 4 + e % 4), at(to->v, f / 4 * d_v * 4 + f % 4), d_v, 1, 4);
        memcpy((void *)(uintptr_t)(q8_value_scales(to->v, d_v) + f), q8_value_scales(v, d_v) + e,
               sizeof(float));
        break;
    case KV_Q4: /* the same, half as many bytes */
        move_elements(at(k, 4 * e), at(to->k, 4 * f), q4_quads(d_k), 4, ATTN_TILE);
        move_elements(q4_key_scales(k, d_k) + e, (void *)(uintptr_t)(q4_key_scales(to->k, d_k) + f),
                      q8_blocks(d_k), sizeof(uint16_t), ATTN_TILE);
        move_elements(at(v, e / 4 * q4_half(d_v) * 4 + e % 4), at(to->v, f / 4 * q4_half(d_v) * 4 + f % 4),
                      q4_half(d_v), 1, 4);
        move_elements(q4_key_numbers(k, d_k) + e, (void *)(uintptr_t)(q4_key_numbers(to->k, d_k) + f),
                      q4_numbers(d_k), 1, ATTN_TILE);
        move_elements(q4_value_numbers(v, d_v) + e, (void *)(uintptr_t)(q4_value_numbers(to->v, d_v) + f),
                      q4_numbers(d_v), 1, ATTN_TILE);
        memcpy((void *)(uintptr_t)(q4_value_scales(to->v, d_v) + f), q4_value_scales(v, d_v) + e,
               sizeof(float));
        break;
    case KV_REPS:
        break;
    }
}
