/* The stopwatch of profile.h. */
#include "engine/profile.h"
#include "base/clock.h"
#include "engine/engine.h"
#include <string.h>

const char *engine_op_name(enum engine_op op)
{
    static const char *const names[ENGINE_N_OPS] = {
        [ENGINE_OP_STEP] = "step",
        [ENGINE_OP_EMBED] = "embed",
        [ENGINE_OP_PREPARE] = "norm, quantise",
        [ENGINE_OP_QKV] = "q, k, v",
        [ENGINE_OP_ROPE_STORE] = "rope, store",
        [ENGINE_OP_ATTENTION] = "attention",
        [ENGINE_OP_O] = "o",
        [ENGINE_OP_ROUTE] = "route",
        [ENGINE_OP_GATE_UP] = "gate, up",
        [ENGINE_OP_ACTIVATION] = "activation",
        [ENGINE_OP_DOWN] = "down",
        [ENGINE_OP_ADD] = "add",
        [ENGINE_OP_HEAD] = "head",
        [ENGINE_OP_SAMPLING] = "sampling",
    };
    return names[op];
}

static uint64_t busy_now(const struct hasten_engine *e)
{
    uint64_t sum = 0;
    for (int i = 0; i < pool_size(e->pool); i++)
        sum += e->profile->busy[i].ns;
    return sum;
}

void engine_profile_set(struct hasten_engine *e, struct engine_profile *p)
{
    e->profile = p;
    pool_watch(e->pool, p ? p->busy : NULL);
}

void engine_profile_start(struct hasten_engine *e)
{
    struct engine_profile *p = e->profile;
    memset(p->wall_ns, 0, sizeof p->wall_ns);
    memset(p->busy_ns, 0, sizeof p->busy_ns);
    p->last_busy_ns = busy_now(e);
    p->last_ns = clock_now_ns();
}

void engine_lap(struct hasten_engine *e, enum engine_op op)
{
    struct engine_profile *p = e->profile;
    if (!p)
        return;
    const uint64_t now = clock_now_ns(), busy = busy_now(e);
    p->wall_ns[op] += now - p->last_ns;
    p->busy_ns[op] += busy - p->last_busy_ns;
    p->last_ns = now;
    p->last_busy_ns = busy;
}
