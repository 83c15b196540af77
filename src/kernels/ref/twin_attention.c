/* Plain twins of the attention kernels: the operations of x86/attention_*.c, one query at a time. What differs
 * for bf16 and q8 is in twin_attention_low.c. */
#include "kernels/attention.h"
#include "kernels/sets.h"
#include <stddef.h>
#include <string.h>

MATH_INLINE float load_kv(enum kv_rep rep, const void *p, int64_t i)
{
    return rep == KV_F16 ? f16_to_f32(((const uint16_t *)p)[i]) : ((const float *)p)[i];
}

void twin_kv_store(enum kv_rep rep, int64_t d_k, int64_t d_v, int32_t e, const float *k, const float *v,
                   void *tile_k, void *tile_v)
{
    if (rep == KV_Q4) {
        q4_store(d_k, d_v, e, k, v, tile_k, tile_v);
        return;
    }
    if (rep == KV_BF16 || rep == KV_Q8) {
        twin_low_store(rep, d_k, d_v, e, k, v, tile_k, tile_v);
        return;
    }
    for (int64_t d = 0; d < d_k; d++) {
        if (rep == KV_F16)
            ((uint16_t *)tile_k)[d * ATTN_TILE + e] = f32_to_f16(k[d]);
        else
            ((float *)tile_k)[d * ATTN_TILE + e] = k[d];
    }
    for (int64_t d = 0; d < d_v; d++) {
        if (rep == KV_F16)
            ((uint16_t *)tile_v)[e * d_v + d] = f32_to_f16(v[d]);
        else
            ((float *)tile_v)[e * d_v + d] = v[d];
    }
}

/* Raw score[j] of the visible positions. Unseen keys are not even loaded. */
CLONES_FMA static void twin_scores(const struct kv_tile *t, int64_t d_k, const float *q, uint64_t visible,
                                   float score[ATTN_TILE])
{
    for (int64_t j = 0; j < ATTN_TILE; j++)
        score[j] = 0.0f;
    for (int64_t d = 0; d < d_k; d++)
        for (int64_t j = 0; j < ATTN_TILE; j++)
            if (visible >> j & 1)
                score[j] = fmaf(q[d], load_kv(t->rep, t->k, d * ATTN_TILE + j), score[j]);
}

/* softcap applied; -INFINITY where unseen. */
CLONES_FMA static void twin_cap(uint64_t visible, float softcap, float score[ATTN_TILE])
{
    for (int64_t j = 0; j < ATTN_TILE; j++) {
        if (!(visible >> j & 1))
            score[j] = -INFINITY;
        else if (softcap > 0)
            score[j] = softcap * tanh_f32_inline(score[j] / softcap);
    }
}

/* Largest score by the fixed reduction; a NaN never wins (the exponentials carry it on). */
static float twin_max(const float score[ATTN_TILE])
{
    float lane[16];
    for (int64_t l = 0; l < 16; l++) {
        lane[l] = -INFINITY;
        for (int64_t j = l; j < ATTN_TILE; j += 16)
            lane[l] = score[j] > lane[l] ? score[j] : lane[l];
    }
    for (int64_t step = 8; step > 0; step /= 2)
        for (int64_t l = 0; l < step; l++)
            lane[l] = lane[l + step] > lane[l] ? lane[l + step] : lane[l];
    return lane[0];
}

/* score[j] becomes p[j] = exp(score[j] - m), coarse or not, 0 where unseen; returns their sum by the fixed
 * reduction. */
CLONES_FMA static float twin_softmax(float score[ATTN_TILE], float m, uint64_t visible, bool coarse)
{
    float lane[16];
    const float minus_m = -(m * EXP_LOG2E);
    for (int64_t j = 0; j < ATTN_TILE; j++)
        score[j] = !(visible >> j & 1) ? 0.0f
                   : coarse            ? exp_coarse_inline(score[j], minus_m)
                                       : exp_f32_inline(score[j] - m);
    for (int64_t l = 0; l < 16; l++)
        lane[l] = score[l] + score[16 + l] + score[32 + l] + score[48 + l];
    for (int64_t step = 8; step > 0; step /= 2)
        for (int64_t l = 0; l < step; l++)
            lane[l] += lane[l + step];
    return lane[0];
}

CLONES_FMA static void twin_fold(const struct kv_tile *t, int64_t d_v, const float p[ATTN_TILE],
                                 uint64_t visible, float keep, bool fresh, float *o)
{
    for (int64_t d = 0; d < d_v; d++)
        o[d] = fresh ? 0.0f : o[d] * keep;
    for (int64_t j = 0; j < ATTN_TILE; j++)
        if (visible >> j & 1)
            for (int64_t d = 0; d < d_v; d++)
                o[d] = fmaf(p[j], load_kv(t->rep, t->v, j * d_v + d), o[d]);
}

void twin_attn_query(enum kv_rep rep, int64_t d_k, const float *q, void *dst)
{
    if (rep == KV_BF16 || rep == KV_Q8 || rep == KV_Q4)
        twin_low_query(rep == KV_Q4 ? KV_Q8 : rep, d_k, q, dst);
    else
        memcpy(dst, q, (size_t)d_k * sizeof *q);
}

size_t twin_attn_scratch_bytes(enum kv_rep rep, int64_t d_k, int64_t d_v, int64_t n_q)
{
    (void)n_q;
    return rep == KV_Q4 ? q4_scratch_bytes(d_k, d_v) : 0;
}

void twin_attn_tile(const struct kv_tile *t, int64_t d_k, int64_t d_v, int64_t n_q, const void *q,
                    const struct attn_visible *vis, float softcap, struct attn_state *state, float *o,
                    void *scratch)
{
    if (t->rep == KV_Q4) {
        q4_tile(twin_attn_tile, t, d_k, d_v, n_q, q, vis, softcap, state, o, scratch);
        return;
    }
    const bool low = t->rep == KV_BF16 || t->rep == KV_Q8;
    for (int64_t i = 0; i < n_q; i++) {
        const uint64_t visible = visible_bits(&vis[i]);
        if (!visible)
            continue;
        float score[ATTN_TILE];
        struct attn_state *s = &state[i];
        const float *query = attn_query_at(q, d_k, i);
        if (low)
            twin_low_scores(t, d_k, query, visible, score);
        else
            twin_scores(t, d_k, query, visible, score);
        twin_cap(visible, softcap, score);
        const float max = twin_max(score);
        const float m = max > s->m ? max : s->m;
        const bool fresh = s->l == 0;
        const float keep = fresh ? 0.0f : exp_f32_inline(s->m - m);
        s->l = fmaf(s->l, keep, twin_softmax(score, m, visible, low));
        s->m = m;
        if (low)
            twin_low_fold(t, d_v, score, visible, keep, fresh, o + i * d_v);
        else
            twin_fold(t, d_v, score, visible, keep, fresh, o + i * d_v);
    }
}

CLONES_FMA void twin_attn_merge(int64_t d_v, const struct attn_state *sb, const float *ob,
                                struct attn_state *sa, float *oa)
{
    float ca, cb;
    if (!attn_merge_states(d_v, sb, ob, sa, oa, &ca, &cb))
        return;
    for (int64_t d = 0; d < d_v; d++)
        oa[d] = fmaf(oa[d], ca, ob[d] * cb);
}

void twin_attn_finish(int64_t d_v, const struct attn_state *s, float *o)
{
    for (int64_t d = 0; d < d_v; d++)
        o[d] = s->l == 0 ? 0.0f : o[d] / s->l;
}
