/* The driver of the stage draft (engine/draft.h) for one sequence: asks for tokens, tells what came of them. */
#include "run/inside.h"
#include <string.h>

static const struct draft_ops *ops_of(const struct method_use *u)
{
    return u->m->hosted;
}

hasten_status speculation_open(struct hasten_engine *e, struct speculation **out, struct hasten_error *err)
{
    struct speculation *s = mem_calloc(1, sizeof *s);
    if (!s)
        return error_set(err, HASTEN_ERR_MEMORY, "drafting: out of memory");
    s->engine = e;
    for (int32_t i = 0; i < e->methods.n; i++) {
        const struct method_use *u = &e->methods.use[i];
        if (u->m->stage == STAGE_DRAFT && ops_of(u)->propose)
            s->drafter = u;
        else if (u->m->stage == STAGE_DRAFT && ops_of(u)->accept)
            s->acceptor = u;
    }
    hasten_status st = HASTEN_OK;
    if (s->drafter && ops_of(s->drafter)->open)
        st = ops_of(s->drafter)->open(s->drafter->state, &s->opened, err);
    if (st)
        speculation_close(s);
    else
        *out = s;
    return st;
}

static hasten_status copy_opened(const struct speculation *s, int64_t n, struct speculation *f,
                                 struct hasten_error *err)
{
    for (int64_t i = 0; i < n && i < s->seen.n; i++)
        if (tokens_push(&f->seen, s->seen.ids[i]))
            return error_set(err, HASTEN_ERR_MEMORY, "drafting: out of memory");
    if (!s->opened)
        return HASTEN_OK;
    const struct draft_ops *ops = ops_of(s->drafter);
    const hasten_status st = ops->fork(s->drafter->state, s->opened, &f->opened, err);
    if (!st)
        ops->truncate(s->drafter->state, f->opened, f->seen.n);
    return st;
}

hasten_status speculation_fork(const struct speculation *s, int64_t n, struct speculation **out,
                               struct hasten_error *err)
{
    struct speculation *f = mem_calloc(1, sizeof *f);
    if (!f)
        return error_set(err, HASTEN_ERR_MEMORY, "drafting: out of memory");
    f->engine = s->engine;
    f->drafter = s->drafter;
    f->acceptor = s->acceptor;
    f->control = s->control;
    const hasten_status st = copy_opened(s, n, f, err);
    if (st)
        speculation_close(f);
    else
        *out = f;
    return st;
}

void speculation_close(struct speculation *s)
{
    if (!s)
        return;
    if (s->opened)
        ops_of(s->drafter)->close(s->drafter->state, s->opened);
    tokens_free(&s->seen);
    mem_free(s);
}

/* ---- in a run ------------------------------------------------------------------------------------------------- */

static struct draft_self self_of(const struct run *r)
{
    const struct speculation *s = r->drafts;
    return (struct draft_self){s->drafter->state, method_seq_state(s->engine, s->drafter, r->task.seq),
                               s->opened};
}

static struct draft_view view_of(const struct run *r)
{
    return (struct draft_view){r->path, r->n_path, r->n_prompt, r->task.seq};
}

/* What `opened` knows is the path as it was at the last proposal; where it went on otherwise, it is told. */
static hasten_status keep_up(struct run *r, struct hasten_error *err)
{
    struct speculation *s = r->drafts;
    int64_t same = 0;
    if (!s->opened)
        return HASTEN_OK;
    while (same < s->seen.n && same < r->n_path && s->seen.ids[same] == r->path[same])
        same++;
    if (same < s->seen.n) {
        s->seen.n = same;
        ops_of(s->drafter)->truncate(s->drafter->state, s->opened, same);
    }
    for (int64_t i = same; i < r->n_path; i++)
        if (tokens_push(&s->seen, r->path[i]))
            return error_set(err, HASTEN_ERR_MEMORY, "drafting: out of memory");
    return HASTEN_OK;
}

static bool may_pause(const struct speculation *s)
{
    return !s->acceptor || ops_of(s->acceptor)->controlled(s->acceptor->state);
}

int32_t speculation_propose(struct run *r, int32_t most, hasten_status *st, struct hasten_error *err)
{
    struct speculation *s = r->drafts;
    const int32_t n_vocab = r->task.engine->model->desc.n_vocab;
    s->conf[0] = 0;
    if (!s->drafter || most < 1)
        return 0;
    const int32_t own_most = ops_of(s->drafter)->most(s->drafter->state);
    const struct draft_self self = self_of(r);
    const struct draft_view view = view_of(r);
    struct draft_proposal p = {
        .max = own_most < most ? own_most : most, .ids = r->path + r->n_path, .conf = s->conf};
    memset(s->conf, 0, sizeof s->conf);
    *st = keep_up(r, err);
    if (!*st)
        *st = ops_of(s->drafter)->propose(&self, &view, &p, err);
    if (*st)
        return 0;
    int32_t n = 0;
    while (n < p.n && n < p.max && p.ids[n] >= 0 && p.ids[n] < n_vocab)
        n++;
    return may_pause(s) ? control_choose(&s->control, r->company, n, s->conf[0], &r->expected) : n;
}

bool speculation_accepts(const struct speculation *s, int32_t own, int32_t drafted)
{
    return s->acceptor ? ops_of(s->acceptor)->accept(s->acceptor->state, own, drafted) : own == drafted;
}

void speculation_outcome(struct run *r, double ms)
{
    struct speculation *s = r->drafts;
    if (!s->drafter || r->reading)
        return;
    const struct draft_self self = self_of(r);
    const struct draft_view view = view_of(r);
    const int32_t n_checked = r->n_taken < r->n_drafts ? r->n_taken : r->n_drafts;
    control_note(&s->control, r->n_due, r->n_drafts, s->conf[0], n_checked, r->n_stood, r->company ? 0 : ms);
    if (ops_of(s->drafter)->outcome && r->n_drafts)
        ops_of(s->drafter)->outcome(&self, &view, n_checked, r->n_stood);
}
