/* Putting JSON Schemas together: what $ref names, and allOf (schema_internal.h). Two schemas become the one that allows
 * what both allow; where JSON has no words for that, the keyword is refused. Schemas made here are kept until the end,
 * and equal ones are one, so that recursion through allOf comes to rest. */
#include "base/limits.h"
#include "base/values.h"
#include "sample/schema_internal.h"
#include <stdio.h>

static json_t *own(const json_t *v)
{
    return (json_t *)(uintptr_t)v; /* jansson counts references in what it only reads */
}

/* ---- $ref ----------------------------------------------------------------------------------------------------- */

/* One part of a JSON pointer in a URI's fragment: %XX, ~0 and ~1 become what they stand for. */
static int pointer_part(const char **at, struct buf *out)
{
    const char *p = *at;
    buf_clear(out);
    int bad = buf_puts(out, "");
    while (*p && *p != '/' && !bad) {
        char c = *p++;
        if (c == '%' && value_hex_digit(p[0]) >= 0 && value_hex_digit(p[1]) >= 0) {
            c = (char)(value_hex_digit(p[0]) << 4 | value_hex_digit(p[1]));
            p += 2;
        }
        if (c == '~' && (*p == '0' || *p == '1'))
            c = *p++ == '0' ? '~' : '/';
        bad = buf_putc(out, c);
    }
    *at = p;
    return bad;
}

static const json_t *inside(const json_t *node, const char *part)
{
    if (json_is_object(node))
        return json_object_get(node, part);
    size_t i = 0;
    if (!json_is_array(node) || !*part)
        return NULL;
    for (; *part >= '0' && *part <= '9' && i < SIZE_MAX / 16; part++)
        i = i * 10 + (size_t)(*part - '0');
    return *part ? NULL : json_array_get(node, i);
}

int schema_resolve(struct schema *s, const char *ref, const json_t **out)
{
    struct buf part = {0};
    const char *at = ref;
    if (ref[0] != '#' || (ref[1] && ref[1] != '/'))
        return schema_fail(
            s, HASTEN_ERR_UNSUPPORTED,
            "keyword '$ref' to '%.80s': unsupported (expected a place in the schema, such as #/$defs/NAME)",
            ref);
    *out = s->root;
    for (at++; *at == '/' && *out;) {
        at++;
        if (pointer_part(&at, &part)) {
            buf_free(&part);
            return schema_no_memory(s);
        }
        *out = inside(*out, part.data);
    }
    buf_free(&part);
    return *out ? 0
                : schema_fail(s, HASTEN_ERR_FILE, "keyword '$ref' names '%.80s', which is not there", ref);
}

/* ---- schemas that are made ------------------------------------------------------------------------------------ */

static int to_buffer(const char *text, size_t len, void *buffer)
{
    return buf_put(buffer, text, len);
}

const json_t *schema_keep(struct schema *s, json_t *node)
{
    struct buf text = {0};
    int bad = json_dump_callback(node, to_buffer, &text, JSON_ENCODE_ANY | JSON_COMPACT);
    for (int64_t i = 0; i < s->made.n && !bad; i++)
        if (strcmp(s->made.at[i].text, text.data) == 0) {
            json_decref(node);
            buf_free(&text);
            return s->made.at[i].node;
        }
    s->made_bytes += text.len;
    if (!bad && (s->made_bytes > LIMIT_SCHEMA_MADE || s->made.n >= LIMIT_SCHEMA_RULES))
        schema_fail(s, HASTEN_ERR_LIMIT, "allOf, anyOf and oneOf make too many schemas");
    else if (bad || LIST_PUSH(&s->made, (struct schema_made){node, text.data}))
        schema_no_memory(s);
    else
        return node;
    json_decref(node);
    buf_free(&text);
    return NULL;
}

static bool says_nothing(const json_t *node)
{
    const char *key;
    json_t *value;
    json_object_foreach(own(node), key, value)
    {
        if (schema_constrains(key))
            return false;
    }
    return json_is_object(node) || json_is_true(node);
}

const json_t *schema_both(struct schema *s, const json_t *a, const json_t *b)
{
    if (says_nothing(b) || json_is_false(a) || json_equal(a, b))
        return a;
    if (says_nothing(a) || json_is_false(b))
        return b;
    json_t *list = json_array(), *both = json_object();
    if (!list || !both || json_array_append(list, own(a)) || json_array_append(list, own(b)) ||
        json_object_set(both, "allOf", list)) {
        json_decref(list);
        json_decref(both);
        schema_no_memory(s);
        return NULL;
    }
    json_decref(list);
    return schema_keep(s, both);
}

/* ---- merging: each puts what `value` says of `key` into acc, which says something else already ------------------ */

static int set(struct schema *s, json_t *acc, const char *key, const json_t *value)
{
    return !value || json_object_set(acc, key, own(value)) ? schema_no_memory(s) : 0;
}

/* Takes a new value over. */
static int set_new(struct schema *s, json_t *acc, const char *key, json_t *value)
{
    return !value || json_object_set_new(acc, key, value) ? schema_no_memory(s) : 0;
}

static int merge_both(struct schema *s, json_t *acc, const char *key, const json_t *value)
{
    const json_t *both = schema_both(s, json_object_get(acc, key), value);
    return both ? set(s, acc, key, both) : -1;
}

static int merge_required(struct schema *s, json_t *acc, const json_t *value)
{
    json_t *all = json_copy(json_object_get(acc, "required"));
    size_t i, k;
    const json_t *name, *mine;
    int bad = !all;
    json_array_foreach(value, i, name)
    {
        bool there = false;
        json_array_foreach(all, k, mine) there = there || json_equal(mine, name);
        bad = bad || (!there && json_array_append(all, own(name)));
    }
    if (bad) {
        json_decref(all);
        return schema_no_memory(s);
    }
    return set_new(s, acc, "required", all);
}

/* Each of the one with each of the other. */
static int merge_branches(struct schema *s, json_t *acc, const char *key, const json_t *value)
{
    const json_t *mine = json_object_get(acc, key), *a, *b;
    size_t i, k;
    json_t *all = json_array();
    if (!all)
        return schema_no_memory(s);
    json_array_foreach(mine, i, a)
    {
        json_array_foreach(value, k, b)
        {
            const json_t *both = schema_both(s, a, b);
            if (!both || json_array_append(all, own(both))) {
                json_decref(all);
                return schema_no_memory(s);
            }
        }
    }
    return set_new(s, acc, key, all);
}

static int merge_key(struct schema *s, json_t *acc, const char *key, const json_t *value)
{
    static const char up[] = " minLength minItems minProperties minimum exclusiveMinimum ",
                      down[] = " maxLength maxItems maxProperties maximum exclusiveMaximum ",
                      both[] = " items propertyNames additionalItems ";
    char word[40];
    const json_t *mine = json_object_get(acc, key);
    if (!mine)
        return set(s, acc, key, value);
    if (json_equal(mine, value))
        return 0;
    snprintf(word, sizeof word, " %.36s ", key);
    if ((strstr(up, word) || strstr(down, word)) && json_is_number(mine) && json_is_number(value)) {
        const bool more = json_number_value(value) > json_number_value(mine);
        return more == (strstr(up, word) != NULL) ? set(s, acc, key, value) : 0;
    }
    if (strcmp(key, "required") == 0 && json_is_array(mine) && json_is_array(value))
        return merge_required(s, acc, value);
    if ((!strcmp(key, "anyOf") || !strcmp(key, "oneOf")) && json_is_array(mine) && json_is_array(value))
        return merge_branches(s, acc, key, value);
    if (strcmp(key, "uniqueItems") == 0)
        return json_is_true(value) ? set(s, acc, key, value) : 0;
    if (strstr(both, word) && !json_is_array(mine) && !json_is_array(value))
        return merge_both(s, acc, key, value);
    return schema_refuse(s, key, "twice in what allOf puts together");
}

/* ---- merging objects, values, types ----------------------------------------------------------------------------- */

/* The properties of `of` that the other does not name also fit the other's additionalProperties. *out is new. */
static int properties_under(struct schema *s, const json_t *of, const json_t *other, json_t **out)
{
    const json_t *others = json_object_get(other, "properties"),
                 *rest = json_object_get(other, "additionalProperties");
    const char *key;
    json_t *value;
    *out = json_object();
    if (!*out)
        return schema_no_memory(s);
    json_object_foreach(json_object_get(of, "properties"), key, value)
    {
        const json_t *both = rest && !json_object_get(others, key) ? schema_both(s, value, rest) : value;
        if (!both || set(s, *out, key, both)) {
            json_decref(*out);
            return -1;
        }
    }
    return 0;
}

static int merge_properties(struct schema *s, json_t *acc, const json_t *part)
{
    json_t *mine, *theirs, *value;
    const char *key;
    int bad = 0;
    if (!json_object_get(part, "properties") && !json_object_get(part, "additionalProperties"))
        return 0;
    if (properties_under(s, acc, part, &mine))
        return -1;
    if (properties_under(s, part, acc, &theirs)) {
        json_decref(mine);
        return -1;
    }
    json_object_foreach(theirs, key, value)
    {
        if (!bad)
            bad = json_object_get(mine, key) ? merge_both(s, mine, key, value) : set(s, mine, key, value);
    }
    json_decref(theirs);
    const json_t *rest = json_object_get(part, "additionalProperties");
    if (!bad && rest)
        bad = json_object_get(acc, "additionalProperties") ? merge_both(s, acc, "additionalProperties", rest)
                                                           : set(s, acc, "additionalProperties", rest);
    if (!bad && (json_object_get(part, "properties") || json_object_get(acc, "properties")))
        return set_new(s, acc, "properties", mine);
    json_decref(mine);
    return bad;
}

/* enum and const of the part: the values that both list. */
static int merge_values(struct schema *s, json_t *acc, const json_t *part)
{
    const json_t *list = json_object_get(part, "enum"), *only = json_object_get(part, "const"),
                 *mine = json_object_get(acc, "enum"), *one;
    size_t i, k;
    if (only && json_object_get(acc, "const") && !json_equal(only, json_object_get(acc, "const")))
        return schema_fail(s, HASTEN_ERR_FILE, "two different 'const' in allOf");
    if (only && set(s, acc, "const", only))
        return -1;
    if (!list || !mine)
        return list ? set(s, acc, "enum", list) : 0;
    json_t *all = json_array();
    int bad = !all;
    json_array_foreach(list, i, one)
    {
        bool there = false;
        for (k = 0; k < json_array_size(mine); k++)
            there = there || json_equal(json_array_get(mine, k), one);
        bad = bad || (there && json_array_append(all, own(one)));
    }
    if (bad) {
        json_decref(all);
        return schema_no_memory(s);
    }
    return set_new(s, acc, "enum", all);
}

static int merge_types(struct schema *s, json_t *acc, const json_t *part)
{
    static const char *const names[] = {"null", "boolean", "integer", "number", "string", "array", "object"};
    int a = json_object_get(acc, "type") ? schema_types(s, acc) : SCHEMA_ANY,
        b = json_object_get(part, "type") ? schema_types(s, part) : SCHEMA_ANY;
    if (a < 0 || b < 0)
        return -1;
    if (a == SCHEMA_ANY && b == SCHEMA_ANY)
        return 0;
    a |= a & SCHEMA_NUMBER ? SCHEMA_INTEGER : 0;
    b |= b & SCHEMA_NUMBER ? SCHEMA_INTEGER : 0;
    if (!(a & b))
        return schema_fail(s, HASTEN_ERR_FILE, "allOf of types that have no value in common");
    json_t *list = json_array();
    int bad = !list;
    for (int i = 0; i < 7 && !bad; i++)
        if ((a & b) >> i & 1)
            bad = json_array_append_new(list, json_string(names[i]));
    if (bad) {
        json_decref(list);
        return schema_no_memory(s);
    }
    json_object_del(acc, "nullable");
    return set_new(s, acc, "type", list);
}

static int merge(struct schema *s, json_t *acc, const json_t *part)
{
    static const char elsewhere[] = " type nullable enum const properties additionalProperties ";
    char word[40];
    const char *key;
    json_t *value;
    if (++s->n_merged > LIMIT_SCHEMA_MERGES)
        return schema_fail(s, HASTEN_ERR_LIMIT, "more than %d schemas are merged", LIMIT_SCHEMA_MERGES);
    if (merge_types(s, acc, part) || merge_values(s, acc, part) || merge_properties(s, acc, part))
        return -1;
    json_object_foreach(own(part), key, value)
    {
        snprintf(word, sizeof word, " %.36s ", key);
        if (schema_constrains(key) && !strstr(elsewhere, word) && merge_key(s, acc, key, value))
            return -1;
    }
    return 0;
}

/* ---- flattening ----------------------------------------------------------------------------------------------- */

static int merge_part(struct schema *s, json_t *acc, const json_t *part)
{
    const json_t *flat = part;
    if (json_is_true(part))
        return 0;
    if (json_is_false(part))
        return schema_fail(s, HASTEN_ERR_FILE, "allOf with false allows nothing");
    if (!json_is_object(part))
        return schema_fail(s, HASTEN_ERR_FILE, "no schema inside allOf (expected an object, true or false)");
    return schema_flatten(s, part, &flat) ? -1 : merge(s, acc, flat);
}

static int merge_parts(struct schema *s, json_t *acc, const json_t *ref, const json_t *all)
{
    const json_t *part;
    size_t i;
    if (ref && !json_is_string(ref))
        return schema_fail(s, HASTEN_ERR_FILE, "keyword '$ref' is no string");
    if (all && !json_is_array(all))
        return schema_fail(s, HASTEN_ERR_FILE, "keyword 'allOf' is no list");
    if (ref && (schema_resolve(s, json_string_value(ref), &part) || merge_part(s, acc, part)))
        return -1;
    json_array_foreach(all, i, part)
    {
        if (merge_part(s, acc, part))
            return -1;
    }
    return 0;
}

int schema_flatten(struct schema *s, const json_t *node, const json_t **out)
{
    const json_t *ref = json_object_get(node, "$ref"), *all = json_object_get(node, "allOf");
    *out = node;
    if (!ref && !all)
        return 0;
    if (depth_enter(&s->depth))
        return schema_fail(s, HASTEN_ERR_FILE, "$ref and allOf lead in a circle, or deeper than %d",
                           LIMIT_JSON_DEPTH);
    json_t *acc = json_copy(own(node));
    int bad = acc ? 0 : schema_no_memory(s);
    if (!bad) {
        json_object_del(acc, "$ref");
        json_object_del(acc, "allOf");
        json_object_del(acc, "$defs");
        json_object_del(acc, "definitions");
        bad = merge_parts(s, acc, ref, all);
    }
    depth_leave(&s->depth);
    if (bad) {
        json_decref(acc);
        return -1;
    }
    *out = schema_keep(s, acc);
    return *out ? 0 : -1;
}
