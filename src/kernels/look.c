/* See look.h. */
#include "kernels/look.h"
#include "formats/quant.h"
#include "kernels/attention.h"
#include "kernels/math.h"
#include "kernels/sets.h"
#include <math.h>
#include <string.h>

void look_keys(const struct kv_tile *t, int64_t d_k, int32_t n, float *kt)
{
    const uint16_t *half = t->k;
    const uint8_t *bytes = t->k;
    memset(kt, 0, (size_t)d_k * ATTN_TILE * sizeof *kt);
    for (int64_t d = 0; d < d_k; d++) {
        float *to = kt + d * ATTN_TILE;
        const float *scale = t->rep == KV_Q8 ? q8_key_scales(t->k, d_k) + d / Q8_BLOCK * ATTN_TILE : NULL;
        if (t->rep == KV_F16)
            for (int64_t j = 0; j < n; j++)
                to[j] = f16_to_f32(half[d * ATTN_TILE + j]);
        else if (t->rep == KV_F32)
            memcpy(to, (const float *)t->k + d * ATTN_TILE, (size_t)n * sizeof *to);
        else if (t->rep == KV_BF16)
            for (int64_t j = 0; j < n; j++)
                to[j] = bf16_value(half[(d / 2 * ATTN_TILE + j) * 2 + d % 2]);
        else
            for (int64_t j = 0; j < n; j++)
                to[j] = (float)(bytes[(d / 4 * ATTN_TILE + j) * 4 + d % 4] - 128) * scale[j];
    }
}

CLONES_FMA void look_scores(const float *kt, int64_t d_k, const float *q, float scale, float score[ATTN_TILE])
{
    float s[ATTN_TILE] = {0};
    for (int64_t d = 0; d < d_k; d++)
        for (int64_t j = 0; j < ATTN_TILE; j++)
            s[j] = fmaf(q[d], kt[d * ATTN_TILE + j], s[j]);
    for (int64_t j = 0; j < ATTN_TILE; j++)
        score[j] = s[j] * scale;
}

CLONES_FMA void look_dot16(const float *stat, int64_t d_k, const float *q, float scale, float score[16])
{
    float s[16] = {0};
    for (int64_t d = 0; d < d_k; d++)
        for (int64_t j = 0; j < 16; j++)
            s[j] = fmaf(q[d], stat[d * 16 + j], s[j]);
    for (int64_t j = 0; j < 16; j++)
        score[j] = s[j] * scale;
}

CLONES_FMA void look_bound16(const float *lo, const float *hi, int64_t d_k, const float *q, float scale,
                             float score[16])
{
    float s[16] = {0};
    for (int64_t d = 0; d < d_k; d++) {
        const float *corner = q[d] < 0 ? lo : hi; /* the larger of the two products, for every j */
        for (int64_t j = 0; j < 16; j++)
            s[j] = fmaf(q[d], corner[d * 16 + j], s[j]);
    }
    for (int64_t j = 0; j < 16; j++)
        score[j] = s[j] * scale;
}

void look_softmax_add(const float *score, int64_t n, float *max, float *sum)
{
    float m = *max, add = 0;
    for (int64_t i = 0; i < n; i++)
        m = score[i] > m ? score[i] : m;
    for (int64_t i = 0; i < n; i++)
        add += exp_f32_inline(score[i] - m);
    *sum = (*sum > 0 ? *sum * exp_f32_inline(*max - m) : 0) + add;
    *max = m;
}

CLONES_FMA void look_mass_add(const float *score, int64_t n, float max, float sum, float *mass)
{
    for (int64_t i = 0; i < n; i++)
        mass[i] += exp_f32_inline(score[i] - max) / sum;
}
