/* The reference of everything that is not a matmul: each value computed in f64 with libm, rounded once. */
#include "kernels/sets.h"
#include <math.h>

void ref_rms_norm(const float *x, const float *w, int64_t n, float eps, float *y)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += (double)x[i] * (double)x[i];
    const double r = 1.0 / sqrt(sum / (double)n + (double)eps);
    for (int64_t i = 0; i < n; i++)
        y[i] = (float)((double)x[i] * r * (w ? (double)w[i] : 1.0));
}

void ref_rope(float *x, const float *cosines, const float *sines, int64_t n_rot, bool neox)
{
    const int64_t half = n_rot / 2;
    for (int64_t i = 0; i < half; i++) {
        float *pa = neox ? x + i : x + 2 * i, *pb = neox ? x + i + half : x + 2 * i + 1;
        const double a = *pa, b = *pb, c = cosines[i], s = sines[i];
        *pa = (float)(a * c - b * s);
        *pb = (float)(a * s + b * c);
    }
}

void ref_silu_mul(const float *gate, const float *up, int64_t n, float *y)
{
    for (int64_t i = 0; i < n; i++) {
        const double g = gate[i];
        y[i] = (float)(g / (1.0 + exp(-g)) * (double)up[i]);
    }
}

/* gelu in its tanh form, written as x sigmoid(2u): no cancellation for large negative x. */
void ref_gelu_mul(const float *gate, const float *up, int64_t n, float *y)
{
    const double two_s = 1.59576912160573071176; /* 2 sqrt(2/pi) */
    for (int64_t i = 0; i < n; i++) {
        const double g = gate[i], u2 = two_s * g * (1.0 + 0.044715 * g * g);
        y[i] = (float)(g / (1.0 + exp(-u2)) * (double)up[i]);
    }
}

void ref_add(const float *x, int64_t n, float *y)
{
    for (int64_t i = 0; i < n; i++)
        y[i] += x[i];
}

void ref_scale(float s, int64_t n, float *y)
{
    for (int64_t i = 0; i < n; i++)
        y[i] *= s;
}

void ref_softcap(float cap, int64_t n, float *y)
{
    for (int64_t i = 0; i < n; i++)
        y[i] = (float)((double)cap * tanh((double)y[i] / (double)cap));
}
