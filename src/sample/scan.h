/* The reference for grammar masks: an Earley parser (Earley 1970) over the network as it is written, every rule called,
 * nothing rewritten, remembered or shared, that tries each token by its bytes. Slow by design. Private to sample/. */
#ifndef HASTEN_SAMPLE_SCAN_H
#define HASTEN_SAMPLE_SCAN_H
#include "sample/rtn.h"

struct scan_item { /* a step still to be made, in a rule that began behind `from` bytes */
    int32_t step;
    int32_t from;
};

struct scan_rules { /* immutable */
    struct rtn rtn;
    uint8_t *alive; /* [n_steps] can its rule be ended from here? */
};
hasten_status scan_rules_open(const char *name, const struct gbnf *g, struct scan_rules *out,
                              struct hasten_error *err);
void scan_rules_close(struct scan_rules *r);

struct scan { /* zero-initialise, then scan_start */
    const struct scan_rules *rules;
    LIST(struct scan_item) items; /* of all positions, one after another */
    LIST(int64_t) set_at;         /* items of position i: [set_at[i], set_at[i + 1]) */
    bool complete;                /* of the last position */
    int32_t *seen;                /* [n_steps × ...] see scan.c */
    int64_t n_seen;
};

/* 1: the text may go on or is complete, 0: no text begins so (the last byte is not kept), -1: out of memory. */
int scan_start(struct scan *s, const struct scan_rules *r);
int scan_byte(struct scan *s, uint8_t byte);
/* 1, 0, -1 as above, of all bytes; with 0 none is kept. */
int scan_bytes(struct scan *s, const char *text, size_t len);
static inline int64_t scan_position(const struct scan *s)
{
    return s->set_at.n - 2;
}
void scan_truncate(struct scan *s, int64_t position);
int scan_copy(const struct scan *s, struct scan *out);
void scan_free(struct scan *s);

#endif
