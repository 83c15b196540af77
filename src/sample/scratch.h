/* What the files of the sampler share: one row of logits cut into blocks, the order of the law, the steps. Private to
 * sample/.
 *
 * The order of the law is (logit descending, id ascending). Every filter keeps a beginning of that order, so a set of
 * tokens is described by the first one that is not in it (struct ahead), and most filters never sort. */
#ifndef HASTEN_SAMPLE_SCRATCH_H
#define HASTEN_SAMPLE_SCRATCH_H
#include "kernels/row.h"
#include "sample/sampler.h"
#include <float.h>
#include <string.h>

#define SELECT_LIST_MAX 1024 /* up to so many tokens are sorted as a list */

struct sampler {
    const struct row_passes *pass;
    int32_t n_vocab, n_blocks;
    /* The row at hand: n_whole blocks at row, the last one in tail when it is a partial one. */
    const float *row;
    int32_t n_whole;
    float tail[ROW_BLOCK];
    float *block_max; /* [n_blocks] largest finite value, -INFINITY: none */
    float *copy;      /* [n_blocks * 64]: the row when penalties or biases change it */
    float *exps;      /* [n_blocks * 64]: of a list of candidates */
    int32_t *counts;  /* [n_vocab], zero between calls */
    uint64_t *cand;   /* [n_blocks * 64]: candidates, see pack() */
    uint64_t *tmp;    /* [n_blocks * 64] */
};

static inline const float *block_of(const struct sampler *s, int32_t b)
{
    return b < s->n_whole ? s->row + (int64_t)b * ROW_BLOCK : s->tail;
}

static inline float value_of(const struct sampler *s, int32_t id)
{
    return block_of(s, id / ROW_BLOCK)[id % ROW_BLOCK];
}

static inline float finite_f32(double x)
{
    return x > (double)FLT_MAX ? FLT_MAX : x < -(double)FLT_MAX ? -FLT_MAX : (float)x;
}

/* ---- the order ---------------------------------------------------------------------------------------- */

/* The tokens before (value, id) in the order: logit > value, or logit == value and a lower id. Non-finite logits are
 * in no set. */
struct ahead {
    float value;
    int32_t id;
};
#define AHEAD_ALL ((struct ahead){-FLT_MAX, INT32_MAX})

static inline bool is_ahead(struct ahead a, float x, int32_t id)
{
    return (x > a.value || (x == a.value && id < a.id)) && x <= FLT_MAX;
}

/* Tokens in both sets. */
static inline struct ahead both(struct ahead a, struct ahead b)
{
    return b.value > a.value || (b.value == a.value && b.id < a.id) ? b : a;
}

/* A candidate as one integer: greater ones come first in the order. -0 and +0 are one value. */
static inline uint64_t pack(float x, int32_t id)
{
    float positive_zero = x + 0.0f;
    uint32_t bits;
    memcpy(&bits, &positive_zero, sizeof bits);
    bits = bits >> 31 ? ~bits : bits | 0x80000000u;
    return (uint64_t)bits << 32 | (uint32_t)~id;
}

static inline int32_t pack_id(uint64_t c)
{
    return (int32_t) ~(uint32_t)c;
}

static inline float pack_value(uint64_t c)
{
    uint32_t bits = (uint32_t)(c >> 32);
    bits = bits >> 31 ? bits & 0x7fffffffu : ~bits;
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* ---- select.c ----------------------------------------------------------------------------------------- */

/* The first k tokens, sorted, in s->cand; returns how many (fewer if fewer are finite). */
int64_t select_top(struct sampler *s, int64_t k);
/* All finite tokens, sorted, in s->cand; returns how many. */
int64_t select_all(struct sampler *s);
/* The set of the first k tokens, k >= 1, without sorting. s->cand is overwritten. */
struct ahead select_ahead(struct sampler *s, int64_t k);

/* ---- race.c: Gumbel-max --------------------------------------------------------------------------------- */

/* score = (logit - max) / temperature + g, in f64; ties to the lowest id. */
struct race {
    const struct sampler_settings *p;
    int64_t position;
    float max;
    int32_t argmax; /* in every set */
    int32_t best_id;
    double best;
};

/* The winner among a set of tokens. */
int32_t race_row(const struct sampler *s, struct race *r, struct ahead set);
/* The winner among n sorted candidates. */
int32_t race_list(struct race *r, const uint64_t *cand, int64_t n);

/* ---- top_p.c -------------------------------------------------------------------------------------------- */

/* How many of the first n sorted candidates in s->cand top-p keeps: the shortest beginning with at least top_p of
 * their sum. */
int64_t top_p_of_list(struct sampler *s, int64_t n, float top_p, float max);
/* Adds exp(logit - max) over a set; sum holds max and cuts. */
void sum_of_set(const struct sampler *s, struct ahead set, struct row_sum *sum);
/* The winner among what top-p keeps of `set` (all tokens, or the first k) and min-p keeps of that. */
int32_t race_top_p(struct sampler *s, struct race *r, struct ahead set, int64_t k, struct ahead min_p);

#endif
