/* Weighted least squares for one run of values: x_i is approximated by d q_i + off with integer codes q_i in
 * [lo, hi]. Private to the encoders.
 *
 * For fixed (d, off) the best code is the nearest; for fixed codes the best (d, off) solves a 2 x 2 linear
 * system (normal equations), and the squared error is sum w x^2 less what the solution explains. A fit looks at
 * a grid of ends for the range, takes the codes of each and what their solution explains, and goes on from the
 * best by alternating both steps. */
#ifndef HASTEN_FORMATS_ENCODE_FIT_H
#define HASTEN_FORMATS_ENCODE_FIT_H

#define FIT_MAX_RUN 32

struct fit_run {
    const float *x, *w; /* [n] values of magnitude <= 1, weights in (0, 1] */
    int n;              /* 16 or 32 */
};

struct fit_range {
    float lo, hi; /* whole numbers, lo <= 0 <= hi */
};

struct fit_sums { /* over a run with the nearest codes: sums of w times what the name says */
    float one, x, q, qq, xq;
};

/* sum w (x - d q - off)^2 with the nearest codes; d == 0: codes are 0. The same for FIT_LANES pairs at once, which
 * costs little more than for one. */
#define FIT_LANES 8
void fit_errors(const struct fit_run *r, const struct fit_range *c, const float d[FIT_LANES],
                const float off[FIT_LANES], float e[FIT_LANES]);
float fit_error(const struct fit_run *r, const struct fit_range *c, float d, float off);
void fit_sum(const struct fit_run *r, const struct fit_range *c, float d, float off, struct fit_sums *out);
void fit_codes(const struct fit_run *r, const struct fit_range *c, float d, float off, float *q);

/* x ~ d q. The sign of d is free. */
float fit_scale(const struct fit_run *r, const struct fit_range *c);
/* x ~ d q + off, d >= 0, lo == 0. positive_off: whether off may be above zero. */
void fit_affine(const struct fit_run *r, const struct fit_range *c, int positive_off, float *d, float *off);

#endif
