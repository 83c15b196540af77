/* MoBA as a selector at inference: blocks by q . mean of their keys. */
#include "engine/paged.h"

static const struct knob moba_table[] = {
    SELECT_KNOBS("0.125", "0", "0", "all"),
    {"block", KNOB_INT, offsetof(struct paged_knobs, page), 1, 4096, "64", NULL, "entries",
     "entries of a block"},
    {"group", KNOB_CHOICE, offsetof(struct paged_knobs, group), 0, 0, "softmean", SELECT_GROUP, NULL,
     "how the gates of the query heads of a group become one"},
};

static hasten_status moba_attach(const struct method_site *site, const void *knobs, void **state,
                                 struct hasten_error *err)
{
    return paged_attach(site, knobs, PAGE_MEAN, state, err);
}

static size_t moba_seq_bytes(const struct method_site *site, const void *knobs)
{
    return paged_seq_bytes(site, knobs, PAGE_MEAN);
}

const struct method method_moba = {
    .name = "moba",
    .title = "reads the blocks whose mean key is nearest to the query",
    .paper =
        "Lu et al., MoBA: Mixture of Block Attention for Long-Context LLMs, arXiv:2502.13189 (its gate, as a selector at inference)",
    .stage = STAGE_ATTEND,
    .guarantee = METHOD_APPROXIMATE,
    .exact_to =
        "the plain engine while the budget holds all entries; beyond, blocks with the lower gates are not read",
    .role = "select",
    .knobs = moba_table,
    .n_knobs = sizeof moba_table / sizeof *moba_table,
    .knobs_bytes = sizeof(struct paged_knobs),
    .tries = "budget=0.5\0budget=512\0",
    .exercise = "budget=0.3,phase=both,block=16",
    .neutral = "budget=all",
    .traits = METHOD_SEQUENCE_SCOPE | METHOD_CHANGES_KV,
    .needs = METHOD_NEEDS_DECODER | METHOD_NEEDS_GLOBAL,
    .text =
        "A row always reads its own block, causally, and no mean of a block that is not full is ever used, so nothing "
        "leaks from the future in prefill (phase=both). Models that were not trained with it lose accuracy; one mean "
        "hides a single matching key more readily than quest's bounds do.",
    .model_bytes = paged_model_bytes,
    .attach = moba_attach,
    .detach = mem_free,
    .seq_bytes = moba_seq_bytes,
    .attend = &paged_ops,
};
