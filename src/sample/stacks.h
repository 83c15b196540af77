/* Parses as numbers. A parse in progress is a set of heads: a place of the network and the frame of the rule it belongs
 * to. A frame says where to go on when its rule ends: a set of (place, frame) again, or nowhere, at the bottom. All rules
 * of one name that begin at the same byte share a frame (Scott and Johnstone's GLL parsing, 2010), so ambiguity costs
 * polynomial room. Frames and whole parses are interned: equal ones are the same number, and the step from one by a byte
 * is looked up after it has been made once. Private to sample/. */
#ifndef HASTEN_SAMPLE_STACKS_H
#define HASTEN_SAMPLE_STACKS_H
#include "sample/network.h"

struct head {
    int32_t place, frame;
};

struct frame {
    int64_t at; /* of its heads: where its rule's end goes on */
    int32_t n;
    bool bottom; /* its rule's end is the end */
};

struct parse {
    int64_t at; /* of its heads, in order; */
    int32_t n_own,
        n; /* the first n_own stand where the last byte led, the rest at starts of rules called from these */
    bool complete; /* a whole text */
    int32_t *next; /* [256] 0: not made yet, 1: dead, else the number of a parse + 2; NULL: none yet */
    uint64_t hash;
};

struct head_set {
    LIST(struct head) list;
    int32_t *table; /* index + 1 */
    int64_t n_table;
};

struct pending { /* a call to be made: its rule and what its frame will hold */
    int32_t rule;
    bool bottom, made;
    LIST(struct head) heads;
};

struct stacks {
    const struct network *net;
    LIST(struct head) heads;
    LIST(struct frame) frames; /* 0: the bottom */
    LIST(struct parse) parses;
    int32_t *frame_table, *parse_table; /* number + 1 */
    int64_t n_frame_table, n_parse_table;
    struct head_set own; /* of the parse being made */
    LIST(struct pending) pending;
    int64_t n_pending;
    size_t bytes; /* of what is interned, about */
};

#define PARSE_DEAD (-1)   /* no text begins so */
#define PARSE_FAILED (-2) /* out of memory */

/* Zero-initialise, set net. 0 or -1. stacks_clear forgets all, for another stacks_open. */
int stacks_open(struct stacks *s);
void stacks_clear(struct stacks *s);
/* Numbers of parses, PARSE_DEAD or PARSE_FAILED. */
int32_t stacks_start(struct stacks *s);
/* The parse whose heads are these. */
int32_t stacks_of(struct stacks *s, const struct head *heads, int64_t n);
int32_t stacks_make_next(struct stacks *s, int32_t parse, uint8_t byte);

static inline int32_t stacks_next(struct stacks *s, int32_t parse, uint8_t byte)
{
    const int32_t *next = s->parses.at[parse].next;
    return next && next[byte] ? next[byte] - 2 : stacks_make_next(s, parse, byte);
}

#endif
