/* Where the time of a step goes, by operation. Off unless somebody points an engine at a record: then each
 * operation costs one check of a pointer, here and (per chunk) in the pool; nothing is measured.
 *
 * The record is a stopwatch with laps: engine_lap(op) books the time since the previous lap under op, so the
 * operations sum to the whole. Beside the wall time of each operation stands the time its workers were at
 * work, summed over workers: wall - busy / n_threads is what the operation waited (for other cores, for the
 * slowest chunk, for serial work between loops). */
#ifndef HASTEN_ENGINE_PROFILE_H
#define HASTEN_ENGINE_PROFILE_H
#include "base/pool.h"

struct hasten_engine;

enum engine_op {
    ENGINE_OP_STEP,       /* checking items, making room, composing a pass */
    ENGINE_OP_EMBED,      /* token embeddings, tables of rotations */
    ENGINE_OP_PREPARE,    /* norm and quantisation of the inputs of matrices */
    ENGINE_OP_QKV,        /* the matrices of q, k and v */
    ENGINE_OP_ROPE_STORE, /* bias, norm, rotation; keys and values into pages */
    ENGINE_OP_ATTENTION,
    ENGINE_OP_O,       /* attention's output matrix */
    ENGINE_OP_ROUTE,   /* experts: router, choice, grouping of rows; the weighted sum */
    ENGINE_OP_GATE_UP, /* the matrices of gate and up; of many rows also activation and quantisation */
    ENGINE_OP_ACTIVATION,
    ENGINE_OP_DOWN,
    ENGINE_OP_ADD,      /* post norm, onto the residual stream */
    ENGINE_OP_HEAD,     /* the output matrix */
    ENGINE_OP_SAMPLING, /* booked by whoever samples */
    ENGINE_N_OPS
};

struct engine_profile {
    uint64_t wall_ns[ENGINE_N_OPS];
    uint64_t busy_ns[ENGINE_N_OPS]; /* over all workers */
    uint64_t last_ns, last_busy_ns; /* of the previous lap */
    struct pool_busy busy[];        /* [pool size] */
};

/* "embed", "gate/up", ... */
const char *engine_op_name(enum engine_op op);

/* Starts (p: zeroed, with as many busy entries as the engine has threads) or stops (NULL) recording. */
void engine_profile_set(struct hasten_engine *e, struct engine_profile *p);
/* Sets the record to zero and the stopwatch to now. */
void engine_profile_start(struct hasten_engine *e);
/* Books the time since the previous lap under op; nothing when no record is set. */
void engine_lap(struct hasten_engine *e, enum engine_op op);

#endif
