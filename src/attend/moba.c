/* MoBA as a selector at inference: blocks by q . mean of their keys. */
#include "engine/page_stats.h"
#include "engine/select.h"

struct moba_knobs {
    struct select_knobs common;
    int32_t page;
    int group;
};
struct moba {
    struct moba_knobs k; /* first: select_active */
    struct page_stats stats;
};

static const struct knob moba_table[] = {
    SELECT_KNOBS("0.125", "0", "0", "all"),
    {"block", KNOB_INT, offsetof(struct moba_knobs, page), 1, 4096, "64", NULL, "entries",
     "entries of a block"},
    {"group", KNOB_CHOICE, offsetof(struct moba_knobs, group), 0, 0, "softmean", SELECT_GROUP, NULL,
     "how the gates of the query heads of a group become one"},
};

static uint64_t moba_model_bytes(const struct method_site *site, const void *knobs)
{
    (void)site, (void)knobs;
    return sizeof(struct moba);
}

static hasten_status moba_attach(const struct method_site *site, const void *knobs, void **state,
                                 struct hasten_error *err)
{
    struct moba *q = mem_alloc(sizeof *q);
    if (!q)
        return error_set(err, HASTEN_ERR_MEMORY, "--attend moba: out of memory");
    q->k = *(const struct moba_knobs *)knobs;
    q->stats = page_stats_of(site, PAGE_MEAN, q->k.page);
    *state = q;
    return HASTEN_OK;
}

static size_t moba_seq_bytes(const struct method_site *site, const void *knobs)
{
    const struct page_stats s = page_stats_of(site, PAGE_MEAN, ((const struct moba_knobs *)knobs)->page);
    return page_stats_bytes(site, &s);
}

/* Two arrays of scores, indices twice; append needs a key. */
static size_t moba_scratch(const struct method_site *site, const void *knobs)
{
    const int32_t n = site->settings->n_ctx / ((const struct moba_knobs *)knobs)->page + 1 + PAGE_GROUP;
    const size_t selecting = (2 * (size_t)n + PAGE_GROUP) * sizeof(float) + select_scratch(n),
                 key = page_stats_scratch(site);
    return selecting > key ? selecting : key;
}

static void moba_append(const void *state, void *seq, const struct kv_view *kv, int32_t from, void *scratch)
{
    page_stats_append(&((const struct moba *)state)->stats, seq, kv, from, scratch);
}

static void moba_select(const void *state, const void *seq, const struct attend_query *q, uint64_t *seen,
                        int64_t stride, void *scratch)
{
    const struct moba *s = state;
    const int32_t full = q->kv.n / s->k.page, n = (q->kv.n + s->k.page - 1) / s->k.page;
    float *score = scratch, *of_head = score + n;
    (void)stride;
    for (int32_t h = 0; h < q->n_heads; h++) {
        page_stats_score(&s->stats, seq, &q->kv, full, q->q + (int64_t)h * q->kv.d_k, q->scale, of_head);
        select_group_add((enum select_group)s->k.group, of_head, full, h, q->n_heads, score);
    }
    select_pages(&s->k.common, q, s->k.page, score, seen, (int32_t *)(void *)(of_head + n + PAGE_GROUP));
}

static const struct attend_ops moba_ops = {
    .scratch_bytes = moba_scratch, .active = select_active, .append = moba_append, .select = moba_select};

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
    .knobs_bytes = sizeof(struct moba_knobs),
    .exercise = "budget=0.3,phase=both,block=16",
    .neutral = "budget=all",
    .traits = METHOD_SEQUENCE_SCOPE | METHOD_CHANGES_KV,
    .needs = METHOD_NEEDS_DECODER | METHOD_NEEDS_GLOBAL,
    .text =
        "A row always reads its own block, causally, and no mean of a block that is not full is ever used, so nothing "
        "leaks from the future in prefill (phase=both). Models that were not trained with it lose accuracy; one mean "
        "hides a single matching key more readily than quest's bounds do.",
    .model_bytes = moba_model_bytes,
    .attach = moba_attach,
    .detach = mem_free,
    .seq_bytes = moba_seq_bytes,
    .attend = &moba_ops,
};
