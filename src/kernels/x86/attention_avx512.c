/* Attention over one tile of 64 positions. Twins: ref/twin_attention.c.
 *
 * Queries with something to see are taken four at a time, so that a key or value is converted to f32 once
 * for four. Scores: four vectors of 16 positions per query, one fma per key component in ascending order.
 * Unseen positions are computed with whatever the page holds and then selected away; unseen values are not
 * touched. */
#include "kernels/layout.h"
#include "kernels/sets.h"
#include "kernels/x86/vec_avx512.h"

#define QUERIES 4                /* handled together */
#define VECTORS (ATTN_TILE / 16) /* of positions in a tile; of components in a chunk of values */

struct query {
    const float *q;
    float *o;
    struct attn_state *state;
    uint64_t visible;
    float keep; /* factor of the old o and l */
    bool fresh; /* l was 0: o holds nothing */
    float p[ATTN_TILE] __attribute__((aligned(64)));
};

MATH_INLINE __m512 load_kv(enum kv_rep rep, const void *p, int64_t i, __mmask16 m)
{
    if (rep == KV_F16)
        return _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(m, (const uint16_t *)p + i));
    return _mm512_maskz_loadu_ps(m, (const float *)p + i);
}

/* p of each query becomes its raw scores. */
MATH_INLINE void scores(int n, enum kv_rep rep, const void *k, int64_t d_k, struct query *qs)
{
    __m512 s[QUERIES][VECTORS];
    for (int i = 0; i < n; i++)
        for (int v = 0; v < VECTORS; v++)
            s[i][v] = _mm512_setzero_ps();
    for (int64_t d = 0; d < d_k; d++) {
        __m512 key[VECTORS];
        for (int v = 0; v < VECTORS; v++)
            key[v] = load_kv(rep, k, d * ATTN_TILE + v * 16, 0xffff);
        for (int i = 0; i < n; i++)
            for (int v = 0; v < VECTORS; v++)
                s[i][v] = _mm512_fmadd_ps(_mm512_set1_ps(qs[i].q[d]), key[v], s[i][v]);
    }
    for (int i = 0; i < n; i++)
        for (int v = 0; v < VECTORS; v++)
            _mm512_store_ps(qs[i].p + v * 16, s[i][v]);
}

/* Raw scores become probabilities; the state moves on. */
static void softmax(float softcap, struct query *q)
{
    const __m512 lowest = _mm512_set1_ps(-INFINITY), cap = _mm512_set1_ps(softcap);
    __m512 s[VECTORS], max = lowest;
    for (int v = 0; v < VECTORS; v++) {
        s[v] = _mm512_load_ps(q->p + v * 16);
        if (softcap > 0)
            s[v] = _mm512_mul_ps(cap, v_tanh(_mm512_div_ps(s[v], cap)));
        s[v] = _mm512_mask_mov_ps(lowest, (__mmask16)(q->visible >> (v * 16)), s[v]);
        max = _mm512_max_ps(s[v], max);
    }
    struct attn_state *state = q->state;
    const float top = v_reduce_max(max), m = top > state->m ? top : state->m;
    q->fresh = state->l == 0;
    q->keep = q->fresh ? 0.0f : exp_f32_inline(state->m - m);
    __m512 sum = _mm512_setzero_ps();
    for (int v = 0; v < VECTORS; v++) {
        const __m512 e = v_exp(_mm512_sub_ps(s[v], _mm512_set1_ps(m)));
        const __m512 p = _mm512_maskz_mov_ps((__mmask16)(q->visible >> (v * 16)), e);
        _mm512_store_ps(q->p + v * 16, p);
        sum = v ? _mm512_add_ps(sum, p) : p;
    }
    state->l = fmaf(state->l, q->keep, v_reduce_add(sum));
    state->m = m;
}

/* Components [d0, d0 + 16 * n_vec) of o, the last vector masked by tail. */
MATH_INLINE void fold(int n, int n_vec, enum kv_rep rep, const void *values, int64_t d_v, int64_t d0,
                      __mmask16 tail, struct query *qs)
{
    __m512 o[QUERIES][VECTORS];
    uint64_t all = ~0ull, any = 0;
    for (int i = 0; i < n; i++) {
        all &= qs[i].visible;
        any |= qs[i].visible;
        for (int v = 0; v < n_vec; v++) {
            o[i][v] = _mm512_setzero_ps();
            if (!qs[i].fresh)
                o[i][v] = _mm512_mul_ps(_mm512_maskz_loadu_ps(tail, qs[i].o + d0 + v * 16),
                                        _mm512_set1_ps(qs[i].keep));
        }
    }
    for (; any; any &= any - 1) {
        const int j = __builtin_ctzll(any);
        __m512 value[VECTORS];
        for (int v = 0; v < n_vec; v++)
            value[v] = load_kv(rep, values, j * d_v + d0 + v * 16, tail);
        if (all >> j & 1) {
            for (int i = 0; i < n; i++)
                for (int v = 0; v < n_vec; v++)
                    o[i][v] = _mm512_fmadd_ps(_mm512_set1_ps(qs[i].p[j]), value[v], o[i][v]);
        } else {
            for (int i = 0; i < n; i++) {
                const __mmask16 seen = qs[i].visible >> j & 1 ? 0xffff : 0;
                for (int v = 0; v < n_vec; v++)
                    o[i][v] = _mm512_mask3_fmadd_ps(_mm512_set1_ps(qs[i].p[j]), value[v], o[i][v], seen);
            }
        }
    }
    for (int i = 0; i < n; i++)
        for (int v = 0; v < n_vec; v++)
            _mm512_mask_storeu_ps(qs[i].o + d0 + v * 16, tail, o[i][v]);
}

MATH_INLINE void tile_n(int n, enum kv_rep rep, const struct kv_tile *t, int64_t d_k, int64_t d_v,
                        float softcap, struct query *qs)
{
    scores(n, rep, t->k, d_k, qs);
    for (int i = 0; i < n; i++)
        softmax(softcap, &qs[i]);
    int64_t d = 0;
    for (; d + 16 * VECTORS <= d_v; d += 16 * VECTORS)
        fold(n, VECTORS, rep, t->v, d_v, d, 0xffff, qs);
    for (; d < d_v; d += 16)
        fold(n, 1, rep, t->v, d_v, d, v_tail(d_v - d), qs);
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

void avx512_attn_tile(const struct kv_tile *t, int64_t d_k, int64_t d_v, int64_t n_q, const void *q,
                      const struct attn_visible *vis, float softcap, struct attn_state *state, float *o,
                      void *scratch)
{
    (void)scratch;
    static const tile_fn bodies[2][QUERIES] = {{tile_1_f16, tile_2_f16, tile_3_f16, tile_4_f16},
                                               {tile_1_f32, tile_2_f32, tile_3_f32, tile_4_f32}};
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

void avx512_attn_query(enum kv_rep rep, int64_t d_k, const float *q, void *dst)
{
    twin_attn_query(rep, d_k, q, dst);
}

size_t avx512_attn_scratch_bytes(enum kv_rep rep, int64_t d_k, int64_t d_v, int64_t n_q)
{
    return twin_attn_scratch_bytes(rep, d_k, d_v, n_q);
}

void avx512_attn_merge(int64_t d_v, const struct attn_state *sb, const float *ob, struct attn_state *sa,
                       float *oa)
{
    if (sb->l == 0)
        return;
    if (sa->l == 0) {
        *sa = *sb;
        memcpy(oa, ob, (size_t)d_v * sizeof *oa);
        return;
    }
    const float m = sb->m > sa->m ? sb->m : sa->m;
    const float ca = exp_f32_inline(sa->m - m), cb = exp_f32_inline(sb->m - m);
    sa->l = fmaf(sa->l, ca, sb->l * cb);
    sa->m = m;
    const __m512 va = _mm512_set1_ps(ca), vb = _mm512_set1_ps(cb);
    for (int64_t d = 0; d < d_v; d += 16) {
        const __mmask16 tail = v_tail(d_v - d);
        const __m512 b = _mm512_mul_ps(_mm512_maskz_loadu_ps(tail, ob + d), vb);
        _mm512_mask_storeu_ps(oa + d, tail, _mm512_fmadd_ps(_mm512_maskz_loadu_ps(tail, oa + d), va, b));
    }
}

void avx512_attn_finish(int64_t d_v, const struct attn_state *s, float *o)
{
    const __m512 l = _mm512_set1_ps(s->l);
    for (int64_t d = 0; d < d_v; d += 16) {
        const __mmask16 tail = s->l == 0 ? (__mmask16)0 : v_tail(d_v - d);
        _mm512_mask_storeu_ps(o + d, v_tail(d_v - d),
                              _mm512_maskz_div_ps(tail, _mm512_maskz_loadu_ps(tail, o + d), l));
    }
}

MATH_INLINE __m256i load_as_f16(const float *x, __mmask16 m)
{
    return _mm512_maskz_cvtps_ph(m, _mm512_maskz_loadu_ps(m, x),
                                 _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

void avx512_kv_store(enum kv_rep rep, int64_t d_k, int64_t d_v, int32_t e, const float *k, const float *v,
                     void *tile_k, void *tile_v)
{
    if (rep == KV_F32) {
        twin_kv_store(rep, d_k, d_v, e, k, v, tile_k, tile_v);
        return;
    }
    uint16_t *to_k = (uint16_t *)tile_k + e, *to_v = (uint16_t *)tile_v + e * d_v;
    for (int64_t d = 0; d < d_k; d += 16) {
        uint16_t h[16];
        _mm256_storeu_si256((__m256i *)(void *)h, load_as_f16(k + d, v_tail(d_k - d)));
        for (int64_t i = 0; i < 16 && d + i < d_k; i++)
            to_k[(d + i) * ATTN_TILE] = h[i];
    }
    for (int64_t d = 0; d < d_v; d += 16) {
        const __mmask16 tail = v_tail(d_v - d);
        _mm256_mask_storeu_epi16(to_v + d, tail, load_as_f16(v + d, tail));
    }
}
