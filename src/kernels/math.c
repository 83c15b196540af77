/* The scalar exp and log that the whole engine shares: the same bits on every instruction set. */
#include "kernels/math.h"
#include "kernels/kernels.h"

float exp_f32(float x)
{
    return exp_f32_inline(x);
}

/* log of a double in plain * and + (no fused operations, so no dependence on the instruction set), after the
 * method of FreeBSD's msun e_log.c: x = 2^e (1 + f), sqrt(1/2) < 1 + f < sqrt(2), s = f / (2 + f),
 * log(1 + f) = f - (f^2/2 - s (f^2/2 + R(s^2))), R by a minimax polynomial of degree 7. Error below 1 ulp. */
double log_f64(double x)
{
    static const double ln2_hi = 6.93147180369123816490e-01, ln2_lo = 1.90821492927058770002e-10;
    static const double c[7] = {6.666666666666735130e-01, 3.999999999940941908e-01, 2.857142874366239149e-01,
                                2.222219843214978396e-01, 1.818357216161805012e-01, 1.531383769920937332e-01,
                                1.479819860511658591e-01};
    if (x != x || x == HUGE_VAL)
        return x;
    if (x <= 0)
        return x < 0 ? (double)NAN : -HUGE_VAL;
    int e;
    double m = frexp(x, &e);
    if (m < 0.70710678118654752440) {
        m *= 2;
        e--;
    }
    const double f = m - 1, s = f / (2 + f), z = s * s, w = z * z;
    const double odd = w * (c[1] + w * (c[3] + w * c[5]));
    const double even = z * (c[0] + w * (c[2] + w * (c[4] + w * c[6])));
    const double r = odd + even, h = 0.5 * f * f, k = e;
    return k * ln2_hi - ((h - (s * (h + r) + k * ln2_lo)) - f);
}
