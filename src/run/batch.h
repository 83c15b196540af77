/* Continuous batching: many answers at once on one engine. Each turn is one step for all of them: first the tokens of
 * the answers that run (with what is proposed after them), then chunks of prompts in the rows that are left. What comes
 * of a job is what comes of it alone, bit for bit; company, chunks, lack of pages and cancels change only when.
 *
 * Who comes first: the higher priority; of equal ones the owner who was served the fewest tokens so far (Sheng et al.,
 * Fairness in Serving Large Language Models, OSDI 2024); within an owner the method of the stage schedule decides.
 *
 * KV pages may run out. Then the store gives up what it keeps; then answers are cut back from their ends, the youngest of
 * the lowest priority first, page by page: they pause, keep their tokens, and later compute again what they lost. The
 * first in rank is never cut, so something always goes on. A job that has all pages and needs more ends with
 * HASTEN_ERR_FULL.
 *
 * A job whose prompt begins as that of a running one (same scope) waits until that has been read, and forks it: so n
 * answers to one prompt are n jobs.
 *
 * Threads: one calls everything here; who has more puts an inbox before it. Callbacks come from within batch_turn,
 * batch_cancel and batch_close; they may submit and cancel, nothing else. */
#ifndef HASTEN_RUN_BATCH_H
#define HASTEN_RUN_BATCH_H
#include "engine/store.h"
#include "run/run.h"

/* clock_now_ns of what a job went through; 0: it did not come to that. */
struct batch_times {
    uint64_t submitted, admitted, first, done; /* first: its first token was chosen */
    int32_t preempted;                         /* how often it was cut back */
};

struct batch_job {
    /* Borrowed until `done`. engine: the batch's. seq: NULL (the store gives one), or one that is the caller's. drafts:
     * NULL, or of seq. The law's sampler may be that of other jobs too, its memory not. cancel: looked at
     * between steps. */
    struct run_task task;
    struct answer *answer; /* filled as it comes; the caller's */
    uint64_t scope;        /* jobs of one scope may share KV: a hash of all that must not be shared */
    uint64_t owner;        /* between owners tokens are dealt out fairly */
    int32_t priority;      /* the higher comes first, always */
    uint64_t deadline;     /* clock_now_ns at which it ends with HASTEN_ERR_TIMEOUT; 0: never */
    /* NULL, or as of run_answer. */
    void (*progress)(void *ctx, uint64_t done, uint64_t total);
    /* The last that is heard of it, once. HASTEN_OK: answer->finish says how. HASTEN_ERR_CANCELLED (by batch_cancel, the
     * task's or the batch's flag) and HASTEN_ERR_TIMEOUT: what had come stands, with FINISH_INTERRUPTED, and was shown.
     * HASTEN_ERR_FULL: the pool cannot hold it. HASTEN_ERR_NON_FINITE: its logits are no numbers. HASTEN_ERR_DISK: `show`
     * failed. Nobody else's job is touched by any of these. */
    void (*done)(void *ctx, hasten_status st, const struct hasten_error *err);
    void *ctx;                 /* of the two; show has its own */
    struct batch_times *times; /* NULL, or filled before `done` */
};

struct batch_settings { /* zeros: the defaults */
    int32_t
        n_slots; /* jobs that run at once; 0, or more than there can be: as many sequences as the engine has, less
                           one for methods that branch, at most n_batch */
    int32_t queue_limit; /* jobs that wait; 0: 1,024 */
    double
        itl_target; /* ms between the tokens of an answer: chunks of prompts are cut so that steps take no longer, by
                            what steps of so many rows have cost; 0: chunks fill n_batch rows */
    const volatile int *cancel; /* NULL, or ends the step that runs, and all jobs with it */
};

struct batch;
/* Takes the store and the order of jobs from the engine's methods. HASTEN_ERR_USAGE naming a setting out of range;
 * HASTEN_ERR_UNSUPPORTED: an encoder. */
hasten_status batch_open(struct hasten_engine *e, const struct batch_settings *s, struct batch **out,
                         struct hasten_error *err);
void batch_close(struct batch *b); /* jobs end with HASTEN_ERR_CANCELLED; before the engine; NULL is fine */
/* *id (may be NULL): 1 or more, never again. HASTEN_ERR_FULL: the queue is full. HASTEN_ERR_LIMIT: the prompt is longer
 * than the context or the pool of pages can ever hold. HASTEN_ERR_USAGE as of run_open; HASTEN_ERR_CANCELLED from a callback while all
 * jobs are being ended. `done` is not called then. */
hasten_status batch_submit(struct batch *b, const struct batch_job *job, uint64_t *id,
                           struct hasten_error *err);
/* Ends a job: within the call, or from within a callback in the next turn. False: there is none of this number. */
bool batch_cancel(struct batch *b, uint64_t id);
/* One step for all. False: there is nothing to do. */
bool batch_turn(struct batch *b);

struct batch_figures {
    int32_t n_slots, waiting, running, paused; /* now; paused: of the running, without their pages */
    int64_t pages_used, pages_all;             /* of the engine */
    /* Since it was opened. */
    uint64_t turns, rows;
    uint64_t prompt_tokens,
        cached_tokens; /* of prompts that were begun: all, and those that were not computed */
    uint64_t answer_tokens, drafted, accepted;
    uint64_t recomputed;                             /* rows that had been computed before */
    uint64_t submitted, refused;                     /* refused: the queue was full */
    uint64_t finished, failed, cancelled, timed_out; /* jobs */
    uint64_t preemptions;
    struct store_figures store;
};
void batch_figures(const struct batch *b, struct batch_figures *out);

enum batch_state {
    BATCH_WAITING,
    BATCH_READING,
    BATCH_ANSWERING,
    BATCH_PAUSED
};
struct batch_slot {
    uint64_t id, owner;
    enum batch_state state;
    int32_t priority;
    int32_t n_prompt, n_cached, n_held, n_answer; /* tokens; held: in the cache */
    int64_t pages;
};
/* The running jobs in the order of their rank, then the waiting ones: at most n; how many there are. */
int32_t batch_slots(const struct batch *b, struct batch_slot *out, int32_t n);

#endif
