/* The reference of attention: one tile of 64 positions folded in f64; the running state stays f32 between
 * tiles, as in every set, so that partial results have one form. Online softmax: Milakov and Gimelshein
 * 2018. */
#include "kernels/attention.h"
#include "kernels/sets.h"
#include <math.h>
#include <string.h>

static double ref_key(const struct kv_tile *t, int64_t d_k, int64_t d, int64_t j)
{
    switch (t->rep) {
    case KV_F16:
        return (double)f16_to_f32(((const uint16_t *)t->k)[d * ATTN_TILE + j]);
    case KV_BF16:
        return (double)bf16_value(((const uint16_t *)t->k)[(d / 2 * ATTN_TILE + j) * 2 + d % 2]);
    case KV_Q8:
        return (double)(((const uint8_t *)t->k)[(d / 4 * ATTN_TILE + j) * 4 + d % 4] - 128) *
               (double)q8_key_scales(t->k, d_k)[d / Q8_BLOCK * ATTN_TILE + j];
    case KV_Q4:
        return (double)key_at(KV_Q4, t->k, d_k, d, j);
    default:
        return (double)((const float *)t->k)[d * ATTN_TILE + j];
    }
}

static double ref_value(const struct kv_tile *t, int64_t d_v, int64_t j, int64_t d)
{
    switch (t->rep) {
    case KV_F16:
        return (double)f16_to_f32(((const uint16_t *)t->v)[j * d_v + d]);
    case KV_BF16:
        return (double)bf16_value(((const uint16_t *)t->v)[(j / 2 * d_v + d) * 2 + j % 2]);
    case KV_Q8:
        return (double)((const int8_t *)t->v)[(j / 4 * d_v + d) * 4 + j % 4] *
               (double)q8_value_scales(t->v, d_v)[j];
    case KV_Q4:
        return (double)q4_value(t->v, d_v, j, d) * (double)q4_value_scales(t->v, d_v)[j];
    default:
        return (double)((const float *)t->v)[j * d_v + d];
    }
}

/* score[j] for the visible positions of one query; returns their maximum, -INFINITY where nothing
 * compares. */
static double ref_scores(const struct kv_tile *t, int64_t d_k, const float *q, uint64_t visible,
                         double softcap, double score[ATTN_TILE])
{
    double max = -HUGE_VAL;
    for (int64_t j = 0; j < ATTN_TILE; j++)
        score[j] = 0;
    for (int64_t d = 0; d < d_k; d++)
        for (int64_t j = 0; j < ATTN_TILE; j++)
            if (visible >> j & 1)
                score[j] += (double)q[d] * ref_key(t, d_k, d, j);
    for (int64_t j = 0; j < ATTN_TILE; j++) {
        if (!(visible >> j & 1))
            continue;
        if (softcap > 0)
            score[j] = softcap * tanh(score[j] / softcap);
        if (score[j] > max)
            max = score[j];
    }
    return max;
}

static void ref_fold(const struct kv_tile *t, int64_t d_v, const double p[ATTN_TILE], uint64_t visible,
                     double keep, bool fresh, float *o)
{
    for (int64_t d = 0; d < d_v; d++) {
        double sum = fresh ? 0 : (double)o[d] * keep;
        for (int64_t j = 0; j < ATTN_TILE; j++)
            if (visible >> j & 1)
                sum += p[j] * ref_value(t, d_v, j, d);
        o[d] = (float)sum;
    }
}

void ref_attn_tile(const struct kv_tile *t, int64_t d_k, int64_t d_v, int64_t n_q, const void *q,
                   const struct attn_visible *vis, float softcap, struct attn_state *state, float *o,
                   void *scratch)
{
    (void)scratch;
    for (int64_t i = 0; i < n_q; i++) {
        const uint64_t visible = visible_bits(&vis[i]);
        if (!visible)
            continue;
        double p[ATTN_TILE], sum = 0;
        const double max = ref_scores(t, d_k, attn_query_at(q, d_k, i), visible, (double)softcap, p);
        struct attn_state *s = &state[i];
        const bool fresh = s->l == 0;
        /* m is stored as f32, so the exponentials are taken against that rounded value. */
        const float m = max > (double)s->m ? (float)max : s->m;
        const double keep = fresh ? 0 : exp((double)s->m - (double)m);
        for (int64_t j = 0; j < ATTN_TILE; j++) {
            p[j] = visible >> j & 1 ? exp(p[j] - (double)m) : 0;
            sum += p[j];
        }
        s->l = (float)((double)s->l * keep + sum);
        s->m = m;
        ref_fold(t, d_v, p, visible, keep, fresh, o + i * d_v);
    }
}

void ref_attn_merge(int64_t d_v, const struct attn_state *sb, const float *ob, struct attn_state *sa,
                    float *oa)
{
    if (sb->l == 0)
        return;
    if (sa->l == 0) {
        *sa = *sb;
        for (int64_t d = 0; d < d_v; d++)
            oa[d] = ob[d];
        return;
    }
    const float m = sb->m > sa->m ? sb->m : sa->m;
    const double ca = exp((double)sa->m - (double)m), cb = exp((double)sb->m - (double)m);
    sa->l = (float)((double)sa->l * ca + (double)sb->l * cb);
    sa->m = m;
    for (int64_t d = 0; d < d_v; d++)
        oa[d] = (float)((double)oa[d] * ca + (double)ob[d] * cb);
}

void ref_kv_store(enum kv_rep rep, int64_t d_k, int64_t d_v, int32_t e, const float *k, const float *v,
                  void *tile_k, void *tile_v)
{
    twin_kv_store(rep, d_k, d_v, e, k, v, tile_k, tile_v);
}

void ref_attn_query(enum kv_rep rep, int64_t d_k, const float *q, void *dst)
{
    (void)rep;
    memcpy(dst, q, (size_t)d_k * sizeof *q);
}

size_t ref_attn_scratch_bytes(enum kv_rep rep, int64_t d_k, int64_t d_v, int64_t n_q)
{
    (void)rep, (void)d_k, (void)d_v, (void)n_q;
    return 0;
}

void ref_attn_finish(int64_t d_v, const struct attn_state *s, float *o)
{
    twin_attn_finish(d_v, s, o); /* one division: already exact to half an ulp */
}
