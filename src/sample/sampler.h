/* Plain sampling: the law, in order: penalties, bias, top-k, top-p, min-p, temperature, Gumbel-max.
 *
 * Noise is a function of (seed, stream, absolute position, token id) only (Philox 4x32-10), so the token
 * chosen at a position does not depend on batching, speculation or restarts. Temperature 0 is argmax (lowest
 * id on ties). A sampler is a pure function of (settings, logits, tokens on the path, position). */
#ifndef HASTEN_SAMPLE_SAMPLER_H
#define HASTEN_SAMPLE_SAMPLER_H
#include "base/error.h"
#include <stddef.h>
#include <stdint.h>

struct logit_bias {
    int32_t id;
    float bias; /* added to the logit; -INFINITY forbids */
};

struct sampler_settings {
    float temperature;       /* >= 0; default 0.8 */
    int32_t top_k;           /* 0: off; default 40 */
    float top_p;             /* (0, 1], 1: off; default 0.95 */
    float min_p;             /* [0, 1], 0: off; default 0.05 */
    float repeat_penalty;    /* > 0, 1: off */
    float presence_penalty;  /* 0: off */
    float frequency_penalty; /* 0: off */
    int32_t penalty_last_n;  /* tokens looked back for penalties; default 64; -1: all */
    uint64_t seed;
    uint32_t stream;               /* default 0 */
    const struct logit_bias *bias; /* [n_bias], owned by the caller */
    int32_t n_bias;
    int32_t n_logprobs; /* alternatives to report, 0..64 */
};
void sampler_default_settings(struct sampler_settings *s);
/* HASTEN_ERR_USAGE naming the field, its value and its range. */
hasten_status sampler_check(const struct sampler_settings *s, int32_t n_vocab, struct hasten_error *err);

struct token_logprob {
    int32_t id;
    float logprob; /* natural log, of the model's own distribution (before penalties and filters) */
};

struct sampler; /* scratch for one vocabulary size; nothing in it survives a call */
hasten_status sampler_open(int32_t n_vocab, struct sampler **out, struct hasten_error *err);
void sampler_close(struct sampler *s);
/* logits[n_vocab] are not changed. path[n_path]: the tokens before this one (prompt and answer). position:
 * absolute position of the token being chosen. top: NULL (no log-probabilities are computed, chosen->logprob is
 * NaN) or [n_logprobs]. Non-finite logits are never chosen; a row without a single finite one is
 * HASTEN_ERR_NON_FINITE. */
hasten_status sampler_choose(struct sampler *sampler, const struct sampler_settings *s, const float *logits,
                             const int32_t *path, int64_t n_path, int64_t position,
                             struct token_logprob *chosen, struct token_logprob *top,
                             struct hasten_error *err);

#endif
