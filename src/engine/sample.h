/* The stage sample: which tokens may be chosen. A method says what grammar an answer keeps to, and how it is held to it;
 * the driver is whoever makes the law of an answer (src/run/run.h, struct sampling). */
#ifndef HASTEN_ENGINE_SAMPLE_H
#define HASTEN_ENGINE_SAMPLE_H
#include "engine/method.h"

struct sample_grammar {
    const char *file;
    bool scan;      /* masks by the reference, a try of every token, not by the trie */
    bool full_head; /* logits of all tokens are computed, not of those that the mask allows */
};

struct sample_ops {
    void (*grammar)(const void *knobs, struct sample_grammar *out);
};

#endif
