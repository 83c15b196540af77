/* The stage modality: what is read besides text. A method gives vectors that stand before a prompt's tokens as soft
 * input (hasten_item.embd); the driver is src/run/. */
#ifndef HASTEN_ENGINE_MODALITY_H
#define HASTEN_ENGINE_MODALITY_H
#include "engine/method.h"

struct modality_ops {
    /* The vectors of every prompt: *rows [*n × d_model], the method's, finite. */
    void (*rows)(const void *state, const float **rows, int32_t *n);
};

#endif
