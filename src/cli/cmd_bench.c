/* `hasten bench`: speed of prefill and decode on a real text.
 *
 * One repetition: the sequence is cut back to -d tokens of the text, then -p tokens are read in one step with
 * the logits of the last one (prefill, which is also the time to the first token); cut back again, then -n steps
 * of one token each with their logits (decode). A first repetition warms up and is not counted. Sampling is not
 * part of it. Printed: median and standard deviation over -r repetitions.
 */
#include "base/clock.h"
#include "base/file.h"
#include "base/limits.h"
#include "cli/session.h"
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct bench_args {
    const char *text;
    int32_t n_prompt, n_gen, depth, repeat;
    struct ui ui;
    struct model_args model;
};

static const struct option_def bench_defs[] = {
    {"n-prompt", "p", OPT_INT, offsetof(struct bench_args, n_prompt), 1, LIMIT_CONTEXT, "512", "N",
     "tokens of the prompt"},
    {"n-gen", "n", OPT_INT, offsetof(struct bench_args, n_gen), 0, LIMIT_CONTEXT, "128", "N",
     "tokens decoded"},
    {"depth", "d", OPT_INT, offsetof(struct bench_args, depth), 0, LIMIT_CONTEXT, "0", "N",
     "tokens in the context before both"},
    {"repeat", "r", OPT_INT, offsetof(struct bench_args, repeat), 1, 1000, "5", "N", "repetitions"},
    {"text", "f", OPT_STRING, offsetof(struct bench_args, text), 0, 0, NULL, "FILE",
     "where the tokens come from [built in]"},
};

static const char paragraph[] =
    "The lighthouse keeper wrote down the weather every evening: wind from the north-west, a heavy sea, two ships "
    "before noon and none after. He counted 1,284 steps to the lamp and back, trimmed the wick, and quickly fixed "
    "a broken hinge with wire, a jug of oil and a piece of sailcloth. \"If the glass falls again,\" he told his "
    "daughter, \"wake me.\" She was reading about comets; their orbits, she said, are ellipses, and a good one "
    "returns in 76 years. Below them the tide turned, dragging gravel over the zinc-grey shelf of the reef.\n\n";

struct samples {
    double *tps; /* [repeat] */
    int32_t n;
};

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(struct samples *s)
{
    qsort(s->tps, (size_t)s->n, sizeof *s->tps, ascending);
    return s->n == 0 ? 0 : s->n % 2 ? s->tps[s->n / 2] : 0.5 * (s->tps[s->n / 2 - 1] + s->tps[s->n / 2]);
}

static double deviation(const struct samples *s)
{
    double mean = 0, sum = 0;
    for (int32_t i = 0; i < s->n; i++)
        mean += s->tps[i] / s->n;
    for (int32_t i = 0; i < s->n; i++)
        sum += (s->tps[i] - mean) * (s->tps[i] - mean);
    return s->n > 1 ? sqrt(sum / (s->n - 1)) : 0;
}

static int ignore_logits(void *ctx, const float *logits, const struct hasten_logits_row *rows, int32_t n_rows,
                         int32_t n_vocab)
{
    (void)ctx, (void)logits, (void)rows, (void)n_rows, (void)n_vocab;
    return 0;
}

static hasten_status step(struct session *s, const int32_t *tokens, int32_t n, const volatile int *cancel,
                          struct hasten_error *err)
{
    struct hasten_item item = {.seq = s->seq, .tokens = tokens, .n = n, .want_from = n - 1};
    return hasten_step(s->engine, &item, 1, ignore_logits, NULL, cancel, err);
}

/* n tokens of the text, repeated as often as needed. */
static hasten_status make_tokens(const struct bench_args *a, const struct session *s, int64_t n,
                                 struct tokens *out, struct hasten_error *err)
{
    char *text = NULL;
    size_t len = strlen(paragraph);
    hasten_status st = a->text ? file_slurp(a->text, LIMIT_TEXT_BYTES, &text, &len, err) : HASTEN_OK;
    if (!st)
        st = vocab_encode(s->vocab, text ? text : paragraph, len, VOCAB_BOS, out, err);
    mem_free(text);
    if (!st && out->n == 0)
        st = error_set(err, HASTEN_ERR_USAGE, "bench: the text has no tokens (expected some)");
    for (int64_t i = 0, have = out->n; out->n < n && !st; i = (i + 1) % have)
        if (tokens_push(out, out->ids[i]))
            st = error_set(err, HASTEN_ERR_MEMORY, "bench: out of memory");
    return st;
}

static hasten_status measure(const struct bench_args *a, struct session *s, const struct tokens *t,
                             struct samples *prefill, struct samples *decode, struct ui *ui,
                             struct hasten_error *err)
{
    uint64_t t0 = clock_now_ns();
    const volatile int *cancel = interrupt_arm();
    hasten_status st = HASTEN_OK;
    if (a->depth)
        st = step(s, t->ids, a->depth, cancel, err);
    for (int32_t r = -1; r < a->repeat && !st; r++) {
        uint64_t t1 = clock_now_ns();
        st = step(s, t->ids + a->depth, a->n_prompt, cancel, err);
        uint64_t t2 = clock_now_ns();
        if (!st)
            st = hasten_seq_truncate(s->seq, a->depth, err);
        uint64_t t3 = clock_now_ns();
        for (int32_t i = 0; i < a->n_gen && !st; i++)
            st = step(s, t->ids + a->depth + i, 1, cancel, err);
        uint64_t t4 = clock_now_ns();
        if (!st)
            st = hasten_seq_truncate(s->seq, a->depth, err);
        if (r >= 0) {
            prefill->tps[prefill->n++] = 1e9 * a->n_prompt / (double)(t2 - t1);
            if (a->n_gen)
                decode->tps[decode->n++] = 1e9 * a->n_gen / (double)(t4 - t3);
        }
        ui_progress(ui, "bench", (uint64_t)(r + 2), (uint64_t)a->repeat + 1, "repetitions", t0);
    }
    ui_progress_end(ui);
    interrupt_disarm();
    if (st == HASTEN_ERR_CANCELLED)
        error_set(err, st, "bench: interrupted after %d of %d repetitions", prefill->n, (int)a->repeat);
    return st;
}

static json_t *side_json(int32_t n, struct samples *s)
{
    return json_pack("{s:i, s:f, s:f}", "n", (int)n, "tps", median(s), "sd", deviation(s));
}

static int report(const struct bench_args *a, const struct session *s, struct samples *prefill,
                  struct samples *decode)
{
    double p = median(prefill), d = median(decode);
    const char *kernels = hasten_engine_kernels(s->engine);
    int threads = hasten_engine_n_threads(s->engine);
    if (a->ui.json)
        return cli_json(json_pack("{s:s, s:s, s:i, s:i, s:i, s:o, s:o, s:f}", "model", s->path.data,
                                  "kernels", kernels, "threads", threads, "depth", (int)a->depth, "repeat",
                                  (int)a->repeat, "prefill", side_json(a->n_prompt, prefill), "decode",
                                  side_json(a->n_gen, decode), "ttft_ms", 1e3 * a->n_prompt / p));
    printf("%s, kernels %s, %d threads, %d repetitions at depth %d\n", s->path.data, kernels, threads,
           (int)a->repeat, (int)a->depth);
    printf("prefill %5d   %9.1f ± %.1f tokens/s   first token after %.0f ms\n", (int)a->n_prompt, p,
           deviation(prefill), 1e3 * a->n_prompt / p);
    if (a->n_gen)
        printf("decode  %5d   %9.1f ± %.1f tokens/s\n", (int)a->n_gen, d, deviation(decode));
    return cli_finish(0);
}

static int bench(struct bench_args *a, const struct option_group *groups, const char *model)
{
    struct hasten_error err;
    struct hasten_engine_settings settings;
    struct session s = {0};
    struct tokens t = {0};
    int64_t n = (int64_t)a->depth + (a->n_prompt > a->n_gen ? a->n_prompt : a->n_gen);
    hasten_status st = model_settings(&a->model, &groups[2], &settings, &err);
    if (settings.n_ctx == 0)
        settings.n_ctx = (int32_t)(n < LIMIT_CONTEXT ? n : LIMIT_CONTEXT);
    struct samples prefill = {mem_array((size_t)a->repeat, sizeof(double)), 0};
    struct samples decode = {mem_array((size_t)a->repeat, sizeof(double)), 0};
    if (!st && (!prefill.tps || !decode.tps))
        st = error_set(&err, HASTEN_ERR_MEMORY, "bench: out of memory");
    if (!st && n > settings.n_ctx)
        st = error_set(&err, HASTEN_ERR_USAGE,
                       "bench: depth and tokens need %lld positions (expected at most -c %d)", (long long)n,
                       (int)settings.n_ctx);
    if (!st)
        st = session_open(model, &settings, &a->ui, &s, &err);
    if (!st)
        st = make_tokens(a, &s, n, &t, &err);
    if (!st)
        st = measure(a, &s, &t, &prefill, &decode, &a->ui, &err);
    int rc = st ? cli_fail(&err) : report(a, &s, &prefill, &decode);
    mem_free(prefill.tps);
    mem_free(decode.tps);
    tokens_free(&t);
    session_close(&s);
    return rc;
}

int cmd_bench(const struct command *c, int argc, char **argv)
{
    struct bench_args a = {0};
    struct option_group groups[] = {ui_group(&a.ui),
                                    {.title = "Measurement:", .defs = bench_defs, .n = 5, .dst = &a},
                                    model_group(&a.model)};
    struct option_positionals pos;
    struct hasten_error err;
    int rc = command_parse(c, &a.ui, groups, 3, 1, argc, argv, &pos);
    if (rc >= 0)
        return rc;
    const char *model = model_argument(&a.model, &pos, &err);
    return model ? bench(&a, groups, model) : cli_fail(&err);
}
