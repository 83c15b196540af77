/* Prompts of a workload, as a model reads them: its items through the chat template. */
#ifndef HASTEN_BENCH_PROMPTS_H
#define HASTEN_BENCH_PROMPTS_H
#include "bench/answers.h"
#include "bench/workload.h"
#include "text/prompt.h"

enum prompts_part {
    PROMPTS_ALL,
    PROMPTS_TUNE, /* not held out */
    PROMPTS_HELD
};

struct prompts {
    struct answers_item *items;      /* [n], in the order of the workload */
    const struct workload_item **of; /* [n] the workload's */
    struct tokens *ids;              /* [n] what items point into */
    int32_t n;
    int64_t longest; /* positions that one takes with its answer, at most */
};

/* The items of one half (NULL: of any) and part. p NULL: no template, messages are joined by blank lines. n_answer > 0
 * bounds answers. HASTEN_ERR_USAGE when there are none, with the halves that there are. The workload must live as
 * long. A template that takes no system message finds it before the first question. */
hasten_status prompts_open(const struct workload *w, const struct prompter *p, const struct vocab *v,
                           const char *half, enum prompts_part part, int32_t n_answer, struct prompts *out,
                           struct hasten_error *err);
void prompts_close(struct prompts *p);

#endif
