/* Fuzz target of grammars: a grammar, a NUL, and a text. A grammar that opens must say the same of the text, byte by
 * byte, by both parsers, and allow the same tokens of a small vocabulary, pieces of the text among them, behind its
 * beginning. The corpus is made by tests/sample/test_gbnf. */
#include "base/mem.h"
#include "sample/grammar.h"
#include "sample/scan.h"
#include <string.h>

enum {
    MAX_GRAMMAR = 4096,
    MAX_TEXT = 48,
    MAX_STEPS = 3000,
    N_TOKENS = 320
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool ok)
{
    if (!ok)
        __builtin_trap();
}

static void both_parsers(const struct grammar *g, const struct scan_rules *rules, const char *text,
                         size_t len)
{
    struct hasten_error err;
    struct scan s = {0};
    int st = scan_start(&s, rules);
    for (size_t n = 0; n <= len; n++) {
        bool whole, beginning;
        check(grammar_matches(g, text, n, &whole, &beginning, &err) == HASTEN_OK);
        check(beginning == (st == 1) && whole == (st == 1 && s.complete));
        if (st == 1 && n < len)
            st = scan_byte(&s, (uint8_t)text[n]);
    }
    scan_free(&s);
}

/* The bytes, then pieces of the text; two of them end. */
static struct token_trie *vocabulary(const char *text, size_t len)
{
    static const char bytes[] = {0};
    struct gguf_str tokens[N_TOKENS];
    uint8_t ends[N_TOKENS] = {[5] = 1, [300] = 1};
    char all[256];
    struct hasten_error err;
    struct token_trie *t;
    for (int i = 0; i < N_TOKENS; i++) {
        const size_t from = len ? (size_t)(i * 7) % len : 0, most = len - from, want = (size_t)(i % 6);
        if (i < 256)
            all[i] = (char)i;
        tokens[i] = i < 256 ? (struct gguf_str){all + i, 1}
                    : len   ? (struct gguf_str){text + from, want < most ? want : most}
                            : (struct gguf_str){bytes, 0};
    }
    check(token_trie_of(tokens, ends, N_TOKENS, &t, &err) == HASTEN_OK);
    return t;
}

static void both_masks(const struct grammar *g, const char *text, size_t len)
{
    struct token_trie *t = vocabulary(text, len);
    struct hasten_error err;
    struct grammar_masks *m[2];
    struct grammar_state *s[2];
    uint64_t bits[2][N_TOKENS / 64], first[N_TOKENS / 64];
    int32_t n[2];
    if (grammar_masks_open(g, t, GRAMMAR_TRIE, false, &m[0], &err) == HASTEN_ERR_USAGE) {
        token_trie_close(t); /* it names a token that is not there */
        return;
    }
    grammar_masks_close(m[0]);
    for (int i = 0; i < 2; i++) {
        check(grammar_masks_open(g, t, i ? GRAMMAR_SCAN : GRAMMAR_TRIE, false, &m[i], &err) == HASTEN_OK);
        check(grammar_start(m[i], &s[i], &err) == HASTEN_OK);
    }
    for (size_t at = 0; at <= len && at <= 8; at++) {
        for (int i = 0; i < 2; i++)
            check(grammar_mask(s[i], bits[i], &n[i], &err) == HASTEN_OK);
        check(n[0] == n[1] && memcmp(bits[0], bits[1], sizeof bits[0]) == 0);
        if (at == 0)
            memcpy(first, bits[0], sizeof first);
        const uint8_t next = at < len ? (uint8_t)text[at] : 5;
        const bool fits = bits[0][next / 64] >> next % 64 & 1;
        for (int i = 0; i < 2; i++)
            check((grammar_accept(s[i], next, &err) == HASTEN_OK) == fits);
        if (!fits)
            break;
    }
    for (int i = 0; i < 2; i++) {
        check(grammar_rollback(s[i], grammar_n_tokens(s[i]), &err) == HASTEN_OK);
        check(grammar_mask(s[i], bits[i], &n[i], &err) == HASTEN_OK);
        check(memcmp(bits[i], first, sizeof first) == 0);
        grammar_end(s[i]);
        grammar_masks_close(m[i]);
    }
    token_trie_close(t);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct hasten_error err = {0};
    struct grammar *g = NULL;
    struct gbnf *rules = NULL;
    struct scan_rules scan;
    const uint8_t *nul = size ? memchr(data, 0, size) : NULL;
    const size_t len = nul ? (size_t)(nul - data) : size;
    if (len > MAX_GRAMMAR)
        return 0;
    const hasten_status st = grammar_open("fuzz", (const char *)data, len, &g, &err);
    if (st) {
        check(!g && err.status == st && strstr(err.message, "fuzz"));
        return 0;
    }
    check(gbnf_parse("fuzz", (const char *)data, len, &rules, &err) == HASTEN_OK);
    if (scan_rules_open("fuzz", rules, &scan, &err) == HASTEN_OK) { /* it does without some of its bounds */
        const size_t text_len = nul ? size - len - 1 : 0;
        if (scan.rtn.steps.n <= MAX_STEPS && text_len <= MAX_TEXT) {
            both_parsers(g, &scan, nul ? (const char *)nul + 1 : "", text_len);
            both_masks(g, nul ? (const char *)nul + 1 : "", text_len);
        }
        scan_rules_close(&scan);
    }
    gbnf_free(rules);
    grammar_close(g);
    return 0;
}
