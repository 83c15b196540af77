/* Hasten: choosing a token from a row of logits.
 *
 * The law, in this order: penalties, DRY and bias change logits; top-k, typical, top-p, min-p and XTC (or instead of
 * these five mirostat) keep a set; temperature and noise choose one of it. The noise is a function of (seed, stream,
 * position, token) alone, so a token does not depend on batching, on restarts or on what else the program samples.
 *
 * A sampler is scratch memory and its settings. It belongs to one thread at a time, and serves any number of
 * sequences; with mirostat, which remembers what it chose, one. */
#ifndef HASTEN_SAMPLE_H
#define HASTEN_SAMPLE_H
#include "hasten/hasten.h"

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

struct hasten_bias {
    int32_t id;
    float bias; /* added to the logit; -INFINITY forbids */
};

struct hasten_sampler_settings {
    float temperature; /* >= 0; 0: the likeliest token, of equal ones the lowest id; default 0.8 */
    int32_t top_k;     /* keep so many of the likeliest; 0: off; default 40 */
    float top_p;       /* (0, 1] keep the likeliest that have so much of the mass; 1: off; default 0.95 */
    float min_p;       /* [0, 1] keep those with so much of the best's probability; 0: off; default 0.05 */
    float typical_p;   /* (0, 1] locally typical sampling; 1: off; default 1 */
    float xtc_probability;          /* [0, 1] how often top choices are excluded; 0: off; default 0 */
    float xtc_threshold;            /* [0, 1] what makes a top choice; default 0.1 */
    float dry_multiplier;           /* >= 0; 0: off; default 0 */
    float dry_base;                 /* >= 1; default 1.75 */
    int32_t dry_allowed_length;     /* >= 1; default 2 */
    int32_t dry_last_n;             /* tokens looked back; -1: all (default) */
    int32_t mirostat;               /* 0: off (default), 1, 2 */
    float mirostat_tau;             /* > 0, bits; default 5 */
    float mirostat_eta;             /* [0, 1]; default 0.1 */
    float repeat_penalty;           /* > 0; 1: off (default) */
    float presence_penalty;         /* default 0 */
    float frequency_penalty;        /* default 0 */
    int32_t penalty_last_n;         /* tokens the penalties look back; -1: all; default 64 */
    uint32_t stream;                /* default 0: tells apart what shares a seed */
    uint64_t seed;                  /* default 0: the same answer every time */
    const struct hasten_bias *bias; /* [n_bias], copied by hasten_sampler_open */
    int32_t n_bias;
};

/* The defaults above, then what the model's file asks for (general.sampling.*). m NULL: the defaults alone.
 * HASTEN_ERR_FILE for values of a wrong type. */
hasten_status hasten_sampler_default_settings(const struct hasten_model *m, struct hasten_sampler_settings *s,
                                              struct hasten_error *err);

struct hasten_sampler;

/* HASTEN_ERR_USAGE naming the field, its value and its range. Nothing of m or s is needed afterwards. */
hasten_status hasten_sampler_open(const struct hasten_model *m, const struct hasten_sampler_settings *s,
                                  struct hasten_sampler **out, struct hasten_error *err);
/* logits[n_vocab]: a row as the sink of hasten_step gets it; not changed. path[n]: all tokens before the one to be
 * chosen (within the sink: hasten_seq_tokens up to the row's). Logits that are not finite are never chosen;
 * HASTEN_ERR_NON_FINITE when none is finite. Works within the sink and, with a copy of the row, after it. */
hasten_status hasten_sampler_choose(struct hasten_sampler *sampler, const float *logits, const int32_t *path,
                                    int64_t n, int32_t *id, struct hasten_error *err);
void hasten_sampler_close(struct hasten_sampler *sampler); /* NULL is fine */

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
