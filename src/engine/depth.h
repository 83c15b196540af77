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
    /* Instead of `leaves`, for oracles: each row is run to the end first, and leaves at the first place looked at from
     * which the head has the same likeliest token as at the end. Then a pass has one row of a sequence's answer. */
    bool foresees;
};

struct hasten_engine;
struct hasten_seq;

/* What the driver (depth.c) works with. */
struct deepening {
    const struct method_use *gate; /* NULL: no row leaves */
    struct layer_set skipped;
    bool any_skipped;
    float *saved;   /* [n_batch × d_model] residual streams of rows that left */
    uint8_t *left;  /* [n_batch] in this pass */
    int32_t n_left; /* of them */
    /* of gates that foresee */
    bool recording;   /* the first run */
    int32_t *guesses; /* [n_batch × n_layer] the likeliest token before each layer that was looked at */
    int32_t *leaves;  /* [n_batch] the layer before which a row leaves; n_layer: it stays */
};

size_t deepening_bytes(const struct method_site *site, struct deepening *out, uint8_t *memory);
/* Before a pass; before a layer: may rows leave? */
void depth_begin(struct hasten_engine *e);
void depth_gate(struct hasten_engine *e, int32_t layer);
/* A gate that foresees: does this pass run twice? Then between the two. */
bool depth_foresees(const struct hasten_engine *e);
void depth_foreseen(struct hasten_engine *e);
/* Must the pass end behind position pos of s? */
bool depth_ends_pass(const struct hasten_engine *e, const struct hasten_seq *s, int32_t pos);
/* Around a layer that some rows no longer run: what is theirs stays. */
void depth_keep(struct hasten_engine *e);
void depth_restore(struct hasten_engine *e);

#endif
