/* Tiles times columns: up to 32 rows x 4 activation rows at once, two sub-blocks of k side by side: 16 int32 sums
 * in registers hide the latency of vpdpbusd. For each output the operations are those of kernels.h in the same
 * order, whatever the number of columns: int32 within a block, then one fma.
 *
 * The offset of unsigned quants costs nothing: the int32 sums of a block begin at -offset * sum(q_x), which
 * act_make has left beside the activations. Sub-block scales cost what the format allows: multiplied into the
 * quants where the products fit a byte (Q2_K, Q3_K: unpack does it); two at a time with vpdpwssd where the sums
 * of sub-blocks fit 16 bits (always in IQ3_S, around its middle 8; in Q4_K, Q5_K and Q6_K unless activations are
 * large all over a sub-block); a multiplication each otherwise. */
#include "kernels/x86/dots_avx512.h"

#define NEG_32(field) offsetof(struct act_block_32, field)
#define AT_256(field) offsetof(struct act_block_256, field)

/* dot += products of the 4 values of k of vector v. */
MATH_INLINE void add_vector(int n_panels, int n, int v, const struct tile_q8 *t,
                            const uint8_t *const x[COLUMN_GROUP], dots dot)
{
    __m512i w[PANEL_GROUP];
    EACH(p, n_panels) w[p] = _mm512_load_si512(t[p].q[v]);
    EACH(c, n)
    {
        const __m512i xv = broadcast_i32(x[c] + 4 * v);
        EACH(p, n_panels) dot[p][c] = _mm512_dpbusd_epi32(dot[p][c], w[p], xv);
    }
}

/* Brings 64 bytes of the next group of columns nearer, from byte `at` of the block on: a few lines at a time while
 * others are multiplied, as many at once would wait for each other. next: from this group to that one, or 0. */
MATH_INLINE void prefetch_line(int n, size_t at, const uint8_t *const x[COLUMN_GROUP], size_t next)
{
    EACH(c, n) _mm_prefetch((const char *)x[c] + next + at, _MM_HINT_T0);
}

/* The same of what stands beside the quants: the lines of bytes at and neg (unless NO_OFFSET). */
MATH_INLINE void prefetch_rest(int n, size_t at, size_t neg, const uint8_t *const x[COLUMN_GROUP],
                               size_t next)
{
    prefetch_line(n, at, x, next);
    if (neg != NO_OFFSET && neg / 64 != at / 64)
        prefetch_line(n, neg, x, next);
}

/* The sums of sub-block j of n_vec vectors, and side by side with them those of the next one. */
MATH_INLINE void two_dots(int n_panels, int n, size_t neg, int j, int n_vec, const struct tile_q8 *t,
                          const uint8_t *const x[COLUMN_GROUP], size_t next, dots first, dots second)
{
    start_dots(n_panels, n, neg, j, x, first);
    start_dots(n_panels, n, neg, j + 1, x, second);
    for (int at = 4 * j * n_vec; at < 4 * (j + 2) * n_vec; at += 64)
        if (at % 64 == 0)
            prefetch_line(n, (size_t)at, x, next);
    EACH(i, n_vec)
    {
        add_vector(n_panels, n, j * n_vec + i, t, x, first);
        add_vector(n_panels, n, (j + 1) * n_vec + i, t, x, second);
    }
}

/* ---- ACT_Q8_32 --------------------------------------------------------------------------------- */

MATH_INLINE void multiply_32(int n_panels, int n, size_t neg, bool mins, const struct tile_q8 *t, int64_t k,
                             const uint8_t *const x[COLUMN_GROUP], __mmask16 old, size_t next, struct sums *s)
{
    const int n_blocks = (int)(k / 32);
    __m512 acc[PANEL_GROUP][COLUMN_GROUP];
    dots first, second;
    int b = 0;
    prefetch_rest(n, NEG_32(d), neg, x, next);
    EACH(c, n) EACH(p, n_panels) acc[p][c] = _mm512_maskz_load_ps(old, s[c * PANEL_GROUP + p].acc);
    for (; b + 2 <= n_blocks; b += 2) {
        two_dots(n_panels, n, neg, b, 8, t, x, next, first, second);
        fold_32(n_panels, n, b, t, x, first, acc);
        fold_32(n_panels, n, b + 1, t, x, second, acc);
    }
    if (b < n_blocks) {
        start_dots(n_panels, n, neg, b, x, first);
        EACH(i, 8) add_vector(n_panels, n, b * 8 + i, t, x, first);
        fold_32(n_panels, n, b, t, x, first, acc);
    }
    EACH(c, n) EACH(p, n_panels) _mm512_store_ps(s[c * PANEL_GROUP + p].acc, acc[p][c]);
    if (mins)
        EACH(c, n) multiply_mins_32(n_panels, n_blocks, t, x[c], old, &s[c * PANEL_GROUP]);
}

/* acc += d d_x dot with a scale of each half of a block: d of the first, m of the second. */
MATH_INLINE void fold_half(int n_panels, int n, int half, int b, const struct tile_q8 *t,
                           const uint8_t *const x[COLUMN_GROUP], dots dot,
                           __m512 acc[PANEL_GROUP][COLUMN_GROUP])
{
    EACH(c, n)
    {
        const __m512 dx = broadcast_f32(x[c] + offsetof(struct act_block_32, d) + 4 * b);
        EACH(p, n_panels)
        acc[p][c] = _mm512_fmadd_ps(_mm512_mul_ps(_mm512_load_ps(half ? t[p].m[b] : t[p].d[b]), dx),
                                    _mm512_cvtepi32_ps(dot[p][c]), acc[p][c]);
    }
}

/* NVFP4: quants are 12 too high. */
MATH_INLINE void multiply_halves(int n_panels, int n, const struct tile_q8 *t, int64_t k,
                                 const uint8_t *const x[COLUMN_GROUP], __mmask16 old, size_t next,
                                 struct sums *s)
{
    __m512 acc[PANEL_GROUP][COLUMN_GROUP];
    EACH(c, n) EACH(p, n_panels) acc[p][c] = _mm512_maskz_load_ps(old, s[c * PANEL_GROUP + p].acc);
    prefetch_rest(n, NEG_32(d), NEG_32(neg12), x, next);
    for (int b = 0; b < (int)(k / 32); b++) {
        dots dot[2];
        if (b % 2 == 0)
            prefetch_line(n, 32 * (size_t)b, x, next);
        EACH(c, n)
        {
            const struct act_block_32 *a = (const struct act_block_32 *)(const void *)x[c];
            EACH(h, 2) EACH(p, n_panels) dot[h][p][c] = _mm512_set1_epi32(a->neg12[2 * b + h]);
        }
        EACH(i, 4) EACH(h, 2) add_vector(n_panels, n, 8 * b + 4 * h + i, t, x, dot[h]);
        EACH(h, 2) fold_half(n_panels, n, h, b, t, x, dot[h], acc);
    }
    EACH(c, n) EACH(p, n_panels) _mm512_store_ps(s[c * PANEL_GROUP + p].acc, acc[p][c]);
}

/* ---- ACT_Q8_256 -------------------------------------------------------------------------------- */

/* Scales are part of the quants. */
MATH_INLINE void multiply_whole(int n_panels, int n, size_t neg, int n_min_pairs, const struct tile_q8 *t,
                                const uint8_t *const x[COLUMN_GROUP], __mmask16 old, size_t next,
                                struct sums *s)
{
    dots first, second;
    prefetch_rest(n, AT_256(d), n_min_pairs ? SUMS_16 : neg, x, next);
    start_dots(n_panels, n, neg, 0, x, first);
    start_dots(n_panels, n, NO_OFFSET, 0, x, second);
    for (int v = 0; v < 64; v += 4) {
        if (v % 16 == 0)
            prefetch_line(n, 4 * (size_t)v, x, next);
        add_vector(n_panels, n, v, t, x, first);
        add_vector(n_panels, n, v + 1, t, x, second);
        add_vector(n_panels, n, v + 2, t, x, first);
        add_vector(n_panels, n, v + 3, t, x, second);
    }
    EACH(c, n) EACH(p, n_panels) first[p][c] = _mm512_add_epi32(first[p][c], second[p][c]);
    finish_256(n_panels, n, n_min_pairs, SUMS_16, false, t, x, first, old, s);
}

/* IQ1: quants times scales, which are odd, as 2 u - 135. */
MATH_INLINE void multiply_doubled(int n_panels, int n, const struct tile_q8 *t,
                                  const uint8_t *const x[COLUMN_GROUP], __mmask16 old, size_t next,
                                  struct sums *s)
{
    dots total, first, second;
    prefetch_rest(n, AT_256(d), NO_OFFSET, x, next);
    start_totals(n_panels, n, 4, SUMS_32, t, x, total);
    two_dots(n_panels, n, NO_OFFSET, 0, 32, t, x, next, first, second);
    EACH(c, n)
    EACH(p, n_panels)
    total[p][c] =
        _mm512_add_epi32(total[p][c], _mm512_slli_epi32(_mm512_add_epi32(first[p][c], second[p][c]), 1));
    finish_256(n_panels, n, 0, SUMS_32, false, t, x, total, old, s);
}

/* IQ types: each sub-block's sum is multiplied by its scale; the offset is taken off by mins (start_totals). */
MATH_INLINE void multiply_scaled(int n_panels, int n, int sub, const struct tile_q8 *t,
                                 const uint8_t *const x[COLUMN_GROUP], __mmask16 old, size_t next,
                                 struct sums *s)
{
    dots total, first, second;
    prefetch_rest(n, AT_256(d), sub == 16 ? SUMS_16 : NO_OFFSET, x, next);
    start_totals(n_panels, n, 128 / sub, sub == 16 ? SUMS_16 : SUMS_32, t, x, total);
    for (int j = 0; j < 256 / sub; j += 2) {
        two_dots(n_panels, n, NO_OFFSET, j, sub / 4, t, x, next, first, second);
        EACH(p, n_panels)
        {
            const __m512i s0 = _mm512_load_si512(t[p].scale[j]), s1 = _mm512_load_si512(t[p].scale[j + 1]);
            EACH(c, n)
            {
                total[p][c] = _mm512_add_epi32(total[p][c], _mm512_mullo_epi32(first[p][c], s0));
                total[p][c] = _mm512_add_epi32(total[p][c], _mm512_mullo_epi32(second[p][c], s1));
            }
        }
    }
    finish_256(n_panels, n, 0, SUMS_32, false, t, x, total, old, s);
}

/* What makes the scales of two sub-blocks one multiplication: their sums fit 16 bits where the activations are not
 * large all over a sub-block, which their bound (layout.h) says; else each is multiplied alone. */
struct fits {
    size_t bound; /* offset of the bound of a block */
    int32_t most; /* largest that it may be */
};

MATH_INLINE bool all_fit(int n, struct fits fits, const uint8_t *const x[COLUMN_GROUP])
{
    bool all = true;
    EACH(c, n)
    {
        int32_t bound;
        memcpy(&bound, x[c] + fits.bound, sizeof bound);
        all &= bound <= fits.most;
    }
    return all;
}

/* total += scales of sub-blocks 2 j and 2 j + 1 times their sums, of any size. */
MATH_INLINE void add_both(int n_panels, int n, int j, const struct tile_q8 *t, dots first, dots second,
                          dots total)
{
    EACH(p, n_panels)
    {
        const __m512i pair = _mm512_load_si512(t[p].pair[j]);
        const __m512i s0 = _mm512_srai_epi32(_mm512_slli_epi32(pair, 16), 16),
                      s1 = _mm512_srai_epi32(pair, 16);
        EACH(c, n)
        {
            total[p][c] = _mm512_add_epi32(total[p][c], _mm512_mullo_epi32(first[p][c], s0));
            total[p][c] = _mm512_add_epi32(total[p][c], _mm512_mullo_epi32(second[p][c], s1));
        }
    }
}

/* Q4_K, Q5_K, Q6_K. */
MATH_INLINE void multiply_pairs(int n_panels, int n, int sub, size_t neg, int n_min_pairs, struct fits fits,
                                const struct tile_q8 *t, const uint8_t *const x[COLUMN_GROUP], __mmask16 old,
                                size_t next, struct sums *s)
{
    dots total, first, second;
    EACH(c, n) EACH(p, n_panels) total[p][c] = _mm512_setzero_si512();
    prefetch_rest(n, AT_256(d), neg, x, next);
    if (all_fit(n, fits, x)) {
        for (int j = 0; j < 128 / sub; j++) {
            two_dots(n_panels, n, neg, 2 * j, sub / 4, t, x, next, first, second);
            add_paired(n_panels, n, j, t, first, second, total);
        }
    } else {
        for (int j = 0; j < 128 / sub; j++) {
            two_dots(n_panels, n, neg, 2 * j, sub / 4, t, x, next, first, second);
            add_both(n_panels, n, j, t, first, second, total);
        }
    }
    finish_256(n_panels, n, n_min_pairs, SUMS_32, false, t, x, total, old, s);
}

/* IQ3_S: quants 8 too high, the scales two at a time. */
MATH_INLINE void multiply_around_8(int n_panels, int n, const struct tile_q8 *t,
                                   const uint8_t *const x[COLUMN_GROUP], __mmask16 old, size_t next,
                                   struct sums *s)
{
    const size_t neg = offsetof(struct act_block_256, neg8);
    dots total, first, second;
    prefetch_rest(n, AT_256(d), neg, x, next);
    EACH(c, n) EACH(p, n_panels) total[p][c] = _mm512_setzero_si512();
    for (int j = 0; j < 4; j++) {
        two_dots(n_panels, n, neg, 2 * j, 8, t, x, next, first, second);
        add_paired(n_panels, n, j, t, first, second, total);
    }
    finish_256(n_panels, n, 4, SUMS_32, true, t, x, total, old, s);
}

/* ---- ACT_F32 ----------------------------------------------------------------------------------- */

#define FLOAT_COLUMNS 8 /* together: a sum is one chain of fused multiply-adds, 16 of them fill the pipes */

MATH_INLINE void multiply_floats(int n_panels, int n, const struct tile_f32 *t, int64_t k,
                                 const uint8_t *const x[FLOAT_COLUMNS], __mmask16 old, size_t next,
                                 struct sums *s)
{
    __m512 acc[PANEL_GROUP][FLOAT_COLUMNS];
    EACH(c, n) EACH(p, n_panels) acc[p][c] = _mm512_maskz_load_ps(old, s[c * PANEL_GROUP + p].acc);
    EACH(c, n) prefetch_block(x[c] + next, (size_t)k * sizeof(float));
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

/* All tiles of one group of columns. Bodies see t, tile_k (the values of k in the tile),
 * xs, s, and old: which lanes of s hold something. */
#define FOR_TILES(panels, columns, BODY)                                                                     \
    do {                                                                                                     \
        __mmask16 old = begin ? 0 : 0xffff;                                                                  \
        const uint8_t *xs[FLOAT_COLUMNS];                                                                    \
        for (int c = 0; c < columns; c++)                                                                    \
            xs[c] = x + (size_t)c * stride;                                                                  \
        for (int64_t left = k; left > 0; left -= TILE_OF_K, t += PANEL_GROUP) {                              \
            const int64_t tile_k = left < TILE_OF_K ? left : TILE_OF_K;                                      \
            const size_t next = n >= 2 * columns ? columns * stride : 0;                                     \
            BODY(panels, columns);                                                                           \
            old = 0xffff;                                                                                    \
            for (int c = 0; c < columns; c++)                                                                \
                xs[c] += TILE_STEP_OF_X;                                                                     \
            (void)tile_k;                                                                                    \
        }                                                                                                    \
        n -= columns, x += columns * stride, s += columns * PANEL_GROUP, t = tiles;                          \
    } while (0)

/* Groups of 4, 2 and 1 columns, each with constant arguments. */
#define FOR_COLUMNS(panels, BODY)                                                                            \
    while (n >= 4)                                                                                           \
        FOR_TILES(panels, 4, BODY);                                                                          \
    if (n >= 2)                                                                                              \
        FOR_TILES(panels, 2, BODY);                                                                          \
    if (n >= 1)                                                                                              \
        FOR_TILES(panels, 1, BODY);

/* first: columns of the groups that come first. */
#define MULTIPLY(name, tile_type, first, BODY)                                                               \
    DECLARE_MULTIPLY(name)                                                                                   \
    {                                                                                                        \
        const tile_type *t = tiles;                                                                          \
        if (n_panels == 2) {                                                                                 \
            while (n >= first)                                                                               \
                FOR_TILES(2, first, BODY);                                                                   \
            FOR_COLUMNS(2, BODY)                                                                             \
        } else {                                                                                             \
            FOR_COLUMNS(1, BODY)                                                                             \
        }                                                                                                    \
    }

/* 32767 by the largest quant: 15; 31; 32 either way. */
#define FITS_Q4_K ((struct fits){AT_256(most32), 2184})
#define FITS_Q5_K ((struct fits){AT_256(most32), 1057})
#define FITS_Q6_K ((struct fits){AT_256(most16), 1023})

#define BODY_Q4_0(p, n) multiply_32(p, n, NEG_32(neg8), false, t, tile_k, xs, old, next, s)
#define BODY_Q5_0(p, n) multiply_32(p, n, NEG_32(neg16), false, t, tile_k, xs, old, next, s)
#define BODY_Q8_0(p, n) multiply_32(p, n, NEG_32(neg128), false, t, tile_k, xs, old, next, s)
#define BODY_Q45_1(p, n) multiply_32(p, n, NO_OFFSET, true, t, tile_k, xs, old, next, s)
#define BODY_Q2_K(p, n) multiply_whole(p, n, NO_OFFSET, 8, t, xs, old, next, s)
#define BODY_Q3_K(p, n) multiply_whole(p, n, AT_256(neg124), 0, t, xs, old, next, s)
#define BODY_Q4_K(p, n) multiply_pairs(p, n, 32, NO_OFFSET, 4, FITS_Q4_K, t, xs, old, next, s)
#define BODY_Q5_K(p, n) multiply_pairs(p, n, 32, NO_OFFSET, 4, FITS_Q5_K, t, xs, old, next, s)
#define BODY_Q6_K(p, n) multiply_pairs(p, n, 16, AT_256(neg32), 0, FITS_Q6_K, t, xs, old, next, s)
#define BODY_NVFP4(p, n) multiply_halves(p, n, t, tile_k, xs, old, next, s)
#define BODY_IQ3_S(p, n) multiply_around_8(p, n, t, xs, old, next, s)
#define BODY_IQ_32(p, n) multiply_scaled(p, n, 32, t, xs, old, next, s)
#define BODY_IQ_16(p, n) multiply_scaled(p, n, 16, t, xs, old, next, s)
#define BODY_IQ1(p, n) multiply_doubled(p, n, t, xs, old, next, s)
#define BODY_F32(p, n) multiply_floats(p, n, t, tile_k, xs, old, next, s)

#define TILE_OF_K TILE_K
#define TILE_STEP_OF_X ACT_BLOCK_BYTES
MULTIPLY(multiply_q4_0, struct tile_q8, COLUMN_GROUP, BODY_Q4_0)
MULTIPLY(multiply_q5_0, struct tile_q8, COLUMN_GROUP, BODY_Q5_0)
MULTIPLY(multiply_q8_0, struct tile_q8, COLUMN_GROUP, BODY_Q8_0)
MULTIPLY(multiply_q45_1, struct tile_q8, COLUMN_GROUP, BODY_Q45_1)
MULTIPLY(multiply_q2_k, struct tile_q8, COLUMN_GROUP, BODY_Q2_K)
MULTIPLY(multiply_q3_k, struct tile_q8, COLUMN_GROUP, BODY_Q3_K)
MULTIPLY(multiply_q4_k, struct tile_q8, COLUMN_GROUP, BODY_Q4_K)
MULTIPLY(multiply_q5_k, struct tile_q8, COLUMN_GROUP, BODY_Q5_K)
MULTIPLY(multiply_q6_k, struct tile_q8, COLUMN_GROUP, BODY_Q6_K)
MULTIPLY(multiply_nvfp4, struct tile_q8, COLUMN_GROUP, BODY_NVFP4)
MULTIPLY(multiply_iq3_s, struct tile_q8, COLUMN_GROUP, BODY_IQ3_S)
MULTIPLY(multiply_iq_32, struct tile_q8, COLUMN_GROUP, BODY_IQ_32)
MULTIPLY(multiply_iq_16, struct tile_q8, COLUMN_GROUP, BODY_IQ_16)
MULTIPLY(multiply_iq1, struct tile_q8, COLUMN_GROUP, BODY_IQ1)

#undef TILE_OF_K
#undef TILE_STEP_OF_X
#define TILE_OF_K TILE_K_F32
#define TILE_STEP_OF_X ((size_t)TILE_K_F32 * sizeof(float))
MULTIPLY(multiply_f32, struct tile_f32, FLOAT_COLUMNS, BODY_F32)
