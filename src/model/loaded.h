/* A loaded model: the mapped file, its description and its vocabulary, together. */
#ifndef HASTEN_MODEL_LOADED_H
#define HASTEN_MODEL_LOADED_H
#include "hasten/hasten.h"
#include "model/model.h"

struct hasten_model {
    struct gguf *gguf;
    struct vocab *vocab;
    struct model_desc desc;
    struct prefault *ahead; /* reads the weights ahead, or NULL */
};

/* hasten_model_open for questions about the file: the weights are not read ahead. */
hasten_status model_open_unread(const char *path, struct hasten_model **out, struct hasten_error *err);

/* Borrowed; they live as long as the model. */
const struct gguf *model_gguf(const struct hasten_model *m);
const struct vocab *model_vocab(const struct hasten_model *m);

#endif
