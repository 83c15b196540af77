/* `hasten bench --breakdown MODEL`: one prefill chunk and one decode token, by operation. */
#include "bench/profile.h"
#include "base/limits.h"
#include "cli/bench.h"
#include <jansson.h>

static double sum_of(const struct bench_profile_step *s, bool waiting)
{
    double sum = 0;
    for (int i = 0; i < ENGINE_N_OPS; i++)
        sum += s->op[i].waiting_ms + (waiting ? 0 : s->op[i].ms);
    return sum;
}

static json_t *step_json(const struct bench_profile_step *s)
{
    json_t *ops = s->n_rows ? json_array() : NULL;
    if (!s->n_rows)
        return json_null(); /* not asked for */
    for (int i = 0; i < ENGINE_N_OPS; i++)
        json_add(&ops, json_pack("{s:s, s:f, s:f}", "name", engine_op_name((enum engine_op)i), "ms",
                                 s->op[i].ms, "waiting_ms", s->op[i].waiting_ms));
    return json_pack("{s:i, s:f, s:f, s:f, s:o}", "rows", (int)s->n_rows, "wall_ms", s->wall_ms, "sum_ms",
                     sum_of(s, false), "waiting_ms", sum_of(s, true), "operations", ops);
}

static void print_step(const char *what, const struct bench_profile_step *s)
{
    const double percent = s->wall_ms > 0 ? 100 / s->wall_ms : 0;
    printf("%s, %d row%s: %.3f ms, %.1f tokens/s\n", what, (int)s->n_rows, bench_plural(s->n_rows),
           s->wall_ms, s->wall_ms > 0 ? 1e3 * s->n_rows / s->wall_ms : 0);
    for (int i = 0; i < ENGINE_N_OPS; i++)
        printf("  %-16s %10.3f ms %6.1f %%   waiting %8.3f ms %6.1f %%\n", engine_op_name((enum engine_op)i),
               s->op[i].ms, percent * s->op[i].ms, s->op[i].waiting_ms, percent * s->op[i].waiting_ms);
    printf("  %-16s %10.3f ms %6.1f %%   waiting %8.3f ms %6.1f %%\n", "sum", sum_of(s, false),
           percent * sum_of(s, false), sum_of(s, true), percent * sum_of(s, true));
}

static hasten_status measure(struct bench_args *a, struct hasten_engine_settings *settings, const char *model,
                             struct session *s, struct bench_profile *p, struct hasten_error *err)
{
    struct tokens tokens = {0};
    const int64_t n = (int64_t)p->depth + p->n_prompt + p->n_gen;
    const int32_t room = (int32_t)(n < LIMIT_CONTEXT ? n : LIMIT_CONTEXT);
    settings->n_ctx = settings->n_ctx ? settings->n_ctx : room;
    if (n > settings->n_ctx)
        return error_set(err, HASTEN_ERR_USAGE,
                         "bench: depth and tokens need %lld positions (expected at most -c %d)", (long long)n,
                         (int)settings->n_ctx);
    if (p->n_prompt > settings->n_batch)
        return error_set(err, HASTEN_ERR_USAGE, "bench: --breakdown -p %d: a chunk has at most %d rows (-b)",
                         (int)p->n_prompt, (int)settings->n_batch);
    hasten_status st = session_open(model, &a->model, settings, &a->ui, s, err);
    if (!st)
        st = session_has_weights(s, "bench", err);
    if (!st)
        bench_note_context(&a->ui, s, n);
    if (!st)
        st = bench_tokens(a, s, n, &tokens, err);
    if (!st) {
        hasten_seq_close(s->seq); /* the measurement opens its own */
        s->seq = NULL;
        st = bench_profile_run(p, s->engine, tokens.ids, interrupt_arm(), err);
        interrupt_disarm();
    }
    tokens_free(&tokens);
    if (st == HASTEN_ERR_CANCELLED)
        error_set(err, st, "bench: interrupted");
    return st;
}

int bench_profile(struct bench_args *a, struct hasten_engine_settings *settings, const char *model)
{
    struct bench_profile p = {
        .n_prompt = a->n_prompt, .n_gen = a->n_gen, .depth = a->depth, .repeat = a->repeat};
    struct session s = {0};
    struct hasten_error err;
    int rc;
    if (measure(a, settings, model, &s, &p, &err)) {
        rc = ui_fail(&a->ui, &err);
    } else if (a->ui.json) {
        rc = cli_json(json_pack("{s:s, s:s, s:i, s:i, s:o, s:o, s:o}", "model", s.path.data, "kernels",
                                hasten_engine_kernels(s.engine), "threads",
                                (int)hasten_engine_n_threads(s.engine), "depth", (int)p.depth, "text",
                                bench_text_json(a), "chunk", step_json(&p.chunk), "token",
                                step_json(&p.token)));
    } else {
        const int threads = (int)hasten_engine_n_threads(s.engine);
        printf("%s, kernels %s, %d thread%s, depth %d; at work per worker, and waiting\n", s.path.data,
               hasten_engine_kernels(s.engine), threads, bench_plural(threads), (int)p.depth);
        if (p.n_prompt)
            print_step("chunk", &p.chunk);
        if (p.n_gen)
            print_step("token", &p.token);
        rc = cli_finish(0);
    }
    session_close(&s);
    return rc;
}
