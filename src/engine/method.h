/* The contract of a method: what an acceleration method says of itself, once. From a `struct method` come the options
 * of the command line with their errors and suggestions, `hasten methods`, the page in docs/methods/, the table of what
 * composes, and the contract tests (tests/contract). A method is one file in its stage's folder plus one line in
 * methods.def; docs/add-a-method.md walks through one.
 *
 * A method touches the engine only through what is declared here and in the header of its stage:
 *     weights  weights.h   what a matrix is made of         attend  attend.h   what a query reads of the cache
 *     depth    depth.h     which layers a row runs through  cache   cache.h    what the cache keeps, in which form
 *     draft    draft.h     who proposes tokens              stop    stop.h     when it is enough
 *     store    store.h     what is kept between requests    context context.h  what of a prompt is read
 *     sample   sample.h    which tokens may be chosen       modality modality.h what is read besides text
 *     decide   decide.h    which of several things to do
 * Draft, stop, context and modality are driven by the loop of an answer (src/run/), out of the engine's set of methods; so
 * their states, too, live, fork and are cut with the sequence. The store is opened by who takes and gives sequences. A step
 * alone (hasten_step) never calls them, but asks an open store for pages when there are too few.
 *
 * State. A method has one state for the engine (attach) and one for each sequence. The latter is *flat*: seq_bytes of
 * memory that the engine owns, set to zero when a sequence opens, holding no pointers; so a fork copies it, a snapshot
 * writes it (a restored one may hold any bytes: nothing in it may be an index that is not looked at first), and memory is
 * planned before anything is allocated. What a method knows of a sequence must be a function
 * of the sequence's tokens (and announced prompt length) alone, never of passes or of neighbours: rule 2 of the design
 * holds for every method. */
#ifndef HASTEN_ENGINE_METHOD_H
#define HASTEN_ENGINE_METHOD_H
#include "base/error.h"
#include "base/limits.h"
#include "base/mem.h"
#include "kernels/kernels.h"
#include "model/model.h"
#include "hasten/hasten.h"

struct hasten_model;

/* In the order in which a token meets them. */
enum method_stage {
    STAGE_WEIGHTS,
    STAGE_DEPTH,
    STAGE_ATTEND,
    STAGE_CACHE,
    STAGE_STORE,
    STAGE_DRAFT,
    STAGE_SAMPLE,
    STAGE_CONTEXT,
    STAGE_STOP,
    STAGE_SCHEDULE,
    STAGE_DECIDE,
    STAGE_MODALITY,
    METHOD_STAGES
};
const char *method_stage_name(enum method_stage s);   /* "weights": the folder, and the stage in specs */
const char *method_stage_option(enum method_stage s); /* the same, but "stop-when": --stop is a stop string */
const char *method_stage_title(enum method_stage s);  /* one line for help */

enum method_guarantee {
    METHOD_EXACT,              /* the same bits */
    METHOD_DISTRIBUTION_EXACT, /* the same law of the text */
    METHOD_APPROXIMATE         /* its damage is measured beside its gain */
};
const char *method_guarantee_name(enum method_guarantee g); /* "exact", ... */

/* ---- knobs ---------------------------------------------------------------------------------------------------- */

enum knob_type {
    KNOB_INT,    /* int32_t in [lo, hi] */
    KNOB_FLOAT,  /* float in [lo, hi] */
    KNOB_BOOL,   /* bool: on, off */
    KNOB_CHOICE, /* int: index in `choices` */
    KNOB_TEXT,   /* const char *, e.g. the name of a file; owned by the set of methods */
    KNOB_BUDGET, /* double: "all" (INFINITY), a number of entries (1024), or a share of them (0.125, 12.5%) */
    KNOB_SIZE,   /* uint64_t: bytes, "512M" or "4GiB"; "all" (UINT64_MAX) */
    KNOB_LAYERS  /* struct layer_set: "all", "none", or numbers and ranges joined by + (0-1+8) */
};

struct knob {
    const char *name;
    enum knob_type type;
    size_t offset;       /* into the method's struct of knobs */
    double lo, hi;       /* KNOB_INT, KNOB_FLOAT */
    const char *value;   /* default as text; NULL (KNOB_TEXT): none */
    const char *choices; /* KNOB_CHOICE: "a|b|c" */
    const char *unit;    /* "tokens", "" */
    const char *help;    /* one line */
};

struct layer_set {
    uint64_t bits[LIMIT_LAYERS / 64];
};
static inline bool layer_set_has(const struct layer_set *s, int32_t layer)
{
    return s->bits[layer / 64] >> (layer % 64) & 1;
}

/* Of n entries so many: a budget in entries, at most n; a share of them rounded up, at least 1. */
int32_t budget_of(double budget, int32_t n);

/* ---- the method ----------------------------------------------------------------------------------------------- */

/* Where methods live: what they may know before there is an engine. */
struct method_site {
    const struct hasten_model *model;
    const struct model_desc *desc;
    const struct hasten_engine_settings *settings; /* settled: no zeros left */
    const struct kernels *kernels;
};

/* Traits. */
#define METHOD_SEQUENCE_SCOPE 1u /* can be chosen for one sequence; otherwise for the engine as a whole */
#define METHOD_CHANGES_KV 2u     /* keys and values of later positions differ from the plain engine's */
#define METHOD_PER_PASS 4u       /* decides for a pass, not for each committed token: not with speculation */
#define METHOD_NO_FORK 8u        /* lifecycle it cannot follow: refused together with what needs it */
#define METHOD_NO_TRUNCATE 16u
#define METHOD_NO_SAVE 32u
#define METHOD_FOR_TESTS 64u /* oracle, adversary: not to be used for work */
#define METHOD_BRANCHES 128u /* forks a sequence for a moment: needs room for one more than are in use */

/* Needs, which the set checks against the model. */
#define METHOD_NEEDS_DECODER 1u /* logits and a cache: no encoders, no scripted models */
#define METHOD_NEEDS_GLOBAL 2u  /* a layer that sees the whole sequence */

struct method_conflict {
    enum method_stage stage;
    const char *name; /* NULL: any of the stage */
    const char *why;  /* "both choose what a query reads" */
    const char *role; /* NULL, or only those of the stage with this role */
};

struct attend_ops;
struct cache_ops;
struct depth_ops;
struct weights_ops;

struct method {
    const char *name;  /* "quest" */
    const char *title; /* one line: what it does */
    const char *paper; /* authors, title, where: or who began it */
    enum method_stage stage;
    enum method_guarantee guarantee;
    const char *exact_to; /* exact with respect to what; approximate: what it departs from, and how */
    const char *role;     /* at most one method of a role within a stage; NULL: any number */
    const struct knob *knobs;
    int32_t n_knobs;
    size_t knobs_bytes;
    const char
        *exercise; /* knobs at which it is at work within a few hundred tokens, for the contract tests */
    const char
        *neutral; /* knobs at which the bits are the plain engine's ("budget=all"); NULL: there are none */
    const char *
        tries; /* knobs that `hasten tune` tries, each ended by \0 ("budget=256\0budget=0.25\0"); "": it is left
                  out, as alone it changes no speed; NULL: its defaults */
    uint32_t traits, needs;
    const struct method_conflict *conflicts;
    int32_t n_conflicts;
    const char *text; /* paragraphs for the page: how it works here, traps, what it costs */

    /* Each may be NULL. check: can this model, with these settings and knobs? HASTEN_ERR_USAGE with the reason.
     * model_bytes: what attach will allocate, for the plan; attach makes *state once, from knobs that live as long as
     * the engine; without attach the state is the struct of knobs. */
    hasten_status (*check)(const struct method_site *, const void *knobs, struct hasten_error *err);
    uint64_t (*model_bytes)(const struct method_site *, const void *knobs);
    hasten_status (*attach)(const struct method_site *, const void *knobs, void **state,
                            struct hasten_error *err);
    void (*detach)(void *state);
    /* The flat state of a sequence. truncate: the inverse of having appended positions >= n_keep; NULL where the state
     * does not depend on more than what append-like calls rewrite anyway. */
    size_t (*seq_bytes)(const struct method_site *, const void *knobs);
    /* Sequences that it keeps beside those that the engine is opened for (n_seq_max): they are planned too. NULL: none.
     * site->settings are not settled yet. */
    int32_t (*sequences)(const struct method_site *, const void *knobs);
    void (*seq_truncate)(const void *state, void *seq, int32_t n_keep);

    /* The stage's table; exactly the one of `stage`. */
    const struct attend_ops *attend;
    const struct cache_ops *cache;
    const struct depth_ops *depth;
    const struct weights_ops *weights;
    const void
        *hosted; /* of a stage that the engine does not drive: struct draft_ops, stop_ops, store_ops, ... */
};

/* All methods, by stage, then in the order of methods.def. */
const struct method *const *methods_all(int32_t *n);
/* One by name; NULL after setting err: unknown, with the nearest name. */
const struct method *method_find(enum method_stage stage, const char *name, struct hasten_error *err);

/* ---- a chosen method ------------------------------------------------------------------------------------------ */

/* A method with its knobs. */
struct method_use {
    const struct method *m;
    void *knobs;   /* [m->knobs_bytes], owned */
    char *texts;   /* what KNOB_TEXT point into, owned */
    void *state;   /* attach's, or knobs */
    bool attached; /* detach is due */
    size_t seq_at; /* where its part of a sequence's state begins */
};

/* "name", "name:key=value,key=value". HASTEN_ERR_USAGE in one sentence: an unknown method or knob with the nearest
 * name, a value out of range. */
hasten_status method_parse(enum method_stage stage, const char *spec, struct method_use *out,
                           struct hasten_error *err);
/* The same for a method that is at hand. values: "key=value,...", or "". */
hasten_status method_parse_knobs(const struct method *m, const char *values, struct method_use *out,
                                 struct hasten_error *err);
void method_use_close(struct method_use *u);
/* "quest:budget=0.125,page=16": all knobs, as parsed. */
hasten_status method_describe(const struct method_use *u, struct buf *out);

/* Can a and b be used together? NULL, or why not (without names). */
const char *method_clash(const struct method *a, const struct method *b);

#endif
