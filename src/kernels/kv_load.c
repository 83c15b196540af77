/* Keys and values back out of a page, as floats: the inverse of kv_store up to its rounding. One build for every set:
 * it is for methods that look at a cache, not for the pass. */
#include "kernels/attention.h"
#include "formats/quant.h"
#include <string.h>

static void load_key(const struct kv_tile *t, int64_t d_k, int32_t e, float *k)
{
    const uint16_t *half = t->k;
    const uint8_t *bytes = t->k;
    for (int64_t d = 0; d < d_k; d++) {
        switch (t->rep) {
        case KV_F16:
            k[d] = f16_to_f32(half[d * ATTN_TILE + e]);
            break;
        case KV_F32:
            k[d] = ((const float *)t->k)[d * ATTN_TILE + e];
            break;
        case KV_BF16:
            k[d] = bf16_value(half[(d / 2 * ATTN_TILE + e) * 2 + d % 2]);
            break;
        case KV_Q8:
            k[d] = (float)(bytes[(d / 4 * ATTN_TILE + e) * 4 + d % 4] - 128) *
                   q8_key_scales(t->k, d_k)[d / Q8_BLOCK * ATTN_TILE + e];
            break;
        case KV_REPS:
            break;
        }
    }
}

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
        case KV_REPS:
            break;
        }
    }
}

void kv_load(const struct kv_tile *t, int64_t d_k, int64_t d_v, int32_t e, float *k, float *v)
{
    if (k)
        load_key(t, d_k, e, k);
    if (v)
        load_value(t, d_v, e, v);
}
