/* Sampling: the law. From a row of logits, in this order:
 *
 *     penalties (repeat, presence, frequency), DRY, bias            change logits
 *     mask                                                          forbids
 *     top-k, typical, top-p, min-p, XTC, or instead of these five   keep a set
 *     mirostat (1 or 2)
 *     temperature, Gumbel-max                                       choose one of the set
 *
 * Noise is a function of (seed, stream, absolute position, token id) only (Philox 4x32-10), so the token
 * chosen at a position does not depend on batching, speculation or restarts; XTC's own draw is that of token id
 * 2^32 - 1. Temperature 0 is argmax after the bias (lowest id on ties); no set is then formed. A sampler is a pure
 * function of (settings, logits, tokens on the path, position), mirostat's one number per position (sampler_memory)
 * of those of the path. */
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
    float temperature; /* >= 0; default 0.8 */
    int32_t top_k;     /* 0: off; default 40 */
    float top_p;       /* (0, 1], 1: off; default 0.95 */
    float min_p;       /* [0, 1], 0: off; default 0.05 */
    /* Locally typical sampling (Meister et al. 2022): the tokens whose -log p is nearest to its expectation, as few as
     * have typical_p of the mass; equally near: the likelier, equally likely ones next to those kept. */
    float typical_p; /* (0, 1], 1: off; default 1 */
    /* Exclude top choices ("XTC", p-e-w, text-generation-webui pull request 6335, 2024): with xtc_probability, of the
     * tokens that have at least xtc_threshold of the mass of what is left all go but the least likely. */
    float xtc_probability; /* [0, 1], 0: off; default 0 */
    float xtc_threshold;   /* [0, 1]; above 0.5 nothing can go; default 0.1 */
    /* Don't repeat yourself ("DRY", p-e-w, text-generation-webui pull request 5677, 2024): a token that would go on
     * repeating an earlier sequence of n tokens, n >= dry_allowed_length, loses multiplier * base^(n - allowed). */
    float dry_multiplier;       /* >= 0, 0: off; default 0 */
    float dry_base;             /* >= 1; default 1.75 */
    int32_t dry_allowed_length; /* >= 1; default 2 */
    int32_t dry_last_n;         /* tokens looked back; -1: all (default); 0: off */
    const uint8_t
        *dry_breakers; /* [n_vocab] 1: no sequence goes beyond this token. NULL: none. The caller's */
    /* Mirostat (Basu et al. 2021; 2: as in the authors' second version): keeps the surprise, -log2 of the model's
     * probability before temperature, near tau. */
    int32_t mirostat;        /* 0: off (default), 1, 2 */
    float mirostat_tau;      /* > 0, bits; default 5 */
    float mirostat_eta;      /* [0, 1], how fast the bound follows; default 0.1 */
    float repeat_penalty;    /* > 0, 1: off */
    float presence_penalty;  /* 0: off */
    float frequency_penalty; /* 0: off */
    int32_t penalty_last_n;  /* tokens looked back for penalties; default 64; -1: all */
    uint64_t seed;
    uint32_t stream;               /* default 0 */
    const struct logit_bias *bias; /* [n_bias], owned by the caller */
    int32_t n_bias;
    /* Bit id % 64 of word id / 64: the token may be chosen (sample/grammar.h makes such masks). [ceil(n_vocab / 64)],
     * the caller's; NULL: all may. */
    const uint64_t *mask;
    int32_t n_logprobs; /* alternatives to report, 0..64 */
};
void sampler_default_settings(struct sampler_settings *s);
struct vocab;
/* Biases that forbid the tokens which end a turn, of those that have logits (ids below n_logits): into out, or NULL; how
 * many. */
int32_t sampler_forbid_ends(const struct vocab *v, int32_t n_logits, struct logit_bias *out);
/* HASTEN_ERR_USAGE naming the field, its value and its range. */
hasten_status sampler_check(const struct sampler_settings *s, int32_t n_vocab, struct hasten_error *err);

struct token_logprob {
    int32_t id;
    float logprob; /* natural log, of the model's own distribution (before penalties, mask and filters) */
};

struct sampler; /* scratch for one vocabulary size; nothing in it survives a call */
hasten_status sampler_open(int32_t n_vocab, struct sampler **out, struct hasten_error *err);
void sampler_close(struct sampler *s);

/* What mirostat has learned on a sequence: its bound mu at each position since the first token it chose, with the
 * tokens it chose. One per sequence, owned by the caller; 12 bytes a token. A position that does not continue what is
 * remembered (another token on the path, tokens that the sampler did not choose, another place) begins with
 * mu = 2 tau; one that was chosen before begins with what was known there, so that truncating or choosing again
 * gives what a run that never went further gives. */
struct sampler_memory;
hasten_status sampler_memory_open(struct sampler_memory **out, struct hasten_error *err);
/* The same memory for a sequence that shares the path so far. */
hasten_status sampler_memory_fork(const struct sampler_memory *from, struct sampler_memory **out,
                                  struct hasten_error *err);
void sampler_memory_truncate(struct sampler_memory *m,
                             int64_t n); /* positions >= n are forgotten; NULL is fine */
void sampler_memory_close(struct sampler_memory *m);
size_t sampler_memory_bytes(const struct sampler_memory *m);

/* memory: NULL unless mirostat is on (HASTEN_ERR_USAGE). logits[n_vocab] are not changed. path[n_path]: the tokens before this one (prompt and answer). position:
 * absolute position of the token being chosen. top: NULL (no log-probabilities are computed, chosen->logprob is
 * NaN) or [n_logprobs]. Non-finite logits are never chosen; a row without a single finite one is
 * HASTEN_ERR_NON_FINITE. */
hasten_status sampler_choose(struct sampler *sampler, struct sampler_memory *memory,
                             const struct sampler_settings *s, const float *logits, const int32_t *path,
                             int64_t n_path, int64_t position, struct token_logprob *chosen,
                             struct token_logprob *top, struct hasten_error *err);

#endif
