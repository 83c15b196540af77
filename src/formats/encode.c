/* Encoders of plain floats and of blocks of 32, and the table of all encoders (encode.h).
 *
 * Owns: making a block ready (range, weights), rounding of scales to float16. The blocks of 256 are in encode_k.c,
 * the searches in encode_fit.c. */
#include "formats/encode.h"
#include "formats/encode_block.h"

#include <math.h>
#include <string.h>
#include <strings.h>

#define F16_MAX 65504.0f
#define F16_HALF_SMALLEST 0x1p-25f

/* ---- a block made ready ----------------------------------------------------------------------------------- */

static bool valid_importance(float h)
{
    return h >= 0 && h <= 3.402823466e38f; /* false for NaN */
}

/* What an error at each value counts: importance times the root of (mean square of the block + square of the value).
 * The second factor makes clamping a large value dearer than the squared error alone says; it brings models nearer to
 * what they were (smollm2 at Q4_0: KL 0.38 instead of 0.43, with an importance matrix 0.30 instead of 0.31). The idea
 * is llama.cpp's. */
static void load_weights(const float *h, const float *x, int n, float *w)
{
    double sum = 0, max = 0, mean2 = 0, w_max = 0, raw[ENCODE_MAX_BLOCK];
    int n_valid = 0;
    for (int i = 0; i < n; i++) {
        mean2 += (double)x[i] * (double)x[i] / n;
        if (h && valid_importance(h[i])) {
            sum += (double)h[i];
            max = (double)h[i] > max ? (double)h[i] : max;
            n_valid++;
        }
    }
    for (int i = 0; i < n; i++) {
        const double v = !h || max == 0           ? 1
                         : valid_importance(h[i]) ? (double)h[i] / max
                                                  : sum / n_valid / max;
        raw[i] = v * sqrt(mean2 + (double)x[i] * (double)x[i]);
        w_max = raw[i] > w_max ? raw[i] : w_max;
    }
    for (int i = 0; i < n; i++) { /* nothing is free: a column without importance still gets near codes */
        const double v = w_max > 0 ? raw[i] / w_max : 1;
        w[i] = v > 1e-8 ? (float)v : 1e-8f;
    }
}

int encode_load(const float *x, const float *importance, int n, struct encode_block *out)
{
    float amax = 0;
    for (int i = 0; i < n; i++) {
        if (!isfinite(x[i]))
            return i;
        amax = fabsf(x[i]) > amax ? fabsf(x[i]) : amax;
    }
    out->zero = amax < F16_HALF_SMALLEST;
    out->exponent = 0;
    if (!out->zero)
        frexpf(amax, &out->exponent);
    const float factor = out->zero ? 0.0f : ldexpf(1.0f, -out->exponent);
    for (int i = 0; i < n; i++)
        out->x[i] = x[i] * factor;
    load_weights(importance, out->x, n, out->w);
    return -1;
}

uint16_t encode_f16(float d, int exponent, float *back)
{
    float v = ldexpf(d, exponent);
    v = v > F16_MAX ? F16_MAX : v < -F16_MAX ? -F16_MAX : v;
    const uint16_t h = f32_to_f16(v);
    *back = ldexpf(f16_to_f32(h), -exponent);
    return h;
}

/* ---- blocks of 32 ----------------------------------------------------------------------------------------- */

/* A scale near d as float16: of its rounding and that of its neighbours, the one with the least error. */
static uint16_t settle_scale(const struct fit_run *r, const struct fit_range *c, int exponent, float d,
                             float *back)
{
    uint16_t best = encode_f16(d, exponent, back);
    float best_e = fit_error(r, c, *back, 0);
    for (int step = -1; step <= 1; step += 2) {
        float other;
        const float next = d * (1.0f + (float)step * 0x1p-10f);
        const uint16_t h = encode_f16(next, exponent, &other);
        const float e = fit_error(r, c, other, 0);
        if (e < best_e) {
            best_e = e;
            best = h;
            *back = other;
        }
    }
    return best;
}

/* Codes of d q: the float16 d at dst, codes shifted to be unsigned in q. */
static void encode_scaled(const struct encode_block *b, float lo, float hi, uint8_t *dst, int q[32])
{
    const struct fit_run r = {b->x, b->w, 32};
    const struct fit_range c = {lo, hi};
    float d = 0, codes[32];
    encode_store_u16(dst, settle_scale(&r, &c, b->exponent, b->zero ? 0 : fit_scale(&r, &c), &d));
    fit_codes(&r, &c, d, 0, codes);
    for (int i = 0; i < 32; i++)
        q[i] = (int)codes[i] - (int)lo;
}

/* Codes of d q + m: float16 d and m at dst. */
static void encode_shifted(const struct encode_block *b, float hi, uint8_t *dst, int q[32])
{
    const struct fit_run r = {b->x, b->w, 32};
    const struct fit_range c = {0, hi};
    float d = 0, m = 0, other, codes[32];
    if (!b->zero)
        fit_affine(&r, &c, 1, &d, &m);
    encode_store_u16(dst, encode_f16(d, b->exponent, &d));
    uint16_t h = encode_f16(m, b->exponent, &m);
    /* d was rounded: the best m for it */
    struct fit_sums s;
    fit_sum(&r, &c, d, m, &s);
    const uint16_t again = encode_f16((s.x - d * s.q) / s.one, b->exponent, &other);
    if (fit_error(&r, &c, d, other) < fit_error(&r, &c, d, m)) {
        h = again;
        m = other;
    }
    encode_store_u16(dst + 2, h);
    fit_codes(&r, &c, d, m, codes);
    for (int i = 0; i < 32; i++)
        q[i] = (int)codes[i];
}

static void pack_nibbles(const int q[32], uint8_t *qs)
{
    for (int j = 0; j < 16; j++)
        qs[j] = (uint8_t)((q[j] & 15) | (q[j + 16] & 15) << 4);
}

static void pack_fifth_bits(const int q[32], uint8_t *high)
{
    memset(high, 0, 4);
    for (int i = 0; i < 32; i++)
        high[i / 8] = (uint8_t)(high[i / 8] | (q[i] >> 4) << (i % 8));
}

static void encode_q4_0(const struct encode_block *b, uint8_t *dst)
{
    int q[32];
    encode_scaled(b, -8, 7, dst, q);
    pack_nibbles(q, dst + 2);
}

static void encode_q5_0(const struct encode_block *b, uint8_t *dst)
{
    int q[32];
    encode_scaled(b, -16, 15, dst, q);
    pack_fifth_bits(q, dst + 2);
    pack_nibbles(q, dst + 6);
}

static void encode_q8_0(const struct encode_block *b, uint8_t *dst)
{
    int q[32];
    encode_scaled(b, -127, 127, dst, q);
    for (int i = 0; i < 32; i++)
        dst[2 + i] = (uint8_t)(int8_t)(q[i] - 127);
}

static void encode_q4_1(const struct encode_block *b, uint8_t *dst)
{
    int q[32];
    encode_shifted(b, 15, dst, q);
    pack_nibbles(q, dst + 4);
}

static void encode_q5_1(const struct encode_block *b, uint8_t *dst)
{
    int q[32];
    encode_shifted(b, 31, dst, q);
    pack_fifth_bits(q, dst + 4);
    pack_nibbles(q, dst + 8);
}

/* ---- plain floats ------------------------------------------------------------------------------------------ */

static void encode_plain(uint32_t id, float v, uint8_t *dst)
{
    if (id == QUANT_F16) {
        encode_store_u16(dst, f32_to_f16(v > F16_MAX ? F16_MAX : v < -F16_MAX ? -F16_MAX : v));
    } else if (id == QUANT_BF16) {
        uint16_t h = f32_to_bf16(v);
        if ((h & 0x7fff) == 0x7f80) /* rounded up to infinity */
            h--;
        encode_store_u16(dst, h);
    } else {
        memcpy(dst, &v, sizeof v);
    }
}

/* ---- the table --------------------------------------------------------------------------------------------- */

static const struct {
    uint32_t id;
    void (*encode)(const struct encode_block *b, uint8_t *dst); /* NULL: plain floats */
} encoders[] = {
    {QUANT_F32, NULL},         {QUANT_F16, NULL},         {QUANT_BF16, NULL},
    {QUANT_Q4_0, encode_q4_0}, {QUANT_Q4_1, encode_q4_1}, {QUANT_Q5_0, encode_q5_0},
    {QUANT_Q5_1, encode_q5_1}, {QUANT_Q8_0, encode_q8_0}, {QUANT_Q2_K, encode_q2_k},
    {QUANT_Q3_K, encode_q3_k}, {QUANT_Q4_K, encode_q4_k}, {QUANT_Q5_K, encode_q5_k},
    {QUANT_Q6_K, encode_q6_k},
};

#define N_ENCODERS (sizeof encoders / sizeof *encoders)

static int encoder_of(const struct quant_type *type)
{
    for (size_t i = 0; i < N_ENCODERS; i++)
        if (type && encoders[i].id == type->id)
            return (int)i;
    return -1;
}

bool quant_can_encode(const struct quant_type *type)
{
    return encoder_of(type) >= 0;
}

const struct quant_type *quant_encodable(const char *name)
{
    for (size_t i = 0; i < N_ENCODERS; i++) {
        const struct quant_type *t = quant_type_get(encoders[i].id);
        if (strcasecmp(t->name, name) == 0)
            return t;
    }
    return NULL;
}

int64_t quant_encode(const struct quant_type *type, const float *x, int64_t n, const float *importance,
                     void *dst)
{
    uint8_t *to = dst;
    const int e = encoder_of(type);
    if (e < 0)
        return 0;
    if (!encoders[e].encode) {
        for (int64_t i = 0; i < n; i++, to += type->block_bytes) {
            if (!isfinite(x[i]))
                return i;
            encode_plain(type->id, x[i], to);
        }
        return -1;
    }
    struct encode_block b;
    for (int64_t i = 0; i < n; i += type->block, to += type->block_bytes) {
        const int bad = encode_load(x + i, importance ? importance + i : NULL, type->block, &b);
        if (bad >= 0)
            return i + bad;
        encoders[e].encode(&b, to);
    }
    return -1;
}
