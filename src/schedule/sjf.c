/* Shortest job first, with ageing. A job's place is its work in tokens plus `age` tokens for every second later that it
 * came: so it can be overtaken only by jobs that came at most work / age seconds after it, and nobody starves. */
#include "engine/schedule.h"

struct sjf_knobs {
    float age, answer;
};

static const struct knob sjf_table[] = {
    {"age", KNOB_FLOAT, offsetof(struct sjf_knobs, age), 1, 1e6, "200", NULL, "tokens per second",
     "what waiting is worth: a job of n tokens is overtaken for n / age seconds at most"},
    {"answer", KNOB_FLOAT, offsetof(struct sjf_knobs, answer), 0, 100, "1", NULL, "tokens",
     "what an expected token of the answer counts beside one of the prompt; 0: prompts alone"},
};

static double sjf_place(const void *state, const struct schedule_job *j)
{
    const struct sjf_knobs *k = state;
    return (double)j->n_prompt + (double)k->answer * j->n_answer +
           (double)k->age * ((double)j->arrived_ns * 1e-9);
}

static const struct schedule_ops sjf_ops = {.place = sjf_place};

const struct method method_sjf = {
    .name = "sjf",
    .title = "the shortest job first, by prompt and expected answer, with ageing",
    .paper =
        "Smith, Various Optimizers for Single-Stage Production, Naval Research Logistics Quarterly 3, 1956",
    .stage = STAGE_SCHEDULE,
    .guarantee = METHOD_EXACT,
    .exact_to = "the plain engine with the same other methods: whose turn it is changes no bit",
    .role = "order",
    .knobs = sjf_table,
    .n_knobs = sizeof sjf_table / sizeof *sjf_table,
    .knobs_bytes = sizeof(struct sjf_knobs),
    .exercise = "age=50",
    .text =
        "Shortens the mean wait where lengths differ much: a question beside a long document need not wait for it. The "
        "answer counts with its bound (max_tokens), without one with the mean of the answers so far. A "
        "long job is overtaken only by what comes within its work divided by `age` after it.",
    .hosted = &sjf_ops,
};
