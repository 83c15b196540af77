/* Attention over one tile of q8 pages. Twins: ref/twin_attention_low.c.
 *
 * Scores: four key components of 16 positions against four bytes of a query are one VPDPBUSD; keys are stored
 * as unsigned bytes, and what that adds starts the sums. Weights p d_v become unsigned bytes with one scale for
 * the tile, so that values, four positions together, are products in integers too; unseen positions weigh
 * 0, and the product of 0 with whatever byte lies there is 0. */
#include "kernels/x86/attention_avx512.h"

/* ---- storing and preparing --------------------------------------------------------------------------------- */

/* How n values become bytes (as bits of the largest magnitude say): the factor, 0 where all become 0. */
static float factor_of(uint32_t amax)
{
    const bool zero = amax >= 0x7f800000u || bits_f32(amax) < ACT_AMAX_MIN;
    return zero ? 0.0f : 127.0f / bits_f32(amax);
}

static uint32_t largest_magnitude(const float *x, int64_t n)
{
    __m512i max = _mm512_setzero_si512();
    for (int64_t i = 0; i < n; i += 16)
        max = _mm512_max_epu32(max, _mm512_castps_si512(v_abs(_mm512_maskz_loadu_ps(v_tail(n - i), x + i))));
    return (uint32_t)_mm512_reduce_max_epu32(max);
}

/* 16 values, those of tail, to integers of at most 127; factor 0: zeros, whatever they are. */
MATH_INLINE __m512i quantise(const float *x, __mmask16 tail, float factor)
{
    if (factor == 0)
        return _mm512_setzero_si512();
    return _mm512_cvtps_epi32(_mm512_mul_ps(_mm512_maskz_loadu_ps(tail, x), _mm512_set1_ps(factor)));
}

/* A block of at most 32 components to bytes, filled up with zeros; returns its scale, *sum: of the bytes. */
static float quantise_block(const float *x, int64_t n, int8_t q[Q8_BLOCK], int32_t *sum)
{
    const uint32_t amax = largest_magnitude(x, n);
    const float factor = factor_of(amax);
    const __m512i a = quantise(x, v_tail(n), factor), b = quantise(x + 16, v_tail(n - 16), factor);
    _mm_storeu_si128((__m128i *)(void *)q, _mm512_cvtepi32_epi8(a));
    _mm_storeu_si128((__m128i *)(void *)(q + 16), _mm512_cvtepi32_epi8(b));
    *sum = _mm512_reduce_add_epi32(_mm512_add_epi32(a, b));
    return amax >= 0x7f800000u ? canonical_nan() : factor == 0 ? 0.0f : bits_f32(amax) / 127.0f;
}

void avx512_q8_query(int64_t d_k, const float *q, void *dst)
{
    const struct q8_query to = q8_query_at(dst, d_k);
    const int64_t bytes = 4 * q8_quads(d_k);
    for (int64_t b = 0; b < q8_blocks(d_k); b++) {
        int8_t block[Q8_BLOCK];
        int32_t sum;
        const int64_t d0 = b * Q8_BLOCK, n = d_k - d0 < Q8_BLOCK ? d_k - d0 : Q8_BLOCK;
        ((float *)(uintptr_t)to.d)[b] = quantise_block(q + d0, n, block, &sum);
        ((int32_t *)(uintptr_t)to.offset)[b] = -128 * sum;
        memcpy((int8_t *)dst + d0, block, (size_t)(bytes - d0 < Q8_BLOCK ? bytes - d0 : Q8_BLOCK));
    }
}

void avx512_q8_store(int64_t d_k, int64_t d_v, int32_t e, const float *k, const float *v, uint8_t *tile_k,
                     uint8_t *tile_v)
{
    float *scales = (float *)(uintptr_t)q8_key_scales(tile_k, d_k);
    for (int64_t b = 0; b < q8_blocks(d_k); b++) {
        int8_t block[Q8_BLOCK];
        int32_t sum;
        const int64_t d0 = b * Q8_BLOCK, n = d_k - d0 < Q8_BLOCK ? d_k - d0 : Q8_BLOCK;
        scales[b * ATTN_TILE + e] = quantise_block(k + d0, n, block, &sum);
        for (int64_t i = 0; i < n; i += 4) {
            uint32_t quad;
            memcpy(&quad, block + i, sizeof quad);
            quad ^= 0x80808080u; /* 128 to each byte */
            memcpy(tile_k + ((d0 + i) / 4 * ATTN_TILE + e) * 4, &quad, sizeof quad);
        }
    }
    const uint32_t amax = largest_magnitude(v, d_v);
    const float factor = factor_of(amax);
    ((float *)(uintptr_t)q8_value_scales(tile_v, d_v))[e] = amax >= 0x7f800000u ? INFINITY
                                                            : factor == 0       ? 0.0f
                                                                                : bits_f32(amax) / 127.0f;
    for (int64_t d = 0; d < d_v; d += 16) {
        uint8_t bytes[16];
        _mm_storeu_si128((__m128i *)(void *)bytes,
                         _mm512_cvtepi32_epi8(quantise(v + d, v_tail(d_v - d), factor)));
        for (int64_t i = 0; i < 16 && d + i < d_v; i++)
            tile_v[(e / 4 * d_v + d + i) * 4 + e % 4] = bytes[i];
    }
}

/* ---- the tile ---------------------------------------------------------------------------------------------- */

/* Four bytes of a query or of weights, to all lanes. */
MATH_INLINE __m512i broadcast_quad(const void *p, int64_t i)
{
    int32_t quad;
    memcpy(&quad, (const uint8_t *)p + 4 * i, sizeof quad);
    return _mm512_set1_epi32(quad);
}

MATH_INLINE __m512i load_quads(const void *p, int64_t vector)
{
    return _mm512_loadu_si512((const uint8_t *)p + 64 * vector);
}

/* p of each query becomes its raw scores. next: the keys of the page to prefetch, or NULL. */
MATH_INLINE void scores(int n, const uint8_t *k, int64_t d_k, const uint8_t *next, const struct query *qs)
{
    const int64_t quads = q8_quads(d_k), blocks = q8_blocks(d_k);
    const float *scales = q8_key_scales(k, d_k);
    for (int64_t b = 0; b < blocks; b++) {
        __m512i sum[GROUP][VECTORS];
        UNROLL for (int i = 0; i < n; i++)
        {
            const __m512i offset = _mm512_set1_epi32(q8_query_at(qs[i].q, d_k).offset[b]);
            UNROLL for (int v = 0; v < VECTORS; v++) sum[i][v] = offset;
        }
        const int64_t end = b + 1 < blocks ? 8 * b + 8 : quads;
        for (int64_t d = 8 * b; d < end; d++) {
            __m512i key[VECTORS];
            UNROLL for (int v = 0; v < VECTORS; v++) key[v] = load_quads(k, d * VECTORS + v);
            UNROLL for (int i = 0; i < n; i++)
            {
                const __m512i q = broadcast_quad(qs[i].q, d);
                UNROLL for (int v = 0; v < VECTORS; v++) sum[i][v] =
                    _mm512_dpbusd_epi32(sum[i][v], key[v], q);
            }
            if (next)
                prefetch_lines(next + d * 4 * ATTN_TILE, 4 * ATTN_TILE);
        }
        UNROLL for (int i = 0; i < n; i++)
        {
            const __m512 d_q = _mm512_set1_ps(q8_query_at(qs[i].q, d_k).d[b]);
            UNROLL for (int v = 0; v < VECTORS; v++)
            {
                const __m512 d = _mm512_mul_ps(d_q, _mm512_loadu_ps(scales + b * ATTN_TILE + v * 16));
                const __m512 s = b ? _mm512_load_ps(qs[i].p + v * 16) : _mm512_setzero_ps();
                _mm512_store_ps(qs[i].p + v * 16, _mm512_fmadd_ps(_mm512_cvtepi32_ps(sum[i][v]), d, s));
            }
        }
    }
    if (next)
        prefetch_lines(next + quads * 4 * ATTN_TILE, (size_t)blocks * ATTN_TILE * sizeof(float));
}

/* Scores become weights p d_v; their sum (of p) goes to l, their scale to the query. */
MATH_INLINE float weigh(const float *scales, struct query *q)
{
    struct attn_state *state = q->state;
    const __m512 minus_m = _mm512_set1_ps(-(state->m * EXP_LOG2E));
    __m512 sum = _mm512_setzero_ps(), max = _mm512_setzero_ps();
    UNROLL for (int v = 0; v < VECTORS; v++)
    {
        const __mmask16 seen = (__mmask16)(q->visible >> (v * 16));
        const __m512 p = v_exp_coarse(seen, _mm512_load_ps(q->p + v * 16), minus_m);
        const __m512 w = _mm512_maskz_mul_ps(seen, p, _mm512_loadu_ps(scales + v * 16));
        _mm512_store_ps(q->p + v * 16, w);
        max = _mm512_max_ps(w, max); /* the old maximum where w is NaN */
        sum = v ? _mm512_add_ps(sum, p) : p;
    }
    state->l = fmaf(state->l, q->keep, v_reduce_add(sum));
    return v_reduce_max(max);
}

/* Weights become bytes, at p. A NaN converts to the least integer, which packs to 0. */
MATH_INLINE void quantise_weights(float max, struct query *q)
{
    const bool any = !(max < ACT_AMAX_MIN);
    const __m512 inverse = _mm512_set1_ps(any ? 255.0f / max : 0.0f);
    __m512i u[VECTORS];
    q->scale = any ? max * (1.0f / 255.0f) : 0.0f;
    UNROLL for (int v = 0; v < VECTORS; v++) u[v] =
        _mm512_cvtps_epi32(_mm512_mul_ps(_mm512_load_ps(q->p + v * 16), inverse));
    const __m512i low = _mm512_packs_epi32(u[0], u[1]), high = _mm512_packs_epi32(u[2], u[3]);
    const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    _mm512_store_si512(q->p, _mm512_permutexvar_epi32(order, _mm512_packus_epi16(low, high)));
}

/* Folds n_vec vectors of components, from d0 on, the last masked by tail, into o. */
MATH_INLINE void fold(int n, int n_vec, const uint8_t *v, int64_t d_v, int64_t d0, __mmask16 tail,
                      const uint8_t *next, const struct query *qs)
{
    __m512i sum[GROUP][VECTORS];
    UNROLL for (int i = 0; i < n; i++)
    {
        UNROLL for (int c = 0; c < n_vec; c++) sum[i][c] = _mm512_setzero_si512();
    }
    for (int64_t j = 0; j < ATTN_TILE / 4; j++) {
        __m512i value[VECTORS];
        UNROLL for (int c = 0; c < n_vec; c++) value[c] =
            _mm512_maskz_loadu_epi32(tail, v + (j * d_v + d0 + c * 16) * 4);
        UNROLL for (int i = 0; i < n; i++)
        {
            const __m512i w = broadcast_quad(qs[i].p, j);
            UNROLL for (int c = 0; c < n_vec; c++) sum[i][c] = _mm512_dpbusd_epi32(sum[i][c], w, value[c]);
        }
        if (next)
            prefetch_lines(next + (j * d_v + d0) * 4, (size_t)n_vec * 64);
    }
    UNROLL for (int i = 0; i < n; i++)
    {
        const __m512 scale = _mm512_set1_ps(qs[i].scale), keep = _mm512_set1_ps(qs[i].keep);
        UNROLL for (int c = 0; c < n_vec; c++)
        {
            float *at = qs[i].o + d0 + c * 16;
            const __m512 o =
                qs[i].fresh ? _mm512_setzero_ps() : _mm512_mul_ps(_mm512_maskz_loadu_ps(tail, at), keep);
            _mm512_mask_storeu_ps(at, tail, _mm512_fmadd_ps(_mm512_cvtepi32_ps(sum[i][c]), scale, o));
        }
    }
}

typedef void (*scores_fn)(const uint8_t *k, int64_t d_k, const uint8_t *next, const struct query *qs);
typedef void (*fold_fn)(const uint8_t *v, int64_t d_v, int64_t d0, __mmask16 tail, const uint8_t *next,
                        const struct query *qs);

#define BODY(n)                                                                                              \
    static __attribute__((noinline)) void scores_##n(const uint8_t *k, int64_t d_k, const uint8_t *next,     \
                                                     const struct query *qs)                                 \
    {                                                                                                        \
        scores(n, k, d_k, next, qs);                                                                         \
    }                                                                                                        \
    static                                                                                                   \
        __attribute__((noinline)) void chunk_##n(const uint8_t *v, int64_t d_v, int64_t d0, __mmask16 tail,  \
                                                 const uint8_t *next, const struct query *qs)                \
    {                                                                                                        \
        (void)tail;                                                                                          \
        fold(n, VECTORS, v, d_v, d0, 0xffff, next, qs);                                                      \
    }                                                                                                        \
    static                                                                                                   \
        __attribute__((noinline)) void rest_##n(const uint8_t *v, int64_t d_v, int64_t d0, __mmask16 tail,   \
                                                const uint8_t *next, const struct query *qs)                 \
    {                                                                                                        \
        fold(n, 1, v, d_v, d0, tail, next, qs);                                                              \
    }
BODY(1)
BODY(2)
BODY(3)
BODY(4)
BODY(5)
BODY(6)
static const scores_fn scores_of[GROUP] = TABLE(scores);
static const fold_fn chunk_of[GROUP] = TABLE(chunk), rest_of[GROUP] = TABLE(rest);

static void softmax(float softcap, const float *scales, int64_t n, struct query *qs)
{
    float max[GROUP];
    for (int64_t i = 0; i < n; i++)
        softmax_top(softcap, &qs[i]);
    for (int64_t i = 0; i < n; i++)
        max[i] = weigh(scales, &qs[i]);
    for (int64_t i = 0; i < n; i++)
        quantise_weights(max[i], &qs[i]);
}

size_t avx512_q8_scratch_bytes(int64_t n_q)
{
    return (size_t)n_q * ATTN_TILE * sizeof(float) + round_up_64((size_t)n_q * sizeof(struct query));
}

void avx512_q8_tile(const struct kv_tile *t, int64_t d_k, int64_t d_v, int64_t n_q, const void *q,
                    const struct attn_visible *vis, float softcap, struct attn_state *state, float *o,
                    void *scratch)
{
    float *p = scratch;
    struct query *queries = (struct query *)(void *)(p + n_q * ATTN_TILE);
    const int64_t n = collect_queries(d_k, d_v, n_q, q, vis, state, o, p, queries);
    const uint8_t *next_k = t->next, *next_v = next_k ? next_k + kv_key_bytes(KV_Q8, d_k) : NULL;
    const float *scales = q8_value_scales(t->v, d_v);
    FOR_GROUPS(n, i, m)
    {
        scores_of[m - 1](t->k, d_k, next_k, queries + i);
        softmax(softcap, scales, m, queries + i);
        int64_t d = 0;
        for (; d + CHUNK <= d_v; d += CHUNK)
            chunk_of[m - 1](t->v, d_v, d, 0xffff, next_v, queries + i);
        for (; d < d_v; d += 16)
            rest_of[m - 1](t->v, d_v, d, v_tail(d_v - d), next_v, queries + i);
        if (next_v)
            prefetch_lines(next_v + d_v * ATTN_TILE, ATTN_TILE * sizeof(float));
        next_k = next_v = NULL;
    }
}
