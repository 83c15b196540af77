/* Typical and XTC (sampler.h): filters that keep no beginning of the order, over a sorted list. */
#include "kernels/kernels.h"
#include "sample/noise.h"
#include "sample/scratch.h"
#include <math.h>

/* Moves what typical keeps of the first n candidates to the front; returns how many.
 *
 * Surprise grows along the order, so its distance from the expectation falls and then grows: what is kept lies between
 * two ends that move apart, the nearer one first. */
static int64_t typical_of_list(struct sampler *s, int64_t n, float typical_p)
{
    const double max = (double)pack_value(s->cand[0]), sum = exps_of_list(s, n, (float)max),
                 log_sum = log_f64(sum);
    double expected = 0, have = 0;
    for (int64_t i = 0; i < n; i++)
        expected += (double)s->exps[i] / sum * (log_sum - ((double)pack_value(s->cand[i]) - max));
    int64_t hi = 0; /* kept: [lo, hi); hi begins at the first surprise that is not below the expected one */
    while (hi < n && log_sum - ((double)pack_value(s->cand[hi]) - max) < expected)
        hi++;
    int64_t lo = hi;
    while (lo > 0 || hi < n) {
        double above = lo > 0 ? expected - (log_sum - ((double)pack_value(s->cand[lo - 1]) - max)) : INFINITY;
        double below = hi < n ? log_sum - ((double)pack_value(s->cand[hi]) - max) - expected : INFINITY;
        have += (double)(above <= below ? s->exps[--lo] : s->exps[hi++]);
        if (have >= (double)typical_p * sum)
            break;
    }
    memmove(s->cand, s->cand + lo, (size_t)(hi - lo) * sizeof *s->cand);
    return hi - lo;
}

/* How many of the first n candidates XTC takes away. */
static int64_t xtc_of_list(struct sampler *s, const struct race *r, int64_t n)
{
    const struct sampler_settings *p = r->p;
    const double u = ((double)noise_x(p->seed, p->stream, r->position, UINT32_MAX) + 0.5) * 0x1p-32;
    if (u >= (double)p->xtc_probability || n < 2)
        return 0;
    const double sum = exps_of_list(s, n, pack_value(s->cand[0]));
    int64_t top = 0;
    while (top < n && (double)s->exps[top] >= (double)p->xtc_threshold * sum)
        top++;
    return top > 1 ? top - 1 : 0;
}

int32_t race_filtered(struct sampler *s, struct race *r, int64_t k)
{
    const struct sampler_settings *p = r->p;
    int64_t n = k < s->n_vocab ? select_top(s, k) : select_all(s);
    if (p->typical_p < 1.0f)
        n = typical_of_list(s, n, p->typical_p);
    const float max = pack_value(s->cand[0]);
    if (p->top_p < 1.0f)
        n = top_p_of_list(s, n, p->top_p, max);
    if (p->min_p > 0) {
        const struct ahead set = at_least_set((double)max + log_f64((double)p->min_p));
        while (n > 1 && pack_value(s->cand[n - 1]) < set.value)
            n--;
    }
    const int64_t gone = p->xtc_probability > 0 ? xtc_of_list(s, r, n) : 0;
    r->max = pack_value(s->cand[gone]); /* scores count from the best that is left */
    return race_list(r, s->cand + gone, n - gone);
}
