/* The searches of the encoders (encode_fit.h has the problem). Products are written to small arrays and summed in
 * a fixed tree: the same bits on every machine, and loops that a compiler turns into vectors without being
 * allowed to reorder.
 *
 * Not here: blocks, formats, rounding of scales to what a format can hold. */
#include "formats/encode_fit.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

/* Compiled for wider vectors too, chosen when the program starts. No fused operations: the same bits. */
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && defined(__linux__) &&                 \
    !defined(HASTEN_SANITIZED) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define WIDE __attribute__((target_clones("default", "avx2")))
#else
#define WIDE
#endif
#define INLINE static inline __attribute__((always_inline))

#define ROUNDING 12582912.0f /* 1.5 x 2^23: adding it leaves no bits behind the point */

INLINE float nearest_code(float v, float lo, float hi)
{
    v = v < lo ? lo : v;
    v = v > hi ? hi : v;
    return (v + ROUNDING) - ROUNDING;
}

/* 1 / d, or 0 where it would not be finite: codes are then 0. */
INLINE float inverse(float d)
{
    return fabsf(d) > 0x1p-120f ? 1.0f / d : 0.0f;
}

/* Sum of g[0..n), n = 16 or 32; g is used up. */
INLINE float tree_sum(float *g, int n)
{
    if (n == 32)
        for (int i = 0; i < 16; i++)
            g[i] += g[i + 16];
    for (int i = 0; i < 8; i++)
        g[i] += g[i + 8];
    for (int i = 0; i < 4; i++)
        g[i] += g[i + 4];
    return (g[0] + g[2]) + (g[1] + g[3]);
}

INLINE float error_of(const struct fit_run *r, const struct fit_range *c, float d, float off, int n)
{
    const float t = inverse(d), lo = c->lo, hi = c->hi, *x = r->x, *w = r->w;
    float g[FIT_MAX_RUN];
    for (int i = 0; i < n; i++) {
        const float v = x[i] - off, gap = v - d * nearest_code(v * t, lo, hi);
        g[i] = w[i] * gap * gap;
    }
    return tree_sum(g, n);
}

WIDE float fit_error(const struct fit_run *r, const struct fit_range *c, float d, float off)
{
    return r->n == 32 ? error_of(r, c, d, off, 32) : error_of(r, c, d, off, 16);
}

/* Eight pairs at once, one in each lane of a vector of GCC and Clang (loops over lanes are vectorised badly): nothing
 * is summed across lanes, each goes over the values in order. */
typedef float lanes __attribute__((vector_size(4 * FIT_LANES)));
typedef int32_t lane_mask __attribute__((vector_size(4 * FIT_LANES)));

#define SELECT(mask, a, b) ((lanes)(((mask) & (lane_mask)(a)) | (~(mask) & (lane_mask)(b))))

/* q = the codes nearest to v. */
#define NEAREST_CODES(q, v, lo, hi)                                                                          \
    do {                                                                                                     \
        (q) = SELECT((v) < (lo), (lo), (v));                                                                 \
        (q) = SELECT((q) > (hi), (hi), (q));                                                                 \
        (q) = ((q) + ROUNDING) - ROUNDING;                                                                   \
    } while (0)

INLINE void errors_of(const struct fit_run *r, const struct fit_range *c, const float *d, const float *off,
                      int n, float *out)
{
    lanes t, scale, shift, q, e = {0};
    const lanes lo = (lanes){0} + c->lo, hi = (lanes){0} + c->hi;
    memcpy(&scale, d, sizeof scale);
    memcpy(&shift, off, sizeof shift);
    for (int l = 0; l < FIT_LANES; l++)
        t[l] = inverse(d[l]);
    for (int i = 0; i < n; i++) {
        const lanes v = r->x[i] - shift, scaled = v * t;
        NEAREST_CODES(q, scaled, lo, hi);
        const lanes gap = v - scale * q;
        e += r->w[i] * gap * gap;
    }
    memcpy(out, &e, sizeof e);
}

WIDE void fit_errors(const struct fit_run *r, const struct fit_range *c, const float d[FIT_LANES],
                     const float off[FIT_LANES], float e[FIT_LANES])
{
    errors_of(r, c, d, off, r->n, e);
}

struct lane_sums {
    float q[FIT_LANES], qq[FIT_LANES], xq[FIT_LANES];
};

INLINE void lane_sums_of(const struct fit_run *r, const struct fit_range *c, const float *d, const float *off,
                         struct lane_sums *out)
{
    lanes t, shift, q, sum_q = {0}, sum_qq = {0}, sum_xq = {0};
    const lanes lo = (lanes){0} + c->lo, hi = (lanes){0} + c->hi;
    memcpy(&shift, off, sizeof shift);
    for (int l = 0; l < FIT_LANES; l++)
        t[l] = inverse(d[l]);
    for (int i = 0; i < r->n; i++) {
        const lanes scaled = (r->x[i] - shift) * t;
        NEAREST_CODES(q, scaled, lo, hi);
        const lanes wq = r->w[i] * q;
        sum_q += wq;
        sum_qq += wq * q;
        sum_xq += wq * r->x[i];
    }
    memcpy(out->q, &sum_q, sizeof sum_q);
    memcpy(out->qq, &sum_qq, sizeof sum_qq);
    memcpy(out->xq, &sum_xq, sizeof sum_xq);
}

WIDE static void sum_lanes(const struct fit_run *r, const struct fit_range *c, const float *d,
                           const float *off, struct lane_sums *out)
{
    lane_sums_of(r, c, d, off, out);
}

/* one and x do not depend on the codes: summed only when asked for. */
INLINE void sum_codes(const struct fit_run *r, const struct fit_range *c, float d, float off, int n,
                      struct fit_sums *out)
{
    const float t = inverse(d), lo = c->lo, hi = c->hi, *x = r->x, *w = r->w;
    float q[FIT_MAX_RUN], qq[FIT_MAX_RUN], xq[FIT_MAX_RUN];
    for (int i = 0; i < n; i++) {
        const float code = nearest_code((x[i] - off) * t, lo, hi), wq = w[i] * code;
        q[i] = wq;
        qq[i] = wq * code;
        xq[i] = wq * x[i];
    }
    out->q = tree_sum(q, n);
    out->qq = tree_sum(qq, n);
    out->xq = tree_sum(xq, n);
}

INLINE void sum_values(const struct fit_run *r, int n, struct fit_sums *out)
{
    const float *x = r->x, *w = r->w;
    float one[FIT_MAX_RUN], wx[FIT_MAX_RUN];
    for (int i = 0; i < n; i++) {
        one[i] = w[i];
        wx[i] = w[i] * x[i];
    }
    out->one = tree_sum(one, n);
    out->x = tree_sum(wx, n);
}

WIDE void fit_sum(const struct fit_run *r, const struct fit_range *c, float d, float off,
                  struct fit_sums *out)
{
    if (r->n == 32) {
        sum_values(r, 32, out);
        sum_codes(r, c, d, off, 32, out);
    } else {
        sum_values(r, 16, out);
        sum_codes(r, c, d, off, 16, out);
    }
}

void fit_codes(const struct fit_run *r, const struct fit_range *c, float d, float off, float *q)
{
    const float t = inverse(d);
    for (int i = 0; i < r->n; i++)
        q[i] = nearest_code((r->x[i] - off) * t, c->lo, c->hi);
}

/* ---- x ~ d q --------------------------------------------------------------------------------------------- */

static float largest_magnitude(const struct fit_run *r)
{
    float amax = 0;
    for (int i = 0; i < r->n; i++)
        amax = fabsf(r->x[i]) > amax ? fabsf(r->x[i]) : amax;
    return amax;
}

/* The best start of a grid. The largest value lands between `far` (a little beyond the last code) and `near`,
 * where it is clamped. */
static float scan_scales(const struct fit_run *r, const struct fit_range *c, float amax)
{
    const float far = -c->lo + 0.5f, near = c->hi * (c->hi < 8 ? 0.45f : c->hi < 64 ? 0.75f : 0.95f);
    const int steps = c->hi < 64 ? 2 * FIT_LANES : FIT_LANES, signs = -c->lo == c->hi ? 1 : 2;
    const float none[FIT_LANES] = {0};
    float best_d = 0, best = 0;
    for (int at = 0; at < signs * steps; at += FIT_LANES) {
        float d[FIT_LANES];
        struct lane_sums s;
        for (int l = 0; l < FIT_LANES; l++) {
            const float end = far - (far - near) * (float)((at + l) % steps) / (float)(steps - 1);
            d[l] = (at < steps ? -amax : amax) / end;
        }
        sum_lanes(r, c, d, none, &s);
        for (int l = 0; l < FIT_LANES; l++) {
            const float explained = s.qq[l] > 0 ? s.xq[l] * (s.xq[l] / s.qq[l]) : 0;
            if (explained > best) {
                best = explained;
                best_d = s.xq[l] / s.qq[l];
            }
        }
    }
    return best_d;
}

float fit_scale(const struct fit_run *r, const struct fit_range *c)
{
    const float amax = largest_magnitude(r);
    if (!(amax > 0))
        return 0;
    float d = scan_scales(r, c, amax), e = fit_error(r, c, d, 0);
    for (int i = 0; i < 3; i++) { /* re-solve for the codes that d gives, while it helps */
        struct fit_sums s;
        fit_sum(r, c, d, 0, &s);
        const float next = s.qq > 0 ? s.xq / s.qq : 0, next_e = fit_error(r, c, next, 0);
        if (!(next_e < e))
            break;
        d = next;
        e = next_e;
    }
    return d;
}

/* ---- x ~ d q + off --------------------------------------------------------------------------------------- */

struct affine {
    float d, off, explained;
};

/* The solution for codes with these sums. d <= 0: none of use. */
static struct affine solve_affine(const struct fit_sums *s, int positive_off)
{
    const double one = (double)s->one, q = (double)s->q, qq = (double)s->qq, x = (double)s->x,
                 xq = (double)s->xq;
    const double det = one * qq - q * q;
    if (det > 1e-6 * one * qq) {
        const double d = (one * xq - x * q) / det, off = (qq * x - q * xq) / det;
        if (d > 0 && (positive_off || off <= 0))
            return (struct affine){(float)d, (float)off, (float)(d * xq + off * x)};
    }
    const double d = qq > 0 ? xq / qq : 0;
    return (struct affine){(float)d, 0, (float)(d * xq)};
}

/* The best start of a grid: the ends of the range, moved inwards in steps; few codes gain most from clamping the
 * outermost values. */
static struct affine scan_affine(const struct fit_run *r, const struct fit_range *c, int positive_off,
                                 float min, float max)
{
    const int steps = c->hi < 8 ? 6 : 4, n = steps * steps;
    const float step = (max - min) * (c->hi < 8 ? 0.06f : c->hi < 16 ? 0.025f : 0.015f);
    struct affine best = {0, 0, 0};
    struct fit_sums s;
    fit_sum(r, c, 0, 0, &s);
    if (s.x < 0 || positive_off) /* the best constant */
        best = (struct affine){0, s.x / s.one, s.x * (s.x / s.one)};
    for (int at = 0; at < n; at += FIT_LANES) {
        float d[FIT_LANES], from[FIT_LANES];
        struct lane_sums sums;
        for (int l = 0; l < FIT_LANES; l++) {
            const int i = at + l < n ? at + l : n - 1;
            from[l] = min + step * (float)(i / steps);
            d[l] = (max - step * (float)(i % steps) - from[l]) / c->hi;
        }
        sum_lanes(r, c, d, from, &sums);
        for (int l = 0; l < FIT_LANES; l++) {
            s.q = sums.q[l];
            s.qq = sums.qq[l];
            s.xq = sums.xq[l];
            const struct affine a = solve_affine(&s, positive_off);
            if (a.d > 0 && a.explained > best.explained)
                best = a;
        }
    }
    return best;
}

void fit_affine(const struct fit_run *r, const struct fit_range *c, int positive_off, float *d, float *off)
{
    float min = r->x[0], max = r->x[0];
    for (int i = 1; i < r->n; i++) {
        min = r->x[i] < min ? r->x[i] : min;
        max = r->x[i] > max ? r->x[i] : max;
    }
    if (min > 0 && !positive_off)
        min = 0;
    struct affine best = scan_affine(r, c, positive_off, min, max);
    float e = fit_error(r, c, best.d, best.off);
    for (int i = 0; i < 3; i++) { /* re-solve for the codes of the solution, while it helps */
        struct fit_sums s;
        fit_sum(r, c, best.d, best.off, &s);
        const struct affine next = solve_affine(&s, positive_off);
        const float next_e = fit_error(r, c, next.d, next.off);
        if (!(next.d > 0 && next_e < e))
            break;
        best = next;
        e = next_e;
    }
    *d = best.d;
    *off = best.off;
}
