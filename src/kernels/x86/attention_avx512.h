/* What the AVX-512 attention kernels share: queries that see something of a tile, in groups of up to six, and the
 * first half of their softmax. */
#ifndef HASTEN_KERNELS_X86_ATTENTION_AVX512_H
#define HASTEN_KERNELS_X86_ATTENTION_AVX512_H
#include "kernels/attention.h"
#include "kernels/sets.h"
#include "kernels/x86/vec_avx512.h"

/* Loops over accumulators must vanish early, or GCC keeps the accumulators in memory too. Not under sanitizers, which
 * would instrument every copy for minutes. */
#if defined(HASTEN_SANITIZED)
#define UNROLL
#else
#define UNROLL _Pragma("GCC unroll 8")
#endif

#define GROUP 6                  /* queries handled together */
#define VECTORS (ATTN_TILE / 16) /* of positions in a tile; of components in a chunk of values */
#define CHUNK (16 * VECTORS)     /* components */

/* One query that sees something of the tile. */
struct query {
    const void *q; /* as prepared */
    float *o;
    float *p; /* [64]: raw scores, then probabilities or what is made of them */
    struct attn_state *state;
    uint64_t visible;
    float keep;  /* factor of the old o and l */
    float scale; /* q8: of the weights */
    bool fresh;  /* l was 0: o holds nothing */
};

/* One compiled body for each size of a group. */
#define TABLE(name)                                                                                          \
    {                                                                                                        \
        name##_1, name##_2, name##_3, name##_4, name##_5, name##_6                                           \
    }

/* Runs a statement for n queries in groups of nearly equal size, `most` at most: [first, first + size). */
#define FOR_GROUPS_OF(most, n, first, size)                                                                  \
    for (int64_t first = 0, groups_left = ((n) + (most)-1) / (most), size; groups_left > 0;                  \
         first += size, groups_left--)                                                                       \
        if ((size = ((n)-first + groups_left - 1) / groups_left) > 0)
#define FOR_GROUPS(n, first, size) FOR_GROUPS_OF(GROUP, n, first, size)

/* Queries that see something; those that see everything come first, as groups of them need no masks. p: [n_q]
 * rows of 64. Returns their number. */
MATH_INLINE int64_t collect_queries(int64_t d_k, int64_t d_v, int64_t n_q, const void *q,
                                    const struct attn_visible *vis, struct attn_state *state, float *o,
                                    float *p, struct query *out)
{
    int64_t n = 0;
    bool partly = true; /* whether there are queries for the second pass */
    for (int pass = 0; pass < 2 && partly; pass++) {
        partly = false;
        for (int64_t i = 0; i < n_q; i++) {
            const uint64_t visible = visible_bits(&vis[i]);
            if (!visible || (visible == ~0ull) != (pass == 0)) {
                partly = partly || visible;
                continue;
            }
            out[n] = (struct query){.q = attn_query_at(q, d_k, i),
                                    .o = o + i * d_v,
                                    .p = p + n * ATTN_TILE,
                                    .state = &state[i],
                                    .visible = visible};
            n++;
        }
    }
    return n;
}

MATH_INLINE void prefetch_lines(const uint8_t *p, size_t bytes)
{
    for (size_t i = 0; i < bytes; i += 64)
        _mm_prefetch((const char *)p + i, _MM_HINT_T1);
}

/* The first half of the softmax: caps the raw scores, moves the running maximum on. The halves are separate
 * loops over a group, so that the chains of latency of its queries overlap. */
MATH_INLINE void softmax_top(float softcap, struct query *q)
{
    const __m512 lowest = _mm512_set1_ps(-INFINITY), cap = _mm512_set1_ps(softcap);
    __m512 max = lowest;
    UNROLL for (int v = 0; v < VECTORS; v++)
    {
        __m512 s = _mm512_load_ps(q->p + v * 16);
        if (softcap > 0) {
            s = _mm512_mul_ps(cap, v_tanh(_mm512_div_ps(s, cap)));
            _mm512_store_ps(q->p + v * 16, s);
        }
        max = _mm512_max_ps(_mm512_mask_mov_ps(lowest, (__mmask16)(q->visible >> (v * 16)), s), max);
    }
    struct attn_state *state = q->state;
    const float top = v_reduce_max(max), m = top > state->m ? top : state->m, down = state->m - m;
    q->fresh = state->l == 0;
    q->keep = q->fresh ? 0.0f : down == 0 ? 1.0f : exp_f32_inline(down);
    state->m = m;
}

/* exp_coarse_inline in the lanes of keep, 0 in the others. */
MATH_INLINE __m512 v_exp_coarse(__mmask16 keep, __m512 s, __m512 minus_m)
{
    const __m512 magic = _mm512_set1_ps(ROUND_MAGIC);
    const __m512 y = _mm512_fmadd_ps(s, _mm512_set1_ps(EXP_LOG2E), minus_m);
    const __mmask16 live = _mm512_mask_cmp_ps_mask(keep, y, _mm512_set1_ps(COARSE_MIN), _CMP_NLT_UQ);
    const __m512 n = _mm512_sub_ps(_mm512_add_ps(y, magic), magic), r = _mm512_sub_ps(y, n);
    __m512 p = _mm512_fmadd_ps(_mm512_set1_ps(COARSE_C3), r, _mm512_set1_ps(COARSE_C2));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(COARSE_C1));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(COARSE_C0));
    return _mm512_maskz_scalef_ps(live, p, n);
}

/* Tiles of the other representations (attention_q8_avx512.c, attention_bf16_avx512.c). */
void avx512_q8_tile(const struct kv_tile *t, int64_t d_k, int64_t d_v, int64_t n_q, const void *q,
                    const struct attn_visible *vis, float softcap, struct attn_state *state, float *o,
                    void *scratch);
size_t avx512_q8_scratch_bytes(int64_t n_q);
void avx512_q8_query(int64_t d_k, const float *q, void *dst);
void avx512_q8_store(int64_t d_k, int64_t d_v, int32_t e, const float *k, const float *v, uint8_t *tile_k,
                     uint8_t *tile_v);

size_t avx512_bf16_scratch_bytes(int64_t d_k, int64_t n_q);
void avx512_bf16_query(int64_t d_k, const float *q, void *dst);
void avx512_bf16_store(int64_t d_k, int64_t d_v, int32_t e, const float *k, const float *v, uint16_t *tile_k,
                       uint16_t *tile_v);

#endif
