/* JSON Schemas and regular expressions where memory fails, or would, and where limits are. */
#include "base/json.h"
#include "base/limits.h"
#include "base/mem.h"
#include "sample/grammar.h"
#include "sample/json_schema.h"
#include "sample/regex.h"
#include "sample/tool_grammar.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const char everything[] =
    "{\"$defs\":{\"Node\":{\"type\":\"object\",\"properties\":{\"value\":{\"type\":\"integer\",\"minimum\":-7,\"maximum\":250},"
    "\"next\":{\"anyOf\":[{\"$ref\":\"#/$defs/Node\"},{\"type\":\"null\"}]}},\"required\":[\"value\"]}},\"type\":\"object\","
    "\"properties\":{\"a\":{\"allOf\":[{\"$ref\":\"#/$defs/Node\"},{\"properties\":{\"more\":{\"type\":\"number\",\"minimum\":0.5,"
    "\"exclusiveMaximum\":2.25}}}]},\"b\":{\"type\":\"string\",\"pattern\":\"^[a-z]+(-[a-z]+)*$\",\"maxLength\":5},"
    "\"c\":{\"type\":\"array\",\"prefixItems\":[{\"type\":\"boolean\"},{\"enum\":[\"x\",1.5,{\"y\":[null]}]}],\"items\":{\"type\":\"integer\",\"multipleOf\":3}},"
    "\"d\":{\"type\":\"object\",\"properties\":{\"ab\":{},\"ac\":{}},\"additionalProperties\":{\"type\":\"string\",\"format\":\"date\"}},"
    "\"e\":{\"type\":\"object\",\"patternProperties\":{\"^x\":{\"type\":[\"string\",\"null\"],\"minLength\":2}}}},\"required\":[\"b\"]}";

static void test_every_allocation_may_fail(void **state)
{
    struct hasten_error err = {0};
    struct buf b = {0};
    struct mem_stats before, after;
    (void)state;
    assert_int_equal(json_schema_grammar(everything, strlen(everything), &b, &err), HASTEN_OK);
    char *whole = mem_strndup(b.data, b.len);
    buf_free(&b);
    hasten_status st = HASTEN_ERR_MEMORY;
    for (uint64_t n = 1; st; n++) {
        mem_stats_get(&before);
        mem_fail_at(n, n % 2);
        st = json_schema_grammar(everything, strlen(everything), &b, &err);
        mem_fail_at(0, 0);
        if (st) {
            assert_int_equal(st, HASTEN_ERR_MEMORY);
            assert_int_equal(err.status, HASTEN_ERR_MEMORY);
            assert_int_equal(b.len, 0);
        } else {
            assert_string_equal(b.data, whole);
            assert_true(n > 100);
        }
        buf_free(&b);
        mem_stats_get(&after);
        assert_int_equal(after.live_bytes, before.live_bytes);
        n += n / 32; /* not every one of thousands */
    }
    mem_free(whole);
}

static void test_expressions_without_memory(void **state)
{
    static const char pattern[] = "(?i)^(?:ab|[^c-e]{2,5})+\\d?$|x*";
    struct hasten_error err = {0};
    struct buf b = {0};
    (void)state;
    hasten_status st = HASTEN_ERR_MEMORY;
    for (uint64_t n = 1; st; n++) {
        mem_fail_at(n, 0);
        st = regex_grammar(pattern, strlen(pattern), &b, &err);
        mem_fail_at(0, 0);
        assert_true(st == HASTEN_ERR_MEMORY || (st == HASTEN_OK && n > 8));
        assert_true(st == HASTEN_OK || b.len == 0);
    }
    buf_free(&b);
}

/* text n times, between two others. */
static char *repeated(const char *before, const char *text, int n, const char *after)
{
    struct buf b = {0};
    buf_puts(&b, before);
    for (int i = 0; i < n; i++)
        buf_puts(&b, text);
    buf_puts(&b, after);
    return b.data;
}

static void test_limits(void **state)
{
    struct hasten_error err = {0};
    struct buf b = {0};
    (void)state;
    for (int more = 0; more < 2; more++) {
        char *groups = repeated("", "(", LIMIT_REGEX_DEPTH + more, "");
        char *pattern = repeated(groups, ")", LIMIT_REGEX_DEPTH + more, "");
        assert_int_equal(regex_grammar(pattern, strlen(pattern), &b, &err),
                         more ? HASTEN_ERR_LIMIT : HASTEN_OK);
        mem_free(groups);
        mem_free(pattern);
        char *characters = repeated("", "a", LIMIT_REGEX_NODES - 2 + more, "");
        assert_int_equal(regex_grammar(characters, strlen(characters), &b, &err),
                         more ? HASTEN_ERR_LIMIT : HASTEN_OK);
        mem_free(characters);
        char *schemas = repeated("{\"prefixItems\":[{}", ",{}", LIMIT_SCHEMA_RULES - 2 + more, "]}");
        assert_int_equal(json_schema_grammar(schemas, strlen(schemas), &b, &err),
                         more ? HASTEN_ERR_LIMIT : HASTEN_OK);
        mem_free(schemas);
    }
    /* doubling by allOf */
    struct buf laughs = {0};
    buf_puts(&laughs, "{\"$ref\":\"#/$defs/a0\",\"$defs\":{");
    for (int i = 0; i < 40; i++)
        buf_printf(&laughs, "\"a%d\":{\"allOf\":[{\"$ref\":\"#/$defs/a%d\"},{\"$ref\":\"#/$defs/a%d\"}]},", i,
                   i + 1, i + 1);
    buf_puts(&laughs, "\"a40\":{\"type\":\"string\"}}}");
    assert_int_equal(json_schema_grammar(laughs.data, laughs.len, &b, &err), HASTEN_ERR_LIMIT);
    buf_free(&laughs);
    buf_free(&b);
}

/* One more than each limit that is no number of nested or listed things. */
static void test_other_limits(void **state)
{
    struct hasten_error err = {0};
    struct buf b = {0}, rules = {0};
    struct regex r = {0};
    bool done;
    (void)state;
    char *pattern = repeated("", "a|", LIMIT_REGEX_BYTES / 2, "a");
    assert_int_equal(regex_grammar(pattern, strlen(pattern), &b, &err), HASTEN_ERR_LIMIT);
    mem_free(pattern);
    /* counting takes at most LIMIT_REGEX_RULES rules and LIMIT_REGEX_PAIRS pairs */
    assert_int_equal(regex_parse("x", "(a+b?)+", 7, false, &r, &err), HASTEN_OK);
    for (int64_t n = 100; n <= LIMIT_REGEX_RULES; n = n == 100 ? LIMIT_REGEX_RULES : n + LIMIT_REGEX_PAIRS) {
        assert_int_equal(regex_put_bounded(&r, REGEX_PLAIN, n, n, false, "n-", &b, &rules, &done), 0);
        assert_int_equal(done, n == 100);
    }
    regex_free(&r);
    buf_free(&rules);
    /* what allOf makes: bytes, and the shown place */
    char *word = repeated("", "x", 20000, "");
    struct buf schema = {0};
    buf_puts(&schema, "{\"anyOf\":[true");
    for (int i = 0; i < (int)(LIMIT_SCHEMA_MADE / 20000) + 2 && i < LIMIT_SCHEMA_MERGES; i++)
        buf_printf(&schema, ",{\"minLength\":%d}", i);
    buf_printf(&schema, "],\"description\":\"%s\",\"maxLength\":9000}", word);
    assert_int_equal(json_schema_grammar(schema.data, schema.len, &b, &err), HASTEN_ERR_LIMIT);
    buf_clear(&schema);
    for (int i = 0; i < 3; i++)
        buf_printf(&schema, "{\"properties\":{\"%.*s\":", LIMIT_SCHEMA_PLACE, word);
    buf_puts(&schema, "{\"not\":{}}}}}}}}");
    assert_int_equal(json_schema_grammar(schema.data, schema.len, &b, &err), HASTEN_ERR_UNSUPPORTED);
    mem_free(word);
    buf_free(&schema);
    buf_free(&b);
}

static void test_limits_of_tools(void **state)
{
    const struct tool_format hermes = {.family = TOOLS_HERMES};
    struct hasten_error err = {0};
    struct buf b = {0};
    (void)state;
    for (int more = 0; more < 2; more++) {
        char *many = repeated("[", "{\"function\":{\"name\":\"f\"}},", LIMIT_TOOLS - 1 + more,
                              "{\"function\":{\"name\":\"f\"}}]");
        char *named = repeated("[{\"function\":{\"name\":\"", "f", LIMIT_TOOL_NAME + more, "\"}}]");
        const char *const texts[] = {many, named};
        for (int i = 0; i < 2; i++) {
            json_t *tools;
            assert_int_equal(json_parse("tools", texts[i], strlen(texts[i]), &tools, &err), HASTEN_OK);
            const struct tool_wish w = {.format = hermes, .tools = tools};
            assert_int_equal(tool_grammar(&w, NULL, NULL, &b, &err), !more ? HASTEN_OK
                                                                     : i   ? HASTEN_ERR_USAGE
                                                                           : HASTEN_ERR_LIMIT);
            json_decref(tools);
        }
        mem_free(many);
        mem_free(named);
    }
    buf_free(&b);
}

/* A grammar that names as many tokens as it may, and one more. */
static void test_named_tokens(void **state)
{
    struct gguf_str text[20] = {0};
    uint8_t ends[20] = {0};
    struct hasten_error err = {0};
    struct token_trie *t;
    struct grammar *g;
    (void)state;
    for (int i = 0; i < 20; i++)
        text[i] = (struct gguf_str){"a", (size_t)(i % 2)};
    assert_int_equal(token_trie_of(text, ends, 20, &t, &err), HASTEN_OK);
    struct buf b = {0};
    buf_puts(&b, "root ::=");
    for (int i = 0; i < LIMIT_GRAMMAR_TOKENS; i++)
        buf_printf(&b, "%s <[%d]> \"a\"", i ? " |" : "", i);
    assert_int_equal(grammar_open("g", b.data, b.len, &g, &err), HASTEN_OK);
    for (int engine = 0; engine < 2; engine++) {
        struct grammar_masks *m;
        struct grammar_state *s;
        uint64_t bits;
        int32_t n;
        assert_int_equal(grammar_masks_open(g, t, engine ? GRAMMAR_SCAN : GRAMMAR_TRIE, false, &m, &err),
                         HASTEN_OK);
        assert_int_equal(grammar_start(m, &s, &err), HASTEN_OK);
        assert_int_equal(grammar_mask(s, &bits, &n, &err), HASTEN_OK);
        assert_int_equal(bits, 0x7FF); /* those that are named */
        assert_int_equal(grammar_accept(s, 4, &err), HASTEN_OK);
        assert_int_equal(grammar_mask(s, &bits, &n, &err), HASTEN_OK);
        assert_int_equal(bits, 0xAAAAA); /* those whose text is a */
        assert_int_equal(grammar_accept(s, 3, &err), HASTEN_OK);
        assert_int_equal(grammar_accept(s, 4, &err), HASTEN_ERR_USAGE);
        grammar_end(s);
        grammar_masks_close(m);
    }
    grammar_close(g);
    buf_puts(&b, " <[19]>");
    assert_int_equal(grammar_open("g", b.data, b.len, &g, &err), HASTEN_ERR_LIMIT);
    token_trie_close(t);
    buf_free(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_allocation_may_fail),
        cmocka_unit_test(test_expressions_without_memory),
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_other_limits),
        cmocka_unit_test(test_limits_of_tools),
        cmocka_unit_test(test_named_tokens),
    };
    json_set_alloc_funcs(mem_alloc, mem_free);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
