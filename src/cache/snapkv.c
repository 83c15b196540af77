/* SnapKV: at the end of the prompt, keep what its last queries look at. */
#include "engine/evict.h"
#include <string.h>

struct snapkv_knobs {
    struct evict_knobs common;
    int32_t window, kernel;
    int pool;
};

static const struct knob snapkv_table[] = {
    EVICT_KNOBS("1024", "0", "32", "0"),
    {"window", KNOB_INT, offsetof(struct snapkv_knobs, window), 1, 1024, "32", NULL, "queries",
     "last queries that vote; let recent be as many"},
    {"kernel", KNOB_INT, offsetof(struct snapkv_knobs, kernel), 1, 255, "7", NULL, "entries",
     "neighbours that share votes, odd"},
    {"pool", KNOB_CHOICE, offsetof(struct snapkv_knobs, pool), 0, 0, "avg", "avg|max", NULL, "how they do"},
};

static int32_t snapkv_window(const void *knobs)
{
    return ((const struct snapkv_knobs *)knobs)->window;
}

/* Votes, then room for cache_query_mass. */
static size_t snapkv_scratch(const struct method_site *site, const void *knobs)
{
    return ((size_t)site->settings->n_ctx + 16) * sizeof(float) +
           cache_mass_scratch(site, snapkv_window(knobs));
}

/* The mean (of as many as there are), or the largest, of the votes around i. */
static float pooled(const float *votes, int32_t n, int32_t i, int32_t half, bool largest)
{
    const int32_t from = i > half ? i - half : 0, to = i + half < n ? i + half : n - 1;
    float sum = 0, max = votes[i];
    for (int32_t j = from; j <= to; j++) {
        sum += votes[j];
        max = votes[j] > max ? votes[j] : max;
    }
    return largest ? max : sum / (float)(to - from + 1);
}

static void snapkv_score(const void *state, void *seq, const struct cache_lane *lane, float *score,
                         void *scratch)
{
    const struct snapkv_knobs *k = state;
    const int32_t n = lane->kv.n;
    float *votes = scratch;
    (void)seq;
    cache_query_mass(lane, false, votes, votes + ((n + 15) & ~15));
    for (int32_t i = 0; i < n; i++)
        score[i] = pooled(votes, n, i, k->kernel / 2, k->pool);
}

static hasten_status snapkv_check(const struct method_site *site, const void *knobs, struct hasten_error *err)
{
    const struct snapkv_knobs *k = knobs;
    (void)site;
    return k->kernel % 2
               ? HASTEN_OK
               : error_set(err, HASTEN_ERR_USAGE, "--cache snapkv:kernel: found %d (expected an odd number)",
                           (int)k->kernel);
}

static const struct cache_ops snapkv_ops = {.next = evict_next,
                                            .window = snapkv_window,
                                            .scratch_bytes = snapkv_scratch,
                                            .keep = evict_keep,
                                            .pins = evict_pins,
                                            .score = snapkv_score};

const struct method method_snapkv = {
    .name = "snapkv",
    .title = "keeps what the last queries of the prompt look at",
    .paper = "Li et al., SnapKV: LLM Knows What You are Looking for Before Generation, arXiv:2404.14469",
    .stage = STAGE_CACHE,
    .guarantee = METHOD_APPROXIMATE,
    .exact_to = "the plain engine as long as nothing was evicted",
    .role = "score",
    .knobs = snapkv_table,
    .n_knobs = sizeof snapkv_table / sizeof *snapkv_table,
    .knobs_bytes = sizeof(struct snapkv_knobs),
    .tries = "keep=0.5\0keep=512\0keep=256\0",
    .exercise = "keep=0.5,every=64,recent=8,window=8,kernel=3",
    .neutral = "keep=all",
    .traits = METHOD_CHANGES_KV,
    .needs = METHOD_NEEDS_DECODER | METHOD_NEEDS_GLOBAL,
    .text =
        "Votes are probabilities summed over the queries of the window and the heads of a group, shared with "
        "neighbours. It is query-aware: a question at the end of the prompt is seen, one that comes later, or one "
        "that stood before the document, is not. With every=0 nothing is evicted while an answer is written.",
    .check = snapkv_check,
    .cache = &snapkv_ops,
};
