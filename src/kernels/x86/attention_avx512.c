/* Attention over one tile of 64 positions, keys and values in f16 or f32. Twins: ref/twin_attention.c.
 *
 * Queries with something to see are taken in groups of up to six: 6 x 4 accumulators, each a vector of 16
 * positions (scores) or of 16 components (values), fill the registers. Up to eight read the page as it lies;
 * for more the page is converted to f32 once, in scratch: all keys, then 64 components of values at a time.
 * Unseen positions are computed with whatever the page holds and then selected away; unseen values are not
 * touched. The next page is prefetched line by line while this one is converted. */
#include "kernels/x86/attention_avx512.h"

#define FEW 8 /* up to these, one group reads the page as it lies: 7 or 8 by 2 vectors, twice */

MATH_INLINE __m512 load_kv(enum kv_rep rep, const void *p, int64_t i, __mmask16 m)
{
    if (rep == KV_F16)
        return _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(m, (const uint16_t *)p + i));
    return _mm512_maskz_loadu_ps(m, (const float *)p + i);
}

/* p of each query becomes its raw scores of n_vec vectors of positions, from vector v0 on. next: the keys of the
 * page to prefetch (rep of this one), or NULL. */
MATH_INLINE void scores(int n, int v0, int n_vec, enum kv_rep rep, const void *k, int64_t d_k,
                        const uint8_t *next, const struct query *qs)
{
    __m512 s[FEW][VECTORS];
    const size_t size = rep == KV_F16 ? sizeof(uint16_t) : sizeof(float);
    UNROLL for (int i = 0; i < n; i++)
    {
        UNROLL for (int v = 0; v < n_vec; v++) s[i][v] = _mm512_setzero_ps();
    }
    for (int64_t d = 0; d < d_k; d++) {
        __m512 key[VECTORS];
        UNROLL for (int v = 0; v < n_vec; v++) key[v] =
            load_kv(rep, k, d * ATTN_TILE + (v0 + v) * 16, 0xffff);
        UNROLL for (int i = 0; i < n; i++)
        {
            const __m512 q = _mm512_set1_ps(((const float *)qs[i].q)[d]);
            UNROLL for (int v = 0; v < n_vec; v++) s[i][v] = _mm512_fmadd_ps(q, key[v], s[i][v]);
        }
        if (next)
            prefetch_lines(next + (size_t)(d * ATTN_TILE + v0 * 16) * size, (size_t)n_vec * 16 * size);
    }
    UNROLL for (int i = 0; i < n; i++)
    {
        UNROLL for (int v = 0; v < n_vec; v++) _mm512_store_ps(qs[i].p + (v0 + v) * 16, s[i][v]);
    }
}

/* The second half: scores become probabilities, their sum goes to l. whole: all positions are seen. */
MATH_INLINE void exponentials(bool whole, struct query *q)
{
    struct attn_state *state = q->state;
    const __m512 m = _mm512_set1_ps(state->m);
    __m512 sum = _mm512_setzero_ps();
    UNROLL for (int v = 0; v < VECTORS; v++)
    {
        const __mmask16 seen = whole ? 0xffff : (__mmask16)(q->visible >> (v * 16));
        const __m512 p = v_exp_negative(seen, _mm512_sub_ps(_mm512_load_ps(q->p + v * 16), m));
        _mm512_store_ps(q->p + v * 16, p);
        sum = v ? _mm512_add_ps(sum, p) : p;
    }
    state->l = fmaf(state->l, q->keep, v_reduce_add(sum));
}

static void softmax_exp(struct query *q)
{
    if (q->visible == ~0ull)
        exponentials(true, q);
    else
        exponentials(false, q);
}

/* Folds n_vec vectors of components, the last masked by tail, into o + d0 of each query. values: their first
 * component at position 0; stride: from one position to the next. */
MATH_INLINE void fold(int n, int n_vec, enum kv_rep rep, const void *values, int64_t stride, int64_t d0,
                      __mmask16 tail, const struct query *qs)
{
    __m512 o[FEW][VECTORS];
    uint64_t all = ~0ull, any = 0;
    UNROLL for (int i = 0; i < n; i++)
    {
        all &= qs[i].visible;
        any |= qs[i].visible;
        UNROLL for (int v = 0; v < n_vec; v++)
        {
            o[i][v] = _mm512_setzero_ps();
            if (!qs[i].fresh)
                o[i][v] = _mm512_mul_ps(_mm512_maskz_loadu_ps(tail, qs[i].o + d0 + v * 16),
                                        _mm512_set1_ps(qs[i].keep));
        }
    }
    if (all == ~0ull)
        any = 0;
    for (int j = 0; all == ~0ull && j < ATTN_TILE; j++) {
        __m512 value[VECTORS];
        UNROLL for (int v = 0; v < n_vec; v++) value[v] = load_kv(rep, values, j * stride + v * 16, tail);
        UNROLL for (int i = 0; i < n; i++)
        {
            const __m512 p = _mm512_set1_ps(qs[i].p[j]);
            UNROLL for (int v = 0; v < n_vec; v++) o[i][v] = _mm512_fmadd_ps(p, value[v], o[i][v]);
        }
    }
    for (; any; any &= any - 1) {
        const int j = __builtin_ctzll(any);
        __m512 value[VECTORS];
        UNROLL for (int v = 0; v < n_vec; v++) value[v] = load_kv(rep, values, j * stride + v * 16, tail);
        UNROLL for (int i = 0; i < n; i++)
        {
            const __mmask16 seen = qs[i].visible >> j & 1 ? 0xffff : 0;
            UNROLL for (int v = 0; v < n_vec; v++) o[i][v] =
                _mm512_mask3_fmadd_ps(_mm512_set1_ps(qs[i].p[j]), value[v], o[i][v], seen);
        }
    }
    UNROLL for (int i = 0; i < n; i++) UNROLL for (int v = 0; v < n_vec; v++)
        _mm512_mask_storeu_ps(qs[i].o + d0 + v * 16, tail, o[i][v]);
}

/* ---- bodies by number of queries -------------------------------------------------------------------------- */

typedef void (*scores_fn)(const void *k, int64_t d_k, const uint8_t *next, const struct query *qs);
typedef void (*fold_fn)(const void *values, int64_t stride, int64_t d0, __mmask16 tail,
                        const struct query *qs);

/* For n queries: scores and values from f16 and from f32, values by whole chunks and by vectors. */
#define BODIES(n)                                                                                            \
    BODY(n, KV_F16, f16)                                                                                     \
    BODY(n, KV_F32, f32)
#define BODY(n, rep, name)                                                                                   \
    static __attribute__((noinline)) void scores_##name##_##n(const void *k, int64_t d_k,                    \
                                                              const uint8_t *next, const struct query *qs)   \
    {                                                                                                        \
        scores(n, 0, VECTORS, rep, k, d_k, next, qs);                                                        \
    }                                                                                                        \
    static __attribute__((noinline)) void chunk_##name##_##n(const void *values, int64_t stride, int64_t d0, \
                                                             __mmask16 tail, const struct query *qs)         \
    {                                                                                                        \
        (void)tail;                                                                                          \
        fold(n, VECTORS, rep, values, stride, d0, 0xffff, qs);                                               \
    }                                                                                                        \
    static __attribute__((noinline)) void rest_##name##_##n(const void *values, int64_t stride, int64_t d0,  \
                                                            __mmask16 tail, const struct query *qs)          \
    {                                                                                                        \
        fold(n, 1, rep, values, stride, d0, tail, qs);                                                       \
    }
BODIES(1)
BODIES(2)
BODIES(3)
BODIES(4)
BODIES(5)
BODIES(6)

/* 7 or 8 queries: half the positions, or components, at a time. */
#define HALVES(n, rep, name)                                                                                 \
    static __attribute__((noinline)) void scores_##name##_##n(const void *k, int64_t d_k,                    \
                                                              const uint8_t *next, const struct query *qs)   \
    {                                                                                                        \
        scores(n, 0, VECTORS / 2, rep, k, d_k, next, qs);                                                    \
        scores(n, VECTORS / 2, VECTORS / 2, rep, k, d_k, next, qs);                                          \
    }                                                                                                        \
    static __attribute__((noinline)) void chunk_##name##_##n(const void *values, int64_t stride, int64_t d0, \
                                                             __mmask16 tail, const struct query *qs)         \
    {                                                                                                        \
        (void)tail;                                                                                          \
        fold(n, VECTORS / 2, rep, values, stride, d0, 0xffff, qs);                                           \
        fold(n, VECTORS / 2, rep, (const uint8_t *)values + (rep == KV_F16 ? 2 : 4) * CHUNK / 2, stride,     \
             d0 + CHUNK / 2, 0xffff, qs);                                                                    \
    }                                                                                                        \
    static __attribute__((noinline)) void rest_##name##_##n(const void *values, int64_t stride, int64_t d0,  \
                                                            __mmask16 tail, const struct query *qs)          \
    {                                                                                                        \
        fold(n, 1, rep, values, stride, d0, tail, qs);                                                       \
    }
HALVES(7, KV_F16, f16)
HALVES(7, KV_F32, f32)
HALVES(8, KV_F16, f16)
HALVES(8, KV_F32, f32)
#define TABLE_OF_8(name)                                                                                     \
    {                                                                                                        \
        name##_1, name##_2, name##_3, name##_4, name##_5, name##_6, name##_7, name##_8                       \
    }
static const scores_fn scores_of[2][FEW] = {TABLE_OF_8(scores_f16), TABLE_OF_8(scores_f32)};
static const fold_fn chunk_of[2][FEW] = {TABLE_OF_8(chunk_f16), TABLE_OF_8(chunk_f32)};
static const fold_fn rest_of[2][FEW] = {TABLE_OF_8(rest_f16), TABLE_OF_8(rest_f32)};

/* ---- the tile --------------------------------------------------------------------------------------------- */

/* What attn_tile works on, laid out in its scratch. */
struct work {
    struct query *queries; /* [n_q] */
    float *p;              /* [n_q][64] */
    float *keys;           /* [d_k][64] */
    float *values;         /* [64][CHUNK] */
    size_t bytes;
};

static struct work lay_out(int64_t n_q, int64_t d_k, void *scratch)
{
    const uintptr_t base = (uintptr_t)scratch, p = base + round_up_64((size_t)n_q * sizeof(struct query));
    const uintptr_t keys = p + (size_t)n_q * ATTN_TILE * sizeof(float);
    const uintptr_t values = keys + (size_t)d_k * ATTN_TILE * sizeof(float);
    return (struct work){(struct query *)base, (float *)p, (float *)keys, (float *)values,
                         values + ATTN_TILE * CHUNK * sizeof(float) - base};
}

/* One chunk of values to f32; the same part of the next page is prefetched. */
static void convert_values(enum kv_rep rep, const void *values, int64_t d_v, const uint8_t *next, float *dst)
{
    const size_t size = rep == KV_F16 ? sizeof(uint16_t) : sizeof(float);
    for (int64_t j = 0; j < ATTN_TILE; j++) {
        for (int v = 0; v < VECTORS; v++) {
            const __m512 x = rep == KV_F16 ? load_kv(KV_F16, values, j * d_v + v * 16, 0xffff)
                                           : load_kv(KV_F32, values, j * d_v + v * 16, 0xffff);
            _mm512_store_ps(dst + j * CHUNK + v * 16, x);
        }
        if (next)
            prefetch_lines(next + (size_t)(j * d_v) * size, CHUNK * size);
    }
}

static void convert_keys(const uint16_t *keys, int64_t d_k, const uint8_t *next, float *dst)
{
    for (int64_t i = 0; i < d_k * ATTN_TILE; i += 32) {
        _mm512_store_ps(dst + i, load_kv(KV_F16, keys, i, 0xffff));
        _mm512_store_ps(dst + i + 16, load_kv(KV_F16, keys, i + 16, 0xffff));
        if (next)
            prefetch_lines(next + (size_t)i * sizeof *keys, 64);
    }
}

/* How n queries read a page. */
struct plan {
    int64_t n, most; /* queries; of a group */
    int page, form;  /* what the page holds, what the kernels read: 0 f16, 1 f32 */
    bool convert;    /* into scratch */
    size_t size;     /* of a value in the page */
};

static void weigh(const struct kv_tile *t, int64_t d_k, float softcap, const struct plan *plan,
                  const struct work *w)
{
    const uint8_t *next = t->next;
    const void *keys = t->k;
    if (plan->convert && !plan->page) {
        convert_keys(t->k, d_k, next, w->keys);
        keys = w->keys;
        next = NULL;
    }
    FOR_GROUPS_OF(plan->most, plan->n, i, m)
    {
        scores_of[plan->form][m - 1](keys, d_k, next, w->queries + i);
        next = NULL;
        for (int64_t j = i; j < i + m; j++)
            softmax_top(softcap, &w->queries[j]);
        for (int64_t j = i; j < i + m; j++)
            softmax_exp(&w->queries[j]);
    }
}

static void fold_values(const struct kv_tile *t, int64_t d_k, int64_t d_v, const struct plan *plan,
                        const struct work *w)
{
    const uint8_t *next = t->next ? (const uint8_t *)t->next + kv_key_bytes(t->rep, d_k) : NULL;
    int64_t d = 0;
    for (; d + CHUNK <= d_v; d += CHUNK) {
        const void *values = (const uint8_t *)t->v + (size_t)d * plan->size;
        int64_t stride = d_v;
        if (plan->convert) {
            convert_values(t->rep, values, d_v, next ? next + (size_t)d * plan->size : NULL, w->values);
            values = w->values;
            stride = CHUNK;
        }
        FOR_GROUPS_OF(plan->most, plan->n, i, m)
        {
            chunk_of[plan->form][m - 1](values, stride, d, 0xffff, w->queries + i);
        }
    }
    for (; d < d_v; d += 16) {
        const void *values = (const uint8_t *)t->v + (size_t)d * plan->size;
        FOR_GROUPS_OF(plan->most, plan->n, i, m)
        {
            rest_of[plan->page][m - 1](values, d_v, d, v_tail(d_v - d), w->queries + i);
        }
    }
    if (next && !plan->convert)
        prefetch_lines(next, kv_value_bytes(t->rep, d_v));
}

void avx512_attn_tile(const struct kv_tile *t, int64_t d_k, int64_t d_v, int64_t n_q, const void *q,
                      const struct attn_visible *vis, float softcap, struct attn_state *state, float *o,
                      void *scratch)
{
    if (t->rep == KV_Q4) {
        q4_tile(avx512_q8_tile, t, d_k, d_v, n_q, q, vis, softcap, state, o, scratch);
        return;
    }
    if (t->rep == KV_Q8) {
        avx512_q8_tile(t, d_k, d_v, n_q, q, vis, softcap, state, o, scratch);
        return;
    }
    if (t->rep == KV_BF16) {
        avx512_bf16_tile(t, d_k, d_v, n_q, q, vis, softcap, state, o, scratch);
        return;
    }
    const struct work w = lay_out(n_q, d_k, scratch);
    struct plan plan = {.page = t->rep == KV_F32};
    plan.n = collect_queries(d_k, d_v, n_q, q, vis, state, o, w.p, w.queries);
    plan.convert = plan.n > FEW;
    plan.most = plan.convert ? GROUP : FEW;
    plan.form = plan.page || plan.convert;
    plan.size = plan.page ? sizeof(float) : sizeof(uint16_t);
    weigh(t, d_k, softcap, &plan, &w);
    fold_values(t, d_k, d_v, &plan, &w);
}

void avx512_attn_query(enum kv_rep rep, int64_t d_k, const float *q, void *dst)
{
    if (rep == KV_BF16)
        avx512_bf16_query(d_k, q, dst);
    else if (rep == KV_Q8 || rep == KV_Q4)
        avx512_q8_query(d_k, q, dst);
    else
        twin_attn_query(rep, d_k, q, dst);
}

size_t avx512_attn_scratch_bytes(enum kv_rep rep, int64_t d_k, int64_t d_v, int64_t n_q)
{
    if (rep == KV_Q4)
        return q4_scratch_bytes(d_k, d_v) + avx512_q8_scratch_bytes(n_q);
    if (rep == KV_Q8)
        return avx512_q8_scratch_bytes(n_q);
    if (rep == KV_BF16)
        return avx512_bf16_scratch_bytes(d_k, n_q);
    return lay_out(n_q, d_k, NULL).bytes;
}

void avx512_attn_merge(int64_t d_v, const struct attn_state *sb, const float *ob, struct attn_state *sa,
                       float *oa)
{
    float ca, cb;
    if (!attn_merge_states(d_v, sb, ob, sa, oa, &ca, &cb))
        return;
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
    if (rep == KV_BF16) {
        avx512_bf16_store(d_k, d_v, e, k, v, tile_k, tile_v);
        return;
    }
    if (rep == KV_Q8) {
        avx512_q8_store(d_k, d_v, e, k, v, tile_k, tile_v);
        return;
    }
    if (rep != KV_F16) {
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
