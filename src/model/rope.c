/* Position encodings: how a file says that its rotary embedding is scaled, and the frequencies that follow.
 *
 *   none, linear    position interpolation (Chen et al., arXiv:2306.15595): frequencies divided by the factor
 *   yarn            Peng et al., arXiv:2309.00071, section 3.1 and 3.4
 *   longrope        Ding et al., arXiv:2402.13753: two lists of divisors, one for sequences up to the original
 *                   context and one for longer ones
 *   llama3          Llama 3.1 (arXiv:2407.21783; its published rope parameters): low frequencies divided, high
 *                   ones kept, a ramp between them. Files hold the divisors as rope_freqs.weight; the parameters
 *                   themselves, where a configuration is mapped to keys: rope.scaling.factor, low_freq_factor,
 *                   high_freq_factor and original_context_length.
 *
 * A scaling that is not of this list is refused by name, and so are parameters of these that are not read here. */
#include "base/limits.h"
#include "model/model.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

#define TWO_PI 6.283185307179586

void rope_frequencies(const struct rope_spec *s, double *out)
{
    for (int32_t i = 0; i < s->n_rot / 2; i++) {
        /* Su et al., RoFormer, arXiv:2104.09864, eq. 15 */
        double f = pow((double)s->theta, -2.0 * i / s->n_rot);
        if (s->factors)
            f /= (double)s->factors[i];
        if (s->yarn) {
            const double at = (i - (double)s->yarn_low) / (double)(s->yarn_high - s->yarn_low);
            const double mix = at < 0 ? 0 : at > 1 ? 1 : at; /* 1: interpolated */
            f = f / (double)s->linear_scale * mix + f * (1 - mix);
        } else {
            f /= (double)s->linear_scale;
        }
        out[i] = f;
    }
}

void rope_unscaled(struct rope_spec *s)
{
    s->linear_scale = s->magnitude = 1.0f;
    s->factors = NULL;
    s->yarn = false;
    s->beyond = 0;
}

enum scaling {
    SCALING_NONE,
    SCALING_LINEAR,
    SCALING_YARN,
    SCALING_LONGROPE,
    SCALING_LLAMA3,
    SCALINGS
};

static const char *const scaling_names[SCALINGS] = {"none", "linear", "yarn", "longrope", "llama3"};

/* What the file says; without a word it is linear, as the factor is 1 where that is missing too. */
static hasten_status read_type(const struct gguf *g, const struct model_desc *m, enum scaling *out,
                               struct hasten_error *err)
{
    char key[128];
    struct gguf_str said = {"linear", 6};
    snprintf(key, sizeof key, "%s.rope.scaling.type", m->arch);
    hasten_status st = gguf_opt_str(g, key, &said, err);
    if (st)
        return st;
    for (int i = 0; i < SCALINGS; i++)
        if (said.len == strlen(scaling_names[i]) && memcmp(said.data, scaling_names[i], said.len) == 0) {
            *out = (enum scaling)i;
            return HASTEN_OK;
        }
    return error_set(err, HASTEN_ERR_UNSUPPORTED,
                     "%s: %s: unsupported value '%.*s' (supported: none, linear, yarn, longrope, llama3)",
                     gguf_path(g), key, (int)(said.len < 32 ? said.len : 32), said.data);
}

/* "rope.scaling.factor", or its older name; files write 0 for 1. */
static hasten_status read_factor(const struct gguf *g, struct model_desc *m, float *out,
                                 struct hasten_error *err)
{
    const float one = 1.0f;
    hasten_status st = bind_f32(g, m, "rope.scale_linear", 0.0f, 1e6f, &one, out, err);
    if (st || (st = bind_f32(g, m, "rope.scaling.factor", 0.0f, 1e6f, out, out, err)))
        return st;
    if (*out == 0.0f)
        *out = 1.0f;
    if (*out < 1e-3f)
        return error_set(err, HASTEN_ERR_FILE, "%s: %s.rope.scaling.factor: found %g (expected 0.001 to 1e6)",
                         gguf_path(g), m->arch, (double)*out);
    return HASTEN_OK;
}

static hasten_status original_context(const struct gguf *g, struct model_desc *m, int32_t *out,
                                      struct hasten_error *err)
{
    return bind_i32(g, m, "rope.scaling.original_context_length", 1, LIMIT_CONTEXT, &m->n_ctx_train, out,
                    err);
}

/* The pair that turns `turns` times over the original context, as a fractional index (arXiv:2309.00071, eq. 17;
 * in the authors' code "correction dim"). */
static double pair_of_turns(const struct rope_spec *s, int32_t context, double turns)
{
    return s->n_rot * log(context / (turns * TWO_PI)) / (2 * log((double)s->theta));
}

/* The ramp lies between whole pairs, but in gpt-oss, whose published configuration says "truncate": false. */
static hasten_status bind_yarn(const struct gguf *g, struct model_desc *m, struct rope_spec *s,
                               struct hasten_error *err)
{
    const float fast = 32.0f, slow = 1.0f;
    float beta_fast, beta_slow, magnitude;
    int32_t context = 0;
    hasten_status st;
    if ((st = original_context(g, m, &context, err)) ||
        (st = bind_f32(g, m, "rope.scaling.yarn_beta_fast", 1e-3f, 1e6f, &fast, &beta_fast, err)) ||
        (st = bind_f32(g, m, "rope.scaling.yarn_beta_slow", 1e-3f, 1e6f, &slow, &beta_slow, err)))
        return st;
    if (s->theta <= 1.0f || beta_slow > beta_fast)
        return error_set(
            err, HASTEN_ERR_FILE,
            "%s: %s.rope.scaling.type: yarn with base %g, beta_fast %g, beta_slow %g (expected a "
            "base above 1, beta_fast not below beta_slow)",
            gguf_path(g), m->arch, (double)s->theta, (double)beta_fast, (double)beta_slow);
    double low = pair_of_turns(s, context, (double)beta_fast),
           high = pair_of_turns(s, context, (double)beta_slow);
    if (strcmp(m->arch, "gpt-oss") != 0) {
        low = floor(low);
        high = ceil(high);
    }
    low = low > 0 ? low : 0;
    high = high < s->n_rot - 1 ? high : s->n_rot - 1;
    s->yarn = true;
    s->yarn_low = (float)low;
    s->yarn_high = (float)(high > low ? high : low + 0.001);
    /* section 3.4, eq. 22: the temperature, as a factor of q and of k */
    magnitude = s->linear_scale > 1.0f ? (float)(0.1 * log((double)s->linear_scale) + 1.0) : 1.0f;
    return bind_f32(g, m, "rope.scaling.yarn_attn_factor", 1e-3f, 1e3f, &magnitude, &s->magnitude, err);
}

static hasten_status check_factors(const struct gguf *g, const char *name, const float *f, int32_t n,
                                   struct hasten_error *err)
{
    for (int32_t i = 0; i < n; i++)
        if (!(f[i] >= 1e-6f && f[i] <= 1e6f))
            return error_set(err, HASTEN_ERR_FILE,
                             "%s: tensor '%s': found %g at index %d (expected 1e-6 to 1e6)", gguf_path(g),
                             name, (double)f[i], i);
    return HASTEN_OK;
}

static hasten_status bind_factors(const struct gguf *g, struct model_desc *m, const char *name,
                                  const float **out, struct hasten_error *err)
{
    const int32_t n = m->ropes[0].n_rot / 2;
    hasten_status st = bind_vector(g, m, name, n, false, out, err);
    return st ? st : check_factors(g, name, *out, n, err);
}

/* ropes[0] takes the short factors and ropes[1] the long ones. */
static hasten_status bind_longrope(const struct gguf *g, struct model_desc *m, struct hasten_error *err)
{
    struct rope_spec *s = &m->ropes[0];
    const float *longer;
    hasten_status st;
    int32_t context = 0;
    if ((st = original_context(g, m, &context, err)) ||
        (st = bind_factors(g, m, "rope_factors_short.weight", &s->factors, err)) ||
        (st = bind_factors(g, m, "rope_factors_long.weight", &longer, err)))
        return st;
    /* arXiv:2402.13753, section 3.4: the temperature grows with the extension */
    const double extension = (double)m->n_ctx_train / context;
    if (extension > 1 && context > 1)
        s->magnitude = (float)sqrt(1 + log(extension) / log((double)context));
    m->ropes[1] = *s;
    m->ropes[1].factors = longer;
    m->n_ropes = 2;
    if (m->n_ctx_train > context) {
        m->rope_switch = context;
        s->beyond = 1;
    }
    return HASTEN_OK;
}

static hasten_status bind_llama3(const struct gguf *g, struct model_desc *m, struct hasten_error *err)
{
    struct rope_spec *s = &m->ropes[0];
    float low = 0, high = 0, *factors;
    int32_t context = 0;
    hasten_status st;
    if ((st = original_context(g, m, &context, err)) ||
        (st = bind_f32(g, m, "rope.scaling.low_freq_factor", 1e-3f, 1e6f, NULL, &low, err)) ||
        (st = bind_f32(g, m, "rope.scaling.high_freq_factor", 1e-3f, 1e6f, NULL, &high, err)))
        return st;
    if (!(high > low))
        return error_set(
            err, HASTEN_ERR_FILE,
            "%s: %s.rope.scaling.high_freq_factor: found %g (expected above low_freq_factor, %g)",
            gguf_path(g), m->arch, (double)high, (double)low);
    if ((st = bind_own_vector(g, m, s->n_rot / 2, &factors, err)))
        return st;
    for (int32_t i = 0; i < s->n_rot / 2; i++) {
        const double turns = context / (TWO_PI * pow((double)s->theta, 2.0 * i / s->n_rot));
        const double at = (turns - (double)low) / (double)(high - low), keep = at < 0 ? 0 : at > 1 ? 1 : at;
        factors[i] = (float)(1 / (keep + (1 - keep) / (double)s->linear_scale));
    }
    s->linear_scale = 1.0f;
    s->factors = factors;
    return HASTEN_OK;
}

/* A tensor of factors that the scaling has no use for is left unclaimed, and refused by its name. */
hasten_status bind_rope_scaling(const struct gguf *g, struct model_desc *m, struct hasten_error *err)
{
    struct rope_spec *s = &m->ropes[0];
    enum scaling type = SCALING_NONE;
    float factor = 1.0f;
    hasten_status st;
    if ((st = read_type(g, m, &type, err)) || (st = read_factor(g, m, &factor, err)))
        return st;
    if (type == SCALING_LINEAR && gguf_tensor_find(g, "rope_factors_long.weight"))
        type = SCALING_LONGROPE; /* files of phi3 have no type */
    if (type == SCALING_LINEAR || type == SCALING_YARN || type == SCALING_LLAMA3)
        s->linear_scale = factor;
    if (type == SCALING_YARN)
        st = bind_yarn(g, m, s, err);
    else if (type == SCALING_LONGROPE)
        st = bind_longrope(g, m, err);
    else if (type == SCALING_LLAMA3)
        st = bind_llama3(g, m, err);
    if (st == HASTEN_OK && type != SCALING_LONGROPE && type != SCALING_LLAMA3 &&
        gguf_tensor_find(g, "rope_freqs.weight"))
        st = bind_factors(g, m, "rope_freqs.weight", &s->factors, err);
    if (st)
        return st;
    const float one = 1.0f, computed = type == SCALING_LONGROPE ? s->magnitude : one;
    float given = 1.0f;
    if ((st = bind_f32(g, m, "rope.scaling.attn_factor", 1e-3f, 1e3f, &computed, &given, err)))
        return st;
    for (int32_t i = 0; i < m->n_ropes; i++)
        m->ropes[i].magnitude = type == SCALING_LONGROPE ? given : m->ropes[i].magnitude * given;
    return HASTEN_OK;
}

void bind_rope_neox(struct model_desc *m)
{
    for (int32_t i = 0; i < m->n_ropes; i++)
        m->ropes[i].neox = true;
}
