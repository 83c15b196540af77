/* A grammar as a recursive transition network on bytes (Woods 1970): for each rule a nondeterministic automaton whose
 * steps read a byte, branch, or call a rule. Characters are written out as their UTF-8 bytes, repetitions as copies.
 *
 * Steps are made from the end to the beginning, each knowing what follows it, and equal ones are one, so that
 * alternatives share their ends. */
#ifndef HASTEN_SAMPLE_RTN_H
#define HASTEN_SAMPLE_RTN_H
#include "sample/gbnf.h"

enum rtn_op {
    RTN_BYTE, /* reads lo ... hi, then a */
    RTN_FORK, /* a or b, reading nothing */
    RTN_CALL, /* rule a, then b. What it reads is not empty: a rule that may be has a fork around its call */
    RTN_END   /* of rule a */
};

struct rtn_step {
    uint8_t op, lo, hi;
    int32_t a, b;
};

struct rtn {
    LIST(struct rtn_step) steps;
    int32_t *entry;    /* [n_rules] first step; -1: not called from anywhere */
    uint8_t *nullable; /* [n_rules] may read nothing */
    int32_t n_rules, root;
};

/* inlined: small rules stand in place of their calls, as far as no rule would hold itself; else every use is a call.
 * HASTEN_ERR_LIMIT naming the rule. Zero-initialise out; rtn_free in any case. */
hasten_status rtn_build(const char *name, const struct gbnf *g, bool inlined, struct rtn *out,
                        struct hasten_error *err);
void rtn_free(struct rtn *r);

/* A range of code points within one length of UTF-8, as ranges of its bytes. */
struct utf8_span {
    int32_t n;
    uint8_t lo[4], hi[4];
};
#define UTF8_MAX_SPANS 24
/* The spans that together hold exactly the UTF-8 of lo ... hi (no surrogates among them); returns how many. */
int utf8_spans(uint32_t lo, uint32_t hi, struct utf8_span out[UTF8_MAX_SPANS]);

#endif
