/* What the AVX2 attention kernels share: queries that see something of a tile, taken up to six at a time, and the
 * first half of their softmax. With sixteen registers, positions and components are cut so that eight
 * to twelve accumulators are in use. */
#ifndef HASTEN_KERNELS_X86_ATTENTION_AVX2_H
#define HASTEN_KERNELS_X86_ATTENTION_AVX2_H
#include "kernels/attention.h"
#include "kernels/sets.h"
#include "kernels/x86/vec_avx2.h"

#define QUERIES 6               /* handled together */
#define VECTORS (ATTN_TILE / 8) /* of positions in a tile */

/* Vectors of a cut when n queries share it. */
#define CUT(n) ((n) == 1 ? 8 : (n) <= 3 ? 4 : 2)

struct query {
    const void *q; /* as prepared */
    float *o;
    struct attn_state *state;
    uint64_t visible;
    float keep;  /* factor of the old o and l */
    float scale; /* q8: of the weights */
    bool fresh;  /* l was 0: o holds nothing */
    float p[ATTN_TILE]
        __attribute__((aligned(32))); /* raw scores, then probabilities or what is made of them */
};

/* Folds a tile of one representation into n queries. */
typedef void (*tile_fn)(const struct kv_tile *t, int64_t d_k, int64_t d_v, float softcap, struct query *qs);

/* Lanes of vector v that a query sees. */
MATH_INLINE __m256 seen_lanes(const struct query *q, int v)
{
    return v_bits((uint32_t)(q->visible >> (v * 8)));
}

/* The first half of the softmax: caps the raw scores, moves the running maximum on. Vector v holds lanes
 * 8 (v % 2) .. of the fixed reduction. */
MATH_INLINE void softmax_top(float softcap, struct query *q)
{
    const __m256 lowest = _mm256_set1_ps(-INFINITY), cap = _mm256_set1_ps(softcap);
    __m256 max[2] = {lowest, lowest};
    UNROLL for (int v = 0; v < VECTORS; v++)
    {
        __m256 s = _mm256_load_ps(q->p + v * 8);
        if (softcap > 0) {
            s = _mm256_mul_ps(cap, v_tanh(_mm256_div_ps(s, cap)));
            _mm256_store_ps(q->p + v * 8, s);
        }
        max[v % 2] = _mm256_max_ps(_mm256_blendv_ps(lowest, s, seen_lanes(q, v)), max[v % 2]);
    }
    struct attn_state *state = q->state;
    const float top = v_reduce_max(max[0], max[1]), m = top > state->m ? top : state->m;
    q->fresh = state->l == 0;
    q->keep = q->fresh ? 0.0f : exp_f32_inline(state->m - m);
    state->m = m;
}

/* p of each query becomes its raw scores. keys: [d_k][64] of f32. */
MATH_INLINE void scores_f32(int n, const float *keys, int64_t d_k, struct query *qs)
{
    const int cut = CUT(n);
    for (int first = 0; first < VECTORS; first += cut) {
        __m256 s[QUERIES][VECTORS];
        UNROLL for (int i = 0; i < n; i++) UNROLL for (int v = 0; v < cut; v++) s[i][v] = _mm256_setzero_ps();
        for (int64_t d = 0; d < d_k; d++) {
            __m256 key[VECTORS];
            UNROLL for (int v = 0; v < cut; v++) key[v] =
                _mm256_loadu_ps(keys + d * ATTN_TILE + (first + v) * 8);
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

/* Defines name_1 .. name_6, for as many queries, from a macro of that number. */
#define TILE_BODY(n, name, BODY)                                                                             \
    static __attribute__((noinline)) void name##_##n(const struct kv_tile *t, int64_t d_k, int64_t d_v,      \
                                                     float softcap, struct query *qs)                        \
    {                                                                                                        \
        BODY(n);                                                                                             \
    }
#define TILE_BODIES(name, BODY)                                                                              \
    TILE_BODY(1, name, BODY)                                                                                 \
    TILE_BODY(2, name, BODY)                                                                                 \
    TILE_BODY(3, name, BODY)                                                                                 \
    TILE_BODY(4, name, BODY)                                                                                 \
    TILE_BODY(5, name, BODY)                                                                                 \
    TILE_BODY(6, name, BODY)
#define TILE_TABLE(name)                                                                                     \
    {                                                                                                        \
        name##_1, name##_2, name##_3, name##_4, name##_5, name##_6                                           \
    }

/* Tiles of bf16 and q8 pages (attention_low_avx2.c). bf16: the page as f32, converted in scratch. */
extern const tile_fn avx2_bf16_bodies[QUERIES], avx2_q8_bodies[QUERIES];
size_t avx2_bf16_scratch_bytes(int64_t d_k, int64_t d_v);
struct kv_tile avx2_bf16_convert(const struct kv_tile *t, int64_t d_k, int64_t d_v, float *scratch);
void avx2_bf16_query(int64_t d_k, const float *q, void *dst);

#endif
