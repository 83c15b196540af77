/* The output head: rows of a pass to logits, of all tokens, or of those that somebody asked for.
 *
 *     a method of the stage weights keeps some rows of the matrix (weights_ops.rows): the engine multiplies by a dense
 *     copy of these; every other logit is -INFINITY, always
 *     an item of a step names tokens (hasten_item.mask): where all rows at hand do, and these lie in fewer than a quarter
 *     of the panels of 16 rows, only these panels are read; every other logit is -INFINITY in any case
 *
 * A logit that is computed has the bits of the full head: rows of a matrix do not know of each other. */
#ifndef HASTEN_ENGINE_HEAD_H
#define HASTEN_ENGINE_HEAD_H
#include "engine/method.h"

struct hasten_engine;

/* The rows that a method keeps. e->output is their copy. */
struct heading {
    const struct method_use *use; /* NULL: all */
    int32_t n;
    int32_t *ids;    /* [n] ascending: the tokens of the rows */
    float *rows;     /* [n_logits × n] their logits, before they go where they belong */
    uint8_t *memory; /* [bytes] what these point into, and the matrix */
    size_t bytes;
};

/* Bytes that head_open takes. other: NULL, or what re-quantises matrices. */
uint64_t head_bytes(const struct method_site *site, const struct method_use *u,
                    const struct method_use *other);
/* After reweighting_open: e->output becomes the copy. */
hasten_status head_open(struct hasten_engine *e, struct hasten_error *err);
void head_close(struct heading *h);

#endif
