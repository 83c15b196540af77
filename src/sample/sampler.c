/* The sampler (sampler.h says the law). What this file owns: turning one row of logits into one token by the steps
 * of the law in their order. How each is done cheaply and still exactly: select.c, top_p.c, race.c, over the vector
 * passes of kernels/row.h; DRY, typical and XTC, mirostat: dry.c, filters.c, mirostat.c.
 *
 * What it does not do: make masks (grammar.h); it keeps nothing between calls. */
#include "base/cpu.h"
#include "base/limits.h"
#include "base/mem.h"
#include "kernels/kernels.h"
#include "sample/scratch.h"
#include <math.h>

/* ---- the row at hand ---------------------------------------------------------------------------------- */

/* The caller's logits, unchanged. */
static void take_row(struct sampler *s, const float *logits)
{
    const int32_t whole = s->n_vocab / ROW_BLOCK;
    s->all.row = logits;
    s->all.n_whole = whole;
    s->pass->maxima(logits, whole, s->block_max);
    if (whole == s->n_blocks)
        return;
    for (int32_t i = 0; i < ROW_BLOCK; i++)
        s->tail[i] = whole * ROW_BLOCK + i < s->n_vocab ? logits[whole * ROW_BLOCK + i] : -INFINITY;
    s->pass->maxima(s->tail, 1, s->block_max + whole);
}

/* A copy that may be changed, of whole blocks. */
static void copy_row(struct sampler *s, const float *logits)
{
    int32_t whole = s->n_vocab / ROW_BLOCK;
    s->pass->copy(logits, whole, s->copy, s->block_max);
    for (int32_t i = whole * ROW_BLOCK; i < s->n_blocks * ROW_BLOCK; i++)
        s->copy[i] = i < s->n_vocab && isfinite(logits[i]) ? logits[i] : -INFINITY;
    s->pass->maxima(s->copy + whole * ROW_BLOCK, s->n_blocks - whole, s->block_max + whole);
    s->all.row = s->copy;
    s->all.n_whole = s->n_blocks;
}

int32_t best_place(const struct view *v, float *value)
{
    float best = -INFINITY;
    int32_t where = -1;
    for (int32_t b = 0; b < v->n_blocks; b++)
        if (v->block_max[b] > best) {
            best = v->block_max[b];
            where = b;
        }
    if (where < 0)
        return -1;
    *value = best;
    int32_t place = where * ROW_BLOCK;
    while (value_of(v, place) != best)
        place++;
    return place;
}

/* ---- penalties and bias ------------------------------------------------------------------------------- */

/* repeat: l > 0 ? l / r : l * r (Keskar et al. 2019, CTRL, with the sign rule of later engines); then
 * l -= presence + count * frequency. Once per distinct token of the window. */
static void apply_penalties(struct sampler *s, const struct sampler_settings *p, const int32_t *path,
                            int64_t n_path)
{
    int64_t from = p->penalty_last_n < 0 || n_path < p->penalty_last_n ? 0 : n_path - p->penalty_last_n;
    for (int64_t i = from; i < n_path; i++)
        s->counts[path[i]]++;
    for (int64_t i = from; i < n_path; i++) {
        int32_t id = path[i], count = s->counts[id];
        s->counts[id] = 0;
        if (count == 0 || s->copy[id] == -INFINITY)
            continue;
        double l = (double)s->copy[id], r = (double)p->repeat_penalty;
        l = l > 0 ? l / r : l * r;
        l -= (double)p->presence_penalty + count * (double)p->frequency_penalty;
        s->copy[id] = finite_f32(l);
    }
}

static bool penalties_on(const struct sampler_settings *p)
{
    return p->penalty_last_n != 0 &&
           (p->repeat_penalty != 1.0f || p->presence_penalty != 0.0f || p->frequency_penalty != 0.0f);
}

static void apply_bias(struct sampler *s, const struct sampler_settings *p)
{
    for (int32_t i = 0; i < p->n_bias; i++) {
        int32_t id = p->bias[i].id;
        if (s->copy[id] == -INFINITY)
            continue;
        float b = p->bias[i].bias;
        s->copy[id] = isinf(b) ? -INFINITY : finite_f32((double)s->copy[id] + (double)b);
    }
}

/* Forbids what the mask does not allow. A block is a word of the mask. */
static void apply_mask(struct sampler *s, const uint64_t *mask)
{
    _Static_assert(ROW_BLOCK == 64, "a word of the mask is a block");
    for (int32_t b = 0; b < s->n_blocks; b++) {
        float *x = s->copy + (int64_t)b * ROW_BLOCK;
        if (mask[b] == 0)
            for (int i = 0; i < ROW_BLOCK; i++)
                x[i] = -INFINITY;
        else
            for (uint64_t forbidden = ~mask[b]; forbidden; forbidden &= forbidden - 1)
                x[__builtin_ctzll(forbidden)] = -INFINITY;
    }
}

/* ---- filters and the race ----------------------------------------------------------------------------- */

/* min-p as a bound on the logit: keep l with l - max >= log(min_p). */
static struct ahead min_p_set(float min_p, float max)
{
    return min_p <= 0 ? AHEAD_ALL : at_least_set((double)max + log_f64((double)min_p));
}

struct ahead at_least_set(double bound)
{
    float f = finite_f32(bound);
    if ((double)f < bound)
        f = nextafterf(f, INFINITY); /* the smallest float that is not below the bound */
    return (struct ahead){f, INT32_MAX};
}

static int32_t choose_from_list(struct sampler *s, struct race *r, struct ahead min_p)
{
    int64_t n = select_top(s, r->p->top_k);
    if (r->p->top_p < 1.0f)
        n = top_p_of_list(s, n, r->p->top_p, r->max);
    while (n > 1 && pack_value(s->cand[n - 1]) < min_p.value)
        n--;
    return race_list(r, s->cand, n);
}

int32_t choose_plain(struct sampler *s, const struct sampler_settings *p, int64_t position, float max)
{
    struct race r = {.p = p, .position = position, .max = max};
    struct ahead min_p = min_p_set(p->min_p, max), set = AHEAD_ALL;
    int64_t k = p->top_k > 0 && p->top_k < s->n_vocab ? p->top_k : s->n_vocab;
    if (p->typical_p < 1.0f || p->xtc_probability > 0)
        return race_filtered(s, &r, k);
    if (k <= SELECT_LIST_MAX && k < s->n_vocab)
        return choose_from_list(s, &r, min_p);
    if (k < s->n_vocab)
        set = select_ahead(s, k);
    if (p->top_p < 1.0f)
        return race_top_p(s, &r, set, k, min_p);
    struct view v = select_view(s, both(set, min_p), &set);
    return id_of(&v, race_view(&v, &r, set));
}

/* ---- log-probabilities -------------------------------------------------------------------------------- */

double log_sum_exp(const struct sampler *s, float max)
{
    struct row_sum sum = {.max = max};
    sum_of_set(&s->all, AHEAD_ALL, &sum);
    return log_f64(row_sum_total(&sum));
}

static void report_top(struct sampler *s, int32_t n, float max, double lse, struct token_logprob *top)
{
    int64_t got = n > 0 ? select_top(s, n) : 0;
    for (int32_t i = 0; i < n; i++) {
        top[i].id = i < got ? pack_id(s->cand[i]) : -1;
        top[i].logprob = i < got ? (float)((double)pack_value(s->cand[i]) - (double)max - lse) : -INFINITY;
    }
}

/* ---- the interface ------------------------------------------------------------------------------------ */

static hasten_status check_path(const struct sampler *s, const int32_t *path, int64_t n,
                                struct hasten_error *err)
{
    if (s->pass->outside(path, n, s->n_vocab) == 0)
        return HASTEN_OK;
    int64_t i = 0;
    while (path[i] >= 0 && path[i] < s->n_vocab)
        i++;
    return error_set(err, HASTEN_ERR_USAGE, "sampling: token %d at place %lld of the path (expected 0 to %d)",
                     (int)path[i], (long long)i, (int)s->n_vocab - 1);
}

/* Penalties, DRY, bias and mask, on a copy of the row. argmax -1: nothing is left. */
static hasten_status change_row(struct sampler *s, const struct sampler_settings *p, const int32_t *path,
                                int64_t n_path, int32_t *argmax, float *max, struct hasten_error *err)
{
    hasten_status st = HASTEN_OK;
    if (penalties_on(p))
        apply_penalties(s, p, path, n_path);
    if (dry_on(p, n_path))
        st = dry_apply(s, p, path, n_path, err);
    apply_bias(s, p);
    if (p->mask)
        apply_mask(s, p->mask);
    s->pass->maxima(s->copy, s->n_blocks, s->block_max);
    *argmax = best_place(&s->all, max);
    return st;
}

static hasten_status no_finite(const struct sampler *s, int64_t position, bool forbidden, bool masked,
                               struct hasten_error *err)
{
    if (forbidden)
        return error_set(err, HASTEN_ERR_NON_FINITE, "sampling: position %lld: the %s forbids every token",
                         (long long)position, masked ? "bias or the grammar" : "bias");
    return error_set(err, HASTEN_ERR_NON_FINITE,
                     "sampling: position %lld has no finite logit (expected at least one of %d)",
                     (long long)position, (int)s->n_vocab);
}

hasten_status sampler_choose(struct sampler *s, struct sampler_memory *memory,
                             const struct sampler_settings *p, const float *logits, const int32_t *path,
                             int64_t n_path, int64_t position, struct token_logprob *chosen,
                             struct token_logprob *top, struct hasten_error *err)
{
    hasten_status st = check_path(s, path, n_path, err);
    if (!st && p->mirostat && !memory)
        st = error_set(err, HASTEN_ERR_USAGE,
                       "sampling: mirostat without a memory (expected one per sequence)");
    if (st)
        return st;
    const bool changes = penalties_on(p) || dry_on(p, n_path) || p->n_bias > 0 || p->mask;
    float max = 0, own_max = 0;
    double lse = 0;
    if (changes && !top)
        copy_row(s, logits);
    else
        take_row(s, logits);
    int32_t argmax = best_place(&s->all, &max);
    if (argmax < 0)
        return no_finite(s, position, false, false, err);
    if (top) {
        own_max = max;
        lse = log_sum_exp(s, max);
        report_top(s, p->n_logprobs, max, lse, top);
        if (changes)
            copy_row(s, logits);
    }
    if (changes)
        st = change_row(s, p, path, n_path, &argmax, &max, err);
    if (st || argmax < 0)
        return st ? st : no_finite(s, position, true, p->mask != NULL, err);
    chosen->id = argmax;
    if (p->temperature > 0 && p->mirostat)
        st = mirostat_choose(s, memory, p, path, n_path, position, max, &chosen->id, err);
    else if (p->temperature > 0)
        chosen->id = choose_plain(s, p, position, max);
    chosen->logprob = top ? (float)((double)logits[chosen->id] - (double)own_max - lse) : NAN;
    return st;
}

hasten_status sampler_open(int32_t n_vocab, struct sampler **out, struct hasten_error *err)
{
    if (n_vocab < 1 || n_vocab > LIMIT_VOCAB)
        return error_set(err, HASTEN_ERR_LIMIT, "sampler: a vocabulary of %d tokens (expected 1 to %d)",
                         (int)n_vocab, LIMIT_VOCAB);
    struct sampler *s = mem_calloc(1, sizeof *s);
    if (!s)
        return error_set(err, HASTEN_ERR_MEMORY, "sampler: out of memory");
    s->pass = row_passes_select(cpu_features());
    s->n_vocab = n_vocab;
    s->n_blocks = (n_vocab + ROW_BLOCK - 1) / ROW_BLOCK;
    size_t n = (size_t)s->n_blocks * ROW_BLOCK;
    s->block_max = mem_array((size_t)s->n_blocks, sizeof *s->block_max);
    s->copy = mem_array(n, sizeof *s->copy);
    s->exps = mem_array(n, sizeof *s->exps);
    s->counts = mem_calloc((size_t)n_vocab, sizeof *s->counts);
    s->cand = mem_array(n, sizeof *s->cand);
    s->all =
        (struct view){.pass = s->pass, .tail = s->tail, .n_blocks = s->n_blocks, .block_max = s->block_max};
    s->tmp = mem_array(n, sizeof *s->tmp);
    if (!s->block_max || !s->copy || !s->exps || !s->counts || !s->cand || !s->tmp) {
        sampler_close(s);
        return error_set(err, HASTEN_ERR_MEMORY, "sampler: out of memory for %d tokens", (int)n_vocab);
    }
    *out = s;
    return HASTEN_OK;
}

void sampler_close(struct sampler *s)
{
    if (!s)
        return;
    mem_free(s->block_max);
    mem_free(s->copy);
    mem_free(s->exps);
    mem_free(s->counts);
    mem_free(s->cand);
    mem_free(s->tmp);
    mem_free(s->match);
    mem_free(s);
}
