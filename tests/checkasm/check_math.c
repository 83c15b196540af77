/* exp_f32 and log_f64 against libm in higher precision. The long double of x86 has 64 bits of mantissa. */
#include "checkasm.h"
#include <math.h>
#include <string.h>

static double ulp_f32(double exact)
{
    int e;
    frexp(exact, &e);
    return ldexp(1.0, e - 24 > -149 ? e - 24 : -149);
}

static void check_exp(struct report *rep)
{
    double worst = 0, worst_denormal = 0;
    for (uint64_t u = 0; u <= 0xffffffffu; u += 1009) { /* a prime step: every exponent, both signs */
        const uint32_t bits = (uint32_t)u;
        float x;
        memcpy(&x, &bits, sizeof x);
        const float y = exp_f32(x);
        if (x != x) {
            expect(rep, y != y, "exp of a NaN");
            continue;
        }
        const double exact = exp((double)x);
        if (exact > 3.40282346638528859812e38 || exact < 0x1p-150) {
            expect(rep, y == (exact > 1 ? INFINITY : 0.0f), "exp(%g) = %g", (double)x, (double)y);
            continue;
        }
        const double error = fabs((double)y - exact) / ulp_f32(exact);
        double *w = exact < 0x1p-126 ? &worst_denormal : &worst;
        *w = error > *w ? error : *w;
    }
    expect(rep, worst <= 1.02 && worst > 0.5, "exp: %g ulp", worst);
    expect(rep, worst_denormal <= 1.02, "exp: %g ulp where the result is denormal", worst_denormal);
    expect(rep,
           exp_f32(0.0f) == 1.0f && exp_f32(-0.0f) == 1.0f && exp_f32(INFINITY) == INFINITY &&
               exp_f32(-INFINITY) == 0.0f,
           "exp of special values");
}

static void check_log(struct report *rep)
{
    struct rng r = {7};
    double worst = 0;
    for (int i = 0; i < 400000; i++) {
        const double u =
            ((double)rng_u32(&r) + 0.5) * 0x1p-32; /* the sampler's own inputs, and all magnitudes */
        const double x = i % 3 == 0   ? u
                         : i % 3 == 1 ? ldexp(1 + u, (int)(rng_u32(&r) % 2000) - 1000)
                                      : 1 - u * 0.01;
        const long double exact = logl((long double)x);
        int e;
        frexp((double)exact, &e);
        const double error = (double)fabsl((long double)log_f64(x) - exact) / ldexp(1.0, e - 53);
        worst = error > worst ? error : worst;
    }
    expect(rep, worst <= 1.0, "log: %g ulp", worst);
    expect(rep,
           log_f64(1.0) == 0 && log_f64(0.0) == -HUGE_VAL && log_f64(-1.0) != log_f64(-1.0) &&
               log_f64(HUGE_VAL) == HUGE_VAL && fabs(log_f64(5e-324) - log(5e-324)) < 1e-12,
           "log of special values");
}

void check_math(struct report *rep)
{
    check_exp(rep);
    check_log(rep);
}
