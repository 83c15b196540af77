/* Taps: named places of the forward pass at which methods watch what flows by. A tap is a list; the pass looks
 * at its head and goes on when it is empty, so a tap costs nothing until somebody subscribed. Subscribers see
 * the values of the plain pass; they must not change them, and nothing they do may show in the bits.
 *
 * Callbacks run on the thread that steps, between the pass's loops: the engine's workers are idle, and a
 * callback may use them for a loop of its own. They cannot fail a step; who must fail remembers it. */
#ifndef HASTEN_ENGINE_TAP_H
#define HASTEN_ENGINE_TAP_H
#include "base/pool.h"
#include "kernels/kernels.h"

/* Tap "linear input": the rows that a group of matrices is about to multiply; in a mixture of experts a call for each
 * expert that some row has chosen, ascending, first with gate and up of all of these, then with down. */
struct tap_linear_input {
    const struct weight *const *w; /* [n_w] all read the same rows */
    int32_t n_w;
    const float *x;     /* [n × k], after the norm, before quantisation */
    const int32_t *row; /* [n] ascending: which rows of x; NULL: these n */
    int32_t n;
    int64_t k;
    struct pool *pool; /* the engine's workers */
};
typedef void (*tap_linear_input_fn)(void *ctx, const struct tap_linear_input *in);

/* One subscription; the memory is the subscriber's and must live until it is taken off. */
struct tap_linear_input_sub {
    tap_linear_input_fn fn;
    void *ctx;
    struct tap_linear_input_sub *next;
};

struct taps {
    struct tap_linear_input_sub *linear_input;
};

struct hasten_engine;
/* Both between steps only. Subscribers are called in the order of subscription. */
void tap_linear_input_add(struct hasten_engine *e, struct tap_linear_input_sub *s);
void tap_linear_input_remove(struct hasten_engine *e, struct tap_linear_input_sub *s);

#endif
