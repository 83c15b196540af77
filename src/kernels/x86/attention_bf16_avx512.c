/* Attention over one tile of bf16 pages. Twins: ref/twin_attention_low.c.
 *
 * Two forms with the same bits. `dot`: VDPBF16PS on the pages as they lie. `fma`: the page is converted to f32 in
 * scratch, the odd one of each pair first, and folded by fused multiply-adds under a control word that treats
 * denormals as zeros, which is what VDPBF16PS does by itself. Which one runs is found out once: `dot` where the
 * CPU has the instruction, it gives the canonical bits on a few hundred hostile vectors (other vendors' documents
 * are less precise than Intel's), and it is faster (on Intel's cores up to 2023 it is half as fast as f32). */
#include "base/clock.h"
#include "base/cpu.h"
#include "kernels/x86/attention_avx512.h"
#include <pthread.h>

/* ---- conversion -------------------------------------------------------------------------------------------- */

/* bf16_round, left in the upper halves. */
MATH_INLINE __m512i round_bf16(__m512 x)
{
    const __m512i u = _mm512_castps_si512(x), ones = _mm512_set1_epi32(1);
    const __mmask16 nan = _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q);
    const __mmask16 tiny = _mm512_cmplt_epu32_mask(_mm512_and_epi32(u, _mm512_set1_epi32(0x7fffffff)),
                                                   _mm512_set1_epi32(0x00800000));
    const __m512i lsb = _mm512_and_epi32(_mm512_srli_epi32(u, 16), ones);
    __m512i r = _mm512_add_epi32(u, _mm512_add_epi32(lsb, _mm512_set1_epi32(0x7fff)));
    r = _mm512_mask_or_epi32(r, nan, u, _mm512_set1_epi32(0x00400000));
    r = _mm512_mask_and_epi32(r, tiny, u, _mm512_set1_epi32(INT32_MIN));
    return _mm512_and_epi32(r, _mm512_set1_epi32((int32_t)0xffff0000));
}

MATH_INLINE __m512 upper_halves(__m512i x)
{
    return _mm512_castsi512_ps(_mm512_and_epi32(x, _mm512_set1_epi32((int32_t)0xffff0000)));
}

MATH_INLINE __m512 lower_halves(__m512i x)
{
    return _mm512_castsi512_ps(_mm512_slli_epi32(x, 16));
}

MATH_INLINE __m512 swap_pairs(__m512 x)
{
    return _mm512_permute_ps(x, 0xb1);
}

/* Each bit twice. */
MATH_INLINE __mmask32 pair_mask(__mmask16 m)
{
    return _mm512_movepi16_mask(_mm512_movm_epi32(m));
}

void avx512_bf16_store(int64_t d_k, int64_t d_v, int32_t e, const float *k, const float *v, uint16_t *tile_k,
                       uint16_t *tile_v)
{
    for (int64_t d = 0; d < d_k; d += 16) {
        uint16_t b[16];
        _mm256_storeu_si256((__m256i *)(void *)b,
                            _mm512_cvtepi32_epi16(_mm512_srli_epi32(
                                round_bf16(_mm512_maskz_loadu_ps(v_tail(d_k - d), k + d)), 16)));
        for (int64_t i = 0; i < 16 && d + i < d_k; i += 2) /* an odd end is filled up with the tail's zero */
            memcpy(tile_k + ((d + i) / 2 * ATTN_TILE + e) * 2, b + i, 2 * sizeof *b);
    }
    const __mmask32 half = e % 2 ? 0xaaaaaaaau : 0x55555555u;
    for (int64_t d = 0; d < d_v; d += 16) {
        const __mmask16 tail = v_tail(d_v - d);
        const __m512i b = round_bf16(_mm512_maskz_loadu_ps(tail, v + d));
        _mm512_mask_storeu_epi16(tile_v + (e / 2 * d_v + d) * 2, half & pair_mask(tail),
                                 e % 2 ? b : _mm512_srli_epi32(b, 16));
    }
}

/* ---- the dot form ------------------------------------------------------------------------------------------ */

MATH_INLINE __m512i broadcast_pair(const void *p, int64_t i)
{
    int32_t pair;
    memcpy(&pair, (const uint8_t *)p + 4 * i, sizeof pair);
    return _mm512_set1_epi32(pair);
}

MATH_INLINE __m512 dot(__m512 acc, __m512i a, __m512i b)
{
    return _mm512_dpbf16_ps(acc, (__m512bh)a, (__m512bh)b);
}

MATH_INLINE void dot_scores(int n, const uint16_t *k, int64_t d_k, const struct query *qs)
{
    __m512 s[GROUP][VECTORS];
    UNROLL for (int i = 0; i < n; i++)
    {
        UNROLL for (int v = 0; v < VECTORS; v++) s[i][v] = _mm512_setzero_ps();
    }
    for (int64_t d = 0; d < (d_k + 1) / 2; d++) {
        __m512i key[VECTORS];
        UNROLL for (int v = 0; v < VECTORS; v++) key[v] =
            _mm512_loadu_si512(k + (d * ATTN_TILE + v * 16) * 2);
        UNROLL for (int i = 0; i < n; i++)
        {
            const __m512i q = broadcast_pair(qs[i].q, d);
            UNROLL for (int v = 0; v < VECTORS; v++) s[i][v] = dot(s[i][v], key[v], q);
        }
    }
    UNROLL for (int i = 0; i < n; i++)
    {
        UNROLL for (int v = 0; v < VECTORS; v++) _mm512_store_ps(qs[i].p + v * 16, s[i][v]);
    }
}

/* p: [32] pairs of weights, then [32] masks of pairs, which are all ones unless partial. */
MATH_INLINE void dot_fold(int n, int n_vec, bool partial, const uint16_t *v, int64_t d_v, int64_t d0,
                          __mmask16 tail, const struct query *qs)
{
    __m512 o[GROUP][VECTORS];
    UNROLL for (int i = 0; i < n; i++)
    {
        UNROLL for (int c = 0; c < n_vec; c++) o[i][c] =
            qs[i].fresh ? _mm512_setzero_ps() : _mm512_maskz_loadu_ps(tail, qs[i].o + d0 + c * 16);
    }
    for (int64_t j = 0; j < ATTN_TILE / 2; j++) {
        __m512i value[VECTORS];
        UNROLL for (int c = 0; c < n_vec; c++) value[c] =
            _mm512_maskz_loadu_epi32(tail, v + (j * d_v + d0 + c * 16) * 2);
        UNROLL for (int i = 0; i < n; i++)
        {
            const __m512i p = broadcast_pair(qs[i].p, j);
            const __m512i seen = partial ? broadcast_pair(qs[i].p, ATTN_TILE / 2 + j) : p;
            UNROLL for (int c = 0; c < n_vec; c++) o[i][c] =
                dot(o[i][c], p, partial ? _mm512_and_epi32(value[c], seen) : value[c]);
        }
    }
    UNROLL for (int i = 0; i < n; i++)
    {
        UNROLL for (int c = 0; c < n_vec; c++) _mm512_mask_storeu_ps(qs[i].o + d0 + c * 16, tail, o[i][c]);
    }
}

/* ---- the fma form ------------------------------------------------------------------------------------------ */

/* keys: [d_k, made even][64] f32, the odd one of each pair first; queries as widen made them. */
MATH_INLINE void fma_scores(int n, const float *k, int64_t d_k, const struct query *qs)
{
    __m512 s[GROUP][VECTORS];
    UNROLL for (int i = 0; i < n; i++)
    {
        UNROLL for (int v = 0; v < VECTORS; v++) s[i][v] = _mm512_setzero_ps();
    }
    for (int64_t d = 0; d < d_k; d++) {
        __m512 key[VECTORS];
        UNROLL for (int v = 0; v < VECTORS; v++) key[v] = _mm512_load_ps(k + d * ATTN_TILE + v * 16);
        UNROLL for (int i = 0; i < n; i++)
        {
            const __m512 q = _mm512_set1_ps(((const float *)qs[i].q)[d]);
            UNROLL for (int v = 0; v < VECTORS; v++) s[i][v] = _mm512_fmadd_ps(q, key[v], s[i][v]);
        }
    }
    UNROLL for (int i = 0; i < n; i++)
    {
        UNROLL for (int v = 0; v < VECTORS; v++) _mm512_store_ps(qs[i].p + v * 16, s[i][v]);
    }
}

/* values: [64][16 n_vec] f32, in the order of p. */
MATH_INLINE void fma_fold(int n, int n_vec, bool partial, const float *values, int64_t d0, __mmask16 tail,
                          const struct query *qs)
{
    __m512 o[GROUP][VECTORS];
    UNROLL for (int i = 0; i < n; i++)
    {
        UNROLL for (int c = 0; c < n_vec; c++) o[i][c] =
            qs[i].fresh ? _mm512_setzero_ps() : _mm512_maskz_loadu_ps(tail, qs[i].o + d0 + c * 16);
    }
    for (int64_t j = 0; j < ATTN_TILE; j++) {
        __m512 value[VECTORS];
        UNROLL for (int c = 0; c < n_vec; c++) value[c] = _mm512_load_ps(values + (j * n_vec + c) * 16);
        UNROLL for (int i = 0; i < n; i++)
        {
            const __m512 p = _mm512_set1_ps(qs[i].p[j]);
            const __mmask16 seen = qs[i].visible >> (j ^ 1) & 1 ? 0xffff : 0;
            UNROLL for (int c = 0; c < n_vec; c++) o[i][c] =
                _mm512_fmadd_ps(p, partial ? _mm512_maskz_mov_ps(seen, value[c]) : value[c], o[i][c]);
        }
    }
    UNROLL for (int i = 0; i < n; i++)
    {
        UNROLL for (int c = 0; c < n_vec; c++) _mm512_mask_storeu_ps(qs[i].o + d0 + c * 16, tail, o[i][c]);
    }
}

/* A query's pairs as f32 in that order, n even. */
static void widen(const uint16_t *q, int64_t n, float *dst)
{
    for (int64_t d = 0; d < n; d += 16) {
        const __m256i b = _mm256_maskz_loadu_epi16(v_tail(n - d), q + d);
        const __m512 x = _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(b), 16));
        _mm512_mask_storeu_ps(dst + d, v_tail(n - d), swap_pairs(x));
    }
}

static void convert_keys(const uint16_t *k, int64_t n_pairs, const uint8_t *next, float *dst)
{
    for (int64_t d = 0; d < n_pairs; d++) {
        UNROLL for (int v = 0; v < VECTORS; v++)
        {
            const __m512i pair = _mm512_loadu_si512(k + (d * ATTN_TILE + v * 16) * 2);
            _mm512_store_ps(dst + (2 * d) * ATTN_TILE + v * 16, upper_halves(pair));
            _mm512_store_ps(dst + (2 * d + 1) * ATTN_TILE + v * 16, lower_halves(pair));
        }
        if (next)
            prefetch_lines(next + d * 4 * ATTN_TILE, 4 * ATTN_TILE);
    }
}

/* n_vec vectors of components from d0 on. */
static void convert_values(int64_t n_vec, const uint16_t *v, int64_t d_v, int64_t d0, __mmask16 tail,
                           const uint8_t *next, float *dst)
{
    for (int64_t j = 0; j < ATTN_TILE / 2; j++) {
        for (int64_t c = 0; c < n_vec; c++) {
            const __m512i pair = _mm512_maskz_loadu_epi32(tail, v + (j * d_v + d0 + c * 16) * 2);
            _mm512_store_ps(dst + (2 * j * n_vec + c) * 16, upper_halves(pair));
            _mm512_store_ps(dst + ((2 * j + 1) * n_vec + c) * 16, lower_halves(pair));
        }
        if (next)
            prefetch_lines(next + (j * d_v + d0) * 4, (size_t)n_vec * 64);
    }
}

/* ---- bodies by number of queries --------------------------------------------------------------------------- */

typedef void (*scores_fn)(const void *k, int64_t d_k, const struct query *qs);
typedef void (*fold_fn)(const void *v, int64_t d_v, int64_t d0, __mmask16 tail, const struct query *qs);

#define SCORES(form, n, k_type)                                                                              \
    static                                                                                                   \
        __attribute__((noinline)) void form##_scores_##n(const void *k, int64_t d_k, const struct query *qs) \
    {                                                                                                        \
        form##_scores(n, (const k_type *)k, d_k, qs);                                                        \
    }
#define FOLD(name, call)                                                                                     \
    static __attribute__((noinline)) void name(const void *v, int64_t d_v, int64_t d0, __mmask16 tail,       \
                                               const struct query *qs)                                       \
    {                                                                                                        \
        (void)d_v, (void)tail;                                                                               \
        call;                                                                                                \
    }
#define BODY(n)                                                                                              \
    SCORES(dot, n, uint16_t)                                                                                 \
    SCORES(fma, n, float)                                                                                    \
    FOLD(dot_chunk_##n, dot_fold(n, VECTORS, false, v, d_v, d0, 0xffff, qs))                                 \
    FOLD(dot_part_##n, dot_fold(n, VECTORS, true, v, d_v, d0, 0xffff, qs))                                   \
    FOLD(dot_rest_##n, dot_fold(n, 1, true, v, d_v, d0, tail, qs))                                           \
    FOLD(fma_chunk_##n, fma_fold(n, VECTORS, false, v, d0, 0xffff, qs))                                      \
    FOLD(fma_part_##n, fma_fold(n, VECTORS, true, v, d0, 0xffff, qs))                                        \
    FOLD(fma_rest_##n, fma_fold(n, 1, true, v, d0, tail, qs))
BODY(1)
BODY(2)
BODY(3)
BODY(4)
BODY(5)
BODY(6)

/* rest: a single vector of components, with the masks of part. */
struct form {
    scores_fn scores[GROUP];
    fold_fn chunk[GROUP], part[GROUP], rest[GROUP];
    bool is_dot;
};
static const struct form dot_form = {TABLE(dot_scores), TABLE(dot_chunk), TABLE(dot_part), TABLE(dot_rest),
                                     true};
static const struct form fma_form = {TABLE(fma_scores), TABLE(fma_chunk), TABLE(fma_part), TABLE(fma_rest),
                                     false};

/* ---- the tile ---------------------------------------------------------------------------------------------- */

/* Scores become probabilities, whose sum goes to l, then weights in bf16; o is scaled, for VDPBF16PS takes
 * it as it is. */
static void weigh(const struct form *f, int64_t d_v, struct query *q)
{
    struct attn_state *state = q->state;
    const __m512 minus_m = _mm512_set1_ps(-(state->m * EXP_LOG2E)), keep = _mm512_set1_ps(q->keep);
    __m512 sum = _mm512_setzero_ps();
    __m512i w[VECTORS];
    UNROLL for (int v = 0; v < VECTORS; v++)
    {
        const __m512 p =
            v_exp_coarse((__mmask16)(q->visible >> (v * 16)), _mm512_load_ps(q->p + v * 16), minus_m);
        w[v] = round_bf16(p);
        sum = v ? _mm512_add_ps(sum, p) : p;
    }
    UNROLL for (int v = 0; v < VECTORS; v++)
    {
        uint16_t *weights = (uint16_t *)q->p;
        if (f->is_dot)
            _mm256_store_si256((__m256i *)(void *)(weights + 16 * v),
                               _mm512_cvtepi32_epi16(_mm512_srli_epi32(w[v], 16)));
        else
            _mm512_store_ps(q->p + 16 * v, swap_pairs(_mm512_castsi512_ps(w[v])));
    }
    for (int64_t half = 0; f->is_dot && half < 2; half++)
        _mm512_store_si512(q->p + ATTN_TILE / 2 + 16 * half,
                           _mm512_movm_epi16((__mmask32)(q->visible >> (32 * half))));
    state->l = fmaf(state->l, q->keep, v_reduce_add(sum));
    for (int64_t d = 0; !q->fresh && q->keep != 1.0f && d < d_v; d += 16) {
        const __mmask16 tail = v_tail(d_v - d);
        _mm512_mask_storeu_ps(q->o + d, tail, _mm512_mul_ps(_mm512_maskz_loadu_ps(tail, q->o + d), keep));
    }
}

struct work {
    struct query *queries;
    float *p, *keys, *values, *q; /* q: [n_q][d_k, made even] */
    size_t bytes;
};

static struct work lay_out(int64_t n_q, int64_t d_k, void *scratch)
{
    const size_t n = (size_t)n_q, d = (size_t)(d_k + 1);
    const uintptr_t base = (uintptr_t)scratch, p = base + round_up_64(n * sizeof(struct query));
    const uintptr_t keys = p + n * ATTN_TILE * sizeof(float), values = keys + d * ATTN_TILE * sizeof(float);
    const uintptr_t q = values + ATTN_TILE * CHUNK * sizeof(float);
    return (struct work){(struct query *)base, (float *)p, (float *)keys,
                         (float *)values,      (float *)q, q + round_up_64(n * d * sizeof(float)) - base};
}

size_t avx512_bf16_scratch_bytes(int64_t d_k, int64_t n_q)
{
    return lay_out(n_q, d_k, NULL).bytes;
}

#define DENORMALS_ARE_ZEROS 0x8040u /* MXCSR: flush to zero, denormals are zeros */

/* Components [d0, d0 + 16 n_vec) of all queries. */
static void fold_part(const struct form *f, const struct kv_tile *t, int64_t d_v, int64_t d0, bool whole,
                      const uint8_t *next, int64_t n, const struct work *w)
{
    const __mmask16 tail = whole ? 0xffff : v_tail(d_v - d0);
    const void *values = t->v;
    if (!f->is_dot) {
        convert_values(whole ? VECTORS : 1, t->v, d_v, d0, tail, next, w->values);
        values = w->values;
    }
    FOR_GROUPS(n, i, m)
    {
        uint64_t all = ~0ull;
        for (int64_t j = i; j < i + m; j++)
            all &= w->queries[j].visible;
        const fold_fn *body = !whole ? f->rest : all == ~0ull ? f->chunk : f->part;
        body[m - 1](values, d_v, d0, tail, w->queries + i);
    }
}

static void tile(const struct form *f, const struct kv_tile *t, int64_t d_k, int64_t d_v, int64_t n_q,
                 const void *q, const struct attn_visible *vis, float softcap, struct attn_state *state,
                 float *o, void *scratch)
{
    const struct work w = lay_out(n_q, d_k, scratch);
    const int64_t n = collect_queries(d_k, d_v, n_q, q, vis, state, o, w.p, w.queries);
    const uint8_t *next_v = t->next ? (const uint8_t *)t->next + kv_key_bytes(KV_BF16, d_k) : NULL;
    const unsigned mode = _mm_getcsr();
    const void *keys = t->k;
    int64_t n_k = d_k;
    if (!f->is_dot) {
        convert_keys(t->k, (d_k + 1) / 2, t->next, w.keys);
        for (int64_t i = 0; i < n; i++) {
            widen(w.queries[i].q, (d_k + 1) / 2 * 2, w.q + i * (d_k + 1));
            w.queries[i].q = w.q + i * (d_k + 1);
        }
        keys = w.keys;
        n_k = (d_k + 1) / 2 * 2;
        _mm_setcsr(mode | DENORMALS_ARE_ZEROS);
    } else if (t->next) {
        prefetch_lines(t->next, kv_key_bytes(KV_BF16, d_k));
    }
    FOR_GROUPS(n, i, m)
    f->scores[m - 1](keys, n_k, w.queries + i);
    _mm_setcsr(mode);
    for (int64_t i = 0; i < n; i += GROUP) {
        for (int64_t j = i; j < i + GROUP && j < n; j++)
            softmax_top(softcap, &w.queries[j]);
        for (int64_t j = i; j < i + GROUP && j < n; j++)
            weigh(f, d_v, &w.queries[j]);
    }
    if (!f->is_dot)
        _mm_setcsr(mode | DENORMALS_ARE_ZEROS);
    else if (next_v)
        prefetch_lines(next_v, kv_value_bytes(KV_BF16, d_v));
    int64_t d = 0;
    for (; d + CHUNK <= d_v; d += CHUNK)
        fold_part(f, t, d_v, d, true, next_v, n, &w);
    for (; d < d_v; d += 16)
        fold_part(f, t, d_v, d, false, next_v, n, &w);
    _mm_setcsr(mode);
}

void avx512_bf16_query(int64_t d_k, const float *q, void *dst)
{
    for (int64_t d = 0; d < d_k; d += 16) {
        const __m512i b = round_bf16(_mm512_maskz_loadu_ps(v_tail(d_k - d), q + d));
        _mm256_mask_storeu_epi16((uint16_t *)dst + d, v_tail((d_k + 1) / 2 * 2 - d),
                                 _mm512_cvtepi32_epi16(_mm512_srli_epi32(b, 16)));
    }
}

/* ---- the choice -------------------------------------------------------------------------------------------- */

/* Pairs and sums of all magnitudes, a third of them zeros, denormals, infinities, NaNs, ends of ranges. */
static uint32_t hostile(uint32_t *state, bool sum)
{
    static const uint16_t special[] = {0x0000, 0x8000, 0x0001, 0x807f, 0x0080, 0x8080, 0x7f7f, 0xff7f,
                                       0x7f80, 0xff80, 0x7fc0, 0x3f80, 0x3f7f, 0x1fff, 0x2000, 0x9f80};
    *state = *state * 1664525u + 1013904223u;
    const uint32_t r = *state >> 8 ^ *state << 17, lower = sum ? r >> 5 & 0xffff : 0;
    if (r % 3 == 0)
        return (uint32_t)special[r / 3 % 16] << 16 | (r & 64 ? lower : 0);
    const uint32_t exponent = r % 3 == 1 ? 120 + (r >> 9) % 16 : 56 + (r >> 9) % 16;
    return (r & 0x80000000u) | (sum && r % 3 == 2 ? 1 + exponent % 8 : exponent) << 23 | (r & 0x7f0000) |
           lower;
}

/* Whether VDPBF16PS gives the canonical bits; any NaN stands for any other. */
static bool dot_is_canonical(void)
{
    uint32_t state = 1;
    for (int round = 0; round < 32; round++) {
        uint32_t a[16], b[16];
        float acc[16], got[16];
        for (int i = 0; i < 16; i++) {
            a[i] = hostile(&state, false) | hostile(&state, false) >> 16;
            b[i] = hostile(&state, false) | hostile(&state, false) >> 16;
            acc[i] = bits_f32(hostile(&state, true));
        }
        _mm512_storeu_ps(got, dot(_mm512_loadu_ps(acc), _mm512_loadu_si512(a), _mm512_loadu_si512(b)));
        for (int i = 0; i < 16; i++) {
            const uint16_t x[2] = {(uint16_t)a[i], (uint16_t)(a[i] >> 16)},
                           y[2] = {(uint16_t)b[i], (uint16_t)(b[i] >> 16)};
            const float want = bf16_pair(acc[i], x, y);
            if (f32_bits(want) != f32_bits(got[i]) && !(want != want && got[i] != got[i]))
                return false;
        }
    }
    return true;
}

/* The least time of a thousand products of one form. */
#define CHAINS 10
#define TIME_OF(step)                                                                                        \
    do {                                                                                                     \
        __m512 acc[CHAINS];                                                                                  \
        for (int r = 0; r < 8; r++) {                                                                        \
            const uint64_t start = clock_now_ns();                                                           \
            _Pragma("GCC unroll 10") for (int i = 0; i < CHAINS; i++)                                        \
            {                                                                                                \
                acc[i] = _mm512_setzero_ps();                                                                \
                __asm__("" : "+v"(acc[i])); /* or equal chains become one */                                 \
            }                                                                                                \
            for (int n = 0; n < 100; n++) {                                                                  \
                _Pragma("GCC unroll 10") for (int i = 0; i < CHAINS; i++) acc[i] = step;                     \
            }                                                                                                \
            _Pragma("GCC unroll 10") for (int i = 0; i < CHAINS; i++) __asm__ volatile("" : : "v"(acc[i]));  \
            const uint64_t took = clock_now_ns() - start;                                                    \
            best = took < best ? took : best;                                                                \
        }                                                                                                    \
    } while (0)

static uint64_t time_of_dot(void)
{
    const __m512i one = _mm512_set1_epi32(0x3f803f80);
    uint64_t best = UINT64_MAX;
    TIME_OF(dot(acc[i], one, one));
    return best;
}

static uint64_t time_of_fma(void)
{
    const __m512 one = _mm512_set1_ps(1.0f);
    uint64_t best = UINT64_MAX;
    TIME_OF(_mm512_fmadd_ps(acc[i], one, one));
    return best;
}

/* Where the instruction is slow it still wins for few queries, which converting the page does not pay for. */
#define FEW 7

static pthread_once_t dot_once = PTHREAD_ONCE_INIT;
static bool dot_right, dot_fast;

static void try_dot(void)
{
    dot_right = cpu_features() & CPU_AVX512_BF16 && dot_is_canonical();
    dot_fast = dot_right && time_of_dot() < 2 * time_of_fma();
}

static const struct form *chosen(int64_t n_q)
{
    pthread_once(&dot_once, try_dot);
    return dot_fast || (dot_right && n_q <= FEW) ? &dot_form : &fma_form;
}

#define TILE(name, form)                                                                                     \
    void name(const struct kv_tile *t, int64_t d_k, int64_t d_v, int64_t n_q, const void *q,                 \
              const struct attn_visible *vis, float softcap, struct attn_state *state, float *o,             \
              void *scratch)                                                                                 \
    {                                                                                                        \
        tile(form, t, d_k, d_v, n_q, q, vis, softcap, state, o, scratch);                                    \
    }
TILE(avx512_bf16_tile, chosen(n_q))
TILE(avx512_bf16_tile_dot, &dot_form)
TILE(avx512_bf16_tile_fma, &fma_form)
