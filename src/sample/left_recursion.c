/* Left recursion, removed from a network (network.h).
 *
 * A rule A that calls itself at its start and goes on at r holds what A holds without that call, then any number of
 * times what lies between r and A's end. So the call goes, and wherever A can end, it can also go on as at r. A rule
 * that reaches itself through the starts of others is first made one that calls itself: in a fixed order, a call of an
 * earlier rule at its start is replaced by a copy of that rule (the order is Paull's, 1988 in Aho, Sethi and Ullman,
 * algorithm 4.1, on automata instead of productions). */
#include "sample/network.h"
#include <stdlib.h>

/* The left calls of rules among themselves, and which rules are left when those that nobody calls, and those that call
 * nobody, have been taken away: the cycles, and what lies between them. */
struct core {
    int32_t *in, *out; /* [n_rules] left calls of and by rules that are still there */
    uint8_t *gone;     /* [n_rules] */
    LIST(int32_t) todo;
    LIST(struct net_call) left; /* rule: caller, to: called; by caller */
    LIST(struct net_call) back; /* rule: called, to: caller; by called */
};

static int by_rule(const void *a, const void *b)
{
    const struct net_call *x = a, *y = b;
    return x->rule < y->rule ? -1 : x->rule > y->rule;
}

static int64_t first_of_rule(const struct net_call *c, int64_t n, int32_t rule)
{
    int64_t lo = 0, hi = n;
    while (lo < hi) {
        const int64_t mid = lo + (hi - lo) / 2;
        if (c[mid].rule < rule)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

static void core_close(struct core *c)
{
    mem_free(c->in);
    mem_free(c->out);
    mem_free(c->gone);
    LIST_FREE(&c->todo);
    LIST_FREE(&c->left);
    LIST_FREE(&c->back);
}

static int core_open(struct draft *d, struct core *c)
{
    const size_t n = (size_t)d->n_rules;
    c->in = mem_calloc(n, sizeof *c->in);
    c->out = mem_calloc(n, sizeof *c->out);
    c->gone = mem_calloc(n, 1);
    if (!c->in || !c->out || !c->gone)
        return draft_no_memory(d);
    for (int32_t r = 0; r < d->n_rules; r++)
        for (int64_t i = 0; d->start[r] >= 0 && i < d->places.at[d->start[r]].calls.n; i++) {
            const int32_t called = d->places.at[d->start[r]].calls.at[i].rule;
            c->in[called]++;
            c->out[r]++;
            if (LIST_PUSH(&c->left, (struct net_call){r, called}) ||
                LIST_PUSH(&c->back, (struct net_call){called, r}))
                return draft_no_memory(d);
        }
    if (c->back.n)
        qsort(c->back.at, (size_t)c->back.n, sizeof *c->back.at, by_rule);
    return 0;
}

/* Takes rules away whose count (calls of it, or by it) is 0, and counts their neighbours down. */
static int peel(struct draft *d, struct core *c, int32_t *count, const struct net_call *calls, int64_t n)
{
    for (int32_t r = 0; r < d->n_rules; r++)
        if (!c->gone[r] && count[r] == 0 && LIST_PUSH(&c->todo, r))
            return draft_no_memory(d);
    while (c->todo.n) {
        const int32_t r = c->todo.at[--c->todo.n];
        c->gone[r] = 1;
        for (int64_t i = first_of_rule(calls, n, r); i < n && calls[i].rule == r; i++)
            if (--count[calls[i].to] == 0 && !c->gone[calls[i].to] && LIST_PUSH(&c->todo, calls[i].to))
                return draft_no_memory(d);
    }
    return 0;
}

/* ---- rewriting -------------------------------------------------------------------------------------------- */

/* Adds to place `to` what `from` can do. */
static int add_steps(struct draft *d, int32_t to, int32_t from)
{
    for (int64_t i = 0; i < d->places.at[from].edges.n; i++)
        if (draft_edge(d, to, d->places.at[from].edges.at[i]))
            return -1;
    for (int64_t i = 0; i < d->places.at[from].calls.n; i++)
        if (draft_call(d, to, d->places.at[from].calls.at[i]))
            return -1;
    return 0;
}

/* The copy of a place for rule `rule`; made, with nothing in it yet, when it is first asked for. */
static int32_t copy_of(struct draft *d, int32_t *copies, int32_t place, int32_t rule, int32_t *todo,
                       int64_t *n)
{
    if (copies[place] < 0) {
        copies[place] = draft_add(d, rule);
        todo[(*n)++] = place;
    }
    return copies[place];
}

/* What `from` can do, in copies of the places it leads to, added to `to`. */
static int copy_steps(struct draft *d, int32_t *copies, int32_t from, int32_t to, int32_t *todo, int64_t *n)
{
    const int32_t rule = d->places.at[to].rule;
    for (int64_t i = 0; i < d->places.at[from].edges.n; i++) {
        struct net_edge e = d->places.at[from].edges.at[i];
        e.to = copy_of(d, copies, e.to, rule, todo, n);
        if (e.to < 0 || draft_edge(d, to, e))
            return -1;
    }
    for (int64_t i = 0; i < d->places.at[from].calls.n; i++) {
        struct net_call c = d->places.at[from].calls.at[i];
        c.to = copy_of(d, copies, c.to, rule, todo, n);
        if (c.to < 0 || draft_call(d, to, c))
            return -1;
    }
    return 0;
}

/* In place of a call of `called` at `start` that goes on at `next`: a copy of that rule which goes on there. */
static int substitute(struct draft *d, int32_t start, int32_t called, int32_t next)
{
    const int64_t n_places = d->places.n;
    int64_t n = 0;
    int32_t *copies = mem_array((size_t)n_places, sizeof *copies);
    int32_t *todo = mem_array((size_t)n_places, sizeof *todo);
    int bad = !copies || !todo ? draft_no_memory(d) : 0;
    for (int64_t i = 0; i < n_places && !bad; i++)
        copies[i] = -1;
    if (!bad && d->start[called] >= 0)
        bad = copy_steps(d, copies, d->start[called], start, todo, &n);
    while (n && !bad) {
        const int32_t place = todo[--n];
        bad = copy_steps(d, copies, place, copies[place], todo, &n);
        if (!bad && d->places.at[place].final) {
            bad = add_steps(d, copies[place], next);
            d->places.at[copies[place]].final = d->places.at[next].final;
        }
    }
    mem_free(copies);
    mem_free(todo);
    return bad;
}

/* Takes the calls of `called` out of a place; where they go on is put on `next`. */
static int take_calls(struct draft *d, int32_t place, int32_t called, int32_t **next, int64_t *n)
{
    struct draft_place *p = &d->places.at[place];
    int64_t kept = 0;
    *n = 0;
    *next = mem_array((size_t)p->calls.n + 1, sizeof **next);
    if (!*next)
        return draft_no_memory(d);
    for (int64_t i = 0; i < p->calls.n; i++)
        if (p->calls.at[i].rule == called)
            (*next)[(*n)++] = p->calls.at[i].to;
        else
            p->calls.at[kept++] = p->calls.at[i];
    p->calls.n = kept;
    return 0;
}

/* A rule that calls itself at its start: it may instead go on wherever it ends. */
static int remove_direct(struct draft *d, int32_t rule)
{
    const int64_t n_places = d->places.n;
    const int32_t on = draft_add(d, rule); /* what all the calls go on with */
    int32_t *next = NULL;
    int64_t n = 0;
    int bad = on < 0 ? -1 : take_calls(d, d->start[rule], rule, &next, &n);
    for (int64_t i = 0; i < n && !bad; i++)
        bad = add_steps(d, on, next[i]);
    for (int32_t place = 0; place < n_places && !bad && n; place++)
        if (d->places.at[place].rule == rule && d->places.at[place].final)
            bad = add_steps(d, place, on);
    mem_free(next);
    return bad;
}

/* An earlier rule of the core that is called at this one's start; -1: none. */
static int32_t earlier_left_call(const struct draft *d, const struct core *c, int32_t rule)
{
    const struct draft_place *p = &d->places.at[d->start[rule]];
    for (int64_t i = 0; i < p->calls.n; i++)
        if (p->calls.at[i].rule < rule && !c->gone[p->calls.at[i].rule])
            return p->calls.at[i].rule;
    return -1;
}

static int remove_from_rule(struct draft *d, const struct core *c, int32_t rule)
{
    int32_t called;
    while ((called = earlier_left_call(d, c, rule)) >= 0) {
        int32_t *next = NULL;
        int64_t n = 0;
        int bad = take_calls(d, d->start[rule], called, &next, &n);
        for (int64_t i = 0; i < n && !bad; i++)
            bad = substitute(d, d->start[rule], called, next[i]);
        mem_free(next);
        if (bad)
            return -1;
    }
    return remove_direct(d, rule);
}

int draft_remove_left_recursion(struct draft *d)
{
    struct core c = {0};
    int bad =
        core_open(d, &c) || peel(d, &c, c.in, c.left.at, c.left.n) || peel(d, &c, c.out, c.back.at, c.back.n);
    for (int32_t r = 0; r < d->n_rules && !bad; r++)
        if (!c.gone[r])
            bad = remove_from_rule(d, &c, r);
    core_close(&c);
    return bad ? -1 : 0;
}

int draft_rank(struct draft *d, int32_t *rank)
{
    struct core c = {0};
    int bad = core_open(d, &c);
    int32_t n = 0;
    for (int32_t r = 0; r < d->n_rules && !bad; r++) {
        rank[r] = -1;
        if (c.in[r] == 0)
            bad = LIST_PUSH(&c.todo, r) ? draft_no_memory(d) : 0;
    }
    while (c.todo.n && !bad) {
        const int32_t r = c.todo.at[--c.todo.n];
        rank[r] = n++;
        for (int64_t i = first_of_rule(c.left.at, c.left.n, r);
             i < c.left.n && c.left.at[i].rule == r && !bad; i++)
            if (--c.in[c.left.at[i].to] == 0)
                bad = LIST_PUSH(&c.todo, c.left.at[i].to) ? draft_no_memory(d) : 0;
    }
    core_close(&c);
    return bad;
}
