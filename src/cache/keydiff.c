/* KeyDiff: keep the keys that point elsewhere than most. */
#include "engine/evict.h"
#include "kernels/look.h"
#include <math.h>
#include <string.h>

static const struct knob keydiff_table[] = {EVICT_KNOBS("0.5", "4", "32", "0")};

/* Keys of a page by component, their norms and cosines, the anchor. */
static size_t keydiff_scratch(const struct method_site *site, const void *knobs)
{
    (void)knobs;
    return (size_t)(kv_widest_key(site) * (KV_PAGE + 1) + KV_PAGE) * sizeof(float);
}

/* The keys of a page, each divided by its norm; zeros stay. */
static void unit_keys(const struct kv_view *v, int32_t from, float *kt, float *norm)
{
    const struct kv_tile t = kv_tile_at(v->pool, v->seq, from / KV_PAGE, v->lane);
    look_keys(&t, v->d_k, v->n - from < KV_PAGE ? v->n - from : KV_PAGE, kt);
    memset(norm, 0, KV_PAGE * sizeof *norm);
    for (int32_t d = 0; d < v->d_k; d++)
        for (int32_t j = 0; j < KV_PAGE; j++)
            norm[j] += kt[d * KV_PAGE + j] * kt[d * KV_PAGE + j];
    for (int32_t j = 0; j < KV_PAGE; j++)
        norm[j] = norm[j] > 0 ? 1 / sqrtf(norm[j]) : 0;
    for (int32_t d = 0; d < v->d_k; d++)
        for (int32_t j = 0; j < KV_PAGE; j++)
            kt[d * KV_PAGE + j] *= norm[j];
}

/* -cos(k_i, mean of k_j / |k_j|), but for the length of the mean, which all share. */
static void keydiff_score(const void *state, void *seq, const struct cache_lane *lane, float *score,
                          void *scratch)
{
    const struct kv_view *v = &lane->kv;
    float *kt = scratch, *page = kt + (int64_t)v->d_k * KV_PAGE, *anchor = page + KV_PAGE;
    (void)state, (void)seq;
    memset(anchor, 0, (size_t)v->d_k * sizeof *anchor);
    for (int32_t from = 0; from < v->n; from += KV_PAGE) {
        unit_keys(v, from, kt, page);
        for (int32_t d = 0; d < v->d_k; d++)
            for (int32_t j = 0; j < KV_PAGE; j++)
                anchor[d] += kt[d * KV_PAGE + j];
    }
    for (int32_t from = 0; from < v->n; from += KV_PAGE) {
        unit_keys(v, from, kt, page);
        look_scores(kt, v->d_k, anchor, -1.0f, page);
        for (int32_t j = 0; j < KV_PAGE && from + j < v->n; j++)
            score[from + j] = page[j];
    }
}

static const struct cache_ops keydiff_ops = {.next = evict_next,
                                             .scratch_bytes = keydiff_scratch,
                                             .keep = evict_keep,
                                             .pins = evict_pins,
                                             .score = keydiff_score};

const struct method method_keydiff = {
    .name = "keydiff",
    .title = "keeps the keys that are least like the others",
    .paper = "Park et al., KeyDiff: Key Similarity-Based KV Cache Eviction, arXiv:2504.15364",
    .stage = STAGE_CACHE,
    .guarantee = METHOD_APPROXIMATE,
    .exact_to = "the plain engine as long as nothing was evicted",
    .role = "score",
    .knobs = keydiff_table,
    .n_knobs = sizeof keydiff_table / sizeof *keydiff_table,
    .knobs_bytes = sizeof(struct evict_knobs),
    .tries = "keep=0.5\0keep=512\0",
    .exercise = "keep=0.6,every=64,recent=8",
    .neutral = "keep=all",
    .traits = METHOD_CHANGES_KV,
    .needs = METHOD_NEEDS_DECODER | METHOD_NEEDS_GLOBAL,
    .text =
        "Knows no query, so it can act before the question is known. Where keys carry a large bias (Qwen 2) they are "
        "nearly parallel and cosines lose contrast; -ctk q8 and bf16 take most of that bias out.",
    .cache = &keydiff_ops,
};
