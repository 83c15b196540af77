/* Many answers at once, as a server gives them: n streams, each asking anew as soon as it has its answer (a closed loop),
 * through the batch of src/run/. What a client would see: tokens a second of all, time to the first token, time between
 * tokens. Prompts are parts of a text, one after another; answers are greedy and have their full length. */
#ifndef HASTEN_BENCH_PARALLEL_H
#define HASTEN_BENCH_PARALLEL_H
#include "run/batch.h"

struct bench_times { /* ms; zeros without any */
    int64_t n;
    double mean, p50, p95, p99, max;
};

struct bench_parallel {
    int32_t n_streams, n_prompt, n_gen;
    int32_t repeat; /* requests of each stream */
    double itl_target;
    const struct vocab *vocab;
    void (*progress)(void *ctx, int32_t done, int32_t total); /* requests */
    void *progress_ctx;
    /* results */
    double seconds, tps, prompt_tps; /* of all streams: answers' tokens, prompts' tokens a second */
    struct bench_times ttft, itl;    /* itl: between the steps that brought a stream tokens */
    struct batch_figures figures;
};

/* Tokens of the text that are read. */
int64_t bench_parallel_tokens(const struct bench_parallel *p);
/* On an engine with room for n_streams sequences of n_prompt + n_gen positions, none of them open; tokens:
 * bench_parallel_tokens of them. The first failure of a request is the failure of all; HASTEN_ERR_CANCELLED by cancel. */
hasten_status bench_parallel_run(struct bench_parallel *p, struct hasten_engine *e, const int32_t *tokens,
                                 const volatile int *cancel, struct hasten_error *err);

#endif
