/* Fuzz target of JSON Schemas: a schema, a NUL, and a text. A schema that is taken makes a grammar that opens, unless it is
 * too large or has no text, and a whole text of that grammar is JSON. The corpus is made by tests/sample/schemas.py. */
#include "base/json.h"
#include "base/mem.h"
#include "fuzz.h"
#include "sample/grammar.h"
#include "sample/json_schema.h"

enum {
    MAX_SCHEMA = 4096,
    MAX_TEXT = 256
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct hasten_error err = {0};
    struct grammar *g = NULL;
    struct buf gbnf = {0};
    const struct part schema = next_part(&data, &size), text = next_part(&data, &size);
    if (schema.len > MAX_SCHEMA || text.len > MAX_TEXT)
        return 0;
    hasten_status st = json_schema_grammar(schema.text, schema.len, &gbnf, &err);
    check_error(st, &err);
    check(!st || (gbnf.len == 0 && strstr(err.message, "JSON schema")));
    if (!st) {
        st = grammar_open("fuzz", gbnf.data, gbnf.len, &g, &err);
        check(!st || st == HASTEN_ERR_LIMIT || strstr(err.message, "matches no text"));
    }
    bool whole = false, beginning;
    if (g && text.len)
        check(grammar_matches(g, text.text, text.len, &whole, &beginning, &err) == HASTEN_OK);
    if (whole) {
        json_t *v = NULL;
        check(json_parse("fuzz", text.text, text.len, &v, &err) == HASTEN_OK);
        json_decref(v);
    }
    grammar_close(g);
    buf_free(&gbnf);
    return 0;
}
