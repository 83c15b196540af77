/* H2O: keep the heavy hitters, entries with the largest sum of probabilities so far, and the recent ones. */
#include "engine/evict.h"
#include "engine/engine.h"
#include <string.h>

struct h2o_knobs {
    struct evict_knobs common;
    bool average;
};

/* The sums of a lane's entries, of the positions below length. */
struct h2o_state {
    int32_t length;
    int32_t unused[15]; /* sums begin at a cache line */
    float sum[];        /* [n_lanes × n_ctx] */
};

struct h2o {
    struct h2o_knobs k; /* first: evict_* */
    int32_t n_ctx, n_lanes;
};

static const struct knob h2o_table[] = {
    EVICT_KNOBS("1024", "0", "512", "128"),
    {"average", KNOB_BOOL, offsetof(struct h2o_knobs, average), 0, 0, "on", NULL, NULL,
     "divide what the queries of an interval give by how many of them could see the entry"},
};

static uint64_t h2o_model_bytes(const struct method_site *site, const void *knobs)
{
    (void)site, (void)knobs;
    return sizeof(struct h2o);
}

static hasten_status h2o_attach(const struct method_site *site, const void *knobs, void **state,
                                struct hasten_error *err)
{
    struct h2o *h = mem_alloc(sizeof *h);
    if (!h)
        return error_set(err, HASTEN_ERR_MEMORY, "--cache h2o: out of memory");
    *h =
        (struct h2o){*(const struct h2o_knobs *)knobs, site->settings->n_ctx, engine_lanes(site->desc, NULL)};
    *state = h;
    return HASTEN_OK;
}

static size_t h2o_seq_bytes(const struct method_site *site, const void *knobs)
{
    (void)knobs;
    return sizeof(struct h2o_state) +
           (size_t)engine_lanes(site->desc, NULL) * (size_t)site->settings->n_ctx * sizeof(float);
}

/* All queries since the last act vote. */
static int32_t h2o_window(const void *knobs)
{
    return ((const struct h2o_knobs *)knobs)->common.every;
}

static hasten_status h2o_check(const struct method_site *site, const void *knobs, struct hasten_error *err)
{
    const struct h2o_knobs *k = knobs;
    (void)site;
    if (k->common.keep >= 1 && k->common.keep < k->common.sink + k->common.recent)
        return error_set(
            err, HASTEN_ERR_USAGE,
            "--cache h2o: keep=%d leaves no room for what is read most beside sink=%d and recent=%d "
            "(expected more, or a smaller recent)",
            (int)k->common.keep, (int)k->common.sink, (int)k->common.recent);
    return k->common.every >= 1 && k->common.every <= 4096
               ? HASTEN_OK
               : error_set(err, HASTEN_ERR_USAGE, "--cache h2o:every: found %d (expected 1 to 4096)",
                           (int)k->common.every);
}

static size_t h2o_scratch(const struct method_site *site, const void *knobs)
{
    return ((size_t)site->settings->n_ctx + 16) * sizeof(float) + cache_mass_scratch(site, h2o_window(knobs));
}

static void h2o_truncate(const void *state, void *seq, int32_t n_keep)
{
    const struct h2o *h = state;
    struct h2o_state *s = seq;
    if (n_keep >= s->length)
        return;
    s->length = 0; /* computed again from the first token */
    memset(s->sum, 0, (size_t)h->n_lanes * (size_t)h->n_ctx * sizeof *s->sum);
}

static void h2o_score(const void *state, void *seq, const struct cache_lane *lane, float *score,
                      void *scratch)
{
    const struct h2o *h = state;
    const int32_t n = lane->kv.n;
    float *mass = scratch, *sum = ((struct h2o_state *)seq)->sum + (int64_t)lane->kv.lane * h->n_ctx;
    cache_query_mass(lane, h->k.average, mass, mass + ((n + 15) & ~15));
    for (int32_t i = 0; i < n; i++) {
        sum[i] = (i < n - lane->n_queries ? sum[i] : 0) + mass[i]; /* the interval's own entries begin at 0 */
        score[i] = sum[i];
    }
}

static void h2o_kept(const void *state, void *seq, const struct cache_lane *lane, const int32_t *entries,
                     int32_t n)
{
    const struct h2o *h = state;
    struct h2o_state *s = seq;
    float *sum = s->sum + (int64_t)lane->kv.lane * h->n_ctx;
    for (int32_t i = 0; i < n; i++)
        sum[i] = sum[entries[i]];
}

static void h2o_done(const void *state, void *seq, int32_t length)
{
    (void)state;
    ((struct h2o_state *)seq)->length = length;
}

static const struct cache_ops h2o_ops = {.next = evict_next,
                                         .window = h2o_window,
                                         .scratch_bytes = h2o_scratch,
                                         .keep = evict_keep,
                                         .pins = evict_pins,
                                         .score = h2o_score,
                                         .kept = h2o_kept,
                                         .done = h2o_done};

const struct method method_h2o = {
    .name = "h2o",
    .title = "keeps the entries that were read most, and the recent ones",
    .paper =
        "Zhang et al., H2O: Heavy-Hitter Oracle for Efficient Generative Inference of Large Language Models, arXiv:2306.14048",
    .stage = STAGE_CACHE,
    .guarantee = METHOD_APPROXIMATE,
    .exact_to = "the plain engine as long as nothing was evicted",
    .role = "score",
    .knobs = h2o_table,
    .n_knobs = sizeof h2o_table / sizeof *h2o_table,
    .knobs_bytes = sizeof(struct h2o_knobs),
    .tries = "keep=0.5,recent=128\0keep=512,recent=128\0",
    .exercise = "keep=48,every=32,recent=16",
    .neutral = "keep=all",
    .traits = METHOD_CHANGES_KV,
    .needs = METHOD_NEEDS_DECODER | METHOD_NEEDS_GLOBAL,
    .text =
        "Every `every` tokens the probabilities of the queries since then are added to the sums of what they read (over "
        "the heads of a group), and the smallest sums go. An entry that went cannot return. Without `average` early "
        "entries of an interval win by count alone. It computes attention a second time, in plain C: it saves memory, "
        "and time only in long answers.",
    .check = h2o_check,
    .model_bytes = h2o_model_bytes,
    .attach = h2o_attach,
    .detach = mem_free,
    .seq_bytes = h2o_seq_bytes,
    .seq_truncate = h2o_truncate,
    .cache = &h2o_ops,
};
