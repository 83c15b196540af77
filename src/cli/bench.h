/* What the modes of `hasten bench` share: options, the printing of limits and statistics. One file per mode:
 * bench_speed.c (a model's prefill and decode), bench_answers.c (--workload), bench_parallel.c (--parallel),
 * bench_profile.c (--breakdown), bench_limits.c (--roofline),
 * bench_kernels.c (--kernels), bench_serve.c (--serve). Measuring is in src/bench/; here it is only asked for and printed. */
#ifndef HASTEN_CLI_BENCH_H
#define HASTEN_CLI_BENCH_H
#include "bench/limits.h"
#include "bench/stats.h"
#include "cli/session.h"

struct load_args {   /* --serve */
    const char *url; /* NULL: no server is measured */
    const char *streams, *rate, *prompts, *key, *csv, *plot;
    int32_t requests, shared_tokens, turns, turn_tokens, chats, warm_up;
    uint64_t duration_ms, think_ms, ttft_bound_ms, itl_bound_ms, stall_ms, seed;
    struct option_list fields;
};

struct bench_args {
    const char *text;     /* -f, or NULL: built in */
    const char *batch;    /* "4,16", or NULL */
    const char *parallel; /* the same */
    const char *type;     /* --kernels: one weight type, or NULL */
    int32_t n_prompt, n_gen, depth, repeat;
    uint64_t itl_target; /* ms; 0: none */
    bool roofline, kernels, breakdown, no_limits;
    const char *workload, *half; /* NULL: none; any */
    int part;                    /* enum prompts_part */
    int32_t n_answer;            /* -n where there is a workload; 0: as it says */
    int64_t text_tokens; /* set by bench_tokens: of the text, read once; and whether that was not enough */
    bool text_repeated;
    struct ui ui;
    struct model_args model;
    struct load_args load;
};

/* The modes; each returns the exit status. settings: of the engine, n_ctx 0 when not given. */
int bench_roofline(struct bench_args *a);
int bench_kernels(struct bench_args *a);
int bench_profile(struct bench_args *a, struct hasten_engine_settings *settings, const char *model);
int bench_answers(struct bench_args *a, struct hasten_engine_settings *settings, const char *model);
int bench_parallel(struct bench_args *a, struct hasten_engine_settings *settings, const char *model);
int bench_speed(struct bench_args *a, struct hasten_engine_settings *settings, const char *model);
int bench_serve(struct bench_args *a, const char *model); /* model: NULL, or the id to ask for */
struct option_group bench_serve_group(struct load_args *a);

/* Says so when n positions are more than the model was made for; they are measured all the same. */
void bench_note_context(struct ui *ui, const struct session *s, int64_t n);
/* n tokens of the text (-f or built in), the text repeated as often as needed; a repetition is said on stderr. */
hasten_status bench_tokens(struct bench_args *a, const struct session *s, int64_t n, struct tokens *out,
                           struct hasten_error *err);
/* {"file": name or null, "tokens": of the text, "repeated": true or false} */
struct json_t *bench_text_json(const struct bench_args *a);

/* Limits by a pool of n_threads (0: as affinity and quota allow), about budget_ms per figure. */
hasten_status bench_limits_run(int n_threads, int budget_ms, bool curve, const volatile int *cancel,
                               struct bench_limits *out, struct hasten_error *err);
struct json_t *bench_limits_json(const struct bench_limits *l);
/* Lines "memory ...", "int8 ...", indented alike. */
void bench_limits_print(const struct bench_limits *l);
/* "median", "lo", "hi", "level", "mean", "sd", "min", "max" into *to (json_put). */
void bench_stats_put(struct json_t **to, const struct bench_stats *s);
/* The ending of a noun after n. */
static inline const char *bench_plural(int64_t n)
{
    return n == 1 ? "" : "s";
}

#endif
