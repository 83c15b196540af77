/* StreamingLLM: the first entries and the last ones; and its control, random entries. */
#include "base/rng.h"
#include "engine/evict.h"

static const struct knob stream_table[] = {EVICT_KNOBS("1024", "4", "0", "64")};

struct random_knobs {
    struct evict_knobs common;
    int32_t seed;
};
static const struct knob random_table[] = {
    EVICT_KNOBS("0.5", "4", "32", "0"),
    {"seed", KNOB_INT, offsetof(struct random_knobs, seed), 0, INT32_MAX, "1", NULL, NULL,
     "of what is drawn"},
};

/* The later the better: the sinks are pinned. */
static void stream_score(const void *state, void *seq, const struct cache_lane *lane, float *score,
                         void *scratch)
{
    (void)state, (void)seq, (void)scratch;
    for (int32_t i = 0; i < lane->kv.n; i++)
        score[i] = (float)i;
}

static void random_score(const void *state, void *seq, const struct cache_lane *lane, float *score,
                         void *scratch)
{
    const struct kv_view *v = &lane->kv;
    const uint32_t key[2] = {(uint32_t)((const struct random_knobs *)state)->seed, (uint32_t)v->lane};
    (void)seq, (void)scratch;
    for (int32_t i = 0; i < v->n; i++) {
        uint32_t r[4];
        philox4x32((const uint32_t[4]){(uint32_t)kv_position(v->seq, v->lane, i), (uint32_t)v->n, 0, 12}, key,
                   r);
        score[i] = (float)(r[0] >> 8);
    }
}

static const struct cache_ops stream_ops = {
    .next = evict_next, .keep = evict_keep, .pins = evict_pins, .score = stream_score};
static const struct cache_ops random_ops = {
    .next = evict_next, .keep = evict_keep, .pins = evict_pins, .score = random_score};

const struct method method_stream = {
    .name = "stream",
    .title = "keeps the first and the last entries: constant memory",
    .paper = "Xiao et al., Efficient Streaming Language Models with Attention Sinks, arXiv:2309.17453",
    .stage = STAGE_CACHE,
    .guarantee = METHOD_APPROXIMATE,
    .exact_to = "the plain engine as long as nothing was evicted",
    .role = "score",
    .knobs = stream_table,
    .n_knobs = sizeof stream_table / sizeof *stream_table,
    .knobs_bytes = sizeof(struct evict_knobs),
    .tries = "keep=1024\0keep=512\0",
    .exercise = "keep=40,sink=2,every=32",
    .neutral = "keep=all",
    .traits = METHOD_CHANGES_KV,
    .needs = METHOD_NEEDS_DECODER | METHOD_NEEDS_GLOBAL,
    .text =
        "Positions stay the original ones (the paper counts them within the cache), so it helps memory and speed, not "
        "a context longer than the model knows. Between two of its acts up to `every` entries more are there. What "
        "lies between sinks and the rest is lost: a needle there is not found again.",
    .cache = &stream_ops,
};

const struct method method_cache_random = {
    .name = "random",
    .title = "keeps random entries: what a scorer must beat",
    .paper = "the floor of every table",
    .stage = STAGE_CACHE,
    .guarantee = METHOD_APPROXIMATE,
    .exact_to = "the plain engine as long as nothing was evicted",
    .role = "score",
    .knobs = random_table,
    .n_knobs = sizeof random_table / sizeof *random_table,
    .knobs_bytes = sizeof(struct random_knobs),
    .exercise = "keep=0.6,every=64,recent=8",
    .neutral = "keep=all",
    .traits = METHOD_CHANGES_KV | METHOD_FOR_TESTS,
    .needs = METHOD_NEEDS_DECODER | METHOD_NEEDS_GLOBAL,
    .text = "Draws by seed, layer, KV head and position.",
    .cache = &random_ops,
};
