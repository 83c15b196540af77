/* Quest: pages by an upper bound of q.k from the smallest and largest key components of each. */
#include "engine/paged.h"

static const struct knob quest_table[] = {
    SELECT_KNOBS("0.125", "4", "16", "2-1023"),
    {"page", KNOB_INT, offsetof(struct paged_knobs, page), 1, 1024, "16", NULL, "entries",
     "entries of a page"},
    {"group", KNOB_CHOICE, offsetof(struct paged_knobs, group), 0, 0, "softmean", SELECT_GROUP, NULL,
     "how the bounds of the query heads of a group become one"},
};

static hasten_status quest_attach(const struct method_site *site, const void *knobs, void **state,
                                  struct hasten_error *err)
{
    return paged_attach(site, knobs, PAGE_MIN_MAX, state, err);
}

static size_t quest_seq_bytes(const struct method_site *site, const void *knobs)
{
    return paged_seq_bytes(site, knobs, PAGE_MIN_MAX);
}

const struct method method_quest = {
    .name = "quest",
    .title = "reads the pages whose keys could match the query best",
    .paper =
        "Tang et al., Quest: Query-Aware Sparsity for Efficient Long-Context LLM Inference, arXiv:2406.10774",
    .stage = STAGE_ATTEND,
    .guarantee = METHOD_APPROXIMATE,
    .exact_to =
        "the plain engine while the budget holds all entries; beyond, pages with the lower bounds are not read",
    .role = "select",
    .knobs = quest_table,
    .n_knobs = sizeof quest_table / sizeof *quest_table,
    .knobs_bytes = sizeof(struct paged_knobs),
    .tries = "budget=0.5\0budget=512\0budget=256\0",
    .exercise = "budget=0.25,phase=both,layers=all,recent=8,sink=1,page=8",
    .neutral = "budget=all",
    .traits = METHOD_SEQUENCE_SCOPE | METHOD_CHANGES_KV,
    .needs = METHOD_NEEDS_DECODER | METHOD_NEEDS_GLOBAL,
    .text =
        "Nothing is evicted: another query may read what this one does not. Per page two vectors are kept (1/8 of "
        "an f16 cache at pages of 16). The first two layers read all, as in the paper; sinks and the last page "
        "are read in any case, which the paper does not ask for. Keys are judged as the cache keeps them.",
    .model_bytes = paged_model_bytes,
    .attach = quest_attach,
    .detach = mem_free,
    .seq_bytes = quest_seq_bytes,
    .attend = &paged_ops,
};
