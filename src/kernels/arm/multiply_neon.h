/* Products of tiles and of rows in place with columns. Included by multiply_neon.c and multiply_dotprod.c,
 * which are compiled for armv8-a and for armv8-a with sdot: only "dots" below differ. For each output the
 * operations are those of kernels.h in the same order, whatever the number of columns: int32 within a block
 * (exact, so in any order), then one fma.
 *
 * A tile meets groups of 4, 2 and 1 columns; V vectors of 4 rows at a time, as many as the registers hold.
 * One or two columns (decode) do without tiles: a row's block meets the columns as it lies in the file, and
 * the four partial sums of 4 rows are added in pairs. */
#ifndef HASTEN_KERNELS_ARM_MULTIPLY_NEON_H
#define HASTEN_KERNELS_ARM_MULTIPLY_NEON_H
#include "kernels/arm/blocks_iq_neon.h"
#include "kernels/arm/panel_neon.h"
#include "kernels/layout.h"
#include <stddef.h>

#define MAX_V 4

/* ---- dots: sums of products in int32 ----------------------------------------------------------- */

#ifdef __ARM_FEATURE_DOTPROD

#define V_OF_4 2 /* V for 4 columns */
#define V_OF_2 4
#define V_OF_1 4

typedef int32x4_t dots; /* lane: row of a tile, or part of a row in place */

MATH_INLINE dots dots_zero(void)
{
    return vdupq_n_s32(0);
}

MATH_INLINE int32x4_t dots_sum(dots d)
{
    return d;
}

/* dot[v][c] += 4 words of 4 * V rows times 16 values of each column. */
MATH_INLINE void dots_of_tile(int V, int n, const int8_t (*q)[64], const int8x16_t x[COLUMN_GROUP],
                              dots dot[MAX_V][COLUMN_GROUP])
{
    for (int v = 0; v < V; v++) {
        const int8x16_t w0 = vld1q_s8(q[0] + 16 * v), w1 = vld1q_s8(q[1] + 16 * v);
        const int8x16_t w2 = vld1q_s8(q[2] + 16 * v), w3 = vld1q_s8(q[3] + 16 * v);
        for (int c = 0; c < n; c++) {
            dot[v][c] = vdotq_laneq_s32(dot[v][c], w0, x[c], 0);
            dot[v][c] = vdotq_laneq_s32(dot[v][c], w1, x[c], 1);
            dot[v][c] = vdotq_laneq_s32(dot[v][c], w2, x[c], 2);
            dot[v][c] = vdotq_laneq_s32(dot[v][c], w3, x[c], 3);
        }
    }
}

/* sum += parts of the dot product of 16 values. */
MATH_INLINE int32x4_t dots_of_row(int32x4_t sum, int8x16_t w, int8x16_t x)
{
    return vdotq_s32(sum, w, x);
}

#else

#define V_OF_4 1
#define V_OF_2 2
#define V_OF_1 4

typedef struct {
    int32x4_t low, high; /* rows 0, 0, 1, 1 and 2, 2, 3, 3 of a tile */
} dots;

MATH_INLINE dots dots_zero(void)
{
    return (dots){vdupq_n_s32(0), vdupq_n_s32(0)};
}

MATH_INLINE int32x4_t dots_sum(dots d)
{
    return vpaddq_s32(d.low, d.high);
}

/* Two words of 4 rows; two products of at most 128 * 127 fit into int16. */
MATH_INLINE dots add_words(dots d, int8x16_t w0, int8x16_t w1, int32x4_t x0, int32x4_t x1)
{
    const int8x16_t a = vreinterpretq_s8_s32(x0), b = vreinterpretq_s8_s32(x1);
    const int16x8_t low = vmull_s8(vget_low_s8(w0), vget_low_s8(a)), high = vmull_high_s8(w0, a);
    d.low = vpadalq_s16(d.low, vmlal_s8(low, vget_low_s8(w1), vget_low_s8(b)));
    d.high = vpadalq_s16(d.high, vmlal_high_s8(high, w1, b));
    return d;
}

MATH_INLINE void dots_of_tile(int V, int n, const int8_t (*q)[64], const int8x16_t x[COLUMN_GROUP],
                              dots dot[MAX_V][COLUMN_GROUP])
{
    for (int c = 0; c < n; c++) {
        const int32x4_t words = vreinterpretq_s32_s8(x[c]);
        const int32x4_t x0 = vdupq_laneq_s32(words, 0), x1 = vdupq_laneq_s32(words, 1);
        const int32x4_t x2 = vdupq_laneq_s32(words, 2), x3 = vdupq_laneq_s32(words, 3);
        for (int v = 0; v < V; v++) {
            dot[v][c] = add_words(dot[v][c], vld1q_s8(q[0] + 16 * v), vld1q_s8(q[1] + 16 * v), x0, x1);
            dot[v][c] = add_words(dot[v][c], vld1q_s8(q[2] + 16 * v), vld1q_s8(q[3] + 16 * v), x2, x3);
        }
    }
}

MATH_INLINE int32x4_t dots_of_row(int32x4_t sum, int8x16_t w, int8x16_t x)
{
    const int16x8_t p = vmull_s8(vget_low_s8(w), vget_low_s8(x));
    return vpadalq_s16(sum, vmlal_high_s8(p, w, x));
}

#endif

/* dot[v][c] = products over n_words words of a tile from first_word on. */
MATH_INLINE void tile_dots(int V, int n, int first_word, int n_words, int row, const struct tile_q8 *t,
                           const uint8_t *const x[COLUMN_GROUP], dots dot[MAX_V][COLUMN_GROUP])
{
    for (int v = 0; v < V; v++)
        for (int c = 0; c < n; c++)
            dot[v][c] = dots_zero();
    for (int word = first_word; word < first_word + n_words; word += 4) {
        int8x16_t values[COLUMN_GROUP];
        for (int c = 0; c < n; c++)
            values[c] = vld1q_s8((const int8_t *)x[c] + 4 * word);
        dots_of_tile(V, n, (const int8_t(*)[64])(const void *)(t->q[word] + 4 * row), values, dot);
    }
}

/* The sums over each of four vectors. */
MATH_INLINE int32x4_t sum_each(const int32x4_t v[4])
{
    return vpaddq_s32(vpaddq_s32(v[0], v[1]), vpaddq_s32(v[2], v[3]));
}

/* y + d * i, rounded once. */
MATH_INLINE float32x4_t fma_int(float32x4_t y, float32x4_t d, int32x4_t i)
{
    return vfmaq_f32(y, d, vcvtq_f32_s32(i));
}

MATH_INLINE const struct act_block_32 *block_32(const uint8_t *x)
{
    return (const struct act_block_32 *)(const void *)x;
}

MATH_INLINE const struct act_block_256 *block_256(const uint8_t *x)
{
    return (const struct act_block_256 *)(const void *)x;
}

/* ---- tiles times columns ----------------------------------------------------------------------- */

MATH_INLINE void multiply_32(int V, int n, bool mins, int row, const struct tile_q8 *t, int64_t k,
                             const uint8_t *const x[COLUMN_GROUP], struct sums *s)
{
    float32x4_t acc[MAX_V][COLUMN_GROUP], acc2[MAX_V][COLUMN_GROUP];
    for (int c = 0; c < n; c++) {
        for (int v = 0; v < V; v++) {
            acc[v][c] = vld1q_f32(s[c].acc + row + 4 * v);
            acc2[v][c] = vld1q_f32(s[c].acc2 + row + 4 * v);
        }
    }
    for (int b = 0; b < (int)(k / 32); b++) {
        dots dot[MAX_V][COLUMN_GROUP];
        tile_dots(V, n, b * 8, 8, row, t, x, dot);
        for (int v = 0; v < V; v++) {
            const float32x4_t d = vld1q_f32(t->d[b] + row + 4 * v);
            for (int c = 0; c < n; c++)
                acc[v][c] = fma_int(acc[v][c], vmulq_n_f32(d, block_32(x[c])->d[b]), dots_sum(dot[v][c]));
            if (mins) {
                const float32x4_t m = vld1q_f32(t->m[b] + row + 4 * v);
                for (int c = 0; c < n; c++)
                    acc2[v][c] = vfmaq_n_f32(acc2[v][c], m, block_32(x[c])->ds[b]);
            }
        }
    }
    for (int c = 0; c < n; c++) {
        for (int v = 0; v < V; v++) {
            vst1q_f32(s[c].acc + row + 4 * v, acc[v][c]);
            if (mins)
                vst1q_f32(s[c].acc2 + row + 4 * v, acc2[v][c]);
        }
    }
}

/* NVFP4: a scale of each half of a block. */
MATH_INLINE void multiply_halves(int V, int n, int row, const struct tile_q8 *t, int64_t k,
                                 const uint8_t *const x[COLUMN_GROUP], struct sums *s)
{
    float32x4_t acc[MAX_V][COLUMN_GROUP];
    for (int c = 0; c < n; c++)
        for (int v = 0; v < V; v++)
            acc[v][c] = vld1q_f32(s[c].acc + row + 4 * v);
    for (int half = 0; half < (int)(k / 16); half++) {
        const float *scale = half % 2 ? t->m[half / 2] : t->d[half / 2];
        dots dot[MAX_V][COLUMN_GROUP];
        tile_dots(V, n, 4 * half, 4, row, t, x, dot);
        for (int v = 0; v < V; v++) {
            const float32x4_t d = vld1q_f32(scale + row + 4 * v);
            for (int c = 0; c < n; c++)
                acc[v][c] =
                    fma_int(acc[v][c], vmulq_n_f32(d, block_32(x[c])->d[half / 2]), dots_sum(dot[v][c]));
        }
    }
    for (int c = 0; c < n; c++)
        for (int v = 0; v < V; v++)
            vst1q_f32(s[c].acc + row + 4 * v, acc[v][c]);
}

/* Sum over the sub-blocks of min_j * sum_j(q_x), for 4 rows. */
MATH_INLINE int32x4_t tile_mins(int sub, int row, const struct tile_q8 *t, const struct act_block_256 *a)
{
    const int16_t *sums = sub == 16 ? a->sum16 : a->sum32;
    int32x4_t total = vdupq_n_s32(0);
    for (int j = 0; j < 256 / sub; j++)
        total = vmlal_n_s16(total, vld1_s16(t->min[j] + row), sums[j]);
    return total;
}

MATH_INLINE void multiply_256(int V, int n, int sub, bool mins, int row, const struct tile_q8 *t,
                              const uint8_t *const x[COLUMN_GROUP], struct sums *s)
{
    int32x4_t total[MAX_V][COLUMN_GROUP];
    for (int v = 0; v < V; v++)
        for (int c = 0; c < n; c++)
            total[v][c] = vdupq_n_s32(0);
    for (int j = 0; j < 256 / sub; j++) {
        dots dot[MAX_V][COLUMN_GROUP];
        tile_dots(V, n, j * sub / 4, sub / 4, row, t, x, dot);
        for (int v = 0; v < V; v++) {
            const int32x4_t scale = vld1q_s32(t->scale[j] + row + 4 * v);
            for (int c = 0; c < n; c++)
                total[v][c] = vmlaq_s32(total[v][c], dots_sum(dot[v][c]), scale);
        }
    }
    for (int v = 0; v < V; v++) {
        const int at = row + 4 * v;
        for (int c = 0; c < n; c++) {
            const struct act_block_256 *a = block_256(x[c]);
            const float32x4_t d = vmulq_n_f32(vld1q_f32(t->d[0] + at), a->d);
            vst1q_f32(s[c].acc + at, fma_int(vld1q_f32(s[c].acc + at), d, total[v][c]));
            if (mins) {
                const float32x4_t m = vmulq_n_f32(vld1q_f32(t->m[0] + at), a->d);
                vst1q_f32(s[c].acc2 + at, fma_int(vld1q_f32(s[c].acc2 + at), m, tile_mins(sub, at, t, a)));
            }
        }
    }
}

MATH_INLINE void multiply_floats(int n, const struct tile_f32 *t, int64_t k,
                                 const uint8_t *const x[COLUMN_GROUP], struct sums *s)
{
    float32x4_t acc[4][COLUMN_GROUP], values[COLUMN_GROUP];
    for (int c = 0; c < n; c++)
        for (int v = 0; v < 4; v++)
            acc[v][c] = vld1q_f32(s[c].acc + 4 * v);
    int64_t at = 0;
    for (; at + 4 <= k; at += 4) {
        for (int c = 0; c < n; c++)
            values[c] = vld1q_f32((const float *)(const void *)x[c] + at);
        for (int v = 0; v < 4; v++) {
            const float *w = t->w[at] + 4 * v;
            for (int c = 0; c < n; c++) {
                acc[v][c] = vfmaq_laneq_f32(acc[v][c], vld1q_f32(w), values[c], 0);
                acc[v][c] = vfmaq_laneq_f32(acc[v][c], vld1q_f32(w + PANEL_ROWS), values[c], 1);
                acc[v][c] = vfmaq_laneq_f32(acc[v][c], vld1q_f32(w + 2 * PANEL_ROWS), values[c], 2);
                acc[v][c] = vfmaq_laneq_f32(acc[v][c], vld1q_f32(w + 3 * PANEL_ROWS), values[c], 3);
            }
        }
    }
    for (; at < k; at++)
        for (int c = 0; c < n; c++)
            for (int v = 0; v < 4; v++)
                acc[v][c] = vfmaq_n_f32(acc[v][c], vld1q_f32(t->w[at] + 4 * v),
                                        ((const float *)(const void *)x[c])[at]);
    for (int c = 0; c < n; c++)
        for (int v = 0; v < 4; v++)
            vst1q_f32(s[c].acc + 4 * v, acc[v][c]);
}

/* One body for groups of 4, 2 and 1 columns, each with constant arguments. */
MATH_INLINE void multiply_group(uint32_t id, int V, int n, const void *tile, int64_t k,
                                const uint8_t *const x[COLUMN_GROUP], struct sums *s)
{
    if (id == QUANT_F32) {
        multiply_floats(n, tile, k, x, s);
        return;
    }
    for (int row = 0; row < PANEL_ROWS; row += 4 * V) {
        if (id == QUANT_NVFP4)
            multiply_halves(V, n, row, tile, k, x, s);
        else if (block_is_32(id))
            multiply_32(V, n, block_has_m(id), row, tile, k, x, s);
        else
            multiply_256(V, n, block_sub(id), block_has_m(id), row, tile, x, s);
    }
}

MATH_INLINE void multiply_columns(uint32_t id, const void *tile, int64_t k, const uint8_t *x, size_t stride,
                                  int64_t n, struct sums *s)
{
    for (; n >= 4; n -= 4, x += 4 * stride, s += 4) {
        const uint8_t *const xs[COLUMN_GROUP] = {x, x + stride, x + 2 * stride, x + 3 * stride};
        multiply_group(id, V_OF_4, 4, tile, k, xs, s);
    }
    if (n >= 2) {
        const uint8_t *const xs[COLUMN_GROUP] = {x, x + stride};
        multiply_group(id, V_OF_2, 2, tile, k, xs, s);
        n -= 2, x += 2 * stride, s += 2;
    }
    if (n >= 1) {
        const uint8_t *const xs[COLUMN_GROUP] = {x};
        multiply_group(id, V_OF_1, 1, tile, k, xs, s);
    }
}

/* ---- rows in place times one or two columns ---------------------------------------------------- */

MATH_INLINE void fetch_ahead(const uint8_t *p, size_t bytes)
{
    for (size_t i = 0; i < bytes; i += 64)
        __builtin_prefetch(p + i, 0, 2);
}

/* i_b of one block and column, before the offset: parts that add up to it. */
MATH_INLINE int32x4_t row_dot_32(const int8x16_t q[2], const int8_t *x)
{
    return dots_of_row(dots_of_row(vdupq_n_s32(0), q[0], vld1q_s8(x)), q[1], vld1q_s8(x + 16));
}

MATH_INLINE int32_t offset_32(uint32_t id, const struct act_block_32 *a, int64_t b)
{
    return id == QUANT_Q4_0 ? a->neg8[b] : id == QUANT_Q5_0 ? a->neg16[b] : 0;
}

MATH_INLINE void few_32(uint32_t id, int n, const uint8_t *const rows[FEW_ROWS], size_t ahead, int64_t k,
                        const uint8_t *x, size_t stride, struct sums *s)
{
    float32x4_t acc[FEW_COLUMNS], acc2[FEW_COLUMNS];
    for (int c = 0; c < n; c++)
        acc[c] = acc2[c] = vdupq_n_f32(0);
    for (int64_t g = 0; g < k / 32; g++) {
        const size_t at = (size_t)g * block_bytes(id), x_at = (size_t)(g / 8) * ACT_BLOCK_BYTES;
        const int64_t b = g % 8;
        int32x4_t dot[FEW_COLUMNS][4];
        for (int r = 0; r < FEW_ROWS; r++) {
            int8x16_t q[2];
            load_32(id, rows[r] + at, q);
            fetch_ahead(rows[r] + at + ahead, 1);
            for (int c = 0; c < n; c++)
                dot[c][r] = row_dot_32(q, block_32(x + (size_t)c * stride + x_at)->q + 32 * b);
        }
        const float32x4_t d = d_of_rows(id, rows, at);
        const float32x4_t m = block_has_m(id) ? f16_of_rows(rows, at + 2) : d;
        for (int c = 0; c < n; c++) {
            const struct act_block_32 *a = block_32(x + (size_t)c * stride + x_at);
            const int32x4_t sum = vaddq_s32(sum_each(dot[c]), vdupq_n_s32(offset_32(id, a, b)));
            acc[c] = fma_int(acc[c], vmulq_n_f32(d, a->d[b]), sum);
            if (block_has_m(id))
                acc2[c] = vfmaq_n_f32(acc2[c], m, a->ds[b]);
        }
    }
    for (int c = 0; c < n; c++) {
        vst1q_f32(s[c].acc, acc[c]);
        vst1q_f32(s[c].acc2, acc2[c]);
    }
}

/* Products of 64 values: parts that pairwise sums turn into those of four sub-blocks of 16, or of two of 32
 * in two parts each. */
MATH_INLINE int32x4_t row_dots_64(const int8x16_t q[4], const int8_t *x)
{
    int32x4_t dot[4];
    for (int i = 0; i < 4; i++)
        dot[i] = dots_of_row(vdupq_n_s32(0), q[i], vld1q_s8(x + 16 * i));
    return sum_each(dot);
}

/* Sum of 8 * n scales or mins times sums of activations, in four parts. */
MATH_INLINE int32x4_t sums_times(const int16x8_t v[2], int n, const int16_t *sums)
{
    int32x4_t total = vdupq_n_s32(0);
    for (int i = 0; i < n; i++) {
        const int16x8_t x = vld1q_s16(sums + 8 * i);
        total = vmlal_high_s16(vmlal_s16(total, vget_low_s16(v[i]), vget_low_s16(x)), v[i], x);
    }
    return total;
}

/* The integer sum of one row's 256-block and each column, in four parts, offset included. */
MATH_INLINE void row_totals_256(uint32_t id, int n, const uint8_t *src, const struct k_scales *scales,
                                const struct act_block_256 *const a[FEW_COLUMNS],
                                int32x4_t total[FEW_COLUMNS])
{
    int32x4_t scale[4];
    for (int i = 0; i < 2; i++) {
        scale[2 * i] = vmovl_s16(vget_low_s16(scales->scale[i]));
        scale[2 * i + 1] = vmovl_high_s16(scales->scale[i]);
    }
    for (int c = 0; c < n; c++) {
        total[c] = vdupq_n_s32(0);
        if (block_offset(id))
            total[c] = vmulq_n_s32(sums_times(scales->scale, 2, a[c]->sum16), -block_offset(id));
    }
#pragma GCC unroll 2
    for (int half = 0; half < 2; half++) {
        int8x16_t q[8];
        load_64(id, src, 2 * half, q);
        load_64(id, src, 2 * half + 1, q + 4);
        for (int c = 0; c < n; c++) {
            const int8_t *x = a[c]->q + 128 * half;
            const int32x4_t low = row_dots_64(q, x), high = row_dots_64(q + 4, x + 64);
            if (block_sub(id) == 32) {
                total[c] = vmlaq_s32(total[c], vpaddq_s32(low, high), scale[half]);
            } else {
                total[c] = vmlaq_s32(total[c], low, scale[2 * half]);
                total[c] = vmlaq_s32(total[c], high, scale[2 * half + 1]);
            }
        }
    }
}

MATH_INLINE void few_256(uint32_t id, int n, const uint8_t *const rows[FEW_ROWS], size_t ahead, int64_t k,
                         const uint8_t *x, size_t stride, struct sums *s)
{
    float32x4_t acc[FEW_COLUMNS], acc2[FEW_COLUMNS];
    for (int c = 0; c < n; c++)
        acc[c] = acc2[c] = vdupq_n_f32(0);
    for (int64_t b = 0; b < k / 256; b++) {
        const size_t at = (size_t)b * block_bytes(id);
        const struct act_block_256 *a[FEW_COLUMNS];
        int32x4_t total[FEW_COLUMNS][4], min[FEW_COLUMNS][4];
        for (int c = 0; c < n; c++)
            a[c] = block_256(x + (size_t)c * stride + (size_t)b * ACT_BLOCK_BYTES);
        for (int r = 0; r < FEW_ROWS; r++) {
            const struct k_scales scales = load_scales(id, rows[r] + at);
            int32x4_t row_total[FEW_COLUMNS];
            fetch_ahead(rows[r] + at + ahead, block_bytes(id));
            row_totals_256(id, n, rows[r] + at, &scales, a, row_total);
            for (int c = 0; c < n; c++) {
                total[c][r] = row_total[c];
                if (block_has_m(id))
                    min[c][r] = block_sub(id) == 32 ? sums_times(scales.min, 1, a[c]->sum32)
                                                    : sums_times(scales.min, 2, a[c]->sum16);
            }
        }
        const float32x4_t d = d_of_rows(id, rows, at);
        for (int c = 0; c < n; c++) {
            acc[c] = fma_int(acc[c], vmulq_n_f32(d, a[c]->d), sum_each(total[c]));
            if (block_has_m(id)) {
                const float32x4_t m = f16_of_rows(rows, at + block_d_at(id) + 2);
                acc2[c] = fma_int(acc2[c], vmulq_n_f32(m, a[c]->d), sum_each(min[c]));
            }
        }
    }
    for (int c = 0; c < n; c++) {
        vst1q_f32(s[c].acc, acc[c]);
        vst1q_f32(s[c].acc2, acc2[c]);
    }
}

MATH_INLINE void few_columns(uint32_t id, int n, const uint8_t *const rows[FEW_ROWS], size_t ahead, int64_t k,
                             const uint8_t *x, size_t stride, struct sums *s)
{
    if (block_is_32(id))
        few_32(id, n, rows, ahead, k, x, stride, s);
    else
        few_256(id, n, rows, ahead, k, x, stride, s);
}

/* ---- the compiled functions -------------------------------------------------------------------- */

#define MULTIPLY(type, id)                                                                                   \
    static void multiply_##type(const void *tile, int64_t k, const uint8_t *x, size_t stride, int64_t n,     \
                                struct sums *s)                                                              \
    {                                                                                                        \
        multiply_columns(id, tile, k, x, stride, n, s);                                                      \
    }
#define FEW(type, id)                                                                                        \
    static void few_##type(const uint8_t *const rows[FEW_ROWS], size_t ahead, int64_t k, const uint8_t *x,   \
                           size_t stride, int64_t n, struct sums *s)                                         \
    {                                                                                                        \
        if (n == 1)                                                                                          \
            few_columns(id, 1, rows, ahead, k, x, stride, s);                                                \
        else                                                                                                 \
            few_columns(id, 2, rows, ahead, k, x, stride, s);                                                \
    }
MULTIPLY(f32, QUANT_F32)
MULTIPLY(q32, QUANT_Q4_0) /* offset already subtracted: Q5_0 and Q8_0 too; values looked up: IQ4_NL, MXFP4 */
MULTIPLY(q32_mins, QUANT_Q4_1)
MULTIPLY(q16_k, QUANT_Q6_K) /* all of the IQ and TQ types too */
MULTIPLY(q16_k_mins, QUANT_Q2_K)
MULTIPLY(q32_k_mins, QUANT_Q4_K)
MULTIPLY(nvfp4, QUANT_NVFP4)
FEW(q4_0, QUANT_Q4_0)
FEW(q4_1, QUANT_Q4_1)
FEW(q5_0, QUANT_Q5_0)
FEW(q5_1, QUANT_Q5_1)
FEW(q8_0, QUANT_Q8_0)
FEW(q2_k, QUANT_Q2_K)
FEW(q3_k, QUANT_Q3_K)
FEW(q4_k, QUANT_Q4_K)
FEW(q5_k, QUANT_Q5_K)
FEW(q6_k, QUANT_Q6_K)
FEW(iq4_nl, QUANT_IQ4_NL)
FEW(mxfp4, QUANT_MXFP4)
FEW(iq1_s, QUANT_IQ1_S)
FEW(iq1_m, QUANT_IQ1_M)
FEW(iq2_xxs, QUANT_IQ2_XXS)
FEW(iq2_xs, QUANT_IQ2_XS)
FEW(iq2_s, QUANT_IQ2_S)
FEW(iq3_xxs, QUANT_IQ3_XXS)
FEW(iq3_s, QUANT_IQ3_S)
FEW(iq4_xs, QUANT_IQ4_XS)
FEW(tq1_0, QUANT_TQ1_0)
FEW(tq2_0, QUANT_TQ2_0)

#define PANEL_FORMATS                                                                                        \
    {                                                                                                        \
        {QUANT_F32, MINS_NONE, unpack_f32_neon, multiply_f32, NULL},                                         \
            {QUANT_F16, MINS_NONE, unpack_f16_neon, multiply_f32, NULL},                                     \
            {QUANT_BF16, MINS_NONE, unpack_bf16_neon, multiply_f32, NULL},                                   \
            {QUANT_Q4_0, MINS_NONE, unpack_q4_0_neon, multiply_q32, few_q4_0},                               \
            {QUANT_Q4_1, MINS_ADDED, unpack_q4_1_neon, multiply_q32_mins, few_q4_1},                         \
            {QUANT_Q5_0, MINS_NONE, unpack_q5_0_neon, multiply_q32, few_q5_0},                               \
            {QUANT_Q5_1, MINS_ADDED, unpack_q5_1_neon, multiply_q32_mins, few_q5_1},                         \
            {QUANT_Q8_0, MINS_NONE, unpack_q8_0_neon, multiply_q32, few_q8_0},                               \
            {QUANT_Q2_K, MINS_SUBTRACTED, unpack_q2_k_neon, multiply_q16_k_mins, few_q2_k},                  \
            {QUANT_Q3_K, MINS_NONE, unpack_q3_k_neon, multiply_q16_k, few_q3_k},                             \
            {QUANT_Q4_K, MINS_SUBTRACTED, unpack_q4_k_neon, multiply_q32_k_mins, few_q4_k},                  \
            {QUANT_Q5_K, MINS_SUBTRACTED, unpack_q5_k_neon, multiply_q32_k_mins, few_q5_k},                  \
            {QUANT_Q6_K, MINS_NONE, unpack_q6_k_neon, multiply_q16_k, few_q6_k},                             \
            {QUANT_IQ4_NL, MINS_NONE, unpack_iq4_nl_neon, multiply_q32, few_iq4_nl},                         \
            {QUANT_MXFP4, MINS_NONE, unpack_mxfp4_neon, multiply_q32, few_mxfp4},                            \
            {QUANT_IQ1_S, MINS_NONE, unpack_iq1_s_neon, multiply_q16_k, few_iq1_s},                          \
            {QUANT_IQ1_M, MINS_NONE, unpack_iq1_m_neon, multiply_q16_k, few_iq1_m},                          \
            {QUANT_IQ2_XXS, MINS_NONE, unpack_iq2_xxs_neon, multiply_q16_k, few_iq2_xxs},                    \
            {QUANT_IQ2_XS, MINS_NONE, unpack_iq2_xs_neon, multiply_q16_k, few_iq2_xs},                       \
            {QUANT_IQ2_S, MINS_NONE, unpack_iq2_s_neon, multiply_q16_k, few_iq2_s},                          \
            {QUANT_IQ3_XXS, MINS_NONE, unpack_iq3_xxs_neon, multiply_q16_k, few_iq3_xxs},                    \
            {QUANT_IQ3_S, MINS_NONE, unpack_iq3_s_neon, multiply_q16_k, few_iq3_s},                          \
            {QUANT_IQ4_XS, MINS_NONE, unpack_iq4_xs_neon, multiply_q16_k, few_iq4_xs},                       \
            {QUANT_TQ1_0, MINS_NONE, unpack_tq1_0_neon, multiply_q16_k, few_tq1_0},                          \
            {QUANT_TQ2_0, MINS_NONE, unpack_tq2_0_neon, multiply_q16_k, few_tq2_0},                          \
            {QUANT_NVFP4, MINS_NONE, unpack_nvfp4_neon, multiply_nvfp4, NULL},                               \
    }

#endif
