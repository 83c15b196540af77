/* Whose rows go into a step (batch_inside.h): answers that run, each with a share of the rows for what is proposed after
 * its tokens; then prompts, one after another, and what was cut back of answers. */
#include "run/batch_inside.h"

#define FEW_DUE 32     /* tokens that an answer lacks without counting as one that is read again */
#define CHUNK_LEAST 16 /* rows for prompts beside running answers, however slow steps are */

static int64_t due_of(const struct job *j)
{
    const int32_t *path;
    return run_path(j->run, &path) - hasten_seq_length(j->seq);
}

static bool answers(const struct batch *b, const struct job *j)
{
    const int64_t due = due_of(j);
    return !j->reading && due <= FEW_DUE && due <= b->engine->settings.n_batch;
}

/* Sorted into b->reading: first what was an answer already, in rank order; then prompts. */
static int32_t sort_reading(struct batch *b)
{
    int32_t n = 0;
    for (int32_t i = 0; i < b->n_run; i++) {
        struct job *j = b->run[i];
        if (j->paused || answers(b, j))
            continue;
        int32_t at = n++;
        for (; at > 0; at--) {
            const struct job *before = b->reading[at - 1];
            if (before->reading == j->reading ? !j->reading || job_before(b, before, j) : !before->reading)
                break;
            b->reading[at] = b->reading[at - 1];
        }
        b->reading[at] = j;
    }
    return n;
}

static int32_t row_budget(const struct batch *b, int64_t due, int32_t n_answers)
{
    const int32_t n_batch = b->engine->settings.n_batch;
    if (n_answers == 0 || !(b->settings.itl_target > 0))
        return n_batch;
    const int64_t within = cost_rows_within(&b->cost, n_batch, b->settings.itl_target),
                  least = due + CHUNK_LEAST, rows = within > least ? within : least;
    return rows < n_batch ? (int32_t)rows : n_batch;
}

static bool ask(struct job *j, int32_t most)
{
    return j->planned = run_next(j->run, most, &j->item);
}

/* prompts: rows that they could use. A row of a prompt is worth a token. */
static int32_t plan_answers(struct batch *b, int32_t left, int64_t due, int32_t n_answers, int64_t prompts)
{
    int64_t spare = left > due ? left - due : 0; /* rows for drafts */
    prompts = prompts < spare ? prompts : spare;
    spare = prompts ? spare / 2 : spare;
    b->company = (struct draft_company){&b->cost, (double)(due + prompts), (double)(n_answers - 1 + prompts)};
    for (int32_t i = 0; i < b->n_run; i++) {
        struct job *j = b->run[i];
        if (j->paused || !answers(b, j))
            continue;
        const int32_t own = (int32_t)due_of(j), share = (int32_t)(spare / n_answers--);
        run_company(j->run, &b->company);
        if (own > left || !ask(j, own + share))
            continue;
        const int32_t drafts = j->item.n - own;
        left -= j->item.n;
        spare -= drafts;
        b->company.rows += drafts;
        b->company.tokens += run_company(j->run, &b->company) - 1;
    }
    return left;
}

void plan_step(struct batch *b)
{
    int64_t due = 0;
    int32_t n_answers = 0;
    for (int32_t i = 0; i < b->n_run; i++) {
        b->run[i]->planned = false;
        if (!b->run[i]->paused && answers(b, b->run[i])) {
            due += due_of(b->run[i]);
            n_answers++;
        }
    }
    const int32_t n_reading = sort_reading(b);
    int64_t prompts = 0;
    for (int32_t i = 0; i < n_reading; i++)
        prompts += due_of(b->reading[i]);
    int32_t left = plan_answers(b, row_budget(b, due, n_answers), due, n_answers, prompts);
    for (int32_t i = 0; i < n_reading && left > 0; i++)
        left -= ask(b->reading[i], left) ? b->reading[i]->item.n : 0;
}
