/* The naive sampler (naive.h). Shares with the real one only the noise function and the engine's exp and log,
 * because the law is written in terms of them. */
#include "naive.h"
#include "sample/noise.h"
#include <float.h>
#include <math.h>
#include <stdlib.h>

struct entry {
    float logit;
    int32_t id;
};

static int law_order(const void *a, const void *b)
{
    const struct entry *x = a, *y = b;
    if (x->logit != y->logit)
        return x->logit < y->logit ? 1 : -1;
    return x->id < y->id ? -1 : 1;
}

static float adjusted(const struct sampler_settings *s, const float *logits, int32_t id, const int32_t *path,
                      int64_t n_path)
{
    double l = (double)logits[id];
    if (!isfinite(l))
        return -INFINITY;
    int64_t from = s->penalty_last_n < 0 || n_path < s->penalty_last_n ? 0 : n_path - s->penalty_last_n;
    int count = 0;
    for (int64_t i = from; i < n_path; i++)
        count += path[i] == id;
    if (count) {
        l = l > 0 ? l / (double)s->repeat_penalty : l * (double)s->repeat_penalty;
        l -= (double)s->presence_penalty + count * (double)s->frequency_penalty;
    }
    l = (double)(float)fmin(fmax(l, -(double)FLT_MAX), (double)FLT_MAX);
    for (int32_t i = 0; i < s->n_bias; i++)
        if (s->bias[i].id == id)
            l = (double)(float)fmin(l + (double)s->bias[i].bias, (double)FLT_MAX);
    return (float)l;
}

static int32_t filter(const struct sampler_settings *s, const float *logits, int32_t n_vocab,
                      const int32_t *path, int64_t n_path, struct entry *e)
{
    int32_t n = 0;
    for (int32_t id = 0; id < n_vocab; id++) {
        float l = adjusted(s, logits, id, path, n_path);
        if (isfinite(l))
            e[n++] = (struct entry){l + 0.0f, id};
    }
    if (n == 0)
        return 0;
    qsort(e, (size_t)n, sizeof *e, law_order);
    float max = e[0].logit;
    if (s->top_k > 0 && s->top_k < n)
        n = s->top_k;
    if (s->top_p < 1) {
        double sum = 0, have = 0;
        for (int32_t i = 0; i < n; i++)
            sum += (double)exp_f32(e[i].logit - max);
        int32_t keep = 0;
        while (keep < n && have < (double)s->top_p * sum)
            have += (double)exp_f32(e[keep++].logit - max);
        n = keep;
    }
    if (s->min_p > 0) {
        double bound = (double)max + log_f64((double)s->min_p);
        while (n > 1 && (double)e[n - 1].logit < bound)
            n--;
    }
    return n;
}

int32_t naive_filter(const struct sampler_settings *s, const float *logits, int32_t n_vocab,
                     const int32_t *path, int64_t n_path, int32_t *kept)
{
    struct entry *e = malloc((size_t)n_vocab * sizeof *e);
    int32_t n = filter(s, logits, n_vocab, path, n_path, e);
    for (int32_t i = 0; i < n; i++)
        kept[i] = e[i].id;
    free(e);
    return n;
}

int32_t naive_choose(const struct sampler_settings *s, const float *logits, int32_t n_vocab,
                     const int32_t *path, int64_t n_path, int64_t position)
{
    struct entry *e = malloc((size_t)n_vocab * sizeof *e);
    int32_t n = filter(s, logits, n_vocab, path, n_path, e), best = n ? e[0].id : -1;
    double best_score = -INFINITY;
    for (int32_t i = 0; i < n && s->temperature > 0; i++) {
        uint32_t x = noise_x(s->seed, s->stream, position, (uint32_t)e[i].id);
        double score = ((double)e[i].logit - (double)e[0].logit) / (double)s->temperature + noise_gumbel(x);
        if (score > best_score || (score == best_score && e[i].id < best)) {
            best_score = score;
            best = e[i].id;
        }
    }
    free(e);
    return best;
}
