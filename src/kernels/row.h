/* Passes over one row of logits: what the sampler needs of a whole vocabulary, at a cost of microseconds.
 *
 * A row is cut into blocks of ROW_BLOCK values; who has a partial block at the end pads it with -INFINITY.
 * Every value is finite or -INFINITY here, or is treated as -INFINITY (maxima) and must not be passed on: the
 * caller's floors are above -INFINITY, so that only finite values are ever summed.
 *
 * Three builds of the same plain C (row_body.h) exist, for AVX-512, AVX2 and the baseline of the architecture;
 * they give the same bits. They do not choose, sort or know a vocabulary: that is sample/. */
#ifndef HASTEN_KERNELS_ROW_H
#define HASTEN_KERNELS_ROW_H
#include "base/rng.h"
#include <stdbool.h>
#include <stdint.h>

#define ROW_BLOCK 64
#define ROW_LANES 16
#define ROW_CUTS 12

/* Sums of exp(value - max), f32 exponentials by kernels.h, over values >= the floor of their call.
 * lane[l] holds positions l, l + 16, l + 32, ... of what was added, ascending, in f64; row_sum_total combines
 * them by the fixed reduction. For c < n_cuts, at_cut[c] estimates the part with value >= cut[c] (descending)
 * to a relative error below 1e-3: for choosing a cut, not for the law. */
struct row_sum {
    double lane[ROW_LANES];
    float max;
    int32_t n_cuts;
    float cut[ROW_CUTS];
    float at_cut[ROW_CUTS][ROW_LANES];
};

/* Philox 4x32-10 (base/rng.h) prepared for many counters under one key; words in 64 bits, as vectors take them. */
struct row_noise {
    uint64_t counter[4]; /* [0] is not used */
    uint64_t key[PHILOX_ROUNDS][2];
};
void row_noise_start(struct row_noise *s, const uint32_t key[2], const uint32_t counter[4]);

struct row_passes {
    const char *name;
    /* block_max[b] = the largest finite value of block b, -INFINITY without one. x: [n_blocks * 64]. */
    void (*maxima)(const float *x, int32_t n_blocks, float *block_max);
    /* The same, and copy[i] = x[i], not finite: -INFINITY. */
    void (*copy)(const float *x, int32_t n_blocks, float *copy, float *block_max);
    /* Adds n_blocks blocks to s; blocks with block_max < floor add nothing and are not read. floor > -INFINITY;
     * s->max >= every value added. */
    void (*add)(struct row_sum *s, const float *x, const float *block_max, int32_t n_blocks, float floor);
    /* e[i] = exp(x[i] - max) for finite x[i] <= max; n a multiple of 16. */
    void (*exps)(const float *x, int64_t n, float max, float *e);
    /* Philox words of the 16 counters {quad0 + quad[i], counter[1], counter[2], counter[3]}: word w of counter i at
     * x[w * 16 + i]. True when one is >= need. */
    bool (*noise)(const struct row_noise *s, uint32_t quad0, const uint32_t quad[ROW_LANES], uint32_t need,
                  uint32_t x[ROW_BLOCK]);
    /* Bit i: floor <= x[i] <= FLT_MAX, of one block. */
    uint64_t (*at_least)(const float x[ROW_BLOCK], float floor);
    /* How many of the n values lie outside [0, below). */
    int64_t (*outside)(const int32_t *v, int64_t n, int32_t below);
};

double row_sum_total(const struct row_sum *s);
float row_sum_at_cut(const struct row_sum *s, int32_t c);

/* The build for the features given (cpu_features()). */
const struct row_passes *row_passes_select(uint32_t features);

extern const struct row_passes row_passes_plain, row_passes_avx2, row_passes_avx512;

#endif
