/* Encoders of the blocks of 256 with sub-scales (layouts: quant.c).
 *
 * A block is fitted from the inside out: each sub-block gets its best real scale (and minimum) by itself; then the
 * float16 scale(s) of the block that suit them as small integers are searched; then, in turn, the integers of
 * each sub-block are moved by one where that lowers its error, and the block's scales are solved again for the
 * codes that result, as long as the error of the block falls. */
#include "formats/encode_block.h"

#include <math.h>
#include <string.h>

#define MAX_SUBS 16
#define ROUNDS 3

static int clamp_round(float v, int lo, int hi)
{
    if (!(v > (float)lo)) /* also NaN */
        return lo;
    return v < (float)hi ? (int)lrintf(v) : hi;
}

/* What is fixed for a format. */
struct kind {
    int n_subs, sub;    /* sub-blocks, values in each */
    struct fit_range c; /* of the codes */
    int lo, hi;         /* of a sub-block's integer scale (and minimum: 0 to hi) */
};

static struct fit_run run_of(const struct encode_block *b, const struct kind *k, int s)
{
    return (struct fit_run){b->x + s * k->sub, b->w + s * k->sub, k->sub};
}

/* ---- value = d scale_s q ------------------------------------------------------------------------------------ */

struct scaled {
    uint16_t h; /* d as float16 */
    float d, e; /* in the block's units; error of the block */
    int scale[MAX_SUBS];
};

/* Makes the best of eight units the block's d: each with the integers nearest to the real scales. */
static void scaled_try(const struct encode_block *b, const struct kind *k, const float *real,
                       const float units[FIT_LANES], struct scaled *best)
{
    const float none[FIT_LANES] = {0};
    struct scaled t[FIT_LANES];
    for (int l = 0; l < FIT_LANES; l++) {
        t[l].e = 0;
        t[l].h = encode_f16(units[l], b->exponent, &t[l].d);
    }
    for (int s = 0; s < k->n_subs; s++) {
        const struct fit_run r = run_of(b, k, s);
        float d[FIT_LANES], e[FIT_LANES];
        for (int l = 0; l < FIT_LANES; l++) {
            t[l].scale[s] = clamp_round(fabsf(t[l].d) > 0x1p-120f ? real[s] / t[l].d : 0, k->lo, k->hi);
            d[l] = t[l].d * (float)t[l].scale[s];
        }
        fit_errors(&r, &k->c, d, none, e);
        for (int l = 0; l < FIT_LANES; l++)
            t[l].e += e[l];
    }
    for (int l = 0; l < FIT_LANES; l++)
        if (t[l].e < best->e)
            *best = t[l];
}

/* Each integer scale becomes the best of it and those near it. */
static void scaled_move_integers(const struct encode_block *b, const struct kind *k, struct scaled *t)
{
    static const int moves[FIT_LANES] = {0, -1, 1, -2, 2, -3, 3, 4};
    const float none[FIT_LANES] = {0};
    t->e = 0;
    for (int s = 0; s < k->n_subs; s++) {
        const struct fit_run r = run_of(b, k, s);
        int scale[FIT_LANES], at = 0;
        float d[FIT_LANES], e[FIT_LANES];
        for (int l = 0; l < FIT_LANES; l++) {
            scale[l] = t->scale[s] + moves[l];
            if (scale[l] < k->lo || scale[l] > k->hi)
                scale[l] = t->scale[s];
            d[l] = t->d * (float)scale[l];
        }
        fit_errors(&r, &k->c, d, none, e);
        for (int l = 1; l < FIT_LANES; l++)
            at = e[l] < e[at] ? l : at;
        t->scale[s] = scale[at];
        t->e += e[at];
    }
}

/* The least-squares d for the codes of t; the result is kept if the block's error falls. */
static bool scaled_resolve(const struct encode_block *b, const struct kind *k, struct scaled *t)
{
    double num = 0, den = 0;
    struct scaled next = *t;
    for (int s = 0; s < k->n_subs; s++) {
        const struct fit_run r = run_of(b, k, s);
        struct fit_sums sums;
        const double scale = t->scale[s];
        fit_sum(&r, &k->c, t->d * (float)t->scale[s], 0, &sums);
        num += scale * (double)sums.xq;
        den += scale * scale * (double)sums.qq;
    }
    if (!(den > 0))
        return false;
    next.h = encode_f16((float)(num / den), b->exponent, &next.d);
    scaled_move_integers(b, k, &next);
    if (!(next.e < t->e))
        return false;
    *t = next;
    return true;
}

static void fit_scaled(const struct encode_block *b, const struct kind *k, struct scaled *out)
{
    float real[MAX_SUBS], ext = 0;
    *out = (struct scaled){.e = INFINITY};
    for (int s = 0; s < k->n_subs; s++) {
        const struct fit_run r = run_of(b, k, s);
        real[s] = b->zero ? 0 : fit_scale(&r, &k->c);
        ext = fabsf(real[s]) > fabsf(ext) ? real[s] : ext;
    }
    /* The largest scale becomes the lowest integer, or nearly so. */
    for (int side = 0; side < 2; side++) {
        float units[FIT_LANES];
        for (int i = 0; i < FIT_LANES; i++)
            units[i] = ext / (float)(side ? k->hi - i : k->lo + i);
        scaled_try(b, k, real, units, out);
    }
    scaled_move_integers(b, k, out);
    for (int i = 0; i < ROUNDS && scaled_resolve(b, k, out); i++)
        ;
}

/* Codes of the block, shifted to be unsigned. */
static void scaled_codes(const struct encode_block *b, const struct kind *k, const struct scaled *t,
                         uint8_t *q)
{
    float codes[ENCODE_MAX_BLOCK];
    for (int s = 0; s < k->n_subs; s++) {
        const struct fit_run r = run_of(b, k, s);
        fit_codes(&r, &k->c, t->d * (float)t->scale[s], 0, codes + s * k->sub);
    }
    for (int i = 0; i < 256; i++)
        q[i] = (uint8_t)((int)codes[i] - (int)k->c.lo);
}

void encode_q3_k(const struct encode_block *b, uint8_t *dst)
{
    static const struct kind kind = {16, 16, {-4, 3}, -32, 31};
    struct scaled t;
    uint8_t q[256], *hmask = dst, *qs = dst + 32, *scales = dst + 96;
    fit_scaled(b, &kind, &t);
    scaled_codes(b, &kind, &t, q);
    memset(dst, 0, 108);
    for (int i = 0; i < 256; i++) {
        uint8_t *low = &qs[i / 128 * 32 + i % 32], *high = &hmask[i % 32];
        *low = (uint8_t)(*low | (q[i] & 3) << (i / 32 % 4 * 2));
        *high = (uint8_t)(*high | (q[i] >> 2) << (i / 32));
    }
    for (int s = 0; s < 16; s++) {
        const int v = t.scale[s] + 32;
        scales[s % 8] = (uint8_t)(scales[s % 8] | (v & 15) << (s / 8 * 4));
        scales[8 + s % 4] = (uint8_t)(scales[8 + s % 4] | (v >> 4) << (s / 4 * 2));
    }
    encode_store_u16(dst + 108, t.h);
}

void encode_q6_k(const struct encode_block *b, uint8_t *dst)
{
    static const struct kind kind = {16, 16, {-32, 31}, -128, 127};
    struct scaled t;
    uint8_t q[256];
    fit_scaled(b, &kind, &t);
    scaled_codes(b, &kind, &t, q);
    memset(dst, 0, 192);
    for (int i = 0; i < 256; i++) {
        uint8_t *low = &dst[i / 128 * 64 + i % 64], *high = &dst[128 + i / 128 * 32 + i % 32];
        *low = (uint8_t)(*low | (q[i] & 15) << (i / 64 % 2 * 4));
        *high = (uint8_t)(*high | (q[i] >> 4) << (i / 32 % 4 * 2));
    }
    for (int s = 0; s < 16; s++)
        dst[192 + s] = (uint8_t)(int8_t)t.scale[s];
    encode_store_u16(dst + 208, t.h);
}

/* ---- value = d scale_s q - dmin min_s ----------------------------------------------------------------------- */

struct shifted {
    uint16_t h, hmin; /* d and dmin as float16 */
    float d, dmin, e;
    int scale[MAX_SUBS], min[MAX_SUBS];
};

/* Makes the best of eight pairs of units the block's: each with the integers nearest to the real numbers. */
static void shifted_try(const struct encode_block *b, const struct kind *k, const float *real,
                        const float *real_min, const float units[FIT_LANES], const float units_min[FIT_LANES],
                        struct shifted *best)
{
    struct shifted t[FIT_LANES];
    for (int l = 0; l < FIT_LANES; l++) {
        t[l].e = 0;
        t[l].h = encode_f16(units[l], b->exponent, &t[l].d);
        t[l].hmin = encode_f16(units_min[l], b->exponent, &t[l].dmin);
    }
    for (int s = 0; s < k->n_subs; s++) {
        const struct fit_run r = run_of(b, k, s);
        float d[FIT_LANES], off[FIT_LANES], e[FIT_LANES];
        for (int l = 0; l < FIT_LANES; l++) {
            struct shifted *p = &t[l];
            p->scale[s] = clamp_round(p->d > 0x1p-120f ? real[s] / p->d : 0, k->lo, k->hi);
            p->min[s] = clamp_round(p->dmin > 0x1p-120f ? real_min[s] / p->dmin : 0, 0, k->hi);
            d[l] = p->d * (float)p->scale[s];
            off[l] = -p->dmin * (float)p->min[s];
        }
        fit_errors(&r, &k->c, d, off, e);
        for (int l = 0; l < FIT_LANES; l++)
            t[l].e += e[l];
    }
    for (int l = 0; l < FIT_LANES; l++)
        if (t[l].e < best->e)
            *best = t[l];
}

/* Each sub-block's pair of integers becomes the best of it and its neighbours (of the eight, the one with less of
 * both is left out for the pair itself: it is hardly ever the best). */
static void shifted_move_integers(const struct encode_block *b, const struct kind *k, struct shifted *t)
{
    static const int moves[FIT_LANES][2] = {{0, 0}, {-1, 0}, {1, 0},  {0, -1},
                                            {0, 1}, {1, 1},  {1, -1}, {-1, 1}};
    t->e = 0;
    for (int s = 0; s < k->n_subs; s++) {
        const struct fit_run r = run_of(b, k, s);
        int scale[FIT_LANES], min[FIT_LANES], at = 0;
        float d[FIT_LANES], off[FIT_LANES], e[FIT_LANES];
        for (int l = 0; l < FIT_LANES; l++) {
            scale[l] = t->scale[s] + moves[l][0];
            min[l] = t->min[s] + moves[l][1];
            if (scale[l] < k->lo || scale[l] > k->hi || min[l] < 0 || min[l] > k->hi) {
                scale[l] = t->scale[s];
                min[l] = t->min[s];
            }
            d[l] = t->d * (float)scale[l];
            off[l] = -t->dmin * (float)min[l];
        }
        fit_errors(&r, &k->c, d, off, e);
        for (int l = 1; l < FIT_LANES; l++)
            at = e[l] < e[at] ? l : at;
        t->scale[s] = scale[at];
        t->min[s] = min[at];
        t->e += e[at];
    }
}

/* The least-squares (d, dmin) for the codes of t: normal equations of x ~ d (scale q) - dmin (min). */
static bool shifted_solve(const struct encode_block *b, const struct kind *k, const struct shifted *t,
                          float *d, float *dmin)
{
    double aa = 0, ab = 0, bb = 0, xa = 0, xb = 0;
    for (int s = 0; s < k->n_subs; s++) {
        const struct fit_run r = run_of(b, k, s);
        struct fit_sums f;
        const double sc = t->scale[s], mn = t->min[s];
        fit_sum(&r, &k->c, t->d * (float)t->scale[s], -t->dmin * (float)t->min[s], &f);
        aa += sc * sc * (double)f.qq;
        ab += sc * mn * (double)f.q;
        bb += mn * mn * (double)f.one;
        xa += sc * (double)f.xq;
        xb += mn * (double)f.x;
    }
    const double det = aa * bb - ab * ab;
    if (det > 1e-9 * aa * bb) {
        *d = (float)((xa * bb - xb * ab) / det);
        *dmin = (float)((xa * ab - xb * aa) / det);
    } else {
        *d = aa > 0 ? (float)(xa / aa) : 0;
        *dmin = 0;
    }
    return *d > 0 && *dmin >= 0;
}

static bool shifted_resolve(const struct encode_block *b, const struct kind *k, struct shifted *t)
{
    struct shifted next = *t;
    float d, dmin;
    if (!shifted_solve(b, k, t, &d, &dmin))
        return false;
    next.h = encode_f16(d, b->exponent, &next.d);
    next.hmin = encode_f16(dmin, b->exponent, &next.dmin);
    shifted_move_integers(b, k, &next);
    if (!(next.e < t->e))
        return false;
    *t = next;
    return true;
}

/* The unit that suits n real numbers >= 0 best as whole multiples of at most hi: max / k with k from hi down to
 * two thirds of it. weight[s]: of the squared distance of number s from its multiple. */
static float best_unit(const float *real, const float *weight, int n, int hi)
{
    const float step = hi < 32 ? 0.5f : 1.0f;
    float max = 0, found = 0, best = INFINITY;
    for (int s = 0; s < n; s++)
        max = real[s] > max ? real[s] : max;
    for (float k = (float)hi; k >= (float)hi * 0.67f && max > 0; k -= step) {
        const float unit = max / k;
        float e = 0;
        for (int s = 0; s < n; s++) {
            const float gap = real[s] - unit * (float)clamp_round(real[s] / unit, 0, hi);
            e += weight[s] * gap * gap;
        }
        if (e < best) {
            best = e;
            found = unit;
        }
    }
    return found;
}

static void fit_shifted(const struct encode_block *b, const struct kind *k, struct shifted *out)
{
    float real[MAX_SUBS], real_min[MAX_SUBS], weight[MAX_SUBS], weight_min[MAX_SUBS], max = 0, max_min = 0;
    *out = (struct shifted){.e = INFINITY};
    for (int s = 0; s < k->n_subs; s++) {
        const struct fit_run r = run_of(b, k, s);
        struct fit_sums sums;
        float off = 0;
        real[s] = 0;
        if (!b->zero)
            fit_affine(&r, &k->c, 0, &real[s], &off);
        real_min[s] = -off;
        fit_sum(&r, &k->c, real[s], off, &sums);
        weight[s] = sums.qq;
        weight_min[s] = sums.one;
        max = real[s] > max ? real[s] : max;
        max_min = real_min[s] > max_min ? real_min[s] : max_min;
    }
    const float hi = (float)k->hi;
    /* Pairs of units: what suits, the largest as the highest integer, or one less. */
    const float unit[3] = {best_unit(real, weight, k->n_subs, k->hi), max / hi, max / (hi - 1)};
    const float unit_min[3] = {best_unit(real_min, weight_min, k->n_subs, k->hi), max_min / hi,
                               max_min / (hi - 1)};
    float units[FIT_LANES], units_min[FIT_LANES];
    for (int i = 0; i < FIT_LANES; i++) { /* all but the last with the last */
        units[i] = unit[i / 3];
        units_min[i] = unit_min[i % 3];
    }
    shifted_try(b, k, real, real_min, units, units_min, out);
    shifted_move_integers(b, k, out);
    for (int i = 0; i < ROUNDS && shifted_resolve(b, k, out); i++)
        ;
}

static void shifted_codes(const struct encode_block *b, const struct kind *k, const struct shifted *t,
                          uint8_t *q)
{
    float codes[ENCODE_MAX_BLOCK];
    for (int s = 0; s < k->n_subs; s++) {
        const struct fit_run r = run_of(b, k, s);
        fit_codes(&r, &k->c, t->d * (float)t->scale[s], -t->dmin * (float)t->min[s], codes + s * k->sub);
    }
    for (int i = 0; i < 256; i++)
        q[i] = (uint8_t)codes[i];
}

void encode_q2_k(const struct encode_block *b, uint8_t *dst)
{
    static const struct kind kind = {16, 16, {0, 3}, 0, 15};
    struct shifted t;
    uint8_t q[256], *qs = dst + 16;
    fit_shifted(b, &kind, &t);
    shifted_codes(b, &kind, &t, q);
    memset(dst, 0, 80);
    for (int s = 0; s < 16; s++)
        dst[s] = (uint8_t)(t.scale[s] | t.min[s] << 4);
    for (int i = 0; i < 256; i++) {
        uint8_t *to = &qs[i / 128 * 32 + i % 32];
        *to = (uint8_t)(*to | q[i] << (i / 32 % 4 * 2));
    }
    encode_store_u16(dst + 80, t.h);
    encode_store_u16(dst + 82, t.hmin);
}

/* 8 scales and 8 minima of six bits into 12 bytes. */
static void pack_scale_min(const struct shifted *t, uint8_t *p)
{
    for (int i = 0; i < 4; i++) {
        p[i] = (uint8_t)(t->scale[i] | t->scale[i + 4] >> 4 << 6);
        p[i + 4] = (uint8_t)(t->min[i] | t->min[i + 4] >> 4 << 6);
        p[i + 8] = (uint8_t)((t->scale[i + 4] & 15) | (t->min[i + 4] & 15) << 4);
    }
}

/* Low four bits of 256 codes: byte l of run r (32 bytes) holds values 64 r + l and 64 r + 32 + l. */
static void pack_k_nibbles(const uint8_t q[256], uint8_t *qs)
{
    for (int r = 0; r < 4; r++)
        for (int l = 0; l < 32; l++)
            qs[32 * r + l] = (uint8_t)((q[64 * r + l] & 15) | (q[64 * r + 32 + l] & 15) << 4);
}

void encode_q4_k(const struct encode_block *b, uint8_t *dst)
{
    static const struct kind kind = {8, 32, {0, 15}, 0, 63};
    struct shifted t;
    uint8_t q[256];
    fit_shifted(b, &kind, &t);
    shifted_codes(b, &kind, &t, q);
    encode_store_u16(dst, t.h);
    encode_store_u16(dst + 2, t.hmin);
    pack_scale_min(&t, dst + 4);
    pack_k_nibbles(q, dst + 16);
}

void encode_q5_k(const struct encode_block *b, uint8_t *dst)
{
    static const struct kind kind = {8, 32, {0, 31}, 0, 63};
    struct shifted t;
    uint8_t q[256], *qh = dst + 16;
    fit_shifted(b, &kind, &t);
    shifted_codes(b, &kind, &t, q);
    encode_store_u16(dst, t.h);
    encode_store_u16(dst + 2, t.hmin);
    pack_scale_min(&t, dst + 4);
    memset(qh, 0, 32);
    for (int i = 0; i < 256; i++)
        qh[i % 32] = (uint8_t)(qh[i % 32] | (q[i] >> 4) << (i / 32));
    pack_k_nibbles(q, dst + 48);
}
