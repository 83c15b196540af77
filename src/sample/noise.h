/* The noise of sampling: one uniform number per (seed, stream, position, token id), and nothing else in it.
 *
 * Layout, fixed (design, "Noise key"): Philox4x32-10 with
 *     key     = { seed low 32, seed high 32 }
 *     counter = { token id >> 2, position low 32, position high 32, stream }
 * and the draw of a token is output word (token id & 3). Four neighbouring ids share one evaluation, which
 * makes unfiltered sampling over a large vocabulary four times cheaper; the draw is still a function of the
 * four numbers alone. Draws that belong to no token use id 2^32 - 1.
 *
 * x (32 bits) -> u = (x + 1/2) / 2^32 in (0, 1), f64 -> Gumbel g = -log(-log u). With x = 0 ... 2^32 - 1,
 * g lies in [-3.14, 22.88]. */
#ifndef HASTEN_SAMPLE_NOISE_H
#define HASTEN_SAMPLE_NOISE_H
#include "base/rng.h"
#include "kernels/kernels.h"
#include "kernels/row.h"
#include <stdint.h>

#define NOISE_GUMBEL_MAX 22.9 /* no draw exceeds it */

/* The draws of ids 4 * quad ... 4 * quad + 3. */
static inline void noise_quad(uint64_t seed, uint32_t stream, int64_t position, uint32_t quad,
                              uint32_t out[4])
{
    uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
    uint32_t counter[4] = {quad, (uint32_t)(uint64_t)position, (uint32_t)((uint64_t)position >> 32), stream};
    philox4x32(counter, key, out);
}

static inline uint32_t noise_x(uint64_t seed, uint32_t stream, int64_t position, uint32_t id)
{
    uint32_t out[4];
    noise_quad(seed, stream, position, id >> 2, out);
    return out[id & 3];
}

/* The same for many quads at a time: row_passes.noise. */
static inline void noise_start(struct row_noise *n, uint64_t seed, uint32_t stream, int64_t position)
{
    uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
    uint32_t counter[4] = {0, (uint32_t)(uint64_t)position, (uint32_t)((uint64_t)position >> 32), stream};
    row_noise_start(n, key, counter);
}

static inline double noise_gumbel(uint32_t x)
{
    double u = ((double)x + 0.5) * 0x1p-32;
    return -log_f64(-log_f64(u));
}

#endif
