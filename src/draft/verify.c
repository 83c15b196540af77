/* When a proposed token stands, and whether drafting may pause: what every drafter has in common, as a method of its
 * own, so that it has knobs and a page. Without it the defaults hold. */
#include "engine/draft.h"

struct verify_knobs {
    int mode;
    bool ctl;
};

static const struct knob verify_table[] = {
    {"mode", KNOB_CHOICE, offsetof(struct verify_knobs, mode), 0, 0, "match", "match", NULL,
     "match: a token stands when it is what the sampler chooses at its place"},
    {"ctl", KNOB_BOOL, offsetof(struct verify_knobs, ctl), 0, 0, "on", NULL, NULL,
     "propose fewer tokens, or none, where measured milliseconds say so"},
};

static bool verify_accept(const void *state, int32_t own, int32_t drafted)
{
    (void)state;
    return own == drafted;
}

static bool verify_controlled(const void *state)
{
    return ((const struct verify_knobs *)state)->ctl;
}

static const struct draft_ops verify_ops = {.accept = verify_accept, .controlled = verify_controlled};

const struct method method_verify = {
    .name = "verify",
    .title = "how proposed tokens are checked, and whether proposing may pause",
    .paper =
        "Leviathan et al., Fast Inference from Transformers via Speculative Decoding, arXiv:2211.17192 (one pass over proposed "
        "tokens); the rule `match` follows from noise that is a function of the position",
    .stage = STAGE_DRAFT,
    .guarantee = METHOD_EXACT,
    .exact_to = "the plain engine with the same other methods: the same bits at any temperature",
    .role = "verify",
    .knobs = verify_table,
    .n_knobs = sizeof verify_table / sizeof *verify_table,
    .knobs_bytes = sizeof(struct verify_knobs),
    .exercise = "ctl=off",
    .tries = "",
    .neutral = "mode=match",
    .traits = METHOD_SEQUENCE_SCOPE,
    .text =
        "A step computes the last token and those proposed after it. Rows are sampled in order while the choice is the "
        "proposed token; what follows the first difference is cut off. Since the noise of sampling is a function of seed "
        "and position, the choice at a place is the plain engine's, so nothing has to be corrected. With ctl=on the "
        "number of tokens that go into a step follows from what steps have cost and what became of proposals.",
    .hosted = &verify_ops,
};
