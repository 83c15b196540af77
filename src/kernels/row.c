/* The passes of row.h for the baseline of the architecture, and the choice among the builds. */
#include "base/cpu.h"
#include "kernels/row_body.h"

/* What a block adds to the parts above the cuts; those from `c` on, as higher ones are above its maximum. */
MATH_INLINE void add_cuts(struct row_sum *s, const float *x, const float *e, int32_t c)
{
    for (; c < s->n_cuts; c++) {
        const float cut = s->cut[c];
        float *to = s->at_cut[c];
        for (int j = 0; j < ROW_LANES; j++) {
            float a = x[j] >= cut ? e[j] : 0.0f, b = x[j + 16] >= cut ? e[j + 16] : 0.0f;
            float u = x[j + 32] >= cut ? e[j + 32] : 0.0f, v = x[j + 48] >= cut ? e[j + 48] : 0.0f;
            to[j] += (a + b) + (u + v);
        }
    }
}

static void add(struct row_sum *s, const float *values, const float *block_max, int32_t n_blocks, float floor)
{
    const float max = s->max;
    double lane[ROW_LANES];
    memcpy(lane, s->lane, sizeof lane);
    for (int32_t b = 0; b < n_blocks; b++) {
        if (!(block_max[b] >= floor))
            continue;
        const float *x = values + (int64_t)b * ROW_BLOCK;
        float e[ROW_BLOCK];
        for (int j = 0; j < ROW_BLOCK; j++) {
            float v = x[j] >= floor && x[j] <= FLT_MAX ? x[j] - max : 2 * EXP_MIN;
            e[j] = exp_not_positive(v);
        }
        for (int j = 0; j < ROW_LANES; j++)
            lane[j] =
                (((lane[j] + (double)e[j]) + (double)e[j + 16]) + (double)e[j + 32]) + (double)e[j + 48];
        int32_t c = 0;
        while (c < s->n_cuts && s->cut[c] > block_max[b])
            c++;
        add_cuts(s, x, e, c);
    }
    memcpy(s->lane, lane, sizeof lane);
}

static bool noise(const struct row_noise *s, uint32_t quad0, const uint32_t quad[ROW_LANES], uint32_t need,
                  uint32_t x[ROW_BLOCK])
{
    for (uint32_t i = 0; i < ROW_LANES; i++) {
        uint32_t c0 = quad0 + quad[i], c1 = (uint32_t)s->counter[1], c2 = (uint32_t)s->counter[2],
                 c3 = (uint32_t)s->counter[3];
#pragma GCC unroll 10
        for (int round = 0; round < PHILOX_ROUNDS; round++) {
            const uint64_t p0 = (uint64_t)PHILOX_M0 * c0, p1 = (uint64_t)PHILOX_M1 * c2;
            c0 = (uint32_t)(p1 >> 32) ^ c1 ^ (uint32_t)s->key[round][0];
            c1 = (uint32_t)p1;
            c2 = (uint32_t)(p0 >> 32) ^ c3 ^ (uint32_t)s->key[round][1];
            c3 = (uint32_t)p0;
        }
        x[i] = c0;
        x[16 + i] = c1;
        x[32 + i] = c2;
        x[48 + i] = c3;
    }
    int any = 0;
    for (int i = 0; i < ROW_BLOCK; i++)
        any |= x[i] >= need;
    return any != 0;
}

static uint64_t at_least(const float x[ROW_BLOCK], float floor)
{
    uint64_t bits = 0;
    for (int i = 0; i < ROW_BLOCK; i++)
        bits |= (uint64_t)(x[i] >= floor && x[i] <= FLT_MAX) << i;
    return bits;
}

const struct row_passes row_passes_plain = {"plain", maxima, copy, add, exps, noise, at_least, outside};

void row_noise_start(struct row_noise *s, const uint32_t key[2], const uint32_t counter[4])
{
    for (int w = 0; w < 4; w++)
        s->counter[w] = counter[w];
    for (uint32_t round = 0; round < PHILOX_ROUNDS; round++) {
        s->key[round][0] = key[0] + round * PHILOX_W0;
        s->key[round][1] = key[1] + round * PHILOX_W1;
    }
}

double row_sum_total(const struct row_sum *s)
{
    double lane[ROW_LANES];
    memcpy(lane, s->lane, sizeof lane);
    for (int half = ROW_LANES / 2; half; half /= 2)
        for (int j = 0; j < half; j++)
            lane[j] += lane[j + half];
    return lane[0];
}

float row_sum_at_cut(const struct row_sum *s, int32_t c)
{
    float sum = 0;
    for (int j = 0; j < ROW_LANES; j++)
        sum += s->at_cut[c][j];
    return sum;
}

const struct row_passes *row_passes_select(uint32_t features)
{
#if defined(__x86_64__)
    if (features & CPU_AVX512)
        return &row_passes_avx512;
    if (features & CPU_AVX2)
        return &row_passes_avx2;
#endif
    (void)features;
    return &row_passes_plain;
}
