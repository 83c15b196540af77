/* See look.h. */
#include "kernels/look.h"
#include "kernels/attention.h"
#include "kernels/math.h"
#include "kernels/sets.h"
#include <math.h>

/* The loop for one representation, which is a constant where it is called. */
MATH_INLINE void keys_of(enum kv_rep rep, const void *k, int64_t d_k, int32_t n, float *kt)
{
    for (int64_t d = 0; d < d_k; d++)
        for (int64_t j = 0; j < ATTN_TILE; j++)
            kt[d * ATTN_TILE + j] = j < n ? key_at(rep, k, d_k, d, j) : 0.0f;
}

void look_keys(const struct kv_tile *t, int64_t d_k, int32_t n, float *kt)
{
    switch (t->rep) {
    case KV_F16:
        keys_of(KV_F16, t->k, d_k, n, kt);
        break;
    case KV_F32:
        keys_of(KV_F32, t->k, d_k, n, kt);
        break;
    case KV_BF16:
        keys_of(KV_BF16, t->k, d_k, n, kt);
        break;
    case KV_Q8:
        keys_of(KV_Q8, t->k, d_k, n, kt);
        break;
    case KV_Q4:
        keys_of(KV_Q4, t->k, d_k, n, kt);
        break;
    case KV_REPS:
        break;
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
