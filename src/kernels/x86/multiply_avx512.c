/* Tiles times columns: up to 64 rows x 4 activation rows at once. For each output the operations are those of
 * kernels.h in the same order, whatever the number of columns: int32 within a block, then one fma.
 *
 * The offset of unsigned quants costs nothing: the int32 sums of a block begin at -offset * sum(q_x), which
 * act_make has left beside the activations. Sub-block scales cost what the format allows: multiplied into the
 * quants where the products fit a byte (Q2_K, Q3_K: unpack does it); two at a time with vpdpwssd where the sum
 * of a sub-block fits 16 bits (Q4_K, around its middle 8); a multiplication each otherwise (Q5_K, Q6_K). */
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

#define EACH(i, n) _Pragma("GCC unroll 8") for (int i = 0; i < (n); i++)

/* Registers are for the dots: the compiler is to believe that memory at p changes here, or it would keep what
 * lies there in registers too, and spill both. */
#define KEEP_IN_MEMORY(p) __asm__ volatile("" ::"r"(p) : "memory")

typedef __m512i dots[PANEL_GROUP][COLUMN_GROUP];

/* The sums begin at entry `entry` of the array at byte offset neg of the activation block. */
MATH_INLINE void start_dots(int n_panels, int n, size_t neg, int entry, const uint8_t *const x[COLUMN_GROUP],
                            dots dot)
{
    EACH(c, n)
    {
        const __m512i v = neg == NO_OFFSET ? _mm512_setzero_si512() : broadcast_i32(x[c] + neg + 4 * entry);
        EACH(p, n_panels) dot[p][c] = v;
    }
}

/* Adds the products of 4 * n_vec values of k, from vectors first_vec on. n_vec: at most 8, constant. */
MATH_INLINE void add_dots(int n_panels, int n, int first_vec, int n_vec, const struct tile_q8 *t,
                          const uint8_t *const x[COLUMN_GROUP], dots dot)
{
    EACH(i, n_vec)
    {
        const int v = first_vec + i;
        __m512i w[PANEL_GROUP];
        EACH(p, n_panels) w[p] = _mm512_load_si512(t[p].q[v]);
        EACH(c, n)
        {
            const __m512i xv = broadcast_i32(x[c] + 4 * v);
            EACH(p, n_panels) dot[p][c] = _mm512_dpbusd_epi32(dot[p][c], w[p], xv);
        }
    }
}

/* ---- ACT_Q8_32 --------------------------------------------------------------------------------- */

/* acc2 += m d_x sum(q_x), for all blocks of one column. */
MATH_INLINE void multiply_mins_32(int n_panels, int n_blocks, const struct tile_q8 *t, const uint8_t *x,
                                  struct sums *s)
{
    __m512 acc2[PANEL_GROUP];
    EACH(p, n_panels) acc2[p] = _mm512_load_ps(s[p].acc2);
    for (int b = 0; b < n_blocks; b++) {
        const __m512 ds = broadcast_f32(x + offsetof(struct act_block_32, ds) + 4 * b);
        EACH(p, n_panels) acc2[p] = _mm512_fmadd_ps(_mm512_load_ps(t[p].m[b]), ds, acc2[p]);
    }
    EACH(p, n_panels) _mm512_store_ps(s[p].acc2, acc2[p]);
}

MATH_INLINE void multiply_32(int n_panels, int n, size_t neg, bool mins, const struct tile_q8 *t, int64_t k,
                             const uint8_t *const x[COLUMN_GROUP], struct sums *s)
{
    const int n_blocks = (int)(k / 32);
    for (int b = 0; b < n_blocks; b++) {
        dots dot;
        KEEP_IN_MEMORY(s);
        start_dots(n_panels, n, neg, b, x, dot);
        add_dots(n_panels, n, b * 8, 8, t, x, dot);
        EACH(c, n)
        {
            const __m512 dx = broadcast_f32(x[c] + offsetof(struct act_block_32, d) + 4 * b);
            EACH(p, n_panels)
            {
                float *acc = s[c * PANEL_GROUP + p].acc;
                const __m512 d = _mm512_mul_ps(_mm512_load_ps(t[p].d[b]), dx);
                _mm512_store_ps(acc, _mm512_fmadd_ps(d, _mm512_cvtepi32_ps(dot[p][c]), _mm512_load_ps(acc)));
            }
        }
    }
    if (mins)
        EACH(c, n) multiply_mins_32(n_panels, n_blocks, t, x[c], &s[c * PANEL_GROUP]);
}

/* ---- ACT_Q8_256 -------------------------------------------------------------------------------- */

/* total += pairs[j] times the sums of activations that stand as 16-bit pairs at byte offset `sums`. */
MATH_INLINE __m512i dot_sums(int n_pairs, size_t sums, const int16_t (*pairs)[PANEL_ROWS][2],
                             const uint8_t *x, __m512i total)
{
    EACH(j, n_pairs)
    total = _mm512_dpwssd_epi32(total, _mm512_load_si512(pairs[j]), broadcast_i32(x + sums + 4 * j));
    return total;
}

/* acc += d d_x total; acc2 += dmin d_x * sum of mins times sums of activations. */
MATH_INLINE void finish_256(int n_min_pairs, size_t min_sums, const struct tile_q8 *t, const uint8_t *x,
                            __m512i total, struct sums *to)
{
    const __m512 dx = broadcast_f32(x + offsetof(struct act_block_256, d));
    const __m512 d = _mm512_mul_ps(_mm512_load_ps(t->d[0]), dx);
    _mm512_store_ps(to->acc, _mm512_fmadd_ps(d, _mm512_cvtepi32_ps(total), _mm512_load_ps(to->acc)));
    if (n_min_pairs) {
        const __m512i min = dot_sums(n_min_pairs, min_sums, t->min, x, _mm512_setzero_si512());
        const __m512 dmin = _mm512_mul_ps(_mm512_load_ps(t->m[0]), dx);
        _mm512_store_ps(to->acc2,
                        _mm512_fmadd_ps(dmin, _mm512_cvtepi32_ps(min), _mm512_load_ps(to->acc2)));
    }
}

#define SUMS_16 offsetof(struct act_block_256, sum16)
#define SUMS_32 offsetof(struct act_block_256, sum32)

/* Scales are part of the quants. */
MATH_INLINE void multiply_whole(int n_panels, int n, size_t neg, int n_min_pairs, const struct tile_q8 *t,
                                const uint8_t *const x[COLUMN_GROUP], struct sums *s)
{
    dots total;
    start_dots(n_panels, n, neg, 0, x, total);
    for (int v = 0; v < 64; v += 8)
        add_dots(n_panels, n, v, 8, t, x, total);
    EACH(c, n)
    EACH(p, n_panels)
    finish_256(n_min_pairs, SUMS_16, &t[p], x[c], total[p][c], &s[c * PANEL_GROUP + p]);
}

/* Each sub-block's sum is multiplied by its scale. */
MATH_INLINE void multiply_scaled(int n_panels, int n, int sub, size_t neg, int n_min_pairs,
                                 const struct tile_q8 *t, const uint8_t *const x[COLUMN_GROUP], struct sums *s)
{
    dots total, dot;
    EACH(c, n) EACH(p, n_panels) total[p][c] = _mm512_setzero_si512();
    for (int j = 0; j < 256 / sub; j++) {
        start_dots(n_panels, n, neg, j, x, dot);
        add_dots(n_panels, n, j * sub / 4, sub / 4, t, x, dot);
        EACH(p, n_panels)
        {
            const __m512i scale = _mm512_load_si512(t[p].scale[j]);
            EACH(c, n)
            total[p][c] = _mm512_add_epi32(total[p][c], _mm512_mullo_epi32(dot[p][c], scale));
        }
    }
    EACH(c, n)
    EACH(p, n_panels)
    finish_256(n_min_pairs, SUMS_32, &t[p], x[c], total[p][c], &s[c * PANEL_GROUP + p]);
}

/* Q4_K: sum_j scale_j * sum_j(q x) = sum_j scale_j * sum_j((q - 8) x) + sum_j 8 scale_j * sum_j(x). The inner
 * sums are at most 32 * 8 * 127 < 2^15, so that two of them are multiplied by one vpdpwssd. */
MATH_INLINE void multiply_paired(int n_panels, int n, const struct tile_q8 *t,
                                 const uint8_t *const x[COLUMN_GROUP], struct sums *s)
{
    const size_t neg = offsetof(struct act_block_256, neg8);
    const __mmask32 even = 0x55555555;
    dots total, first, dot;
    EACH(c, n)
    EACH(p, n_panels) total[p][c] = dot_sums(4, SUMS_32, t[p].pair8, x[c], _mm512_setzero_si512());
    for (int j = 0; j < 4; j++) {
        start_dots(n_panels, n, neg, 2 * j, x, dot);
        add_dots(n_panels, n, j * 16, 8, t, x, dot);
        EACH(c, n) EACH(p, n_panels) first[p][c] = dot[p][c];
        KEEP_IN_MEMORY(first);
        KEEP_IN_MEMORY(total);
        start_dots(n_panels, n, neg, 2 * j + 1, x, dot);
        add_dots(n_panels, n, j * 16 + 8, 8, t, x, dot);
        EACH(p, n_panels)
        {
            const __m512i scales = _mm512_load_si512(t[p].pair[j]);
            EACH(c, n)
            {
                const __m512i both = _mm512_mask_mov_epi16(_mm512_slli_epi32(dot[p][c], 16), even, first[p][c]);
                total[p][c] = _mm512_dpwssd_epi32(total[p][c], both, scales);
            }
        }
    }
    EACH(c, n)
    EACH(p, n_panels)
    finish_256(4, SUMS_32, &t[p], x[c], total[p][c], &s[c * PANEL_GROUP + p]);
}

/* ---- ACT_F32 ----------------------------------------------------------------------------------- */

MATH_INLINE void multiply_floats(int n_panels, int n, const struct tile_f32 *t, int64_t k,
                                 const uint8_t *const x[COLUMN_GROUP], struct sums *s)
{
    __m512 acc[PANEL_GROUP][COLUMN_GROUP];
    EACH(c, n) EACH(p, n_panels) acc[p][c] = _mm512_load_ps(s[c * PANEL_GROUP + p].acc);
    for (int64_t i = 0; i < k; i++) {
        __m512 w[PANEL_GROUP];
        EACH(p, n_panels) w[p] = _mm512_load_ps(t[p].w[i]);
        EACH(c, n)
        {
            const __m512 v = broadcast_f32(x[c] + 4 * i);
            EACH(p, n_panels) acc[p][c] = _mm512_fmadd_ps(w[p], v, acc[p][c]);
        }
    }
    EACH(c, n) EACH(p, n_panels) _mm512_store_ps(s[c * PANEL_GROUP + p].acc, acc[p][c]);
}

/* ---- one compiled body per number of panels and columns ---------------------------------------- */

/* Calls BODY(panels, columns) for groups of 4, 2 and 1 columns, each with constant arguments. */
#define FOR_COLUMNS(panels, BODY)                                                                            \
    for (; n >= 4; n -= 4, x += 4 * stride, s += 4 * PANEL_GROUP) {                                          \
        const uint8_t *const xs[COLUMN_GROUP] = {x, x + stride, x + 2 * stride, x + 3 * stride};             \
        if (n >= 8)                                                                                          \
            for (size_t next = 4; next < 8; next++)                                                          \
                prefetch_block(x + next * stride, bytes);                                                    \
        BODY(panels, 4);                                                                                     \
    }                                                                                                        \
    if (n >= 2) {                                                                                            \
        const uint8_t *const xs[COLUMN_GROUP] = {x, x + stride};                                             \
        BODY(panels, 2);                                                                                     \
        n -= 2, x += 2 * stride, s += 2 * PANEL_GROUP;                                                       \
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
        if (n_panels == 4) {                                                                                 \
            FOR_COLUMNS(4, BODY)                                                                             \
        } else if (n_panels == 2) {                                                                          \
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
#define BODY_Q2_K(p, n) multiply_whole(p, n, NO_OFFSET, 8, t, xs, s)
#define BODY_Q3_K(p, n) multiply_whole(p, n, AT_256(neg124), 0, t, xs, s)
#define BODY_Q4_K(p, n) multiply_paired(p, n, t, xs, s)
#define BODY_Q5_K(p, n) multiply_scaled(p, n, 32, NO_OFFSET, 4, t, xs, s)
#define BODY_Q6_K(p, n) multiply_scaled(p, n, 16, AT_256(neg32), 0, t, xs, s)
#define BODY_F32(p, n) multiply_floats(p, n, t, k, xs, s)

MULTIPLY(multiply_q4_0, struct tile_q8, 384, BODY_Q4_0)
MULTIPLY(multiply_q5_0, struct tile_q8, 384, BODY_Q5_0)
MULTIPLY(multiply_q8_0, struct tile_q8, 448, BODY_Q8_0)
MULTIPLY(multiply_q45_1, struct tile_q8, 320, BODY_Q45_1)
MULTIPLY(multiply_q2_k, struct tile_q8, 448, BODY_Q2_K)
MULTIPLY(multiply_q3_k, struct tile_q8, 448, BODY_Q3_K)
MULTIPLY(multiply_q4_k, struct tile_q8, 448, BODY_Q4_K)
MULTIPLY(multiply_q5_k, struct tile_q8, 448, BODY_Q5_K)
MULTIPLY(multiply_q6_k, struct tile_q8, 448, BODY_Q6_K)
MULTIPLY(multiply_f32, struct tile_f32, (size_t)k * 4, BODY_F32)
