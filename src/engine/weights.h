/* The stage weights: what matrices are made of. A method says which matrices become another format, and makes them when
 * an engine is opened; the engine owns the new ones, and forgets the old. Or it says which rows of the head stay
 * (head.h). Models are shared and never change.
 *
 * To come here: transforms of inputs that a group of matrices shares, low-rank parts, kernels of own formats. */
#ifndef HASTEN_ENGINE_WEIGHTS_H
#define HASTEN_ENGINE_WEIGHTS_H
#include "base/pool.h"
#include "engine/method.h"

enum matrix_role {
    MATRIX_Q,
    MATRIX_K,
    MATRIX_V,
    MATRIX_O,
    MATRIX_GATE,
    MATRIX_UP,
    MATRIX_DOWN,
    MATRIX_HEAD, /* layer: -1 */
    MATRIX_ROLES
};

struct weights_ops {
    /* These two, or the third. The format that a matrix becomes; NULL: it stays. The same answer every time. */
    const struct quant_type *(*becomes)(const void *knobs, int32_t layer, enum matrix_role role,
                                        const struct weight *w);
    /* Writes w in the new format, row by row, to dst. Non-finite values: HASTEN_ERR_NON_FINITE. */
    hasten_status (*make)(const void *knobs, const struct weight *w, const struct quant_type *type,
                          struct pool *pool, uint8_t *dst, struct hasten_error *err);
    /* The tokens whose rows of the head stay: ascending, into ids (NULL: not wanted). Returns how many, the same every
     * time, at least 1; 0: no memory. What else can go wrong, `check` has said. */
    int32_t (*rows)(const struct method_site *, const void *knobs, int32_t *ids);
};

/* The shape of w in another format; its data are not there yet. */
struct weight weight_as(const struct weight *w, const struct quant_type *type);
/* weights_ops.make by quant_encode, each row for itself (formats/encode.h). */
hasten_status weights_encode(const struct weight *w, const struct quant_type *type, struct pool *pool,
                             uint8_t *dst, struct hasten_error *err);

struct hasten_engine;
struct widths;

/* What the driver (weights.c) works with. */
struct reweighting {
    const struct method_use *use; /* NULL: all matrices are the file's */
    uint8_t *memory;              /* [bytes] the new ones */
    size_t bytes;
};
uint64_t reweighting_bytes(const struct method_site *site, const struct method_use *u);
/* Widens what products by the new matrices need. */
void reweighting_widen(const struct method_site *site, const struct method_use *u, struct widths *out);
/* Makes them and puts them into e->layers and e->output. */
hasten_status reweighting_open(struct hasten_engine *e, struct hasten_error *err);
void reweighting_close(struct reweighting *r);

#endif
