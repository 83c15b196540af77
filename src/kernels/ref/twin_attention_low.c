/* Plain twins of attention over bf16 and q8 pages: the operations of x86/attention_bf16_*.c and
 * x86/attention_q8_*.c, one query at a time. What a query does not see is not even loaded. */
#include "kernels/attention.h"
#include "kernels/sets.h"
#include <string.h>

/* ---- bf16 --------------------------------------------------------------------------------------------------- */

static void store_bf16(int64_t d_k, int64_t d_v, int32_t e, const float *k, const float *v, uint16_t *tile_k,
                       uint16_t *tile_v)
{
    for (int64_t d = 0; d < d_k; d++)
        tile_k[(d / 2 * ATTN_TILE + e) * 2 + d % 2] = bf16_round(k[d]);
    if (d_k % 2)
        tile_k[(d_k / 2 * ATTN_TILE + e) * 2 + 1] = 0;
    for (int64_t d = 0; d < d_v; d++)
        tile_v[(e / 2 * d_v + d) * 2 + e % 2] = bf16_round(v[d]);
}

CLONES_FMA static void scores_bf16(const uint16_t *k, int64_t d_k, const uint16_t *q, uint64_t visible,
                                   float score[ATTN_TILE])
{
    for (int64_t j = 0; j < ATTN_TILE; j++) {
        score[j] = 0.0f;
        for (int64_t d = 0; visible >> j & 1 && d < (d_k + 1) / 2; d++)
            score[j] = bf16_pair(score[j], k + (d * ATTN_TILE + j) * 2, q + 2 * d);
    }
}

CLONES_FMA static void fold_bf16(const uint16_t *v, int64_t d_v, const float p[ATTN_TILE], uint64_t visible,
                                 float *o)
{
    for (int64_t d = 0; d < d_v; d++) {
        for (int64_t j = 0; j < ATTN_TILE; j += 2) {
            uint16_t weight[2] = {0, 0}, value[2] = {0, 0};
            for (int64_t i = 0; i < 2; i++) {
                if (!(visible >> (j + i) & 1))
                    continue;
                weight[i] = bf16_round(p[j + i]);
                value[i] = v[(j / 2 * d_v + d) * 2 + i];
            }
            o[d] = bf16_pair(o[d], weight, value);
        }
    }
}

/* ---- q8 ----------------------------------------------------------------------------------------------------- */

/* As bits, which order as magnitudes do; NaNs come last. */
static uint32_t largest_magnitude(const float *x, int64_t n)
{
    uint32_t amax = 0;
    for (int64_t i = 0; i < n; i++) {
        const uint32_t u = f32_bits(x[i]) & 0x7fffffffu;
        amax = u > amax ? u : amax;
    }
    return amax;
}

/* n values to q with the scale returned, as act_make quantises a group. Where one is not finite: NaN. */
static float quantise(const float *x, int64_t n, int8_t *q)
{
    const uint32_t amax = largest_magnitude(x, n);
    const bool zero = amax >= 0x7f800000u || bits_f32(amax) < ACT_AMAX_MIN;
    const float inverse = 127.0f / bits_f32(amax);
    for (int64_t i = 0; i < n; i++)
        q[i] = zero ? 0 : (int8_t)((x[i] * inverse + ROUND_MAGIC) - ROUND_MAGIC);
    return amax >= 0x7f800000u ? canonical_nan() : zero ? 0.0f : bits_f32(amax) / 127.0f;
}

static void store_q8(int64_t d_k, int64_t d_v, int32_t e, const float *k, const float *v, uint8_t *tile_k,
                     uint8_t *tile_v)
{
    float *scales = (float *)(uintptr_t)q8_key_scales(tile_k, d_k);
    int8_t q[Q8_BLOCK];
    for (int64_t b = 0; b < q8_blocks(d_k); b++) {
        const int64_t d0 = b * Q8_BLOCK, n = d_k - d0 < Q8_BLOCK ? d_k - d0 : Q8_BLOCK;
        memset(q, 0, sizeof q);
        scales[b * ATTN_TILE + e] = quantise(k + d0, n, q);
        for (int64_t i = 0; i < 4 * q8_quads(n); i++)
            tile_k[((d0 + i) / 4 * ATTN_TILE + e) * 4 + i % 4] = (uint8_t)(q[i] + 128);
    }
    const uint32_t amax = largest_magnitude(v, d_v);
    float *scale = (float *)(uintptr_t)q8_value_scales(tile_v, d_v) + e;
    const bool zero = amax >= 0x7f800000u || bits_f32(amax) < ACT_AMAX_MIN;
    const float inverse = zero ? 0.0f : 127.0f / bits_f32(amax);
    *scale = amax >= 0x7f800000u ? INFINITY : zero ? 0.0f : bits_f32(amax) / 127.0f;
    for (int64_t d = 0; d < d_v; d++)
        tile_v[(e / 4 * d_v + d) * 4 + e % 4] =
            zero ? 0 : (uint8_t)(int8_t)((v[d] * inverse + ROUND_MAGIC) - ROUND_MAGIC);
}

static void query_q8(int64_t d_k, const float *q, void *dst)
{
    const struct q8_query to = q8_query_at(dst, d_k);
    int8_t *bytes = dst;
    memset(dst, 0, (size_t)(4 * q8_quads(d_k)));
    for (int64_t b = 0; b < q8_blocks(d_k); b++) {
        const int64_t d0 = b * Q8_BLOCK, n = d_k - d0 < Q8_BLOCK ? d_k - d0 : Q8_BLOCK;
        const float d = quantise(q + d0, n, bytes + d0);
        int32_t sum = 0;
        for (int64_t i = 0; i < n; i++)
            sum += bytes[d0 + i];
        ((float *)(uintptr_t)to.d)[b] = d;
        ((int32_t *)(uintptr_t)to.offset)[b] = -128 * sum;
    }
}

CLONES_FMA static void scores_q8(const uint8_t *k, int64_t d_k, const void *row, uint64_t visible,
                                 float score[ATTN_TILE])
{
    const struct q8_query q = q8_query_at(row, d_k);
    const float *scales = q8_key_scales(k, d_k);
    for (int64_t j = 0; j < ATTN_TILE; j++)
        score[j] = 0.0f;
    for (int64_t b = 0; b < q8_blocks(d_k); b++) {
        int32_t sum[ATTN_TILE];
        const int64_t d0 = b * Q8_BLOCK, n = d_k - d0 < Q8_BLOCK ? d_k - d0 : Q8_BLOCK;
        for (int64_t j = 0; j < ATTN_TILE; j++)
            sum[j] = q.offset[b];
        for (int64_t d = d0; d < d0 + n; d++)
            for (int64_t j = 0; j < ATTN_TILE; j++)
                sum[j] += k[(d / 4 * ATTN_TILE + j) * 4 + d % 4] * q.q[d];
        for (int64_t j = 0; j < ATTN_TILE; j++)
            if (visible >> j & 1)
                score[j] = fmaf((float)sum[j], q.d[b] * scales[b * ATTN_TILE + j], score[j]);
    }
}

/* Weights p d_v to eight bits with one scale, which is returned; 0 where a weight is NaN. */
CLONES_FMA static float quantise_weights(const float p[ATTN_TILE], const float *scales, uint64_t visible,
                                         uint8_t u[ATTN_TILE])
{
    float w[ATTN_TILE], max = 0.0f;
    for (int64_t j = 0; j < ATTN_TILE; j++) {
        w[j] = visible >> j & 1 ? p[j] * scales[j] : 0.0f;
        max = w[j] > max ? w[j] : max;
    }
    memset(u, 0, ATTN_TILE);
    if (max < ACT_AMAX_MIN)
        return 0.0f;
    const float inverse = 255.0f / max;
    for (int64_t j = 0; j < ATTN_TILE; j++) {
        const float x = w[j] * inverse;
        u[j] = x > 0.0f ? (uint8_t)((x + ROUND_MAGIC) - ROUND_MAGIC) : 0;
    }
    return max * (1.0f / 255.0f);
}

CLONES_FMA static void fold_q8(const uint8_t *v, int64_t d_v, const float p[ATTN_TILE], uint64_t visible,
                               float *o)
{
    uint8_t u[ATTN_TILE];
    const float scale = quantise_weights(p, q8_value_scales(v, d_v), visible, u);
    for (int64_t d = 0; d < d_v; d++) {
        int32_t sum = 0;
        for (int64_t j = 0; j < ATTN_TILE; j++)
            sum += u[j] * (int8_t)v[(j / 4 * d_v + d) * 4 + j % 4];
        o[d] = fmaf((float)sum, scale, o[d]);
    }
}

/* ---- both --------------------------------------------------------------------------------------------------- */

void twin_low_store(enum kv_rep rep, int64_t d_k, int64_t d_v, int32_t e, const float *k, const float *v,
                    void *tile_k, void *tile_v)
{
    if (rep == KV_BF16)
        store_bf16(d_k, d_v, e, k, v, tile_k, tile_v);
    else
        store_q8(d_k, d_v, e, k, v, tile_k, tile_v);
}

void twin_low_query(enum kv_rep rep, int64_t d_k, const float *q, void *dst)
{
    if (rep == KV_Q8) {
        query_q8(d_k, q, dst);
        return;
    }
    uint16_t *to = dst;
    for (int64_t d = 0; d < d_k; d++)
        to[d] = bf16_round(q[d]);
    if (d_k % 2)
        to[d_k] = 0;
}

void twin_low_scores(const struct kv_tile *t, int64_t d_k, const void *q, uint64_t visible,
                     float score[ATTN_TILE])
{
    if (t->rep == KV_BF16)
        scores_bf16(t->k, d_k, q, visible, score);
    else
        scores_q8(t->k, d_k, q, visible, score);
}

void twin_low_fold(const struct kv_tile *t, int64_t d_v, const float p[ATTN_TILE], uint64_t visible,
                   float keep, bool fresh, float *o)
{
    for (int64_t d = 0; d < d_v; d++)
        o[d] = fresh ? 0.0f : o[d] * keep;
    if (t->rep == KV_BF16)
        fold_bf16(t->v, d_v, p, visible, o);
    else
        fold_q8(t->v, d_v, p, visible, o);
}
