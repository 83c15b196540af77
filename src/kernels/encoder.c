/* The arithmetic of encoders that no other model needs: layer norm with bias, gelu by erf. One build for every
 * instruction set: products and sums only, in a fixed order, no fma, so the bits are the same everywhere; beside
 * the matrices of an encoder they take little time. */
#include "kernels/kernels.h"
#include <math.h>

#define LANES 16

/* The lanes of a fixed reduction (kernels.h) into one. */
static float reduce(float lane[LANES])
{
    for (int step = LANES / 2; step; step /= 2)
        for (int l = 0; l < step; l++)
            lane[l] += lane[l + step];
    return lane[0];
}

void layer_norm(const float *x, const float *w, const float *b, int64_t n, float eps, float *y)
{
    float sum[LANES] = {0}, squares[LANES] = {0};
    const int64_t whole = n - n % LANES;
    for (int64_t i = 0; i < whole; i += LANES)
        for (int l = 0; l < LANES; l++)
            sum[l] += x[i + l];
    for (int64_t i = whole; i < n; i++)
        sum[i - whole] += x[i];
    const float mean = reduce(sum) / (float)n;
    for (int64_t i = 0; i < whole; i += LANES)
        for (int l = 0; l < LANES; l++)
            squares[l] += (x[i + l] - mean) * (x[i + l] - mean);
    for (int64_t i = whole; i < n; i++)
        squares[i - whole] += (x[i] - mean) * (x[i] - mean);
    const float r = 1.0f / sqrtf(reduce(squares) / (float)n + eps);
    for (int64_t i = 0; i < n; i++)
        y[i] = (x[i] - mean) * r * w[i] + b[i];
}

/* erf(x) as x P(x^2) / Q(x^2), beyond [-4, 4] as -1 and 1: within 4e-7 (scripts/fit_erf.py). */
static inline float erf_rational(float x)
{
    const float t = x * x;
    float p = 0x1.48515ap-26f, q = 0x1.0baccep-10f;
    p = p * t - 0x1.04b074p-19f;
    p = p * t + 0x1.34e0c0p-13f;
    p = p * t + 0x1.058604p-8f;
    p = p * t + 0x1.a61754p-5f;
    p = p * t + 0x1.a830f8p-3f;
    p = p * t + 0x1.20dd74p+0f;
    q = q * t + 0x1.ea24dap-7f;
    q = q * t + 0x1.e33508p-4f;
    q = q * t + 0x1.08a5e6p-1f;
    q = q * t + 1.0f;
    const float y = x * p / q;
    return x <= -4.0f ? -1.0f : x >= 4.0f ? 1.0f : y;
}

void gelu_erf(int64_t n, float *y)
{
    for (int64_t i = 0; i < n; i++)
        y[i] = 0.5f * y[i] * (1.0f + erf_rational(y[i] * 0x1.6a09e6p-1f));
}
