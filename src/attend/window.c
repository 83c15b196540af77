/* Sinks and a recent window: the simplest selector, and the control of every other. Nothing is scored or kept. */
#include "engine/attend.h"

struct window_knobs {
    int32_t sink;
    double recent;
    struct layer_set layers;
    int phase;
};
enum {
    PHASE_DECODE,
    PHASE_BOTH
};

static const struct knob window_table[] = {
    {"recent", KNOB_BUDGET, offsetof(struct window_knobs, recent), 0, 0, "1024", NULL, "entries",
     "the last entries that are read: a number, a share, or all"},
    {"sink", KNOB_INT, offsetof(struct window_knobs, sink), 0, LIMIT_CONTEXT, "4", NULL, "entries",
     "the first entries, which are always read"},
    {"phase", KNOB_CHOICE, offsetof(struct window_knobs, phase), 0, 0, "both", "decode|both", NULL,
     "decode: rows of an announced prompt read all"},
    {"layers", KNOB_LAYERS, offsetof(struct window_knobs, layers), 0, 0, "all", NULL, NULL,
     "layers it acts in; the others read all"},
};

static bool window_active(const void *state, int32_t layer, int32_t pos, int32_t n_prompt)
{
    const struct window_knobs *k = state;
    return layer_set_has(&k->layers, layer) && (k->phase == PHASE_BOTH || pos >= n_prompt) &&
           pos + 1 > k->sink + budget_of(k->recent, pos + 1);
}

static void window_select(const void *state, const void *seq, const struct attend_query *q, uint64_t *seen,
                          int64_t stride, void *scratch)
{
    const struct window_knobs *k = state;
    (void)seq, (void)stride, (void)scratch;
    attend_clear(seen, k->sink, q->kv.n - budget_of(k->recent, q->kv.n));
}

static const struct attend_ops window_ops = {.active = window_active, .select = window_select};

const struct method method_window = {
    .name = "window",
    .title = "reads the first and the last entries only",
    .paper =
        "Xiao et al., Efficient Streaming Language Models with Attention Sinks, arXiv:2309.17453 (the mask; nothing is evicted here)",
    .stage = STAGE_ATTEND,
    .guarantee = METHOD_APPROXIMATE,
    .exact_to = "the plain engine up to sink + recent positions; beyond, what lies between is not read",
    .role = "select",
    .knobs = window_table,
    .n_knobs = sizeof window_table / sizeof *window_table,
    .knobs_bytes = sizeof(struct window_knobs),
    .tries = "recent=1020,phase=decode\0recent=508,phase=decode\0recent=252,phase=decode\0",
    .exercise = "recent=40,sink=2",
    .neutral = "recent=all",
    .traits = METHOD_SEQUENCE_SCOPE | METHOD_CHANGES_KV,
    .needs = METHOD_NEEDS_DECODER | METHOD_NEEDS_GLOBAL,
    .text =
        "Keeps all entries in memory and original positions; the work and the bytes read of a decode step no longer "
        "grow with the context. What lies outside cannot be found again by the model: a needle between sinks and "
        "window is lost by design.",
    .attend = &window_ops,
};
