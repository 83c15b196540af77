/* Speed of answers: prompts are read and answered as `run` does it (src/run/), greedily, and every step is timed. Two
 * engines answer each prompt in the order A B B A, so that what drifts on the machine meets both; a pair of sums comes
 * out of that. With methods that are exact both must write the same tokens, which is looked at. */
#ifndef HASTEN_BENCH_ANSWERS_H
#define HASTEN_BENCH_ANSWERS_H
#include "bench/energy.h"
#include "run/run.h"

/* A prompt, and how far it is answered. */
struct answers_item {
    const int32_t *ids; /* [n] */
    int64_t n;
    int32_t n_answer; /* tokens at most */
    bool endless;     /* tokens that end a turn are forbidden: exactly n_answer tokens come */
};

/* One engine, and what was measured of it: sums over all answers. Zero-initialise, set engine; answers_close. */
struct answers {
    struct hasten_engine *engine; /* with a free sequence */
    struct hasten_seq *seq;
    struct sampler *sampler;
    struct logit_bias *ends; /* [n_ends] the tokens that end a turn */
    int32_t n_ends;
    int32_t n;                  /* answers */
    int64_t n_prompt, n_tokens; /* tokens read; written behind the first, which comes with the prompt */
    int64_t n_passes, n_drafted, n_accepted;
    double prompt_s, answer_s;       /* until the first token; from there to the last */
    uint64_t weight_bytes, kv_bytes; /* read by the passes of the answers */
    double joules;                   /* of prompts and answers; 0 where it cannot be read */
    double *ttft_ms;                 /* [n] */
    double *gap_ms; /* [n_gaps] between two deliveries: a pass that brings several tokens is one */
    int64_t n_gaps, cap_gaps;
    int32_t cap;
};
hasten_status answers_open(struct answers *a, struct hasten_engine *e, struct hasten_error *err);
void answers_close(struct answers *a); /* the engine stays open */

/* One answer, from an empty sequence. ids: its tokens, appended. energy: NULL, or is read around it. */
struct answers_one {
    double prompt_s, answer_s;
    int64_t n_tokens; /* behind the first */
    struct tokens ids;
};
hasten_status answers_run(struct answers *a, const struct answers_item *item, struct energy *energy,
                          const volatile int *cancel, struct answers_one *out, struct hasten_error *err);

/* Both engines on one item, twice each: sums of the two. */
struct answers_pair {
    double plain_prompt_s, plain_answer_s, prompt_s, answer_s;
    int64_t plain_tokens, tokens;
    bool same; /* all four wrote the same tokens */
};
/* flip: B A A B instead. */
hasten_status answers_pair(struct answers *plain, struct answers *with, const struct answers_item *item,
                           bool flip, struct energy *energy, const volatile int *cancel,
                           struct answers_pair *out, struct hasten_error *err);

/* The q-quantile of values[n], which are sorted; NaN of none. */
double answers_quantile(double *values, int64_t n, double q);
/* The most memory that this process ever held, in bytes; 0: the system does not say. */
uint64_t answers_peak_bytes(void);

#endif
