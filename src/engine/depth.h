/* The stage depth: which layers a row runs through.
 *
 *     program    layers that no row runs, fixed when the engine is opened. Their keys and values are not made.
 *     gate       rows that leave before a layer: their residual stream goes to the head as it is, and keys and values of
 *                the layers they miss are made from it (the gap policy "fill"), so that later rows find them. Only rows
 *                behind an announced prompt may leave: a row's fate must be a function of its tokens.
 *
 * At most one method owns each. */
#ifndef HASTEN_ENGINE_DEPTH_H
#define HASTEN_ENGINE_DEPTH_H
#include "engine/method.h"

struct depth_ops {
    /* Adds to skipped. NULL: none. */
    void (*program)(const void *state, const struct model_desc *d, struct layer_set *skipped);
    /* Does it look before this layer? NULL: it has no gate. */
    bool (*looks)(const void *state, int32_t layer, int32_t n_layer);
    /* Does a row leave? logits [n_vocab]: of the head on its residual stream (soft cap included). */
    bool (*leaves)(const void *state, const float *logits, int32_t n_vocab);
};

struct hasten_engine;

/* What the driver (depth.c) works with. */
struct deepening {
    const struct method_use *gate; /* NULL: no row leaves */
    struct layer_set skipped;
    bool any_skipped;
    float *saved;   /* [n_batch × d_model] residual streams of rows that left */
    uint8_t *left;  /* [n_batch] in this pass */
    int32_t n_left; /* of them */
};

size_t deepening_bytes(const struct method_site *site, struct deepening *out, uint8_t *memory);
/* Before a pass; before a layer: may rows leave? */
void depth_begin(struct hasten_engine *e);
void depth_gate(struct hasten_engine *e, int32_t layer);
/* Around a layer that some rows no longer run: what is theirs stays. */
void depth_keep(struct hasten_engine *e);
void depth_restore(struct hasten_engine *e);

#endif
