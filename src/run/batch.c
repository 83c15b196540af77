/* The life of jobs, and the turn (batch.h). */
#include "base/clock.h"
#include "run/batch_inside.h"
#include <string.h>

#define QUEUE_DEFAULT 1024
#define ANSWER_MEAN 128 /* tokens, before any answer has ended */
#define EXPECTED 0.75   /* answers end at different times, but often begin together */
#define BRANCH_PAGES 2  /* of each lane: a copy of the last page, and one more */

/* The logits of a step, each to the job of its item. */
static int deal_rows(void *ctx, const float *logits, const struct hasten_logits_row *rows, int32_t n_rows,
                     int32_t n_vocab)
{
    struct job *const *of_item = ctx;
    for (int32_t i = 0; i < n_rows; i++)
        run_take(of_item[rows[i].item]->run, logits + (int64_t)i * n_vocab);
    return 0;
}

/* ---- opening and closing -------------------------------------------------------------------------------------- */

static hasten_status settle(struct batch *b, const struct batch_settings *s, struct hasten_error *err)
{
    const struct hasten_engine_settings *e = &b->engine->settings;
    const struct method_set *set = &b->engine->methods;
    int32_t most = e->n_seq_max - e->n_kept; /* the others are the store's */
    b->settings = *s;
    b->shares = b->keeps = true;
    for (int32_t i = 0; i < set->n; i++) {
        const struct method *m = set->use[i].m;
        b->shares &= !(m->traits & (METHOD_NO_FORK | METHOD_NO_TRUNCATE));
        if (m->traits & METHOD_BRANCHES && !b->reserved) {
            most--;
            b->reserved = BRANCH_PAGES * (int64_t)b->engine->kv.n_lanes;
        }
        b->keeps &= m->stage != STAGE_CONTEXT && m->stage != STAGE_MODALITY;
        if (m->stage == STAGE_SCHEDULE) {
            b->order = m->hosted;
            b->order_state = set->use[i].state;
        }
    }
    most = most < e->n_batch ? most : e->n_batch;
    if (s->n_slots < 0)
        return error_set(err, HASTEN_ERR_USAGE, "opening a batch: n_slots: found %d (expected 0 or more)",
                         (int)s->n_slots);
    if (s->queue_limit < 0 || s->queue_limit > LIMIT_QUEUE)
        return error_set(err, HASTEN_ERR_USAGE, "opening a batch: queue_limit: found %d (expected 0 to %d)",
                         (int)s->queue_limit, LIMIT_QUEUE);
    if (!(s->itl_target >= 0 && s->itl_target <= 1e9))
        return error_set(err, HASTEN_ERR_USAGE,
                         "opening a batch: itl_target: found %g ms (expected 0 or more)", s->itl_target);
    b->settings.n_slots = s->n_slots == 0 || s->n_slots > most ? most : s->n_slots;
    b->settings.queue_limit = s->queue_limit ? s->queue_limit : QUEUE_DEFAULT;
    b->answer_mean = ANSWER_MEAN;
    b->expected = EXPECTED;
    return HASTEN_OK;
}

hasten_status batch_open(struct hasten_engine *e, const struct batch_settings *s, struct batch **out,
                         struct hasten_error *err)
{
    if (e->model->desc.encoder)
        return error_set(err, HASTEN_ERR_UNSUPPORTED,
                         "opening a batch: an encoder (%s) gives no answers (expected another model)",
                         e->model->desc.arch);
    struct batch *b = mem_calloc(1, sizeof *b);
    if (!b)
        return error_set(err, HASTEN_ERR_MEMORY, "opening a batch: out of memory");
    b->engine = e;
    b->deal = deal_rows;
    hasten_status st = settle(b, s, err);
    const size_t n = (size_t)b->settings.n_slots;
    if (!st) {
        b->run = mem_array(n, sizeof(struct job *));
        b->of_item = mem_array(n, sizeof(struct job *));
        b->reading = mem_array(n, sizeof(struct job *));
        b->items = mem_array(n, sizeof *b->items);
        if (!b->run || !b->of_item || !b->reading || !b->items)
            st = error_set(err, HASTEN_ERR_MEMORY, "opening a batch: out of memory for %zu slots", n);
    }
    if (!st)
        st = store_open(e, &b->store, err);
    if (st)
        batch_close(b);
    else
        *out = b;
    return st;
}

static void end_all(struct batch *b)
{
    struct hasten_error err;
    error_set(&err, HASTEN_ERR_CANCELLED, "answering: cancelled with all others");
    b->busy = b->closing = true;
    while (b->n_run + b->n_wait > 0)
        job_end(b, b->n_run ? b->run[b->n_run - 1] : b->wait[b->n_wait - 1], HASTEN_ERR_CANCELLED, &err);
    b->busy = b->closing = false;
}

void batch_close(struct batch *b)
{
    if (!b)
        return;
    end_all(b);
    store_close(b->store);
    mem_free(b->run);
    mem_free(b->of_item);
    mem_free(b->reading);
    mem_free(b->items);
    mem_free(b->wait);
    mem_free(b->owners);
    mem_free(b);
}

/* ---- jobs ----------------------------------------------------------------------------------------------------- */

static hasten_status check(const struct batch *b, const struct run_task *t, struct hasten_error *err)
{
    const struct kv_pool *kv = &b->engine->kv;
    const hasten_status st = run_check(t, err);
    if (st == HASTEN_ERR_FULL) { /* here this status says that the queue is full */
        if (err)
            err->status = HASTEN_ERR_LIMIT;
        return HASTEN_ERR_LIMIT;
    }
    if (!st && !b->engine->methods.caching.use && b->keeps && pages_blocks(b, t->n) > kv->n_blocks)
        return error_set(
            err, HASTEN_ERR_LIMIT,
            "submitting a job: its %lld tokens need %lld KV pages, the pool has %lld (expected a "
            "shorter prompt, or a larger kv_positions)",
            (long long)t->n, (long long)pages_blocks(b, t->n), (long long)kv->n_blocks);
    return st;
}

static bool grow_queue(struct batch *b)
{
    if (b->n_wait < b->cap_wait)
        return true;
    const int32_t cap = b->cap_wait ? 2 * b->cap_wait : 16;
    struct job **w = mem_realloc(b->wait, (size_t)cap * sizeof(struct job *));
    if (!w)
        return false;
    b->wait = w;
    b->cap_wait = cap;
    return true;
}

static double place_of(const struct batch *b, const struct job *j)
{
    const int32_t bound = j->ask.task.law->n_predict;
    const double n = bound >= 0 && bound < b->answer_mean ? bound : b->answer_mean;
    const struct schedule_job s = {
        .id = j->id, .arrived_ns = j->times.submitted, .n_prompt = j->ask.task.n, .n_answer = (int32_t)n};
    return b->order ? b->order->place(b->order_state, &s) : (double)j->id;
}

hasten_status batch_submit(struct batch *b, const struct batch_job *job, uint64_t *id,
                           struct hasten_error *err)
{
    struct run_task task = job->task;
    task.engine = b->engine;
    const hasten_status st = check(b, &task, err);
    if (st)
        return st;
    if (b->closing)
        return error_set(err, HASTEN_ERR_CANCELLED, "submitting a job: all are being ended");
    if (b->n_wait >= b->settings.queue_limit + b->settings.n_slots - b->n_run) {
        b->figures.refused++;
        return error_set(err, HASTEN_ERR_FULL, "submitting a job: %d wait already (expected fewer)",
                         (int)b->n_wait);
    }
    struct job *j = grow_queue(b) ? mem_calloc(1, sizeof *j) : NULL;
    const int32_t owner = j ? owner_join(b, job->owner) : -1;
    if (owner < 0) {
        mem_free(j);
        return error_set(err, HASTEN_ERR_MEMORY, "submitting a job: out of memory");
    }
    j->ask = *job;
    j->ask.task = task;
    j->owner = owner;
    j->id = ++b->last_id;
    j->times.submitted = clock_now_ns();
    j->place = place_of(b, j);
    b->wait[b->n_wait++] = j;
    b->figures.submitted++;
    if (id)
        *id = j->id;
    return HASTEN_OK;
}

static void remove_from(struct job **list, int32_t *n, const struct job *j)
{
    for (int32_t i = 0; i < *n; i++)
        if (list[i] == j) {
            memmove(list + i, list + i + 1, (size_t)(*n - i - 1) * sizeof *list);
            --*n;
            return;
        }
}

static void count_end(struct batch *b, const struct job *j, hasten_status st)
{
    uint64_t *n = st == HASTEN_OK              ? &b->figures.finished
                  : st == HASTEN_ERR_CANCELLED ? &b->figures.cancelled
                  : st == HASTEN_ERR_TIMEOUT   ? &b->figures.timed_out
                                               : &b->figures.failed;
    ++*n;
    if (st == HASTEN_OK)
        b->answer_mean += 0.1 * ((double)j->ask.answer->ids.n - b->answer_mean);
}

/* The sequence goes to the store, unless what is in it may be wrong. */
static void part(struct batch *b, struct job *j, hasten_status st)
{
    const bool sound =
        st == HASTEN_OK || st == HASTEN_ERR_CANCELLED || st == HASTEN_ERR_TIMEOUT || st == HASTEN_ERR_DISK;
    run_close(j->run);
    if (!j->seq || !j->own_seq)
        return;
    if (sound && b->keeps)
        store_give(b->store, j->ask.scope, j->seq);
    else
        hasten_seq_close(j->seq);
}

void job_end(struct batch *b, struct job *j, hasten_status st, const struct hasten_error *err)
{
    const bool early = st == HASTEN_ERR_CANCELLED || st == HASTEN_ERR_TIMEOUT;
    if (early && j->run && !run_done(j->run))
        run_interrupt(j->run, NULL);
    if (early)
        j->ask.answer->finish = FINISH_INTERRUPTED;
    count_end(b, j, st);
    part(b, j, st);
    remove_from(b->run, &b->n_run, j);
    remove_from(b->wait, &b->n_wait, j);
    owner_leave(b, j->owner);
    j->times.done = clock_now_ns();
    if (j->ask.times)
        *j->ask.times = j->times;
    if (j->ask.done)
        j->ask.done(j->ask.ctx, st, st ? err : NULL);
    mem_free(j);
}

static struct job *find(const struct batch *b, uint64_t id)
{
    for (int32_t i = 0; i < b->n_run; i++)
        if (b->run[i]->id == id)
            return b->run[i];
    for (int32_t i = 0; i < b->n_wait; i++)
        if (b->wait[i]->id == id)
            return b->wait[i];
    return NULL;
}

static void end_cancelled(struct batch *b, struct job *j)
{
    struct hasten_error err;
    error_set(&err, HASTEN_ERR_CANCELLED, "answering: cancelled after %lld tokens",
              (long long)j->ask.answer->ids.n);
    job_end(b, j, HASTEN_ERR_CANCELLED, &err);
}

bool batch_cancel(struct batch *b, uint64_t id)
{
    struct job *j = find(b, id);
    if (!j)
        return false;
    j->cancelled = true;
    if (!b->busy) {
        b->busy = true;
        end_cancelled(b, j);
        b->busy = false;
    }
    return true;
}

/* ---- a turn --------------------------------------------------------------------------------------------------- */

/* Ends j if its time has come; whether it did. */
static bool reap(struct batch *b, struct job *j, uint64_t now)
{
    const volatile int *flag = j->ask.task.cancel;
    if (j->cancelled || (flag && *flag)) {
        end_cancelled(b, j);
        return true;
    }
    if (!j->ask.deadline || now < j->ask.deadline)
        return false;
    struct hasten_error err;
    error_set(&err, HASTEN_ERR_TIMEOUT, "answering: the deadline passed after %lld tokens, %s",
              (long long)j->ask.answer->ids.n, j->run ? "while it ran" : "while it waited");
    job_end(b, j, HASTEN_ERR_TIMEOUT, &err);
    return true;
}

static void reap_all(struct batch *b)
{
    const uint64_t now = clock_now_ns();
    for (int32_t i = 0; i < b->n_run;)
        i += !reap(b, b->run[i], now);
    for (int32_t i = 0; i < b->n_wait;)
        i += !reap(b, b->wait[i], now);
}

/* What a step brought a job; its prompt was charged when it began. */
static void count_rows(struct batch *b, struct job *j)
{
    const struct answer *a = j->ask.answer;
    const int32_t n = hasten_seq_length(j->seq), prompt = (int32_t)j->ask.task.n;
    const int32_t from = j->reached > prompt ? j->reached : prompt;
    if (n > from)
        owner_charge(b, j->owner, n - from);
    j->reached = n > j->reached ? n : j->reached;
    b->figures.answer_tokens += (uint64_t)(a->predicted_n - j->counted.predicted);
    b->figures.drafted += (uint64_t)(a->drafted_n - j->counted.drafted);
    b->figures.accepted += (uint64_t)(a->accepted_n - j->counted.accepted);
    j->counted.predicted = a->predicted_n;
    j->counted.drafted = a->drafted_n;
    j->counted.accepted = a->accepted_n;
}

static void tell_progress(struct job *j)
{
    uint64_t done, total;
    const bool was = j->reading;
    j->reading = run_reading(j->run, &done, &total);
    if (was && !j->reading)
        j->times.first = clock_now_ns();
    if (was && j->ask.progress)
        j->ask.progress(j->ask.ctx, done, total);
}

/* Behind the step, with what it returned. */
static void after_step(struct batch *b, struct job *j, hasten_status st, const struct hasten_error *why)
{
    struct hasten_error err = {0};
    if (st)
        err = *why;
    if (st == HASTEN_ERR_CANCELLED) {
        end_cancelled(b, j);
        return;
    }
    st = run_after(j->run, st, &err);
    count_rows(b, j);
    if (st) {
        job_end(b, j, st, &err);
        return;
    }
    tell_progress(j);
    if (run_done(j->run))
        job_end(b, j, HASTEN_OK, NULL);
}

static hasten_status step(struct batch *b, int32_t first, int32_t n, struct hasten_error *err)
{
    return hasten_step(b->engine, b->items + first, n, b->deal, b->of_item + first, b->settings.cancel, err);
}

/* Items of the plan, in rank order. */
static void gather(struct batch *b)
{
    b->n_items = b->n_rows = 0;
    for (int32_t i = 0; i < b->n_run; i++) {
        struct job *j = b->run[i];
        if (!j->planned)
            continue;
        const int32_t again = j->reached - hasten_seq_length(j->seq);
        b->figures.recomputed += (uint64_t)(again < j->item.n ? again > 0 ? again : 0 : j->item.n);
        b->of_item[b->n_items] = j;
        b->items[b->n_items++] = j->item;
        b->n_rows += j->item.n;
    }
}

static void run_step(struct batch *b)
{
    struct hasten_error err = {0};
    const uint64_t t0 = clock_now_ns();
    hasten_status st = step(b, 0, b->n_items, &err);
    if (st == HASTEN_ERR_CANCELLED) {
        end_all(b);
        return;
    }
    if (!st) {
        cost_note(&b->cost, b->n_rows, (double)(clock_now_ns() - t0) * 1e-6);
        b->figures.turns++;
        b->figures.rows += (uint64_t)b->n_rows;
    }
    const bool alone = st && b->n_items > 1; /* whose fault it is shows when each runs alone */
    for (int32_t i = 0; i < b->n_items; i++) {
        if (alone)
            st = step(b, i, 1, &err);
        after_step(b, b->of_item[i], st, &err);
    }
}

bool batch_turn(struct batch *b)
{
    b->busy = true;
    if (b->settings.cancel && *b->settings.cancel)
        end_all(b);
    reap_all(b);
    pages_resume(b);
    queue_admit(b);
    plan_step(b);
    pages_secure(b);
    gather(b);
    if (b->n_items)
        run_step(b);
    b->busy = false;
    return b->n_run + b->n_wait > 0;
}

/* ---- figures -------------------------------------------------------------------------------------------------- */

void batch_figures(const struct batch *b, struct batch_figures *out)
{
    *out = b->figures;
    out->n_slots = b->settings.n_slots;
    out->waiting = b->n_wait;
    out->running = b->n_run;
    out->paused = 0;
    for (int32_t i = 0; i < b->n_run; i++)
        out->paused += b->run[i]->paused;
    out->pages_all = b->engine->kv.n_blocks;
    out->pages_used = b->engine->kv.n_blocks - b->engine->kv.n_free;
    store_figures(b->store, &out->store);
}

static struct batch_slot slot_of(const struct batch *b, const struct job *j)
{
    struct batch_slot s = {
        .id = j->id, .owner = j->ask.owner, .priority = j->ask.priority, .n_prompt = (int32_t)j->ask.task.n};
    if (!j->run)
        return s;
    s.state = j->paused ? BATCH_PAUSED : j->reading ? BATCH_READING : BATCH_ANSWERING;
    s.n_cached = j->ask.answer->cached_n;
    s.n_held = hasten_seq_length(j->seq);
    s.n_answer = (int32_t)j->ask.answer->ids.n;
    s.pages = kv_blocks(&b->engine->kv, &j->seq->kv);
    return s;
}

int32_t batch_slots(const struct batch *b, struct batch_slot *out, int32_t n)
{
    for (int32_t i = 0; i < b->n_run + b->n_wait && i < n; i++)
        out[i] = slot_of(b, i < b->n_run ? b->run[i] : b->wait[i - b->n_run]);
    return b->n_run + b->n_wait;
}
