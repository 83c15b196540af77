/* Tiles times columns: 16 or 32 rows x up to 4 activation rows at once. For each output the operations are
 * those of kernels.h in the same order, whatever the number of columns: int32 within a block, then one
 * fma.
 *
 * The offset of unsigned quants costs nothing: the int32 sums of a block begin at -offset * sum(q_x),
 * which act_make has left beside the activations. */
#include "kernels/layout.h"
#include "kernels/x86/panel_avx512.h"
#include "kernels/x86/vec_avx512.h"
#include <stddef.h>

#define NO_OFFSET SIZE_MAX

/* Brings the next group of columns' blocks nearer while this one is worked on. */
MATH_INLINE void prefetch_block(const uint8_t *x, size_t bytes)
{
    for (size_t i = 0; i < bytes; i += 64)
        _mm_prefetch((const char *)x + i, _MM_HINT_T0);
}

MATH_INLINE __m512i broadcast_i32(const uint8_t *p)
{
    int32_t v;
    memcpy(&v, p, 4);
    return _mm512_set1_epi32(v);
}

MATH_INLINE __m512 broadcast_f32(const uint8_t *p)
{
    float v;
    memcpy(&v, p, 4);
    return _mm512_set1_ps(v);
}

/* dot[p][c] += sums over 4 * n_vec values of k, from vectors first_vec on. */
MATH_INLINE void dot_columns(int n_panels, int n, int first_vec, int n_vec, const struct tile_q8 *t,
                             const uint8_t *const x[COLUMN_GROUP], __m512i dot[PAIR][COLUMN_GROUP])
{
#pragma GCC unroll 8
    for (int v = first_vec; v < first_vec + n_vec; v++) {
        __m512i w[PAIR];
        for (int p = 0; p < n_panels; p++)
            w[p] = _mm512_load_si512(t[p].q[v]);
#pragma GCC unroll 4
        for (int c = 0; c < n; c++) {
            const __m512i xv = broadcast_i32(x[c] + 4 * v);
            for (int p = 0; p < n_panels; p++)
                dot[p][c] = _mm512_dpbusd_epi32(dot[p][c], w[p], xv);
        }
    }
}

/* Where a block's int32 sums begin. entry: index in the array at byte offset neg of the activation block. */
MATH_INLINE void start_dots(int n_panels, int n, size_t neg, int entry, const uint8_t *const x[COLUMN_GROUP],
                            __m512i dot[PAIR][COLUMN_GROUP])
{
    for (int c = 0; c < n; c++) {
        const __m512i v = neg == NO_OFFSET ? _mm512_setzero_si512() : broadcast_i32(x[c] + neg + 4 * entry);
        for (int p = 0; p < n_panels; p++)
            dot[p][c] = v;
    }
}

/* ---- ACT_Q8_32 --------------------------------------------------------------------------------- */

MATH_INLINE void multiply_32(int n_panels, int n, size_t neg, bool mins, const struct tile_q8 *t, int64_t k,
                             const uint8_t *const x[COLUMN_GROUP], struct sums *s)
{
    __m512 acc[PAIR][COLUMN_GROUP], acc2[PAIR][COLUMN_GROUP];
    for (int c = 0; c < n; c++) {
        for (int p = 0; p < n_panels; p++) {
            acc[p][c] = _mm512_load_ps(s[c * PAIR + p].acc);
            acc2[p][c] = _mm512_load_ps(s[c * PAIR + p].acc2);
        }
    }
    for (int b = 0; b < (int)(k / 32); b++) {
        __m512i dot[PAIR][COLUMN_GROUP];
        start_dots(n_panels, n, neg, b, x, dot);
        dot_columns(n_panels, n, b * 8, 8, t, x, dot);
        for (int c = 0; c < n; c++) {
            const __m512 dx = broadcast_f32(x[c] + offsetof(struct act_block_32, d) + 4 * b);
            const __m512 ds = broadcast_f32(x[c] + offsetof(struct act_block_32, ds) + 4 * b);
            for (int p = 0; p < n_panels; p++) {
                const __m512 d = _mm512_mul_ps(_mm512_load_ps(t[p].d[b]), dx);
                acc[p][c] = _mm512_fmadd_ps(d, _mm512_cvtepi32_ps(dot[p][c]), acc[p][c]);
                if (mins)
                    acc2[p][c] = _mm512_fmadd_ps(_mm512_load_ps(t[p].m[b]), ds, acc2[p][c]);
            }
        }
    }
    for (int c = 0; c < n; c++) {
        for (int p = 0; p < n_panels; p++) {
            _mm512_store_ps(s[c * PAIR + p].acc, acc[p][c]);
            if (mins)
                _mm512_store_ps(s[c * PAIR + p].acc2, acc2[p][c]);
        }
    }
}

/* ---- ACT_Q8_256 -------------------------------------------------------------------------------- */

/* acc2 += dmin d_x * sum of mins times sums of activations, two sub-blocks per step of vpdpwssd. */
MATH_INLINE void multiply_mins(int n_pairs, size_t sums, const struct tile_q8 *t, const uint8_t *x,
                               struct sums *s)
{
    __m512i min = _mm512_setzero_si512();
    for (int j = 0; j < n_pairs; j++)
        min = _mm512_dpwssd_epi32(min, _mm512_load_si512(t->min[j]), broadcast_i32(x + sums + 4 * j));
    const __m512 d =
        _mm512_mul_ps(_mm512_load_ps(t->m[0]), broadcast_f32(x + offsetof(struct act_block_256, d)));
    _mm512_store_ps(s->acc2, _mm512_fmadd_ps(d, _mm512_cvtepi32_ps(min), _mm512_load_ps(s->acc2)));
}

MATH_INLINE void multiply_256(int n_panels, int n, int sub, size_t neg, size_t min_sums,
                              const struct tile_q8 *t, const uint8_t *const x[COLUMN_GROUP], struct sums *s)
{
    const int n_sub = 256 / sub, n_vec = sub / 4;
    __m512i total[PAIR][COLUMN_GROUP], dot[PAIR][COLUMN_GROUP];
    for (int c = 0; c < n; c++)
        for (int p = 0; p < n_panels; p++)
            total[p][c] = _mm512_setzero_si512();
    for (int j = 0; j < n_sub; j++) {
        start_dots(n_panels, n, neg, j, x, dot);
        dot_columns(n_panels, n, j * n_vec, n_vec, t, x, dot);
        for (int p = 0; p < n_panels; p++) {
            const __m512i scale = _mm512_load_si512(t[p].scale[j]);
            for (int c = 0; c < n; c++)
                total[p][c] = _mm512_add_epi32(total[p][c], _mm512_mullo_epi32(dot[p][c], scale));
        }
    }
    for (int c = 0; c < n; c++) {
        const __m512 dx = broadcast_f32(x[c] + offsetof(struct act_block_256, d));
        for (int p = 0; p < n_panels; p++) {
            struct sums *to = &s[c * PAIR + p];
            const __m512 d = _mm512_mul_ps(_mm512_load_ps(t[p].d[0]), dx);
            _mm512_store_ps(to->acc,
                            _mm512_fmadd_ps(d, _mm512_cvtepi32_ps(total[p][c]), _mm512_load_ps(to->acc)));
            if (min_sums != NO_OFFSET)
                multiply_mins(n_sub / 2, min_sums, &t[p], x[c], to);
        }
    }
}

/* ---- ACT_F32 ----------------------------------------------------------------------------------- */

MATH_INLINE void multiply_floats(int n_panels, int n, const struct tile_f32 *t, int64_t k,
                                 const uint8_t *const x[COLUMN_GROUP], struct sums *s)
{
    __m512 acc[PAIR][COLUMN_GROUP];
    for (int c = 0; c < n; c++)
        for (int p = 0; p < n_panels; p++)
            acc[p][c] = _mm512_load_ps(s[c * PAIR + p].acc);
    for (int64_t i = 0; i < k; i++) {
        __m512 w[PAIR];
        for (int p = 0; p < n_panels; p++)
            w[p] = _mm512_load_ps(t[p].w[i]);
        for (int c = 0; c < n; c++) {
            const __m512 v = broadcast_f32(x[c] + 4 * i);
            for (int p = 0; p < n_panels; p++)
                acc[p][c] = _mm512_fmadd_ps(w[p], v, acc[p][c]);
        }
    }
    for (int c = 0; c < n; c++)
        for (int p = 0; p < n_panels; p++)
            _mm512_store_ps(s[c * PAIR + p].acc, acc[p][c]);
}

/* ---- one compiled body per number of panels and columns ---------------------------------------- */

/* Calls BODY(panels, columns) for groups of 4, 2 and 1 columns, each with constant arguments. */
#define FOR_COLUMNS(panels, BODY)                                                                            \
    for (; n >= 4; n -= 4, x += 4 * stride, s += 4 * PAIR) {                                                 \
        const uint8_t *const xs[COLUMN_GROUP] = {x, x + stride, x + 2 * stride, x + 3 * stride};             \
        if (n >= 8)                                                                                          \
            for (size_t next = 4; next < 8; next++)                                                          \
                prefetch_block(x + next * stride, bytes);                                                    \
        BODY(panels, 4);                                                                                     \
    }                                                                                                        \
    if (n >= 2) {                                                                                            \
        const uint8_t *const xs[COLUMN_GROUP] = {x, x + stride};                                             \
        BODY(panels, 2);                                                                                     \
        n -= 2, x += 2 * stride, s += 2 * PAIR;                                                              \
    }                                                                                                        \
    if (n >= 1) {                                                                                            \
        const uint8_t *const xs[COLUMN_GROUP] = {x};                                                         \
        BODY(panels, 1);                                                                                     \
    }

#define MULTIPLY(name, tile_type, block_bytes, BODY)                                                         \
    DECLARE_MULTIPLY(name)                                                                                   \
    {                                                                                                        \
        const tile_type *t = tiles;                                                                          \
        const size_t bytes = block_bytes;                                                                    \
        if (n_panels == 2) {                                                                                 \
            FOR_COLUMNS(2, BODY)                                                                             \
        } else {                                                                                             \
            FOR_COLUMNS(1, BODY)                                                                             \
        }                                                                                                    \
        (void)k;                                                                                             \
    }

#define NEG_32(field) offsetof(struct act_block_32, field)
#define AT_256(field) offsetof(struct act_block_256, field)

#define BODY_Q4_0(p, n) multiply_32(p, n, NEG_32(neg8), false, t, k, xs, s)
#define BODY_Q5_0(p, n) multiply_32(p, n, NEG_32(neg16), false, t, k, xs, s)
#define BODY_Q8_0(p, n) multiply_32(p, n, NEG_32(neg128), false, t, k, xs, s)
#define BODY_Q45_1(p, n) multiply_32(p, n, NO_OFFSET, true, t, k, xs, s)
#define BODY_Q2_K(p, n) multiply_256(p, n, 16, NO_OFFSET, AT_256(sum16), t, xs, s)
#define BODY_Q3_K(p, n) multiply_256(p, n, 16, AT_256(neg4), NO_OFFSET, t, xs, s)
#define BODY_Q45_K(p, n) multiply_256(p, n, 32, NO_OFFSET, AT_256(sum32), t, xs, s)
#define BODY_Q6_K(p, n) multiply_256(p, n, 16, AT_256(neg32), NO_OFFSET, t, xs, s)
#define BODY_F32(p, n) multiply_floats(p, n, t, k, xs, s)

MULTIPLY(multiply_q4_0, struct tile_q8, 384, BODY_Q4_0)
MULTIPLY(multiply_q5_0, struct tile_q8, 384, BODY_Q5_0)
MULTIPLY(multiply_q8_0, struct tile_q8, 448, BODY_Q8_0)
MULTIPLY(multiply_q45_1, struct tile_q8, 320, BODY_Q45_1)
MULTIPLY(multiply_q2_k, struct tile_q8, 448, BODY_Q2_K)
MULTIPLY(multiply_q3_k, struct tile_q8, 448, BODY_Q3_K)
MULTIPLY(multiply_q45_k, struct tile_q8, 448, BODY_Q45_K)
MULTIPLY(multiply_q6_k, struct tile_q8, 448, BODY_Q6_K)
MULTIPLY(multiply_f32, struct tile_f32, (size_t)k * 4, BODY_F32)
