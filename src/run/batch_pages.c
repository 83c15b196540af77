/* KV pages of a batch (batch_inside.h): whether one more job fits, whose pages are taken when there are none, who goes
 * on when there are again.
 *
 * Rank decides: an earlier job of the same or a higher priority takes from those behind it, from the last one's end,
 * page by page. What was taken is computed again later, so as little as possible is taken; and the first in rank is
 * never taken from, so it comes to its end, and then the next is the first. */
#include "run/batch_inside.h"

int64_t pages_blocks(const struct batch *b, int64_t n)
{
    return (n + KV_PAGE - 1) / KV_PAGE * b->engine->kv.n_lanes;
}

static bool have_room(struct batch *b, int64_t blocks)
{
    return blocks <= b->engine->kv.n_free || store_make_room(b->store, blocks);
}

/* ---- what is to be expected ----------------------------------------------------------------------------------- */

/* Positions of a job when most of what its answer still has before it has come. */
static int64_t expected(const struct batch *b, const struct job *j)
{
    const int32_t bound = j->ask.task.law->n_predict, n_ctx = b->engine->settings.n_ctx;
    const int64_t n_answer = j->run ? j->ask.answer->ids.n : 0;
    double left = b->answer_mean - (double)n_answer;
    left = left > KV_PAGE ? left : KV_PAGE; /* of one that is longer than most nothing is known */
    if (bound >= 0 && left > (double)(bound - n_answer))
        left = (double)(bound - n_answer);
    const int64_t n = j->ask.task.n + n_answer + (int64_t)(b->expected * left);
    return n < n_ctx ? n : n_ctx;
}

/* What job j needs, and those that run beside it will need, in blocks: all, and beside what is held now. */
static int64_t need_of_all(const struct batch *b, const struct job *j, int32_t shared, int64_t *more)
{
    int64_t need = pages_blocks(b, expected(b, j)) - shared / KV_PAGE * b->engine->kv.n_lanes;
    *more = need;
    for (int32_t i = 0; i < b->n_run; i++) {
        const int64_t held = kv_blocks(&b->engine->kv, &b->run[i]->seq->kv);
        const int64_t want = pages_blocks(b, expected(b, b->run[i]));
        need += want > held ? want : held;
        *more += want > held ? want - held : 0;
    }
    return need;
}

bool pages_may_fit(const struct batch *b, const struct job *j, int32_t shared)
{
    int64_t more;
    return need_of_all(b, j, shared, &more) <= b->engine->kv.n_blocks - b->reserved;
}

bool pages_admit(struct batch *b, const struct job *j)
{
    int64_t more;
    need_of_all(b, j, hasten_seq_length(j->seq), &more);
    return have_room(b, more + b->reserved);
}

/* ---- taking and giving ---------------------------------------------------------------------------------------- */

/* A page from the end of the last in rank behind number `above` that has one; false: none has. */
static bool take_from_behind(struct batch *b, int32_t above)
{
    for (int32_t i = b->n_run - 1; i > above; i--) {
        struct job *j = b->run[i];
        const int32_t n = hasten_seq_length(j->seq);
        if (n == 0)
            continue;
        if (hasten_seq_truncate(j->seq, b->shares ? (n - 1) / KV_PAGE * KV_PAGE : 0, NULL))
            continue;
        b->figures.preemptions += !j->paused;
        j->times.preempted += !j->paused;
        j->paused = true;
        j->planned = false;
        return true;
    }
    return false;
}

void pages_resume(struct batch *b)
{
    int64_t room = b->reserved; /* and a page for each that runs */
    for (int32_t i = 0; i < b->n_run; i++)
        room += b->run[i]->paused ? 0 : b->engine->kv.n_lanes;
    for (int32_t i = 0; i < b->n_run; i++) {
        struct job *j = b->run[i];
        const int32_t *path;
        if (!j->paused)
            continue;
        const int64_t n = run_path(j->run, &path), held = kv_blocks(&b->engine->kv, &j->seq->kv),
                      want = pages_blocks(b, n + 1) - held;
        if (i > 0 && !have_room(b, room + (want > 0 ? want : 0)))
            return;
        j->paused = false;
        room += (want > 0 ? want : 0) + b->engine->kv.n_lanes;
    }
}

/* Pages for the item of number i, beside `taken` that are promised; false: they cannot be had now. */
static bool secure(struct batch *b, int32_t i, int64_t *taken)
{
    struct job *j = b->run[i];
    for (;;) {
        const int64_t need = step_need(b->engine, &j->item), all = need + *taken + b->reserved;
        if (all <= b->engine->kv.n_free) {
            *taken += need;
            return true;
        }
        if (run_drop_drafts(j->run, &j->item) || store_make_room(b->store, all) ||
            step_need(b->engine, &j->item) < need)
            continue; /* what the store gave up was shared, perhaps, and need not be copied now */
        if (take_from_behind(b, i))
            continue;
        if (j->item.n > 1 && run_next(j->run, j->item.n / 2, &j->item))
            continue; /* a smaller chunk */
        if (i > 0 || need + *taken > b->engine->kv.n_free)
            return false;
        *taken += need; /* the first may have what is reserved */
        return true;
    }
}

void pages_secure(struct batch *b)
{
    int64_t taken = 0;
    for (int32_t i = 0; i < b->n_run;) {
        struct job *j = b->run[i];
        if (!j->planned || secure(b, i, &taken)) {
            i++;
        } else if (i > 0) {
            j->planned = false;
            b->figures.preemptions += !j->paused;
            j->times.preempted += !j->paused;
            j->paused = true;
            i++;
        } else {
            struct hasten_error err;
            error_set(&err, HASTEN_ERR_FULL,
                      "answering: the pool of %lld KV pages holds %d positions of the sequence and no more "
                      "(expected a larger kv_positions)",
                      (long long)b->engine->kv.n_blocks, (int)hasten_seq_length(j->seq));
            job_end(b, j, HASTEN_ERR_FULL, &err);
        }
    }
}
