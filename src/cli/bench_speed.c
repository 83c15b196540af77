/* `hasten bench MODEL`: prefill, decode and decode of several sequences, as a table or JSON, with the share of
 * the machine's limits that they mean. The limits are measured before and after, in the same run. */
#include "bench/speed.h"
#include "base/clock.h"
#include "base/limits.h"
#include "cli/bench.h"
#include <jansson.h>
#include <math.h>
#include <stdlib.h>

#define LIMITS_BUDGET_MS 60
#define MAX_SEQUENCES 1024

struct speed_run {
    struct bench_args *a;
    struct session session;
    struct tokens tokens;
    struct bench_speed speed;   /* of the plain engine */
    struct bench_speed variant; /* with methods, in turns with it */
    struct session with;        /* its engine; unopened without methods */
    struct bench_limits limits; /* threads 0: not measured */
    uint64_t since_ns;
};

static hasten_status parse_batch(const char *text, struct bench_speed *s, struct hasten_error *err)
{
    s->max_batch = 1;
    for (const char *at = text; at;) {
        char *end;
        const long n = strtol(at, &end, 10);
        if (end == at || (*end && *end != ',') || n < 1 || n > MAX_SEQUENCES)
            return error_set(err, HASTEN_ERR_USAGE,
                             "option --batch: '%s': found '%s' (expected numbers from 1 to %d, as in 1,4,16)",
                             text, at, MAX_SEQUENCES);
        if (s->n_batches == BENCH_MAX_BATCHES)
            return error_set(err, HASTEN_ERR_USAGE,
                             "option --batch: '%s': more than %d numbers (expected fewer)", text,
                             BENCH_MAX_BATCHES);
        for (int32_t i = 0; i < s->n_batches; i++)
            if (s->batch[i] == n)
                return error_set(err, HASTEN_ERR_USAGE, "option --batch: '%s': %ld twice (expected it once)",
                                 text, n);
        s->batch[s->n_batches++] = (int32_t)n;
        s->max_batch = n > s->max_batch ? (int32_t)n : s->max_batch;
        at = *end ? end + 1 : NULL;
    }
    return HASTEN_OK;
}

static void show_progress(void *ctx, int32_t done, int32_t total)
{
    struct speed_run *r = ctx;
    ui_progress(&r->a->ui, "bench", (uint64_t)done, (uint64_t)total, "repetitions", r->since_ns);
}

/* ---- shares -------------------------------------------------------------------------------------------- */

struct shares {
    double gbs, gops;         /* moved and done a second, at the median speed */
    double bus, peak;         /* of the limits; 0 when they were not measured */
    double bus_tps, peak_tps; /* tokens a second at each limit */
};

static struct shares shares_of(const struct speed_run *r, const struct bench_phase *p)
{
    struct shares s = {0};
    const double tokens = (double)p->n * (p->n_seq ? p->n_seq : 1);
    if (tokens <= 0 || p->stats.median <= 0)
        return s;
    const double seconds = tokens / p->stats.median;
    const struct bench_cost *c = &p->cost;
    s.gbs = (c->weight_bytes + c->kv_bytes) / seconds * 1e-9;
    s.gops = (c->int8_ops + c->half_ops + c->f32_ops + c->attention_ops) / seconds * 1e-9;
    if (r->limits.threads) {
        const double bus_s = bench_cost_bus_s(c, &r->limits), peak_s = bench_cost_peak_s(c, &r->limits);
        s.bus = bus_s / seconds;
        s.peak = peak_s / seconds;
        s.bus_tps = bus_s > 0 ? tokens / bus_s : 0;
        s.peak_tps = peak_s > 0 ? tokens / peak_s : 0;
    }
    return s;
}

/* ---- printing ------------------------------------------------------------------------------------------ */

/* Bytes and operations are counted; doubles hold them exactly up to 2^53. */
static json_t *count_json(double n)
{
    return json_integer((json_int_t)llround(n));
}

static json_t *phase_json(const struct speed_run *r, const struct bench_phase *p)
{
    const struct shares s = shares_of(r, p);
    const struct bench_cost *c = &p->cost;
    json_t *v = json_pack("{s:i, s:f}", "n", (int)p->n, "tps", p->stats.median);
    if (p->n_seq > 0)
        json_put(&v, "sequences", json_integer(p->n_seq));
    bench_stats_put(&v, &p->stats);
    if (p->ratio) { /* what methods spare cannot be counted from the model alone */
        json_t *ratio = json_object();
        bench_stats_put(&ratio, &p->ratio_stats);
        json_put(&v, "ratio", ratio);
        if (p->pages_all)
            json_put(&v, "attend",
                     json_pack("{s:I, s:I}", "pages_all", (json_int_t)p->pages_all, "pages_read",
                               (json_int_t)p->pages_read));
        return v;
    }
    json_put(&v, "bytes",
             json_pack("{s:o, s:o}", "weights", count_json(c->weight_bytes), "kv", count_json(c->kv_bytes)));
    json_put(&v, "ops",
             json_pack("{s:o, s:o, s:o, s:o}", "int8", count_json(c->int8_ops), "half",
                       count_json(c->half_ops), "f32", count_json(c->f32_ops), "attention",
                       count_json(c->attention_ops)));
    json_put(&v, "gbs", json_real(s.gbs));
    json_put(&v, "gops", json_real(s.gops));
    if (r->limits.threads) {
        json_put(&v, "bus_share", json_real(s.bus));
        json_put(&v, "peak_share", json_real(s.peak));
        json_put(&v, "bus_tps", json_real(s.bus_tps));
        json_put(&v, "peak_tps", json_real(s.peak_tps));
    }
    return v;
}

/* The phases of a run with methods: {"methods", "prefill", "decode", "batch"}; null without. */
static json_t *variant_json(const struct speed_run *r)
{
    const struct bench_phase *p = r->variant.phase;
    if (!r->with.engine)
        return json_null();
    json_t *batch = json_array();
    for (int32_t i = 0; i < r->variant.n_batches; i++)
        json_add(&batch, phase_json(r, &p[2 + i]));
    return json_pack("{s:o, s:o, s:o, s:o}", "methods", methods_json(&r->with.settings), "prefill",
                     phase_json(r, &p[0]), "decode", phase_json(r, &p[1]), "batch", batch);
}

static int print_json(const struct speed_run *r)
{
    const struct bench_phase *p = r->speed.phase;
    const struct hasten_engine *e = r->session.engine;
    json_t *batch = json_array();
    for (int32_t i = 0; i < r->speed.n_batches; i++)
        json_add(&batch, phase_json(r, &p[2 + i]));
    return cli_json(json_pack(
        "{s:s, s:s, s:i, s:i, s:i, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "model", r->session.path.data,
        "kernels", hasten_engine_kernels(e), "threads", (int)hasten_engine_n_threads(e), "depth",
        (int)r->speed.depth, "repeat", (int)r->speed.repeat, "text", bench_text_json(r->a), "prefill",
        phase_json(r, &p[0]), "decode", phase_json(r, &p[1]), "batch", batch, "ttft_ms",
        p->n ? json_real(p->stats.median > 0 ? 1e3 * p->n / p->stats.median : 0) : json_null(), "limits",
        r->limits.threads ? bench_limits_json(&r->limits) : json_null(), "with", variant_json(r)));
}

static void print_phase(const struct speed_run *r, const struct bench_phase *p)
{
    const struct shares s = shares_of(r, p);
    char what[32];
    if (p->n == 0)
        return;
    if (p == &r->speed.phase[0] || p == &r->speed.phase[1])
        snprintf(what, sizeof what, "%s", p->n_seq ? "decode" : "prefill");
    else
        snprintf(what, sizeof what, "decode x%d", (int)p->n_seq);
    printf("%-12s %5d %10.1f tokens/s", what, (int)p->n, p->stats.median);
    if (p->stats.n > 1)
        printf("  %8.1f .. %-8.1f ± %-7.1f", p->stats.lo, p->stats.hi, p->stats.sd);
    printf(" %7.1f GB/s %8.0f GOP/s", s.gbs, s.gops);
    if (r->limits.threads)
        printf("  %4.0f%% bus %4.0f%% peak", 1e2 * s.bus, 1e2 * s.peak);
    printf("\n");
}

/* With methods: how much faster than the line of the plain engine, and the pages that were read. */
static void print_variant(const struct speed_run *r)
{
    if (!r->with.engine)
        return;
    json_t *methods = methods_json(&r->with.settings);
    for (size_t i = 0; i < json_array_size(methods); i++)
        printf("with --%s\n", json_string_value(json_array_get(methods, i)));
    json_decref(methods);
    for (int32_t i = 0; i < 2 + r->variant.n_batches; i++) {
        const struct bench_phase *p = &r->variant.phase[i];
        char what[32];
        if (p->n == 0)
            continue;
        snprintf(what, sizeof what, i == 0 ? "prefill" : i == 1 ? "decode" : "decode x%d", (int)p->n_seq);
        printf("%-12s %5d %10.1f tokens/s  %8.1f .. %-8.1f ± %-7.1f   %.3f x plain, %.3f .. %.3f", what,
               (int)p->n, p->stats.median, p->stats.lo, p->stats.hi, p->stats.sd, p->ratio_stats.median,
               p->ratio_stats.lo, p->ratio_stats.hi);
        if (p->pages_all)
            printf("   %.1f%% of pages read", 1e2 * (double)p->pages_read / (double)p->pages_all);
        printf("\n");
    }
}

static int print_table(const struct speed_run *r)
{
    const struct bench_phase *p = r->speed.phase;
    const int threads = (int)hasten_engine_n_threads(r->session.engine), repeat = (int)r->speed.repeat;
    printf("%s, kernels %s, %d thread%s, %d repetition%s at depth %d\n", r->session.path.data,
           hasten_engine_kernels(r->session.engine), threads, bench_plural(threads), repeat,
           bench_plural(repeat), (int)r->speed.depth);
    if (repeat > 1)
        printf("median, its interval (%.0f %%), deviation; moved and done; shares of the limits\n",
               1e2 * p->stats.level);
    else
        printf("one figure, so no interval and no deviation; moved and done; shares of the limits\n");
    for (int32_t i = 0; i < 2 + r->speed.n_batches; i++)
        print_phase(r, &p[i]);
    if (p->n)
        printf("first token after %.0f ms\n", p->stats.median > 0 ? 1e3 * p->n / p->stats.median : 0);
    print_variant(r);
    if (r->limits.threads)
        bench_limits_print(&r->limits);
    return cli_finish(0);
}

/* ---- the run ------------------------------------------------------------------------------------------- */

static hasten_status measure_limits(struct speed_run *r, struct hasten_error *err)
{
    struct bench_limits l;
    if (r->a->no_limits)
        return HASTEN_OK;
    hasten_status st =
        bench_limits_run(r->a->model.n_threads, LIMITS_BUDGET_MS, false, interrupt_arm(), &l, err);
    interrupt_disarm();
    if (!st && r->limits.threads)
        bench_limits_merge(&r->limits, &l);
    else if (!st)
        r->limits = l;
    return st;
}

/* The engine with methods beside the plain one, on the same file. */
static hasten_status open_variant(struct speed_run *r, const struct hasten_engine_settings *settings,
                                  const char *model, struct hasten_error *err)
{
    const hasten_status st = session_open(model, &r->a->model, settings, &r->a->ui, &r->with, err);
    if (st)
        return st;
    hasten_seq_close(r->with.seq);
    r->with.seq = NULL;
    r->variant = r->speed;
    r->variant.progress = NULL;
    return HASTEN_OK;
}

static hasten_status measure(struct speed_run *r, struct hasten_engine_settings *settings, const char *model,
                             struct hasten_error *err)
{
    const int64_t n = bench_speed_positions(&r->speed);
    if (settings->n_ctx == 0)
        settings->n_ctx = (int32_t)(n < LIMIT_CONTEXT ? n : LIMIT_CONTEXT);
    const struct hasten_engine_settings with = *settings;
    settings->n_methods = 0;
    settings->n_seq_max = r->speed.max_batch + (with.n_methods > 0);
    if (n > settings->n_ctx)
        return error_set(err, HASTEN_ERR_USAGE,
                         "bench: depth and tokens need %lld positions (expected at most -c %d)", (long long)n,
                         (int)settings->n_ctx);
    hasten_status st = session_open(model, &r->a->model, settings, &r->a->ui, &r->session, err);
    if (!st)
        st = session_has_weights(&r->session, "bench", err);
    if (st)
        return st;
    bench_note_context(&r->a->ui, &r->session, n);
    hasten_seq_close(r->session.seq); /* the measurement opens its own */
    r->session.seq = NULL;
    if (with.n_methods > 0) {
        struct hasten_engine_settings s = *settings;
        s.methods = with.methods;
        s.n_methods = with.n_methods;
        if ((st = open_variant(r, &s, model, err)))
            return st;
    }
    if ((st = bench_tokens(r->a, &r->session, bench_speed_tokens(&r->speed), &r->tokens, err)))
        return st;
    r->since_ns = clock_now_ns();
    st = r->with.engine ? bench_speed_pair(&r->speed, r->session.engine, &r->variant, r->with.engine,
                                           r->tokens.ids, interrupt_arm(), err)
                        : bench_speed_run(&r->speed, r->session.engine, r->tokens.ids, interrupt_arm(), err);
    ui_progress_end(&r->a->ui);
    interrupt_disarm();
    return st;
}

int bench_speed(struct bench_args *a, struct hasten_engine_settings *settings, const char *model)
{
    struct hasten_error err;
    struct speed_run r = {.a = a,
                          .speed = {.n_prompt = a->n_prompt,
                                    .n_gen = a->n_gen,
                                    .depth = a->depth,
                                    .repeat = a->repeat,
                                    .progress = show_progress}};
    r.speed.progress_ctx = &r;
    hasten_status st = parse_batch(a->batch, &r.speed, &err);
    if (!st)
        st = measure_limits(&r, &err);
    if (!st)
        st = measure(&r, settings, model, &err);
    if (!st)
        st = measure_limits(&r, &err);
    const int rc = st ? ui_fail(&a->ui, &err) : a->ui.json ? print_json(&r) : print_table(&r);
    bench_speed_free(&r.speed);
    bench_speed_free(&r.variant);
    session_close(&r.with);
    tokens_free(&r.tokens);
    session_close(&r.session);
    return rc;
}
