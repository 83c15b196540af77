/* Attention over one tile of 64 positions, for AVX2 with FMA and F16C. Twins: ref/twin_attention.c.
 *
 * Queries with something to see are taken up to six at a time (attention_avx2.h); here f16 and f32 pages, in
 * attention_low_avx2.c the others. f16 pages of calls with more queries are converted to f32 once.
 * Unseen positions are computed with whatever the page holds and then selected away; unseen values are not
 * touched. */
#include "kernels/layout.h"
#include "kernels/x86/attention_avx2.h"

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

/* scores_f32 on f16 pages. */
MATH_INLINE void scores_f16(int n, const uint16_t *keys, int64_t d_k, struct query *qs)
{
    const int cut = CUT(n);
    for (int first = 0; first < VECTORS; first += cut) {
        __m256 s[QUERIES][VECTORS];
        UNROLL for (int i = 0; i < n; i++) UNROLL for (int v = 0; v < cut; v++) s[i][v] = _mm256_setzero_ps();
        for (int64_t d = 0; d < d_k; d++) {
            __m256 key[VECTORS];
            UNROLL for (int v = 0; v < cut; v++) key[v] =
                load_kv(KV_F16, keys, d * ATTN_TILE + (first + v) * 8, 8);
            UNROLL for (int i = 0; i < n; i++)
            {
                const __m256 q = _mm256_set1_ps(((const float *)qs[i].q)[d]);
                UNROLL for (int v = 0; v < cut; v++) s[i][v] = _mm256_fmadd_ps(q, key[v], s[i][v]);
            }
        }
        UNROLL for (int i = 0; i < n; i++) UNROLL for (int v = 0; v < cut; v++)
            _mm256_store_ps(qs[i].p + (first + v) * 8, s[i][v]);
    }
}

/* The second half of the softmax: scores become probabilities, their sum goes to l. */
static void softmax_exp(struct query *q)
{
    struct attn_state *state = q->state;
    __m256 sum[2];
    UNROLL for (int v = 0; v < VECTORS; v++)
    {
        const __m256 e = v_exp(_mm256_sub_ps(_mm256_load_ps(q->p + v * 8), _mm256_set1_ps(state->m)));
        const __m256 p = _mm256_and_ps(e, seen_lanes(q, v));
        _mm256_store_ps(q->p + v * 8, p);
        sum[v % 2] = v < 2 ? p : _mm256_add_ps(sum[v % 2], p);
    }
    state->l = fmaf(state->l, q->keep, v_reduce_add(sum[0], sum[1]));
}

/* o += p value of position j, for queries that see it. */
MATH_INLINE void fold_position(int n, int n_vec, bool everyone, enum kv_rep rep, const void *values,
                               int64_t d_v, int64_t d0, int64_t n_values, int j, const struct query *qs,
                               __m256 o[QUERIES][VECTORS])
{
    __m256 value[VECTORS];
    UNROLL for (int v = 0; v < n_vec; v++) value[v] = load_kv(rep, values, j * d_v + d0 + v * 8, n_values);
    UNROLL for (int i = 0; i < n; i++)
    {
        if (everyone || qs[i].visible >> j & 1) {
            const __m256 p = _mm256_set1_ps(qs[i].p[j]);
            UNROLL for (int v = 0; v < n_vec; v++) o[i][v] = _mm256_fmadd_ps(p, value[v], o[i][v]);
        }
    }
}

/* Components [d0, d0 + 8 * n_vec) of o; a single vector may hold fewer (n_values). */
MATH_INLINE void fold(int n, int n_vec, enum kv_rep rep, const void *values, int64_t d_v, int64_t d0,
                      int64_t n_values, struct query *qs)
{
    __m256 o[QUERIES][VECTORS];
    uint64_t all = ~0ull, any = 0;
    UNROLL for (int i = 0; i < n; i++)
    {
        all &= qs[i].visible;
        any |= qs[i].visible;
        UNROLL for (int v = 0; v < n_vec; v++)
        {
            o[i][v] = _mm256_setzero_ps();
            if (!qs[i].fresh)
                o[i][v] = _mm256_mul_ps(v_load(qs[i].o + d0 + v * 8, n_values), _mm256_set1_ps(qs[i].keep));
        }
    }
    if (all == ~0ull)
        for (int j = 0; j < ATTN_TILE; j++)
            fold_position(n, n_vec, true, rep, values, d_v, d0, n_values, j, qs, o);
    else
        for (; any; any &= any - 1)
            fold_position(n, n_vec, false, rep, values, d_v, d0, n_values, __builtin_ctzll(any), qs, o);
    UNROLL for (int i = 0; i < n; i++) UNROLL for (int v = 0; v < n_vec; v++)
        v_store(qs[i].o + d0 + v * 8, n_values, o[i][v]);
}

MATH_INLINE void tile_n(int n, enum kv_rep rep, const struct kv_tile *t, int64_t d_k, int64_t d_v,
                        float softcap, struct query *qs)
{
    if (rep == KV_F16)
        scores_f16(n, t->k, d_k, qs);
    else
        scores_f32(n, t->k, d_k, qs);
    UNROLL for (int i = 0; i < n; i++)
    {
        softmax_top(softcap, &qs[i]);
        softmax_exp(&qs[i]);
    }
    int64_t d = 0;
    for (; d + 8 * CUT(n) <= d_v; d += 8 * CUT(n))
        fold(n, CUT(n), rep, t->v, d_v, d, 8, qs);
    for (; d < d_v; d += 8)
        fold(n, 1, rep, t->v, d_v, d, d_v - d < 8 ? d_v - d : 8, qs);
}

#define TILE_F16(n) tile_n(n, KV_F16, t, d_k, d_v, softcap, qs)
#define TILE_F32(n) tile_n(n, KV_F32, t, d_k, d_v, softcap, qs)
TILE_BODIES(f16, TILE_F16)
TILE_BODIES(f32, TILE_F32)
static const tile_fn f16_bodies[QUERIES] = TILE_TABLE(f16);
static const tile_fn f32_bodies[QUERIES] = TILE_TABLE(f32);

void avx2_attn_query(enum kv_rep rep, int64_t d_k, const float *q, void *dst)
{
    if (rep == KV_BF16)
        avx2_bf16_query(d_k, q, dst);
    else
        twin_attn_query(rep, d_k, q, dst);
}

/* A page as f32. */
size_t avx2_attn_scratch_bytes(enum kv_rep rep, int64_t d_k, int64_t d_v, int64_t n_q)
{
    if (rep == KV_BF16)
        return avx2_bf16_scratch_bytes(d_k, d_v);
    if (rep == KV_Q4)
        return q4_scratch_bytes(d_k, d_v);
    return rep == KV_F16 && n_q > QUERIES ? (size_t)(d_k + d_v) * ATTN_TILE * sizeof(float) : 0;
}

static void convert_f16(const uint16_t *src, int64_t n, float *dst)
{
    for (int64_t i = 0; i < n; i += 8) /* n: a multiple of ATTN_TILE */
        _mm256_store_ps(dst + i, load_kv(KV_F16, src, i, 8));
}

/* What the bodies read: the page as it lies, or converted in scratch. */
struct readable {
    struct kv_tile tile;
    const tile_fn *bodies;
};

static struct readable readable_tile(const struct kv_tile *t, int64_t d_k, int64_t d_v, int64_t n,
                                     float *scratch)
{
    if (t->rep == KV_BF16)
        return (struct readable){avx2_bf16_convert(t, d_k, d_v, scratch), avx2_bf16_bodies};
    if (t->rep == KV_F16 && n > QUERIES) {
        float *k = scratch, *v = scratch + d_k * ATTN_TILE;
        convert_f16(t->k, d_k * ATTN_TILE, k);
        convert_f16(t->v, d_v * ATTN_TILE, v);
        return (struct readable){{.rep = KV_F32, .k = k, .v = v}, f32_bodies};
    }
    return (struct readable){*t, t->rep == KV_Q8    ? avx2_q8_bodies
                                 : t->rep == KV_F16 ? f16_bodies
                                                    : f32_bodies};
}

void avx2_attn_tile(const struct kv_tile *t, int64_t d_k, int64_t d_v, int64_t n_q, const void *q,
                    const struct attn_visible *vis, float softcap, struct attn_state *state, float *o,
                    void *scratch)
{
    if (t->rep == KV_Q4) {
        q4_tile(avx2_attn_tile, t, d_k, d_v, n_q, q, vis, softcap, state, o, scratch);
        return;
    }
    struct query qs[QUERIES];
    int64_t n = 0, left = 0; /* gathered; queries that see something and are not folded yet */
    for (int64_t i = 0; i < n_q; i++)
        left += visible_bits(&vis[i]) != 0;
    if (!left)
        return;
    const struct readable r = readable_tile(t, d_k, d_v, left, scratch);
    for (int64_t i = 0; i < 2 * n_q; i++) { /* those that see everything come first: they need no masks */
        const int64_t at = i < n_q ? i : i - n_q;
        const uint64_t visible = visible_bits(&vis[at]);
        if (!visible || (visible == ~0ull) != (i < n_q))
            continue;
        qs[n].q = attn_query_at(q, d_k, at);
        qs[n].o = o + at * d_v;
        qs[n].state = &state[at];
        qs[n++].visible = visible;
        const int64_t groups = (left + QUERIES - 1) / QUERIES; /* of nearly equal size */
        if (n == (left + groups - 1) / groups) {
            r.bodies[n - 1](&r.tile, d_k, d_v, softcap, qs);
            left -= n;
            n = 0;
        }
    }
}

void avx2_attn_merge(int64_t d_v, const struct attn_state *sb, const float *ob, struct attn_state *sa,
                     float *oa)
{
    float ca, cb;
    if (!attn_merge_states(d_v, sb, ob, sa, oa, &ca, &cb))
        return;
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
