/* Filling in the middle: the tokens by which a model that was trained for it (Bavarian et al., "Efficient training of
 * language models to fill in the middle", 2022) is told what stands before and behind, in the order prefix, suffix,
 * middle. */
#ifndef HASTEN_SERVE_FIM_H
#define HASTEN_SERVE_FIM_H
#include "text/vocab.h"
#include <stdbool.h>

struct fim { /* token ids; -1: none */
    int32_t prefix, suffix, middle;
    int32_t file; /* before another file's text */
};
/* From the file's keys, else by the names that such tokens have. False: the model has none. g may be NULL. */
bool fim_find(const struct gguf *g, const struct vocab *v, struct fim *out);
/* Appends prefix, suffix, middle around the two texts, which cannot speak control tokens. */
hasten_status fim_encode(const struct fim *f, const struct vocab *v, struct gguf_str before,
                         struct gguf_str behind, bool bos, struct tokens *out, struct hasten_error *err);

#endif
