/* See evict.h. */
#include "engine/evict.h"

int32_t evict_next(const void *state, int32_t length, int32_t n_prompt)
{
    return cache_next_at(((const struct evict_knobs *)state)->every, length, n_prompt);
}

int32_t evict_keep(const void *state, int32_t layer, int32_t n)
{
    (void)layer;
    return budget_of(((const struct evict_knobs *)state)->keep, n);
}

void evict_pins(const void *state, int32_t *sink, int32_t *recent)
{
    const struct evict_knobs *k = state;
    *sink = k->sink;
    *recent = k->recent;
}
