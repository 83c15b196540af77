/* The stage decide: which of several things to do, without generating. A method gives each candidate a score for a state,
 * the higher the better; the driver is the command `decide` (and later the server). */
#ifndef HASTEN_ENGINE_DECIDE_H
#define HASTEN_ENGINE_DECIDE_H
#include "engine/method.h"

struct hasten_engine;

struct decide_question {
    struct hasten_engine *engine;
    const struct hasten_model *model;     /* its */
    const struct hasten_text *state;      /* what is to be decided about, as tokens */
    const struct hasten_text *candidates; /* [n] n >= 2 */
    int32_t n;
    const volatile int *cancel; /* NULL, or as of hasten_step */
};

struct decide_ops {
    /* score [n], prob [n]: the scores as a distribution (softmax). A permutation of the candidates permutes both. */
    hasten_status (*score)(const void *state, const struct decide_question *, float *score, float *prob,
                           struct hasten_error *err);
};

#endif
