/* The compiler of JSON Schemas (json_schema.h): jobs and their rules, which keywords there are, $ref, and what a schema
 * says before its type is looked at. Owns the order of work; merging is schema_merge.c, types are schema_*.c. */
#include "sample/json_schema.h"
#include "base/limits.h"
#include "sample/schema_internal.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- errors and text ------------------------------------------------------------------------------------------ */

int schema_fail(struct schema *s, hasten_status status, const char *fmt, ...)
{
    char text[256];
    va_list args;
    if (s->status)
        return -1;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    s->status = error_set(s->err, status, "%s: %.200s: %s", s->what,
                          s->jobs.n ? s->jobs.at[s->job].place : "#", text);
    return -1;
}

int schema_no_memory(struct schema *s)
{
    return schema_fail(s, HASTEN_ERR_MEMORY, "out of memory");
}

int schema_refuse(struct schema *s, const char *keyword, const char *more)
{
    return schema_fail(s, HASTEN_ERR_UNSUPPORTED, "keyword '%.64s'%s%s: unsupported", keyword,
                       more ? " " : "", more ? more : "");
}

int schema_put(struct schema *s, const char *fmt, ...)
{
    char text[256];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    if (s->body.len + s->rules.len > LIMIT_GRAMMAR_BYTES)
        return schema_fail(s, HASTEN_ERR_LIMIT, "more than %d bytes of grammar", LIMIT_GRAMMAR_BYTES);
    return buf_puts(&s->body, text) ? schema_no_memory(s) : 0;
}

/* ---- keywords ------------------------------------------------------------------------------------------------- */

enum {
    SAYS_NOTHING, /* about what fits */
    SAYS = 0x100, /* | the types that it speaks of */
    REFUSED = 0x200
};

static const struct keyword {
    const char *name;
    int what;
} keywords[] = {
    {"type", SAYS},
    {"properties", SAYS | SCHEMA_OBJECT},
    {"required", SAYS | SCHEMA_OBJECT},
    {"additionalProperties", SAYS | SCHEMA_OBJECT},
    {"patternProperties", SAYS | SCHEMA_OBJECT},
    {"propertyNames", SAYS | SCHEMA_OBJECT},
    {"minProperties", SAYS | SCHEMA_OBJECT},
    {"maxProperties", SAYS | SCHEMA_OBJECT},
    {"unevaluatedProperties", SAYS | SCHEMA_OBJECT},
    {"items", SAYS | SCHEMA_ARRAY},
    {"prefixItems", SAYS | SCHEMA_ARRAY},
    {"additionalItems", SAYS | SCHEMA_ARRAY},
    {"unevaluatedItems", SAYS | SCHEMA_ARRAY},
    {"minItems", SAYS | SCHEMA_ARRAY},
    {"maxItems", SAYS | SCHEMA_ARRAY},
    {"uniqueItems", SAYS | SCHEMA_ARRAY},
    {"enum", SAYS},
    {"const", SAYS},
    {"anyOf", SAYS},
    {"oneOf", SAYS},
    {"allOf", SAYS},
    {"$ref", SAYS},
    {"nullable", SAYS},
    {"minLength", SAYS | SCHEMA_STRING},
    {"maxLength", SAYS | SCHEMA_STRING},
    {"pattern", SAYS | SCHEMA_STRING},
    {"format", SAYS | SCHEMA_STRING},
    {"minimum", SAYS | SCHEMA_NUMBER},
    {"maximum", SAYS | SCHEMA_NUMBER},
    {"exclusiveMinimum", SAYS | SCHEMA_NUMBER},
    {"exclusiveMaximum", SAYS | SCHEMA_NUMBER},
    {"multipleOf", SAYS | SCHEMA_NUMBER},
    {"not", SAYS | REFUSED},
    {"if", SAYS | REFUSED},
    {"then", SAYS | REFUSED},
    {"else", SAYS | REFUSED},
    {"contains", SAYS | REFUSED},
    {"minContains", SAYS | REFUSED},
    {"maxContains", SAYS | REFUSED},
    {"dependentRequired", SAYS | REFUSED},
    {"dependentSchemas", SAYS | REFUSED},
    {"dependencies", SAYS | REFUSED},
    {"$dynamicRef", SAYS | REFUSED},
    {"$recursiveRef", SAYS | REFUSED},
};

static int keyword_of(const char *name)
{
    for (size_t i = 0; i < sizeof keywords / sizeof *keywords; i++)
        if (strcmp(keywords[i].name, name) == 0)
            return keywords[i].what;
    return SAYS_NOTHING;
}

bool schema_constrains(const char *keyword)
{
    return keyword_of(keyword) != SAYS_NOTHING;
}

static int check_keywords(struct schema *s, const json_t *node)
{
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)node, key, value)
    {
        if (keyword_of(key) & REFUSED)
            return schema_refuse(s, key, NULL);
        /* closed is what objects and arrays are here */
        if ((!strcmp(key, "unevaluatedProperties") || !strcmp(key, "unevaluatedItems")) &&
            !json_is_false(value))
            return schema_refuse(s, key, "other than false");
    }
    return 0;
}

/* ---- types ---------------------------------------------------------------------------------------------------- */

static int type_named(const char *name)
{
    static const char *const names[] = {"null", "boolean", "integer", "number", "string", "array", "object"};
    for (int i = 0; i < 7; i++)
        if (strcmp(names[i], name) == 0)
            return 1 << i;
    return 0;
}

static int types_listed(struct schema *s, const json_t *type)
{
    int types = 0;
    size_t i;
    const json_t *one;
    if (json_is_string(type))
        types = type_named(json_string_value(type));
    json_array_foreach(type, i, one)
    {
        const int t = json_is_string(one) ? type_named(json_string_value(one)) : 0;
        if (!t)
            return schema_fail(s, HASTEN_ERR_FILE, "keyword 'type' names no type of JSON");
        types |= t;
    }
    if (!types)
        return schema_fail(
            s, HASTEN_ERR_FILE,
            "keyword 'type' is '%.40s' (expected null, boolean, integer, number, string, array, object, "
            "or a list of these)",
            json_is_string(type) ? json_string_value(type) : "no string");
    return types;
}

int schema_types(struct schema *s, const json_t *node)
{
    const json_t *type = json_object_get(node, "type");
    int types = 0;
    const char *key;
    json_t *value;
    if (type) {
        types = types_listed(s, type);
        if (types > 0 && json_is_true(json_object_get(node, "nullable")))
            types |= SCHEMA_NULL;
        return types;
    }
    json_object_foreach((json_t *)(uintptr_t)node, key, value)
    {
        types |= keyword_of(key) & SCHEMA_ANY;
    }
    return types;
}

static int type_of(const json_t *value)
{
    switch (json_typeof(value)) {
    case JSON_NULL:
        return SCHEMA_NULL;
    case JSON_TRUE:
    case JSON_FALSE:
        return SCHEMA_BOOLEAN;
    case JSON_INTEGER:
        return SCHEMA_INTEGER;
    case JSON_REAL:
        return json_real_value(value) == (double)(int64_t)json_real_value(value) ? SCHEMA_INTEGER
                                                                                 : SCHEMA_NUMBER;
    case JSON_STRING:
        return SCHEMA_STRING;
    case JSON_ARRAY:
        return SCHEMA_ARRAY;
    default:
        return SCHEMA_OBJECT;
    }
}

/* ---- jobs ----------------------------------------------------------------------------------------------------- */

static uint64_t hash_node(const json_t *node)
{
    return (uint64_t)(uintptr_t)node * 0x9E3779B97F4A7C15ull >> 20;
}

static int rehash(struct schema *s)
{
    const int64_t cap = s->table.cap ? 2 * s->table.cap : 64;
    int32_t *at = mem_calloc((size_t)cap, sizeof *at);
    if (!at)
        return schema_no_memory(s);
    for (int64_t i = 0; i < s->jobs.n; i++) {
        int64_t k = (int64_t)(hash_node(s->jobs.at[i].node) & (uint64_t)(cap - 1));
        while (at[k])
            k = (k + 1) & (cap - 1);
        at[k] = (int32_t)i + 1;
    }
    mem_free(s->table.at);
    s->table.at = at;
    s->table.n = s->table.cap = cap;
    return 0;
}

/* The job of a schema at a place, which is taken over; -1. */
static int32_t job_of(struct schema *s, const json_t *node, char *place)
{
    if (!place || (2 * s->jobs.n >= s->table.cap && rehash(s))) {
        mem_free(place);
        return schema_no_memory(s);
    }
    int64_t k = (int64_t)(hash_node(node) & (uint64_t)(s->table.cap - 1));
    for (; s->table.at[k]; k = (k + 1) & (s->table.cap - 1))
        if (s->jobs.at[s->table.at[k] - 1].node == node) {
            mem_free(place);
            return s->table.at[k] - 1;
        }
    if (s->jobs.n >= LIMIT_SCHEMA_RULES) {
        mem_free(place);
        return schema_fail(s, HASTEN_ERR_LIMIT,
                           "more than %d schemas (or what allOf makes of them never ends)",
                           LIMIT_SCHEMA_RULES);
    }
    if (LIST_PUSH(&s->jobs, (struct schema_job){node, place})) {
        mem_free(place);
        return schema_no_memory(s);
    }
    s->table.at[k] = (int32_t)s->jobs.n;
    return (int32_t)(s->jobs.n - 1);
}

/* The place of what is inside the job at hand. A name is written as JSON pointers have it. */
static char *place_inside(const struct schema *s, const char *keyword, const char *name, int64_t index)
{
    struct buf b = {0};
    const char *here = s->jobs.at[s->job].place;
    int bad = buf_puts(&b, strlen(here) < LIMIT_SCHEMA_PLACE ? here : "#/...");
    if (keyword)
        bad = bad || buf_printf(&b, "/%s", keyword);
    if (name)
        bad = bad || buf_putc(&b, '/');
    for (const char *c = name; c && *c && !bad; c++)
        bad = *c == '~' ? buf_puts(&b, "~0") : *c == '/' ? buf_puts(&b, "~1") : buf_putc(&b, *c);
    if (!name && index >= 0)
        bad = bad || buf_printf(&b, "/%lld", (long long)index);
    if (bad)
        buf_free(&b);
    return b.data;
}

int schema_use(struct schema *s, const json_t *node, const char *keyword, const char *name, int64_t index)
{
    char *place = place_inside(s, keyword, name, index);
    /* a bare $ref is the rule of what it names */
    for (int n = 0; json_is_object(node); n++) {
        const json_t *ref = json_object_get(node, "$ref"), *target;
        bool bare = json_is_string(ref);
        const char *key;
        json_t *value;
        json_object_foreach((json_t *)(uintptr_t)node, key, value) bare =
            bare && (value == ref || !schema_constrains(key));
        if (!bare)
            break;
        if (schema_resolve(s, json_string_value(ref), &target)) {
            mem_free(place);
            return -1;
        }
        if (n > 64) {
            mem_free(place);
            return schema_fail(s, HASTEN_ERR_FILE, "$ref '%.80s' leads in a circle", json_string_value(ref));
        }
        mem_free(place);
        place = mem_strndup(json_string_value(ref), json_string_length(ref));
        node = target;
    }
    const int32_t job = job_of(s, node, place);
    return job < 0 ? -1 : schema_put(s, "%sr%d", s->prefix, (int)job);
}

/* ---- what a schema says --------------------------------------------------------------------------------------- */

/* {"type": ...} of one type alone is written without asking more. */
static int put_type(struct schema *s, const json_t *node, int type)
{
    switch (type) {
    case SCHEMA_NULL:
        return schema_put(s, "\"null\"");
    case SCHEMA_BOOLEAN:
        return schema_put(s, "\"true\" | \"false\"");
    case SCHEMA_INTEGER:
        return schema_integer(s, node);
    case SCHEMA_NUMBER:
        return schema_number(s, node);
    case SCHEMA_STRING:
        return schema_string(s, node);
    case SCHEMA_ARRAY:
        return schema_array(s, node);
    default:
        return schema_object(s, node);
    }
}

static int put_types(struct schema *s, const json_t *node)
{
    int types = schema_types(s, node);
    bool any = false;
    if (types < 0)
        return -1;
    if (types == 0)
        return schema_put(s, "json-value");
    if (types & SCHEMA_NUMBER)
        types &= ~SCHEMA_INTEGER;
    for (int t = 1; t <= SCHEMA_OBJECT; t <<= 1) {
        if (!(types & t))
            continue;
        if ((any && schema_put(s, " | ")) || put_type(s, node, t))
            return -1;
        any = true;
    }
    return 0;
}

/* Keywords that say something beside those that a list of values answers. */
static const char *beside_values(const json_t *node)
{
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)node, key, value)
    {
        if (schema_constrains(key) && strcmp(key, "enum") && strcmp(key, "const") && strcmp(key, "type") &&
            strcmp(key, "nullable"))
            return key;
    }
    return NULL;
}

static int put_values(struct schema *s, const json_t *node)
{
    const json_t *values = json_object_get(node, "enum"), *only = json_object_get(node, "const"), *one;
    const size_t n = values ? json_array_size(values) : 1;
    int types = json_object_get(node, "type") ? schema_types(s, node) : SCHEMA_ANY;
    bool any = false;
    if (types < 0)
        return -1;
    if (values && !json_is_array(values))
        return schema_fail(s, HASTEN_ERR_FILE, "keyword 'enum' is no list");
    if (beside_values(node))
        return schema_refuse(s, beside_values(node), values ? "beside enum" : "beside const");
    if (types & SCHEMA_NUMBER)
        types |= SCHEMA_INTEGER;
    for (size_t i = 0; i < n; i++) {
        one = values ? json_array_get(values, i) : only;
        if (!(type_of(one) & types) || (only && !json_equal(one, only)))
            continue;
        if ((any && schema_put(s, " | ")) || schema_literal(s, one))
            return -1;
        any = true;
    }
    return any ? 0 : schema_fail(s, HASTEN_ERR_FILE, "no value of enum or const fits");
}

static int put_branches(struct schema *s, const json_t *node, const char *keyword)
{
    const json_t *branches = json_object_get(node, keyword), *branch;
    size_t i;
    bool any = false;
    if (!json_is_array(branches) || json_array_size(branches) == 0)
        return schema_fail(s, HASTEN_ERR_FILE, "keyword '%s' is no list with a schema", keyword);
    json_t *rest = json_copy((json_t *)(uintptr_t)node);
    if (!rest || json_object_del(rest, keyword)) {
        json_decref(rest);
        return schema_no_memory(s);
    }
    const json_t *kept = schema_keep(s, rest);
    if (!kept)
        return -1;
    json_array_foreach(branches, i, branch)
    {
        if (json_is_false(branch))
            continue;
        const json_t *both = schema_both(s, kept, branch);
        if (!both)
            return -1;
        if ((any && schema_put(s, " | ")) || schema_use(s, both, keyword, NULL, (int64_t)i))
            return -1;
        any = true;
    }
    return any ? 0 : schema_fail(s, HASTEN_ERR_FILE, "no schema of %s allows anything", keyword);
}

/* null, or what the schema says without "nullable". */
static int put_nullable(struct schema *s, const json_t *node)
{
    json_t *rest = json_copy((json_t *)(uintptr_t)node);
    if (!rest || json_object_del(rest, "nullable")) {
        json_decref(rest);
        return schema_no_memory(s);
    }
    const json_t *kept = schema_keep(s, rest);
    if (!kept)
        return -1;
    return schema_put(s, "\"null\" | ") || schema_use(s, kept, NULL, NULL, -1) ? -1 : 0;
}

static int put_body(struct schema *s)
{
    const json_t *node = s->jobs.at[s->job].node;
    if (json_is_true(node))
        return schema_put(s, "json-value");
    if (json_is_false(node))
        return schema_fail(s, HASTEN_ERR_FILE, "false allows nothing");
    if (!json_is_object(node))
        return schema_fail(s, HASTEN_ERR_FILE, "no schema (expected an object, true or false)");
    if (json_is_true(json_object_get(node, "nullable")) && !json_object_get(node, "type"))
        return put_nullable(s, node);
    if (schema_flatten(s, node, &node) || check_keywords(s, node))
        return -1;
    if (json_object_get(node, "anyOf"))
        return put_branches(s, node, "anyOf");
    if (json_object_get(node, "oneOf"))
        return put_branches(s, node, "oneOf");
    if (json_object_get(node, "enum") || json_object_get(node, "const"))
        return put_values(s, node);
    return put_types(s, node);
}

static int put_rule(struct schema *s)
{
    s->n_rules = 0;
    buf_clear(&s->body);
    buf_clear(&s->rules);
    if (put_body(s))
        return -1;
    if (buf_printf(s->out, "%sr%d ::= ", s->prefix, (int)s->job) ||
        buf_put(s->out, s->body.data, s->body.len) || buf_putc(s->out, '\n') ||
        (s->rules.len && buf_put(s->out, s->rules.data, s->rules.len)))
        return schema_no_memory(s);
    if (s->out->len > LIMIT_GRAMMAR_BYTES)
        return schema_fail(s, HASTEN_ERR_LIMIT, "more than %d bytes of grammar", LIMIT_GRAMMAR_BYTES);
    return 0;
}

/* ---- the whole ------------------------------------------------------------------------------------------------ */

static void close_schema(struct schema *s)
{
    for (int64_t i = 0; i < s->jobs.n; i++)
        mem_free(s->jobs.at[i].place);
    for (int64_t i = 0; i < s->made.n; i++) {
        json_decref(s->made.at[i].node);
        mem_free(s->made.at[i].text);
    }
    LIST_FREE(&s->jobs);
    LIST_FREE(&s->table);
    LIST_FREE(&s->made);
    LIST_FREE(&s->names);
    buf_free(&s->body);
    buf_free(&s->rules);
}

hasten_status json_schema_rules(const char *what, const json_t *schema, const char *prefix, struct buf *gbnf,
                                struct hasten_error *err)
{
    struct schema s = {.what = what,
                       .root = schema,
                       .prefix = prefix,
                       .out = gbnf,
                       .depth = {.limit = LIMIT_JSON_DEPTH},
                       .err = err};
    const size_t before = gbnf->len;
    if (buf_printf(gbnf, "%sroot ::= %sr0\n", prefix, prefix) || job_of(&s, schema, mem_strndup("#", 1)) < 0)
        schema_no_memory(&s);
    for (; !s.status && s.job < s.jobs.n; s.job++)
        put_rule(&s);
    if (s.status)
        gbnf->len = before;
    close_schema(&s);
    return s.status;
}

int json_rules(struct buf *gbnf)
{
    return buf_puts(
        gbnf,
        "json-ws ::= ([ \\n\\t] [ \\t]{0,20})?\n"
        "json-value ::= json-object | json-array | json-string | json-number | \"true\" | \"false\" | \"null\"\n"
        "json-object ::= \"{\" json-ws (json-pair (\",\" json-ws json-pair)* json-ws)? \"}\"\n"
        "json-pair ::= json-string \":\" json-ws json-value\n"
        "json-array ::= \"[\" json-ws (json-value (\",\" json-ws json-value)* json-ws)? \"]\"\n"
        "json-string ::= \"\\\"\" json-char* \"\\\"\"\n"
        "json-char ::= [^\"\\\\\\x7F\\x00-\\x1F] | json-escape\n"
        "json-plain ::= [^\"\\\\\\x7F\\x00-\\x1F]\n"
        "json-escape ::= \"\\\\\" ([\"\\\\bfnrt] | \"u\" ([0-9a-cA-CeEfF] json-hex{3} | [dD] [0-7] json-hex{2} | "
        "[dD] [89abAB] json-hex{2} \"\\\\u\" [dD] [c-fC-F] json-hex{2}))\n"
        "json-hex ::= [0-9a-fA-F]\n"
        "json-integer ::= \"-\"? (\"0\" | [1-9] [0-9]{0,14})\n"
        "json-number ::= json-integer (\".\" [0-9]{1,16})? ([eE] [-+]? [0-9]{1,2})?\n");
}

hasten_status json_schema_grammar(const char *schema, size_t len, struct buf *gbnf, struct hasten_error *err)
{
    const size_t before = gbnf->len;
    json_t *node = NULL;
    hasten_status st = json_parse_unique("JSON schema", schema, len, &node, err);
    if (!st)
        st = json_schema_rules("JSON schema", node, "", gbnf, err);
    if (!st && json_rules(gbnf))
        st = error_set(err, HASTEN_ERR_MEMORY, "JSON schema: out of memory");
    if (st)
        gbnf->len = before;
    json_decref(node);
    return st;
}
