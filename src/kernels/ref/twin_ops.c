/* Plain twins of the element-wise kernels and of the norm: the operations of x86/ops_*.c, one value at a
 * time. */
#include "kernels/math.h"
#include "kernels/sets.h"

/* Sum of squares by the fixed reduction of kernels.h: lane i % 16 takes its values in ascending order, then
 * lanes are added in a tree of 8, 4, 2, 1. */
CLONES_FMA static float sum_squares(const float *x, int64_t n)
{
    float lane[16] = {0};
    int64_t i = 0;
    for (; i + 16 <= n; i += 16)
        for (int64_t l = 0; l < 16; l++)
            lane[l] = fmaf(x[i + l], x[i + l], lane[l]);
    for (int64_t l = 0; i + l < n; l++)
        lane[l] = fmaf(x[i + l], x[i + l], lane[l]);
    for (int64_t step = 8; step > 0; step /= 2)
        for (int64_t l = 0; l < step; l++)
            lane[l] += lane[l + step];
    return lane[0];
}

void twin_rms_norm(const float *x, const float *w, int64_t n, float eps, float *y)
{
    const float r = 1.0f / sqrtf(sum_squares(x, n) / (float)n + eps);
    for (int64_t i = 0; i < n; i++)
        y[i] = w ? x[i] * r * w[i] : x[i] * r;
}

CLONES_FMA void twin_rope(float *x, const float *cosines, const float *sines, int64_t n_rot, bool neox)
{
    const int64_t half = n_rot / 2;
    for (int64_t i = 0; i < half; i++) {
        float *pa = neox ? x + i : x + 2 * i, *pb = neox ? x + i + half : x + 2 * i + 1;
        const float a = *pa, b = *pb, c = cosines[i], s = sines[i];
        *pa = fmaf(a, c, -(b * s));
        *pb = fmaf(a, s, b * c);
    }
}

CLONES_FMA void twin_silu_mul(const float *gate, const float *up, int64_t n, float *y)
{
    for (int64_t i = 0; i < n; i++)
        y[i] = silu_f32_inline(gate[i]) * up[i];
}

CLONES_FMA void twin_gelu_mul(const float *gate, const float *up, int64_t n, float *y)
{
    for (int64_t i = 0; i < n; i++)
        y[i] = gelu_f32_inline(gate[i]) * up[i];
}

void twin_add(const float *x, int64_t n, float *y)
{
    for (int64_t i = 0; i < n; i++)
        y[i] += x[i];
}

void twin_scale(float s, int64_t n, float *y)
{
    for (int64_t i = 0; i < n; i++)
        y[i] *= s;
}

CLONES_FMA void twin_softcap(float cap, int64_t n, float *y)
{
    for (int64_t i = 0; i < n; i++)
        y[i] = cap * tanh_f32_inline(y[i] / cap);
}
