/* Halving, putting together, the last judgement (search.h). */
#include "tune/search.h"
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FINALISTS 3
#define MAX_ROUNDS 8

struct search {
    struct tune_search *s;
    const struct tune_settings *set;
    const struct tune_ops *ops;
    struct hasten_error *err;
};

static void reject(struct tune_candidate *c, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

static void reject(struct tune_candidate *c, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(c->why, sizeof c->why, fmt, ap);
    va_end(ap);
    c->verdict = TUNE_REJECTED;
}

static void say(const struct search *x, const struct tune_candidate *c, const char *what)
{
    if (x->ops->progress)
        x->ops->progress(x->ops->ctx, c, what);
}

/* ---- measuring ------------------------------------------------------------------------------------------------ */

static hasten_status room_for(struct tune_candidate *c, int32_t n, struct hasten_error *err)
{
    if (c->n_pairs + n <= c->cap_pairs)
        return HASTEN_OK;
    struct answers_pair *more = mem_realloc(c->pairs, (size_t)(c->n_pairs + n) * sizeof *more);
    if (!more)
        return error_set(err, HASTEN_ERR_MEMORY, "tune: out of memory");
    c->pairs = more;
    c->cap_pairs = c->n_pairs + n;
    return HASTEN_OK;
}

/* The candidate writes other tokens than it says. */
static bool lies(struct tune_candidate *c, const struct answers_pair *pairs, int32_t n)
{
    for (int32_t i = 0; i < n && c->exact; i++)
        c->differs |= !pairs[i].same;
    if (c->differs)
        reject(c, "its answers are not the plain engine's, though it says it is exact");
    return c->differs;
}

/* More pairs until there are n; a candidate that cannot be opened is rejected, which is no error. */
static hasten_status measure_to(const struct search *x, struct tune_candidate *c, int32_t n)
{
    const int32_t have = c->n_pairs, add = n - have;
    hasten_status st = add > 0 ? room_for(c, add, x->err) : HASTEN_OK;
    if (st || add <= 0)
        return st;
    say(x, c, "measuring");
    st = x->ops->measure(x->ops->ctx, c, false, have, add, c->pairs + have, x->err);
    if (st == HASTEN_ERR_USAGE || st == HASTEN_ERR_UNSUPPORTED) {
        reject(c, "not possible here: %s", x->err->message);
        return HASTEN_OK;
    }
    if (st)
        return st;
    c->n_pairs = n;
    return lies(c, c->pairs + have, add) ? HASTEN_OK : gain_of(c->pairs, n, &c->gain, x->err);
}

/* ---- rounds --------------------------------------------------------------------------------------------------- */

static bool is_open(const struct tune_candidate *c)
{
    return c->verdict == TUNE_OPEN;
}

static int32_t count_open(const struct search *x)
{
    int32_t n = 0;
    for (int32_t i = 0; i < x->s->n; i++)
        n += is_open(&x->s->c[i]);
    return n;
}

/* The open candidate with the largest gain of those not yet `taken`; -1: none. */
static int32_t best_open(const struct search *x, const bool *taken)
{
    int32_t best = -1;
    for (int32_t i = 0; i < x->s->n; i++) {
        const struct tune_candidate *c = &x->s->c[i];
        if (!is_open(c) || c->gain.n == 0 || taken[i])
            continue;
        if (best < 0 || c->gain.answer.value > x->s->c[best].gain.answer.value)
            best = i;
    }
    return best;
}

/* Keeps the better half, of what is clearly slower than plain nothing. */
static void halve(const struct search *x, int32_t keep)
{
    bool taken[TUNE_MAX_CANDIDATES] = {false};
    for (int32_t i = 0; i < keep; i++) {
        const int32_t best = best_open(x, taken);
        if (best >= 0)
            taken[best] = true;
    }
    for (int32_t i = 0; i < x->s->n; i++) {
        struct tune_candidate *c = &x->s->c[i];
        if (!is_open(c) || c->gain.n == 0)
            continue;
        if (c->gain.answer.value < 1 && (c->gain.n < 2 || c->gain.answer.hi < 1))
            reject(c, "slower: %.3f x plain on %d prompts", c->gain.answer.value, (int)c->gain.n);
        else if (!taken[i])
            reject(c, "%s: %.3f x plain on %d prompts",
                   c->gain.answer.value < 1 ? "no gain" : "others gain more", c->gain.answer.value,
                   (int)c->gain.n);
    }
}

static hasten_status run_rounds(const struct search *x)
{
    int32_t n = x->set->least < x->set->n_tune ? x->set->least : x->set->n_tune;
    hasten_status st = HASTEN_OK;
    for (int32_t round = 0; round < MAX_ROUNDS && !st; round++) {
        for (int32_t i = 0; i < x->s->n && !st; i++) {
            struct tune_candidate *c = &x->s->c[i];
            if (is_open(c) && x->ops->late(x->ops->ctx) && c->gain.n == 0)
                reject(c, "not measured: the time was over (--budget)");
            else if (is_open(c) && !(round > 0 && x->ops->late(x->ops->ctx)))
                st = measure_to(x, c, n);
        }
        x->s->rounds = round + 1;
        const int32_t open = count_open(x), half = (open + 1) / 2;
        halve(x, half > FINALISTS ? half : FINALISTS);
        if (count_open(x) <= FINALISTS && n >= x->set->n_tune)
            break;
        if (x->ops->late(x->ops->ctx))
            break;
        n = 2 * n < x->set->n_tune ? 2 * n : x->set->n_tune;
    }
    return st;
}

/* ---- putting together ----------------------------------------------------------------------------------------- */

/* Why two candidates do not go together; NULL: they do. */
static const char *apart(const struct tune_candidate *a, const struct tune_candidate *b)
{
    if ((a->n_threads && b->n_threads) || (a->n_batch && b->n_batch) ||
        (a->kv_type >= 0 && b->kv_type >= 0) || a->n_use + b->n_use > TUNE_MAX_USES)
        return "the same setting";
    for (int32_t i = 0; i < a->n_use; i++)
        for (int32_t j = 0; j < b->n_use; j++) {
            const char *why = method_clash(a->use[i].m, b->use[j].m);
            if (why)
                return why;
        }
    return NULL;
}

static void join(const struct tune_candidate *a, const struct tune_candidate *b, struct tune_candidate *out)
{
    for (int32_t i = 0; i < a->n_use; i++)
        out->use[out->n_use++] = a->use[i];
    for (int32_t i = 0; i < b->n_use; i++)
        out->use[out->n_use++] = b->use[i];
    out->n_threads = a->n_threads ? a->n_threads : b->n_threads;
    out->n_batch = a->n_batch ? a->n_batch : b->n_batch;
    out->kv_type = a->kv_type >= 0 ? a->kv_type : b->kv_type;
    out->exact = a->exact && b->exact;
}

/* The best with each other one that may be joined to it, one after another: what gains stays. */
static hasten_status put_together(const struct search *x)
{
    bool taken[TUNE_MAX_CANDIDATES] = {false};
    int32_t best = best_open(x, taken);
    hasten_status st = HASTEN_OK;
    if (best < 0)
        return HASTEN_OK;
    taken[best] = true;
    for (int32_t i = 0; i < FINALISTS && !st && !x->ops->late(x->ops->ctx); i++) {
        const int32_t other = best_open(x, taken);
        if (other < 0)
            break;
        taken[other] = true;
        if (apart(&x->s->c[best], &x->s->c[other]) || x->s->n == TUNE_MAX_CANDIDATES)
            continue;
        struct tune_candidate *both = tune_add(x->s, x->err);
        join(&x->s->c[best], &x->s->c[other], both);
        st = measure_to(x, both, x->s->c[best].n_pairs);
        if (st || !is_open(both))
            continue;
        taken[both - x->s->c] = true;
        if (both->gain.answer.value > x->s->c[best].gain.answer.value)
            best = (int32_t)(both - x->s->c);
        else
            reject(both, "not better than its best part: %.3f x plain on %d prompts", both->gain.answer.value,
                   (int)both->gain.n);
    }
    return st;
}

/* ---- the last judgement --------------------------------------------------------------------------------------- */

/* c->held, from each held-out prompt `repeat` times. */
static hasten_status judge_gain(const struct search *x, struct tune_candidate *c)
{
    const int32_t n = x->set->n_held * x->set->repeat;
    struct answers_pair *pairs = mem_calloc((size_t)n, sizeof *pairs);
    if (!pairs)
        return error_set(x->err, HASTEN_ERR_MEMORY, "tune: out of memory");
    say(x, c, "judging");
    hasten_status st = x->ops->measure(x->ops->ctx, c, true, 0, n, pairs, x->err);
    if (!st && !lies(c, pairs, n))
        st = gain_of(pairs, n, &c->held, x->err);
    mem_free(pairs);
    return st;
}

static double upper(const struct eval_interval *v)
{
    return isfinite(v->hi) ? v->hi : v->value;
}

/* Whether a finalist holds; else it is rejected. */
static hasten_status judge(const struct search *x, struct tune_candidate *c)
{
    hasten_status st = HASTEN_OK;
    if (!c->exact) {
        say(x, c, "damage");
        st = x->ops->damage(x->ops->ctx, c, x->err);
        if (!st && !(upper(&c->kl) <= x->set->max_kl))
            reject(c, "damage: KL %.4f (up to %.4f), --max-kl is %g", c->kl.value, upper(&c->kl),
                   x->set->max_kl);
    }
    if (st || !is_open(c))
        return st;
    st = judge_gain(x, c);
    if (st || !is_open(c))
        return st;
    if (!(c->held.answer.lo > 1))
        reject(c, "not shown to gain: %.3f x plain (%.3f to %.3f) on %d held-out answers",
               c->held.answer.value, c->held.answer.lo, c->held.answer.hi, (int)c->held.n);
    return st;
}

static hasten_status judge_all(const struct search *x)
{
    bool taken[TUNE_MAX_CANDIDATES] = {false};
    hasten_status st = HASTEN_OK;
    for (int32_t i; x->s->chosen < 0 && !st && (i = best_open(x, taken)) >= 0;) {
        taken[i] = true;
        st = judge(x, &x->s->c[i]);
        if (!st && is_open(&x->s->c[i])) {
            x->s->chosen = i;
            x->s->c[i].verdict = TUNE_CHOSEN;
        }
    }
    for (int32_t i = 0; i < x->s->n && !st; i++) {
        struct tune_candidate *c = &x->s->c[i];
        if (is_open(c) && c->gain.n)
            reject(c, "others gain more: %.3f x plain on %d prompts", c->gain.answer.value, (int)c->gain.n);
        else if (is_open(c))
            reject(c, "not measured: the time was over (--budget)");
    }
    return st;
}

hasten_status tune_run(struct tune_search *s, const struct tune_settings *settings,
                       const struct tune_ops *ops, struct hasten_error *err)
{
    const struct search x = {s, settings, ops, err};
    s->chosen = -1;
    hasten_status st = run_rounds(&x);
    if (!st)
        st = put_together(&x);
    return st ? st : judge_all(&x);
}
