/* Damage: how far an engine's next-token distributions lie from the plain engine's, on the same text in the same run.
 *
 * Both engines read the same windows (windows.h) in lockstep: the plain one a few rows, then the variant the same
 * rows, whose logits are compared while the plain one's stand in a buffer of at most EVAL_MAX_ROWS rows. So no
 * n x n_vocab matrix exists. Rows before the first that is scored are read without logits, n_batch at a time.
 *
 * The unit of the bootstrap is a block of consecutive scored tokens of one window: neighbours share their context,
 * so single tokens are not independent. It prints nothing and knows no options. */
#ifndef HASTEN_EVAL_DAMAGE_H
#define HASTEN_EVAL_DAMAGE_H
#include "eval/row.h"
#include "eval/stats.h"
#include "eval/windows.h"
#include "hasten/hasten.h"

#define EVAL_MAX_ROWS 64
#define EVAL_BLOCK 64 /* default of block */

struct eval_damage_settings {
    struct eval_windows windows;
    int32_t rows;      /* scored rows of one step, 1 .. EVAL_MAX_ROWS; 0: the most. 1: as decoding does */
    int32_t block;     /* scored tokens of a block; 0: EVAL_BLOCK */
    int32_t resamples; /* 0: EVAL_RESAMPLES */
    uint64_t seed;     /* of the bootstrap */
};

struct eval_block { /* sums over the tokens of a block */
    int32_t n, agree;
    double kl, nll_plain, nll_variant;
};

/* All intervals are of EVAL_LEVEL, over blocks. */
struct eval_damage {
    int64_t n; /* tokens scored */
    int32_t n_windows, n_blocks, block, resamples;
    uint64_t seed;
    struct eval_interval kl;     /* mean KL(plain || variant), nats a token */
    struct eval_interval kl_p99; /* 99th percentile: the largest when 1 % of the tokens, rounded down, go */
    struct eval_interval agreement;      /* share of positions where the likeliest token is the same */
    struct eval_interval nll_difference; /* mean nll of the variant less that of the plain engine */
    struct eval_interval ppl_plain, ppl_variant, ppl_difference;
    double kl_max;
    int64_t flips;        /* positions where the likeliest token changed: n - agreeing ones */
    int64_t lost, gained; /* of these: what came was the plain engine's; was the variant's; else neither's */
    double dlogp;         /* largest |log p - log q| (row.h) */
    int64_t dlogp_at;     /* index of its scored token */
    double exceeded_at_most;   /* share of further blocks with a larger dlogp, with 95 % confidence */
    struct eval_token *tokens; /* [n] */
    struct eval_block *blocks; /* [n_blocks] */
};

typedef void (*eval_progress_fn)(void *ctx, int64_t done, int64_t total);

/* The engines have one vocabulary and room for one more sequence each, which is closed again. They may be one and the
 * same engine with room for two (then everything is 0). Errors: hasten_step's; HASTEN_ERR_USAGE for settings out of
 * range, vocabularies that differ, a text with nothing to score; HASTEN_ERR_NON_FINITE. */
hasten_status eval_damage(struct hasten_engine *plain, struct hasten_engine *variant,
                          const struct eval_damage_settings *s, eval_progress_fn progress, void *progress_ctx,
                          const volatile int *cancel, struct eval_damage *out, struct hasten_error *err);
/* The statistics alone, of out->tokens[out->n] with their blocks set; fills the rest. Settings: block, resamples,
 * seed. */
hasten_status eval_damage_of(const struct eval_damage_settings *s, struct eval_damage *out,
                             struct hasten_error *err);
void eval_damage_free(struct eval_damage *d);

#endif
