/* The naive sampler (naive.h). Shares with the real one only the noise function and the engine's exp and log,
 * because the law is written in terms of them. */
#include "naive.h"
#include "sample/noise.h"
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

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

/* The most tokens that choosing id would repeat: every earlier place is tried. */
static int64_t repeated(const struct sampler_settings *s, int32_t id, const int32_t *path, int64_t n_path)
{
    int64_t from = s->dry_last_n < 0 || n_path < s->dry_last_n ? 0 : n_path - s->dry_last_n, most = 0;
    if (s->dry_breakers && s->dry_breakers[id])
        return 0;
    for (int64_t at = from + 1; at < n_path; at++) {
        int64_t n = 0;
        while (path[at] == id && at - 1 - n >= from && path[at - 1 - n] == path[n_path - 1 - n] &&
               !(s->dry_breakers && s->dry_breakers[path[at - 1 - n]]))
            n++;
        most = n > most ? n : most;
    }
    return most;
}

static double dry_penalty(const struct sampler_settings *s, int32_t id, const int32_t *path, int64_t n_path)
{
    int64_t n = s->dry_multiplier > 0 && s->dry_last_n != 0 ? repeated(s, id, path, n_path) : 0;
    return n >= s->dry_allowed_length && n > 0
               ? (double)s->dry_multiplier * pow((double)s->dry_base, (double)(n - s->dry_allowed_length))
               : 0;
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
    l -= dry_penalty(s, id, path, n_path);
    l = (double)(float)fmin(fmax(l, -(double)FLT_MAX), (double)FLT_MAX);
    for (int32_t i = 0; i < s->n_bias; i++)
        if (s->bias[i].id == id)
            l = (double)(float)fmin(l + (double)s->bias[i].bias, (double)FLT_MAX);
    if (s->mask && !(s->mask[id / 64] >> id % 64 & 1))
        return -INFINITY;
    return (float)l;
}

struct shifted {
    double shift; /* |surprise - expected| */
    int32_t side, at;
};

/* Nearest to the expectation first; of equals the likelier side first, and there those next to the middle. */
static int typical_order(const void *a, const void *b)
{
    const struct shifted *x = a, *y = b;
    if (x->shift != y->shift)
        return x->shift < y->shift ? -1 : 1;
    if (x->side != y->side)
        return x->side - y->side;
    return x->side == 0 ? y->at - x->at : x->at - y->at;
}

static int place_order(const void *a, const void *b)
{
    return ((const struct shifted *)a)->at - ((const struct shifted *)b)->at;
}

static int32_t typical(const struct sampler_settings *s, struct entry *e, int32_t n)
{
    struct shifted *d = malloc((size_t)n * sizeof *d);
    double sum = 0, expected = 0, have = 0;
    int32_t keep = 0;
    for (int32_t i = 0; i < n; i++)
        sum += (double)exp_f32(e[i].logit - e[0].logit);
    for (int32_t i = 0; i < n; i++)
        expected += (double)exp_f32(e[i].logit - e[0].logit) / sum *
                    (log_f64(sum) - ((double)e[i].logit - (double)e[0].logit));
    for (int32_t i = 0; i < n; i++) {
        double surprise = log_f64(sum) - ((double)e[i].logit - (double)e[0].logit);
        d[i] = (struct shifted){fabs(surprise - expected), surprise < expected ? 0 : 1, i};
    }
    qsort(d, (size_t)n, sizeof *d, typical_order);
    while (keep < n && (keep == 0 || have < (double)s->typical_p * sum))
        have += (double)exp_f32(e[d[keep++].at].logit - e[0].logit);
    qsort(d, (size_t)keep, sizeof *d, place_order);
    for (int32_t i = 0; i < keep; i++)
        e[i] = e[d[i].at];
    free(d);
    return keep;
}

static int32_t xtc(const struct sampler_settings *s, struct entry *e, int32_t n, int64_t position)
{
    double u = ((double)noise_x(s->seed, s->stream, position, UINT32_MAX) + 0.5) / 4294967296.0, sum = 0;
    int32_t top = 0;
    for (int32_t i = 0; i < n; i++)
        sum += (double)exp_f32(e[i].logit - e[0].logit);
    for (int32_t i = 0; i < n; i++)
        top += (double)exp_f32(e[i].logit - e[0].logit) >= (double)s->xtc_threshold * sum;
    if (u >= (double)s->xtc_probability || top < 2)
        return n;
    memmove(e, e + top - 1, (size_t)(n - top + 1) * sizeof *e);
    return n - top + 1;
}

static int32_t filter(const struct sampler_settings *s, const float *logits, int32_t n_vocab,
                      const int32_t *path, int64_t n_path, int64_t position, struct entry *e)
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
    if (s->top_k > 0 && s->top_k < n)
        n = s->top_k;
    if (s->typical_p < 1)
        n = typical(s, e, n);
    float max = e[0].logit;
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
    return s->xtc_probability > 0 ? xtc(s, e, n, position) : n;
}

int32_t naive_filter(const struct sampler_settings *s, const float *logits, int32_t n_vocab,
                     const int32_t *path, int64_t n_path, int32_t *kept)
{
    struct entry *e = malloc((size_t)n_vocab * sizeof *e);
    int32_t n = filter(s, logits, n_vocab, path, n_path, 0, e);
    for (int32_t i = 0; i < n; i++)
        kept[i] = e[i].id;
    free(e);
    return n;
}

int32_t naive_choose(const struct sampler_settings *s, const float *logits, int32_t n_vocab,
                     const int32_t *path, int64_t n_path, int64_t position)
{
    struct entry *e = malloc((size_t)n_vocab * sizeof *e);
    struct sampler_settings law = *s;
    if (s->temperature <= 0) { /* the best of all; no set is formed */
        law.typical_p = 1;
        law.xtc_probability = 0;
    }
    int32_t n = filter(&law, logits, n_vocab, path, n_path, position, e), best = n ? e[0].id : -1;
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
