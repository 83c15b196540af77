/* Attention over one tile of bf16 or q8 pages, for AVX2 with FMA. Twins: ref/twin_attention_low.c.
 *
 * bf16: the page is converted to f32 in scratch, the odd one of each pair first (prepared queries lie in the same
 * order), and folded by fused multiply-adds under a control word that treats denormals as zeros: what the canonical
 * arithmetic (VDPBF16PS) does by itself.
 *
 * q8: pairs of products of int16 (vpmaddwd) or, for scores, of the magnitude of a query's byte and a key's byte with
 * its sign (vpmaddubsw; at most 2 x 127 x 127, so nothing saturates). Unseen positions weigh 0, and the product of 0
 * with whatever byte lies there is 0. */
#include "kernels/x86/attention_avx2.h"
#include <stddef.h>

/* exp_coarse_inline, 0 where unseen. */
MATH_INLINE __m256 v_exp_coarse(__m256 seen, __m256 s, __m256 minus_m)
{
    const __m256 magic = _mm256_set1_ps(ROUND_MAGIC);
    const __m256 y = _mm256_fmadd_ps(s, _mm256_set1_ps(EXP_LOG2E), minus_m);
    const __m256 live = _mm256_and_ps(seen, _mm256_cmp_ps(y, _mm256_set1_ps(COARSE_MIN), _CMP_NLT_UQ));
    const __m256 n = _mm256_sub_ps(_mm256_add_ps(y, magic), magic), r = _mm256_sub_ps(y, n);
    __m256 p = _mm256_fmadd_ps(_mm256_set1_ps(COARSE_C3), r, _mm256_set1_ps(COARSE_C2));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(COARSE_C1));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(COARSE_C0));
    const __m256i power =
        _mm256_slli_epi32(_mm256_add_epi32(_mm256_cvttps_epi32(n), _mm256_set1_epi32(127)), 23);
    return _mm256_and_ps(live, _mm256_mul_ps(p, _mm256_castsi256_ps(power)));
}

/* ---- bf16 ------------------------------------------------------------------------------------------------ */

#define DENORMALS_ARE_ZEROS 0x8040u /* MXCSR: flush to zero, denormals are zeros */

/* bf16_round, back as f32. */
MATH_INLINE __m256 round_bf16(__m256 x)
{
    const __m256i u = _mm256_castps_si256(x), upper = _mm256_set1_epi32((int32_t)0xffff0000u);
    const __m256 nan = _mm256_cmp_ps(x, x, _CMP_UNORD_Q);
    const __m256i tiny =
        _mm256_cmpgt_epi32(_mm256_set1_epi32(0x00800000), _mm256_and_si256(u, _mm256_set1_epi32(0x7fffffff)));
    const __m256i lsb = _mm256_and_si256(_mm256_srli_epi32(u, 16), _mm256_set1_epi32(1));
    const __m256i r = _mm256_add_epi32(u, _mm256_add_epi32(lsb, _mm256_set1_epi32(0x7fff)));
    const __m256i quiet = _mm256_or_si256(u, _mm256_set1_epi32(0x00400000));
    const __m256i zero = _mm256_and_si256(u, _mm256_set1_epi32(INT32_MIN));
    __m256 out = _mm256_blendv_ps(_mm256_castsi256_ps(r), _mm256_castsi256_ps(quiet), nan);
    out = _mm256_blendv_ps(out, _mm256_castsi256_ps(zero), _mm256_castsi256_ps(tiny));
    return _mm256_and_ps(out, _mm256_castsi256_ps(upper));
}

void avx2_bf16_query(int64_t d_k, const float *q, void *dst)
{
    float *to = dst;
    if (d_k % 2)
        to[d_k - 1] = 0.0f;
    for (int64_t d = 0; d < d_k; d++)
        to[d ^ 1] = bf16_value(bf16_round(q[d]));
}

static int64_t even(int64_t n)
{
    return (n + 1) / 2 * 2;
}

size_t avx2_bf16_scratch_bytes(int64_t d_k, int64_t d_v)
{
    return (size_t)(even(d_k) + d_v) * ATTN_TILE * sizeof(float);
}

/* n pairs to two rows of n floats, the upper halves first. */
static void split_pairs(const uint16_t *src, int64_t n, float *dst)
{
    for (int64_t i = 0; i < n; i += 8) {
        const __m256 pair = v_load((const float *)(const void *)(src + 2 * i), n - i);
        const __m256i bits = _mm256_castps_si256(pair);
        const __m256i upper = _mm256_and_si256(bits, _mm256_set1_epi32((int32_t)0xffff0000u));
        v_store(dst + i, n - i, _mm256_castsi256_ps(upper));
        v_store(dst + n + i, n - i, _mm256_castsi256_ps(_mm256_slli_epi32(bits, 16)));
    }
}

/* Keys [d_k, made even][64], values [64][d_v], both f32 with the odd row of each pair first. */
struct kv_tile avx2_bf16_convert(const struct kv_tile *t, int64_t d_k, int64_t d_v, float *scratch)
{
    float *values = scratch + even(d_k) * ATTN_TILE;
    for (int64_t d = 0; d < even(d_k); d += 2)
        split_pairs((const uint16_t *)t->k + d * ATTN_TILE, ATTN_TILE, scratch + d * ATTN_TILE);
    for (int64_t j = 0; j < ATTN_TILE; j += 2)
        split_pairs((const uint16_t *)t->v + j * d_v, d_v, values + j * d_v);
    return (struct kv_tile){.rep = KV_BF16, .k = scratch, .v = values};
}

/* The second half of the softmax: probabilities rounded to bf16, in the order of the values; o is scaled here, as
 * denormals still count. */
static void weigh_bf16(int64_t d_v, struct query *q)
{
    struct attn_state *state = q->state;
    const __m256 minus_m = _mm256_set1_ps(-(state->m * EXP_LOG2E)), keep = _mm256_set1_ps(q->keep);
    __m256 sum[2];
    UNROLL for (int v = 0; v < VECTORS; v++)
    {
        const __m256 p = v_exp_coarse(seen_lanes(q, v), _mm256_load_ps(q->p + v * 8), minus_m);
        _mm256_store_ps(q->p + v * 8, _mm256_permute_ps(round_bf16(p), 0xb1));
        sum[v % 2] = v < 2 ? p : _mm256_add_ps(sum[v % 2], p);
    }
    state->l = fmaf(state->l, q->keep, v_reduce_add(sum[0], sum[1]));
    for (int64_t d = 0; d < d_v; d += 8) {
        const __m256 o = q->fresh ? _mm256_setzero_ps() : _mm256_mul_ps(v_load(q->o + d, d_v - d), keep);
        v_store(q->o + d, d_v - d, o);
    }
}

/* Components [d0, d0 + 8 n_vec) of o; a single vector may hold fewer (n_values). What is not seen is added as
 * 0 x 0. */
MATH_INLINE void fold_bf16(int n, int n_vec, const float *values, int64_t d_v, int64_t d0, int64_t n_values,
                           struct query *qs)
{
    const __m256 zero = _mm256_setzero_ps();
    __m256 o[QUERIES][VECTORS];
    uint64_t all = ~0ull;
    UNROLL for (int i = 0; i < n; i++)
    {
        all &= qs[i].visible;
        UNROLL for (int v = 0; v < n_vec; v++) o[i][v] = v_load(qs[i].o + d0 + v * 8, n_values);
    }
    for (int j = 0; j < ATTN_TILE; j++) {
        __m256 value[VECTORS];
        UNROLL for (int v = 0; v < n_vec; v++) value[v] = v_load(values + j * d_v + d0 + v * 8, n_values);
        UNROLL for (int i = 0; i < n; i++)
        {
            const bool seen = all == ~0ull || qs[i].visible >> (j ^ 1) & 1;
            const __m256 p = _mm256_set1_ps(qs[i].p[j]);
            UNROLL for (int v = 0; v < n_vec; v++) o[i][v] =
                seen ? _mm256_fmadd_ps(p, value[v], o[i][v]) : _mm256_add_ps(o[i][v], zero);
        }
    }
    UNROLL for (int i = 0; i < n; i++) UNROLL for (int v = 0; v < n_vec; v++)
        v_store(qs[i].o + d0 + v * 8, n_values, o[i][v]);
}

static __attribute__((noinline)) void with_zeros(tile_fn body, const struct kv_tile *t, int64_t d_k,
                                                 int64_t d_v, struct query *qs)
{
    const unsigned mode = _mm_getcsr();
    _mm_setcsr(mode | DENORMALS_ARE_ZEROS);
    body(t, d_k, d_v, 0, qs);
    _mm_setcsr(mode);
}

MATH_INLINE void fold_all_bf16(int n, const struct kv_tile *t, int64_t d_v, struct query *qs)
{
    int64_t d = 0;
    for (; d + 8 * CUT(n) <= d_v; d += 8 * CUT(n))
        fold_bf16(n, CUT(n), t->v, d_v, d, 8, qs);
    for (; d < d_v; d += 8)
        fold_bf16(n, 1, t->v, d_v, d, d_v - d < 8 ? d_v - d : 8, qs);
}

#define SCORES_BF16(n)                                                                                       \
    (void)d_v;                                                                                               \
    (void)softcap;                                                                                           \
    scores_f32(n, t->k, even(d_k), qs)
#define FOLD_BF16(n)                                                                                         \
    (void)d_k;                                                                                               \
    (void)softcap;                                                                                           \
    fold_all_bf16(n, t, d_v, qs)
TILE_BODIES(bf16_scores, SCORES_BF16)
TILE_BODIES(bf16_fold, FOLD_BF16)

MATH_INLINE void tile_bf16(int n, tile_fn scores, tile_fn fold, const struct kv_tile *t, int64_t d_k,
                           int64_t d_v, float softcap, struct query *qs)
{
    with_zeros(scores, t, d_k, d_v, qs);
    UNROLL for (int i = 0; i < n; i++)
    {
        softmax_top(softcap, &qs[i]);
        weigh_bf16(d_v, &qs[i]);
    }
    with_zeros(fold, t, d_k, d_v, qs);
}

#define TILE_BF16(n) tile_bf16(n, bf16_scores_##n, bf16_fold_##n, t, d_k, d_v, softcap, qs)
TILE_BODIES(bf16, TILE_BF16)
const tile_fn avx2_bf16_bodies[QUERIES] = TILE_TABLE(bf16);

/* ---- q8 -------------------------------------------------------------------------------------------------- */

MATH_INLINE __m256i broadcast_i32(const void *p)
{
    int32_t v;
    memcpy(&v, p, 4);
    return _mm256_set1_epi32(v);
}

/* Block b of key components: its part of the scores. */
MATH_INLINE void scores_q8_block(int n, const uint8_t *k, int64_t d_k, int64_t b, struct query *qs)
{
    const int64_t quads = q8_quads(d_k), end = 8 * b + 8 < quads ? 8 * b + 8 : quads;
    const float *scales = q8_key_scales(k, d_k) + b * ATTN_TILE;
    const __m256i ones = _mm256_set1_epi16(1), flip = _mm256_set1_epi8(-128);
    const int cut = CUT(n);
    for (int first = 0; first < VECTORS; first += cut) {
        __m256i sum[QUERIES][VECTORS];
        UNROLL for (int i = 0; i < n; i++) UNROLL for (int v = 0; v < cut; v++) sum[i][v] =
            _mm256_setzero_si256();
        for (int64_t d = 8 * b; d < end; d++) {
            const uint8_t *at = k + (d * ATTN_TILE + first * 8) * 4;
            __m256i key[VECTORS];
            UNROLL for (int v = 0; v < cut; v++) key[v] =
                _mm256_xor_si256(_mm256_loadu_si256((const __m256i *)(const void *)(at + 32 * v)), flip);
            UNROLL for (int i = 0; i < n; i++)
            {
                const __m256i q = broadcast_i32((const uint8_t *)qs[i].q + 4 * d),
                              magnitude = _mm256_abs_epi8(q);
                UNROLL for (int v = 0; v < cut; v++)
                {
                    const __m256i pairs = _mm256_maddubs_epi16(magnitude, _mm256_sign_epi8(key[v], q));
                    sum[i][v] = _mm256_add_epi32(sum[i][v], _mm256_madd_epi16(pairs, ones));
                }
            }
        }
        UNROLL for (int i = 0; i < n; i++)
        {
            const __m256 d_q = _mm256_set1_ps(q8_query_at(qs[i].q, d_k).d[b]);
            UNROLL for (int v = 0; v < cut; v++)
            {
                float *p = qs[i].p + (first + v) * 8;
                const __m256 d = _mm256_mul_ps(d_q, _mm256_loadu_ps(scales + (first + v) * 8));
                const __m256 s = b ? _mm256_load_ps(p) : _mm256_setzero_ps();
                _mm256_store_ps(p, _mm256_fmadd_ps(_mm256_cvtepi32_ps(sum[i][v]), d, s));
            }
        }
    }
}

/* Scores become weights p d_v, rounded to eight bits without sign with one scale, as int16 at p. A NaN converts to
 * the least integer, which packs to 0. */
static void weigh_q8(const float *scales, struct query *q)
{
    struct attn_state *state = q->state;
    const __m256 minus_m = _mm256_set1_ps(-(state->m * EXP_LOG2E));
    __m256 w[VECTORS], sum[2], max[2] = {_mm256_setzero_ps(), _mm256_setzero_ps()};
    UNROLL for (int v = 0; v < VECTORS; v++)
    {
        const __m256 seen = seen_lanes(q, v);
        const __m256 p = v_exp_coarse(seen, _mm256_load_ps(q->p + v * 8), minus_m);
        w[v] = _mm256_and_ps(seen, _mm256_mul_ps(p, _mm256_loadu_ps(scales + v * 8)));
        max[v % 2] = _mm256_max_ps(w[v], max[v % 2]); /* the old maximum where w is NaN */
        sum[v % 2] = v < 2 ? p : _mm256_add_ps(sum[v % 2], p);
    }
    state->l = fmaf(state->l, q->keep, v_reduce_add(sum[0], sum[1]));
    const float top = v_reduce_max(max[0], max[1]);
    const bool any = !(top < ACT_AMAX_MIN);
    const __m256 inverse = _mm256_set1_ps(any ? 255.0f / top : 0.0f);
    q->scale = any ? top * (1.0f / 255.0f) : 0.0f;
    UNROLL for (int v = 0; v < VECTORS; v += 2)
    {
        const __m256i a = _mm256_cvtps_epi32(_mm256_mul_ps(w[v], inverse));
        const __m256i b = _mm256_cvtps_epi32(_mm256_mul_ps(w[v + 1], inverse));
        const __m256i packed = _mm256_permute4x64_epi64(_mm256_packus_epi32(a, b), 0xd8);
        _mm256_store_si256((__m256i *)(void *)(q->p + v * 4), packed);
    }
}

/* Components [d0, d0 + 8 n_vec) of o; a single vector may hold fewer (n_values). */
MATH_INLINE void fold_q8(int n, int n_vec, const uint8_t *values, int64_t d_v, int64_t d0, int64_t n_values,
                         struct query *qs)
{
    const __m256i first =
        _mm256_broadcastsi128_si256(_mm_setr_epi8(-1, 0, -1, 1, -1, 4, -1, 5, -1, 8, -1, 9, -1, 12, -1, 13));
    const __m256i second = _mm256_broadcastsi128_si256(
        _mm_setr_epi8(-1, 2, -1, 3, -1, 6, -1, 7, -1, 10, -1, 11, -1, 14, -1, 15));
    __m256i sum[QUERIES][VECTORS];
    UNROLL for (int i = 0; i < n; i++) UNROLL for (int v = 0; v < n_vec; v++) sum[i][v] =
        _mm256_setzero_si256();
    for (int64_t j = 0; j < ATTN_TILE / 4; j++) {
        UNROLL for (int v = 0; v < n_vec; v++)
        {
            const void *at = values + (j * d_v + d0 + v * 8) * 4;
            const __m256i quad = _mm256_castps_si256(v_load(at, n_values));
            const __m256i v0 = _mm256_srai_epi16(_mm256_shuffle_epi8(quad, first), 8);
            const __m256i v1 = _mm256_srai_epi16(_mm256_shuffle_epi8(quad, second), 8);
            UNROLL for (int i = 0; i < n; i++)
            {
                const int16_t *w = (const int16_t *)(const void *)qs[i].p + 4 * j;
                const __m256i a = _mm256_madd_epi16(v0, broadcast_i32(w));
                const __m256i b = _mm256_madd_epi16(v1, broadcast_i32(w + 2));
                sum[i][v] = _mm256_add_epi32(sum[i][v], _mm256_add_epi32(a, b));
            }
        }
    }
    UNROLL for (int i = 0; i < n; i++)
    {
        const __m256 scale = _mm256_set1_ps(qs[i].scale), keep = _mm256_set1_ps(qs[i].keep);
        UNROLL for (int v = 0; v < n_vec; v++)
        {
            float *at = qs[i].o + d0 + v * 8;
            const __m256 o = qs[i].fresh ? _mm256_setzero_ps() : _mm256_mul_ps(v_load(at, n_values), keep);
            v_store(at, n_values, _mm256_fmadd_ps(_mm256_cvtepi32_ps(sum[i][v]), scale, o));
        }
    }
}

MATH_INLINE void tile_q8(int n, const struct kv_tile *t, int64_t d_k, int64_t d_v, float softcap,
                         struct query *qs)
{
    for (int64_t b = 0; b < q8_blocks(d_k); b++)
        scores_q8_block(n, t->k, d_k, b, qs);
    UNROLL for (int i = 0; i < n; i++)
    {
        softmax_top(softcap, &qs[i]);
        weigh_q8(q8_value_scales(t->v, d_v), &qs[i]);
    }
    int64_t d = 0;
    for (; d + 8 * CUT(n) <= d_v; d += 8 * CUT(n))
        fold_q8(n, CUT(n), t->v, d_v, d, 8, qs);
    for (; d < d_v; d += 8)
        fold_q8(n, 1, t->v, d_v, d, d_v - d < 8 ? d_v - d : 8, qs);
}

#define TILE_Q8(n) tile_q8(n, t, d_k, d_v, softcap, qs)
TILE_BODIES(q8, TILE_Q8)
const tile_fn avx2_q8_bodies[QUERIES] = TILE_TABLE(q8);
