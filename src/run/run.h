/* The loop of an answer: what turns a prompt in a sequence into a text. A run is a state machine over one sequence, so
 * that a scheduler can put the items of many into one step; run_answer drives a single one. The engine computes, the
 * sampler chooses, the detokeniser decides what may be shown; drafters propose (stage draft), and methods of the stage
 * stop say when it is enough. Nothing here prints.
 *
 * With a drafter a step holds the tokens that are due and those proposed after them. Rows are sampled in order, each on
 * the path that the rows before it made, while the choice is the proposed token (draft.h): so the sampler is asked
 * exactly what it is asked without a drafter, nothing of it ever has to be taken back, and the text is the same to the
 * bit, at any temperature. Rows behind the first difference are cut off. */
#ifndef HASTEN_RUN_RUN_H
#define HASTEN_RUN_RUN_H
#include "base/mem.h"
#include "engine/draft.h"
#include "hasten/hasten.h"
#include "sample/grammar.h"
#include "sample/sampler.h"
#include "text/vocab.h"

/* The law of an answer. The one who makes it owns what it points to; read only while a run lives, but for the scratch
 * and the memory, which belong to one run at a time. */
struct sampling {
    struct sampler *sampler;
    struct sampler_memory *memory; /* of the sequence; NULL without mirostat */
    struct sampler_settings settings;
    struct logit_bias *bias;
    uint8_t *breakers; /* [n_vocab], NULL without DRY */
    struct gguf_str *stops;
    int n_stops;
    int32_t n_predict; /* -1: no bound */
    bool logprobs;
    struct grammar *grammar; /* NULL: anything may be said */
    struct token_trie *trie; /* these two: NULL without a grammar */
    struct grammar_masks *masks;
    bool full_head; /* with a grammar: logits of all tokens are computed, whatever it forbids */
    bool scan;      /* with a grammar: masks by GRAMMAR_SCAN */
};

enum finish {
    FINISH_STOP, /* the model ended its turn, a stop string came, or a method of the stage stop ended it */
    FINISH_LENGTH,
    FINISH_INTERRUPTED,
    FINISH_GRAMMAR /* the text is not complete, and the grammar allows no token of the vocabulary */
};

struct answer { /* zero-initialise */
    struct buf text;
    struct tokens ids; /* generated; the token that ended the turn is not among them */
    enum finish finish;
    bool by_stop_string;
    int32_t prompt_n, cached_n, predicted_n; /* predicted_n counts the ending token too */
    int32_t dropped_n;                       /* of the prompt, by a method of the stage context: not read */
    double prompt_ms, predicted_ms;
    int32_t passes;                /* steps behind the prompt's */
    int32_t drafted_n, accepted_n; /* tokens that steps checked; of them those that stood */
    int32_t injected_n;            /* of ids: not the model's choice but a stop method's; with logprob NaN */
    struct token_logprob *chosen, *top; /* with logprobs: [ids.n], [ids.n × n_logprobs] */
    int64_t cap_logprobs;
};
void answer_free(struct answer *a);

typedef int (*answer_fn)(void *ctx, const char *bytes, size_t len); /* non-zero: the reader is gone */

/* What is asked of a sequence. Borrowed until the run is closed. */
struct run_task {
    struct hasten_engine *engine;
    struct hasten_seq *seq; /* keeps its longest common prefix with ids */
    const struct vocab *vocab;
    const struct sampling *law;
    const int32_t
        *ids; /* [n] the whole prompt, before the stage context; without what the stage modality gives */
    int64_t n;
    int32_t n_announced;        /* what methods are told the prompt's length is (hasten_seq_announce); 0: n */
    struct speculation *drafts; /* NULL: one for this answer alone */
    answer_fn show;             /* NULL, or gets the text as it comes */
    void *show_ctx;
    const volatile int *cancel; /* NULL, or what ends it; for what a method computes between steps */
};

struct run;
/* Whether run_open would take it, but for memory; t->seq is not looked at. */
hasten_status run_check(const struct run_task *t, struct hasten_error *err);
/* HASTEN_ERR_USAGE: a prompt without tokens, a grammar beside a method that puts tokens in; HASTEN_ERR_FULL: one longer than the context. out: the answer, filled as it
 * comes; it is the caller's also after a failure. */
hasten_status run_open(const struct run_task *t, struct answer *out, struct run **run,
                       struct hasten_error *err);
/* The item it wants in the next step, of at most max_rows rows (at least 1); false: it is finished. The tokens are the
 * run's. It may be asked again, or the item left out of the step; and between steps the sequence may be cut back: what
 * it lacks of the path is due again. */
bool run_next(struct run *r, int32_t max_rows, struct hasten_item *item);
/* Says who shares the steps from the next run_next on, so that what is proposed pays for all (run/control.h). NULL: it is
 * alone. Returns the tokens that the last item may be expected to bring. */
struct draft_company;
double run_company(struct run *r, const struct draft_company *with);
/* The same item without what was proposed; false: nothing was. */
bool run_drop_drafts(struct run *r, struct hasten_item *item);
/* The logits of the item's rows, in order, from the step's sink. False: it wants no more of this step's. */
bool run_take(struct run *r, const float *row);
/* The sink of a step of this one item: run_take for each row. ctx: the run. */
int run_take_rows(void *ctx, const float *logits, const struct hasten_logits_row *rows, int32_t n_rows,
                  int32_t n_vocab);
/* Behind the step, with what it returned (err: its sentence). HASTEN_ERR_CANCELLED ends the answer as interrupted; what
 * else is returned ends the run with an error. */
hasten_status run_after(struct run *r, hasten_status st, struct hasten_error *err);
/* Ends it where it stands, as interrupted. */
hasten_status run_interrupt(struct run *r, struct hasten_error *err);
/* Prompt tokens done, of how many that were not held: for who shows progress. False behind the prompt. */
bool run_reading(const struct run *r, uint64_t *done, uint64_t *total);
bool run_done(const struct run *r); /* run_next has nothing more */
/* Prompt and answer so far: how many tokens; *ids: the run's. */
int64_t run_path(const struct run *r, const int32_t **ids);
void run_close(struct run *r); /* NULL is fine */

/* The whole of it for one sequence. progress: NULL, or called between steps of the prompt, and once with done == total. */
typedef void (*run_progress_fn)(void *ctx, uint64_t done, uint64_t total);
hasten_status run_answer(const struct run_task *t, run_progress_fn progress, void *progress_ctx,
                         struct answer *out, struct hasten_error *err);

/* ---- speculation (speculate.c) -------------------------------------------------------------------------------- */

/* What the drafter of a sequence knows beside its flat state, and what was measured: lives as long as the sequence. */
struct speculation;
hasten_status speculation_open(struct hasten_engine *e, struct speculation **out, struct hasten_error *err);
/* For a fork of the sequence with the first n tokens. */
hasten_status speculation_fork(const struct speculation *s, int64_t n, struct speculation **out,
                               struct hasten_error *err);
void speculation_close(struct speculation *s); /* NULL is fine */

#endif
