/* First come, first served. */
#include "engine/schedule.h"

static double fcfs_place(const void *state, const struct schedule_job *j)
{
    (void)state;
    return (double)j->id;
}

static const struct schedule_ops fcfs_ops = {.place = fcfs_place};

const struct method method_fcfs = {
    .name = "fcfs",
    .title = "first come, first served",
    .paper = "none: the custom of queues",
    .stage = STAGE_SCHEDULE,
    .guarantee = METHOD_EXACT,
    .exact_to = "the plain engine with the same other methods: whose turn it is changes no bit",
    .role = "order",
    .knobs_bytes = 1,
    .text =
        "The default. It orders the waiting jobs of one owner and priority; between owners tokens are dealt out fairly, "
        "and a job of a higher priority comes first in any case.",
    .hosted = &fcfs_ops,
};
