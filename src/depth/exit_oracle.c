/* The oracle of early exit: tokens leave at the first depth from which the head says what it says at the end. It looks
 * into the future, as every token is run twice: no rule that knows less can leave earlier without changing the choice. */
#include "engine/depth.h"

struct oracle_knobs {
    int32_t every;
};

static const struct knob oracle_table[] = {
    {"every", KNOB_INT, offsetof(struct oracle_knobs, every), 1, LIMIT_LAYERS, "1", NULL, "layers",
     "where a token may leave: before every so many"},
};

static bool oracle_looks(const void *state, int32_t layer, int32_t n_layer)
{
    const struct oracle_knobs *k = state;
    return layer > 0 && layer < n_layer && layer % k->every == 0;
}

static const struct depth_ops oracle_ops = {.looks = oracle_looks, .foresees = true};

static const struct method_conflict oracle_conflicts[] = {
    {STAGE_CACHE, NULL, "rows that leave have no queries in the layers they miss", "score"},
    {STAGE_ATTEND, NULL, "it runs a token twice, and keys are added once", NULL},
    {STAGE_DRAFT, NULL, "it runs a token twice, one at a time", NULL},
};

const struct method method_exit_oracle = {
    .name = "exit_oracle",
    .title = "tokens leave as early as the choice allows, known from the future",
    .paper = "the bound of every exit rule; Schuster et al., arXiv:2207.07061, section 3 (oracle)",
    .stage = STAGE_DEPTH,
    .guarantee = METHOD_APPROXIMATE,
    .exact_to =
        "the likeliest token of the plain engine over the same cache; other logits, and the cache, differ",
    .role = "gate",
    .knobs = oracle_table,
    .n_knobs = sizeof oracle_table / sizeof *oracle_table,
    .knobs_bytes = sizeof(struct oracle_knobs),
    .exercise = "every=1",
    .traits = METHOD_CHANGES_KV | METHOD_FOR_TESTS,
    .needs = METHOD_NEEDS_DECODER,
    .conflicts = oracle_conflicts,
    .n_conflicts = sizeof oracle_conflicts / sizeof *oracle_conflicts,
    .text =
        "Each token behind an announced prompt is run to the end first, with a head at every place where it may leave; then "
        "once more, leaving where it can. What it saves is the share of layers in `bench --json`, not time. A layer's share "
        "here is what `exit` could reach at most with the same places.",
    .depth = &oracle_ops,
};
