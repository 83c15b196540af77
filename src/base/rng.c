/* Philox 4x32-10 and the system's randomness. */
#include "base/rng.h"
#include "base/clock.h"
#include <sys/random.h>

void philox4x32(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4])
{
    uint32_t c0 = counter[0], c1 = counter[1], c2 = counter[2], c3 = counter[3];
    uint32_t k0 = key[0], k1 = key[1];
    for (int round = 0; round < PHILOX_ROUNDS; round++) {
        uint64_t p0 = (uint64_t)PHILOX_M0 * c0;
        uint64_t p1 = (uint64_t)PHILOX_M1 * c2;
        c0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0;
        c1 = (uint32_t)p1;
        c2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
        c3 = (uint32_t)p0;
        k0 += PHILOX_W0;
        k1 += PHILOX_W1;
    }
    out[0] = c0;
    out[1] = c1;
    out[2] = c2;
    out[3] = c3;
}

uint64_t random_seed(void)
{
    uint64_t seed;
    if (getrandom(&seed, sizeof seed, 0) == (ssize_t)sizeof seed)
        return seed;
    /* No system randomness: two readings of the clocks, stirred. */
    uint64_t now = clock_now_ns();
    const uint32_t counter[4] = {(uint32_t)now, (uint32_t)(now >> 32), (uint32_t)clock_unix_s(), 0};
    const uint32_t key[2] = {0, 0};
    uint32_t out[4];
    philox4x32(counter, key, out);
    return (uint64_t)out[0] << 32 | out[1];
}
