/* Dot products of panels and columns in registers, and what is done with a block's when it is complete: shared by the
 * kernels that multiply tiles (multiply_avx512.c) and packed panels (few_avx512.c). */
#ifndef HASTEN_KERNELS_X86_DOTS_AVX512_H
#define HASTEN_KERNELS_X86_DOTS_AVX512_H
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

/* Loops over registers vanish; not under sanitizers, which would instrument every copy for minutes. */
#if defined(HASTEN_SANITIZED)
#define EACH(i, n) for (int i = 0; i < (n); i++)
#else
#define EACH(i, n) _Pragma("GCC unroll 8") for (int i = 0; i < (n); i++)
#endif

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

/* ---- ACT_Q8_32 --------------------------------------------------------------------------------- */

/* old, here and below: 0 where sums begin with these values of k, else all ones. */

/* acc2 += m d_x sum(q_x), for all blocks of one column. */
MATH_INLINE void multiply_mins_32(int n_panels, int n_blocks, const struct tile_q8 *t, const uint8_t *x,
                                  __mmask16 old, struct sums *s)
{
    __m512 acc2[PANEL_GROUP];
    EACH(p, n_panels) acc2[p] = _mm512_maskz_load_ps(old, s[p].acc2);
    for (int b = 0; b < n_blocks; b++) {
        const __m512 ds = broadcast_f32(x + offsetof(struct act_block_32, ds) + 4 * b);
        EACH(p, n_panels) acc2[p] = _mm512_fmadd_ps(_mm512_load_ps(t[p].m[b]), ds, acc2[p]);
    }
    EACH(p, n_panels) _mm512_store_ps(s[p].acc2, acc2[p]);
}

/* acc += d d_x dot */
MATH_INLINE void fold_32(int n_panels, int n, int b, const struct tile_q8 *t,
                         const uint8_t *const x[COLUMN_GROUP], dots dot,
                         __m512 acc[PANEL_GROUP][COLUMN_GROUP])
{
    EACH(c, n)
    {
        const __m512 dx = broadcast_f32(x[c] + offsetof(struct act_block_32, d) + 4 * b);
        EACH(p, n_panels)
        acc[p][c] = _mm512_fmadd_ps(_mm512_mul_ps(_mm512_load_ps(t[p].d[b]), dx),
                                    _mm512_cvtepi32_ps(dot[p][c]), acc[p][c]);
    }
}

/* ---- ACT_Q8_256 -------------------------------------------------------------------------------- */

#define SUMS_16 offsetof(struct act_block_256, sum16)
#define SUMS_32 offsetof(struct act_block_256, sum32)

/* acc += d d_x total; acc2 += dmin d_x * sum of mins times sums of activations. n_min_pairs: pairs of mins, whose
 * sums of activations stand at byte offset sums. paired: 8 * scale times these sums is part of total. */
MATH_INLINE void finish_256(int n_panels, int n, int n_min_pairs, size_t sums, bool paired,
                            const struct tile_q8 *t, const uint8_t *const x[COLUMN_GROUP], dots total,
                            __mmask16 old, struct sums *s)
{
    EACH(c, n)
    {
        const __m512 dx = broadcast_f32(x[c] + offsetof(struct act_block_256, d));
        __m512i min[PANEL_GROUP];
        EACH(p, n_panels) min[p] = _mm512_setzero_si512();
        EACH(j, n_min_pairs)
        {
            const __m512i sum = broadcast_i32(x[c] + sums + 4 * j);
            EACH(p, n_panels)
            {
                min[p] = _mm512_dpwssd_epi32(min[p], _mm512_load_si512(t[p].min[j]), sum);
                if (paired)
                    total[p][c] = _mm512_dpwssd_epi32(total[p][c], _mm512_load_si512(t[p].pair8[j]), sum);
            }
        }
        EACH(p, n_panels)
        {
            struct sums *to = &s[c * PANEL_GROUP + p];
            const __m512 d = _mm512_mul_ps(_mm512_load_ps(t[p].d[0]), dx);
            _mm512_store_ps(to->acc, _mm512_fmadd_ps(d, _mm512_cvtepi32_ps(total[p][c]),
                                                     _mm512_maskz_load_ps(old, to->acc)));
            if (n_min_pairs) {
                const __m512 dmin = _mm512_mul_ps(_mm512_load_ps(t[p].m[0]), dx);
                _mm512_store_ps(to->acc2, _mm512_fmadd_ps(dmin, _mm512_cvtepi32_ps(min[p]),
                                                          _mm512_maskz_load_ps(old, to->acc2)));
            }
        }
    }
}

/* Where totals begin: at 0, or with n_pairs pairs of mins times the sums of activations at byte offset sums, which
 * takes off what the quants are too high. */
MATH_INLINE void start_totals(int n_panels, int n, int n_pairs, size_t sums, const struct tile_q8 *t,
                              const uint8_t *const x[COLUMN_GROUP], dots total)
{
    EACH(c, n) EACH(p, n_panels) total[p][c] = _mm512_setzero_si512();
    EACH(j, n_pairs)
    {
        __m512i min[PANEL_GROUP];
        EACH(p, n_panels) min[p] = _mm512_load_si512(t[p].min[j]);
        EACH(c, n)
        {
            const __m512i sum = broadcast_i32(x[c] + sums + 4 * j);
            EACH(p, n_panels) total[p][c] = _mm512_dpwssd_epi32(total[p][c], min[p], sum);
        }
    }
}

/* total += scales of sub-blocks 2 j and 2 j + 1 times their sums, which fit 16 bits: both by one vpdpwssd.
 * Without a bound of the activations, those of Q4_K do around 8: sum_j scale_j * sum_j(q x) = sum_j scale_j *
 * sum_j((q - 8) x) + sum_j 8 scale_j * sum_j(x), the inner sums at most 32 * 8 * 127 < 2^15. */
MATH_INLINE void add_paired(int n_panels, int n, int j, const struct tile_q8 *t, dots first, dots second,
                            dots total)
{
    const __m512i low_to_high = _mm512_set4_epi32(0x0d0cffff, 0x0908ffff, 0x0504ffff, 0x0100ffff);
    EACH(p, n_panels)
    {
        const __m512i scales = _mm512_load_si512(t[p].pair[j]);
        EACH(c, n)
        {
            const __m512i both =
                _mm512_mask_shuffle_epi8(first[p][c], 0xcccccccccccccccc, second[p][c], low_to_high);
            total[p][c] = _mm512_dpwssd_epi32(total[p][c], both, scales);
        }
    }
}

#endif
