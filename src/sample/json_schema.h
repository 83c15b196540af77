/* JSON Schemas as grammars: a schema (draft 2020-12, as far as the clients of OpenAI and Anthropic and pydantic write it)
 * becomes GBNF whose texts are JSON documents that the schema validates.
 *
 * Every text is valid; not every valid document is a text, where a grammar has to choose:
 *   - properties stand in the order in which the schema writes them;
 *   - an object that names properties, and an array that names its first items, has only these, unless additionalProperties
 *     (or patternProperties), or items, is there;
 *   - a schema without "type" whose keywords speak of some types is of these;
 *   - oneOf is read as anyOf;
 *   - white space is bounded, and stands only behind { [ , : and before } ]; numbers have at most 15 or so digits.
 * Keywords that a grammar cannot keep (not, if, contains, uniqueItems, dependent..., remote $ref and others) are refused by name
 * with their place. Unknown keywords and formats are ignored, as the standard says.
 *
 * What it does not do: validate a document, or the schema beyond what it reads. */
#ifndef HASTEN_SAMPLE_JSON_SCHEMA_H
#define HASTEN_SAMPLE_JSON_SCHEMA_H
#include "base/error.h"
#include "base/json.h"
#include "base/mem.h"

/* Appends the grammar of schema[0, len), with the rule root. HASTEN_ERR_FILE: no JSON, or no schema;
 * HASTEN_ERR_UNSUPPORTED, HASTEN_ERR_LIMIT; each with a JSON pointer where there is one. On failure gbnf is as before. */
hasten_status json_schema_grammar(const char *schema, size_t len, struct buf *gbnf, struct hasten_error *err);

/* For a grammar that holds several: appends rules of which PREFIXroot is the schema's, without those that json_rules
 * appends, once for all. what is for messages. prefix: at most 31 letters, digits and '-'. */
hasten_status json_schema_rules(const char *what, const json_t *schema, const char *prefix, struct buf *gbnf,
                                struct hasten_error *err);
/* json-value, json-object, json-string, json-ws ...: what every schema's rules use. 0, or -1 when out of memory. */
int json_rules(struct buf *gbnf);

#endif
