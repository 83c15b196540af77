/* What the files of the JSON Schema compiler share (json_schema.h). Private to sample/.
 *
 * A schema is a job; each job becomes one rule, whose name is the prefix, "r" and the job's number. A rule is written from
 * its schema alone, and schemas inside are jobs of their own, met by name: so nothing here recurses over a document, and a
 * schema that is met again, through $ref, is the same rule. */
#ifndef HASTEN_SAMPLE_SCHEMA_INTERNAL_H
#define HASTEN_SAMPLE_SCHEMA_INTERNAL_H
#include "base/depth.h"
#include "base/json.h"
#include "sample/list.h"
#include <stdbool.h>

struct schema_job {
    const json_t *node;
    char *place; /* a JSON pointer, for messages */
};

struct schema_made { /* a schema that merging made; equal ones are one */
    json_t *node;
    char *text;
};

struct
    schema_name { /* names[from, to) of an object that begin with the same `depth` bytes, and the number of the rule */
    int64_t from, to;
    size_t depth;
    int32_t number;
};

struct schema {
    const char *what; /* for messages */
    const json_t *root;
    const char *prefix;
    struct buf *out;        /* rules */
    struct buf body, rules; /* of the job at hand: what its rule says; rules beside it */
    LIST(struct schema_job) jobs;
    LIST(int32_t) table; /* hash table over jobs by node: number + 1 */
    LIST(struct schema_made) made;
    LIST(struct schema_name) names; /* of the object at hand */
    int32_t job, n_rules;           /* the job at hand; rules beside it */
    int32_t n_merged;
    size_t made_bytes;
    struct depth depth;
    hasten_status status;
    struct hasten_error *err;
};

enum schema_type {
    SCHEMA_NULL = 1,
    SCHEMA_BOOLEAN = 2,
    SCHEMA_INTEGER = 4,
    SCHEMA_NUMBER = 8,
    SCHEMA_STRING = 16,
    SCHEMA_ARRAY = 32,
    SCHEMA_OBJECT = 64,
    SCHEMA_ANY = 127
};

/* ---- errors and text: all give 0, or -1 after noting the first failure --------------------------------------- */

int schema_fail(struct schema *s, hasten_status status, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
int schema_no_memory(struct schema *s);
/* "keyword 'x': unsupported". more: NULL, or what of it. */
int schema_refuse(struct schema *s, const char *keyword, const char *more);
/* Appends to the rule at hand. */
int schema_put(struct schema *s, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* ---- schemas ------------------------------------------------------------------------------------------------- */

/* Writes a reference to the rule of a schema inside the one at hand, at keyword (and name, or index when name is
 * NULL and index >= 0). */
int schema_use(struct schema *s, const json_t *node, const char *keyword, const char *name, int64_t index);
/* The schema without $ref and allOf: what they say is merged into it. *out lives as long as s. */
int schema_flatten(struct schema *s, const json_t *node, const json_t **out);
/* {"allOf": [a, b]}, or one of them when that is enough. NULL after noting the failure. */
const json_t *schema_both(struct schema *s, const json_t *a, const json_t *b);
/* Takes `node` over: an equal one that was made before, or it. NULL after noting the failure. */
const json_t *schema_keep(struct schema *s, json_t *node);
/* The schema that a $ref names. */
int schema_resolve(struct schema *s, const char *ref, const json_t **out);
/* Types that the schema's "type", "nullable" or else its keywords name; 0 when they name none. -1. */
int schema_types(struct schema *s, const json_t *node);
/* Does this keyword say anything about what fits? */
bool schema_constrains(const char *keyword);

/* ---- what a rule says of one type ----------------------------------------------------------------------------- */

int schema_integer(struct schema *s, const json_t *node);
int schema_number(struct schema *s, const json_t *node);
int schema_string(struct schema *s, const json_t *node);
int schema_array(struct schema *s, const json_t *node);
int schema_object(struct schema *s, const json_t *node);
/* A value as it is, with white space where it may stand. */
int schema_literal(struct schema *s, const json_t *value);
/* The text in quotes of GBNF. */
int schema_quoted(struct schema *s, const char *text, size_t len);

/* A keyword whose value is a whole number of at least 0, and at most LIMIT_GRAMMAR_REPEAT; absent: otherwise. */
int schema_count(struct schema *s, const json_t *node, const char *keyword, int64_t otherwise, int64_t *out);

#endif
