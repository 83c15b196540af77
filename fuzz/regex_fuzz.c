/* Fuzz target of regular expressions: a pattern, a NUL, and a text. A pattern that is taken makes a grammar that opens,
 * unless it is too large; a whole text is as long as the expression says, and stays whole under bounds of just that length.
 * The corpus is made by tests/sample/schemas.py. */
#include "base/mem.h"
#include "fuzz.h"
#include "sample/grammar.h"
#include "sample/regex.h"
#include "text/unicode.h"

enum {
    MAX_PATTERN = 512,
    MAX_TEXT = 64
};

static bool fits(const struct buf *gbnf, const struct part *text, bool *opened)
{
    struct hasten_error err;
    struct grammar *g = NULL;
    bool whole = false, beginning;
    const hasten_status st = grammar_open("fuzz", gbnf->data, gbnf->len, &g, &err);
    check(!st || st == HASTEN_ERR_LIMIT || strstr(err.message, "matches no text"));
    *opened = !st;
    if (g)
        check(grammar_matches(g, text->text, text->len, &whole, &beginning, &err) == HASTEN_OK);
    grammar_close(g);
    return whole;
}

static int64_t characters(const struct part *text)
{
    int64_t n = 0;
    for (size_t i = 0; i < text->len; i++)
        n += ((unsigned char)text->text[i] & 0xC0) != 0x80;
    return n;
}

static void check_lengths(const struct part *pattern, const struct part *text, bool whole)
{
    struct hasten_error err;
    struct regex r = {0};
    struct buf root = {0}, rules = {0};
    int64_t shortest, longest;
    bool done, opened;
    const int64_t n = characters(text);
    check(regex_parse("fuzz", pattern->text, pattern->len, false, &r, &err) == HASTEN_OK);
    check(regex_lengths(&r, &shortest, &longest) == 0 && shortest >= 0 &&
          (longest < 0 || longest >= shortest));
    check(!whole || (n >= shortest && (longest < 0 || n <= longest)));
    check(buf_puts(&root, "root ::= ") == 0);
    check(regex_put_bounded(&r, REGEX_PLAIN, n, n, false, "n-", &root, &rules, &done) == 0);
    if (done) {
        check(buf_puts(&root, "\n") == 0 && (!rules.len || buf_put(&root, rules.data, rules.len) == 0));
        const bool bounded = fits(&root, text, &opened);
        check(!opened || bounded == whole);
    }
    regex_free(&r);
    buf_free(&root);
    buf_free(&rules);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct hasten_error err = {0};
    struct buf gbnf = {0};
    const struct part pattern = next_part(&data, &size), text = next_part(&data, &size);
    bool opened;
    if (pattern.len > MAX_PATTERN || text.len > MAX_TEXT)
        return 0;
    const hasten_status st = regex_grammar(pattern.text, pattern.len, &gbnf, &err);
    check_error(st, &err);
    if (!st) {
        const bool whole = fits(&gbnf, &text, &opened);
        if (opened && utf8_valid_run(text.text, text.len) == text.len)
            check_lengths(&pattern, &text, whole);
    }
    buf_free(&gbnf);
    return 0;
}
