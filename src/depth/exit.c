/* Confidence exit: a row leaves when the head is sure enough early. */
#include "engine/depth.h"
#include <math.h>

struct exit_knobs {
    float at, theta;
};

static const struct knob exit_table[] = {
    {"at", KNOB_FLOAT, offsetof(struct exit_knobs, at), 0, 1, "0.75", NULL, "of the layers",
     "where it looks: before the layer at this share of the depth"},
    {"theta", KNOB_FLOAT, offsetof(struct exit_knobs, theta), 0, 1, "0.9", NULL, NULL,
     "leave when the two likeliest tokens are further apart than this; 1: never"},
};

static bool exit_looks(const void *state, int32_t layer, int32_t n_layer)
{
    const struct exit_knobs *k = state;
    return k->theta < 1 && layer == (int32_t)ceilf(k->at * (float)n_layer);
}

/* p1 - p2 > theta, with p = softmax(logits). A row with a NaN never leaves. */
static bool exit_leaves(const void *state, const float *logits, int32_t n_vocab)
{
    const struct exit_knobs *k = state;
    float first = -INFINITY, second = -INFINITY;
    double sum = 0;
    for (int32_t i = 0; i < n_vocab; i++) {
        const float v = logits[i];
        if (v > first) {
            second = first;
            first = v;
        } else if (v > second) {
            second = v;
        }
    }
    for (int32_t i = 0; i < n_vocab; i++)
        sum += (double)exp_f32(logits[i] - first);
    return (1 - (double)exp_f32(second - first)) / sum > (double)k->theta;
}

static const struct depth_ops exit_ops = {.looks = exit_looks, .leaves = exit_leaves};

static const struct method_conflict exit_conflicts[] = {
    {STAGE_CACHE, NULL, "rows that leave have no queries in the layers they miss", "score"},
};

const struct method method_exit = {
    .name = "exit",
    .title = "tokens leave at one depth when the head is sure of the next one",
    .paper =
        "Schuster et al., Confident Adaptive Language Modeling, arXiv:2207.07061 (the softmax difference, at one layer)",
    .stage = STAGE_DEPTH,
    .guarantee = METHOD_APPROXIMATE,
    .exact_to = "the plain engine for rows that never leave and read none that left",
    .role = "gate",
    .knobs = exit_table,
    .n_knobs = sizeof exit_table / sizeof *exit_table,
    .knobs_bytes = sizeof(struct exit_knobs),
    .tries = "at=0.75,theta=0.9\0at=0.75,theta=0.98\0",
    .exercise = "at=0.5,theta=0",
    .neutral = "theta=1",
    .traits = METHOD_CHANGES_KV,
    .needs = METHOD_NEEDS_DECODER,
    .conflicts = exit_conflicts,
    .n_conflicts = sizeof exit_conflicts / sizeof *exit_conflicts,
    .text =
        "Looking costs a head: on small models a quarter of a token, which early exits must first earn back. Rows of an "
        "announced prompt never leave. Keys and values of the layers that a row misses are made from the stream with "
        "which it left, by their norm, W_k and W_v alone. theta=0 is the static exit. Beside other sequences in a "
        "pass that stay, a row that left saves nothing.",
    .depth = &exit_ops,
};
