/* The Gumbel-max race: the highest score among a set of tokens, exactly, with few logarithms.
 *
 * With the best score so far B and a token's scaled gap to the maximum d <= 0, it needs a draw g >= B - d. As
 * 1 - exp(-e^-n) <= e^-n, its integer draw must satisfy 2^32 - x <= 2^32 e^-n: an integer comparison, made for a block
 * of 64 tokens at once with the block's maximum, widened by a margin larger than every rounding involved. Only draws
 * that pass pay for two logarithms; blocks whose maximum lies so low that no draw reaches B are not looked at. */
#include "sample/noise.h"
#include "sample/scratch.h"
#include <math.h>

#define LOG2_E 1.4426950408889634

static double gap_of(const struct race *r, float logit)
{
    return ((double)logit - (double)r->max) / (double)r->p->temperature;
}

static void enter(struct race *r, int32_t at, float logit, uint32_t x)
{
    double score = gap_of(r, logit) + noise_gumbel(x);
    if (score > r->best || (score == r->best && at < r->best_at)) {
        r->best = score;
        r->best_at = at;
    }
}

/* The smallest x with which a token of this gap could still win, never too large; UINT64_MAX: none can. The straight
 * line between neighbouring powers of two lies above 2^t: its value, as the bits of a double, is linear in t. */
static uint64_t threshold(const struct race *r, double gap)
{
    double need = r->best - gap;
    if (need > NOISE_GUMBEL_MAX)
        return UINT64_MAX;
    if (need <= 0)
        return 0;
    uint64_t bits = (uint64_t)((1023 + 32 - need * LOG2_E) * 0x1p52);
    double tail;
    memcpy(&tail, &bits, sizeof tail);
    tail = tail * (1 + 1e-6) + 2;
    return tail >= 0x1p32 ? 0 : (uint64_t)(0x1p32 - tail);
}

/* A logit below which no token can win, never too high. */
static float lowest_hope(const struct race *r)
{
    double max = (double)r->max, drop = (double)r->p->temperature * (r->best - NOISE_GUMBEL_MAX);
    return nextafterf(finite_f32(max + drop - 1e-9 * (fabs(max) + fabs(drop))), -FLT_MAX);
}

static void start(struct race *r, int32_t at, int32_t id)
{
    r->best_at = at;
    r->best = noise_gumbel(noise_x(r->p->seed, r->p->stream, r->position, (uint32_t)id));
}

int32_t race_list(struct race *r, const uint64_t *cand, int64_t n)
{
    start(r, pack_id(cand[0]), pack_id(cand[0]));
    for (int64_t i = 1; i < n; i++) {
        float l = pack_value(cand[i]);
        uint64_t need = threshold(r, gap_of(r, l));
        if (need == UINT64_MAX)
            break; /* later ones are no larger */
        uint32_t x = noise_x(r->p->seed, r->p->stream, r->position, (uint32_t)pack_id(cand[i]));
        if (x >= need)
            enter(r, pack_id(cand[i]), l, x);
    }
    return r->best_at;
}

/* Word w of counter q is the draw of token 4 q + w (noise.h). In a whole row 16 counters are a block. */
static void race_block(const struct view *v, int32_t b, struct race *r, const struct row_noise *noise,
                       uint64_t need, struct ahead set)
{
    static const uint32_t quad[ROW_LANES] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    uint32_t draws[ROW_BLOCK];
    if (!v->pass->noise(noise, (uint32_t)b * ROW_LANES, quad, (uint32_t)need, draws))
        return;
    const float *x = block_of(v, b);
    for (int32_t i = 0; i < ROW_BLOCK; i++) {
        uint32_t draw = draws[i % 4 * ROW_LANES + i / 4];
        if (draw >= need && is_ahead(set, x[i], b * ROW_BLOCK + i))
            enter(r, b * ROW_BLOCK + i, x[i], draw);
    }
}

/* Gathered tokens take a counter each, and one of its words. */
static void race_gathered(const struct view *v, int32_t b, struct race *r, const struct row_noise *noise,
                          uint64_t need, struct ahead set)
{
    const float *x = block_of(v, b);
    const int32_t *ids = v->ids + b * ROW_BLOCK;
    for (int32_t i0 = 0; i0 < ROW_BLOCK; i0 += ROW_LANES) {
        uint32_t draws[ROW_BLOCK];
        if (!v->pass->noise(noise, 0, v->quads + b * ROW_BLOCK + i0, (uint32_t)need, draws))
            continue;
        for (int32_t i = 0; i < ROW_LANES; i++) {
            uint32_t draw = draws[(ids[i0 + i] & 3) * ROW_LANES + i];
            if (draw >= need && is_ahead(set, x[i0 + i], b * ROW_BLOCK + i0 + i))
                enter(r, b * ROW_BLOCK + i0 + i, x[i0 + i], draw);
        }
    }
}

int32_t race_view(const struct view *v, struct race *r, struct ahead set)
{
    struct row_noise noise;
    float max;
    int32_t first = best_place(v, &max);
    noise_start(&noise, r->p->seed, r->p->stream, r->position);
    start(r, first, id_of(v, first));
    double best = -INFINITY;
    float floor = set.value;
    for (int32_t b = 0; b < v->n_blocks; b++) {
        if (r->best > best) {
            best = r->best;
            floor = fmaxf(set.value, lowest_hope(r));
        }
        if (!(v->block_max[b] >= floor))
            continue;
        uint64_t need = threshold(r, gap_of(r, v->block_max[b]));
        if (need == UINT64_MAX)
            continue;
        if (v->ids)
            race_gathered(v, b, r, &noise, need, set);
        else
            race_block(v, b, r, &noise, need, set);
    }
    return r->best_at;
}
