/* Who comes next (batch_inside.h): owners and what they were served, the order of those that wait, starting a job. */
#include "base/clock.h"
#include "run/batch_inside.h"
#include <string.h>

#define SHARE_LEAST KV_PAGE /* tokens in common: for fewer a job does not wait until another has read them */
#define MOST_LATER                                                                                           \
    8 /* jobs in a turn that are found to wait for another's prompt, before the rest must too */

/* ---- owners --------------------------------------------------------------------------------------------------- */

/* Of the owners who have jobs, the least that one was served; `otherwise` without any. */
static double least_served(const struct batch *b, double otherwise)
{
    double least = otherwise;
    bool any = false;
    for (int32_t i = 0; i < b->n_owners; i++)
        if (b->owners[i].n_jobs && (!any || b->owners[i].served < least)) {
            least = b->owners[i].served;
            any = true;
        }
    return least;
}

/* The least served owner who has no jobs; negative: all have. */
static int32_t idle_owner(const struct batch *b)
{
    int32_t best = -1;
    for (int32_t i = 0; i < b->n_owners; i++)
        if (!b->owners[i].n_jobs && (best < 0 || b->owners[i].served < b->owners[best].served))
            best = i;
    return best;
}

/* A place for one more: beyond LIMIT_OWNERS that of one who has no jobs. Negative: no memory. */
static int32_t owner_place(struct batch *b)
{
    const int32_t idle = b->n_owners >= LIMIT_OWNERS ? idle_owner(b) : -1;
    if (idle >= 0)
        return idle;
    if (b->n_owners == b->cap_owners) {
        const int32_t cap = b->cap_owners ? 2 * b->cap_owners : 16;
        struct owner *o = mem_realloc(b->owners, (size_t)cap * sizeof *o);
        if (!o)
            return -1;
        b->owners = o;
        b->cap_owners = cap;
    }
    return b->n_owners++;
}

int32_t owner_join(struct batch *b, uint64_t id)
{
    int32_t at = 0;
    while (at < b->n_owners && b->owners[at].id != id)
        at++;
    if (at == b->n_owners) {
        at = owner_place(b);
        if (at < 0)
            return -1;
        b->owners[at] = (struct owner){.id = id};
    }
    struct owner *o = &b->owners[at];
    if (!o->n_jobs) { /* who was away has saved nothing up */
        const double least = least_served(b, o->served);
        o->served = o->served > least ? o->served : least;
    }
    o->n_jobs++;
    return at;
}

void owner_leave(struct batch *b, int32_t owner)
{
    b->owners[owner].n_jobs--;
}

void owner_charge(struct batch *b, int32_t owner, double tokens)
{
    b->owners[owner].served += tokens;
}

/* ---- order ---------------------------------------------------------------------------------------------------- */

bool job_before(const struct batch *b, const struct job *x, const struct job *y)
{
    const double sx = b->owners[x->owner].served, sy = b->owners[y->owner].served;
    if (x->ask.priority != y->ask.priority)
        return x->ask.priority > y->ask.priority;
    if (x->owner != y->owner && sx != sy)
        return sx < sy;
    if (x->owner == y->owner && x->place != y->place)
        return x->place < y->place;
    return x->id < y->id;
}

static struct job *first_waiting(const struct batch *b)
{
    struct job *best = NULL;
    for (int32_t i = 0; i < b->n_wait; i++)
        if (!b->wait[i]->held_back && (!best || job_before(b, b->wait[i], best)))
            best = b->wait[i];
    return best;
}

/* ---- starting ------------------------------------------------------------------------------------------------- */

/* A running job whose prompt and answer begin as a prompt does. */
struct relative {
    struct job *job;  /* NULL: there is none */
    int32_t have;     /* of the common tokens: in its cache */
    bool still_reads; /* more of them are about to be */
};

static int32_t common(const int32_t *a, int64_t na, const int32_t *b, int64_t nb)
{
    const int64_t most = na < nb ? na : nb;
    int64_t n = 0;
    while (n < most && a[n] == b[n])
        n++;
    return (int32_t)n;
}

static struct relative find_relative(const struct batch *b, const struct job *j)
{
    struct relative best = {0};
    for (int32_t i = 0; b->shares && b->keeps && i < b->n_run; i++) {
        struct job *r = b->run[i];
        const int32_t *path;
        const int64_t n_path = run_path(r->run, &path);
        if (r->ask.scope != j->ask.scope)
            continue;
        const int32_t same = common(path, n_path, j->ask.task.ids, j->ask.task.n - 1),
                      held = hasten_seq_length(r->seq), most = same < held ? same : held,
                      have = store_reach(r->seq, most, j->ask.task.n);
        if (r->reading && r->ask.priority >= j->ask.priority && have == most && most < same &&
            same >= SHARE_LEAST)
            best.still_reads = true;
        if (have > best.have) {
            best.have = have;
            best.job = r;
        }
    }
    return best;
}

/* The sequence with the longest prefix of the prompt: the store's, or a fork. */
static hasten_status take_sequence(struct batch *b, struct job *j, const struct relative *r,
                                   struct hasten_error *err)
{
    const struct run_task *t = &j->ask.task;
    struct hasten_seq *seq = NULL, *fork = NULL;
    if (t->seq) {
        j->seq = t->seq;
        return HASTEN_OK;
    }
    hasten_status st = b->keeps ? store_take(b->store, j->ask.scope, t->ids, t->n, &seq, err)
                                : hasten_seq_open(b->engine, &seq, err);
    if (st)
        return st;
    if (r->have > hasten_seq_length(seq)) {
        if (hasten_seq_length(seq) == 0) { /* its place is needed, perhaps */
            hasten_seq_close(seq);
            seq = NULL;
        }
        if (!hasten_seq_fork(r->job->seq, r->have, &fork, NULL)) {
            if (seq)
                store_give(b->store, j->ask.scope, seq);
            seq = fork;
        } else if (!seq && (st = store_take(b->store, j->ask.scope, t->ids, t->n, &seq, err))) {
            return st;
        }
    }
    j->seq = seq;
    j->own_seq = true;
    return HASTEN_OK;
}

static void give_sequence(struct batch *b, struct job *j)
{
    if (j->own_seq && b->keeps)
        store_give(b->store, j->ask.scope, j->seq);
    else if (j->own_seq)
        hasten_seq_close(j->seq);
    j->seq = NULL;
    j->own_seq = false;
}

/* From the waiting to the running, at its rank. */
static void move(struct batch *b, struct job *j)
{
    int32_t from = 0, to = b->n_run;
    while (b->wait[from] != j)
        from++;
    memmove(b->wait + from, b->wait + from + 1, (size_t)(b->n_wait - from - 1) * sizeof *b->wait);
    b->n_wait--;
    while (to > 0 && b->run[to - 1]->ask.priority < j->ask.priority)
        to--;
    memmove(b->run + to + 1, b->run + to, (size_t)(b->n_run - to) * sizeof *b->run);
    b->run[to] = j;
    b->n_run++;
}

enum start {
    STARTED, /* or ended with an error: it no longer waits */
    LATER,   /* others may come first */
    NO_ROOM
};

static enum start start(struct batch *b, struct job *j)
{
    struct hasten_error err;
    const struct relative r = j->ask.task.seq ? (struct relative){0} : find_relative(b, j);
    if (r.still_reads)
        return LATER;
    if (b->n_run > 0 && !pages_may_fit(b, j, r.have))
        return NO_ROOM;
    hasten_status st = take_sequence(b, j, &r, &err);
    if (st == HASTEN_ERR_FULL && b->n_run > 0)
        return NO_ROOM;
    if (!st && b->n_run > 0 && !pages_admit(b, j)) {
        give_sequence(b, j);
        return NO_ROOM;
    }
    if (!st) {
        j->ask.task.seq = j->seq;
        st = run_open(&j->ask.task, j->ask.answer, &j->run, &err);
    }
    if (st) {
        job_end(b, j, st, &err);
        return STARTED;
    }
    j->reading = true;
    j->reached = j->ask.answer->cached_n;
    j->order = ++b->last_order;
    j->times.admitted = clock_now_ns();
    owner_charge(b, j->owner, (double)(j->ask.task.n - j->reached));
    b->figures.prompt_tokens += (uint64_t)j->ask.task.n;
    b->figures.cached_tokens += (uint64_t)j->reached;
    move(b, j);
    return STARTED;
}

static bool waits_for_pages(const struct batch *b, int32_t priority)
{
    for (int32_t i = 0; i < b->n_run; i++)
        if (b->run[i]->paused && b->run[i]->ask.priority >= priority)
            return true;
    return false;
}

void queue_admit(struct batch *b)
{
    for (int32_t i = 0; i < b->n_wait; i++)
        b->wait[i]->held_back = false;
    int32_t n_later = 0;
    while (n_later < MOST_LATER && b->n_run < b->settings.n_slots) {
        struct job *j = first_waiting(b);
        if (!j || waits_for_pages(b, j->ask.priority))
            return;
        const enum start s = start(b, j);
        if (s == NO_ROOM)
            return;
        if (s == LATER) {
            j->held_back = true;
            n_later++;
        }
    }
}
