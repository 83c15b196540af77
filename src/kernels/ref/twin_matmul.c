/* Plain twins of activation quantisation and of the quantised matmul: the canonical operations of kernels.h,
 * one output at a time. A weight row is unpacked once and meets every activation row. */
#include "kernels/layout.h"
#include "kernels/math.h"
#include "kernels/ref/twin_blocks.h"
#include "kernels/sets.h"
#include <string.h>

/* ---- activations ------------------------------------------------------------------------------- */

/* Quantises n values to q; returns the scale. See "Activations" in kernels.h. */
CLONES_FMA static float quantise_group(const float *x, int64_t n, int8_t *q)
{
    uint32_t amax = 0; /* bits of the largest magnitude: ordered as the magnitudes, NaN above all */
    for (int64_t i = 0; i < n; i++) {
        const uint32_t bits = f32_bits(x[i]) & 0x7fffffffu;
        amax = bits > amax ? bits : amax;
    }
    if (amax >= 0x7f800000u || bits_f32(amax) < ACT_AMAX_MIN) {
        memset(q, 0, (size_t)n);
        return amax >= 0x7f800000u ? canonical_nan() : 0.0f;
    }
    const float inverse = 127.0f / bits_f32(amax);
    for (int64_t i = 0; i < n; i++)
        q[i] = (int8_t)((x[i] * inverse + ROUND_MAGIC) - ROUND_MAGIC);
    return bits_f32(amax) / 127.0f;
}

static int32_t sum_i8(const int8_t *q, int64_t n)
{
    int32_t sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += q[i];
    return sum;
}

static void make_q8_32(const float *x, int64_t k, struct act_block_32 *blocks)
{
    memset(blocks, 0, act_row_bytes_common(ACT_Q8_32, k));
    for (int64_t i = 0; i < k / 32; i++) {
        struct act_block_32 *a = &blocks[i / 8];
        const int64_t b = i % 8;
        a->d[b] = quantise_group(x + i * 32, 32, a->q + b * 32);
        const int32_t first = sum_i8(a->q + b * 32, 16), second = sum_i8(a->q + b * 32 + 16, 16);
        const int32_t sum = first + second;
        a->ds[b] = a->d[b] * (float)sum;
        a->neg8[b] = -8 * sum;
        a->neg16[b] = -16 * sum;
        a->neg128[b] = -128 * sum;
        a->neg12[2 * b] = (int16_t)(-12 * first);
        a->neg12[2 * b + 1] = (int16_t)(-12 * second);
    }
}

static void make_q8_256(const float *x, int64_t k, struct act_block_256 *blocks)
{
    memset(blocks, 0, act_row_bytes_common(ACT_Q8_256, k));
    for (int64_t b = 0; b < k / 256; b++) {
        struct act_block_256 *a = &blocks[b];
        int32_t total = 0;
        a->d = quantise_group(x + b * 256, 256, a->q);
        for (int64_t j = 0; j < 16; j++) {
            const int32_t sum = sum_i8(a->q + j * 16, 16);
            a->neg32[j] = -32 * sum;
            total += sum;
            a->sum16[j] = (int16_t)sum;
        }
        for (int64_t j = 0; j < 8; j++) {
            const int32_t sum = a->sum16[2 * j] + a->sum16[2 * j + 1];
            a->sum32[j] = (int16_t)sum;
            a->neg8[j] = -8 * sum;
        }
        a->neg124 = -124 * total;
        act_bound_256(a);
    }
}

void twin_act_make(enum act_form form, const float *x, int64_t k, void *dst)
{
    if (form == ACT_Q8_32) {
        make_q8_32(x, k, dst);
    } else if (form == ACT_Q8_256) {
        make_q8_256(x, k, dst);
    } else {
        const size_t used = (size_t)k * sizeof(float);
        memcpy(dst, x, used);
        memset((char *)dst + used, 0, round_up_64(used) - used);
    }
}

/* ---- products ---------------------------------------------------------------------------------- */

MATH_INLINE int32_t dot_i8(const int8_t *a, const int8_t *b, int64_t n)
{
    int32_t sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += a[i] * b[i];
    return sum;
}

CLONES_FMA static float dot_q8_32(const struct twin_format *f, const struct twin_row *w, int64_t k,
                                  const void *x)
{
    const struct act_block_32 *blocks = x;
    float acc = 0, acc2 = 0;
    for (int64_t i = 0; i < k / 32; i++) {
        const struct act_block_32 *a = &blocks[i / 8];
        const int64_t b = i % 8;
        if (f->sub == 16) { /* NVFP4 */
            acc = fmaf(w->d[i] * a->d[b], (float)dot_i8(w->q + i * 32, a->q + b * 32, 16), acc);
            acc = fmaf(w->m[i] * a->d[b], (float)dot_i8(w->q + i * 32 + 16, a->q + b * 32 + 16, 16), acc);
            continue;
        }
        acc = fmaf(w->d[i] * a->d[b], (float)dot_i8(w->q + i * 32, a->q + b * 32, 32), acc);
        if (f->has_min)
            acc2 = fmaf(w->m[i], a->ds[b], acc2);
    }
    return f->has_min ? acc + acc2 : acc;
}

/* int32 cannot overflow: |sum| of a block is at most (largest |q_w| x 127 x 256 x largest |scale|):
 * Q2_K 3 x 15, Q3_K 4 x 32, Q4_K 15 x 63, Q5_K 31 x 63, Q6_K 32 x 128, the largest, 1.33e8 < 2^31; the others stand
 * in formats/quant_iq.h: IQ4_XS 127 x 32, IQ3_XXS 62 x 31. */
CLONES_FMA static float dot_q8_256(const struct twin_format *f, const struct twin_row *w, int64_t k,
                                   const void *x)
{
    const struct act_block_256 *a = x;
    const int64_t n_sub = 256 / f->sub;
    float acc = 0, acc2 = 0;
    for (int64_t b = 0; b < k / 256; b++, a++) {
        const int16_t *sums = f->sub == 16 ? a->sum16 : a->sum32;
        int32_t products = 0, mins = 0;
        for (int64_t j = 0; j < n_sub; j++) {
            const int64_t at = b * n_sub + j;
            products += w->scale[at] * dot_i8(w->q + at * f->sub, a->q + j * f->sub, f->sub);
            if (f->has_min)
                mins += w->min[at] * sums[j];
        }
        acc = fmaf(w->d[b] * a->d, (float)products, acc);
        if (f->has_min)
            acc2 = fmaf(w->m[b] * a->d, (float)mins, acc2);
    }
    return f->has_min ? acc - acc2 : acc;
}

CLONES_FMA static float dot_f32(const float *w, const float *x, int64_t k)
{
    float acc = 0;
    for (int64_t i = 0; i < k; i++)
        acc = fmaf(w[i], x[i], acc);
    return acc;
}

/* Scratch: one row, as f32[k], or as q[k], d, m [k / 32], scale, min [k / 16]. */
size_t twin_matmul_scratch_bytes(const struct weight *w)
{
    return round_up_64((size_t)w->k * sizeof(float));
}

static struct twin_row scratch_row(void *scratch, int64_t k)
{
    struct twin_row r;
    r.d = scratch;
    r.m = r.d + k / 32;
    r.q = (int8_t *)(r.m + k / 32);
    r.scale = r.q + k;
    r.min = (uint8_t *)(r.scale + k / 16);
    return r;
}

void twin_matmul(const struct weight *w, const struct act *a, int64_t row0, int64_t row1, float *y,
                 int64_t ldy, void *scratch)
{
    const struct twin_format *f = twin_format_get(w->type->id);
    const struct twin_row row = scratch_row(scratch, w->k);
    for (int64_t r = row0; r < row1; r++) {
        if (f)
            f->unpack(weight_row(w, r), w->k / w->type->block, &row);
        else
            w->type->decode(weight_row(w, r), w->k, scratch);
        for (int64_t i = 0; i < a->n; i++) {
            const uint8_t *x = act_row(a, i);
            const float v = !f                     ? dot_f32(scratch, (const float *)(const void *)x, w->k)
                            : a->form == ACT_Q8_32 ? dot_q8_32(f, &row, w->k, x)
                                                   : dot_q8_256(f, &row, w->k, x);
            y[i * ldy + r] = v != v ? canonical_nan() : v;
        }
    }
}
