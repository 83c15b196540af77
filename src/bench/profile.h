/* Where the time of one prefill chunk and of one decode token goes (engine/profile.h), sampling included. */
#ifndef HASTEN_BENCH_PROFILE_H
#define HASTEN_BENCH_PROFILE_H
#include "engine/profile.h"
#include "hasten/hasten.h"

struct bench_profile_op {
    double ms;         /* at work, per worker on average */
    double waiting_ms; /* the rest of the operation's wall time */
};

/* One step: of several, the one of median wall time, so that its parts are parts of one whole. wall_ms is
 * measured around the step, apart from the stopwatch; the operations sum to it but for the two readings of
 * the clock. */
struct bench_profile_step {
    int32_t n_rows;
    double wall_ms;
    struct bench_profile_op op[ENGINE_N_OPS];
};

struct bench_profile {
    int32_t n_prompt, n_gen, depth, repeat;
    struct bench_profile_step chunk, token;
};

/* On an engine without open sequences; tokens: depth + n_prompt + n_gen of them. The chunk is n_prompt tokens at
 * the depth (`repeat` times), the token one of n_gen decoded ones at the depth; what has no tokens is
 * not measured, and its step stays zero (one of the two must have some). The sampler has its default
 * settings. */
hasten_status bench_profile_run(struct bench_profile *p, struct hasten_engine *e, const int32_t *tokens,
                                const volatile int *cancel, struct hasten_error *err);

#endif
