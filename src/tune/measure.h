/* What the search asks for (search.h), measured: each candidate's engine beside one plain engine on the same model. */
#ifndef HASTEN_TUNE_MEASURE_H
#define HASTEN_TUNE_MEASURE_H
#include "bench/prompts.h"
#include "tune/search.h"

struct tune_bench {
    const struct hasten_model *model;
    struct hasten_engine_settings
        settings; /* of the plain engine: no methods, n_ctx of the longest prompt's need */
    const struct prompts *tune, *held;
    const volatile int *cancel;
    uint64_t late_ns; /* clock_now_ns() from which on nothing new is tried; 0: never */
    uint64_t end_ns;  /* when all should be over: held-out answers are bounded to fit; 0: they are not */
    void (*progress)(void *ctx, const struct tune_candidate *c, const char *what);
    void (*answered)(void *ctx, int32_t n); /* NULL, or told that n more answers were timed */
    void *progress_ctx;
    /* its own */
    struct hasten_engine *engine; /* the plain one */
    struct answers plain;
    struct tokens *answers; /* [held->n] the plain engine's; ids NULL: not yet asked */
    int32_t n_answer;       /* tokens of an answer in the rounds, at most; 0: as the prompts say */
    int32_t n_held;         /* the same of held-out prompts, from the first judgement on */
};

/* Opens the plain engine, and finds out how long answers can be in the rounds so that n candidates take at most a
 * third of budget_s (0: any time). tune_bench_close also after a failure. */
hasten_status tune_bench_open(struct tune_bench *b, int32_t n, double budget_s, struct hasten_error *err);
void tune_bench_close(struct tune_bench *b);
/* Callbacks over b. */
struct tune_ops tune_bench_ops(struct tune_bench *b);
/* Settings for a candidate, over b's: methods go into uses[TUNE_MAX_USES], which must live as long. */
void tune_settings_of(const struct tune_bench *b, const struct tune_candidate *c,
                      struct hasten_method_use *uses, struct hasten_engine_settings *out);

#endif
