/* Reading a request by the table of fields (fields.h). */
#include "serve/fields.h"
#include "base/limits.h"
#include "base/values.h"
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const endpoint_names[ENDPOINT_BITS] = {
    "chat", "completions", "embeddings", "tokenize", "detokenize", "template", "infill"};
static const char *const type_names[] = {
    "true or false", "an integer", "a number", "a string", "a string or an array of strings",
    "an object",     "an array",   "JSON"};
static const char *const use_names[] = {"supported", "neutral value accepted", "refused",
                                        "ignored with a warning", "accepted, no effect"};

const char *endpoint_name(int bit)
{
    return endpoint_names[bit];
}

const char *field_type_name(enum field_type t)
{
    return type_names[t];
}

const char *field_use_name(enum field_use u)
{
    return use_names[u];
}

const struct field *field_find(const char *name, unsigned endpoints)
{
    for (int i = 0; i < n_fields; i++)
        if ((fields[i].endpoints & endpoints) && strcmp(fields[i].name, name) == 0)
            return &fields[i];
    return NULL;
}

bool field_given(const struct params *p, size_t offset)
{
    for (int i = 0; i < n_fields; i++)
        if (fields[i].use == FIELD_USED && fields[i].offset == offset && p->given[i])
            return true;
    return false;
}

/* ---- values ------------------------------------------------------------------------------------------------- */

static bool texts(const json_t *v)
{
    if (json_is_string(v))
        return true;
    for (size_t i = 0; i < json_array_size(v); i++)
        if (!json_is_string(json_array_get(v, i)))
            return false;
    return json_is_array(v);
}

static bool has_type(const json_t *v, enum field_type t)
{
    switch (t) {
    case FIELD_BOOL:
        return json_is_boolean(v);
    case FIELD_INT: /* 5.0 is an integer too */
        return json_is_integer(v) || (json_is_real(v) && json_real_value(v) == floor(json_real_value(v)));
    case FIELD_NUMBER:
        return json_is_number(v);
    case FIELD_STRING:
        return json_is_string(v) && strlen(json_string_value(v)) == json_string_length(v);
    case FIELD_TEXTS:
        return texts(v);
    case FIELD_OBJECT:
        return json_is_object(v);
    case FIELD_ARRAY:
        return json_is_array(v);
    default:
        return true;
    }
}

/* What a value is, for messages. Short ones are quoted. */
static void describe(const json_t *v, char out[80])
{
    char *text = json_is_object(v) || json_is_array(v) ? NULL : json_dumps(v, JSON_ENCODE_ANY);
    const char *kind = json_is_object(v)   ? "an object"
                       : json_is_array(v)  ? "an array"
                       : json_is_string(v) ? "a string"
                                           : "a value";
    if (text && strlen(text) < 60)
        snprintf(out, 80, "%s", text);
    else
        snprintf(out, 80, "%s", kind);
    mem_free(text);
}

static bool wrong(const struct field *d, const json_t *v, struct fault *f)
{
    char found[80];
    describe(v, found);
    if ((d->type == FIELD_INT || d->type == FIELD_NUMBER) && d->hi > d->lo)
        return fault_set(f, 400, "invalid_value", d->name, "%s: %s (expected %s from %.12g to %.12g)",
                         d->name, found, type_names[d->type], d->lo > 0 && d->lo < 1e-30 ? 0.0 : d->lo,
                         d->hi);
    return fault_set(f, 400, "invalid_value", d->name, "%s: %s (expected %s)", d->name, found,
                     type_names[d->type]);
}

static bool take(const struct field *d, json_t *v, struct params *out, struct fault *f)
{
    char *at = (char *)out + d->offset;
    const double number = json_number_value(v);
    if (!has_type(v, d->type))
        return wrong(d, v, f);
    if (d->type == FIELD_INT || d->type == FIELD_NUMBER) {
        if (!(number >= d->lo && number <= d->hi))
            return wrong(d, v, f);
        if (d->type == FIELD_NUMBER)
            *(double *)(void *)at = number;
        else
            *(int64_t *)(void *)at = json_is_integer(v) ? json_integer_value(v) : (int64_t)number;
    } else if (d->type == FIELD_BOOL) {
        *(bool *)(void *)at = json_is_true(v);
    } else {
        *(json_t **)(void *)at = v;
    }
    return true;
}

static bool is_neutral(const struct field *d, const json_t *v)
{
    json_t *n = json_loads(d->value, JSON_DECODE_ANY, NULL);
    const bool same = json_is_number(n) && json_is_number(v) ? json_number_value(n) == json_number_value(v)
                                                             : n && json_equal(n, v);
    json_decref(n);
    return same;
}

static bool is_nothing(const json_t *v)
{
    return json_is_false(v) || (json_is_array(v) && json_array_size(v) == 0) ||
           (json_is_object(v) && json_object_size(v) == 0) ||
           (json_is_string(v) && json_string_length(v) == 0);
}

static bool refuse(const struct field *d, const json_t *v, struct fault *f)
{
    char found[80];
    describe(v, found);
    if (d->value)
        return fault_set(f, 400, "unsupported_value", d->name,
                         "%s: %s is not supported (expected %s, or leave it out)", d->name, found, d->value);
    return fault_set(f, 400, "unsupported_parameter", d->name,
                     "%s: not supported (%s; expected to be left out)", d->name, d->doc);
}

/* ---- the object --------------------------------------------------------------------------------------------- */

static void warn(json_t **warnings, const char *name, const char *what)
{
    struct hasten_error clean; /* a name from outside, cut */
    if (!warnings)
        return;
    error_set(&clean, HASTEN_ERR_USAGE, "%.64s: %s", name, what);
    if (!*warnings)
        *warnings = json_array();
    const size_t n = json_array_size(*warnings);
    if (n < LIMIT_SERVE_WARNINGS)
        json_array_append_new(*warnings, json_string(clean.message));
    else if (n == LIMIT_SERVE_WARNINGS)
        json_array_append_new(*warnings, json_string("and more"));
}

/* Of numbers and booleans; without memory, as a default that is not set would be a field out of range. */
static void set_default(const struct field *d, struct params *out)
{
    char *at = (char *)out + d->offset;
    if (!d->value)
        return;
    if (d->type == FIELD_BOOL)
        *(bool *)(void *)at = strcmp(d->value, "true") == 0;
    else if (d->type == FIELD_INT)
        *(int64_t *)(void *)at = strtoll(d->value, NULL, 10);
    else if (d->type == FIELD_NUMBER)
        *(double *)(void *)at = strtod(d->value, NULL);
}

static bool take_field(const struct field *d, json_t *v, struct params *out, json_t **warnings,
                       struct fault *f)
{
    switch (d->use) {
    case FIELD_USED:
        out->given[d - fields] = 1;
        return take(d, v, out, f);
    case FIELD_NEUTRAL:
        return is_neutral(d, v) || refuse(d, v, f);
    case FIELD_REFUSED:
        return is_nothing(v) || (d->value && is_neutral(d, v)) || refuse(d, v, f);
    case FIELD_IGNORED:
        warn(warnings, d->name, "ignored");
        return true;
    default:
        return true;
    }
}

bool fields_parse(const json_t *object, enum endpoint ep, struct params *out, json_t **warnings,
                  struct fault *f)
{
    const char *key;
    json_t *v;
    *out = (struct params){0};
    if (!json_is_object(object))
        return fault_set(f, 400, "invalid_json", NULL, "the body is no JSON object (expected one)");
    for (int i = 0; i < n_fields; i++)
        if ((fields[i].endpoints & ep) && fields[i].use == FIELD_USED)
            set_default(&fields[i], out);
    json_object_foreach((json_t *)(uintptr_t)object, key, v)
    {
        const struct field *d = field_find(key, ep);
        if (json_is_null(v))
            continue;
        if (!d)
            warn(warnings, key, "unknown field, ignored");
        else if (!take_field(d, v, out, warnings, f))
            return false;
    }
    return true;
}
