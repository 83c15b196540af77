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

#define SELECT_LIST_MAX 1024  /* up to so many tokens are sorted as a list */
#define SELECT_NEAR_MAX 16384 /* up to so many are gathered */

/* Logits by place, in blocks: a whole row (place = token id), or some of its tokens gathered, ids ascending. */
struct view {
    const struct row_passes *pass;
    const float *row;  /* n_whole blocks; */
    const float *tail; /* the last one, when it is a partial one */
    int32_t n_whole, n_blocks;
    float *block_max;      /* [n_blocks] largest finite value, -INFINITY: none */
    const int32_t *ids;    /* of each place; NULL: places are ids */
    const uint32_t *quads; /* ids >> 2 */
};

struct sampler {
    const struct row_passes *pass;
    int32_t n_vocab, n_blocks;
    struct view all; /* the row at hand */
    float tail[ROW_BLOCK];
    float *block_max; /* [n_blocks] */
    float *copy;      /* [n_blocks * 64]: the row when penalties or biases change it */
    float *exps;      /* [n_blocks * 64]: of a list of candidates */
    int32_t *counts;  /* [n_vocab], zero between calls */
    uint64_t *cand;   /* [n_blocks * 64]: candidates, see pack() */
    uint64_t *tmp;    /* [n_blocks * 64] */
    int32_t *match;   /* [cap_match]: DRY's lengths, grown to the longest path seen */
    int64_t cap_match;
    /* Gathered tokens. */
    float near_row[SELECT_NEAR_MAX], near_max[SELECT_NEAR_MAX / ROW_BLOCK];
    int32_t near_ids[SELECT_NEAR_MAX];
    uint32_t near_quads[SELECT_NEAR_MAX];
};

static inline const float *block_of(const struct view *v, int32_t b)
{
    return b < v->n_whole ? v->row + (int64_t)b * ROW_BLOCK : v->tail;
}

static inline float value_of(const struct view *v, int32_t place)
{
    return block_of(v, place / ROW_BLOCK)[place % ROW_BLOCK];
}

static inline int32_t id_of(const struct view *v, int32_t place)
{
    return v->ids ? v->ids[place] : place;
}

/* The best place: highest logit, lowest id. -1: no finite logit. */
int32_t best_place(const struct view *v, float *value);

static inline float finite_f32(double x)
{
    return x > (double)FLT_MAX ? FLT_MAX : x < -(double)FLT_MAX ? -FLT_MAX : (float)x;
}

/* ---- the order ---------------------------------------------------------------------------------------- */

/* The tokens before (value, place) in the order: logit > value, or logit == value and a lower place. Non-finite logits
 * are in no set. Places of one view are meant: those of the whole row unless another stands beside. */
struct ahead {
    float value;
    int32_t place;
};
#define AHEAD_ALL ((struct ahead){-FLT_MAX, INT32_MAX})

static inline bool is_ahead(struct ahead a, float x, int32_t place)
{
    return (x > a.value || (x == a.value && place < a.place)) && x <= FLT_MAX;
}

/* Tokens in both sets. */
static inline struct ahead both(struct ahead a, struct ahead b)
{
    return b.value > a.value || (b.value == a.value && b.place < a.place) ? b : a;
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
/* The view of a set that is worth less than the whole row: gathered if it is small, else the whole row. *in: the set in
 * the view's places. */
struct view select_view(struct sampler *s, struct ahead set, struct ahead *in);

/* ---- race.c: Gumbel-max --------------------------------------------------------------------------------- */

/* score = (logit - max) / temperature + g, in f64; ties to the lowest id. */
struct race {
    const struct sampler_settings *p;
    int64_t position;
    float max;
    int32_t best_at; /* a place, or an id of a list */
    double best;
};

/* The place of the winner among a set of tokens of a view, which holds the best token. */
int32_t race_view(const struct view *v, struct race *r, struct ahead set);
/* The id of the winner among n sorted candidates. */
int32_t race_list(struct race *r, const uint64_t *cand, int64_t n);

/* ---- top_p.c -------------------------------------------------------------------------------------------- */

/* s->exps[0, n) = exp(logit - max) of the first n sorted candidates; returns their sum, added in order. */
double exps_of_list(struct sampler *s, int64_t n, float max);
/* How many of the first n sorted candidates in s->cand top-p keeps: the shortest beginning with at least top_p of
 * their sum. */
int64_t top_p_of_list(struct sampler *s, int64_t n, float top_p, float max);
/* Adds exp(logit - max) over a set; sum holds max and cuts. */
void sum_of_set(const struct view *v, struct ahead set, struct row_sum *sum);
/* The id of the winner among what top-p keeps of `set` (all tokens, or the first k) and min-p keeps of that. */
int32_t race_top_p(struct sampler *s, struct race *r, struct ahead set, int64_t k, struct ahead min_p);

/* ---- filters.c: sets that are no beginning of the order --------------------------------------------------- */

/* The id of the winner among what top-k (the first k), typical, top-p, min-p and XTC keep. */
int32_t race_filtered(struct sampler *s, struct race *r, int64_t k);

/* ---- dry.c -------------------------------------------------------------------------------------------------- */

bool dry_on(const struct sampler_settings *p, int64_t n_path);
/* Lowers s->copy. HASTEN_ERR_MEMORY. */
hasten_status dry_apply(struct sampler *s, const struct sampler_settings *p, const int32_t *path,
                        int64_t n_path, struct hasten_error *err);

/* ---- mirostat.c --------------------------------------------------------------------------------------------- */

/* The token that the bound at this position and the race choose; the memory learns from it. */
hasten_status mirostat_choose(struct sampler *s, struct sampler_memory *m, const struct sampler_settings *p,
                              const int32_t *path, int64_t n_path, int64_t position, float max, int32_t *id,
                              struct hasten_error *err);

/* ---- sampler.c ---------------------------------------------------------------------------------------------- */

/* log of the sum of exp(logit - max) over all tokens of the row. */
double log_sum_exp(const struct sampler *s, float max);
/* Top-k ... XTC, temperature > 0 and the race. */
int32_t choose_plain(struct sampler *s, const struct sampler_settings *p, int64_t position, float max);
/* The tokens with logit >= bound. */
struct ahead at_least_set(double bound);

#endif
