/* The search of `tune`: which of many candidates answers fastest without more damage than allowed.
 *
 * Successive halving (Jamieson and Talwalkar 2016): all candidates are measured on a few prompts, the better half on
 * twice as many, and so on. What remains is put together, where methods of different stages go together, and measured
 * as a whole. The last judgement is made on prompts that nothing was chosen by: of the finalists, fastest first, the
 * first is chosen whose damage there is small enough and whose gain there is above 1 with its whole interval. So what
 * loses is never chosen, and what merely may win is not either. Every candidate that is not chosen says why.
 *
 * Measuring is the caller's (callbacks), so that the search can be tested without an engine. */
#ifndef HASTEN_TUNE_SEARCH_H
#define HASTEN_TUNE_SEARCH_H
#include "engine/method.h"
#include "tune/gain.h"

#define TUNE_MAX_USES 8
#define TUNE_MAX_CANDIDATES 128

enum tune_verdict {
    TUNE_OPEN,     /* not decided */
    TUNE_REJECTED, /* see why */
    TUNE_CHOSEN
};

struct tune_use {
    const struct method *m;
    const char *knobs; /* "key=value,..."; lives as long as the search */
};

struct tune_candidate {
    struct tune_use use[TUNE_MAX_USES];
    int32_t n_use;
    int32_t n_threads, n_batch; /* 0: as the plain engine has them */
    int32_t kv_type;            /* enum hasten_kv_type; -1: as the plain engine has it */
    bool exact;                 /* says that answers are the plain engine's */
    /* what was found */
    struct answers_pair *pairs; /* [n_pairs] on prompts to tune on */
    int32_t n_pairs, cap_pairs;
    struct gain gain; /* of these; n 0: never measured */
    struct gain held; /* on held-out prompts; n 0: not a finalist */
    bool differs;     /* exact, and yet the answers were not the plain engine's */
    bool measured_kl;
    struct eval_interval kl; /* mean, nats a token, on held-out answers */
    double top1;
    enum tune_verdict verdict;
    char why[256];
};

struct tune_ops {
    /* Pairs of prompt number `first` to first + n - 1 (round and round) into out[n]; held: of the held-out ones.
     * HASTEN_ERR_USAGE: the candidate cannot be opened with this model; its sentence is the reason. Other errors end the
     * search. */
    hasten_status (*measure)(void *ctx, const struct tune_candidate *c, bool held, int32_t first, int32_t n,
                             struct answers_pair *out, struct hasten_error *err);
    /* On held-out answers: c->kl, c->top1. */
    hasten_status (*damage)(void *ctx, struct tune_candidate *c, struct hasten_error *err);
    bool (*late)(void *ctx); /* is the time for searching over? Then what is there is judged */
    void (*progress)(void *ctx, const struct tune_candidate *c,
                     const char *what); /* NULL, or before each of these */
    void *ctx;
};

struct tune_settings {
    double max_kl;  /* 0: exact candidates alone */
    int32_t n_tune; /* prompts to tune on, and held-out ones: at least 1 of each */
    int32_t n_held;
    int32_t least;  /* prompts of the first round */
    int32_t repeat; /* times each held-out prompt is measured at the end */
};

struct tune_search {          /* zero-initialise, tune_search_free */
    struct tune_candidate *c; /* [n], room for TUNE_MAX_CANDIDATES */
    int32_t n;
    int32_t chosen; /* -1: nothing beats the plain engine */
    int32_t rounds;
};

/* Adds what applies: registered methods of the stages whose damage can be measured, with the knobs that they say are
 * worth trying (method.tries), threads, batches, types of the cache; what max_kl forbids is rejected at once, with
 * why. HASTEN_ERR_MEMORY. */
hasten_status tune_candidates(struct tune_search *s, int32_t n_threads, double max_kl,
                              struct hasten_error *err);
/* Adds one. */
struct tune_candidate *tune_add(struct tune_search *s, struct hasten_error *err);
hasten_status tune_run(struct tune_search *s, const struct tune_settings *settings,
                       const struct tune_ops *ops, struct hasten_error *err);
void tune_search_free(struct tune_search *s);

/* "draft lookup:gamma=10 + cache-type q8", as options say it; "" for the plain engine. */
hasten_status tune_describe(const struct tune_candidate *c, struct buf *out);

#endif
