/* `hasten bench MODEL --parallel N,...`: many answers at once through the batch, as a server's clients would see them. */
#include "bench/parallel.h"
#include "base/clock.h"
#include "base/limits.h"
#include "cli/bench.h"
#include <jansson.h>
#include <stdlib.h>

#define MAX_STREAMS 1024
#define MAX_RUNS 8

struct parallel_run {
    struct bench_args *a;
    struct session session;
    struct tokens tokens;
    struct bench_parallel run[MAX_RUNS];
    int32_t n_runs, most;
    uint64_t since_ns;
};

static hasten_status parse_streams(const char *text, struct parallel_run *r, struct hasten_error *err)
{
    for (const char *at = text; at;) {
        char *end;
        const long n = strtol(at, &end, 10);
        if (end == at || (*end && *end != ',') || n < 1 || n > MAX_STREAMS)
            return error_set(
                err, HASTEN_ERR_USAGE,
                "option --parallel: '%s': found '%s' (expected numbers from 1 to %d, as in 1,4,16)", text, at,
                MAX_STREAMS);
        if (r->n_runs == MAX_RUNS)
            return error_set(err, HASTEN_ERR_USAGE,
                             "option --parallel: '%s': more than %d numbers (expected fewer)", text,
                             MAX_RUNS);
        r->run[r->n_runs++].n_streams = (int32_t)n;
        r->most = n > r->most ? (int32_t)n : r->most;
        at = *end ? end + 1 : NULL;
    }
    return HASTEN_OK;
}

static void show_progress(void *ctx, int32_t done, int32_t total)
{
    struct parallel_run *r = ctx;
    ui_progress(&r->a->ui, "bench", (uint64_t)done, (uint64_t)total, "requests", r->since_ns);
}

static json_t *times_json(const struct bench_times *t)
{
    return json_pack("{s:f, s:f, s:f, s:f, s:f}", "mean", t->mean, "p50", t->p50, "p95", t->p95, "p99",
                     t->p99, "max", t->max);
}

static json_t *run_json(const struct bench_parallel *p)
{
    const struct batch_figures *f = &p->figures;
    json_t *v = json_pack("{s:i, s:f, s:f, s:f, s:o, s:o}", "streams", (int)p->n_streams, "seconds",
                          p->seconds, "tps", p->tps, "prompt_tps", p->prompt_tps, "ttft_ms",
                          times_json(&p->ttft), "itl_ms", times_json(&p->itl));
    json_put(&v, "steps", json_integer((json_int_t)f->turns));
    json_put(&v, "rows", json_integer((json_int_t)f->rows));
    json_put(&v, "drafted", json_integer((json_int_t)f->drafted));
    json_put(&v, "accepted", json_integer((json_int_t)f->accepted));
    json_put(&v, "cached_tokens", json_integer((json_int_t)f->cached_tokens));
    json_put(&v, "preemptions", json_integer((json_int_t)f->preemptions));
    return v;
}

static int print_json(const struct parallel_run *r)
{
    json_t *runs = json_array();
    const struct bench_parallel *p = &r->run[0];
    for (int32_t i = 0; i < r->n_runs; i++)
        json_add(&runs, run_json(&r->run[i]));
    return cli_json(json_pack("{s:s, s:s, s:i, s:i, s:i, s:i, s:f, s:o, s:o, s:o}", "model",
                              r->session.path.data, "kernels", hasten_engine_kernels(r->session.engine),
                              "threads", (int)hasten_engine_n_threads(r->session.engine), "n_prompt",
                              (int)p->n_prompt, "n_gen", (int)p->n_gen, "requests_per_stream", (int)p->repeat,
                              "itl_target_ms", p->itl_target, "text", bench_text_json(r->a), "methods",
                              methods_json(&r->session.settings), "parallel", runs));
}

static int print_table(const struct parallel_run *r)
{
    const struct bench_parallel *p = &r->run[0];
    const int threads = (int)hasten_engine_n_threads(r->session.engine);
    printf("%s, kernels %s, %d thread%s; prompts of %d tokens, answers of %d, %d request%s a stream\n",
           r->session.path.data, hasten_engine_kernels(r->session.engine), threads, bench_plural(threads),
           (int)p->n_prompt, (int)p->n_gen, (int)p->repeat, bench_plural(p->repeat));
    printf("%8s %12s   %-27s   %-27s\n", "", "", "first token, ms", "between tokens, ms");
    printf("%8s %12s   %8s %8s %8s    %8s %8s %8s\n", "streams", "tokens/s", "median", "p95", "worst",
           "median", "p95", "worst");
    for (int32_t i = 0; i < r->n_runs; i++) {
        p = &r->run[i];
        printf("%8d %12.1f   %8.0f %8.0f %8.0f    %8.1f %8.1f %8.1f\n", (int)p->n_streams, p->tps,
               p->ttft.p50, p->ttft.p95, p->ttft.max, p->itl.p50, p->itl.p95, p->itl.max);
    }
    return cli_finish(0);
}

static hasten_status measure(struct parallel_run *r, struct hasten_engine_settings *settings,
                             const char *model, struct hasten_error *err)
{
    const int64_t positions = (int64_t)r->a->n_prompt + r->a->n_gen;
    int64_t n_tokens = 0;
    if (settings->n_ctx == 0)
        settings->n_ctx = (int32_t)(positions < LIMIT_CONTEXT ? positions : LIMIT_CONTEXT);
    if (positions > settings->n_ctx)
        return error_set(err, HASTEN_ERR_USAGE,
                         "bench: prompt and answer need %lld positions (expected at most -c %d)",
                         (long long)positions, (int)settings->n_ctx);
    settings->n_seq_max += r->most - 1; /* it counts one, and what methods need */
    hasten_status st = session_open(model, &r->a->model, settings, &r->a->ui, &r->session, err);
    if (st)
        return st;
    bench_note_context(&r->a->ui, &r->session, positions);
    hasten_seq_close(r->session.seq); /* the measurement opens its own */
    r->session.seq = NULL;
    store_close(r->session.store); /* each run opens one */
    r->session.store = NULL;
    for (int32_t i = 0; i < r->n_runs; i++) {
        struct bench_parallel *p = &r->run[i];
        p->n_prompt = r->a->n_prompt;
        p->n_gen = r->a->n_gen;
        p->repeat = r->a->repeat;
        p->itl_target = (double)r->a->itl_target;
        p->vocab = r->session.vocab;
        p->progress = show_progress;
        p->progress_ctx = r;
        const int64_t n = bench_parallel_tokens(p);
        n_tokens = n > n_tokens ? n : n_tokens;
    }
    st = bench_tokens(r->a, &r->session, n_tokens, &r->tokens, err);
    for (int32_t i = 0; i < r->n_runs && !st; i++) {
        r->since_ns = clock_now_ns();
        st = bench_parallel_run(&r->run[i], r->session.engine, r->tokens.ids, interrupt_arm(), err);
        ui_progress_end(&r->a->ui);
    }
    interrupt_disarm();
    return st == HASTEN_ERR_CANCELLED ? error_set(err, st, "bench: interrupted") : st;
}

int bench_parallel(struct bench_args *a, struct hasten_engine_settings *settings, const char *model)
{
    struct hasten_error err;
    struct parallel_run r = {.a = a};
    hasten_status st = parse_streams(a->parallel, &r, &err);
    if (!st)
        st = measure(&r, settings, model, &err);
    const int rc = st ? ui_fail(&a->ui, &err) : a->ui.json ? print_json(&r) : print_table(&r);
    tokens_free(&r.tokens);
    session_close(&r.session);
    return rc;
}
