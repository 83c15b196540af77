/* The stage draft: who proposes tokens, and when a proposed token stands. The driver is src/run/, which checks what is
 * proposed in one step and cuts off what does not stand. A method has either `propose` (at most one per engine) or
 * `accept` (verify; without one a token stands when it is the target's own choice).
 *
 * A drafter sees committed tokens only, never the engine's rows of what was not accepted; what it proposes may be
 * anything: it can change the speed, not the text. */
#ifndef HASTEN_ENGINE_DRAFT_H
#define HASTEN_ENGINE_DRAFT_H
#include "engine/method.h"

#define DRAFT_MAX 64 /* tokens of one proposal */

struct draft_view {
    const int32_t *path; /* [n] prompt and answer; the last token has no row in the cache yet */
    int64_t n, n_prompt;
    struct hasten_seq *seq;
};

struct draft_proposal {
    int32_t max;  /* tokens wanted at most, 1..DRAFT_MAX */
    int32_t *ids; /* [max] they follow path[n - 1] */
    float *
        conf; /* [max] how sure, 0..1, given that those before stand; preset to 0. What it means is the method's: the
                   * controller learns what comes of it */
    int32_t n; /* how many; 0: nothing comes to mind */
};

/* What a drafter knows: attach's state, the flat state of the sequence (method.h), and what `open` made, for which a
 * flat state is not enough (caches, indexes that grow). */
struct draft_self {
    const void *state;
    void *seq, *opened;
};

struct draft_ops {
    /* Most tokens that it will propose, 1..DRAFT_MAX. */
    int32_t (*most)(const void *state);
    hasten_status (*propose)(const struct draft_self *, const struct draft_view *, struct draft_proposal *,
                             struct hasten_error *err);
    /* What came of the last proposal: its first n_checked tokens were in a step, the first n_stood of them stood. view:
     * with the tokens committed by that step. NULL: not asked for. */
    void (*outcome)(const struct draft_self *, const struct draft_view *, int32_t n_checked, int32_t n_stood);
    /* All four or none. Made when a sequence is first drafted for; truncate: the path has only its first n tokens now, or
     * goes on otherwise from there. */
    hasten_status (*open)(const void *state, void **opened, struct hasten_error *err);
    hasten_status (*fork)(const void *state, const void *opened, void **out, struct hasten_error *err);
    void (*truncate)(const void *state, void *opened, int64_t n);
    void (*close)(const void *state, void *opened);

    /* The target would choose `own` where `drafted` was proposed: does the latter stand? Match: own == drafted. */
    bool (*accept)(const void *state, int32_t own, int32_t drafted);
    bool (*controlled)(const void *state); /* with accept: may drafting pause where it does not pay? */
};

#endif
