/* Speed of an engine on a text: prefill, decode, and decode of several sequences together, at a depth.
 *
 * One repetition: sequence 0 is cut back to `depth` tokens, then reads n_prompt tokens in one step with the
 * logits of the last one (prefill, which is also the time to the first token); cut back again, then n_gen
 * steps of one token each with their logits (decode). Then, for each batch size B, B sequences, each at depth
 * in its own part of the text, do n_gen steps together. A first repetition warms up and is not counted.
 * A phase without tokens is not run, and its figures are zero. Sampling is not part of it.
 *
 * Two engines are measured in turns, repetition by repetition (A B, B A, A B, ...), so that what else the machine does
 * meets both; the ratio of a phase is that of neighbours. Prompts are announced: the first `depth` tokens are one, and in
 * the prefill, which a fork of the sequence reads, so are those that it reads. */
#ifndef HASTEN_BENCH_SPEED_H
#define HASTEN_BENCH_SPEED_H
#include "bench/cost.h"
#include "bench/stats.h"

#define BENCH_MAX_BATCHES 8
#define BENCH_STRIDE 613 /* tokens of the text between the beginnings of two sequences */

struct bench_phase {
    int32_t n_seq;          /* sequences that decode together; 0: prefill */
    int32_t n;              /* tokens of each */
    double *tps;            /* [repeat] tokens per second of all sequences together */
    struct bench_cost cost; /* of one repetition */
    uint64_t pages_all,
        pages_read; /* under a method of the stage attend, in all repetitions (hasten_counters) */
    struct bench_stats stats;
    double *
        ratio; /* [repeat] of the second of two engines: its speed over the first's, in turns next to it; or NULL */
    struct bench_stats ratio_stats;
};

struct bench_speed {
    int32_t n_prompt, n_gen, depth, repeat;
    int32_t batch[BENCH_MAX_BATCHES], n_batches, max_batch; /* max_batch: at least 1 */
    struct bench_phase phase[2 + BENCH_MAX_BATCHES];        /* prefill, decode, batches */
    int32_t done;                                           /* repetitions counted so far */
    void (*progress)(void *ctx, int32_t done, int32_t total);
    void *progress_ctx;
};

/* Tokens of the text that the settings read: depth + max(n_prompt, n_gen), and a stride more for each
 * further sequence. Positions of one sequence. */
int64_t bench_speed_tokens(const struct bench_speed *s);
int64_t bench_speed_positions(const struct bench_speed *s);

/* Runs it on an engine with n_seq_max >= max_batch and no open sequence; tokens: bench_speed_tokens of them.
 * Fills phase[0 .. 2 + n_batches). Errors as hasten_step's. */
hasten_status bench_speed_run(struct bench_speed *s, struct hasten_engine *e, const int32_t *tokens,
                              const volatile int *cancel, struct hasten_error *err);
/* The same of two engines, in turns; n_seq_max of both is at least max_batch + 1. Both have the same phases and
 * repetitions. */
hasten_status bench_speed_pair(struct bench_speed *a, struct hasten_engine *e, struct bench_speed *b,
                               struct hasten_engine *f, const int32_t *tokens, const volatile int *cancel,
                               struct hasten_error *err);
void bench_speed_free(struct bench_speed *s);

#endif
