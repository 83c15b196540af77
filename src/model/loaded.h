/* A loaded model: the mapped file, its description and its vocabulary, together. */
#ifndef HASTEN_MODEL_LOADED_H
#define HASTEN_MODEL_LOADED_H
#include "hasten/hasten.h"
#include "model/model.h"

struct hasten_model {
    struct gguf *gguf;
    struct vocab *vocab;
    struct model_desc desc;
};

/* Borrowed; they live as long as the model. */
const struct gguf *model_gguf(const struct hasten_model *m);
const struct vocab *model_vocab(const struct hasten_model *m);

#endif
