/* Attention over one tile of 64 positions. Twins: ref/twin_attention.c.
 *
 * Queries with something to see are taken four at a time, so that a key or value is converted to f32 once
 * for four. Scores: 16 positions at a time, four vectors per query, one fma per key component in ascending
 * order. Unseen positions are computed with whatever the page holds and then selected away; unseen values
 * are not touched. Representations other than f16 and f32 are left to the twins. */
#include "kernels/arm/vec_neon.h"
#include "kernels/attention.h"
#include "kernels/sets.h"

#define QUERIES 4 /* handled together */
#define STRETCH 4 /* vectors of positions, or of components, handled together */

struct query {
    const float *q;
    float *o;
    struct attn_state *state;
    uint64_t visible;
    float keep; /* factor of the old o and l */
    bool fresh; /* l was 0: o holds nothing */
    float p[ATTN_TILE] __attribute__((aligned(64)));
};

/* n_vec vectors of four from element i on. */
MATH_INLINE void load_kv(enum kv_rep rep, const void *p, int64_t i, int n_vec, float32x4_t v[STRETCH])
{
    for (int j = 0; j < n_vec; j++) {
        if (rep == KV_F16)
            v[j] = vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16((const uint16_t *)p + i + 4 * j)));
        else
            v[j] = vld1q_f32((const float *)p + i + 4 * j);
    }
}

MATH_INLINE float load_kv_one(enum kv_rep rep, const void *p, int64_t i)
{
    return rep == KV_F16 ? f16_to_f32(((const uint16_t *)p)[i]) : ((const float *)p)[i];
}

/* p of each query becomes its raw scores. */
MATH_INLINE void scores(int n, enum kv_rep rep, const void *k, int64_t d_k, struct query *qs)
{
    for (int at = 0; at < ATTN_TILE; at += 4 * STRETCH) {
        float32x4_t s[QUERIES][STRETCH], key[STRETCH];
        for (int i = 0; i < n; i++)
            for (int v = 0; v < STRETCH; v++)
                s[i][v] = vdupq_n_f32(0);
        for (int64_t d = 0; d < d_k; d++) {
            load_kv(rep, k, d * ATTN_TILE + at, STRETCH, key);
            for (int i = 0; i < n; i++)
                for (int v = 0; v < STRETCH; v++)
                    s[i][v] = vfmaq_n_f32(s[i][v], key[v], qs[i].q[d]);
        }
        for (int i = 0; i < n; i++)
            for (int v = 0; v < STRETCH; v++)
                vst1q_f32(qs[i].p + at + 4 * v, s[i][v]);
    }
}

/* Which of the four positions from 4 * v on are visible. */
MATH_INLINE uint32x4_t visible_lanes(uint64_t visible, int v)
{
    static const uint32_t bits[4] = {1, 2, 4, 8};
    return vtstq_u32(vdupq_n_u32((uint32_t)(visible >> (4 * v) & 15)), vld1q_u32(bits));
}

/* Raw scores become probabilities; the state moves on. */
static void softmax(float softcap, struct query *q)
{
    const float32x4_t lowest = vdupq_n_f32(-INFINITY), cap = vdupq_n_f32(softcap);
    struct v16 max = {{lowest, lowest, lowest, lowest}}, sum = max;
    for (int v = 0; v < ATTN_TILE / 4; v++) {
        float32x4_t s = vld1q_f32(q->p + 4 * v);
        if (softcap > 0)
            s = vmulq_f32(cap, v_tanh(vdivq_f32(s, cap)));
        s = vbslq_f32(visible_lanes(q->visible, v), s, lowest);
        vst1q_f32(q->p + 4 * v, s);
        max.v[v % 4] = v_greater(s, max.v[v % 4]);
    }
    struct attn_state *state = q->state;
    const float top = v_reduce_max(max), m = top > state->m ? top : state->m;
    q->fresh = state->l == 0;
    q->keep = q->fresh ? 0.0f : exp_f32_inline(state->m - m);
    for (int v = 0; v < ATTN_TILE / 4; v++) {
        const float32x4_t e = v_exp(vsubq_f32(vld1q_f32(q->p + 4 * v), vdupq_n_f32(m)));
        const float32x4_t p =
            vreinterpretq_f32_u32(vandq_u32(vreinterpretq_u32_f32(e), visible_lanes(q->visible, v)));
        vst1q_f32(q->p + 4 * v, p);
        sum.v[v % 4] = v < 4 ? p : vaddq_f32(sum.v[v % 4], p);
    }
    state->l = fmaf(state->l, q->keep, v_reduce_add(sum));
    state->m = m;
}

/* Components [d0, d0 + 4 * n_vec) of o. */
MATH_INLINE void fold(int n, int n_vec, enum kv_rep rep, const void *values, int64_t d_v, int64_t d0,
                      struct query *qs)
{
    float32x4_t o[QUERIES][STRETCH], value[STRETCH];
    uint64_t any = 0;
    for (int i = 0; i < n; i++) {
        any |= qs[i].visible;
        for (int v = 0; v < n_vec; v++) {
            o[i][v] = vdupq_n_f32(0);
            if (!qs[i].fresh)
                o[i][v] = vmulq_n_f32(vld1q_f32(qs[i].o + d0 + 4 * v), qs[i].keep);
        }
    }
    for (; any; any &= any - 1) {
        const int j = __builtin_ctzll(any);
        load_kv(rep, values, j * d_v + d0, n_vec, value);
        for (int i = 0; i < n; i++) {
            if (!(qs[i].visible >> j & 1))
                continue;
            for (int v = 0; v < n_vec; v++)
                o[i][v] = vfmaq_n_f32(o[i][v], value[v], qs[i].p[j]);
        }
    }
    for (int i = 0; i < n; i++)
        for (int v = 0; v < n_vec; v++)
            vst1q_f32(qs[i].o + d0 + 4 * v, o[i][v]);
}

/* The last d_v % 4 components, one at a time. */
static void fold_tail(enum kv_rep rep, const void *values, int64_t d_v, int64_t d0, struct query *q)
{
    for (int64_t d = d0; d < d_v; d++) {
        float o = q->fresh ? 0.0f : q->o[d] * q->keep;
        for (uint64_t left = q->visible; left; left &= left - 1) {
            const int j = __builtin_ctzll(left);
            o = fmaf(q->p[j], load_kv_one(rep, values, j * d_v + d), o);
        }
        q->o[d] = o;
    }
}

MATH_INLINE void tile_n(int n, enum kv_rep rep, const struct kv_tile *t, int64_t d_k, int64_t d_v,
                        float softcap, struct query *qs)
{
    scores(n, rep, t->k, d_k, qs);
    for (int i = 0; i < n; i++)
        softmax(softcap, &qs[i]);
    int64_t d = 0;
    for (; d + 4 * STRETCH <= d_v; d += 4 * STRETCH)
        fold(n, STRETCH, rep, t->v, d_v, d, qs);
    for (; d + 4 <= d_v; d += 4)
        fold(n, 1, rep, t->v, d_v, d, qs);
    for (int i = 0; i < n && d < d_v; i++)
        fold_tail(rep, t->v, d_v, d, &qs[i]);
}

/* One compiled body for each number of queries and representation. */
#define TILE_BODY(n, rep, name)                                                                              \
    static __attribute__((noinline)) void name(const struct kv_tile *t, int64_t d_k, int64_t d_v,            \
                                               float softcap, struct query *qs)                              \
    {                                                                                                        \
        tile_n(n, rep, t, d_k, d_v, softcap, qs);                                                            \
    }
TILE_BODY(1, KV_F16, tile_1_f16)
TILE_BODY(2, KV_F16, tile_2_f16)
TILE_BODY(3, KV_F16, tile_3_f16)
TILE_BODY(4, KV_F16, tile_4_f16)
TILE_BODY(1, KV_F32, tile_1_f32)
TILE_BODY(2, KV_F32, tile_2_f32)
TILE_BODY(3, KV_F32, tile_3_f32)
TILE_BODY(4, KV_F32, tile_4_f32)

typedef void (*tile_fn)(const struct kv_tile *t, int64_t d_k, int64_t d_v, float softcap, struct query *qs);

void neon_attn_query(enum kv_rep rep, int64_t d_k, const float *q, void *dst)
{
    twin_attn_query(rep, d_k, q, dst);
}

size_t neon_attn_scratch_bytes(enum kv_rep rep, int64_t d_k, int64_t d_v, int64_t n_q)
{
    return twin_attn_scratch_bytes(rep, d_k, d_v, n_q);
}

void neon_attn_tile(const struct kv_tile *t, int64_t d_k, int64_t d_v, int64_t n_q, const void *q,
                    const struct attn_visible *vis, float softcap, struct attn_state *state, float *o,
                    void *scratch)
{
    static const tile_fn bodies[2][QUERIES] = {{tile_1_f16, tile_2_f16, tile_3_f16, tile_4_f16},
                                               {tile_1_f32, tile_2_f32, tile_3_f32, tile_4_f32}};
    if (t->rep != KV_F16 && t->rep != KV_F32) {
        twin_attn_tile(t, d_k, d_v, n_q, q, vis, softcap, state, o, scratch);
        return;
    }
    struct query qs[QUERIES];
    int n = 0;
    for (int64_t i = 0; i < n_q; i++) {
        const uint64_t visible = visible_bits(&vis[i]);
        if (visible) {
            qs[n].q = attn_query_at(q, d_k, i);
            qs[n].o = o + i * d_v;
            qs[n].state = &state[i];
            qs[n++].visible = visible;
        }
        if (n == QUERIES || (n && i == n_q - 1)) {
            bodies[t->rep == KV_F32][n - 1](t, d_k, d_v, softcap, qs);
            n = 0;
        }
    }
}

void neon_attn_merge(int64_t d_v, const struct attn_state *sb, const float *ob, struct attn_state *sa,
                     float *oa)
{
    float ca, cb;
    if (!attn_merge_states(d_v, sb, ob, sa, oa, &ca, &cb))
        return;
    for (int64_t d = 0; d < d_v; d += 16) {
        struct v16 a = v_load(oa + d, d_v - d);
        const struct v16 b = v_load(ob + d, d_v - d);
        for (int i = 0; i < 4; i++)
            a.v[i] = vfmaq_n_f32(vmulq_n_f32(b.v[i], cb), a.v[i], ca);
        v_store(oa + d, a, d_v - d);
    }
}

void neon_attn_finish(int64_t d_v, const struct attn_state *s, float *o)
{
    const float32x4_t l = vdupq_n_f32(s->l);
    for (int64_t d = 0; d < d_v; d += 16) {
        struct v16 v = {{vdupq_n_f32(0), vdupq_n_f32(0), vdupq_n_f32(0), vdupq_n_f32(0)}};
        if (s->l != 0) {
            v = v_load(o + d, d_v - d);
            for (int i = 0; i < 4; i++)
                v.v[i] = vdivq_f32(v.v[i], l);
        }
        v_store(o + d, v, d_v - d);
    }
}

void neon_kv_store(enum kv_rep rep, int64_t d_k, int64_t d_v, int32_t e, const float *k, const float *v,
                   void *tile_k, void *tile_v)
{
    if (rep != KV_F16) {
        twin_kv_store(rep, d_k, d_v, e, k, v, tile_k, tile_v);
        return;
    }
    uint16_t *to_k = (uint16_t *)tile_k + e, *to_v = (uint16_t *)tile_v + e * d_v;
    int64_t d = 0;
    for (; d + 4 <= d_k; d += 4) {
        uint16_t h[4];
        vst1_u16(h, vreinterpret_u16_f16(vcvt_f16_f32(vld1q_f32(k + d))));
        for (int64_t i = 0; i < 4; i++)
            to_k[(d + i) * ATTN_TILE] = h[i];
    }
    for (; d < d_k; d++)
        to_k[d * ATTN_TILE] = f32_to_f16(k[d]);
    for (d = 0; d + 4 <= d_v; d += 4)
        vst1_u16(to_v + d, vreinterpret_u16_f16(vcvt_f16_f32(vld1q_f32(v + d))));
    for (; d < d_v; d++)
        to_v[d] = f32_to_f16(v[d]);
}
