/* Objects and arrays of a JSON Schema: which members may follow which. Owns the keywords properties, required,
 * additionalProperties, patternProperties, propertyNames, minProperties, maxProperties, items, prefixItems, minItems,
 * maxItems and uniqueItems.
 *
 * Members stand in the order of the schema, so an object is a sequence: each optional member may be left out, and what is
 * written first has no comma. Names that no keyword names are written without escapes, and never spell one that is
 * named: they are what a trie of the names does not lead to. */
#include "base/limits.h"
#include "sample/regex.h"
#include "sample/schema_internal.h"
#include "text/unicode.h"
#include <stdio.h>
#include <stdlib.h>

int schema_count(struct schema *s, const json_t *node, const char *keyword, int64_t otherwise, int64_t *out)
{
    const json_t *v = json_object_get(node, keyword);
    *out = otherwise;
    if (!v)
        return 0;
    const double x = json_is_number(v) ? json_number_value(v) : -1;
    if (!(x >= 0) || x != (double)(int64_t)x)
        return schema_fail(s, HASTEN_ERR_FILE, "keyword '%s' is no whole number of at least 0", keyword);
    if (x > LIMIT_GRAMMAR_REPEAT)
        return schema_fail(s, HASTEN_ERR_LIMIT, "keyword '%s' is %.0f (expected at most %d)", keyword, x,
                           LIMIT_GRAMMAR_REPEAT);
    *out = (int64_t)x;
    return 0;
}

/* ---- arrays --------------------------------------------------------------------------------------------------- */

struct items {
    const json_t *first; /* the schemas of the first ones, or NULL */
    int64_t n_first;
    const json_t *rest; /* of those behind them; NULL: there are none */
    const char *first_key, *rest_key;
    int64_t min, max; /* max -1: without bound */
};

static int take_items(struct schema *s, const json_t *node, struct items *t)
{
    const json_t *items = json_object_get(node, "items");
    *t = (struct items){
        .first = json_object_get(node, "prefixItems"), .first_key = "prefixItems", .rest_key = "items"};
    t->rest = items;
    if (json_is_array(items)) { /* drafts before 2020-12 */
        t->first = items;
        t->first_key = "items";
        t->rest_key = "additionalItems";
        t->rest = json_object_get(node, "additionalItems");
    }
    if (t->first && !json_is_array(t->first))
        return schema_fail(s, HASTEN_ERR_FILE, "keyword '%s' is no list", t->first_key);
    t->n_first = t->first ? (int64_t)json_array_size(t->first) : 0;
    if (!t->rest && !t->n_first)
        t->rest = json_true();
    if (json_is_false(t->rest))
        t->rest = NULL;
    if (schema_count(s, node, "minItems", 0, &t->min) || schema_count(s, node, "maxItems", -1, &t->max))
        return -1;
    for (int64_t i = 0; i < t->n_first; i++)
        if (json_is_false(json_array_get(t->first, (size_t)i)) && (t->max < 0 || t->max > i))
            t->max = i;
    if (!t->rest && (t->max < 0 || t->max > t->n_first))
        t->max = t->n_first;
    if (t->max >= 0 && t->min > t->max)
        return schema_fail(s, HASTEN_ERR_FILE, "more items are asked for than may be there");
    if (json_is_true(json_object_get(node, "uniqueItems")) && (t->max < 0 || t->max > 1))
        return schema_refuse(s, "uniqueItems", NULL);
    return 0;
}

/* The items behind the first ones, when some (after > 0) or none stand before them; none: may all be missing? */
static int put_rest(struct schema *s, const struct items *t, int64_t after)
{
    const int64_t min = t->min > after ? t->min - after : 0, max = t->max < 0 ? -1 : t->max - after;
    if (!t->rest || max == 0)
        return 0;
    if (after)
        return schema_put(s, " (\",\" json-ws ") || schema_use(s, t->rest, t->rest_key, NULL, -1) ||
                       schema_put(s, max < 0 ? "){%lld,}" : "){%lld,%lld}", (long long)min, (long long)max)
                   ? -1
                   : 0;
    const int64_t least = min ? min - 1 : 0;
    return schema_put(s, " (") || schema_use(s, t->rest, t->rest_key, NULL, -1) ||
                   schema_put(s, " (\",\" json-ws ") || schema_use(s, t->rest, t->rest_key, NULL, -1) ||
                   schema_put(s, max < 0 ? "){%lld,}" : "){%lld,%lld}", (long long)least,
                              (long long)(max - 1)) ||
                   schema_put(s, " json-ws)%s", min ? "" : "?")
               ? -1
               : 0;
}

/* Rules beside the array's: item i and what follows it, so that lists of any length nest nothing. */
static int put_first_rule(struct schema *s, const struct items *t, int64_t i)
{
    struct buf whole = s->body; /* the array's own text; the rule is written in its place */
    s->body = (struct buf){0};
    const bool last = i + 1 == t->n_first || i + 1 == t->max, must = i < t->min;
    int bad = schema_put(s, "%sr%d-i%lld ::= %s", s->prefix, (int)s->job, (long long)i, must ? "" : "(") ||
              (i && schema_put(s, "\",\" json-ws ")) ||
              schema_use(s, json_array_get(t->first, (size_t)i), t->first_key, NULL, i);
    bad = bad || (last ? put_rest(s, t, t->n_first)
                       : schema_put(s, " %sr%d-i%lld", s->prefix, (int)s->job, (long long)i + 1));
    if (!bad && i == 0)
        bad = schema_put(s, " json-ws");
    bad = bad || schema_put(s, must ? "\n" : ")?\n");
    if (!bad && buf_put(&s->rules, s->body.data, s->body.len))
        bad = schema_no_memory(s);
    buf_free(&s->body);
    s->body = whole;
    return bad;
}

int schema_array(struct schema *s, const json_t *node)
{
    struct items t;
    if (take_items(s, node, &t) || schema_put(s, "\"[\" json-ws"))
        return -1;
    const int64_t n = t.max >= 0 && t.max < t.n_first ? t.max : t.n_first;
    t.n_first = n;
    if (n == 0 && put_rest(s, &t, 0))
        return -1;
    for (int64_t i = 0; i < n; i++)
        if (put_first_rule(s, &t, i))
            return -1;
    if (n && schema_put(s, " %sr%d-i0", s->prefix, (int)s->job))
        return -1;
    return schema_put(s, " \"]\"");
}

/* ---- names that nobody names ---------------------------------------------------------------------------------- */

struct name {
    const char *text;
    size_t len;
};

static int by_text(const void *a, const void *b)
{
    const struct name *x = a, *y = b;
    const int c = memcmp(x->text, y->text, x->len < y->len ? x->len : y->len);
    return c ? c : (x->len > y->len) - (x->len < y->len);
}

static int put_code_point(struct buf *b, uint32_t c)
{
    return buf_printf(b, c < 0x10000 ? "\\u%04X" : "\\U%08X", (unsigned)c);
}

/* The rule of a beginning that some names share. Those of longer beginnings are put on the list, with numbers above *n. */
static int name_rule(struct schema *s, const struct name *names, const struct schema_name *r, int32_t *n)
{
    struct buf *out = &s->rules, others = {0};
    const size_t depth = r->depth;
    const bool ends =
        r->from < r->to && names[r->from].len == depth; /* one of them: so no other name ends here */
    int bad =
        buf_printf(out, "%sr%d-n%d ::=%s", s->prefix, (int)s->job, (int)r->number, ends ? "" : " \"\" |") ||
        buf_puts(&others, " [^\"\\\\\\x00-\\x1F\\x7F");
    for (int64_t i = r->from + ends, end; i < r->to && !bad; i = end) {
        uint32_t c;
        const int len = utf8_decode(names[i].text + depth, names[i].len - depth, &c);
        for (end = i + 1; end < r->to && names[end].len - depth >= (size_t)len &&
                          memcmp(names[end].text + depth, names[i].text + depth, (size_t)len) == 0;)
            end++;
        if (c < ' ' || c == '"' || c == '\\' || c == 0x7F)
            continue; /* others have none of these anyway */
        ++*n;
        bad = buf_puts(out, " [") || put_code_point(out, c) ||
              buf_printf(out, "] %sr%d-n%d |", s->prefix, (int)s->job, (int)*n) ||
              put_code_point(&others, c) ||
              LIST_PUSH(&s->names, (struct schema_name){i, end, depth + (size_t)len, *n});
    }
    bad = bad || buf_puts(&others, "] json-plain*") || buf_put(out, others.data, others.len) ||
          buf_puts(out, "\n");
    buf_free(&others);
    return bad;
}

/* ---- objects -------------------------------------------------------------------------------------------------- */

struct member {
    const char *name;
    size_t len;
    const json_t *schema;
    bool required;
};

struct members {
    LIST(struct member) list;
    int64_t n_required;
    const json_t *others; /* the schema of further members; NULL: there are none */
    const json_t *names;  /* NULL, or the schema of their names */
    const char *pattern;  /* NULL, or what their names are searched for */
    const char *others_key;
    int64_t min, max;               /* members */
    int64_t min_others, max_others; /* -1: without bound */
};

static bool is_required(const json_t *required, const char *name)
{
    size_t i;
    const json_t *one;
    json_array_foreach(required, i, one)
    {
        if (json_is_string(one) && strcmp(json_string_value(one), name) == 0)
            return true;
    }
    return false;
}

/* Required names that no property has: any value, or what other members are. */
static int add_unnamed(struct schema *s, struct members *m, const json_t *properties, const json_t *required)
{
    size_t i;
    const json_t *one;
    json_array_foreach(required, i, one)
    {
        if (!json_is_string(one))
            return schema_fail(s, HASTEN_ERR_FILE, "keyword 'required' holds something that is no string");
        if (json_object_get(properties, json_string_value(one)))
            continue;
        if (m->pattern || m->names)
            return schema_refuse(s, "required",
                                 "of a name that is no property, beside patternProperties or propertyNames");
        if (m->others_key && !m->others)
            return schema_fail(s, HASTEN_ERR_FILE, "'%.80s' is required, and not among the properties",
                               json_string_value(one));
        if (LIST_PUSH(&m->list, (struct member){json_string_value(one), json_string_length(one),
                                                m->others ? m->others : json_true(), true}))
            return schema_no_memory(s);
        m->n_required++;
    }
    return 0;
}

static int take_others(struct schema *s, const json_t *node, struct members *m)
{
    const json_t *properties = json_object_get(node, "properties"),
                 *more = json_object_get(node, "additionalProperties"),
                 *patterns = json_object_get(node, "patternProperties");
    m->others = more ? more : properties ? NULL : json_true();
    m->others_key = more ? "additionalProperties" : NULL;
    m->names = json_object_get(node, "propertyNames");
    if (json_object_size(patterns)) {
        if (json_object_size(patterns) > 1 || json_object_size(properties) || m->names ||
            (more && !json_is_false(more)))
            return schema_refuse(s, "patternProperties", "beside other names");
        void *only = json_object_iter((json_t *)(uintptr_t)patterns);
        m->pattern = json_object_iter_key(only);
        m->others = json_object_iter_value(only);
        m->others_key = "patternProperties";
    }
    if (m->names && json_object_size(properties))
        return schema_refuse(s, "propertyNames", "beside properties");
    if (json_is_false(m->others))
        m->others = NULL;
    return 0;
}

/* Rules for names that are none of the object's; -n0 is the first. */
static int put_other_names(struct schema *s, const struct members *m, const json_t *properties)
{
    struct name *names = mem_array(json_object_size(properties) + (size_t)m->list.n + 1, sizeof *names);
    int64_t n = 0, n_apart = 0;
    int32_t n_rules = 0;
    const char *key;
    size_t len;
    json_t *value;
    if (!names)
        return schema_no_memory(s);
    json_object_keylen_foreach((json_t *)(uintptr_t)properties, key, len, value)
    {
        names[n++] = (struct name){key, len};
    }
    for (int64_t i = 0; i < m->list.n; i++)
        names[n++] = (struct name){m->list.at[i].name, m->list.at[i].len};
    if (n)
        qsort(names, (size_t)n, sizeof *names, by_text);
    for (int64_t i = 0; i < n; i++)
        if (!i || by_text(&names[i], &names[n_apart - 1]))
            names[n_apart++] = names[i];
    s->names.n = 0;
    int bad = LIST_PUSH(&s->names, (struct schema_name){0, n_apart, 0, 0});
    for (int64_t i = 0; i < s->names.n && !bad; i++) {
        const struct schema_name r = s->names.at[i];
        bad = name_rule(s, names, &r, &n_rules);
    }
    mem_free(names);
    return bad ? schema_no_memory(s) : 0;
}

/* How many members there may be, as numbers of the optional ones and of the others. */
static int take_counts(struct schema *s, const json_t *node, struct members *m)
{
    if (schema_count(s, node, "minProperties", 0, &m->min) ||
        schema_count(s, node, "maxProperties", -1, &m->max))
        return -1;
    const int64_t n = m->list.n, optional = n - m->n_required;
    m->min_others = 0;
    m->max_others = m->others ? -1 : 0;
    if (m->max >= 0 && m->max < m->n_required)
        return schema_fail(s, HASTEN_ERR_FILE, "more members are required than maxProperties allows");
    if (m->max >= 0 && m->others)
        m->max_others = m->max > n ? m->max - n : 0;
    if (m->max >= 0 && m->max < n) { /* the optional ones go, the first beyond it first */
        int64_t room = m->max - m->n_required, kept = 0;
        for (int64_t i = 0; i < n; i++)
            if (m->list.at[i].required || room-- > 0)
                m->list.at[kept++] = m->list.at[i];
        m->list.n = kept;
    }
    if (m->min <= m->n_required || (m->min == 1 && !m->n_required && (optional || m->others)))
        return 0;
    if (!m->others && m->min == m->list.n) {
        for (int64_t i = 0; i < m->list.n; i++)
            m->list.at[i].required = true;
        m->n_required = m->list.n;
        return 0;
    }
    return schema_refuse(s, "minProperties", "above 1 and above what is required");
}

static int take_members(struct schema *s, const json_t *node, struct members *m)
{
    const json_t *properties = json_object_get(node, "properties"),
                 *required = json_object_get(node, "required");
    const char *key;
    size_t len;
    json_t *value;
    if ((properties && !json_is_object(properties)) || (required && !json_is_array(required)))
        return schema_fail(s, HASTEN_ERR_FILE, "keyword '%s' is no %s",
                           properties && !json_is_object(properties) ? "properties" : "required",
                           properties && !json_is_object(properties) ? "object" : "list");
    if (take_others(s, node, m))
        return -1;
    json_object_keylen_foreach((json_t *)(uintptr_t)properties, key, len, value)
    {
        const bool must = is_required(required, key);
        if (json_is_false(value) && must)
            return schema_fail(s, HASTEN_ERR_FILE, "'%.80s' is required, and its schema allows nothing", key);
        if (json_is_false(value))
            continue;
        if (LIST_PUSH(&m->list, (struct member){key, len, value, must}))
            return schema_no_memory(s);
        m->n_required += must;
    }
    return add_unnamed(s, m, properties, required) || take_counts(s, node, m) ? -1 : 0;
}

/* "name": value */
static int put_member(struct schema *s, const struct member *m)
{
    json_t *name = json_stringn(m->name, m->len);
    const int bad = name ? schema_literal(s, name) : schema_no_memory(s);
    json_decref(name);
    return bad || schema_put(s, " \":\" json-ws ") || schema_use(s, m->schema, "properties", m->name, -1) ? -1
                                                                                                          : 0;
}

static int put_other_pattern(struct schema *s, const struct members *m)
{
    struct regex r = {0};
    s->status = regex_parse("pattern", m->pattern, strlen(m->pattern), true, &r, s->err);
    int bad = s->status != HASTEN_OK;
    if (bad) {
        const hasten_status st = s->status;
        error_prefix(s->err, "%s: %s", s->what, s->jobs.at[s->job].place);
        s->status = st;
    } else if (schema_put(s, "\"\\\"\" ") || regex_put(&r, REGEX_JSON, &s->body) ||
               schema_put(s, " \"\\\"\"")) {
        bad = schema_no_memory(s);
    }
    regex_free(&r);
    return bad;
}

/* A name and a value of those that no property names. */
static int put_other(struct schema *s, const json_t *node, const struct members *m)
{
    const char *key = m->others_key ? m->others_key : "additionalProperties";
    int bad;
    if (m->names)
        bad = schema_use(s, m->names, "propertyNames", NULL, -1);
    else if (m->pattern)
        bad = put_other_pattern(s, m);
    else if (json_object_size(json_object_get(node, "properties")) || m->list.n)
        bad = schema_put(s, "\"\\\"\" %sr%d-n0 \"\\\"\"", s->prefix, (int)s->job);
    else
        bad = schema_put(s, "json-string");
    return bad || schema_put(s, " \":\" json-ws ") || schema_use(s, m->others, key, m->pattern, -1);
}

/* The others behind a member (max -1: without bound), each with its comma. */
static int put_others(struct schema *s, const json_t *node, const struct members *m, int64_t max)
{
    if (!m->others || max == 0)
        return 0;
    if (schema_put(s, " (\",\" json-ws ") || put_other(s, node, m))
        return -1;
    return max < 0 ? schema_put(s, ")*") : schema_put(s, "){0,%lld}", (long long)max);
}

/* A member behind another one. */
static int put_behind(struct schema *s, const struct member *m)
{
    return schema_put(s, m->required ? " \",\" json-ws " : " (\",\" json-ws ") || put_member(s, m) ||
                   (!m->required && schema_put(s, ")?"))
               ? -1
               : 0;
}

/* Members from number i on, behind another one. */
static int put_following(struct schema *s, const json_t *node, const struct members *m, int64_t i)
{
    for (; i < m->list.n; i++)
        if (put_behind(s, &m->list.at[i]))
            return -1;
    return put_others(s, node, m, m->max_others);
}

/* A rule beside the object's: member i may follow another, then those behind it, up to `last`; then all the rest. */
static int put_tail_rule(struct schema *s, const json_t *node, const struct members *m, int64_t i,
                         int64_t last)
{
    struct buf whole = s->body;
    s->body = (struct buf){0};
    int bad = schema_put(s, "%sr%d-t%lld ::=", s->prefix, (int)s->job, (long long)i);
    if (!bad && i >= last)
        bad = put_following(s, node, m, i);
    else
        bad = bad || put_behind(s, &m->list.at[i]) ||
              schema_put(s, " %sr%d-t%lld", s->prefix, (int)s->job, (long long)i + 1);
    bad = bad || schema_put(s, "\n");
    if (!bad && buf_put(&s->rules, s->body.data, s->body.len))
        bad = schema_no_memory(s);
    buf_free(&s->body);
    s->body = whole;
    return bad;
}

/* All of an object between its braces: the member that is written first is one of those up to the first required. */
static int put_members(struct schema *s, const json_t *node, const struct members *m)
{
    int64_t first = 0;
    while (first < m->list.n && !m->list.at[first].required)
        first++;
    const bool must = first < m->list.n;
    const int64_t last = must ? first : first - 1; /* may be written first */
    const bool others = !must && m->others && m->max_others != 0;
    if (!others && last < 0)
        return m->min ? schema_fail(s, HASTEN_ERR_FILE, "no members, and minProperties asks for some") : 0;
    if (last > 0)
        for (int64_t i = 1; i <= last + 1; i++)
            if (put_tail_rule(s, node, m, i, last + 1))
                return -1;
    if (schema_put(s, " (("))
        return -1;
    for (int64_t i = 0; i <= last; i++) {
        if ((i && schema_put(s, " | ")) || put_member(s, &m->list.at[i]))
            return -1;
        if (last > 0 ? schema_put(s, " %sr%d-t%lld", s->prefix, (int)s->job, (long long)i + 1)
                     : put_following(s, node, m, i + 1))
            return -1;
    }
    if (others && ((last >= 0 && schema_put(s, " | ")) || put_other(s, node, m) ||
                   put_others(s, node, m, m->max_others < 0 ? -1 : m->max_others - 1)))
        return -1;
    return schema_put(s, must || m->min ? ") json-ws)" : ") json-ws)?");
}

int schema_object(struct schema *s, const json_t *node)
{
    struct members m = {0};
    int bad = take_members(s, node, &m);
    if (!bad && m.others && !m.names && !m.pattern &&
        (m.list.n || json_object_size(json_object_get(node, "properties"))))
        bad = put_other_names(s, &m, json_object_get(node, "properties"));
    bad = bad || schema_put(s, "\"{\" json-ws") || put_members(s, node, &m) || schema_put(s, " \"}\"");
    LIST_FREE(&m.list);
    return bad;
}
