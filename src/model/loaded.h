/* A loaded model: the mapped file, its description and its vocabulary, together. */
#ifndef HASTEN_MODEL_LOADED_H
#define HASTEN_MODEL_LOADED_H
#include "hasten/hasten.h"
#include "model/model.h"

struct hasten_model {
    struct gguf *gguf;
    struct vocab *vocab;
    struct model_desc desc;
    enum hasten_pooling pooling; /* what the file says */
    struct script *script;       /* a scripted model (script.h): no weights; else NULL */
    struct prefault *ahead;      /* reads the weights ahead, or NULL */
    bool copied, locked; /* the files' bytes are in memory of our own (never discard them), or locked */
};

/* hasten_model_open for questions about the file: the weights are not read ahead. */
hasten_status model_open_unread(const char *path, struct hasten_model **out, struct hasten_error *err);

/* ahead.c: what every step reads, as an array of n ranges that the caller frees; begins to read it. */
struct prefault_range;
hasten_status model_ahead_ranges(const struct hasten_model *m, struct prefault_range **range, int32_t *n,
                                 struct hasten_error *err);
hasten_status model_read_ahead(struct hasten_model *m, struct hasten_error *err);
/* Bytes of a tensor will hardly be read again: their pages leave the process, and come from the file if they are. So
 * do the pages around them, which a touch of theirs may have brought along (2 MiB: the largest folio). */
void model_stop_ahead(const struct hasten_model *m); /* no more is read ahead */
void model_forget(const struct hasten_model *m, const uint8_t *data, uint64_t size);

/* How far the weights have been read ahead: false when nobody reads, or all is read. */
bool model_reading(const struct hasten_model *m, uint64_t *done, uint64_t *total);

/* Borrowed; they live as long as the model. */
const struct gguf *model_gguf(const struct hasten_model *m);
const struct vocab *model_vocab(const struct hasten_model *m);

#endif
