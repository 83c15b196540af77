/* What selectors of the stage attend have in common: their knobs, when they act, from scores to bits. A selector's
 * struct of knobs begins with a struct select_knobs, its table with SELECT_KNOBS. */
#ifndef HASTEN_ENGINE_SELECT_H
#define HASTEN_ENGINE_SELECT_H
#include "engine/attend.h"

struct select_knobs {
    double budget;
    int32_t sink, recent;
    int phase; /* 0: decode, 1: both */
    struct layer_set layers;
};
#define SELECT_KNOBS(budget_default, sink_default, recent_default, layers_default)                            \
    {"budget", KNOB_BUDGET, offsetof(struct select_knobs, budget),                                            \
     0,        0,           budget_default,                                                                   \
     NULL,     "entries",   "what a row reads at most of a layer and KV head: a number, a share, or all"},    \
        {"sink",                                                                                              \
         KNOB_INT,                                                                                            \
         offsetof(struct select_knobs, sink),                                                                 \
         0,                                                                                                   \
         LIMIT_CONTEXT,                                                                                       \
         sink_default,                                                                                        \
         NULL,                                                                                                \
         "entries",                                                                                           \
         "first entries that are always read; they count, and are read even beyond the budget"},              \
        {"recent", KNOB_INT,  offsetof(struct select_knobs, recent),        0, LIMIT_CONTEXT, recent_default, \
         NULL,     "entries", "last entries that are always read; likewise"},                                 \
        {"phase",       KNOB_CHOICE, offsetof(struct select_knobs, phase),          0, 0, "decode",           \
         "decode|both", NULL,        "decode: rows of an announced prompt read all"},                         \
    {                                                                                                         \
        "layers", KNOB_LAYERS, offsetof(struct select_knobs, layers), 0, 0, layers_default, NULL, NULL,       \
            "layers it acts in; the others read all"                                                          \
    }

/* attend_ops.active of a state that begins with struct select_knobs. */
bool select_active(const void *state, int32_t layer, int32_t pos, int32_t n_prompt);
/* score [n_pages] of pages of `page` entries each, the last perhaps partly filled: reads pinned pages and the best of
 * the others, as many as the budget holds; clears the rest. work: select_scratch. */
void select_pages(const struct select_knobs *k, const struct attend_query *q, int32_t page, float *score,
                  uint64_t *seen, int32_t *work);
/* Bytes of work for n scores: indices twice. */
static inline size_t select_scratch(int32_t n)
{
    return 2 * (size_t)n * sizeof(int32_t);
}

/* How the scores of a group's heads become one. */
#define SELECT_GROUP "softmean|mean|max"
enum select_group {
    GROUP_SOFTMEAN, /* mean of the softmax over pages */
    GROUP_MEAN,
    GROUP_MAX
};
/* Adds head h of n_heads to `score`: of_head [n] is changed. */
void select_group_add(enum select_group how, float *of_head, int32_t n, int32_t h, int32_t n_heads,
                      float *score);

#endif
