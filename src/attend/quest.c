/* Quest: pages by an upper bound of q.k from the smallest and largest key components of each. */
#include "engine/page_stats.h"
#include "engine/select.h"

struct quest_knobs {
    struct select_knobs common;
    int32_t page;
    int group;
};
struct quest {
    struct quest_knobs k; /* first: select_active */
    struct page_stats stats;
};

static const struct knob quest_table[] = {
    SELECT_KNOBS("0.125", "4", "16", "2-1023"),
    {"page", KNOB_INT, offsetof(struct quest_knobs, page), 1, 1024, "16", NULL, "entries",
     "entries of a page"},
    {"group", KNOB_CHOICE, offsetof(struct quest_knobs, group), 0, 0, "softmean", SELECT_GROUP, NULL,
     "how the bounds of the query heads of a group become one"},
};

static uint64_t quest_model_bytes(const struct method_site *site, const void *knobs)
{
    (void)site, (void)knobs;
    return sizeof(struct quest);
}

static hasten_status quest_attach(const struct method_site *site, const void *knobs, void **state,
                                  struct hasten_error *err)
{
    struct quest *q = mem_alloc(sizeof *q);
    if (!q)
        return error_set(err, HASTEN_ERR_MEMORY, "--attend quest: out of memory");
    q->k = *(const struct quest_knobs *)knobs;
    q->stats = page_stats_of(site, PAGE_MIN_MAX, q->k.page);
    *state = q;
    return HASTEN_OK;
}

static size_t quest_seq_bytes(const struct method_site *site, const void *knobs)
{
    const struct page_stats s = page_stats_of(site, PAGE_MIN_MAX, ((const struct quest_knobs *)knobs)->page);
    return page_stats_bytes(site, &s);
}

/* Two arrays of scores, indices twice; append needs a key. */
static size_t quest_scratch(const struct method_site *site, const void *knobs)
{
    const int32_t n = site->settings->n_ctx / ((const struct quest_knobs *)knobs)->page + 1 + PAGE_GROUP;
    const size_t selecting = (2 * (size_t)n + PAGE_GROUP) * sizeof(float) + select_scratch(n),
                 key = page_stats_scratch(site);
    return selecting > key ? selecting : key;
}

static void quest_append(const void *state, void *seq, const struct kv_view *kv, int32_t from, void *scratch)
{
    page_stats_append(&((const struct quest *)state)->stats, seq, kv, from, scratch);
}

static void quest_select(const void *state, const void *seq, const struct attend_query *q, uint64_t *seen,
                         int64_t stride, void *scratch)
{
    const struct quest *s = state;
    const int32_t full = q->kv.n / s->k.page, n = (q->kv.n + s->k.page - 1) / s->k.page;
    float *score = scratch, *of_head = score + n;
    (void)stride;
    for (int32_t h = 0; h < q->n_heads; h++) {
        page_stats_score(&s->stats, seq, &q->kv, full, q->q + (int64_t)h * q->kv.d_k, q->scale, of_head);
        select_group_add((enum select_group)s->k.group, of_head, full, h, q->n_heads, score);
    }
    select_pages(&s->k.common, q, s->k.page, score, seen, (int32_t *)(void *)(of_head + n + PAGE_GROUP));
}

static const struct attend_ops quest_ops = {
    .scratch_bytes = quest_scratch, .active = select_active, .append = quest_append, .select = quest_select};

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
    .knobs_bytes = sizeof(struct quest_knobs),
    .exercise = "budget=0.25,phase=both,layers=all,recent=8,sink=1,page=8",
    .neutral = "budget=all",
    .traits = METHOD_SEQUENCE_SCOPE | METHOD_CHANGES_KV,
    .needs = METHOD_NEEDS_DECODER | METHOD_NEEDS_GLOBAL,
    .text =
        "Nothing is evicted: another query may read what this one does not. Per page two vectors are kept (1/8 of "
        "an f16 cache at pages of 16). The first two layers read all, as in the paper; sinks and the last page "
        "are read in any case, which the paper does not ask for. Keys are judged as the cache keeps them.",
    .model_bytes = quest_model_bytes,
    .attach = quest_attach,
    .detach = mem_free,
    .seq_bytes = quest_seq_bytes,
    .attend = &quest_ops,
};
