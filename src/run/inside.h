/* What the files of a run share (run.h). */
#ifndef HASTEN_RUN_INSIDE_H
#define HASTEN_RUN_INSIDE_H
#include "engine/engine.h"
#include "engine/stop.h"
#include "run/control.h"
#include "run/run.h"
#include "text/detok.h"

/* The drafter of an engine and its acceptor, as one sequence sees them. */
struct speculation {
    struct hasten_engine *engine;
    const struct method_use *drafter, *acceptor; /* NULL: there is none */
    void *opened;                                /* of the drafter */
    struct tokens seen;                          /* the path that `opened` knows of */
    struct draft_control control;
    float conf[DRAFT_MAX];
};

struct run {
    struct run_task task;
    struct answer *out;
    struct speculation *drafts, *own_drafts;
    struct detok *detok;
    struct grammar_state *grammar; /* NULL: none */
    uint64_t *mask;                /* its own, as steps that it shares read it; NULL without a grammar */
    bool soft_item;                /* the item in progress is of soft input */
    int32_t n_ctx;
    int32_t *path; /* [n_ctx + 1 + DRAFT_MAX] prompt and answer; behind them what is proposed */
    int64_t n_path, n_prompt;
    const float *soft; /* [n_soft × d_model] what stands before the prompt's tokens (engine/modality.h) */
    int32_t n_soft;
    struct tokens read; /* what a method of the stage context left of the prompt: task.ids then */
    bool masked;        /* the item in progress names the tokens of mask, n_masked of them */
    int32_t n_masked;
    uint64_t t0, step_t0; /* clock, ns: of the phase, of the step */
    bool reading, done;   /* the prompt is not through; nothing is left to do */
    /* of the answer's text */
    size_t shown;
    size_t
        *ends; /* [n_ctx + 1] length of the text behind each token of the answer; NULL: nothing is cut back */
    int32_t reach;
    /* of the step in progress */
    int32_t base, n_due, n_drafts;       /* rows: the sequence's before it, due, proposed */
    int32_t n_taken, n_stood;            /* rows sampled; drafts that stood */
    bool sampling;                       /* its last due row is the path's */
    bool crowded;                        /* the pool had no pages for drafts */
    const struct draft_company *company; /* NULL: nobody shares it */
    double expected;                     /* tokens that it may bring */
    bool watched;                        /* a stop method wants to decide on `chosen` */
    struct token_logprob chosen, top[64];
    hasten_status status; /* of what the sink did */
    struct hasten_error err;
};

/* Where a grammar names control tokens, these are part of the answer's text. */
static inline bool run_shows_tokens(const struct sampling *law)
{
    return law->grammar && grammar_names_tokens(law->grammar);
}

/* speculate.c. propose: fills path behind n_path, at most `most` tokens; how many. */
int32_t speculation_propose(struct run *r, int32_t most, hasten_status *st, struct hasten_error *err);
bool speculation_accepts(const struct speculation *s, int32_t own, int32_t drafted);
void speculation_outcome(struct run *r, double ms);

/* stopping.c: the methods of the stage stop, all of the engine's. */
int32_t stopping_reach(const struct hasten_engine *e);
void stopping_begin(struct run *r);
bool stopping_watch(const struct run *r, int32_t id);
/* The verdict on r->chosen. */
hasten_status stopping_decide(struct run *r, struct hasten_error *err);

/* choose.c: r->chosen from a row (or the end, where the grammar allows nothing); then what needs no row. */
hasten_status choose_token(struct run *r, const float *row, struct hasten_error *err);
hasten_status choose_forced(struct run *r, struct hasten_error *err);
/* The mask of the token that the next step chooses, where it is known and the row is for nothing else; or NULL. */
const uint64_t *choose_mask(struct run *r);

/* commit.c: taking tokens. The first: the one chosen, with all that may end the answer; sets r->done. */
hasten_status commit_chosen(struct run *r, struct hasten_error *err);
hasten_status commit_injected(struct run *r, const int32_t *ids, int32_t n, struct hasten_error *err);
/* Cuts path, answer and sequence back to the first n_keep tokens of the path, all of the answer's. */
hasten_status commit_cut(struct run *r, int64_t n_keep, struct hasten_error *err);
/* The end: what was held back is given out. */
hasten_status commit_finish(struct run *r, enum finish how, struct hasten_error *err);

#endif
