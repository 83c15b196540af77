/* Mirostat (sampler.h): a bound on surprise that follows the surprise of what was chosen.
 *
 *     surprise of a token   -log2 P, P the softmax of the row after the bias, before temperature
 *     mu, first             2 tau
 *     version 1             the s of Zipf's law from the 100 likeliest tokens (Basu et al. 2021, Algorithm 1),
 *                           then top-k with k = floor((e 2^mu / (1 - N^-e))^(1/s)), e = s - 1, N the vocabulary
 *     version 2             the tokens whose surprise is at most mu, and always the likeliest
 *     mu, next              mu - eta (surprise - tau)
 *
 * Owns the memory of a sequence: mu at each position since mirostat's first one, and the tokens chosen. */
#include "base/mem.h"
#include "kernels/kernels.h"
#include "sample/scratch.h"
#include <math.h>

#define LN2 0.6931471805599453
#define ZIPF_TOKENS 100 /* m of the paper */

struct sampler_memory {
    int64_t start, n, cap; /* positions start ... start + n - 1 were chosen */
    double *mu;            /* [cap]: mu[i], i <= n, is the bound at start + i */
    int32_t *ids;          /* [cap]: chosen at start + i, i < n */
};

hasten_status sampler_memory_open(struct sampler_memory **out, struct hasten_error *err)
{
    *out = mem_calloc(1, sizeof **out);
    return *out ? HASTEN_OK : error_set(err, HASTEN_ERR_MEMORY, "sampling: out of memory for mirostat");
}

static hasten_status reserve(struct sampler_memory *m, int64_t n, struct hasten_error *err)
{
    if (n <= m->cap)
        return HASTEN_OK;
    const int64_t cap = n < 32 ? 64 : 2 * n;
    double *mu = mem_realloc(m->mu, (size_t)cap * sizeof *mu);
    m->mu = mu ? mu : m->mu;
    int32_t *ids = mem_realloc(m->ids, (size_t)cap * sizeof *ids);
    m->ids = ids ? ids : m->ids;
    if (!mu || !ids)
        return error_set(err, HASTEN_ERR_MEMORY, "sampling: out of memory for mirostat");
    m->cap = cap;
    return HASTEN_OK;
}

hasten_status sampler_memory_fork(const struct sampler_memory *from, struct sampler_memory **out,
                                  struct hasten_error *err)
{
    hasten_status st = sampler_memory_open(out, err);
    if (!st && from->cap)
        st = reserve(*out, from->n + 1, err);
    if (st) {
        sampler_memory_close(*out);
        *out = NULL;
        return st;
    }
    (*out)->start = from->start;
    (*out)->n = from->n;
    if (from->cap) {
        memcpy((*out)->mu, from->mu, (size_t)(from->n + 1) * sizeof *from->mu);
        memcpy((*out)->ids, from->ids, (size_t)from->n * sizeof *from->ids);
    }
    return HASTEN_OK;
}

void sampler_memory_truncate(struct sampler_memory *m, int64_t n)
{
    if (m && n < m->start + m->n)
        m->n = n > m->start ? n - m->start : 0;
}

void sampler_memory_close(struct sampler_memory *m)
{
    if (!m)
        return;
    mem_free(m->mu);
    mem_free(m->ids);
    mem_free(m);
}

size_t sampler_memory_bytes(const struct sampler_memory *m)
{
    return sizeof *m + (size_t)m->cap * (sizeof *m->mu + sizeof *m->ids);
}

/* Does the path at this position continue what is remembered, up to some place of it? */
static bool continues(const struct sampler_memory *m, const int32_t *path, int64_t n_path, int64_t position)
{
    const int64_t i = position - m->start;
    if (m->n == 0 || i < 0 || i > m->n)
        return false;
    return i == 0 || (n_path > 0 && path[n_path - 1] == m->ids[i - 1]);
}

/* The bound at this position; what lies behind it is forgotten. */
static hasten_status recall(struct sampler_memory *m, const struct sampler_settings *p, const int32_t *path,
                            int64_t n_path, int64_t position, double *mu, struct hasten_error *err)
{
    const bool known = continues(m, path, n_path, position);
    hasten_status st = reserve(m, known ? position - m->start + 2 : 2, err);
    if (st)
        return st;
    if (!known) {
        m->start = position;
        m->mu[0] = 2 * (double)p->mirostat_tau;
    }
    m->n = position - m->start;
    *mu = m->mu[m->n];
    return HASTEN_OK;
}

static void learn(struct sampler_memory *m, const struct sampler_settings *p, int32_t id, double surprise)
{
    m->ids[m->n] = id;
    m->mu[m->n + 1] = m->mu[m->n] - (double)p->mirostat_eta * (surprise - (double)p->mirostat_tau);
    m->n++;
}

/* The exponent s: the least squares fit of b_i = log(p_i / p_i+1) by s t_i, t_i = log((i+1) / i). */
static double zipf_exponent(struct sampler *s)
{
    const int64_t n = select_top(s, ZIPF_TOKENS < s->n_vocab ? ZIPF_TOKENS : s->n_vocab);
    double tb = 0, tt = 0;
    for (int64_t i = 0; i + 1 < n; i++) {
        const double t = log_f64((double)(i + 2) / (double)(i + 1));
        tb += t * ((double)pack_value(s->cand[i]) - (double)pack_value(s->cand[i + 1]));
        tt += t * t;
    }
    return tt > 0 ? tb / tt : 0;
}

/* log(e / (1 - N^-e)); 1 / log N where e is 0. */
static double log_zipf_factor(double e, double n_vocab)
{
    const double log_n = log_f64(n_vocab), x = e * log_n;
    if (fabs(x) < 1e-3)
        return log_f64((1 + x / 2) / log_n);
    const double power = x > 100 ? 0 : (double)exp_f32((float)-x); /* x >= -log N */
    return log_f64(e / (1 - power));
}

static int32_t top_k_of(struct sampler *s, double mu)
{
    const double exponent = zipf_exponent(s);
    if (s->n_vocab < 2 || exponent <= 0) /* the likeliest are equally likely */
        return s->n_vocab;
    const double log_k = (log_zipf_factor(exponent - 1, s->n_vocab) + mu * LN2) / exponent;
    int32_t lo = 1, hi = s->n_vocab; /* the largest k with log k <= log_k, at least 1 */
    while (lo < hi) {
        const int32_t mid = lo + (hi - lo + 1) / 2;
        if (log_f64((double)mid) <= log_k)
            lo = mid;
        else
            hi = mid - 1;
    }
    return lo;
}

static int32_t choose_by_bound(struct sampler *s, const struct sampler_settings *p, int64_t position,
                               float max, double bound)
{
    struct race r = {.p = p, .position = position, .max = max};
    if (bound > (double)max) { /* the likeliest alone, of equals the first */
        float value;
        return best_place(&s->all, &value);
    }
    struct ahead set = at_least_set(bound);
    const struct view v = select_view(s, set, &set);
    return id_of(&v, race_view(&v, &r, set));
}

hasten_status mirostat_choose(struct sampler *s, struct sampler_memory *m, const struct sampler_settings *p,
                              const int32_t *path, int64_t n_path, int64_t position, float max, int32_t *id,
                              struct hasten_error *err)
{
    double mu;
    hasten_status st = recall(m, p, path, n_path, position, &mu, err);
    if (st)
        return st;
    const double lse = log_sum_exp(s, max);
    if (p->mirostat == 1) {
        struct sampler_settings top_k = *p;
        top_k.top_k = top_k_of(s, mu);
        top_k.top_p = top_k.typical_p = 1;
        top_k.min_p = top_k.xtc_probability = 0;
        *id = choose_plain(s, &top_k, position, max);
    } else {
        *id = choose_by_bound(s, p, position, max, (double)max + lse - mu * LN2);
    }
    learn(m, p, *id, (lse - ((double)value_of(&s->all, *id) - (double)max)) / LN2);
    return HASTEN_OK;
}
