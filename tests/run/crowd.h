/* Many jobs on one engine, and what comes of each alone: what the tests of run/batch.h are made of. */
#ifndef TESTS_RUN_CROWD_H
#define TESTS_RUN_CROWD_H
#include "engine/engine.h"
#include "run/batch.h"
#include "run/batch_inside.h"

struct crowd;

struct member {
    struct crowd *crowd;
    struct batch_job job; /* task, answer, done and so on point here */
    struct tokens ids;
    struct sampling law; /* sampler, grammar and mask are the crowd's, the memory its own */
    struct answer answer;
    struct batch_times times;
    uint64_t id;
    int32_t n_ended;      /* calls of done */
    hasten_status status; /* what it said */
    char sentence[1024];
    struct buf shown;
    int32_t fail_show;           /* the call of show, from 1 on, that fails; 0: none */
    int32_t n_shown, n_progress; /* calls */
    void (*on_show)(struct member *), (*on_done)(struct member *); /* NULL, or called then */
    int32_t tag;                                                   /* the test's */
};

struct crowd {
    const struct hasten_model *model;
    struct hasten_engine *engine;
    struct batch *batch;
    struct sampler *sampler;
    struct grammar *grammar; /* digits and commas */
    struct token_trie *trie;
    struct grammar_masks *masks;
    struct hasten_engine *plain; /* where each is alone */
    struct hasten_seq *plain_seq;
    struct sampler *plain_sampler;
};

/* specs as of world_open; settings: NULL, or of an engine whose methods, poison and threads (1 if 0) are set here. */
void crowd_open(struct crowd *c, const struct hasten_model *m, const char *const *specs,
                const struct hasten_engine_settings *settings, const struct batch_settings *batch);
void crowd_close(struct crowd *c);
void crowd_run(struct crowd *c); /* turns until there is nothing to do */

/* A member with this prompt (copied) and a greedy law of n_predict tokens; not submitted. */
void member_open(struct member *m, struct crowd *c, const int32_t *ids, int64_t n, int32_t n_predict);
void member_close(struct member *m);
void member_submit(struct member *m); /* must be taken */
/* One of several laws: greedy, warm, penalties, mirostat, log-probabilities, a grammar, stop strings. */
void member_set_law(struct member *m, int which, uint64_t seed);
#define N_LAWS 7
/* What it is alone, on the plain engine; computed anew each time. */
void member_alone(struct member *m, struct answer *out);
/* Its answer is that of alone; if it was ended early, the beginning of it. Fails otherwise. */
void member_must_equal_alone(struct member *m);
bool member_equals_alone(struct member *m);

/* Pages, sequences: all back (of an engine without a store). */
void crowd_must_be_empty(struct crowd *c);

uint64_t draw(uint64_t *state, uint64_t n); /* 0 .. n - 1 */

#endif
