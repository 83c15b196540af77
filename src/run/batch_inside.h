/* What the files of a batch share (batch.h): batch.c the life of jobs and the turn, batch_queue.c who comes next,
 * batch_plan.c whose rows go into a step, batch_pages.c the pages they need. */
#ifndef HASTEN_RUN_BATCH_INSIDE_H
#define HASTEN_RUN_BATCH_INSIDE_H
#include "engine/engine.h"
#include "engine/schedule.h"
#include "run/batch.h"
#include "run/control.h"

struct job {
    struct batch_job ask;
    struct batch_times times;
    uint64_t id;
    double place;   /* among the waiting of its owner (schedule.h) */
    uint64_t order; /* of admission */
    int32_t owner;  /* index */
    bool cancelled; /* from within a callback: it ends in the next turn */
    bool held_back; /* in this turn it is not to be admitted */
    /* running */
    struct run *run;
    struct hasten_seq *seq;
    bool own_seq;    /* not the caller's */
    bool reading;    /* its prompt */
    bool paused;     /* waits for pages */
    int32_t reached; /* the most positions that were computed */
    /* of the step in progress */
    bool planned;
    struct hasten_item item;
    struct {
        int32_t predicted, drafted, accepted;
    } counted; /* of its answer, in the figures */
};

struct owner {
    uint64_t id;
    double served; /* tokens computed, and what it was credited for having been away */
    int32_t n_jobs;
};

struct batch {
    struct hasten_engine *engine;
    struct batch_settings settings;
    struct store *store;
    const struct schedule_ops *order;
    const void *order_state;
    hasten_logits_fn deal; /* of a step, with of_item; another one in tests */
    struct job **run;      /* [n_run of n_slots] in rank order */
    int32_t n_run;
    struct job **wait; /* [n_wait of cap_wait] as they came */
    int32_t n_wait, cap_wait;
    struct owner *owners; /* [n_owners of cap_owners] */
    int32_t n_owners, cap_owners;
    struct step_cost cost;
    struct draft_company company; /* of the step that is planned */
    struct hasten_item *items;    /* [n_slots] */
    struct job **of_item;         /* [n_slots] */
    struct job **reading;         /* [n_slots] scratch: prompts in the order in which they get rows */
    int32_t n_items, n_rows;
    double answer_mean; /* tokens of an answer */
    double expected;    /* of what an answer has left, so much is reckoned with; less in tests */
    uint64_t last_id, last_order;
    int64_t reserved; /* pages left free for branches */
    bool shares;      /* sequences may be forked and cut */
    bool keeps;       /* what they hold are the tokens of prompts: neither shortened nor behind other input */
    bool busy;        /* within a turn or a cancel: what callbacks ask for is done later */
    bool closing;
    struct batch_figures figures;
};

/* batch.c: ends a job; err: its sentence, or NULL. It is gone from its list. */
void job_end(struct batch *b, struct job *j, hasten_status st, const struct hasten_error *err);

/* batch_queue.c */
/* The owner's index; its count of jobs grows. Negative: no memory. */
int32_t owner_join(struct batch *b, uint64_t id);
void owner_leave(struct batch *b, int32_t owner);
void owner_charge(struct batch *b, int32_t owner, double tokens);
/* Who comes first of two that wait, or of two whose prompts are read. */
bool job_before(const struct batch *b, const struct job *x, const struct job *y);
/* Starts waiting jobs while there is room for them. */
void queue_admit(struct batch *b);

/* batch_pages.c */
/* Blocks of n positions. */
int64_t pages_blocks(const struct batch *b, int64_t n);
/* Could a job fit beside those that run, by what is to be expected of all, if nothing else were kept? Its first
 * `shared` positions are one of theirs. */
bool pages_may_fit(const struct batch *b, const struct job *j, int32_t shared);
/* Makes room for it, with the sequence that it has. */
bool pages_admit(struct batch *b, const struct job *j);
/* Goes on with paused jobs whose pages are there again. */
void pages_resume(struct batch *b);
/* Sees to it that the planned jobs have pages, in rank order; takes some out of the plan. A job that can never have them
 * ends. */
void pages_secure(struct batch *b);

/* batch_plan.c: which jobs are in the next step with how many rows; b->items and b->of_item. */
void plan_step(struct batch *b);

#endif
