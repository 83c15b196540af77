/* The sampler's settings: defaults and ranges. */
#include "sample/sampler.h"
#include "text/vocab.h"
#include <math.h>

void sampler_default_settings(struct sampler_settings *s)
{
    *s = (struct sampler_settings){.temperature = 0.8f,
                                   .top_k = 40,
                                   .top_p = 0.95f,
                                   .min_p = 0.05f,
                                   .typical_p = 1.0f,
                                   .xtc_threshold = 0.1f,
                                   .dry_base = 1.75f,
                                   .dry_allowed_length = 2,
                                   .dry_last_n = -1,
                                   .mirostat_tau = 5.0f,
                                   .mirostat_eta = 0.1f,
                                   .repeat_penalty = 1.0f,
                                   .penalty_last_n = 64};
}

int32_t sampler_forbid_ends(const struct vocab *v, int32_t n_logits, struct logit_bias *out)
{
    const int32_t n_text = vocab_size(v), n_ids = n_text < n_logits ? n_text : n_logits;
    int32_t n = 0;
    for (int32_t id = 0; id < n_ids; id++) {
        if (!vocab_is_eog(v, id))
            continue;
        if (out)
            out[n] = (struct logit_bias){id, -INFINITY};
        n++;
    }
    return n;
}

static hasten_status bad(struct hasten_error *err, const char *field, double value, const char *expected)
{
    return error_set(err, HASTEN_ERR_USAGE, "sampling: %s is %g (expected %s)", field, value, expected);
}

static hasten_status check_dry(const struct sampler_settings *s, struct hasten_error *err)
{
    if (!isfinite(s->dry_multiplier) || s->dry_multiplier < 0)
        return bad(err, "dry_multiplier", (double)s->dry_multiplier, "a number >= 0");
    if (!isfinite(s->dry_base) || s->dry_base < 1)
        return bad(err, "dry_base", (double)s->dry_base, "a number >= 1");
    if (s->dry_allowed_length < 1)
        return bad(err, "dry_allowed_length", s->dry_allowed_length, "an integer >= 1");
    if (s->dry_last_n < -1)
        return bad(err, "dry_last_n", s->dry_last_n, "an integer >= -1");
    return HASTEN_OK;
}

static hasten_status check_sets(const struct sampler_settings *s, struct hasten_error *err)
{
    if (!(s->typical_p > 0 && s->typical_p <= 1))
        return bad(err, "typical_p", (double)s->typical_p, "above 0, at most 1");
    if (!(s->xtc_probability >= 0 && s->xtc_probability <= 1))
        return bad(err, "xtc_probability", (double)s->xtc_probability, "0 to 1");
    if (!(s->xtc_threshold >= 0 && s->xtc_threshold <= 1))
        return bad(err, "xtc_threshold", (double)s->xtc_threshold, "0 to 1");
    if (s->mirostat < 0 || s->mirostat > 2)
        return bad(err, "mirostat", s->mirostat, "0, 1 or 2");
    if (!isfinite(s->mirostat_tau) || s->mirostat_tau <= 0)
        return bad(err, "mirostat_tau", (double)s->mirostat_tau, "a number above 0");
    if (!(s->mirostat_eta >= 0 && s->mirostat_eta <= 1))
        return bad(err, "mirostat_eta", (double)s->mirostat_eta, "0 to 1");
    return HASTEN_OK;
}

hasten_status sampler_check(const struct sampler_settings *s, int32_t n_vocab, struct hasten_error *err)
{
    if (!isfinite(s->temperature) || s->temperature < 0)
        return bad(err, "temperature", (double)s->temperature, "a number >= 0");
    if (s->top_k < 0)
        return bad(err, "top_k", s->top_k, "an integer >= 0");
    if (!(s->top_p > 0 && s->top_p <= 1))
        return bad(err, "top_p", (double)s->top_p, "above 0, at most 1");
    if (!(s->min_p >= 0 && s->min_p <= 1))
        return bad(err, "min_p", (double)s->min_p, "0 to 1");
    hasten_status st = check_sets(s, err);
    if (!st)
        st = check_dry(s, err);
    if (st)
        return st;
    if (!isfinite(s->repeat_penalty) || s->repeat_penalty <= 0)
        return bad(err, "repeat_penalty", (double)s->repeat_penalty, "a number above 0");
    if (!isfinite(s->presence_penalty))
        return bad(err, "presence_penalty", (double)s->presence_penalty, "a finite number");
    if (!isfinite(s->frequency_penalty))
        return bad(err, "frequency_penalty", (double)s->frequency_penalty, "a finite number");
    if (s->penalty_last_n < -1)
        return bad(err, "penalty_last_n", s->penalty_last_n, "an integer >= -1");
    if (s->n_logprobs < 0 || s->n_logprobs > 64)
        return bad(err, "n_logprobs", s->n_logprobs, "0 to 64");
    if (s->n_bias < 0)
        return bad(err, "n_bias", s->n_bias, "a count >= 0");
    for (int32_t i = 0; i < s->n_bias; i++) {
        if (s->bias[i].id < 0 || s->bias[i].id >= n_vocab)
            return error_set(err, HASTEN_ERR_USAGE, "sampling: logit_bias names token %d (expected 0 to %d)",
                             (int)s->bias[i].id, (int)n_vocab - 1);
        if (isnan(s->bias[i].bias) || s->bias[i].bias == INFINITY)
            return error_set(err, HASTEN_ERR_USAGE,
                             "sampling: logit_bias of token %d is %g (expected a finite number or -inf)",
                             (int)s->bias[i].id, (double)s->bias[i].bias);
    }
    return HASTEN_OK;
}
