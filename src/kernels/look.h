/* Arithmetic for methods that look at keys: scores of many keys at once. One build for every set, so that what a method
 * decides has the same bits everywhere; fused where it says so. */
#ifndef HASTEN_KERNELS_LOOK_H
#define HASTEN_KERNELS_LOOK_H
#include "kernels/kernels.h"

/* Keys of a page as floats, by component: kt [d_k][64]. Entries from n on are zeros. */
void look_keys(const struct kv_tile *t, int64_t d_k, int32_t n, float *kt);
/* score [64] = scale * (fmaf over d ascending of q[d] kt[d][j]) */
void look_scores(const float *kt, int64_t d_k, const float *q, float scale, float score[ATTN_TILE]);
/* The same for 16 vectors by component, stat [d_k][16]. */
void look_dot16(const float *stat, int64_t d_k, const float *q, float scale, float score[16]);
/* score [16] = scale * (sum over d ascending of max(q[d] lo[d][j], q[d] hi[d][j])): above scale * q.k of every k
 * between lo and hi. */
void look_bound16(const float *lo, const float *hi, int64_t d_k, const float *q, float scale,
                  float score[16]);
/* What an online softmax needs of n more scores: *max and *sum of exp(score - *max), from -INFINITY and 0 on. */
void look_softmax_add(const float *score, int64_t n, float *max, float *sum);
/* mass[i] += exp(score[i] - max) / sum */
void look_mass_add(const float *score, int64_t n, float max, float sum, float *mass);

#endif
