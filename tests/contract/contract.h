/* What the files of the contract tests share (contract.c says what they hold). */
#ifndef TESTS_CONTRACT_CONTRACT_H
#define TESTS_CONTRACT_CONTRACT_H
#include "base/mem.h"
#include "engine/engine.h"
#include "engine/method.h"
#include "harness.h"

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__) /* up to 30 times slower */
#define N_TOKENS 130
#define N_PROMPT 90
#define FAULTS_APART 97
#else
#define N_TOKENS 300
#define N_PROMPT 200
#define FAULTS_APART 9
#endif

struct contract {
    const struct hasten_model *model;
    const char *path; /* of the model */
    int32_t tokens[N_TOKENS];
    float *plain; /* logits without methods */
    int every;    /* of the places where faults may come, every so many are tried */
    int n_checks, n_failed, n_expected;
    const char *expected; /* what a wrong method is to be caught by */
};

void check(struct contract *c, bool good, const char *name, const char *what, const char *more);

/* faults.c */
void faults(struct contract *c, const struct method *m, const struct hasten_method_use *use);
/* hosted.c: of one method; of a pair of which at least one is hosted. */
void hosted(struct contract *c, const struct method *m);
void hosted_pair(struct contract *c, const char *name, const struct hasten_method_use use[2]);

#endif
