/* Overlays of matrices: y += B (A x), after y = W x, for matrices that low-rank adapters (model/lora.h) change. All
 * adapters of a matrix are one overlay: their A below each other, each times its scale, their B beside each other, in
 * the order given. A and B are F32 and multiplied by the kernels' F32 law on the unrounded input, so a row's bits never
 * depend on who shares the pass; matrices without an overlay keep theirs.
 *
 * Owns the merged matrices and the memory they are worked with; all of it is allocated at the start. */
#ifndef HASTEN_ENGINE_OVERLAY_H
#define HASTEN_ENGINE_OVERLAY_H
#include "engine/engine.h"

/* Settings that can be used with this model? HASTEN_ERR_USAGE. */
hasten_status overlays_check(const struct hasten_model *m, const struct hasten_engine_settings *s,
                             struct hasten_error *err);
/* Bytes that overlays_open takes. */
uint64_t overlays_plan(const struct hasten_model *m, const struct hasten_engine_settings *s);
/* After packing_open: e->layers are there. */
hasten_status overlays_open(struct hasten_engine *e, struct hasten_error *err);
void overlays_close(struct hasten_engine *e);

/* Has w, of e->layers or e->output, an overlay? */
bool overlay_on(const struct hasten_engine *e, const struct weight *w);
/* Adds what the overlays are to a checksum: which matrices, A, B with their strengths. */
struct checksum;
void overlays_sum(const struct hasten_engine *e, struct checksum *c);
/* Adds the overlays of the matrices of a group to their y, for input rows x [n × k]. */
void overlays_add(struct hasten_engine *e, const float *x, int64_t k, int32_t n, const struct linear *lin,
                  int32_t n_lin);

#endif
