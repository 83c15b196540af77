/* Pooled-hidden cosine: the state's vector against the candidates', each the mean of its last hidden states, less the mean
 * over the menu. No training; the floor that every decision model must beat. */
#include "engine/decide.h"
#include "base/mem.h"
#include <math.h>
#include <stdlib.h>

struct pool_knobs {
    int pooling;
    bool centre;
    float temperature;
};

static const struct knob pool_table[] = {
    {"pooling", KNOB_CHOICE, offsetof(struct pool_knobs, pooling), 0, 0, "mean", "mean|cls|last", NULL,
     "how the tokens' vectors become one"},
    {"centre", KNOB_BOOL, offsetof(struct pool_knobs, centre), 0, 0, "on", NULL, NULL,
     "take the mean over the menu from all vectors: what candidates share says nothing"},
    {"temperature", KNOB_FLOAT, offsetof(struct pool_knobs, temperature), 0.001, 100, "0.1", NULL, NULL,
     "of the probabilities: softmax of cosine / temperature"},
};

static double dot(const float *a, const float *b, int32_t d)
{
    double sum = 0;
    for (int32_t i = 0; i < d; i++)
        sum += (double)a[i] * (double)b[i];
    return sum;
}

static int ascending(const void *a, const void *b)
{
    const float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

/* v [n + 1 × d], the last one the state's: the mean of the first n from all. Sums by dimension in the order of the
 * candidates would show in the last bit who comes first, so they are of sorted values. */
static void take_mean(float *v, int32_t n, int32_t d, float *column)
{
    for (int32_t j = 0; j < d; j++) {
        double sum = 0;
        for (int32_t i = 0; i < n; i++)
            column[i] = v[(int64_t)i * d + j];
        qsort(column, (size_t)n, sizeof *column, ascending);
        for (int32_t i = 0; i < n; i++)
            sum += (double)column[i];
        for (int32_t i = 0; i <= n; i++)
            v[(int64_t)i * d + j] -= (float)(sum / n);
    }
}

static void softmax(const float *score, int32_t n, float temperature, float *prob)
{
    double max = -INFINITY, sum = 0;
    for (int32_t i = 0; i < n; i++)
        max = (double)score[i] > max ? (double)score[i] : max;
    for (int32_t i = 0; i < n; i++)
        sum += exp(((double)score[i] - max) / (double)temperature);
    for (int32_t i = 0; i < n; i++)
        prob[i] = (float)(exp(((double)score[i] - max) / (double)temperature) / sum);
}

static hasten_status pool_score(const void *state, const struct decide_question *q, float *score, float *prob,
                                struct hasten_error *err)
{
    const struct pool_knobs *k = state;
    const int32_t d = hasten_model_n_embd(q->model), n = q->n;
    const enum hasten_pooling pooling = (enum hasten_pooling)(HASTEN_POOLING_MEAN + k->pooling);
    float *v = mem_array((size_t)(n + 1) * (size_t)d, sizeof *v),
          *column = mem_array((size_t)n, sizeof *column);
    hasten_status st = HASTEN_OK;
    if (!v || !column)
        st = error_set(err, HASTEN_ERR_MEMORY, "--decide pool: out of memory for %d vectors", (int)n + 1);
    if (!st)
        st = hasten_embed(q->engine, q->candidates, n, pooling, false, v, q->cancel, err);
    if (!st)
        st = hasten_embed(q->engine, q->state, 1, pooling, false, v + (int64_t)n * d, q->cancel, err);
    if (!st && k->centre)
        take_mean(v, n, d, column);
    const float *own = st ? NULL : v + (int64_t)n * d;
    for (int32_t i = 0; i < n && !st; i++) {
        const float *c = v + (int64_t)i * d;
        const double size = sqrt(dot(own, own, d)) * sqrt(dot(c, c, d));
        score[i] = size > 0 ? (float)(dot(own, c, d) / size) : 0.0f;
    }
    if (!st)
        softmax(score, n, k->temperature, prob);
    mem_free(v);
    mem_free(column);
    return st;
}

static const struct decide_ops pool_ops = {.score = pool_score};

const struct method method_pool = {
    .name = "pool",
    .title = "the candidate whose pooled hidden states point where the state's do",
    .paper =
        "the floor of decision models: Can a Cacheable Decision Model Follow Rules?, arXiv:2609.37832, measures above it",
    .stage = STAGE_DECIDE,
    .guarantee = METHOD_APPROXIMATE,
    .exact_to =
        "reading state and candidate together: each is read alone, so rules in the state do not reach the candidates",
    .role = "score",
    .knobs = pool_table,
    .n_knobs = sizeof pool_table / sizeof *pool_table,
    .knobs_bytes = sizeof(struct pool_knobs),
    .text =
        "Any model will do, encoders best. Each text is read once; a candidate's vector does not depend on the state, nor, "
        "but for the mean, on the menu. It knows what texts are about, not what follows from them: `if a, then not b` is "
        "as near to b as its opposite. The probabilities are a softmax with a chosen temperature, not calibrated.",
    .hosted = &pool_ops,
};
