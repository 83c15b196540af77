/* How many of the proposed tokens go into a step: as many as promise the most tokens a millisecond, by what steps of so
 * many rows have cost and what became of proposals. It decides about speed alone; no text depends on it. */
#ifndef HASTEN_RUN_CONTROL_H
#define HASTEN_RUN_CONTROL_H
#include "engine/draft.h"
#include "run/cost.h"

#define CONTROL_CLASSES 8 /* of the drafter's confidence in its first token */
#define CONTROL_PLACES 9  /* of a token in its proposal: the first eight, and all behind them */

/* Counts of the last hundred or so, newer ones weigh more. Zero-initialise. */
struct draft_control {
    double ms[DRAFT_MAX + 2]; /* [rows]: cost of a step; 0: not seen */
    double stood[CONTROL_CLASSES][CONTROL_PLACES], checked[CONTROL_CLASSES][CONTROL_PLACES];
    int32_t paused[CONTROL_CLASSES]; /* proposals not followed since the last one that was */
    int32_t since_plain;             /* steps with proposals since the last one without */
    double credit; /* ms that proposals may lose: what they saved so far, and a little of every step */
};

/* A step that others are in too: then as many as promise the most tokens a millisecond of all together. */
struct draft_company {
    const struct step_cost *cost;
    double rows;   /* of the step without what is proposed here, those due here among them */
    double tokens; /* that it brings the others */
};
/* Of n proposed tokens so many; *tokens: what the step then brings here, on average. with: NULL, or the company. */
int32_t control_choose(struct draft_control *c, const struct draft_company *with, int32_t n, float conf,
                       double *tokens);
/* A step of n_due due and n_drafts proposed tokens took ms (0: together with others' rows); the first n_checked were
 * looked at, n_stood stood. */
void control_note(struct draft_control *c, int32_t n_due, int32_t n_drafts, float conf, int32_t n_checked,
                  int32_t n_stood, double ms);

#endif
