/* The stage schedule: whose tokens share a pass. The driver is src/run/batch.h, which mixes the chunks of prompts with
 * the tokens of running answers, deals fairly between owners and keeps priorities; a method says in which order the
 * waiting jobs of an owner come. It decides about time alone: no bit depends on it. */
#ifndef HASTEN_ENGINE_SCHEDULE_H
#define HASTEN_ENGINE_SCHEDULE_H
#include "engine/method.h"

struct schedule_job {
    uint64_t id;         /* ascending in the order of arrival */
    uint64_t arrived_ns; /* clock_now_ns */
    int64_t n_prompt;    /* tokens to read */
    int32_t n_answer;    /* tokens that are to be expected of the answer */
};

struct schedule_ops {
    /* The place of a job: the least comes first, of equal ones the earlier. Asked once, when it arrives; so that nobody
     * waits for ever, it should grow with arrived_ns. */
    double (*place)(const void *state, const struct schedule_job *);
};

#endif
