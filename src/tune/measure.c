/* See measure.h. */
#include "tune/measure.h"
#include "base/clock.h"
#include "engine/engine.h"
#include "eval/damage.h"
#include <math.h>
#include <string.h>

#define LEAST_TOKENS 24 /* of an answer in the rounds, however little time there is */
#define LEAST_HELD 64   /* the same of held-out prompts */

static hasten_status no_memory(struct hasten_error *err)
{
    return error_set(err, HASTEN_ERR_MEMORY, "tune: out of memory");
}

void tune_settings_of(const struct tune_bench *b, const struct tune_candidate *c,
                      struct hasten_method_use *uses, struct hasten_engine_settings *out)
{
    *out = b->settings;
    for (int32_t i = 0; i < c->n_use; i++)
        uses[i] = (struct hasten_method_use){NULL, c->use[i].knobs, c->use[i].m};
    out->methods = uses;
    out->n_methods = c->n_use;
    out->n_threads = c->n_threads ? c->n_threads : out->n_threads;
    out->n_batch = c->n_batch ? c->n_batch : out->n_batch;
    out->kv_type = c->kv_type >= 0 ? (enum hasten_kv_type)c->kv_type : out->kv_type;
}

/* ---- gain ----------------------------------------------------------------------------------------------------- */

static struct answers_item item_of(const struct tune_bench *b, bool held, int32_t i)
{
    const struct prompts *p = held ? b->held : b->tune;
    struct answers_item item = p->items[i % p->n];
    const int32_t most = held ? b->n_held : b->n_answer;
    if (most > 0 && most < item.n_answer)
        item.n_answer = most;
    return item;
}

/* So many tokens of an answer that one of four takes at most `seconds`; 0: as many as there are. */
static int32_t tokens_in(double seconds, double prompt_s, double token_s, int32_t least)
{
    const double most = token_s > 0 ? (seconds - prompt_s) / token_s : 0;
    return most > least ? (most < INT32_MAX ? (int32_t)most : 0) : least;
}

/* At the first judgement: answers so long that one finalist fits into the time that is left, by what answers took. */
static void bound_held(struct tune_bench *b, int32_t n)
{
    const struct answers *p = &b->plain;
    if (b->n_held || !b->end_ns || p->n == 0 || p->n_tokens == 0)
        return;
    const uint64_t now = clock_now_ns();
    const double left = now < b->end_ns ? (double)(b->end_ns - now) * 1e-9 : 0;
    b->n_held =
        tokens_in(left / (4.0 * n), p->prompt_s / p->n, p->answer_s / (double)p->n_tokens, LEAST_HELD);
    if (b->n_held == 0)
        b->n_held = INT32_MAX;
}

/* A short answer that is not counted, so that what is measured is the speed after the first steps. */
static hasten_status warm_up(const struct tune_bench *b, struct hasten_engine *e, struct answers *a,
                             struct hasten_error *err)
{
    struct answers_item item = item_of(b, false, 0);
    struct answers_one one = {0};
    item.n_answer = item.n_answer < 4 ? item.n_answer : 4;
    hasten_status st = answers_open(a, e, err);
    if (!st)
        st = answers_run(a, &item, NULL, b->cancel, &one, err);
    tokens_free(&one.ids);
    return st;
}

static hasten_status measure(void *ctx, const struct tune_candidate *c, bool held, int32_t first, int32_t n,
                             struct answers_pair *out, struct hasten_error *err)
{
    struct tune_bench *b = ctx;
    struct hasten_method_use uses[TUNE_MAX_USES];
    struct hasten_engine_settings s;
    struct hasten_engine *e = NULL;
    struct answers with = {0};
    if (held)
        bound_held(b, n);
    tune_settings_of(b, c, uses, &s);
    hasten_status st = hasten_engine_open(b->model, &s, &e, err);
    if (!st)
        st = warm_up(b, e, &with, err);
    for (int32_t i = 0; i < n && !st; i++) {
        const struct answers_item item = item_of(b, held, first + i);
        const int32_t turn = (first + i) / (held ? b->held->n : b->tune->n);
        st = answers_pair(&b->plain, &with, &item, (turn + i) % 2, NULL, b->cancel, &out[i], err);
        if (b->answered)
            b->answered(b->progress_ctx, 4);
    }
    answers_close(&with);
    hasten_engine_close(e);
    return st;
}

/* ---- damage --------------------------------------------------------------------------------------------------- */

/* The plain engine's answer to a held-out prompt, behind the prompt. */
static hasten_status answer_of(struct tune_bench *b, int32_t i, struct hasten_error *err)
{
    const struct answers_item item = item_of(b, true, i);
    struct answers_one one = {0};
    if (b->answers[i].ids)
        return HASTEN_OK;
    hasten_status st = answers_run(&b->plain, &item, NULL, b->cancel, &one, err);
    for (int64_t j = 0; j < item.n && !st; j++)
        if (tokens_push(&b->answers[i], item.ids[j]))
            st = no_memory(err);
    for (int64_t j = 0; j < one.ids.n && !st; j++)
        if (tokens_push(&b->answers[i], one.ids.ids[j]))
            st = no_memory(err);
    tokens_free(&one.ids);
    return st;
}

/* The tokens of one answer, scored one by one as decoding reads them, appended to all. */
static hasten_status score_answer(const struct tune_bench *b, struct hasten_engine *e, int32_t i,
                                  struct eval_damage *all, struct hasten_error *err)
{
    const struct tokens *t = &b->answers[i];
    const int32_t n = (int32_t)t->n, prompt = (int32_t)b->held->items[i].n;
    const struct eval_damage_settings s = {
        .windows = {.ids = t->ids, .n = n, .n_ctx = n, .stride = n, .prefix = prompt}, .rows = 1, .seed = 1};
    struct eval_damage one = {0};
    if (n <= prompt)
        return HASTEN_OK;
    hasten_status st = eval_damage(b->engine, e, &s, NULL, NULL, b->cancel, &one, err);
    if (st)
        return st;
    struct eval_token *more = mem_realloc(all->tokens, (size_t)(all->n + one.n) * sizeof *more);
    const int32_t block = all->n ? all->tokens[all->n - 1].block + 1 : 0;
    if (more) {
        all->tokens = more;
        for (int64_t j = 0; j < one.n; j++) {
            all->tokens[all->n] = one.tokens[j];
            all->tokens[all->n++].block += block;
        }
    }
    eval_damage_free(&one);
    return more ? HASTEN_OK : no_memory(err);
}

static hasten_status damage(void *ctx, struct tune_candidate *c, struct hasten_error *err)
{
    struct tune_bench *b = ctx;
    struct hasten_method_use uses[TUNE_MAX_USES];
    struct hasten_engine_settings s;
    struct hasten_engine *e = NULL;
    const struct eval_damage_settings how = {.seed = 1};
    struct eval_damage all = {.block = EVAL_BLOCK};
    tune_settings_of(b, c, uses, &s);
    hasten_status st = hasten_engine_open(b->model, &s, &e, err);
    for (int32_t i = 0; i < b->held->n && !st; i++) {
        st = answer_of(b, i, err);
        if (!st)
            st = score_answer(b, e, i, &all, err);
    }
    if (!st && all.n == 0)
        st = error_set(err, HASTEN_ERR_USAGE,
                       "tune: the held-out answers are empty (expected some text to measure damage on)");
    if (!st)
        st = eval_damage_of(&how, &all, err);
    if (!st) {
        c->measured_kl = true;
        c->kl = all.kl;
        c->top1 = all.agreement.value;
    }
    eval_damage_free(&all);
    hasten_engine_close(e);
    return st;
}

/* ---- the bench ------------------------------------------------------------------------------------------------ */

static bool late(void *ctx)
{
    const struct tune_bench *b = ctx;
    return b->late_ns > 0 && clock_now_ns() >= b->late_ns;
}

static void tell(void *ctx, const struct tune_candidate *c, const char *what)
{
    const struct tune_bench *b = ctx;
    if (b->progress)
        b->progress(b->progress_ctx, c, what);
}

struct tune_ops tune_bench_ops(struct tune_bench *b)
{
    return (struct tune_ops){measure, damage, late, tell, b};
}

/* The first round has two prompts, four answers each, for every candidate. */
static hasten_status bound_answers(struct tune_bench *b, int32_t n, double budget_s, struct hasten_error *err)
{
    struct answers_one one = {0};
    const struct answers_item item = item_of(b, false, 0);
    const hasten_status st = answers_run(&b->plain, &item, NULL, b->cancel, &one, err);
    const double share = budget_s / 3 / (8.0 * (n > 0 ? n : 1));
    if (!st && budget_s > 0 && one.prompt_s + one.answer_s > share && one.n_tokens > 0)
        b->n_answer = tokens_in(share, one.prompt_s, one.answer_s / (double)one.n_tokens, LEAST_TOKENS);
    tokens_free(&one.ids);
    return st;
}

hasten_status tune_bench_open(struct tune_bench *b, int32_t n, double budget_s, struct hasten_error *err)
{
    b->settings.n_seq_max =
        b->settings.n_seq_max > 2 ? b->settings.n_seq_max : 2; /* answers, and damage beside */
    b->answers = mem_calloc((size_t)b->held->n, sizeof *b->answers);
    hasten_status st =
        b->answers ? hasten_engine_open(b->model, &b->settings, &b->engine, err) : no_memory(err);
    if (!st)
        st = warm_up(b, b->engine, &b->plain, err);
    return st ? st : bound_answers(b, n, budget_s, err);
}

void tune_bench_close(struct tune_bench *b)
{
    answers_close(&b->plain);
    hasten_engine_close(b->engine);
    for (int32_t i = 0; b->answers && i < b->held->n; i++)
        tokens_free(&b->answers[i]);
    mem_free(b->answers);
    b->answers = NULL;
    b->engine = NULL;
}
