/* The engine's thread: it alone touches the engine. Others put work into its inbox; between two turns of the batch it does
 * what lies there, in order. With nothing to do it sleeps. */
#ifndef HASTEN_SERVE_MOTOR_H
#define HASTEN_SERVE_MOTOR_H
#include "run/batch.h"
#include <stdbool.h>

struct motor;
struct work { /* lies in what it is about; may be put in again once `run` was called */
    struct work *next;
    void (*run)(struct work *w);
};

/* batch NULL: an engine without one (encoders). after: NULL, or called in the thread after each turn and before sleep. */
hasten_status motor_open(struct batch *batch, void (*after)(void *ctx), void *ctx, struct motor **out,
                         struct hasten_error *err);
void motor_put(struct motor *m, struct work *w); /* any thread */
/* Ends the thread, once the inbox is empty; what is put in later waits. NULL is fine, for both. */
void motor_stop(struct motor *m);
/* Stops, does what was put in meanwhile in the calling thread, and frees it. */
void motor_close(struct motor *m);

#endif
