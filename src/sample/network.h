/* A grammar ready for parsing: the network of rtn.h without steps that read nothing, without left recursion and without
 * dead ends, so that whatever has been read so far can be completed. Immutable; shared by all sequences.
 *
 * Places are numbers; a place belongs to one rule. From a place an edge reads a byte, a call begins a rule, which reads
 * at least one byte, and goes on at its `to` when that rule has ended. A rule may end where `final` is set. */
#ifndef HASTEN_SAMPLE_NETWORK_H
#define HASTEN_SAMPLE_NETWORK_H
#include "sample/rtn.h"

struct net_edge {
    uint8_t lo, hi;
    int32_t to;
};

struct net_call {
    int32_t rule, to;
};

struct byte_set {
    uint64_t bits[4];
};
static inline bool byte_in(const struct byte_set *s, uint8_t byte)
{
    return s->bits[byte >> 6] >> (byte & 63) & 1;
}

struct network {
    int32_t n_places, n_rules, root;
    int32_t *edge_at,
        *call_at; /* [n_places + 1] the edges of place p are edges[edge_at[p], edge_at[p + 1]) */
    struct net_edge *edges;
    struct net_call *calls;
    uint8_t *final;   /* [n_places] */
    int32_t *rule_of; /* [n_places] */
    int32_t *start;   /* [n_rules] place where a rule begins, to which nothing leads; -1: never called */
    int32_t *rank;    /* [n_rules] a rule called at another's start has a higher rank */
    /* [n_rules] bytes that may be read after a rule has ended */
    struct byte_set *follow;
};

/* A place that ends its rule and does nothing else: a call that goes on there need not come back. */
static inline bool net_ends(const struct network *n, int32_t place)
{
    return n->final[place] && n->edge_at[place] == n->edge_at[place + 1] &&
           n->call_at[place] == n->call_at[place + 1];
}

/* Makes the network of g. HASTEN_ERR_FILE when root matches no text at all, HASTEN_ERR_LIMIT. Zero-initialise out;
 * network_free in any case. */
hasten_status network_build(const char *name, const struct gbnf *g, struct network *out,
                            struct hasten_error *err);
void network_free(struct network *n);

/* ---- while it is made (network.c, left_recursion.c) ------------------------------------------------------ */

struct draft_place {
    LIST(struct net_edge) edges;
    LIST(struct net_call) calls;
    int32_t rule;
    bool final;
};

struct draft {
    const char *name;
    LIST(struct draft_place) places;
    int64_t n_edges; /* edges and calls of all places */
    int32_t n_rules;
    int32_t *start; /* [n_rules] */
    hasten_status status;
    struct hasten_error *err;
};

/* -1 after noting the failure. */
int32_t draft_add(struct draft *d, int32_t rule);
int draft_edge(struct draft *d, int32_t from, struct net_edge e);
int draft_call(struct draft *d, int32_t from, struct net_call c);
int draft_no_memory(struct draft *d);

/* Rewrites rules that call themselves, directly or through others, before anything is read. */
int draft_remove_left_recursion(struct draft *d);
/* rank[n_rules] as in struct network, for rules without left recursion; -1 for rules on a cycle of left calls and what
 * these call. */
int draft_rank(struct draft *d, int32_t *rank);

#endif
