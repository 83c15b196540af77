/* What methods of the stage cache have in common: their knobs and the functions that only look at them. A method's
 * struct of knobs begins with a struct evict_knobs, its table with EVICT_KNOBS. */
#ifndef HASTEN_ENGINE_EVICT_H
#define HASTEN_ENGINE_EVICT_H
#include "engine/cache.h"

struct evict_knobs {
    double keep;
    int32_t sink, recent, every;
};
#define EVICT_KNOBS(keep_default, sink_default, recent_default, every_default)                               \
    {"keep", KNOB_BUDGET, offsetof(struct evict_knobs, keep),                                                \
     0,      0,           keep_default,                                                                      \
     NULL,   "entries",   "what each layer and KV head keeps of what is there: a share, a number, or all"},  \
        {"sink", KNOB_INT,      offsetof(struct evict_knobs, sink),                                          \
         0,      LIMIT_CONTEXT, sink_default,                                                                \
         NULL,   "entries",     "first entries that always stay; they count, and stay even beyond keep"},    \
        {"recent", KNOB_INT,  offsetof(struct evict_knobs, recent),     0, LIMIT_CONTEXT, recent_default,    \
         NULL,     "entries", "last entries that always stay; likewise"},                                    \
    {                                                                                                        \
        "every", KNOB_INT, offsetof(struct evict_knobs, every), 0, LIMIT_CONTEXT, every_default, NULL,       \
            "tokens", "act each time so many tokens are there; 0: once, at the end of an announced prompt"   \
    }

/* cache_ops.next, keep and pins of a state that begins with struct evict_knobs. */
int32_t evict_next(const void *state, int32_t length, int32_t n_prompt);
int32_t evict_keep(const void *state, int32_t layer, int32_t n);
void evict_pins(const void *state, int32_t *sink, int32_t *recent);

#endif
