/* The stage context: what of a prompt is read. A method gets a prompt's tokens and says which of them stay; the driver
 * (context.c) is called by whoever is about to read a prompt, and gives back the shorter one. The answer is that of a
 * plain run over what stayed. */
#ifndef HASTEN_ENGINE_CONTEXT_H
#define HASTEN_ENGINE_CONTEXT_H
#include "engine/method.h"

struct hasten_engine;
struct tokens;

struct context_view {
    struct hasten_engine
        *engine;        /* for passes of the method's own; it has room for a sequence (METHOD_BRANCHES) */
    const int32_t *ids; /* [n] the prompt */
    int64_t n;
    const uint8_t *fixed; /* [n] 1: a control token or what a template says beside it; stays in any case */
    const volatile int *cancel; /* NULL, or as of hasten_step */
};

struct context_ops {
    /* keep [n] is 1 everywhere; sets 0 where a token goes. What it makes of a prompt is a function of its tokens. */
    hasten_status (*select)(const void *state, const struct context_view *, uint8_t *keep,
                            struct hasten_error *err);
};

/* Whether the engine has a method of the stage. */
bool context_is_used(const struct hasten_engine *e);
/* Appends to out what stays of ids[n]: all of them without a method. At least one token stays. */
hasten_status context_shorten(struct hasten_engine *e, const int32_t *ids, int64_t n,
                              const volatile int *cancel, struct tokens *out, struct hasten_error *err);

#endif
