/* Earley's algorithm on steps (scan.h). A position's items are a set; what reads nothing is followed as items are added.
 * A rule that may be empty has a fork around its calls, so a rule that ends where it began need not be looked at: what
 * Earley's completer misses for empty rules cannot arise. */
#include "sample/scan.h"
#include "base/limits.h"

/* ---- rules ---------------------------------------------------------------------------------------------- */

static bool step_alive(const struct scan_rules *r, const struct rtn_step *s)
{
    switch (s->op) {
    case RTN_BYTE:
        return r->alive[s->a];
    case RTN_FORK:
        return r->alive[s->a] || r->alive[s->b];
    case RTN_CALL:
        return r->rtn.entry[s->a] >= 0 && r->alive[r->rtn.entry[s->a]] && r->alive[s->b];
    default:
        return true;
    }
}

hasten_status scan_rules_open(const char *name, const struct gbnf *g, struct scan_rules *out,
                              struct hasten_error *err)
{
    *out = (struct scan_rules){0};
    hasten_status st = rtn_build(name, g, false, &out->rtn, err);
    if (!st) {
        out->alive = mem_calloc((size_t)out->rtn.steps.n + 1, 1);
        if (!out->alive)
            st = error_set(err, HASTEN_ERR_MEMORY, "%s: out of memory", name);
    }
    for (bool changed = !st; changed;) {
        changed = false;
        for (int64_t i = 0; i < out->rtn.steps.n; i++)
            if (!out->alive[i] && step_alive(out, &out->rtn.steps.at[i]))
                out->alive[i] = changed = true;
    }
    if (st)
        scan_rules_close(out);
    return st;
}

void scan_rules_close(struct scan_rules *r)
{
    rtn_free(&r->rtn);
    mem_free(r->alive);
    *r = (struct scan_rules){0};
}

/* ---- positions ------------------------------------------------------------------------------------------ */

/* The items of the position being made, as a set: a hash table of their indices + 1, cleared by its users. */
static int64_t slot_of(const struct scan *s, struct scan_item i)
{
    const uint64_t h = ((uint64_t)(uint32_t)i.step << 32 | (uint32_t)i.from) * 0x9E3779B97F4A7C15u;
    int64_t k = (int64_t)(h >> 32 & (uint64_t)(s->n_seen - 1));
    while (s->seen[k]) {
        const struct scan_item *x = &s->items.at[s->seen[k] - 1];
        if (x->step == i.step && x->from == i.from)
            break;
        k = (k + 1) & (s->n_seen - 1);
    }
    return k;
}

static int reset_seen(struct scan *s, int64_t first, int64_t n_table)
{
    if (n_table > s->n_seen) {
        int32_t *seen = mem_realloc(s->seen, (size_t)n_table * sizeof *seen);
        if (!seen)
            return -1;
        s->seen = seen;
        s->n_seen = n_table;
    }
    memset(s->seen, 0, (size_t)s->n_seen * sizeof *s->seen);
    for (int64_t i = first; i < s->items.n; i++)
        s->seen[slot_of(s, s->items.at[i])] = (int32_t)i + 1;
    return 0;
}

static int add_item(struct scan *s, int64_t first, int32_t step, int64_t from)
{
    const struct scan_item item = {step, (int32_t)from};
    if (!s->rules->alive[step])
        return 0;
    if (2 * (s->items.n - first + 1) > s->n_seen && reset_seen(s, first, s->n_seen ? 2 * s->n_seen : 64))
        return -1;
    const int64_t k = slot_of(s, item);
    if (s->seen[k])
        return 0;
    if (s->items.n >= INT32_MAX - 1 || LIST_PUSH(&s->items, item))
        return -1;
    s->seen[k] = (int32_t)s->items.n;
    return 0;
}

/* A rule that began at `from` has ended: what waited for it goes on. */
static int end_rule(struct scan *s, int64_t first, int32_t rule, int64_t from)
{
    for (int64_t i = s->set_at.at[from]; i < s->set_at.at[from + 1]; i++) {
        const struct scan_item w = s->items.at[i];
        const struct rtn_step *step = &s->rules->rtn.steps.at[w.step];
        if (step->op == RTN_CALL && step->a == rule && add_item(s, first, step->b, w.from))
            return -1;
    }
    return 0;
}

/* Follows what reads nothing, from the items of the last position, number `here`. */
static int close_items(struct scan *s, int64_t first, int64_t here)
{
    const struct rtn *r = &s->rules->rtn;
    s->complete = false;
    for (int64_t i = first; i < s->items.n; i++) {
        const struct scan_item item = s->items.at[i];
        const struct rtn_step *step = &r->steps.at[item.step];
        int bad = 0;
        if (step->op == RTN_FORK)
            bad = add_item(s, first, step->a, item.from) || add_item(s, first, step->b, item.from);
        else if (step->op == RTN_CALL)
            bad = add_item(s, first, r->entry[step->a], here);
        else if (step->op == RTN_END) {
            s->complete |= step->a == r->root && item.from == 0;
            bad = item.from < here ? end_rule(s, first, step->a, item.from) : 0;
        }
        if (bad)
            return -1;
    }
    return LIST_PUSH(&s->set_at, s->items.n);
}

int scan_start(struct scan *s, const struct scan_rules *r)
{
    s->rules = r;
    s->items.n = s->set_at.n = 0;
    if (reset_seen(s, 0, 64) || LIST_PUSH(&s->set_at, 0) || add_item(s, 0, r->rtn.entry[r->rtn.root], 0) ||
        close_items(s, 0, 0))
        return -1;
    return s->items.n > 0;
}

int scan_byte(struct scan *s, uint8_t byte)
{
    const int64_t here = s->set_at.n - 1, first = s->items.n, last = s->set_at.at[here - 1];
    bool any = false;
    const bool was_complete = s->complete;
    for (int64_t i = last; i < first; i++) {
        const struct scan_item item = s->items.at[i];
        const struct rtn_step *step = &s->rules->rtn.steps.at[item.step];
        if (step->op != RTN_BYTE || byte < step->lo || byte > step->hi || !s->rules->alive[step->a])
            continue;
        if (!any && reset_seen(s, first, s->n_seen))
            return -1;
        any = true;
        if (add_item(s, first, step->a, item.from))
            return -1;
    }
    if (!any)
        return 0;
    if (close_items(s, first, here)) {
        s->complete = was_complete;
        return -1;
    }
    return 1;
}

int scan_bytes(struct scan *s, const char *text, size_t len)
{
    const int64_t before = scan_position(s);
    for (size_t i = 0; i < len; i++) {
        const int st = scan_byte(s, (uint8_t)text[i]);
        if (st <= 0) {
            scan_truncate(s, before);
            return st;
        }
    }
    return 1;
}

void scan_truncate(struct scan *s, int64_t position)
{
    s->set_at.n = position + 2;
    s->items.n = s->set_at.at[position + 1];
    s->complete = false;
    for (int64_t i = s->set_at.at[position]; i < s->items.n; i++) {
        const struct rtn_step *step = &s->rules->rtn.steps.at[s->items.at[i].step];
        s->complete |= step->op == RTN_END && step->a == s->rules->rtn.root && s->items.at[i].from == 0;
    }
}

int scan_copy(const struct scan *s, struct scan *out)
{
    *out = (struct scan){.rules = s->rules, .complete = s->complete};
    int bad = 0;
    for (int64_t i = 0; i < s->items.n && !bad; i++)
        bad = LIST_PUSH(&out->items, s->items.at[i]);
    for (int64_t i = 0; i < s->set_at.n && !bad; i++)
        bad = LIST_PUSH(&out->set_at, s->set_at.at[i]);
    return bad || reset_seen(out, out->items.n, 64) ? -1 : 0;
}

void scan_free(struct scan *s)
{
    LIST_FREE(&s->items);
    LIST_FREE(&s->set_at);
    mem_free(s->seen);
    *s = (struct scan){0};
}
