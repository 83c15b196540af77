/* The stage stop: when it is enough. The driver is src/run/. A method looks at every token that was chosen, before it
 * is taken; where it wants a say it is asked between steps, and may let the token pass, end the answer, or put other
 * tokens in its place. What it knows of a sequence is its flat state, set by `begin` at each answer. */
#ifndef HASTEN_ENGINE_STOP_H
#define HASTEN_ENGINE_STOP_H
#include "engine/method.h"

struct stop_view {
    struct hasten_seq *seq;
    const int32_t *path; /* [n] prompt and answer; in `decide` the sequence holds exactly these */
    int64_t n, n_prompt;
    const volatile int *cancel; /* NULL, or for steps of its own */
};

enum stop_act {
    STOP_GO,    /* the token is taken */
    STOP_END,   /* it is not, and the answer ends */
    STOP_INJECT /* it is not: the path is cut back to its first `keep` tokens, and ids follow */
};
struct stop_verdict {
    enum stop_act act;
    int64_t keep;       /* preset to n */
    const int32_t *ids; /* [n_ids] the method's, until it is asked again */
    int32_t n_ids;      /* at least 1 */
};

struct stop_ops {
    /* Tokens that a verdict may cut back at most; text is shown so much later. NULL: none. */
    int32_t (*reach)(const void *state);
    /* An answer begins behind path[n], which is all prompt. */
    void (*begin)(const void *state, void *seq, const struct stop_view *);
    /* Token id was chosen to follow path[n]: does the method want to decide? Called within a step; changes nothing. */
    bool (*watch)(const void *state, const void *seq, const struct stop_view *, int32_t id);
    hasten_status (*decide)(const void *state, void *seq, const struct stop_view *, int32_t id,
                            struct stop_verdict *, struct hasten_error *err);
    /* path[from, n) were injected, by this method or another. */
    void (*injected)(const void *state, void *seq, const struct stop_view *, int64_t from);
};

#endif
