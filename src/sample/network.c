/* From steps to places (network.h): forks are followed at once, left recursion goes (left_recursion.c), then what
 * cannot be completed. */
#include "sample/network.h"
#include "base/limits.h"
#include <stdlib.h>

int draft_no_memory(struct draft *d)
{
    d->status = error_set(d->err, HASTEN_ERR_MEMORY, "%s: out of memory", d->name);
    return -1;
}

static int too_large(struct draft *d, const char *what, int most)
{
    d->status =
        error_set(d->err, HASTEN_ERR_LIMIT, "%s: the grammar makes more than %d %s", d->name, most, what);
    return -1;
}

int32_t draft_add(struct draft *d, int32_t rule)
{
    if (d->places.n >= LIMIT_GRAMMAR_PLACES)
        return too_large(d, "places of a parse", LIMIT_GRAMMAR_PLACES);
    if (LIST_PUSH(&d->places, (struct draft_place){.rule = rule}))
        return draft_no_memory(d);
    return (int32_t)(d->places.n - 1);
}

static int count_edge(struct draft *d)
{
    return ++d->n_edges > LIMIT_GRAMMAR_EDGES ? too_large(d, "steps between places", LIMIT_GRAMMAR_EDGES) : 0;
}

int draft_edge(struct draft *d, int32_t from, struct net_edge e)
{
    if (count_edge(d))
        return -1;
    return LIST_PUSH(&d->places.at[from].edges, e) ? draft_no_memory(d) : 0;
}

int draft_call(struct draft *d, int32_t from, struct net_call c)
{
    struct draft_place *p = &d->places.at[from];
    for (int64_t i = 0; i < p->calls.n; i++)
        if (p->calls.at[i].rule == c.rule && p->calls.at[i].to == c.to)
            return 0;
    if (count_edge(d))
        return -1;
    return LIST_PUSH(&p->calls, c) ? draft_no_memory(d) : 0;
}

/* ---- following forks ------------------------------------------------------------------------------------ */

struct follower {
    struct draft *d;
    const struct rtn *r;
    int32_t *place_of; /* [n_steps] of what stands behind a byte or a call; -1: none yet */
    int32_t *seen;     /* [n_steps] the last place whose steps it was among */
    LIST(int32_t) stack;
    LIST(int32_t) from; /* the step that each place was made of */
};

static int32_t place_at(struct follower *f, int32_t step, int32_t rule)
{
    if (f->place_of[step] >= 0)
        return f->place_of[step];
    const int32_t place = draft_add(f->d, rule);
    if (place >= 0 && LIST_PUSH(&f->from, step))
        return draft_no_memory(f->d);
    return f->place_of[step] = place;
}

/* One step that is reached from a place reading nothing. */
static int take_step(struct follower *f, int32_t place, int32_t step)
{
    const struct rtn_step s = f->r->steps.at[step];
    const int32_t rule = f->d->places.at[place].rule;
    int32_t to;
    switch (s.op) {
    case RTN_BYTE:
        to = place_at(f, s.a, rule);
        return to < 0 ? -1 : draft_edge(f->d, place, (struct net_edge){s.lo, s.hi, to});
    case RTN_CALL:
        to = place_at(f, s.b, rule);
        return to < 0 ? -1 : draft_call(f->d, place, (struct net_call){s.a, to});
    case RTN_END:
        f->d->places.at[place].final = true;
        return 0;
    default:
        return LIST_PUSH(&f->stack, s.b) || LIST_PUSH(&f->stack, s.a) ? draft_no_memory(f->d) : 0;
    }
}

static int by_target(const void *a, const void *b)
{
    const struct net_edge *x = a, *y = b;
    return x->to != y->to ? (x->to < y->to ? -1 : 1) : x->lo < y->lo ? -1 : x->lo > y->lo;
}

/* Edges to the same place whose bytes touch become one. */
static void join_edges(struct draft_place *p)
{
    int64_t n = 0;
    if (p->edges.n < 2)
        return;
    qsort(p->edges.at, (size_t)p->edges.n, sizeof *p->edges.at, by_target);
    for (int64_t i = 0; i < p->edges.n; i++) {
        const struct net_edge e = p->edges.at[i];
        struct net_edge *last = n ? &p->edges.at[n - 1] : NULL;
        if (last && last->to == e.to && e.lo <= last->hi + 1)
            last->hi = e.hi > last->hi ? e.hi : last->hi;
        else
            p->edges.at[n++] = e;
    }
    p->edges.n = n;
}

static int fill_place(struct follower *f, int32_t place)
{
    f->stack.n = 0;
    if (LIST_PUSH(&f->stack, f->from.at[place]))
        return draft_no_memory(f->d);
    while (f->stack.n) {
        const int32_t step = f->stack.at[--f->stack.n];
        if (f->seen[step] == place)
            continue;
        f->seen[step] = place;
        if (take_step(f, place, step))
            return -1;
    }
    join_edges(&f->d->places.at[place]);
    return 0;
}

static int follow_all(struct follower *f)
{
    for (int32_t rule = 0; rule < f->r->n_rules; rule++)
        if (f->r->entry[rule] >= 0) { /* a place of its own, even where the rule comes by again */
            f->d->start[rule] = draft_add(f->d, rule);
            if (f->d->start[rule] < 0)
                return -1;
            if (LIST_PUSH(&f->from, f->r->entry[rule]))
                return draft_no_memory(f->d);
        }
    for (int32_t place = 0; place < f->d->places.n; place++)
        if (fill_place(f, place))
            return -1;
    return 0;
}

static int follow_forks(struct draft *d, const struct rtn *r)
{
    const size_t n = (size_t)r->steps.n;
    struct follower f = {.d = d, .r = r};
    f.place_of = mem_array(n, sizeof *f.place_of);
    f.seen = mem_array(n, sizeof *f.seen);
    int bad = !f.place_of || !f.seen ? draft_no_memory(d) : 0;
    for (size_t i = 0; i < n && !bad; i++)
        f.place_of[i] = f.seen[i] = -1;
    bad = bad || follow_all(&f);
    mem_free(f.place_of);
    mem_free(f.seen);
    LIST_FREE(&f.stack);
    LIST_FREE(&f.from);
    return bad ? -1 : 0;
}

/* ---- what cannot be completed ---------------------------------------------------------------------------- */

static bool place_alive(const struct draft *d, const struct draft_place *p, const uint8_t *alive)
{
    bool yes = p->final;
    for (int64_t i = 0; i < p->edges.n && !yes; i++)
        yes = alive[p->edges.at[i].to];
    for (int64_t i = 0; i < p->calls.n && !yes; i++) {
        const int32_t start = d->start[p->calls.at[i].rule];
        yes = alive[p->calls.at[i].to] && start >= 0 && alive[start];
    }
    return yes;
}

/* alive[n_places]: can its rule be ended from there? */
static void find_alive(const struct draft *d, uint8_t *alive)
{
    const int64_t n = d->places.n;
    bool changed = true;
    for (int pass = 0; changed; pass++) {
        changed = false;
        for (int64_t i = 0; i < n; i++) {
            const int64_t k = pass % 2 ? i : n - 1 - i;
            if (!alive[k] && place_alive(d, &d->places.at[k], alive))
                alive[k] = changed = true;
        }
    }
}

/* number[n_places]: the new number of each place that can be reached from root's start and completed, else -1. */
static int number_places(struct draft *d, int32_t root, const uint8_t *alive, int32_t *number, int32_t *n)
{
    LIST(int32_t) todo = {0};
    int bad = LIST_PUSH(&todo, d->start[root]);
    for (int64_t i = 0; i < d->places.n; i++)
        number[i] = -1;
    *n = 0;
    while (todo.n && !bad) {
        const int32_t place = todo.at[--todo.n];
        if (!alive[place] || number[place] >= 0)
            continue;
        number[place] = (*n)++;
        const struct draft_place *p = &d->places.at[place];
        for (int64_t i = 0; i < p->edges.n && !bad; i++)
            bad = LIST_PUSH(&todo, p->edges.at[i].to);
        for (int64_t i = 0; i < p->calls.n && !bad; i++) {
            const int32_t start = d->start[p->calls.at[i].rule];
            if (start >= 0 && alive[start] && alive[p->calls.at[i].to])
                bad = LIST_PUSH(&todo, p->calls.at[i].to) || LIST_PUSH(&todo, start);
        }
    }
    LIST_FREE(&todo);
    return bad ? draft_no_memory(d) : 0;
}

/* ---- the network ----------------------------------------------------------------------------------------- */

static int allocate(struct draft *d, struct network *out, int32_t n_places)
{
    const size_t n = (size_t)n_places, rules = (size_t)d->n_rules;
    out->n_places = n_places;
    out->n_rules = d->n_rules;
    out->edge_at = mem_calloc(n + 1, sizeof *out->edge_at);
    out->call_at = mem_calloc(n + 1, sizeof *out->call_at);
    out->edges = mem_array((size_t)d->n_edges + 1, sizeof *out->edges);
    out->calls = mem_array((size_t)d->n_edges + 1, sizeof *out->calls);
    out->final = mem_calloc(n + 1, 1);
    out->rule_of = mem_array(n + 1, sizeof *out->rule_of);
    out->start = mem_array(rules, sizeof *out->start);
    out->rank = mem_array(rules, sizeof *out->rank);
    out->follow = mem_calloc(rules, sizeof *out->follow);
    return !out->edge_at || !out->call_at || !out->edges || !out->calls || !out->final || !out->rule_of ||
                   !out->start || !out->rank || !out->follow
               ? draft_no_memory(d)
               : 0;
}

/* old[n_places]: by new number. */
static void copy_places(const struct draft *d, const int32_t *number, const int32_t *old, struct network *out)
{
    int32_t n_edges = 0, n_calls = 0;
    for (int32_t k = 0; k < out->n_places; k++) {
        const struct draft_place *p = &d->places.at[old[k]];
        out->final[k] = p->final;
        out->rule_of[k] = p->rule;
        for (int64_t i = 0; i < p->edges.n; i++)
            if (number[p->edges.at[i].to] >= 0) {
                struct net_edge e = p->edges.at[i];
                e.to = number[e.to];
                out->edges[n_edges++] = e;
            }
        for (int64_t i = 0; i < p->calls.n; i++) {
            const struct net_call c = p->calls.at[i];
            const int32_t start = d->start[c.rule];
            if (start >= 0 && number[start] >= 0 && number[c.to] >= 0)
                out->calls[n_calls++] = (struct net_call){c.rule, number[c.to]};
        }
        out->edge_at[k + 1] = n_edges;
        out->call_at[k + 1] = n_calls;
    }
    for (int32_t r = 0; r < d->n_rules; r++)
        out->start[r] = d->start[r] < 0 ? -1 : number[d->start[r]];
}

static bool add_bytes(struct byte_set *to, const struct byte_set *from)
{
    bool changed = false;
    for (int i = 0; i < 4; i++) {
        changed |= (from->bits[i] & ~to->bits[i]) != 0;
        to->bits[i] |= from->bits[i];
    }
    return changed;
}

/* What a place can read first: its edges, and the edges at the starts of what it calls. */
static struct byte_set first_of(const struct network *n, const struct byte_set *first, int32_t place)
{
    struct byte_set s = {0};
    for (int32_t i = n->edge_at[place]; i < n->edge_at[place + 1]; i++)
        for (int byte = n->edges[i].lo; byte <= n->edges[i].hi; byte++)
            s.bits[byte >> 6] |= 1ull << (byte & 63);
    for (int32_t i = n->call_at[place]; i < n->call_at[place + 1]; i++)
        add_bytes(&s, &first[n->calls[i].rule]);
    return s;
}

/* Fills follow. first[n_rules]: scratch, zero. */
static void find_follow(struct network *n, struct byte_set *first)
{
    bool changed = true;
    for (int pass = 0; changed; pass++) {
        changed = false;
        for (int32_t i = 0; i < n->n_rules; i++) {
            const int32_t r = pass % 2 ? i : n->n_rules - 1 - i;
            if (n->start[r] >= 0) {
                const struct byte_set s = first_of(n, first, n->start[r]);
                changed |= add_bytes(&first[r], &s);
            }
        }
    }
    changed = true;
    for (int pass = 0; changed; pass++) {
        changed = false;
        for (int32_t i = 0; i < n->n_places; i++) {
            const int32_t place = pass % 2 ? i : n->n_places - 1 - i;
            for (int32_t k = n->call_at[place]; k < n->call_at[place + 1]; k++) {
                const struct net_call c = n->calls[k];
                const struct byte_set s = first_of(n, first, c.to);
                changed |= add_bytes(&n->follow[c.rule], &s);
                if (n->final[c.to])
                    changed |= add_bytes(&n->follow[c.rule], &n->follow[n->rule_of[place]]);
            }
        }
    }
}

static int finish(struct draft *d, const struct gbnf *g, struct network *out)
{
    const size_t n = (size_t)d->places.n;
    int32_t n_places = 0;
    uint8_t *alive = mem_calloc(n, 1);
    int32_t *number = mem_array(n, sizeof *number), *old = mem_array(n, sizeof *old);
    struct byte_set *first = mem_calloc((size_t)d->n_rules, sizeof *first);
    int bad = !alive || !number || !old || !first ? draft_no_memory(d) : 0;
    if (!bad) {
        find_alive(d, alive);
        bad = number_places(d, g->root, alive, number, &n_places);
    }
    if (!bad && n_places == 0) {
        int32_t line, column;
        gbnf_place(g, g->rules.at[g->root].at, &line, &column);
        d->status = error_set(d->err, HASTEN_ERR_FILE,
                              "%s:%d:%d: rule 'root' matches no text (expected a way to end it)", d->name,
                              (int)line, (int)column);
        bad = -1;
    }
    bad = bad || allocate(d, out, n_places);
    if (!bad) {
        for (size_t i = 0; i < n; i++)
            if (number[i] >= 0)
                old[number[i]] = (int32_t)i;
        out->root = g->root;
        copy_places(d, number, old, out);
        find_follow(out, first);
        bad = draft_rank(d, out->rank);
    }
    mem_free(alive);
    mem_free(number);
    mem_free(old);
    mem_free(first);
    return bad;
}

hasten_status network_build(const char *name, const struct gbnf *g, struct network *out,
                            struct hasten_error *err)
{
    struct rtn r;
    struct draft d = {.name = name, .n_rules = (int32_t)g->rules.n, .err = err};
    *out = (struct network){0};
    d.status = rtn_build(name, g, true, &r, err);
    d.start = mem_array((size_t)d.n_rules, sizeof *d.start);
    if (!d.status && !d.start)
        draft_no_memory(&d);
    for (int32_t i = 0; i < d.n_rules && d.start; i++)
        d.start[i] = -1;
    if (!d.status && !follow_forks(&d, &r) && !draft_remove_left_recursion(&d))
        finish(&d, g, out);
    rtn_free(&r);
    for (int64_t i = 0; i < d.places.n; i++) {
        LIST_FREE(&d.places.at[i].edges);
        LIST_FREE(&d.places.at[i].calls);
    }
    LIST_FREE(&d.places);
    mem_free(d.start);
    return d.status;
}

void network_free(struct network *n)
{
    mem_free(n->edge_at);
    mem_free(n->call_at);
    mem_free(n->edges);
    mem_free(n->calls);
    mem_free(n->final);
    mem_free(n->rule_of);
    mem_free(n->start);
    mem_free(n->rank);
    mem_free(n->follow);
    *n = (struct network){0};
}
