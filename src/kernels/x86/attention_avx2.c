/* Attention over one tile of 64 positions, for AVX2 with FMA and F16C. Twins: ref/twin_attention.c.
 *
 * Queries with something to see are taken four at a time, so that a key or value is converted to f32 once for
 * four; with sixteen registers, positions and components are cut so that eight accumulators are in use.
 * Unseen positions are computed with whatever the page holds and then selected away; unseen values are not
 * touched. KV representations other than f16 and f32 go to the twin. */
#include "kernels/layout.h"
#include "kernels/sets.h"
#include "kernels/x86/vec_avx2.h"

#define QUERIES 4               /* handled together */
#define VECTORS (ATTN_TILE / 8) /* of positions in a tile */

/* Vectors of a cut when n queries share it. */
#define CUT(n) ((n) == 1 ? 8 : (n) == 2 ? 4 : 2)

struct query {
    const float *q;
    float *o;
    struct attn_state *state;
    uint64_t visible;
    float keep; /* factor of the old o and l */
    bool fresh; /* l was 0: o holds nothing */
    float p[ATTN_TILE] __attribute__((aligned(32)));
};

/* n values (at most 8) at entry i. */
MATH_INLINE __m256 load_kv(enum kv_rep rep, const void *p, int64_t i, int64_t n)
{
    if (rep == KV_F32)
        return v_load((const float *)p + i, n);
    const uint16_t *h = (const uint16_t *)p + i;
    if (n >= 8)
        return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)h));
    uint16_t part[8] = {0};
    memcpy(part, h, (size_t)n * 2);
    return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)part));
}

/* p of each query becomes its raw scores. */
MATH_INLINE void scores(int n, enum kv_rep rep, const void *k, int64_t d_k, struct query *qs)
{
    for (int first = 0; first < VECTORS; first += CUT(n)) {
        __m256 s[QUERIES][VECTORS];
        for (int i = 0; i < n; i++)
            for (int v = 0; v < CUT(n); v++)
                s[i][v] = _mm256_setzero_ps();
        for (int64_t d = 0; d < d_k; d++) {
            __m256 key[VECTORS];
            for (int v = 0; v < CUT(n); v++)
                key[v] = load_kv(rep, k, d * ATTN_TILE + (first + v) * 8, 8);
            for (int i = 0; i < n; i++) {
                const __m256 q = _mm256_set1_ps(qs[i].q[d]);
                for (int v = 0; v < CUT(n); v++)
                    s[i][v] = _mm256_fmadd_ps(q, key[v], s[i][v]);
            }
        }
        for (int i = 0; i < n; i++)
            for (int v = 0; v < CUT(n); v++)
                _mm256_store_ps(qs[i].p + (first + v) * 8, s[i][v]);
    }
}

/* Raw scores become probabilities; the state moves on. Vector v holds lanes 8 (v % 2) .. of the reduction. */
static void softmax(float softcap, struct query *q)
{
    const __m256 lowest = _mm256_set1_ps(-INFINITY), cap = _mm256_set1_ps(softcap);
    __m256 s[VECTORS], max[2] = {lowest, lowest}, sum[2] = {_mm256_setzero_ps(), _mm256_setzero_ps()};
    for (int v = 0; v < VECTORS; v++) {
        s[v] = _mm256_load_ps(q->p + v * 8);
        if (softcap > 0)
            s[v] = _mm256_mul_ps(cap, v_tanh(_mm256_div_ps(s[v], cap)));
        s[v] = _mm256_blendv_ps(lowest, s[v], v_bits((uint32_t)(q->visible >> (v * 8))));
        max[v % 2] = _mm256_max_ps(s[v], max[v % 2]);
    }
    struct attn_state *state = q->state;
    const float top = v_reduce_max(max[0], max[1]), m = top > state->m ? top : state->m;
    q->fresh = state->l == 0;
    q->keep = q->fresh ? 0.0f : exp_f32_inline(state->m - m);
    for (int v = 0; v < VECTORS; v++) {
        const __m256 e = v_exp(_mm256_sub_ps(s[v], _mm256_set1_ps(m)));
        const __m256 p = _mm256_and_ps(e, v_bits((uint32_t)(q->visible >> (v * 8))));
        _mm256_store_ps(q->p + v * 8, p);
        sum[v % 2] = v < 2 ? p : _mm256_add_ps(sum[v % 2], p);
    }
    state->l = fmaf(state->l, q->keep, v_reduce_add(sum[0], sum[1]));
    state->m = m;
}

/* Components [d0, d0 + 8 * n_vec) of o; a single vector may hold fewer (n_values). */
MATH_INLINE void fold(int n, int n_vec, enum kv_rep rep, const void *values, int64_t d_v, int64_t d0,
                      int64_t n_values, struct query *qs)
{
    __m256 o[QUERIES][VECTORS];
    uint64_t all = ~0ull, any = 0;
    for (int i = 0; i < n; i++) {
        all &= qs[i].visible;
        any |= qs[i].visible;
        for (int v = 0; v < n_vec; v++) {
            o[i][v] = _mm256_setzero_ps();
            if (!qs[i].fresh)
                o[i][v] = _mm256_mul_ps(v_load(qs[i].o + d0 + v * 8, n_values), _mm256_set1_ps(qs[i].keep));
        }
    }
    for (; any; any &= any - 1) {
        const int j = __builtin_ctzll(any);
        __m256 value[VECTORS];
        for (int v = 0; v < n_vec; v++)
            value[v] = load_kv(rep, values, j * d_v + d0 + v * 8, n_values);
        const bool everyone = all >> j & 1;
        for (int i = 0; i < n; i++) {
            if (!everyone && !(qs[i].visible >> j & 1))
                continue;
            const __m256 p = _mm256_set1_ps(qs[i].p[j]);
            for (int v = 0; v < n_vec; v++)
                o[i][v] = _mm256_fmadd_ps(p, value[v], o[i][v]);
        }
    }
    for (int i = 0; i < n; i++)
        for (int v = 0; v < n_vec; v++)
            v_store(qs[i].o + d0 + v * 8, n_values, o[i][v]);
}

MATH_INLINE void tile_n(int n, enum kv_rep rep, const struct kv_tile *t, int64_t d_k, int64_t d_v,
                        float softcap, struct query *qs)
{
    scores(n, rep, t->k, d_k, qs);
    for (int i = 0; i < n; i++)
        softmax(softcap, &qs[i]);
    int64_t d = 0;
    for (; d + 8 * CUT(n) <= d_v; d += 8 * CUT(n))
        fold(n, CUT(n), rep, t->v, d_v, d, 8, qs);
    for (; d < d_v; d += 8)
        fold(n, 1, rep, t->v, d_v, d, d_v - d < 8 ? d_v - d : 8, qs);
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

void avx2_attn_query(enum kv_rep rep, int64_t d_k, const float *q, void *dst)
{
    twin_attn_query(rep, d_k, q, dst);
}

/* A page as f32, for calls of more queries than one group. */
size_t avx2_attn_scratch_bytes(enum kv_rep rep, int64_t d_k, int64_t d_v, int64_t n_q)
{
    if (rep == KV_F16)
        return n_q > QUERIES ? (size_t)(d_k + d_v) * ATTN_TILE * sizeof(float) : 0;
    return twin_attn_scratch_bytes(rep, d_k, d_v, n_q);
}

static void convert_f16(const uint16_t *src, int64_t n, float *dst)
{
    for (int64_t i = 0; i < n; i += 8) /* n: a multiple of ATTN_TILE */
        _mm256_store_ps(dst + i, load_kv(KV_F16, src, i, 8));
}

static struct kv_tile convert_tile(const struct kv_tile *t, int64_t d_k, int64_t d_v, float *scratch)
{
    float *k = scratch, *v = scratch + d_k * ATTN_TILE;
    convert_f16(t->k, d_k * ATTN_TILE, k);
    convert_f16(t->v, d_v * ATTN_TILE, v);
    return (struct kv_tile){.rep = KV_F32, .k = k, .v = v};
}

void avx2_attn_tile(const struct kv_tile *t, int64_t d_k, int64_t d_v, int64_t n_q, const void *q,
                    const struct attn_visible *vis, float softcap, struct attn_state *state, float *o,
                    void *scratch)
{
    static const tile_fn bodies[2][QUERIES] = {{tile_1_f16, tile_2_f16, tile_3_f16, tile_4_f16},
                                               {tile_1_f32, tile_2_f32, tile_3_f32, tile_4_f32}};
    if (t->rep != KV_F16 && t->rep != KV_F32) {
        twin_attn_tile(t, d_k, d_v, n_q, q, vis, softcap, state, o, scratch);
        return;
    }
    struct kv_tile tile = *t;
    struct query qs[QUERIES];
    int n = 0;
    int64_t n_visible = 0;
    for (int64_t i = 0; i < n_q; i++)
        n_visible += visible_bits(&vis[i]) != 0;
    if (n_visible > QUERIES && t->rep == KV_F16)
        tile = convert_tile(t, d_k, d_v, scratch);
    for (int64_t i = 0; i < n_q; i++) {
        const uint64_t visible = visible_bits(&vis[i]);
        if (visible) {
            qs[n].q = attn_query_at(q, d_k, i);
            qs[n].o = o + i * d_v;
            qs[n].state = &state[i];
            qs[n++].visible = visible;
        }
        if (n == QUERIES || (n && i == n_q - 1)) {
            bodies[tile.rep == KV_F32][n - 1](&tile, d_k, d_v, softcap, qs);
            n = 0;
        }
    }
}

void avx2_attn_merge(int64_t d_v, const struct attn_state *sb, const float *ob, struct attn_state *sa,
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
    const __m256 va = _mm256_set1_ps(ca), vb = _mm256_set1_ps(cb);
    for (int64_t d = 0; d < d_v; d += 8) {
        const __m256 b = _mm256_mul_ps(v_load(ob + d, d_v - d), vb);
        v_store(oa + d, d_v - d, _mm256_fmadd_ps(v_load(oa + d, d_v - d), va, b));
    }
}

void avx2_attn_finish(int64_t d_v, const struct attn_state *s, float *o)
{
    if (s->l == 0) {
        memset(o, 0, (size_t)d_v * sizeof *o);
        return;
    }
    const __m256 l = _mm256_set1_ps(s->l);
    for (int64_t d = 0; d < d_v; d += 8)
        v_store(o + d, d_v - d, _mm256_div_ps(v_load(o + d, d_v - d), l));
}

MATH_INLINE __m128i load_as_f16(const float *x, int64_t n)
{
    return _mm256_cvtps_ph(v_load(x, n), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

void avx2_kv_store(enum kv_rep rep, int64_t d_k, int64_t d_v, int32_t e, const float *k, const float *v,
                   void *tile_k, void *tile_v)
{
    if (rep != KV_F16) {
        twin_kv_store(rep, d_k, d_v, e, k, v, tile_k, tile_v);
        return;
    }
    uint16_t *to_k = (uint16_t *)tile_k + e, *to_v = (uint16_t *)tile_v + e * d_v, h[8];
    for (int64_t d = 0; d < d_k; d += 8) {
        _mm_storeu_si128((__m128i *)(void *)h, load_as_f16(k + d, d_k - d));
        for (int64_t i = 0; i < 8 && d + i < d_k; i++)
            to_k[(d + i) * ATTN_TILE] = h[i];
    }
    for (int64_t d = 0; d < d_v; d += 8) {
        const int64_t n = d_v - d < 8 ? d_v - d : 8;
        _mm_storeu_si128((__m128i *)(void *)h, load_as_f16(v + d, n));
        memcpy(to_v + d, h, (size_t)n * 2);
    }
}
