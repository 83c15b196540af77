/* See select.h. */
#include "engine/select.h"
#include <math.h>

bool select_active(const void *state, int32_t layer, int32_t pos, int32_t n_prompt)
{
    const struct select_knobs *k = state;
    return layer_set_has(&k->layers, layer) && (k->phase || pos >= n_prompt) &&
           budget_of(k->budget, pos + 1) <= pos;
}

void select_pages(const struct select_knobs *k, const struct attend_query *q, int32_t page, float *score,
                  uint64_t *seen, int32_t *work)
{
    const int32_t n = q->kv.n, n_pages = (n + page - 1) / page;
    const int32_t budget = budget_of(k->budget, n);
    int32_t keep = (budget + page - 1) / page;
    int32_t pinned = 0;
    for (int32_t p = 0; p < n_pages; p++)
        if (p * page < k->sink || (p + 1) * page > n - k->recent || p == n_pages - 1) {
            score[p] = INFINITY;
            pinned++;
        }
    keep = keep < pinned ? pinned : keep > n_pages ? n_pages : keep;
    attend_top_k(score, n_pages, keep, work, work + n_pages);
    attend_clear(seen, 0, n);
    for (int32_t i = 0; i < keep; i++) {
        const int32_t end = (work[i] + 1) * page;
        attend_keep(seen, work[i] * page, end < n ? end : n);
    }
}

static void softmax(float *x, int32_t n)
{
    float max = -INFINITY, sum = 0;
    for (int32_t i = 0; i < n; i++)
        max = x[i] > max ? x[i] : max;
    for (int32_t i = 0; i < n; i++)
        sum += x[i] = exp_f32(x[i] - max);
    for (int32_t i = 0; i < n; i++)
        x[i] /= sum;
}

void select_group_add(enum select_group how, float *of_head, int32_t n, int32_t h, int32_t n_heads,
                      float *score)
{
    if (how == GROUP_SOFTMEAN)
        softmax(of_head, n);
    for (int32_t i = 0; i < n; i++) {
        const float v = how == GROUP_MAX ? of_head[i] : of_head[i] / (float)n_heads;
        score[i] = h == 0 ? v : how == GROUP_MAX ? (v > score[i] ? v : score[i]) : score[i] + v;
    }
}
