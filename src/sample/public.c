/* The public sampler (hasten/sample.h): its settings, the scratch of sampler.h, and mirostat's memory, in one object. */
#include "base/mem.h"
#include "hasten/sample.h"
#include "model/loaded.h"
#include "sample/of_file.h"
#include <string.h>

struct hasten_sampler {
    struct sampler_settings settings;
    struct sampler *scratch;
    struct sampler_memory *memory; /* NULL without mirostat */
    struct logit_bias *bias;
};

static void take_public(const struct hasten_sampler_settings *s, struct sampler_settings *p)
{
    sampler_default_settings(p);
    p->temperature = s->temperature;
    p->top_k = s->top_k;
    p->top_p = s->top_p;
    p->min_p = s->min_p;
    p->typical_p = s->typical_p;
    p->xtc_probability = s->xtc_probability;
    p->xtc_threshold = s->xtc_threshold;
    p->dry_multiplier = s->dry_multiplier;
    p->dry_base = s->dry_base;
    p->dry_allowed_length = s->dry_allowed_length;
    p->dry_last_n = s->dry_last_n;
    p->mirostat = s->mirostat;
    p->mirostat_tau = s->mirostat_tau;
    p->mirostat_eta = s->mirostat_eta;
    p->repeat_penalty = s->repeat_penalty;
    p->presence_penalty = s->presence_penalty;
    p->frequency_penalty = s->frequency_penalty;
    p->penalty_last_n = s->penalty_last_n;
    p->stream = s->stream;
    p->seed = s->seed;
}

static struct hasten_sampler_settings make_public(const struct sampler_settings *p)
{
    return (struct hasten_sampler_settings){.temperature = p->temperature,
                                            .top_k = p->top_k,
                                            .top_p = p->top_p,
                                            .min_p = p->min_p,
                                            .typical_p = p->typical_p,
                                            .xtc_probability = p->xtc_probability,
                                            .xtc_threshold = p->xtc_threshold,
                                            .dry_multiplier = p->dry_multiplier,
                                            .dry_base = p->dry_base,
                                            .dry_allowed_length = p->dry_allowed_length,
                                            .dry_last_n = p->dry_last_n,
                                            .mirostat = p->mirostat,
                                            .mirostat_tau = p->mirostat_tau,
                                            .mirostat_eta = p->mirostat_eta,
                                            .repeat_penalty = p->repeat_penalty,
                                            .presence_penalty = p->presence_penalty,
                                            .frequency_penalty = p->frequency_penalty,
                                            .penalty_last_n = p->penalty_last_n,
                                            .stream = p->stream,
                                            .seed = p->seed};
}

hasten_status hasten_sampler_default_settings(const struct hasten_model *m, struct hasten_sampler_settings *s,
                                              struct hasten_error *err)
{
    struct sampler_settings p;
    sampler_default_settings(&p);
    const hasten_status st = m && m->gguf ? sampler_settings_of_file(m->gguf, &p, err) : HASTEN_OK;
    if (!st)
        *s = make_public(&p);
    return st;
}

static hasten_status fill(struct hasten_sampler *p, int32_t n_vocab, const struct hasten_sampler_settings *s,
                          struct hasten_error *err)
{
    take_public(s, &p->settings);
    p->bias = mem_array((size_t)(s->n_bias > 0 ? s->n_bias : 0) + 1, sizeof *p->bias);
    if (!p->bias)
        return error_set(err, HASTEN_ERR_MEMORY, "opening a sampler: out of memory");
    for (int32_t i = 0; i < s->n_bias; i++)
        p->bias[i] = (struct logit_bias){s->bias[i].id, s->bias[i].bias};
    p->settings.bias = p->bias;
    p->settings.n_bias = s->n_bias;
    hasten_status st = sampler_check(&p->settings, n_vocab, err);
    if (!st)
        st = sampler_open(n_vocab, &p->scratch, err);
    if (!st && p->settings.mirostat)
        st = sampler_memory_open(&p->memory, err);
    return st;
}

hasten_status hasten_sampler_open(const struct hasten_model *m, const struct hasten_sampler_settings *s,
                                  struct hasten_sampler **out, struct hasten_error *err)
{
    struct hasten_sampler *p = mem_calloc(1, sizeof *p);
    if (!p)
        return error_set(err, HASTEN_ERR_MEMORY, "opening a sampler: out of memory");
    const hasten_status st = fill(p, hasten_model_n_vocab(m), s, err);
    if (st)
        hasten_sampler_close(p);
    else
        *out = p;
    return st;
}

hasten_status hasten_sampler_choose(struct hasten_sampler *sampler, const float *logits, const int32_t *path,
                                    int64_t n, int32_t *id, struct hasten_error *err)
{
    struct token_logprob chosen;
    const hasten_status st = sampler_choose(sampler->scratch, sampler->memory, &sampler->settings, logits,
                                            path, n, n, &chosen, NULL, err);
    if (!st)
        *id = chosen.id;
    return st;
}

void hasten_sampler_close(struct hasten_sampler *s)
{
    if (!s)
        return;
    sampler_close(s->scratch);
    sampler_memory_close(s->memory);
    mem_free(s->bias);
    mem_free(s);
}
