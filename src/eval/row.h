/* What one row of logits, or a pair of them, says: the numbers of one scored token.
 *
 * p is the distribution of the first row ("plain"), q of the second ("variant"). The Kullback-Leibler divergence
 * KL(p || q) = sum p log(p / q) is summed without cancellation: with d = a - b (differences of logits), c = sum p d
 * and y = d - c it equals log(1 + sum p (e^-y - 1 + y)), whose terms are all positive. So exponentials in f32
 * (kernels/row.h) give it to a relative 1e-5 however small it is, and equal rows give exactly 0.
 *
 * A logit of -infinity (a token that a mask or a smaller vocabulary forbids), like any that lies more than
 * EVAL_FLOOR below its row's largest, counts as if it lay EVAL_FLOOR below: the divergence stays finite. NaN or
 * +infinity is an error. */
#ifndef HASTEN_EVAL_ROW_H
#define HASTEN_EVAL_ROW_H
#include "base/error.h"
#include <stdbool.h>
#include <stdint.h>

#define EVAL_FLOOR 100.0f
#define EVAL_LIKELY 1e-6 /* |delta log p| looks at tokens to which the plain row gives so much */

struct eval_token {
    double kl;                      /* nats */
    double nll_plain, nll_variant;  /* of the token that came */
    double dlogp;                   /* largest |log p - log q| among tokens with p >= EVAL_LIKELY */
    int32_t dlogp_id;               /* of that token */
    int32_t top_plain, top_variant; /* likeliest tokens, of equal ones the lowest id */
    int32_t target;                 /* the token that came */
    int32_t block;                  /* unit of the bootstrap (damage.h) */
};

struct eval_row; /* scratch for one vocabulary size */
hasten_status eval_row_open(int32_t n_vocab, struct eval_row **out, struct hasten_error *err);
void eval_row_close(struct eval_row *r);

/* Compares plain[n_vocab] with variant[n_vocab]; fills all of *t but block. HASTEN_ERR_NON_FINITE; HASTEN_ERR_USAGE
 * for a target that is no token. */
hasten_status eval_row_pair(struct eval_row *r, const float *plain, const float *variant, int32_t target,
                            struct eval_token *t, struct hasten_error *err);

/* Negative log-likelihood of target: log-sum-exp(logits) - logit, all in f64; not finite where the row is not. */
double eval_row_nll(const float *row, int32_t n, int32_t target);

#endif
