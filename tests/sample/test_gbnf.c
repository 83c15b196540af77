/* GBNF by hand: which texts a grammar says, and what is said of a grammar that is none. Every text is asked of both
 * engines, and every beginning of it.
 *
 *     test_gbnf FOLDER      writes the corpus of fuzz/gbnf_fuzz.c instead */
#include "base/file.h"
#include "base/limits.h"
#include "base/mem.h"
#include "grammars.h"
#include "sample/grammar.h"
#include "sample/rtn.h"
#include "sample/scan.h"
#include "text/unicode.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

struct language {
    const char *grammar;
    const char *in[12];  /* whole texts */
    const char *out[12]; /* none */
};

static const struct language languages[] = {
    {"root ::= \"yes\" | \"no\"", {"yes", "no"}, {"", "y", "yesno", "Yes", "yes "}},
    {"root ::= \"\"", {""}, {"a"}},
    {"root ::=", {""}, {" "}},
    {"root ::= \"a\" |", {"a", ""}, {"b", "aa"}},
    {"root ::= [a-c]", {"a", "b", "c"}, {"d", "", "ab", "-"}},
    {"root ::= [abc-]", {"a", "-"}, {"d"}},
    {"root ::= [-a]", {"a", "-"}, {"b"}},
    {"root ::= [a\\-c]", {"a", "-", "c"}, {"b"}},
    {"root ::= [^a-c]", {"d", "\n", "\xC3\xA9", "\xF0\x9F\x98\x80"}, {"a", "", "dd", "\xC3", "\xED\xA0\x80"}},
    {"root ::= [^^]", {"a"}, {"^"}},
    {"root ::= [\\]\\[\\\\]+", {"]", "[\\]"}, {"a"}},
    {"root ::= .", {"a", "\n", "\xE2\x82\xAC"}, {"", "ab", "\x80", "\xC0\xAF"}},
    {"root ::= \"\\x41\\u00e9\\U0001F600\"", {"A\xC3\xA9\xF0\x9F\x98\x80"}, {"A", "A\xE9"}},
    {"root ::= \"\\xE9\"", {"\xC3\xA9"}, {"\xE9"}},
    {"root ::= \"\xC3\xA9\"", {"\xC3\xA9"}, {"\xC3", "\xA9"}},
    {"root ::= \"\\t\\r\\n\\\\\\\"\"", {"\t\r\n\\\""}, {"t"}},
    {"root ::= [\xC3\xA0-\xC3\xBF]+", {"\xC3\xA0", "\xC3\xBF\xC3\xA9"}, {"\xC3\x9F", "a", "\xC4\x80"}},
    {"root ::= [\\u0800-\\uFFFF]",
     {"\xE0\xA0\x80", "\xEF\xBF\xBF", "\xED\x9F\xBF"},
     {"\xDF\xBF", "\xF0\x90\x80\x80", "\xED\xA0\x80"}},
    {"root ::= [\\U00010000-\\U0010FFFF]",
     {"\xF0\x90\x80\x80", "\xF4\x8F\xBF\xBF"},
     {"\xF4\x90\x80\x80", "\xEF\xBF\xBF", "\xF0\x8F\xBF\xBF"}},
    {"root ::= \"a\"?", {"", "a"}, {"aa"}},
    {"root ::= \"a\"*", {"", "a", "aaaa"}, {"b", "ab"}},
    {"root ::= \"a\"+", {"a", "aaaa"}, {"", "b"}},
    {"root ::= \"ab\"+", {"ab", "abab"}, {"", "abb", "a"}},
    {"root ::= \"a\" +", {"a", "aa"}, {""}},
    {"root ::= \"a\"{3}", {"aaa"}, {"aa", "aaaa", ""}},
    {"root ::= \"a\"{0}", {""}, {"a"}},
    {"root ::= \"a\"{2,}", {"aa", "aaaaa"}, {"a", ""}},
    {"root ::= \"a\"{1,3}", {"a", "aa", "aaa"}, {"", "aaaa"}},
    {"root ::= \"a\"{ 1 , 2 }", {"a", "aa"}, {"", "aaa"}},
    {"root ::= \"a\"{0,2}\"b\"", {"b", "ab", "aab"}, {"aaab", "a"}},
    {"root ::= (\"a\" | \"b\"){2}", {"ab", "ba", "aa", "bb"}, {"a", "aba"}},
    {"root ::= (\"a\"*)*", {"", "a", "aa"}, {"b"}},
    {"root ::= (\"a\"?)+", {"", "a", "aa"}, {"b"}},
    {"root ::= (\"\" | \"a\")* \"b\"", {"b", "aab"}, {"a", ""}},
    {"root ::= \"a\"*?", {"", "aaa"}, {"b"}},
    {"root ::= ()", {""}, {"a"}},
    {"root ::= ( ( \"a\" ) )", {"a"}, {""}},
    {"root ::= a b\na ::= \"x\"\nb ::= \"y\"", {"xy"}, {"x", "yx"}},
    {"b ::= \"y\"\nroot ::= b\nunused ::= b", {"y"}, {"x"}},
    {"root ::= a-1_B\na-1_B ::= \"y\"", {"y"}, {"x"}},
    {"# nothing\nroot ::= # to begin with\n  \"a\" # and\n\n# end", {"a"}, {""}},
    {"root ::= \"#\" # not a comment inside", {"#"}, {""}},
    {"\xEF\xBB\xBFroot ::= \"a\"\r\n", {"a"}, {"\r"}},
    {"root ::= (\n \"a\"\n \"b\" |\n \"c\"\n)\n", {"ab", "c"}, {"a", "abc"}},
    {"root ::= \"a\" |\n  \"b\"", {"a", "b"}, {""}},
    {"root ::= \"a\"\n  | \"b\"\n  | \"c\"\nx ::= \"d\"", {"a", "b", "c"}, {"d"}},
    {"root ::=\n\n  \"a\"", {"a"}, {""}},
    {"root ::= a b \"c\"\na ::=\nb ::= \"b\" |\n\nd ::= \"x\"", {"c", "bc"}, {"xc", "b"}},
    {"root ::= \"a\nb\"", {"a\nb"}, {"ab"}},
    /* recursion */
    {"root ::= \"(\" root \")\" | \"\"", {"", "()", "((()))"}, {"(", ")", "()()", "(()"}},
    {"root ::= \"a\" root \"b\" | \"c\"", {"c", "acb", "aacbb"}, {"acbb", "aacb", "ab"}},
    {"root ::= \"a\" root | \"a\"", {"a", "aaaa"}, {"", "b"}},
    {"root ::= root \"a\" | \"a\"", {"a", "aaaa"}, {"", "b"}},
    {"root ::= root \"a\" | \"\"", {"", "a", "aaaa"}, {"b"}},
    {"root ::= e\ne ::= e [-+] t | t\nt ::= t [*/] f | f\nf ::= \"(\" e \")\" | [0-9]+",
     {"1", "1+2", "1*2-3", "(1+2)*3", "((1))", "12*(3-(4))"},
     {"", "1+", "(1", "1)", "+1", "1++2", "()"}},
    {"root ::= a\na ::= b \"x\" | \"p\"\nb ::= a \"y\" | \"q\"",
     {"p", "qx", "pyx", "qxyx", "pyxyx"},
     {"q", "px", "pxy", "x", "py"}},
    {"root ::= a\na ::= b \"x\" | \"p\"\nb ::= c \"y\" | \"q\"\nc ::= a \"z\" | b \"w\"",
     {"p", "qx", "pzyx", "qwyx", "qxzyx", "qwywyx"},
     {"qw", "pz", "qy", "pzy"}},
    {"root ::= n root \"a\" | \"b\"\nn ::= \"\" | \"-\"",
     {"b", "ba", "baa", "-ba", "--baa", "-baa"},
     {"a", "-b", "--ba"}},
    {"root ::= root root | \"a\"", {"a", "aa", "aaaaa"}, {"", "b"}},
    {"root ::= root root | \"a\" | \"\"", {"", "a", "aaaa"}, {"b"}},
    {"root ::= a \"!\" | b \"?\"\na ::= \"x\" a | \"x\"\nb ::= \"x\" b | \"x\"",
     {"x!", "xxx?", "xx!"},
     {"x", "!", "x!?"}},
    {"root ::= dead | \"a\"\ndead ::= \"a\" dead", {"a"}, {"aa", ""}},
    {"root ::= \"a\" s \"b\"\ns ::= \"a\" s \"b\" | \"a\" s \"c\" | \"\"",
     {"ab", "aabb", "aacb", "aaacbb"},
     {"aabc", "aab"}},
    {"root ::= \"a\"{100} \"b\"",
     {"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab"},
     {"ab"}},
    {JSON_GRAMMAR,
     {"{}", "{\"a\":1}", "{ \"a\": [1, -2.5e+3, true, null, \"\\u00e9\\n\"]}", "{\"a\":{\"b\":{}}} ",
      "{\"\xE2\x82\xAC\":\"\"}", "{\"a\":[[],[[]]]}"},
     {"", "{", "[1]", "{a:1}", "{\"a\":01}", "{\"a\":1,}", "{\"a\":\"\x01\"}", "{\"a\":\"\\x\"}",
      "{\"a\":1}}"}},
    {"root ::= (stmt)+\nstmt ::= \"if\" \"(\" id \")\" stmt (\"else\" stmt)? | id \"=\" id \";\" | \"{\" stmt* \"}\"\nid ::= [a-z]+",
     {"a=b;", "if(x)a=b;", "if(x)if(y)a=b;elsec=d;", "{}", "{a=b;{}}if(if){}"},
     {"if(x)", "a=b", "{", "if()a=b;", "else{}"}},
};

static struct grammar *open_grammar(const char *text)
{
    struct hasten_error err = {0};
    struct grammar *g = NULL;
    if (grammar_open("g", text, strlen(text), &g, &err))
        fail_msg("%s\n%s", text, err.message);
    return g;
}

/* What the reference says of a text, by itself. */
static void scan_text(const char *grammar, const char *text, size_t len, bool *whole, bool *beginning)
{
    struct hasten_error err;
    struct gbnf *g;
    struct scan_rules r;
    struct scan s = {0};
    assert_int_equal(gbnf_parse("g", grammar, strlen(grammar), &g, &err), HASTEN_OK);
    assert_int_equal(scan_rules_open("g", g, &r, &err), HASTEN_OK);
    assert_true(scan_start(&s, &r) >= 0);
    const int st = scan_bytes(&s, text, len);
    assert_true(st >= 0);
    *beginning = st == 1;
    *whole = st == 1 && s.complete;
    scan_free(&s);
    scan_rules_close(&r);
    gbnf_free(g);
}

static void try_text(const char *grammar, const char *text, bool in)
{
    struct grammar *g = open_grammar(grammar);
    struct hasten_error err;
    const size_t n = strlen(text);
    for (size_t len = 0; len <= n; len++) {
        bool whole, beginning, whole2, beginning2;
        assert_int_equal(grammar_matches(g, text, len, &whole, &beginning, &err), HASTEN_OK);
        scan_text(grammar, text, len, &whole2, &beginning2);
        if (whole != whole2 || beginning != beginning2 || (len == n && whole != in) || (in && !beginning))
            fail_msg("%s\n'%.*s' of '%s': %d %d, by the reference %d %d, expected %d", grammar, (int)len,
                     text, whole, beginning, whole2, beginning2, in);
    }
    grammar_close(g);
}

static void texts_in_and_out(void **state)
{
    (void)state;
    int n = 0;
    for (size_t i = 0; i < sizeof languages / sizeof *languages; i++) {
        const struct language *l = &languages[i];
        for (size_t k = 0; k < 12 && l->in[k]; k++, n++)
            try_text(l->grammar, l->in[k], true);
        for (size_t k = 0; k < 12 && l->out[k]; k++, n++)
            try_text(l->grammar, l->out[k], false);
    }
    print_message("%d texts of %zu grammars\n", n, sizeof languages / sizeof *languages);
}

/* ---- what is no grammar -------------------------------------------------------------------------------------- */

static const struct {
    const char *grammar;
    hasten_status status;
    const char *message;
} errors[] = {
    {"", HASTEN_ERR_FILE, "g:1:1: no rule is called root (expected one, where an answer begins)"},
    {"a ::= \"x\"", HASTEN_ERR_FILE, "g:1:1: no rule is called root (expected one, where an answer begins)"},
    {"a ::= root", HASTEN_ERR_FILE, "g:1:7: rule 'root' is used and not defined"},
    {"root ::= \"a\" (b | c)\nc ::= \"c\"", HASTEN_ERR_FILE, "g:1:15: rule 'b' is used and not defined"},
    {"root ::= \"a\"\nx ::= [a]\n root ::= \"b\"", HASTEN_ERR_FILE,
     "g:3:2: rule 'root' is defined twice (the first time in line 1)"},
    {"root = \"a\"", HASTEN_ERR_FILE, "g:1:6: found '=' behind a rule's name (expected ::=)"},
    {"root ::= \"a", HASTEN_ERR_FILE, "g:1:10: a text without its end (expected another '\"')"},
    {"root ::= [a", HASTEN_ERR_FILE, "g:1:10: a class without its end (expected ']')"},
    {"root ::= []", HASTEN_ERR_FILE, "g:1:10: a class without a character (expected at least one)"},
    {"root ::= [^]", HASTEN_ERR_FILE, "g:1:10: [^] (expected characters, or . for any)"},
    {"root ::= [^\\x00-\\U0010FFFF]", HASTEN_ERR_FILE,
     "g:1:10: a class without a character (expected at least one)"},
    {"root ::= [z-a]", HASTEN_ERR_FILE,
     "g:1:11: a range from U+007A down to U+0061 (expected them ascending)"},
    {"root ::= (\"a\"\n", HASTEN_ERR_FILE, "g:1:10: a group without its end (expected ')')"},
    {"root ::= \"a\")", HASTEN_ERR_FILE,
     "g:1:13: found ')' (expected a text in quotes, a class, a group, a rule's name or |)"},
    {"root ::= *", HASTEN_ERR_FILE, "g:1:10: '*' with nothing before it to repeat"},
    {"root ::= {2}", HASTEN_ERR_FILE, "g:1:10: '{' with nothing before it to repeat"},
    {"root ::= \"a\"{2", HASTEN_ERR_FILE, "g:1:15: found the end (expected } of a repetition)"},
    {"root ::= \"a\"{x}", HASTEN_ERR_FILE, "g:1:14: found 'x' (expected a number of times)"},
    {"root ::= \"a\"{,3}", HASTEN_ERR_FILE, "g:1:14: found ',' (expected a number of times)"},
    {"root ::= \"a\"{3,2}", HASTEN_ERR_FILE,
     "g:1:13: a repetition of 3 to 2 times (expected them ascending)"},
    {"root ::= \"a\"{10001}", HASTEN_ERR_LIMIT,
     "g:1:14: a repetition above 10000 (expected fewer, or no bound)"},
    {"root ::= \"\\q\"", HASTEN_ERR_FILE,
     "g:1:11: a backslash before 'q' (expected one of n r t \\ \" ' / [ ] - ^ x u U)"},
    {"root ::= \"\\x4\"", HASTEN_ERR_FILE, "g:1:11: \\x with 1 hexadecimal digits (expected 2)"},
    {"root ::= \"\\uD800\"", HASTEN_ERR_FILE, "g:1:11: U+D800 is no character"},
    {"root ::= \"\\U00110000\"", HASTEN_ERR_FILE, "g:1:11: U+110000 is no character"},
    {"root ::= \"\\", HASTEN_ERR_FILE,
     "g:1:11: a backslash before the end (expected one of n r t \\ \" ' / [ ] - ^ x u U)"},
    {"root ::= \"\xFF\"", HASTEN_ERR_FILE, "g:1:11: a byte that is not UTF-8 (expected UTF-8)"},
    {"root ::= \"a\"\n\"b\"", HASTEN_ERR_FILE,
     "g:2:1: found '\"' (expected the name of a rule; a rule goes on in the next line only inside parentheses, "
     "behind ::= or around |)"},
    {"root ::= a\n  \xC3\xA9 b", HASTEN_ERR_FILE,
     "g:2:3: found '\xC3\xA9' (expected the name of a rule; a rule goes on in the next line only inside "
     "parentheses, behind ::= or around |)"},
    {"root ::= \"\xC3\xA9\" ,", HASTEN_ERR_FILE,
     "g:1:14: found ',' (expected a text in quotes, a class, a group, a rule's name or |)"},
    {"root ::= !<think> [a]", HASTEN_ERR_UNSUPPORTED, "g:1:10: '!' begins any token but one: unsupported"},
    {"root ::= <think", HASTEN_ERR_FILE, "g:1:10: a token without its end (expected '>')"},
    {"root ::= <[12a]>", HASTEN_ERR_FILE, "g:1:10: no number of a token (expected one such as <[42]>)"},
    {"root ::= \"a\" root", HASTEN_ERR_FILE, "g:1:1: rule 'root' matches no text (expected a way to end it)"},
    {"root ::= root", HASTEN_ERR_FILE, "g:1:1: rule 'root' matches no text (expected a way to end it)"},
    {"root ::= ((((\"a\"{10000}){10000}){10000}){10000})", HASTEN_ERR_LIMIT,
     "g:1:1: rule 'root' makes the grammar too large (expected fewer or shorter repetitions)"},
};

static void errors_say_where(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++) {
        struct hasten_error err = {0};
        struct grammar *g;
        const hasten_status st = grammar_open("g", errors[i].grammar, strlen(errors[i].grammar), &g, &err);
        if (st != errors[i].status || strcmp(err.message, errors[i].message) != 0 || g)
            fail_msg("%s\n%d: %s\nexpected %d: %s", errors[i].grammar, st, err.message, errors[i].status,
                     errors[i].message);
    }
}

/* ---- bounds -------------------------------------------------------------------------------------------------- */

static hasten_status open_buf(struct buf *b, struct hasten_error *err)
{
    struct grammar *g;
    const hasten_status st = grammar_open("g", b->data, b->len, &g, err);
    grammar_close(g);
    buf_free(b);
    return st;
}

static hasten_status nested(int n, struct hasten_error *err)
{
    struct buf b = {0};
    buf_puts(&b, "root ::= ");
    for (int i = 0; i < n; i++)
        buf_putc(&b, '(');
    buf_puts(&b, "\"a\"");
    for (int i = 0; i < n; i++)
        buf_putc(&b, ')');
    return open_buf(&b, err);
}

static hasten_status with_rules(int n, struct hasten_error *err)
{
    struct buf b = {0};
    buf_puts(&b, "root ::= r1\n");
    for (int i = 1; i < n; i++)
        buf_printf(&b, "r%d ::= %s\n", i, i + 1 < n ? "" : "\"a\"");
    return open_buf(&b, err);
}

static hasten_status chain(int n, struct hasten_error *err)
{
    struct buf b = {0};
    buf_puts(&b, "root ::= r1\n");
    for (int i = 1; i < n; i++)
        buf_printf(&b, "r%d ::= r%d \"x\"\n", i, i + 1);
    buf_printf(&b, "r%d ::= \"a\"\n", n);
    return open_buf(&b, err);
}

/* "(ITEM{n}){m}" */
static hasten_status repeated(const char *item, int n, int m, struct hasten_error *err)
{
    struct buf b = {0};
    buf_printf(&b, "root ::= (%s{%d}){%d}", item, n, m);
    return open_buf(&b, err);
}

static void repetitions_are_bounded(void **state)
{
    (void)state;
    struct hasten_error err = {0};
    const int n = LIMIT_GRAMMAR_REPEAT, places = LIMIT_GRAMMAR_PLACES / n, steps = LIMIT_GRAMMAR_STEPS / n;
    assert_int_equal(repeated("\"a\"", n, places, &err), HASTEN_OK);
    assert_int_equal(repeated("\"a\"", n, places + 1, &err), HASTEN_ERR_LIMIT);
    assert_string_equal(err.message, "g: the grammar makes more than 262144 places of a parse");
    assert_int_equal(repeated("\"a\"", n, steps + 1, &err), HASTEN_ERR_LIMIT);
    assert_string_equal(
        err.message,
        "g:1:1: rule 'root' makes the grammar too large (expected fewer or shorter repetitions)");
    assert_int_equal(repeated("\"a\"?", 1000, 1, &err), HASTEN_OK); /* n * n / 2 edges */
    assert_true(3000ll * 3000 / 2 > LIMIT_GRAMMAR_EDGES);
    assert_int_equal(repeated("\"a\"?", 3000, 1, &err), HASTEN_ERR_LIMIT);
    assert_string_equal(err.message, "g: the grammar makes more than 4194304 steps between places");
}

static void bounds_hold_on_both_sides(void **state)
{
    (void)state;
    struct hasten_error err = {0};
    struct buf b = {0};
    struct grammar *g;
    assert_int_equal(nested(LIMIT_GRAMMAR_DEPTH, &err), HASTEN_OK);
    assert_int_equal(nested(LIMIT_GRAMMAR_DEPTH + 1, &err), HASTEN_ERR_LIMIT);
    assert_string_equal(err.message, "g:1:138: more than 128 groups inside each other");
    assert_int_equal(with_rules(LIMIT_GRAMMAR_RULES, &err), HASTEN_OK);
    assert_int_equal(with_rules(LIMIT_GRAMMAR_RULES + 1, &err), HASTEN_ERR_LIMIT);
    assert_int_equal(chain(LIMIT_GRAMMAR_RULES - 2, &err), HASTEN_OK);
    buf_puts(&b, "root ::= \"a\"{10000}");
    assert_int_equal(open_buf(&b, &err), HASTEN_OK);
    buf_puts(&b, "root ::= \"a\"");
    for (int i = 0; i <= LIMIT_GRAMMAR_DEPTH + 1; i++)
        buf_putc(&b, '*');
    assert_int_equal(open_buf(&b, &err), HASTEN_ERR_LIMIT);
    for (int more = 0; more < 2; more++) {
        buf_puts(&b, "root ::= \"a\"#");
        while (b.len < (size_t)LIMIT_GRAMMAR_BYTES + (size_t)more)
            buf_putc(&b, '#');
        assert_int_equal(open_buf(&b, &err), more ? HASTEN_ERR_LIMIT : HASTEN_OK);
    }
    buf_puts(&b, "root ::= ");
    for (int i = 0; i <= LIMIT_GRAMMAR_NODES / 2 + 1; i++)
        buf_puts(&b, ".*");
    assert_int_equal(open_buf(&b, &err), HASTEN_ERR_LIMIT);
    assert_int_equal(grammar_open_file("no such file", &g, &err), HASTEN_ERR_FILE);
    assert_null(g);
}

/* ---- code points as bytes ------------------------------------------------------------------------------------- */

static bool in_spans(const struct utf8_span *s, int n, const char *bytes, int len)
{
    for (int i = 0; i < n; i++) {
        bool in = s[i].n == len;
        for (int k = 0; k < len && in; k++)
            in = (uint8_t)bytes[k] >= s[i].lo[k] && (uint8_t)bytes[k] <= s[i].hi[k];
        if (in)
            return true;
    }
    return false;
}

static void spans_hold_exactly_their_range(void **state)
{
    (void)state;
    static const uint32_t marks[] = {0,       1,        0x41,     0x7F,    0x80,    0x81,    0xBF,
                                     0xC0,    0x3FF,    0x7FF,    0x800,   0xFFF,   0x1000,  0x1234,
                                     0xD7FF,  0xE000,   0xFFFF,   0x10000, 0x1F600, 0x3FFFF, 0x40000,
                                     0xFFFFF, 0x100000, 0x10FFFE, 0x10FFFF};
    const int n_marks = (int)(sizeof marks / sizeof *marks);
    for (int a = 0; a < n_marks; a++)
        for (int b = a; b < n_marks; b++) {
            if (marks[a] <= 0xD7FF && marks[b] >= 0xE000)
                continue; /* never asked for: there are surrogates between */
            struct utf8_span s[UTF8_MAX_SPANS];
            const int n = utf8_spans(marks[a], marks[b], s);
            assert_in_range(n, 1, UTF8_MAX_SPANS - 1);
            for (int m = 0; m < n_marks; m++)
                for (int d = -1; d <= 1; d++) {
                    const uint32_t cp = marks[m] + (uint32_t)d;
                    char bytes[4];
                    if (cp > 0x10FFFF || (cp >= 0xD800 && cp < 0xE000))
                        continue;
                    const int len = utf8_encode(cp, bytes);
                    assert_int_equal(in_spans(s, n, bytes, len), cp >= marks[a] && cp <= marks[b]);
                }
        }
}

/* ---- allocations that fail --------------------------------------------------------------------------------------- */

static void every_allocation_may_fail(void **state)
{
    (void)state;
    const char *text = "root ::= a{2,4} [^x] | root \"-\" b\na ::= \"(\" a \")\" | b\nb ::= a \"y\" | .+";
    struct mem_stats before, after;
    mem_stats_get(&before);
    for (uint64_t n = 1;; n++) {
        struct hasten_error err = {0};
        struct grammar *g;
        mem_fail_at(n, 0);
        const hasten_status st = grammar_open("g", text, strlen(text), &g, &err);
        const bool failed = mem_fail_count() > 0;
        mem_fail_at(0, 0);
        assert_int_equal(st, failed ? HASTEN_ERR_MEMORY : HASTEN_OK);
        grammar_close(g);
        mem_stats_get(&after);
        assert_int_equal(after.live_bytes, before.live_bytes);
        if (!failed)
            break;
    }
}

/* ---- the corpus of fuzz/gbnf_fuzz.c -------------------------------------------------------------------------- */

static int write_input(const char *folder, const char *kind, size_t i, const char *grammar, const char *text)
{
    char path[512];
    struct hasten_error err;
    struct file *f;
    snprintf(path, sizeof path, "%s/%s-%03zu", folder, kind, i);
    hasten_status st = strlen(grammar) > 4000 ? HASTEN_OK : file_open(path, FILE_WRITE_TRUNC, &f, &err);
    if (!st && strlen(grammar) <= 4000) {
        st = file_write(f, grammar, strlen(grammar), &err);
        if (!st && text)
            st = file_write(f, "", 1, &err);
        if (!st && text)
            st = file_write(f, text, strlen(text), &err);
        file_close(f);
    }
    if (st)
        fprintf(stderr, "%s\n", err.message);
    return st != 0;
}

static int write_corpus(const char *folder)
{
    int bad = 0;
    for (size_t i = 0; i < sizeof languages / sizeof *languages; i++) {
        const struct language *l = &languages[i];
        bad |= write_input(folder, "text", i, l->grammar, l->in[1] ? l->in[1] : l->in[0]);
        bad |= write_input(folder, "no-text", i, l->grammar, l->out[0]);
    }
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++)
        bad |= write_input(folder, "error", i, errors[i].grammar, NULL);
    return bad | write_input(folder, "like-c", 0, C_GRAMMAR, "int f(int a){return a+1;}");
}

int main(int argc, char **argv)
{
    if (argc > 1)
        return write_corpus(argv[1]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts_in_and_out),
        cmocka_unit_test(errors_say_where),
        cmocka_unit_test(bounds_hold_on_both_sides),
        cmocka_unit_test(repetitions_are_bounded),
        cmocka_unit_test(spans_hold_exactly_their_range),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests_name("gbnf", tests, NULL, NULL);
}
