/* The two brackets of every selector: oracle, the entries with the largest probability, and random ones. Neither is for
 * work: oracle computes every score first. */
#include "base/rng.h"
#include "engine/select.h"
#include "kernels/look.h"

struct bracket_knobs {
    struct select_knobs common;
    int32_t seed;
};

static const struct knob bracket_table[] = {
    SELECT_KNOBS("0.125", "4", "16", "all"),
    {"seed", KNOB_INT, offsetof(struct bracket_knobs, seed), 0, INT32_MAX, "1", NULL, NULL, "of random"},
};

/* Scores of all and of each head of a group, indices twice, keys of a page. */
static size_t bracket_scratch(const struct method_site *site, const void *knobs)
{
    const int32_t n = site->settings->n_ctx + KV_PAGE;
    int32_t heads = 1;
    (void)knobs;
    for (int32_t i = 0; i < site->desc->n_layer; i++) {
        const int32_t group = site->desc->layers[i].n_head / site->desc->layers[i].n_head_kv;
        heads = group > heads ? group : heads;
    }
    return ((size_t)(heads + 1) * (size_t)n + KV_PAGE * (size_t)kv_widest_key(site)) * sizeof(float) +
           select_scratch(n);
}

static void oracle_select(const void *state, const void *seq, const struct attend_query *q, uint64_t *seen,
                          int64_t stride, void *scratch)
{
    const struct bracket_knobs *k = state;
    const int32_t n = q->kv.n, d_k = q->kv.d_k;
    const int64_t row = (n + KV_PAGE - 1) / KV_PAGE * KV_PAGE; /* whole pages are scored */
    float *score = scratch, *of_head = score + row, *keys = of_head + q->n_heads * row;
    (void)seq, (void)stride;
    for (int32_t from = 0; from < n; from += KV_PAGE) {
        const struct kv_tile t = kv_tile_at(q->kv.pool, q->kv.seq, from / KV_PAGE, q->kv.lane);
        look_keys(&t, d_k, n - from < KV_PAGE ? n - from : KV_PAGE, keys);
        for (int32_t h = 0; h < q->n_heads; h++)
            look_scores(keys, d_k, q->q + (int64_t)h * d_k, q->scale, of_head + h * row + from);
    }
    for (int32_t h = 0; h < q->n_heads; h++)
        select_group_add(GROUP_SOFTMEAN, of_head + h * row, n, h, q->n_heads, score);
    select_pages(&k->common, q, 1, score, seen, (int32_t *)(void *)(keys + (int64_t)KV_PAGE * d_k));
}

static void random_select(const void *state, const void *seq, const struct attend_query *q, uint64_t *seen,
                          int64_t stride, void *scratch)
{
    const struct bracket_knobs *k = state;
    const uint32_t key[2] = {(uint32_t)k->seed, (uint32_t)q->kv.lane};
    float *score = scratch;
    (void)seq, (void)stride;
    for (int32_t i = 0; i < q->kv.n; i++) {
        uint32_t r[4];
        philox4x32((const uint32_t[4]){(uint32_t)i, (uint32_t)q->pos, 0, 11}, key, r);
        score[i] = (float)(r[0] >> 8);
    }
    select_pages(&k->common, q, 1, score, seen, (int32_t *)(void *)(score + q->kv.n));
}

static const struct attend_ops oracle_ops = {
    .scratch_bytes = bracket_scratch, .active = select_active, .select = oracle_select};
static const struct attend_ops random_ops = {
    .scratch_bytes = bracket_scratch, .active = select_active, .select = random_select};

#define BRACKET                                                                                              \
    .stage = STAGE_ATTEND, .guarantee = METHOD_APPROXIMATE, .role = "select",                                \
    .exact_to = "the plain engine while the budget holds all entries",                                       \
    .knobs_bytes = sizeof(struct bracket_knobs), .neutral = "budget=all",                                    \
    .exercise = "budget=0.2,phase=both,recent=8,sink=1",                                                     \
    .traits = METHOD_SEQUENCE_SCOPE | METHOD_CHANGES_KV | METHOD_FOR_TESTS,                                  \
    .needs = METHOD_NEEDS_DECODER | METHOD_NEEDS_GLOBAL, .knobs = bracket_table

const struct method method_oracle = {
    .name = "oracle",
    .title = "reads the entries with the largest probability: what a selector could reach",
    .paper = "the upper bracket of every selector",
    .n_knobs = sizeof bracket_table / sizeof *bracket_table - 1, /* no seed */
    .text =
        "Computes all scores to choose, so it saves nothing: a measure of how much attention a budget can hold.",
    .attend = &oracle_ops,
    BRACKET};

const struct method method_random = {
    .name = "random",
    .title = "reads random entries: what a selector must beat",
    .paper = "the lower bracket of every selector",
    .n_knobs = sizeof bracket_table / sizeof *bracket_table,
    .text =
        "Beside the sinks and the last entries it reads as many others as the budget holds, drawn anew for each row, "
        "layer and KV head from the seed.",
    .attend = &random_ops,
    BRACKET};
