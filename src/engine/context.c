/* The driver of the stage context: see context.h. */
#include "engine/context.h"
#include "engine/engine.h"
#include "text/vocab.h"
#include <string.h>

#define ROLE_TOKENS 8 /* of a role's name between control tokens, or behind one up to the end of the line */

static const struct method_use *method_of(const struct hasten_engine *e)
{
    for (int32_t i = 0; i < e->methods.n; i++)
        if (e->methods.use[i].m->stage == STAGE_CONTEXT)
            return &e->methods.use[i];
    return NULL;
}

bool context_is_used(const struct hasten_engine *e)
{
    return method_of(e) != NULL;
}

static bool is_control(const struct vocab *v, int32_t id)
{
    return id < 0 || id >= vocab_size(v) || vocab_type(v, id) == VOCAB_CONTROL;
}

static bool has_newline(const struct vocab *v, int32_t id)
{
    struct buf b = {0};
    const bool yes = !vocab_token_bytes(v, id, false, &b, NULL) && b.len && memchr(b.data, '\n', b.len);
    buf_free(&b);
    return yes;
}

/* Control tokens, and behind one what ends in a control token or a new line within a few tokens: names of roles. */
static void find_fixed(const struct vocab *v, const int32_t *ids, int64_t n, uint8_t *fixed)
{
    for (int64_t i = 0; i < n; i++) {
        fixed[i] |= is_control(v, ids[i]);
        if (!is_control(v, ids[i]))
            continue;
        int64_t end = i + 1;
        while (end < n && end <= i + ROLE_TOKENS && !is_control(v, ids[end]) && !has_newline(v, ids[end]))
            end++;
        const bool ends = end == n || end <= i + ROLE_TOKENS;
        for (int64_t j = i + 1; ends && j < n && j <= end; j++)
            fixed[j] = 1;
    }
}

static hasten_status select_tokens(const struct method_use *u, const struct context_view *view, uint8_t *keep,
                                   struct tokens *out, struct hasten_error *err)
{
    const struct context_ops *ops = u->m->hosted;
    const hasten_status st = ops->select(u->state, view, keep, err);
    const int64_t before = out->n;
    bool bad = false;
    for (int64_t i = 0; i < view->n && !st; i++)
        if (keep[i] || view->fixed[i])
            bad |= tokens_push(out, view->ids[i]) != 0;
    if (!st && !bad && out->n == before && view->n > 0)
        bad = tokens_push(out, view->ids[view->n - 1]) != 0;
    return bad ? error_set(err, HASTEN_ERR_MEMORY, "--context %s: out of memory", u->m->name) : st;
}

hasten_status context_shorten(struct hasten_engine *e, const int32_t *ids, int64_t n,
                              const volatile int *cancel, struct tokens *out, struct hasten_error *err)
{
    const struct method_use *u = method_of(e);
    const size_t bytes = (size_t)n + 1;
    bool bad = false;
    for (int64_t i = 0; i < n && !u; i++)
        bad |= tokens_push(out, ids[i]) != 0;
    if (!u)
        return bad ? error_set(err, HASTEN_ERR_MEMORY, "reading a prompt: out of memory") : HASTEN_OK;
    uint8_t *fixed = mem_calloc(bytes, 1), *keep = mem_calloc(bytes, 1);
    hasten_status st = HASTEN_ERR_MEMORY;
    if (fixed && keep) {
        memset(keep, 1, bytes);
        find_fixed(model_vocab(e->model), ids, n, fixed);
        const struct context_view view = {e, ids, n, fixed, cancel};
        st = select_tokens(u, &view, keep, out, err);
    } else {
        error_set(err, st, "--context %s: out of memory", u->m->name);
    }
    mem_free(fixed);
    mem_free(keep);
    return st;
}
