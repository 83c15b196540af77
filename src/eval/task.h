/* Tasks with generation: items that are asked of a model, and scorers of its answers. One small file per task or
 * family of tasks (task_*.c), in the list of tasks.c; items are made one by one, so that a task of any length and
 * number takes the memory of what is being answered.
 *
 * An item is a pure function of (task, settings, index): the same seed gives the same item whatever the limit, and a
 * run that continues another makes the same ones. Prompts and scorers are worded by us; papers and sizes are named in
 * the files. A task prints nothing, runs nothing (code goes through settings.run) and knows no engine. */
#ifndef HASTEN_EVAL_TASK_H
#define HASTEN_EVAL_TASK_H
#include "base/json.h"
#include "base/mem.h"
#include <stdbool.h>
#include <stdint.h>

#define EVAL_MAX_TURNS 32

struct eval_item {   /* zero-initialise; eval_item_clear */
    struct buf id;   /* unique in the task: "7", "HumanEval/2", "4096/50/3" */
    int32_t n_turns; /* user messages, answered one after another in one conversation */
    struct buf turns
        [EVAL_MAX_TURNS]; /* with settings.raw: text to be continued, turns > 0 behind the answer before */
    size_t context;       /* bytes of turns[0] before its question; 0: they are not apart */
    int32_t max_new[EVAL_MAX_TURNS]; /* tokens of an answer at most */
    const char *const *stops;        /* [n_stops] static: an answer ends before one of these */
    int32_t n_stops;
    json_t *want; /* what the scorer looks for, as it stands in logs */
};
void eval_item_clear(struct eval_item *item);

struct eval_score {
    double score;   /* 0 to 1 */
    char note[160]; /* why, where that is worth a word; "" */
};

/* Runs a program in a sandbox: *passed when it came to its end by itself; note: how it ended else. */
typedef hasten_status (*eval_run_fn)(void *ctx, const char *program, size_t len, bool *passed, char note[160],
                                     struct hasten_error *err);

struct eval_task_settings {
    const char *data; /* a file, or NULL: what the tree has */
    int32_t length;   /* tokens of prompt and answers together, for tasks that make their text */
    int32_t n_items;  /* of such tasks, for each length */
    uint64_t seed;
    bool raw; /* no chat template */
    /* Tokens that an item takes with all its answers, as the model's template writes it; -1 and err on failure. */
    int64_t (*count)(void *ctx, const struct eval_item *item, struct hasten_error *err);
    void *count_ctx;
    eval_run_fn run; /* NULL: tasks that need it are refused */
    void *run_ctx;
};

struct eval_task {
    const char *name;
    const char *title;
    const char *data_prefix; /* of file names in a folder of data; NULL: the task makes its text */
    bool runs_code;
    bool whole; /* every score is 0 or 1 */
    /* Opens with copied settings; *n_items: how many there are. */
    hasten_status (*open)(const struct eval_task *task, const struct eval_task_settings *s, void **state,
                          int32_t *n_items, struct hasten_error *err);
    hasten_status (*item)(void *state, int32_t index, struct eval_item *out, struct hasten_error *err);
    /* answers[item->n_turns] */
    hasten_status (*score)(void *state, const struct eval_item *item, const struct buf *answers,
                           struct eval_score *out, struct hasten_error *err);
    void (*close)(void *state);
    const void *variant; /* of a family of tasks in one file */
};

/* The list; NULL after the last. A name may be a family's ("ruler"), see eval_task_in. */
const struct eval_task *eval_task_at(int i);
/* Whether name means this task: its own, or that of its family. */
bool eval_task_in(const struct eval_task *task, const char *name);

extern const struct eval_task eval_gsm8k, eval_humaneval, eval_needle, eval_recall, eval_ruler_niah[8],
    eval_ruler_vt, eval_ruler_cwe, eval_ruler_fwe, eval_ruler_qa[2];

/* ---- what task files share (task.c) ---------------------------------------------------------------------- */

/* Noise of one item: a function of seed, the task's name and the index. */
struct eval_rng {
    uint32_t key[2], counter[4], word[4];
    int left;
};
void eval_rng_start(struct eval_rng *r, uint64_t seed, const char *task, int32_t index);
int32_t eval_pick(struct eval_rng *r, int32_t n);                /* 0 .. n - 1 */
void eval_shuffle(struct eval_rng *r, int32_t *list, int32_t n); /* in place */
/* n different numbers below `of`, in random order; n <= of <= 4096. */
void eval_choose(struct eval_rng *r, int32_t of, int32_t n, int32_t *out);

hasten_status eval_no_memory(struct hasten_error *err);
/* Puts a string into item->want. */
hasten_status eval_want(struct eval_item *item, const char *text, struct hasten_error *err);
/* The share of item->want[from, to) that stands in the answer, in any case of letters; to < 0: all. */
double eval_share_found(const struct eval_item *item, int32_t from, int32_t to, const char *answer);
bool eval_contains(const char *text, const char *part);
/* A scorer for one-turn items: the share of what is wanted that the answer holds. */
hasten_status eval_score_share(void *state, const struct eval_item *item, const struct buf *answers,
                               struct eval_score *out, struct hasten_error *err);

extern const char *const eval_stop_line[1]; /* "\n": raw answers of one line */

/* Lines of a JSONL file, parsed. Zero-initialise. */
struct eval_lines {
    json_t **v;
    int32_t n, cap;
};
hasten_status eval_lines_read(const char *path, struct eval_lines *out, struct hasten_error *err);
void eval_lines_free(struct eval_lines *l);
/* The string in a field; NULL and an error that names file, line and field. */
const char *eval_line_string(const struct eval_lines *l, int32_t i, const char *field, const char *path,
                             struct hasten_error *err);

#endif
