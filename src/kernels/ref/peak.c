/* Limit loops in plain C, for CPUs without a faster set: what a compiler makes of them for the baseline. The
 * sums are kept where the compiler cannot know their values, so that no loop is folded away. */
#include "kernels/peak.h"
#include <string.h>

#define CHAINS 32
#define OPAQUE(x) __asm__ volatile("" : "+m"(x)) /* its contents may have changed */

static void run_int8(int64_t rounds)
{
    int8_t a[CHAINS], b[CHAINS];
    int32_t sum[CHAINS] = {0};
    memset(a, 1, sizeof a);
    memset(b, 2, sizeof b);
    OPAQUE(a);
    OPAQUE(b);
    for (int64_t r = 0; r < rounds; r++) {
        for (int i = 0; i < CHAINS; i++)
            sum[i] += a[i] * b[i];
        OPAQUE(a);
    }
    OPAQUE(sum);
}

static void run_f32(int64_t rounds)
{
    float a[CHAINS], sum[CHAINS] = {0};
    for (int i = 0; i < CHAINS; i++)
        a[i] = (float)i;
    OPAQUE(a);
    for (int64_t r = 0; r < rounds; r++)
        for (int i = 0; i < CHAINS; i++)
            sum[i] = sum[i] * 0.5f + a[i];
    OPAQUE(sum);
}

const struct peak peak_ref_int8 = {"plain C", 2.0 * CHAINS, run_int8};
const struct peak peak_ref_f32 = {"plain C", 2.0 * CHAINS, run_f32};

uint64_t peak_read_ref(const uint8_t *p, size_t n)
{
    const size_t run = n / PEAK_STREAMS;
    uint64_t sum[8] = {0};
    for (size_t i = 0; i < run; i += 64)
        for (size_t s = 0; s < PEAK_STREAMS; s++) {
            const uint8_t *at = p + s * run + i;
            uint64_t v[8];
            __builtin_prefetch(at + 2048);
            memcpy(v, at, sizeof v);
            for (int j = 0; j < 8; j++)
                sum[j] += v[j];
        }
    return sum[0] + sum[1] + sum[2] + sum[3] + sum[4] + sum[5] + sum[6] + sum[7];
}
