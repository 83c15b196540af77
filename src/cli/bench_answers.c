/* `hasten bench MODEL --workload W`, and any bench with a method of the loop of an answer (--draft, --stop-when): whole
 * answers are timed (bench/answers.h), with methods in turns with the plain engine. */
#include "bench/prompts.h"
#include "base/clock.h"
#include "base/limits.h"
#include "cli/bench.h"
#include "tune/gain.h"
#include <jansson.h>
#include <math.h>
#include <string.h>

#define POSITIONS_BEYOND 64 /* room for what is proposed behind an answer's end */
#define HALVES 8

struct answers_bench {
    struct bench_args *a;
    struct model_text text;
    struct workload *workload; /* NULL: the text of bench */
    struct prompter *prompter;
    struct prompts prompts; /* without a workload: one */
    struct tokens tokens;   /* of the text of bench */
    struct session session, with;
    struct answers plain, variant;
    struct energy energy;
    struct answers_pair *pairs; /* [n_pairs] prompt by prompt, repetition by repetition */
    int32_t n_pairs;
    uint64_t since_ns;
};

struct half {
    const char *name;
    struct gain gain;
    int32_t n_prompts, n_pairs, n_same;
};

/* ---- prompts -------------------------------------------------------------------------------------------------- */

static hasten_status open_workload(struct answers_bench *b, const char *model, struct hasten_error *err)
{
    const struct bench_args *a = b->a;
    hasten_status st = workload_open(a->workload, &b->workload, err);
    if (!st)
        st = model_text_open(model, &b->text, err);
    if (!st && prompter_open(b->text.gguf, b->text.vocab, &b->prompter, err))
        st = error_prefix(err, "%s", b->text.path.data);
    if (!st && !b->prompter)
        ui_note(&b->a->ui, "%s has no chat template: prompts are completed", b->text.path.data);
    return st ? st
              : prompts_open(b->workload, b->prompter, b->text.vocab, a->half, (enum prompts_part)a->part,
                             a->n_answer, &b->prompts, err);
}

/* The text of bench as one prompt: depth and prompt together. */
static hasten_status text_prompt(struct answers_bench *b, struct hasten_error *err)
{
    const int64_t n = (int64_t)b->a->depth + b->a->n_prompt;
    const hasten_status st = bench_tokens(b->a, &b->session, n, &b->tokens, err);
    if (st)
        return st;
    b->prompts = (struct prompts){.items = mem_calloc(1, sizeof *b->prompts.items),
                                  .of = mem_calloc(1, sizeof *b->prompts.of),
                                  .ids = mem_calloc(1, sizeof *b->prompts.ids)};
    if (!b->prompts.items || !b->prompts.of || !b->prompts.ids)
        return error_set(err, HASTEN_ERR_MEMORY, "bench: out of memory");
    b->prompts.items[0] = (struct answers_item){b->tokens.ids, n, b->a->n_gen, true};
    b->prompts.n = 1;
    return HASTEN_OK;
}

/* ---- measuring ------------------------------------------------------------------------------------------------ */

static hasten_status open_engines(struct answers_bench *b, struct hasten_engine_settings *settings,
                                  const char *model, struct hasten_error *err)
{
    const struct hasten_engine_settings with = *settings;
    settings->n_methods = 0;
    hasten_status st = session_open(model, &b->a->model, settings, &b->a->ui, &b->session, err);
    if (!st && b->a->workload == NULL)
        st = session_has_weights(&b->session, "bench", err);
    if (!st && with.n_methods > 0)
        st = session_open(model, &b->a->model, &with, &b->a->ui, &b->with, err);
    struct session *both[] = {&b->session, &b->with};
    for (int i = 0; i < 2 && !st; i++) {
        hasten_seq_close(both[i]->seq); /* the measurement opens its own */
        both[i]->seq = NULL;
    }
    return st;
}

/* A short answer of each engine, which is not counted: what is measured is the speed after the first steps. */
static hasten_status warm_up(struct answers_bench *b, struct hasten_engine *e, struct answers *a,
                             struct hasten_error *err)
{
    struct answers_item item = b->prompts.items[0];
    struct answers_one one = {0};
    item.n_answer = item.n_answer < 8 ? item.n_answer : 8;
    hasten_status st = answers_open(a, e, err);
    if (!st)
        st = answers_run(a, &item, NULL, interrupt_arm(), &one, err);
    tokens_free(&one.ids);
    answers_close(a);
    return st ? st : answers_open(a, e, err);
}

static hasten_status measure(struct answers_bench *b, struct hasten_error *err)
{
    const int32_t n = b->prompts.n, total = n * b->a->repeat;
    const bool pairs = b->with.engine != NULL;
    const volatile int *cancel = interrupt_arm();
    b->pairs = mem_calloc((size_t)total, sizeof *b->pairs);
    hasten_status st = b->pairs ? warm_up(b, b->session.engine, &b->plain, err)
                                : error_set(err, HASTEN_ERR_MEMORY, "bench: out of memory");
    if (!st && pairs)
        st = warm_up(b, b->with.engine, &b->variant, err);
    b->since_ns = clock_now_ns();
    for (int32_t i = 0; i < total && !st; i++) {
        struct answers_one one = {0};
        if (pairs)
            st = answers_pair(&b->plain, &b->variant, &b->prompts.items[i % n], i / n % 2, &b->energy, cancel,
                              &b->pairs[i], err);
        else
            st = answers_run(&b->plain, &b->prompts.items[i % n], &b->energy, cancel, &one, err);
        tokens_free(&one.ids);
        b->n_pairs += !st;
        ui_progress(&b->a->ui, "bench", (uint64_t)b->n_pairs, (uint64_t)total, "answers", b->since_ns);
    }
    ui_progress_end(&b->a->ui);
    interrupt_disarm();
    return st == HASTEN_ERR_CANCELLED
               ? error_set(err, st, "bench: interrupted after %d of %d answers", (int)b->n_pairs, (int)total)
               : st;
}

/* ---- by halves ------------------------------------------------------------------------------------------------ */

static const char *half_of(const struct answers_bench *b, int32_t pair)
{
    const struct workload_item *w = b->prompts.of[pair % b->prompts.n];
    return w ? w->half : "all";
}

static hasten_status sum_half(const struct answers_bench *b, const char *name, struct half *out,
                              struct hasten_error *err)
{
    *out = (struct half){.name = name};
    struct answers_pair *own = mem_calloc((size_t)b->n_pairs, sizeof *own);
    if (!own)
        return error_set(err, HASTEN_ERR_MEMORY, "bench: out of memory");
    for (int32_t i = 0; i < b->n_pairs; i++) {
        if (name && strcmp(half_of(b, i), name) != 0)
            continue;
        own[out->n_pairs++] = b->pairs[i];
        out->n_same += b->pairs[i].same;
        out->n_prompts += i < b->prompts.n;
    }
    const hasten_status st = gain_of(own, out->n_pairs, &out->gain, err);
    mem_free(own);
    return st;
}

/* The whole, then each half if there are several. */
static hasten_status sum_up(const struct answers_bench *b, struct half *out, int *n, struct hasten_error *err)
{
    const char *names[HALVES];
    int n_names = 0;
    hasten_status st = sum_half(b, NULL, &out[0], err);
    *n = 1;
    for (int32_t i = 0; i < b->prompts.n; i++) {
        int j = 0;
        while (j < n_names && strcmp(names[j], half_of(b, i)) != 0)
            j++;
        if (j == n_names && n_names < HALVES)
            names[n_names++] = half_of(b, i);
    }
    for (int i = 0; i < n_names && n_names > 1 && !st; i++)
        st = sum_half(b, names[i], &out[(*n)++], err);
    return st;
}

/* ---- JSON ----------------------------------------------------------------------------------------------------- */

static json_t *real(double x)
{
    return isfinite(x) ? json_real(x) : json_null();
}

static json_t *interval_json(const struct eval_interval *v)
{
    return json_pack("{s:o, s:o, s:o}", "value", real(v->value), "lo", real(v->lo), "hi", real(v->hi));
}

static double per(double sum, double n)
{
    return n > 0 ? sum / n : NAN;
}

/* Speeds, latencies and what was counted, of one engine. */
static json_t *figures_json(const struct answers_bench *b, struct answers *a)
{
    const double tokens = (double)a->n_tokens;
    json_t *v =
        json_pack("{s:i, s:I, s:I, s:o, s:o}", "answers", (int)a->n, "prompt_n", (json_int_t)a->n_prompt,
                  "tokens", (json_int_t)a->n_tokens, "decode_tps", real(per(tokens, a->answer_s)),
                  "prefill_tps", real(per((double)a->n_prompt, a->prompt_s)));
    json_put(&v, "ttft_ms",
             json_pack("{s:o, s:o}", "median", real(answers_quantile(a->ttft_ms, a->n, 0.5)), "p95",
                       real(answers_quantile(a->ttft_ms, a->n, 0.95))));
    json_put(&v, "between_ms",
             json_pack("{s:o, s:o}", "median", real(answers_quantile(a->gap_ms, a->n_gaps, 0.5)), "p95",
                       real(answers_quantile(a->gap_ms, a->n_gaps, 0.95))));
    json_put(&v, "passes", json_integer(a->n_passes));
    json_put(&v, "tokens_per_pass", real(per(tokens, (double)a->n_passes)));
    json_put(&v, "drafted_n", json_integer(a->n_drafted));
    json_put(&v, "accepted_n", json_integer(a->n_accepted));
    json_put(&v, "bytes_per_token",
             json_pack("{s:o, s:o}", "weights", real(per((double)a->weight_bytes, tokens)), "kv",
                       real(per((double)a->kv_bytes, tokens))));
    json_put(&v, "joules_per_token", b->energy.n ? real(per(a->joules, tokens + (double)a->n)) : json_null());
    return v;
}

static json_t *gain_json(const struct half *h)
{
    return json_pack("{s:i, s:i, s:b, s:o, s:o, s:o}", "prompts", (int)h->n_prompts, "pairs", (int)h->n_pairs,
                     "same_answers", h->n_same == h->n_pairs, "answer", interval_json(&h->gain.answer),
                     "prefill", interval_json(&h->gain.prompt), "decode", interval_json(&h->gain.decode));
}

static json_t *with_json(struct answers_bench *b, const struct half *halves, int n)
{
    if (!b->with.engine)
        return json_null();
    json_t *v = figures_json(b, &b->variant), *each = json_object();
    json_put(&v, "methods", methods_json(&b->with.settings));
    json_put(&v, "ratio", gain_json(&halves[0]));
    for (int i = 1; i < n; i++)
        json_put(&each, halves[i].name, gain_json(&halves[i]));
    json_put(&v, "halves", each);
    return v;
}

static int print_json(struct answers_bench *b, const struct half *halves, int n)
{
    json_t *workload = b->workload
                           ? json_pack("{s:s, s:i}", "name", b->workload->name, "prompts", (int)b->prompts.n)
                           : bench_text_json(b->a);
    return cli_json(json_pack(
        "{s:s, s:s, s:i, s:o, s:i, s:o, s:o, s:o}", "model", b->session.path.data, "kernels",
        hasten_engine_kernels(b->session.engine), "threads", (int)hasten_engine_n_threads(b->session.engine),
        "workload", workload, "repeat", (int)b->a->repeat, "plain", figures_json(b, &b->plain), "with",
        with_json(b, halves, n), "peak_bytes", json_integer((json_int_t)answers_peak_bytes())));
}

/* ---- the table ------------------------------------------------------------------------------------------------ */

static void print_ratio(const char *what, const struct eval_interval *v, const char *more)
{
    if (!isfinite(v->value))
        return;
    printf("%-14s %6.3f x plain", what, v->value);
    if (isfinite(v->lo))
        printf(", %.3f .. %.3f", v->lo, v->hi);
    printf("%s\n", more);
}

static void print_row(const char *what, const struct answers_bench *b, double plain, double with)
{
    printf("%-26s %10.1f", what, plain);
    if (b->with.engine)
        printf(" %10.1f", with);
    printf("\n");
}

static void print_figures(struct answers_bench *b)
{
    struct answers *p = &b->plain, *w = &b->variant;
    const double n = (double)p->n_tokens, m = (double)w->n_tokens;
    printf("%-26s %10s%s\n", "", "plain", b->with.engine ? "       with" : "");
    print_row("decode, tokens/s", b, per(n, p->answer_s), per(m, w->answer_s));
    print_row("prefill, tokens/s", b, per((double)p->n_prompt, p->prompt_s),
              per((double)w->n_prompt, w->prompt_s));
    print_row("first token, ms", b, answers_quantile(p->ttft_ms, p->n, 0.5),
              answers_quantile(w->ttft_ms, w->n, 0.5));
    print_row("between tokens, ms", b, answers_quantile(p->gap_ms, p->n_gaps, 0.5),
              answers_quantile(w->gap_ms, w->n_gaps, 0.5));
    print_row("  95th percentile", b, answers_quantile(p->gap_ms, p->n_gaps, 0.95),
              answers_quantile(w->gap_ms, w->n_gaps, 0.95));
    print_row("tokens a pass", b, per(n, (double)p->n_passes), per(m, (double)w->n_passes));
    print_row("weights read, MB/token", b, per((double)p->weight_bytes, 1e6 * n),
              per((double)w->weight_bytes, 1e6 * m));
    print_row("KV read, MB/token", b, per((double)p->kv_bytes, 1e6 * n), per((double)w->kv_bytes, 1e6 * m));
    if (b->energy.n)
        print_row("energy, mJ/token", b, 1e3 * per(p->joules, n + p->n), 1e3 * per(w->joules, m + w->n));
    else
        printf("%-26s %10s\n", "energy", "not readable here (no RAPL counters)");
    printf("%-26s %10.1f of this process%s\n", "peak memory, MiB", (double)answers_peak_bytes() / 1048576,
           b->with.engine ? ", both engines" : "");
}

static int print_table(struct answers_bench *b, const struct half *halves, int n)
{
    const int threads = (int)hasten_engine_n_threads(b->session.engine);
    printf("%s, %s, %d prompt%s, kernels %s, %d thread%s, %d repetition%s\n", b->session.path.data,
           b->workload ? b->workload->name : "text", (int)b->prompts.n, bench_plural(b->prompts.n),
           hasten_engine_kernels(b->session.engine), threads, bench_plural(threads), (int)b->a->repeat,
           bench_plural(b->a->repeat));
    json_t *methods = b->with.engine ? methods_json(&b->with.settings) : NULL;
    for (size_t i = 0; i < json_array_size(methods); i++)
        printf("with --%s\n", json_string_value(json_array_get(methods, i)));
    json_decref(methods);
    print_figures(b);
    if (b->variant.n_drafted)
        printf("%-26s %lld of %lld\n", "proposed tokens that stood", (long long)b->variant.n_accepted,
               (long long)b->variant.n_drafted);
    for (int i = 0; i < n && b->with.engine; i++) {
        char more[64];
        snprintf(more, sizeof more, "   %d of %d answers the same", (int)halves[i].n_same,
                 (int)halves[i].n_pairs);
        if (n > 1)
            printf("%s, %d prompt%s:\n", i ? halves[i].name : "all", (int)halves[i].n_prompts,
                   bench_plural(halves[i].n_prompts));
        print_ratio("decode", &halves[i].gain.decode, more);
        print_ratio("whole answers", &halves[i].gain.answer, "");
    }
    return cli_finish(0);
}

/* ---- the run -------------------------------------------------------------------------------------------------- */

static hasten_status prepare(struct answers_bench *b, struct hasten_engine_settings *settings,
                             const char *model, struct hasten_error *err)
{
    const struct bench_args *a = b->a;
    hasten_status st = a->workload ? open_workload(b, model, err) : HASTEN_OK;
    if (st)
        return st;
    const int64_t need =
        (a->workload ? b->prompts.longest : (int64_t)a->depth + a->n_prompt + a->n_gen) + POSITIONS_BEYOND;
    if (settings->n_ctx == 0)
        settings->n_ctx = (int32_t)(need < LIMIT_CONTEXT ? need : LIMIT_CONTEXT);
    if (need - POSITIONS_BEYOND > settings->n_ctx)
        return error_set(err, HASTEN_ERR_USAGE,
                         "bench: prompts and answers need %lld positions (expected at most -c %d)",
                         (long long)(need - POSITIONS_BEYOND), (int)settings->n_ctx);
    st = open_engines(b, settings, model, err);
    if (!st)
        bench_note_context(&b->a->ui, &b->session, need - POSITIONS_BEYOND);
    return st || a->workload ? st : text_prompt(b, err);
}

int bench_answers(struct bench_args *a, struct hasten_engine_settings *settings, const char *model)
{
    struct hasten_error err;
    struct answers_bench b = {.a = a};
    struct half halves[1 + HALVES] = {0};
    int n = 0;
    energy_open(&b.energy, ENERGY_FOLDER);
    hasten_status st = prepare(&b, settings, model, &err);
    if (!st)
        st = measure(&b, &err);
    if (!st && b.with.engine)
        st = sum_up(&b, halves, &n, &err);
    const int rc = st           ? ui_fail(&a->ui, &err)
                   : a->ui.json ? print_json(&b, halves, n)
                                : print_table(&b, halves, n);
    answers_close(&b.plain);
    answers_close(&b.variant);
    prompts_close(&b.prompts);
    tokens_free(&b.tokens);
    mem_free(b.pairs);
    session_close(&b.with);
    session_close(&b.session);
    prompter_close(b.prompter);
    model_text_close(&b.text);
    workload_close(b.workload);
    return rc;
}
