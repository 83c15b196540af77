/* KeyDiff: keep the keys that point elsewhere than most. */
#include "engine/cache.h"
#include <math.h>
#include <string.h>

struct keydiff_knobs {
    double keep;
    int32_t sink, recent, every;
};

static const struct knob keydiff_table[] = {
    {"keep", KNOB_BUDGET, offsetof(struct keydiff_knobs, keep), 0, 0, "0.5", NULL, "entries",
     "what each layer and KV head keeps of what is there: a share, a number, or all"},
    {"sink", KNOB_INT, offsetof(struct keydiff_knobs, sink), 0, LIMIT_CONTEXT, "4", NULL, "entries",
     "first entries that always stay"},
    {"recent", KNOB_INT, offsetof(struct keydiff_knobs, recent), 0, LIMIT_CONTEXT, "32", NULL, "entries",
     "last entries that always stay"},
    {"every", KNOB_INT, offsetof(struct keydiff_knobs, every), 0, LIMIT_CONTEXT, "0", NULL, "tokens",
     "act each time so many tokens are there; 0: once, at the end of an announced prompt"},
};

static int32_t keydiff_next(const void *state, int32_t length, int32_t n_prompt)
{
    const struct keydiff_knobs *k = state;
    return cache_next_at(k->every, length, n_prompt);
}

static int32_t keydiff_keep(const void *state, int32_t layer, int32_t n)
{
    (void)layer;
    return budget_of(((const struct keydiff_knobs *)state)->keep, n);
}

static void keydiff_pins(const void *state, int32_t *sink, int32_t *recent)
{
    const struct keydiff_knobs *k = state;
    *sink = k->sink;
    *recent = k->recent;
}

static size_t keydiff_scratch(const struct method_site *site, const void *knobs)
{
    (void)knobs;
    return cache_mass_scratch(site);
}

/* k / |k|; zeros stay. */
static void normalise(float *k, int32_t d)
{
    double norm = 0;
    for (int32_t i = 0; i < d; i++)
        norm += (double)k[i] * (double)k[i];
    for (int32_t i = 0; i < d && norm > 0; i++)
        k[i] = (float)((double)k[i] / sqrt(norm));
}

/* -cos(k_i, mean of k_j / |k_j|) */
static void keydiff_score(const void *state, void *seq, const struct cache_lane *lane, float *score,
                          void *scratch)
{
    const struct kv_view *v = &lane->kv;
    float *key = scratch, *anchor = key + ((v->d_k + 15) & ~15);
    (void)state, (void)seq;
    memset(anchor, 0, (size_t)v->d_k * sizeof *anchor);
    for (int32_t i = 0; i < v->n; i++) {
        kv_view_read(v, i, 1, key, NULL);
        normalise(key, v->d_k);
        for (int32_t d = 0; d < v->d_k; d++)
            anchor[d] += key[d];
    }
    normalise(anchor, v->d_k);
    for (int32_t i = 0; i < v->n; i++) {
        kv_view_read(v, i, 1, key, NULL);
        normalise(key, v->d_k);
        float cosine = 0;
        for (int32_t d = 0; d < v->d_k; d++)
            cosine = fmaf(key[d], anchor[d], cosine);
        score[i] = -cosine;
    }
}

static const struct cache_ops keydiff_ops = {.next = keydiff_next,
                                             .scratch_bytes = keydiff_scratch,
                                             .keep = keydiff_keep,
                                             .pins = keydiff_pins,
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
    .knobs_bytes = sizeof(struct keydiff_knobs),
    .exercise = "keep=0.6,every=64,recent=8",
    .neutral = "keep=all",
    .traits = METHOD_CHANGES_KV,
    .needs = METHOD_NEEDS_DECODER | METHOD_NEEDS_GLOBAL,
    .text =
        "Knows no query, so it can act before the question is known. Where keys carry a large bias (Qwen 2) they are "
        "nearly parallel and cosines lose contrast; -ctk q8 and bf16 take most of that bias out.",
    .cache = &keydiff_ops,
};
