/* Numbers of a row of logits (row.h). */
#include "eval/row.h"
#include "base/cpu.h"
#include "base/mem.h"
#include "kernels/row.h"
#include <float.h>
#include <math.h>

struct side { /* a row made ready: clamped, with its exponentials */
    float *x, *e;
    float max;
    int32_t top;
    double sum, log_sum; /* of e; log-sum-exp = max + log_sum */
};

struct eval_row {
    int32_t n, padded;
    const struct row_passes *passes;
    struct side plain, variant;
};

hasten_status eval_row_open(int32_t n_vocab, struct eval_row **out, struct hasten_error *err)
{
    struct eval_row *r = mem_calloc(1, sizeof *r);
    const int32_t padded = (n_vocab + ROW_BLOCK - 1) / ROW_BLOCK * ROW_BLOCK;
    const size_t bytes = (size_t)padded * sizeof(float);
    if (r) {
        r->n = n_vocab;
        r->padded = padded;
        r->passes = row_passes_select(cpu_features());
        r->plain = (struct side){.x = mem_aligned(bytes), .e = mem_aligned(bytes)};
        r->variant = (struct side){.x = mem_aligned(bytes), .e = mem_aligned(bytes)};
    }
    if (!r || !r->plain.x || !r->plain.e || !r->variant.x || !r->variant.e) {
        eval_row_close(r);
        return error_set(err, HASTEN_ERR_MEMORY, "evaluating: out of memory for rows of %d logits",
                         (int)n_vocab);
    }
    *out = r;
    return HASTEN_OK;
}

void eval_row_close(struct eval_row *r)
{
    if (!r)
        return;
    mem_free(r->plain.x);
    mem_free(r->plain.e);
    mem_free(r->variant.x);
    mem_free(r->variant.e);
    mem_free(r);
}

/* False when the row holds a NaN or +infinity, or nothing that is finite. */
static bool make_ready(const struct eval_row *r, const float *row, struct side *s)
{
    float max = -INFINITY;
    bool good = true;
    for (int32_t i = 0; i < r->n; i++) {
        good &= row[i] <= FLT_MAX;
        max = row[i] > max ? row[i] : max;
    }
    if (!good || max < -FLT_MAX)
        return false;
    const float floor = max - EVAL_FLOOR;
    for (int32_t i = 0; i < r->n; i++)
        s->x[i] = row[i] < floor ? floor : row[i];
    for (int32_t i = r->n; i < r->padded; i++)
        s->x[i] = floor;
    s->max = max;
    for (s->top = 0; s->x[s->top] < max;)
        s->top++;
    r->passes->exps(s->x, r->padded, max, s->e);
    double sum = 0;
    for (int32_t i = 0; i < r->n; i++)
        sum += (double)s->e[i];
    s->sum = sum;
    s->log_sum = log(sum);
    return true;
}

/* The formula of row.h. Where e^-y - 1 + y would cancel, its series stands. */
static double divergence(const struct eval_row *r)
{
    const struct side *a = &r->plain, *b = &r->variant;
    double c = 0, sum = 0;
    for (int32_t i = 0; i < r->n; i++)
        c += (double)a->e[i] * ((double)a->x[i] - (double)b->x[i]);
    c /= a->sum;
    /* p e^-y = exp(b - max_b) * scale / sum_a, scale = e^(c + max_b - max_a) */
    const double scale = exp(c + (double)b->max - (double)a->max);
    for (int32_t i = 0; i < r->n; i++) {
        const double y = (double)a->x[i] - (double)b->x[i] - c, p = (double)a->e[i];
        const double near =
            y * y * (0.5 + y * (-1.0 / 6 + y * (1.0 / 24 + y * (-1.0 / 120 + y * (1.0 / 720)))));
        sum += fabs(y) < 0.1 ? p * near : (double)b->e[i] * scale - p + p * y;
    }
    return fmax(0, log1p(sum / a->sum));
}

static void largest_difference(const struct eval_row *r, struct eval_token *t)
{
    const struct side *a = &r->plain, *b = &r->variant;
    const double shift = ((double)a->max - (double)b->max) + (a->log_sum - b->log_sum);
    const float likely = (float)(EVAL_LIKELY * a->sum);
    t->dlogp = 0;
    t->dlogp_id = a->top;
    for (int32_t i = 0; i < r->n; i++) {
        if (a->e[i] < likely)
            continue;
        const double d = fabs((double)a->x[i] - (double)b->x[i] - shift);
        if (d > t->dlogp) {
            t->dlogp = d;
            t->dlogp_id = i;
        }
    }
}

hasten_status eval_row_pair(struct eval_row *r, const float *plain, const float *variant, int32_t target,
                            struct eval_token *t, struct hasten_error *err)
{
    if (target < 0 || target >= r->n)
        return error_set(err, HASTEN_ERR_USAGE, "evaluating: token %d (expected 0 to %d)", (int)target,
                         (int)r->n - 1);
    for (int side = 0; side < 2; side++)
        if (!make_ready(r, side ? variant : plain, side ? &r->variant : &r->plain))
            return error_set(err, HASTEN_ERR_NON_FINITE,
                             "evaluating: a logit of the %s engine is not a number",
                             side ? "variant" : "plain");
    t->kl = divergence(r);
    t->nll_plain = (double)r->plain.max + r->plain.log_sum - (double)r->plain.x[target];
    t->nll_variant = (double)r->variant.max + r->variant.log_sum - (double)r->variant.x[target];
    t->top_plain = r->plain.top;
    t->top_variant = r->variant.top;
    t->target = target;
    largest_difference(r, t);
    return HASTEN_OK;
}

double eval_row_nll(const float *row, int32_t n, int32_t target)
{
    double max = (double)row[0], sum = 0;
    for (int32_t i = 1; i < n; i++)
        max = (double)row[i] > max ? (double)row[i] : max;
    for (int32_t i = 0; i < n; i++)
        sum += exp((double)row[i] - max);
    return max + log(sum) - (double)row[target];
}
