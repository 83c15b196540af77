/* Few columns times packed panels of the codebook, ternary and four-bit float types: as few_avx512.c. For each output the
 * operations are those of multiply_avx512.c in the same order; within a block all is integers, so that these may be
 * summed as suits: sums need no offset where quants are digits (TQ), and shifted ones are shifted back in sums. */
#include "kernels/x86/few_avx512.h"
#include "kernels/x86/words_iq_avx512.h"

/* ---- nibbles ------------------------------------------------------------------------------------- */

/* Word w: the values of its low and of its high nibbles. */
MATH_INLINE void take_nibbles(int n_panels, __m512i values, int64_t w, const struct few *f,
                              __m512i low[PANEL_GROUP], __m512i up[PANEL_GROUP])
{
    EACH(p, n_panels)
    {
        const __m512i v = take(f, p, w);
        low[p] = _mm512_shuffle_epi8(values, low_nibbles(v));
        up[p] = _mm512_shuffle_epi8(values, high_nibbles(v));
    }
}

MATH_INLINE void add_both(int n_panels, int n, dots first, dots second)
{
    EACH(c, n) EACH(p, n_panels) first[p][c] = _mm512_add_epi32(first[p][c], second[p][c]);
}

/* d of block b, behind the words of all blocks: f16, or exponents in bytes. */
MATH_INLINE __m512 take_scales(const struct few *f, int p, int n_blocks, int b, bool exponents)
{
    const uint8_t *at = panel_at(f, p) + n_blocks * 4 * 64 + b * (exponents ? 1 : 2) * PANEL_ROWS;
    ask(f, at);
    return exponents ? halves_of_e8m0(load_bytes(at)) : load_f16(at);
}

MATH_INLINE void few_values(int n_panels, int n, __m512i values, size_t neg, bool exponents,
                            const struct few *f, int64_t k)
{
    const int n_blocks = (int)(k / 32);
    float_sums acc;
    load_sums(n_panels, n, f, acc);
    for (int b = 0; b < n_blocks; b++) {
        dots first, second;
        start_dots(n_panels, n, neg, b, f->x, first);
        start_dots(n_panels, n, NO_OFFSET, 0, f->x, second);
        EACH(j, 4)
        {
            __m512i low[PANEL_GROUP], up[PANEL_GROUP];
            take_nibbles(n_panels, values, b * 4 + j, f, low, up);
            add_dots(n_panels, n, b * 8 + j, low, f, first);
            add_dots(n_panels, n, b * 8 + j + 4, up, f, second);
        }
        add_both(n_panels, n, first, second);
        EACH(p, n_panels) _mm512_store_ps(f->t[p].d[b], take_scales(f, p, n_blocks, b, exponents));
        fold_32(n_panels, n, b, f->t, f->x, first, acc);
    }
    store_sums(n_panels, n, f, acc);
}

MATH_INLINE void few_iq4_xs(int n_panels, int n, const struct few *f, int64_t k)
{
    const __m512i values = sixteen(iq4_values, 128);
    dots total, dot[2];
    (void)k;
    EACH(p, n_panels) store_head_iq4_xs(&f->t[p], take(f, p, 0), take(f, p, 1));
    start_totals(n_panels, n, 4, SUMS_32, f->t, f->x, total);
    for (int j = 0; j < 8; j += 2) {
        EACH(h, 2) start_dots(n_panels, n, NO_OFFSET, 0, f->x, dot[h]);
        EACH(i, 4) EACH(h, 2)
        {
            __m512i low[PANEL_GROUP], up[PANEL_GROUP];
            take_nibbles(n_panels, values, 2 + (j + h) * 4 + i, f, low, up);
            add_dots(n_panels, n, (j + h) * 8 + i, low, f, dot[h]);
            add_dots(n_panels, n, (j + h) * 8 + 4 + i, up, f, dot[h]);
        }
        EACH(h, 2) add_scaled(n_panels, n, j + h, f, dot[h], total);
    }
    finish_256(n_panels, n, 0, SUMS_32, false, f->t, f->x, total, f->old, f->s);
}

/* acc += d d_x dot of half h of a 32-block, whose scale is byte `byte` of each word. */
MATH_INLINE void fold_nvfp4(int n_panels, int n, const __m512i scales[PANEL_GROUP], unsigned byte, int b,
                            const struct few *f, dots dot, float_sums acc)
{
    __m512 d[PANEL_GROUP];
    EACH(p, n_panels) d[p] = halves_of_ue4m3(bytes_of(scales[p], 8 * byte, 255));
    EACH(c, n)
    {
        const __m512 dx = broadcast_f32(f->x[c] + offsetof(struct act_block_32, d) + 4 * b);
        EACH(p, n_panels)
        acc[p][c] = _mm512_fmadd_ps(_mm512_mul_ps(d[p], dx), _mm512_cvtepi32_ps(dot[p][c]), acc[p][c]);
    }
}

/* Blocks of 64: four scales, then four times 16 elements in two words. */
MATH_INLINE void few_nvfp4(int n_panels, int n, const struct few *f, int64_t k)
{
    const __m512i values = sixteen(e2m1_values, 12);
    float_sums acc;
    load_sums(n_panels, n, f, acc);
    for (int b = 0; b < (int)(k / 64); b++) {
        __m512i scales[PANEL_GROUP];
        EACH(p, n_panels) scales[p] = take(f, p, 9 * b);
        EACH(q, 4)
        {
            dots dot;
            EACH(c, n)
            {
                const struct act_block_32 *a = (const struct act_block_32 *)(const void *)f->x[c];
                EACH(p, n_panels) dot[p][c] = _mm512_set1_epi32(a->neg12[4 * b + q]);
            }
            EACH(i, 2)
            {
                __m512i low[PANEL_GROUP], up[PANEL_GROUP];
                take_nibbles(n_panels, values, 9 * b + 1 + 2 * q + i, f, low, up);
                add_dots(n_panels, n, 16 * b + 4 * q + i, low, f, dot);
                add_dots(n_panels, n, 16 * b + 4 * q + 2 + i, up, f, dot);
            }
            fold_nvfp4(n_panels, n, scales, (unsigned)q, 2 * b + q / 2, f, dot, acc);
        }
    }
    store_sums(n_panels, n, f, acc);
}

/* ---- ternary digits ------------------------------------------------------------------------------ */

/* Digits are 0 to 2 and mean -1 to 1. total: their dot products. */
MATH_INLINE void finish_digits(int n_panels, int n, int64_t word_of_d, const struct few *f, dots total)
{
    const __m512i minus = _mm512_set1_epi32(-1); /* two of 16 bits */
    EACH(p, n_panels) _mm512_store_ps(f->t[p].d[0], take_d(f, p, word_of_d));
    EACH(c, n) EACH(j, 4)
    {
        const __m512i sum = broadcast_i32(f->x[c] + SUMS_32 + 4 * j);
        EACH(p, n_panels) total[p][c] = _mm512_dpwssd_epi32(total[p][c], minus, sum);
    }
    finish_256(n_panels, n, 0, SUMS_32, false, f->t, f->x, total, f->old, f->s);
}

MATH_INLINE void few_tq1_0(int n_panels, int n, const struct few *f, int64_t k)
{
    dots dot[2];
    (void)k;
    EACH(h, 2) zero_dots(n_panels, n, dot[h]);
    UNROLL for (int i = 0; i < 13; i++)
    {
        const int to = i < 8 ? i : i < 12 ? 32 + i : 60, step = i < 8 ? 8 : i < 12 ? 4 : 1;
        __m512i v[PANEL_GROUP], digit[PANEL_GROUP];
        EACH(p, n_panels) v[p] = take(f, p, i);
        for (int j = 0; j < (i < 12 ? 5 : 4); j++) {
            EACH(p, n_panels) digit[p] = next_digit(&v[p], 0);
            add_dots(n_panels, n, to + step * j, digit, f, dot[j % 2]);
        }
    }
    add_both(n_panels, n, dot[0], dot[1]);
    finish_digits(n_panels, n, 13, f, dot[0]);
}

/* Two columns at most: the four digits of a byte stay where they are, and have sums of their own. */
MATH_INLINE void few_tq2_0_shifted(int n_panels, int n, const struct few *f, dots total)
{
    dots dot[4];
    EACH(g, 4) zero_dots(n_panels, n, dot[g]);
    EACH(part, 4) EACH(j, 4)
    {
        __m512i v[PANEL_GROUP], digit[PANEL_GROUP];
        EACH(p, n_panels) v[p] = take(f, p, part * 4 + j);
        EACH(g, 4)
        {
            EACH(p, n_panels) digit[p] = _mm512_and_si512(v[p], _mm512_set1_epi8((char)(3 << 2 * g)));
            add_dots(n_panels, n, part / 2 * 32 + g * 8 + part % 2 * 4 + j, digit, f, dot[g]);
        }
    }
    EACH(c, n) EACH(p, n_panels)
    {
        total[p][c] = dot[0][p][c];
        for (unsigned g = 1; g < 4; g++)
            total[p][c] = _mm512_add_epi32(total[p][c], _mm512_srai_epi32(dot[g][p][c], 2 * g));
    }
}

MATH_INLINE void few_tq2_0(int n_panels, int n, const struct few *f, int64_t k)
{
    dots dot[2];
    (void)k;
    if (n <= 2) {
        few_tq2_0_shifted(n_panels, n, f, dot[0]);
    } else {
        EACH(h, 2) zero_dots(n_panels, n, dot[h]);
        EACH(part, 4) EACH(j, 4)
        {
            __m512i v[PANEL_GROUP], digit[PANEL_GROUP];
            EACH(p, n_panels) v[p] = take(f, p, part * 4 + j);
            EACH(g, 4)
            {
                EACH(p, n_panels) digit[p] = two_bits(v[p], g);
                add_dots(n_panels, n, part / 2 * 32 + g * 8 + part % 2 * 4 + j, digit, f, dot[g % 2]);
            }
        }
        add_both(n_panels, n, dot[0], dot[1]);
    }
    finish_digits(n_panels, n, 16, f, dot[0]);
}

#define AT_32(field) offsetof(struct act_block_32, field)
#define BODY_IQ4_NL(p, n, f, k) few_values(p, n, sixteen(iq4_values, 128), AT_32(neg128), false, f, k)
#define BODY_MXFP4(p, n, f, k) few_values(p, n, sixteen(e2m1_values, 16), AT_32(neg16), true, f, k)

FEW_QUANTS(iq4_nl, BODY_IQ4_NL)
FEW_QUANTS(mxfp4, BODY_MXFP4)
FEW_QUANTS(iq4_xs, few_iq4_xs)
FEW_QUANTS(nvfp4, few_nvfp4)
FEW_QUANTS(tq1_0, few_tq1_0)
FEW_QUANTS(tq2_0, few_tq2_0)
