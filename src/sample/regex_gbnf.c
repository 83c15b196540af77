/* Regular expressions written as GBNF (regex.h): their lengths, their spelling, and the texts of bounded length among
 * them. For these, where arithmetic on one repetition is not enough, the expression becomes an automaton (Thompson
 * 1968) that is run beside a counter, a rule for each pair. */
#include "base/depth.h"
#include "base/limits.h"
#include "sample/regex.h"
#include <stdio.h>

#define ENDLESS (-1)
#define LONG_ENOUGH (1ll << 40) /* lengths stop growing there */

struct lengths {
    int64_t shortest, longest;
};

/* ---- lengths ------------------------------------------------------------------------------------------------ */

static int64_t at_most(int64_t x)
{
    return x < LONG_ENOUGH ? x : LONG_ENOUGH;
}

static int64_t times(int64_t x, int64_t n)
{
    return x && n > LONG_ENOUGH / x ? LONG_ENOUGH : x * n;
}

static struct lengths of_node(const struct regex *r, const struct regex_node *n, const struct lengths *of)
{
    struct lengths l = {0, 0};
    if (n->kind == REGEX_CLASS)
        return (struct lengths){1, 1};
    if (n->kind == REGEX_REPEAT) {
        const struct lengths item = of[n->first];
        l.shortest = times(item.shortest, n->min);
        if (item.longest)
            l.longest = n->max < 0 || item.longest < 0 ? ENDLESS : times(item.longest, n->max);
        return l;
    }
    for (int32_t i = 0; i < n->n; i++) {
        const struct lengths kid = of[r->kids.at[n->first + i]];
        if (n->kind == REGEX_SEQUENCE) {
            l.shortest = at_most(l.shortest + kid.shortest);
            l.longest = l.longest < 0 || kid.longest < 0 ? ENDLESS : at_most(l.longest + kid.longest);
        } else {
            l.shortest = i && l.shortest < kid.shortest ? l.shortest : kid.shortest;
            l.longest = l.longest < 0 || kid.longest < 0 ? ENDLESS
                        : l.longest > kid.longest        ? l.longest
                                                         : kid.longest;
        }
    }
    return l;
}

/* Of every node; NULL when out of memory. */
static struct lengths *all_lengths(const struct regex *r)
{
    struct lengths *of = mem_array((size_t)r->nodes.n + 1, sizeof *of);
    for (int64_t i = 0; i < r->nodes.n && of; i++)
        of[i] = of_node(r, &r->nodes.at[i], of);
    return of;
}

int regex_lengths(const struct regex *r, int64_t *shortest, int64_t *longest)
{
    struct lengths *of = all_lengths(r);
    if (!of)
        return -1;
    *shortest = of[r->root].shortest;
    *longest = of[r->root].longest;
    mem_free(of);
    return 0;
}

/* ---- spelling ----------------------------------------------------------------------------------------------- */

struct writer {
    const struct regex *r;
    enum regex_spelling spelling;
    struct buf *out;
    struct depth depth;
};

static int put_character(struct buf *out, uint32_t c)
{
    if ((c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'))
        return buf_putc(out, (char)c);
    return buf_printf(out, c < 0x100 ? "\\x%02X" : c < 0x10000 ? "\\u%04X" : "\\U%08X", (unsigned)c);
}

static int put_range(struct buf *out, uint32_t lo, uint32_t hi)
{
    if (lo > hi)
        return 0;
    return put_character(out, lo) || (lo < hi && (buf_putc(out, '-') || put_character(out, hi)));
}

static bool has(const struct regex *r, const struct regex_node *n, uint32_t c)
{
    for (int32_t i = 0; i < n->n; i++)
        if (r->ranges.at[n->first + i].lo <= c && c <= r->ranges.at[n->first + i].hi)
            return true;
    return false;
}

static const char short_letters[] = "\"\\bfnrt", short_values[] = "\"\\\b\f\n\r\t";

/* Those of the class that a JSON string holds as they are: how many ranges. out NULL: only counted. */
static int put_bare(const struct regex *r, const struct regex_node *n, struct buf *out, int *count)
{
    static const struct regex_range bare[] = {{' ', '!'}, {'#', '['}, {']', 0x10FFFF}};
    *count = 0;
    for (int32_t i = 0; i < n->n; i++)
        for (int k = 0; k < 3; k++) {
            const struct regex_range x = r->ranges.at[n->first + i];
            const uint32_t lo = x.lo > bare[k].lo ? x.lo : bare[k].lo,
                           hi = x.hi < bare[k].hi ? x.hi : bare[k].hi;
            if (lo > hi)
                continue;
            ++*count;
            if (out && put_range(out, lo, hi))
                return -1;
        }
    return 0;
}

/* Control characters that have no letter are left out where others can be written in their place. */
static int put_json_class(const struct writer *w, const struct regex_node *n)
{
    struct buf *out = w->out;
    char letters[sizeof short_letters] = "";
    int n_letters = 0, n_bare, bad;
    put_bare(w->r, n, NULL, &n_bare);
    for (int i = 0; short_letters[i]; i++)
        if (has(w->r, n, (unsigned char)short_values[i]))
            letters[n_letters++] = short_letters[i];
    if (!n_bare && !n_letters) {
        bad = buf_puts(out, "(");
        for (uint32_t c = 0, k = 0; c < ' ' && !bad; c++)
            if (has(w->r, n, c))
                bad = buf_printf(out, "%s\"\\\\u%04x\"", k++ ? " | " : "", (unsigned)c);
        return bad || buf_puts(out, ")");
    }
    bad = n_bare && n_letters && buf_puts(out, "(");
    if (n_bare && !bad)
        bad = buf_puts(out, "[") || put_bare(w->r, n, out, &n_bare) || buf_puts(out, "]");
    if (n_letters && !bad)
        bad = buf_puts(out, n_bare ? " | \"\\\\\" [" : "\"\\\\\" [");
    for (int i = 0; i < n_letters && !bad; i++)
        bad = put_character(out, (unsigned char)letters[i]);
    bad = bad || (n_letters && buf_puts(out, "]"));
    return bad || (n_bare && n_letters && buf_puts(out, ")"));
}

static int put_class(const struct writer *w, const struct regex_node *n)
{
    if (w->spelling == REGEX_JSON)
        return put_json_class(w, n);
    int bad = buf_puts(w->out, "[");
    for (int32_t i = 0; i < n->n && !bad; i++)
        bad = put_range(w->out, w->r->ranges.at[n->first + i].lo, w->r->ranges.at[n->first + i].hi);
    return bad || buf_puts(w->out, "]");
}

static int put_times(struct buf *out, int64_t min, int64_t max)
{
    if (max < 0)
        return min == 0   ? buf_puts(out, "*")
               : min == 1 ? buf_puts(out, "+")
                          : buf_printf(out, "{%lld,}", (long long)min);
    if (min == 0 && max == 1)
        return buf_puts(out, "?");
    return buf_printf(out, "{%lld,%lld}", (long long)min, (long long)max);
}

static int put_node(struct writer *w, int32_t node)
{
    const struct regex_node n = w->r->nodes.at[node];
    if (n.kind == REGEX_CLASS)
        return put_class(w, &n);
    if (depth_enter(&w->depth))
        return -1; /* not reached: the parser bounds the nesting */
    int bad = buf_puts(w->out, "(");
    if (n.kind == REGEX_REPEAT) {
        bad = bad || put_node(w, n.first) || buf_puts(w->out, ")") || put_times(w->out, n.min, n.max);
    } else {
        for (int32_t i = 0; i < n.n && !bad; i++)
            bad = (i && buf_puts(w->out, n.kind == REGEX_CHOICE ? " | " : " ")) ||
                  put_node(w, w->r->kids.at[n.first + i]);
        bad = bad || buf_puts(w->out, ")");
    }
    depth_leave(&w->depth);
    return bad;
}

static struct writer writer_of(const struct regex *r, enum regex_spelling spelling, struct buf *out)
{
    return (struct writer){
        .r = r, .spelling = spelling, .out = out, .depth = {.limit = 4 * LIMIT_REGEX_DEPTH + 8}};
}

int regex_put(const struct regex *r, enum regex_spelling spelling, struct buf *gbnf)
{
    struct writer w = writer_of(r, spelling, gbnf);
    return put_node(&w, r->root) ? -1 : 0;
}

/* ---- bounds by one repetition ------------------------------------------------------------------------------- */

/* The parts of a sequence, or the whole as the only one. */
struct parts {
    const int32_t *kids;
    int32_t n;
};

static struct parts parts_of(const struct regex *r)
{
    const struct regex_node *root = &r->nodes.at[r->root];
    return root->kind == REGEX_SEQUENCE ? (struct parts){r->kids.at + root->first, root->n}
                                        : (struct parts){&r->root, 1};
}

struct change { /* of one part: it is repeated so often instead */
    int32_t part;
    int64_t min, max;
    bool exact;
};

/* Can the bounds be kept by changing one repetition? It is the one without bound, or the only one whose length is
 * free. */
static bool find_change(const struct regex *r, const struct lengths *of, int64_t min, int64_t max,
                        struct change *c)
{
    const struct parts p = parts_of(r);
    struct lengths others = {0, 0};
    c->part = -1;
    for (int32_t i = 0; i < p.n; i++) {
        const struct regex_node *n = &r->nodes.at[p.kids[i]];
        const struct lengths l = of[p.kids[i]];
        const bool even =
            n->kind == REGEX_REPEAT && of[n->first].shortest == of[n->first].longest && of[n->first].shortest;
        if (even && l.shortest != l.longest && (c->part < 0 || l.longest < 0))
            c->part = i;
    }
    if (c->part < 0)
        return false;
    for (int32_t i = 0; i < p.n; i++) {
        const struct lengths l = of[p.kids[i]];
        if (i == c->part)
            continue;
        if (l.longest < 0)
            return false;
        others.shortest = at_most(others.shortest + l.shortest);
        others.longest = at_most(others.longest + l.longest);
    }
    const struct regex_node *n = &r->nodes.at[p.kids[c->part]];
    const int64_t unit = of[n->first].shortest, least = min > others.shortest ? min - others.shortest : 0;
    c->exact = others.shortest == others.longest;
    c->min = (least + unit - 1) / unit > n->min ? (least + unit - 1) / unit : n->min;
    c->max = n->max;
    if (max >= 0) {
        if (max < others.longest)
            return false;
        const int64_t most = (max - others.longest) / unit;
        c->max = n->max < 0 || most < n->max ? most : n->max;
    }
    return (c->max < 0 || c->min <= c->max) && c->min <= LIMIT_GRAMMAR_REPEAT &&
           c->max <= LIMIT_GRAMMAR_REPEAT;
}

static int put_changed(struct writer *w, const struct change *c)
{
    const struct parts p = parts_of(w->r);
    int bad = buf_puts(w->out, "(");
    for (int32_t i = 0; i < p.n && !bad; i++) {
        const struct regex_node *n = &w->r->nodes.at[p.kids[i]];
        bad = i && buf_puts(w->out, " ");
        if (i == c->part)
            bad = bad || put_node(w, n->first) || put_times(w->out, c->min, c->max);
        else
            bad = bad || put_node(w, p.kids[i]);
    }
    return bad || buf_puts(w->out, ")");
}

/* ---- bounds by counting ------------------------------------------------------------------------------------- */

struct step { /* reads a character of class `node`, then a; node -1: a or b, reading nothing; -2: the end */
    int32_t node, a, b;
};

#define FORK (-1)
#define DONE (-2)

struct counter {
    const struct regex *r;
    LIST(struct step) steps;
    LIST(int64_t) todo; /* pairs (step, count), in the order of their rules */
    LIST(int32_t) stack;
    int32_t *seen;    /* [steps.n] the last rule whose steps it was among */
    int32_t *rule_of; /* [steps.n × (cap + 1)] rule + 1 */
    int64_t min, max, cap;
    const char *prefix;
    struct depth depth;
    bool too_many;
};

static int32_t add_step(struct counter *c, struct step s)
{
    if (c->steps.n >= LIMIT_REGEX_RULES) {
        c->too_many = true;
        return -1;
    }
    return LIST_PUSH(&c->steps, s) ? -1 : (int32_t)(c->steps.n - 1);
}

static int32_t build(struct counter *c, int32_t node, int32_t next);

static int32_t build_repeat(struct counter *c, const struct regex_node *n, int32_t next)
{
    int32_t at = next;
    if (n->max < 0) {
        at = add_step(c, (struct step){FORK, -1, next});
        const int32_t item = at < 0 ? -1 : build(c, n->first, at);
        if (item < 0)
            return -1;
        c->steps.at[at].a = item;
    }
    for (int32_t i = n->min; i < n->max && at >= 0; i++) {
        const int32_t item = build(c, n->first, at);
        at = item < 0 ? -1 : add_step(c, (struct step){FORK, item, next});
    }
    for (int32_t i = 0; i < n->min && at >= 0; i++)
        at = build(c, n->first, at);
    return at;
}

/* The first step of what reads a node and goes on at next; -1: out of memory, or too many. */
static int32_t build(struct counter *c, int32_t node, int32_t next)
{
    const struct regex_node n = c->r->nodes.at[node];
    int32_t at = next;
    if (depth_enter(&c->depth))
        return -1;
    if (n.kind == REGEX_CLASS) {
        at = add_step(c, (struct step){node, next, 0});
    } else if (n.kind == REGEX_REPEAT) {
        at = build_repeat(c, &n, next);
    } else if (n.kind == REGEX_SEQUENCE) {
        for (int32_t i = n.n; i-- > 0 && at >= 0;)
            at = build(c, c->r->kids.at[n.first + i], at);
    } else {
        at = build(c, c->r->kids.at[n.first + n.n - 1], next);
        for (int32_t i = n.n - 1; i-- > 0 && at >= 0;) {
            const int32_t kid = build(c, c->r->kids.at[n.first + i], next);
            at = kid < 0 ? -1 : add_step(c, (struct step){FORK, kid, at});
        }
    }
    depth_leave(&c->depth);
    return at;
}

/* The rule of a step and a count; -1: out of memory, or too many. */
static int64_t rule_at(struct counter *c, int32_t step, int64_t count)
{
    int32_t *rule = &c->rule_of[step * (c->cap + 1) + count];
    if (*rule)
        return *rule - 1;
    if (c->todo.n >= LIMIT_REGEX_RULES) {
        c->too_many = true;
        return -1;
    }
    if (LIST_PUSH(&c->todo, step * (c->cap + 1) + count))
        return -1;
    *rule = (int32_t)c->todo.n;
    return *rule - 1;
}

/* What rule number `rule` says. */
static int count_rule(struct counter *c, struct writer *w, int64_t rule)
{
    const int64_t count = c->todo.at[rule] % (c->cap + 1);
    bool any = false;
    int bad = buf_printf(w->out, "%s%lld ::= ", c->prefix, (long long)rule);
    c->stack.n = 0;
    bad = bad || LIST_PUSH(&c->stack, (int32_t)(c->todo.at[rule] / (c->cap + 1)));
    while (c->stack.n && !bad) {
        const int32_t at = c->stack.at[--c->stack.n];
        const struct step s = c->steps.at[at];
        if (c->seen[at] == (int32_t)rule + 1)
            continue;
        c->seen[at] = (int32_t)rule + 1;
        if (s.node == FORK) {
            bad = LIST_PUSH(&c->stack, s.b) || LIST_PUSH(&c->stack, s.a);
        } else if (s.node == DONE && count >= c->min) {
            bad = buf_puts(w->out, any ? " | \"\"" : "\"\"");
            any = true;
        } else if (s.node >= 0 && (c->max < 0 || count < c->max)) {
            const int64_t next = rule_at(c, s.a, count < c->cap ? count + 1 : count);
            bad = next < 0 || (any && buf_puts(w->out, " | ")) || put_class(w, &c->r->nodes.at[s.node]) ||
                  buf_printf(w->out, " %s%lld", c->prefix, (long long)next);
            any = true;
        }
    }
    if (!any) /* no way to end, so the grammar leaves it out */
        bad = bad || buf_printf(w->out, "\"x\" %s%lld", c->prefix, (long long)rule);
    return bad || buf_puts(w->out, "\n");
}

static int count_all(struct counter *c, struct writer *w)
{
    const int32_t end = add_step(c, (struct step){DONE, 0, 0}),
                  start = end < 0 ? -1 : build(c, c->r->root, end);
    if (start < 0)
        return -1;
    if (c->cap >= LIMIT_REGEX_RULES || c->steps.n * (c->cap + 1) > LIMIT_REGEX_PAIRS) {
        c->too_many = true;
        return -1;
    }
    c->seen = mem_calloc((size_t)c->steps.n, sizeof *c->seen);
    c->rule_of = mem_calloc((size_t)(c->steps.n * (c->cap + 1)), sizeof *c->rule_of);
    if (!c->seen || !c->rule_of || rule_at(c, start, 0) < 0)
        return -1;
    for (int64_t rule = 0; rule < c->todo.n; rule++)
        if (count_rule(c, w, rule))
            return -1;
    return 0;
}

/* Whole rules, or nothing. */
static int put_counted(const struct regex *r, enum regex_spelling spelling, int64_t min, int64_t max,
                       const char *prefix, struct buf *gbnf, struct buf *rules, bool *done)
{
    struct buf made = {0};
    struct writer w = writer_of(r, spelling, &made);
    struct counter c = {.r = r,
                        .min = min,
                        .max = max,
                        .cap = max < 0 ? min : max,
                        .prefix = prefix,
                        .depth = {.limit = 4 * LIMIT_REGEX_DEPTH + 8}};
    int bad = count_all(&c, &w);
    *done = !bad;
    if (!bad)
        bad = buf_put(rules, made.data, made.len) || buf_printf(gbnf, "%s0", prefix);
    else
        bad = c.too_many ? 0 : -1;
    LIST_FREE(&c.steps);
    LIST_FREE(&c.todo);
    LIST_FREE(&c.stack);
    mem_free(c.seen);
    mem_free(c.rule_of);
    buf_free(&made);
    return bad;
}

int regex_put_bounded(const struct regex *r, enum regex_spelling spelling, int64_t min, int64_t max,
                      bool part, const char *prefix, struct buf *gbnf, struct buf *rules, bool *done)
{
    struct writer w = writer_of(r, spelling, gbnf);
    struct lengths *of = all_lengths(r);
    struct change c = {0};
    *done = true;
    if (!of)
        return -1;
    const struct lengths l = of[r->root];
    const bool fits = l.shortest >= min && (max < 0 || (l.longest >= 0 && l.longest <= max));
    const bool one = !fits && find_change(r, of, min, max, &c);
    mem_free(of);
    if (fits)
        return regex_put(r, spelling, gbnf);
    if (one && c.exact)
        return put_changed(&w, &c);
    const int bad = put_counted(r, spelling, min, max, prefix, gbnf, rules, done);
    if (bad || *done || !one || !part)
        return bad;
    *done = true;
    return put_changed(&w, &c);
}

hasten_status regex_grammar(const char *pattern, size_t len, struct buf *gbnf, struct hasten_error *err)
{
    struct regex r = {0};
    const size_t before = gbnf->len;
    hasten_status st = regex_parse("regular expression", pattern, len, false, &r, err);
    if (!st && (buf_puts(gbnf, "root ::= ") || regex_put(&r, REGEX_PLAIN, gbnf) || buf_puts(gbnf, "\n"))) {
        gbnf->len = before;
        st = error_set(err, HASTEN_ERR_MEMORY, "regular expression: out of memory");
    }
    regex_free(&r);
    return st;
}
