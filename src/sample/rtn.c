/* From the nodes of a grammar to steps (rtn.h): which rules are called and which stand in place, then the steps. */
#include "sample/rtn.h"
#include "base/depth.h"
#include "base/limits.h"

#define INLINE_SIZE 1000  /* a rule that is used more than once and is larger is called */
#define INLINE_DEPTH 1000 /* so deep may nodes lie in each other, rules in place counted */
#define SIZE_MANY 1000000000

struct builder {
    const char *name;
    const struct gbnf *g;
    struct rtn *r;
    bool inlined;
    uint8_t *called;     /* [n_rules] */
    int32_t *uses;       /* [n_rules] in rules that are reached */
    int64_t *size;       /* [n_nodes] steps, about */
    int32_t *height;     /* [n_nodes] */
    LIST(int32_t) order; /* the rules that are reached, those used before their users, cycles aside */
    int32_t *table;      /* of steps by content: index + 1 */
    int64_t n_table;
    int32_t rule; /* at work */
    struct depth depth;
    hasten_status status;
    struct hasten_error *err;
};

static int32_t no_memory(struct builder *b)
{
    b->status = error_set(b->err, HASTEN_ERR_MEMORY, "%s: out of memory", b->name);
    return -1;
}

/* The rule at work asks for too much. */
static int32_t too_much(struct builder *b, const char *what)
{
    const struct gbnf_rule *r = &b->g->rules.at[b->rule];
    int32_t line, column;
    gbnf_place(b->g, r->at, &line, &column);
    b->status = error_set(b->err, HASTEN_ERR_LIMIT, "%s:%d:%d: rule '%.*s' %s", b->name, (int)line,
                          (int)column, r->name_len < 64 ? (int)r->name_len : 64, r->name, what);
    return -1;
}

/* ---- what is known of a node ---------------------------------------------------------------------------- */

static bool node_nullable(const struct builder *b, const struct gbnf_node *n, const uint8_t *nullable)
{
    const int32_t *kids = b->g->kids.at;
    switch (n->kind) {
    case GBNF_TEXT:
        return n->n == 0;
    case GBNF_CLASS:
        return false;
    case GBNF_RULE:
        return b->r->nullable[n->first];
    case GBNF_SEQUENCE:
        for (int32_t i = 0; i < n->n; i++)
            if (!nullable[kids[n->first + i]])
                return false;
        return true;
    case GBNF_CHOICE:
        for (int32_t i = 0; i < n->n; i++)
            if (nullable[kids[n->first + i]])
                return true;
        return false;
    default:
        return n->min == 0 || nullable[n->first];
    }
}

/* Repeated until nothing changes, forth and back in turn, so that chains of rules settle at once. */
static int find_nullable(struct builder *b)
{
    const struct gbnf *g = b->g;
    uint8_t *nullable = mem_calloc((size_t)g->nodes.n + 1, 1);
    if (!nullable)
        return no_memory(b);
    bool changed = true;
    for (int pass = 0; changed; pass++) {
        changed = false;
        for (int64_t i = 0; i < g->rules.n; i++) {
            const int64_t rule = pass % 2 ? i : g->rules.n - 1 - i;
            const struct gbnf_rule *r = &g->rules.at[rule];
            for (int32_t k = r->first; k <= r->body && !b->r->nullable[rule]; k++)
                nullable[k] = node_nullable(b, &g->nodes.at[k], nullable);
            if (!b->r->nullable[rule] && nullable[r->body])
                b->r->nullable[rule] = changed = true;
        }
    }
    mem_free(nullable);
    return 0;
}

static int64_t at_most_many(int64_t size)
{
    return size < SIZE_MANY ? size : SIZE_MANY;
}

static void measure_node(struct builder *b, int32_t k)
{
    const struct gbnf_node *n = &b->g->nodes.at[k];
    const int32_t *kids = b->g->kids.at;
    int64_t size = 1;
    int32_t height = 0, body;
    switch (n->kind) {
    case GBNF_TEXT:
    case GBNF_CLASS:
        size += n->n;
        break;
    case GBNF_RULE:
        body = b->g->rules.at[n->first].body;
        if (!b->called[n->first]) {
            size = b->size[body];
            height = b->height[body];
        }
        break;
    case GBNF_REPEAT:
        size = b->size[n->first] * ((n->max < 0 ? n->min + 1 : n->max) + 1);
        height = b->height[n->first];
        break;
    default:
        for (int32_t i = 0; i < n->n; i++) {
            size = at_most_many(size + b->size[kids[n->first + i]]);
            height = height > b->height[kids[n->first + i]] ? height : b->height[kids[n->first + i]];
        }
    }
    b->size[k] = at_most_many(size);
    b->height[k] = height + 1;
}

/* A rule all of whose uses have been looked at, but for those that make a cycle. */
static int leave_rule(struct builder *b, int32_t rule)
{
    const struct gbnf_rule *r = &b->g->rules.at[rule];
    for (int32_t k = r->first; k <= r->body; k++)
        measure_node(b, k);
    if (!b->inlined || rule == b->g->root || b->height[r->body] > INLINE_DEPTH ||
        (b->uses[rule] > 1 && b->size[r->body] > INLINE_SIZE))
        b->called[rule] = true;
    return LIST_PUSH(&b->order, rule) ? no_memory(b) : 0;
}

/* Depth first from root: a use of a rule that is still being looked at makes a cycle, so that rule is called. */
static int choose_calls(struct builder *b)
{
    struct visit {
        int32_t rule, node;
    };
    enum {
        NEW,
        OPEN,
        DONE
    };
    const struct gbnf *g = b->g;
    LIST(struct visit) path = {0};
    uint8_t *state = mem_calloc((size_t)g->rules.n, 1);
    int bad = !state || LIST_PUSH(&path, (struct visit){g->root, g->rules.at[g->root].first});
    if (!bad)
        state[g->root] = OPEN;
    while (!bad && path.n) {
        struct visit *v = &path.at[path.n - 1];
        const struct gbnf_rule *r = &g->rules.at[v->rule];
        while (v->node <= r->body && g->nodes.at[v->node].kind != GBNF_RULE)
            v->node++;
        if (v->node > r->body) {
            state[v->rule] = DONE;
            bad = leave_rule(b, v->rule);
            path.n--;
            continue;
        }
        const int32_t used = g->nodes.at[v->node++].first;
        b->uses[used]++;
        if (state[used] == OPEN)
            b->called[used] = true;
        else if (state[used] == NEW) {
            state[used] = OPEN;
            bad = LIST_PUSH(&path, (struct visit){used, g->rules.at[used].first});
        }
    }
    mem_free(state);
    LIST_FREE(&path);
    return bad ? no_memory(b) : 0;
}

/* ---- steps ---------------------------------------------------------------------------------------------- */

static uint64_t hash_step(const struct rtn_step *s)
{
    uint64_t h = ((uint64_t)(uint32_t)s->a << 32 | (uint32_t)s->b) * 0x9E3779B97F4A7C15u;
    h ^= (uint64_t)(s->op << 16 | s->lo << 8 | s->hi) * 0xC2B2AE3D27D4EB4Fu;
    return h ^ h >> 29;
}

static int regrow_table(struct builder *b)
{
    const int64_t n = b->n_table ? 2 * b->n_table : 1024;
    int32_t *table = mem_calloc((size_t)n, sizeof *table);
    if (!table)
        return no_memory(b);
    for (int64_t i = 0; i < b->n_table; i++)
        if (b->table[i]) {
            int64_t k = (int64_t)(hash_step(&b->r->steps.at[b->table[i] - 1]) & (uint64_t)(n - 1));
            while (table[k])
                k = (k + 1) & (n - 1);
            table[k] = b->table[i];
        }
    mem_free(b->table);
    b->table = table;
    b->n_table = n;
    return 0;
}

static int32_t push_step(struct builder *b, struct rtn_step s)
{
    if (b->r->steps.n >= LIMIT_GRAMMAR_STEPS)
        return too_much(b, "makes the grammar too large (expected fewer or shorter repetitions)");
    return LIST_PUSH(&b->r->steps, s) ? no_memory(b) : (int32_t)(b->r->steps.n - 1);
}

/* The step of this content; -1 after a failure, also of what follows it. */
static int32_t step(struct builder *b, enum rtn_op op, int lo, int hi, int32_t a, int32_t next)
{
    if (b->status || a < 0 || next < 0)
        return -1;
    if (op == RTN_FORK && a == next)
        return a;
    const struct rtn_step s = {.op = (uint8_t)op, .lo = (uint8_t)lo, .hi = (uint8_t)hi, .a = a, .b = next};
    if (2 * b->r->steps.n >= b->n_table && regrow_table(b))
        return -1;
    int64_t k = (int64_t)(hash_step(&s) & (uint64_t)(b->n_table - 1));
    for (; b->table[k]; k = (k + 1) & (b->n_table - 1)) {
        const struct rtn_step *t = &b->r->steps.at[b->table[k] - 1];
        if (t->op == s.op && t->lo == s.lo && t->hi == s.hi && t->a == s.a && t->b == s.b)
            return b->table[k] - 1;
    }
    const int32_t made = push_step(b, s);
    if (made >= 0)
        b->table[k] = made + 1;
    return made;
}

static int32_t build_class(struct builder *b, const struct gbnf_node *n, int32_t next)
{
    int32_t all = -1;
    for (int32_t i = n->n - 1; i >= 0; i--) {
        struct utf8_span spans[UTF8_MAX_SPANS];
        const struct gbnf_range *range = &b->g->ranges.at[n->first + i];
        for (int k = utf8_spans(range->lo, range->hi, spans) - 1; k >= 0; k--) {
            int32_t one = next;
            for (int j = spans[k].n - 1; j >= 0; j--)
                one = step(b, RTN_BYTE, spans[k].lo[j], spans[k].hi[j], one, 0);
            if (b->status)
                return -1;
            all = all < 0 ? one : step(b, RTN_FORK, 0, 0, one, all);
        }
    }
    return all;
}

static int32_t build(struct builder *b, int32_t node, int32_t next);

static int32_t build_repeat(struct builder *b, const struct gbnf_node *n, int32_t next)
{
    int32_t first = next;
    if (n->max < 0) {
        const int32_t loop = push_step(b, (struct rtn_step){.op = RTN_FORK, .a = next, .b = next});
        const int32_t body = loop < 0 ? -1 : build(b, n->first, loop);
        if (body < 0)
            return -1;
        b->r->steps.at[loop].a = body;
        first = loop;
    }
    for (int32_t i = n->min; i < n->max && !b->status; i++)
        first = step(b, RTN_FORK, 0, 0, build(b, n->first, first), next);
    for (int32_t i = 0; i < n->min && !b->status; i++)
        first = build(b, n->first, first);
    return first;
}

static int32_t build_rule(struct builder *b, int32_t rule, int32_t next)
{
    if (!b->called[rule])
        return build(b, b->g->rules.at[rule].body, next);
    const int32_t call = step(b, RTN_CALL, 0, 0, rule, next);
    return b->r->nullable[rule] ? step(b, RTN_FORK, 0, 0, call, next) : call;
}

/* The first of the steps that read a node and go on with `next`. */
static int32_t build_node(struct builder *b, const struct gbnf_node *n, int32_t next)
{
    const int32_t *kids = b->g->kids.at;
    int32_t all = -1;
    switch (n->kind) {
    case GBNF_TEXT:
        for (int32_t i = n->n - 1; i >= 0; i--) {
            const int byte = (unsigned char)b->g->bytes.data[n->first + i];
            next = step(b, RTN_BYTE, byte, byte, next, 0);
        }
        return next;
    case GBNF_CLASS:
        return build_class(b, n, next);
    case GBNF_RULE:
        return build_rule(b, n->first, next);
    case GBNF_SEQUENCE:
        for (int32_t i = n->n - 1; i >= 0 && !b->status; i--)
            next = build(b, kids[n->first + i], next);
        return next;
    case GBNF_CHOICE:
        for (int32_t i = n->n - 1; i >= 0 && !b->status; i--) {
            const int32_t one = build(b, kids[n->first + i], next);
            all = all < 0 ? one : step(b, RTN_FORK, 0, 0, one, all);
        }
        return all;
    default:
        return build_repeat(b, n, next);
    }
}

static int32_t build(struct builder *b, int32_t node, int32_t next)
{
    if (b->status || next < 0)
        return -1;
    if (depth_enter(&b->depth))
        return too_much(b, "is nested too deep");
    const int32_t first = build_node(b, &b->g->nodes.at[node], next);
    depth_leave(&b->depth);
    return b->status ? -1 : first;
}

static void build_all(struct builder *b)
{
    for (int64_t i = 0; i < b->order.n && !b->status; i++) {
        b->rule = b->order.at[i];
        if (b->called[b->rule])
            b->r->entry[b->rule] = build(b, b->g->rules.at[b->rule].body, step(b, RTN_END, 0, 0, b->rule, 0));
    }
}

hasten_status rtn_build(const char *name, const struct gbnf *g, bool inlined, struct rtn *out,
                        struct hasten_error *err)
{
    const size_t n = (size_t)g->rules.n, n_nodes = (size_t)g->nodes.n + 1;
    struct builder b = {
        .name = name, .g = g, .r = out, .inlined = inlined, .depth = {.limit = 4 * INLINE_DEPTH}, .err = err};
    *out = (struct rtn){.n_rules = (int32_t)n, .root = g->root};
    out->entry = mem_array(n, sizeof *out->entry);
    out->nullable = mem_calloc(n, 1);
    b.called = mem_calloc(n, 1);
    b.uses = mem_calloc(n, sizeof *b.uses);
    b.size = mem_array(n_nodes, sizeof *b.size);
    b.height = mem_array(n_nodes, sizeof *b.height);
    if (!out->entry || !out->nullable || !b.called || !b.uses || !b.size || !b.height)
        no_memory(&b);
    for (size_t i = 0; i < n && out->entry; i++)
        out->entry[i] = -1;
    if (!b.status && !find_nullable(&b) && !choose_calls(&b))
        build_all(&b);
    mem_free(b.called);
    mem_free(b.uses);
    mem_free(b.size);
    mem_free(b.height);
    mem_free(b.table);
    LIST_FREE(&b.order);
    return b.status;
}

void rtn_free(struct rtn *r)
{
    LIST_FREE(&r->steps);
    mem_free(r->entry);
    mem_free(r->nullable);
    *r = (struct rtn){0};
}
