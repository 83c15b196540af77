/* The driver of the stage stop (engine/stop.h): asks the engine's methods in the order given; the first that does not
 * let a token pass has its way. */
#include "run/inside.h"

static const struct stop_ops *ops_of(const struct hasten_engine *e, int32_t i)
{
    return e->methods.use[i].m->stage == STAGE_STOP ? e->methods.use[i].m->hosted : NULL;
}

static void *state_of(const struct run *r, int32_t i)
{
    const struct hasten_engine *e = r->task.engine;
    return method_seq_state(e, &e->methods.use[i], r->task.seq);
}

static struct stop_view view_of(const struct run *r)
{
    return (struct stop_view){r->task.seq, r->path, r->n_path, r->n_prompt, r->task.cancel};
}

int32_t stopping_reach(const struct hasten_engine *e)
{
    int32_t most = 0;
    for (int32_t i = 0; i < e->methods.n; i++) {
        const struct stop_ops *ops = ops_of(e, i);
        const int32_t n = ops && ops->reach ? ops->reach(e->methods.use[i].state) : 0;
        most = n > most ? n : most;
    }
    return most;
}

void stopping_begin(struct run *r)
{
    const struct hasten_engine *e = r->task.engine;
    const struct stop_view v = view_of(r);
    for (int32_t i = 0; i < e->methods.n; i++)
        if (ops_of(e, i))
            ops_of(e, i)->begin(e->methods.use[i].state, state_of(r, i), &v);
}

bool stopping_watch(const struct run *r, int32_t id)
{
    const struct hasten_engine *e = r->task.engine;
    const struct stop_view v = view_of(r);
    for (int32_t i = 0; i < e->methods.n; i++)
        if (ops_of(e, i) && ops_of(e, i)->watch(e->methods.use[i].state, state_of(r, i), &v, id))
            return true;
    return false;
}

/* Path, answer and what the methods know, with the verdict's tokens in place of the one chosen. */
static hasten_status inject(struct run *r, const struct stop_verdict *v, struct hasten_error *err)
{
    const struct hasten_engine *e = r->task.engine;
    hasten_status st = commit_cut(r, v->keep, err);
    sampler_memory_truncate(r->task.law->memory, r->n_path);
    const int64_t from = r->n_path;
    if (!st)
        st = commit_injected(r, v->ids, v->n_ids, err);
    const struct stop_view view = view_of(r);
    for (int32_t i = 0; i < e->methods.n && !st; i++)
        if (ops_of(e, i) && ops_of(e, i)->injected)
            ops_of(e, i)->injected(e->methods.use[i].state, state_of(r, i), &view, from);
    return st;
}

hasten_status stopping_decide(struct run *r, struct hasten_error *err)
{
    const struct hasten_engine *e = r->task.engine;
    const struct stop_view view = view_of(r);
    for (int32_t i = 0; i < e->methods.n; i++) {
        const struct stop_ops *ops = ops_of(e, i);
        const void *state = e->methods.use[i].state;
        struct stop_verdict v = {.act = STOP_GO, .keep = r->n_path};
        if (!ops || !ops->watch(state, state_of(r, i), &view, r->chosen.id))
            continue;
        const hasten_status st = ops->decide(state, state_of(r, i), &view, r->chosen.id, &v, err);
        if (st)
            return st;
        if (v.act == STOP_END)
            return commit_finish(r, FINISH_STOP, err);
        if (v.act == STOP_INJECT)
            return inject(r, &v, err);
    }
    return commit_chosen(r, err);
}
