/* What the tests of JSON Schemas ask, as lines of JSON on stdin and stdout (test_schema.py).
 *
 *     {"schema": any | "regex": text, "texts": [text...], "walks": n, "seed": n}
 *     -> {"error": message, "status": n} or {"fits": [bool...], "walks": [text...], "unfinished": n}
 *
 * A walk goes at random through what the masks of a tiny vocabulary allow, until the text is complete and chance, or the
 * grammar, ends it; behind 200 tokens it goes by the shortest way it can find. */
#include "base/mem.h"
#include "sample/grammar.h"
#include "sample/json_schema.h"
#include "sample/regex.h"
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    PATIENCE = 200,
    MOST = 3000
};

static const char *const pieces[] = {
    "\"",
    "\\",
    "/",
    "{",
    "}",
    "[",
    "]",
    ",",
    ":",
    " ",
    "\n",
    "-",
    "+",
    ".",
    "e",
    "E",
    "0",
    "1",
    "2",
    "3",
    "4",
    "5",
    "6",
    "7",
    "8",
    "9",
    "a",
    "b",
    "c",
    "d",
    "f",
    "n",
    "r",
    "t",
    "u",
    "x",
    "z",
    "A",
    "Z",
    "_",
    "@",
    "!",
    "#",
    "~",
    "{\"",
    "\":",
    ", \"",
    "\": ",
    "\"}",
    "\"]",
    "true",
    "10",
    "99",
    "0.",
    "null",
    "false",
    "name",
    "id",
    "-1",
    "\xC3",
    "\xA9",
    "\xE2\x82\xAC",
    "\xF0\x9F\x98\x80",
    "\\n",
    "\\u00",
    "\\\"",
    "T",
    "Z\"",
    "://",
    "http",
    "  ",
    "},",
    "\",",
    "value",
    "tag",
    "type",
    "1e",
    "P1D",
    "%",
    "?",
    "=",
    "W",
};
#define N_PIECES ((int)(sizeof pieces / sizeof *pieces))

static uint64_t seed;

static uint32_t below(uint32_t n)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((seed >> 33) % n);
}

/* The pieces, then every byte; the last token ends the text. */
static struct token_trie *vocabulary(void)
{
    static char bytes[256];
    static struct gguf_str tokens[N_PIECES + 257];
    static uint8_t ends[N_PIECES + 257];
    struct hasten_error err;
    struct token_trie *t = NULL;
    for (int i = 0; i < N_PIECES; i++)
        tokens[i] = (struct gguf_str){pieces[i], strlen(pieces[i])};
    for (int i = 0; i < 256; i++) {
        bytes[i] = (char)i;
        tokens[N_PIECES + i] = (struct gguf_str){bytes + i, 1};
    }
    tokens[N_PIECES + 256] = (struct gguf_str){bytes, 0};
    ends[N_PIECES + 256] = 1;
    return token_trie_of(tokens, ends, N_PIECES + 257, &t, &err) ? NULL : t;
}

/* The k-th token that the mask allows. */
static int32_t pick(const uint64_t *bits, uint32_t k)
{
    for (int32_t i = 0;; i++)
        if (bits[i / 64] >> i % 64 & 1 && k-- == 0)
            return i;
}

/* What ends things soonest: an end, then brackets and quotes that close, then the first token. */
static int32_t shortest(const uint64_t *bits)
{
    static const char *const order[] = {"\"", "}", "]", "0", "1", "null", "{", "[", ":", ","};
    if (bits[(N_PIECES + 256) / 64] >> (N_PIECES + 256) % 64 & 1)
        return N_PIECES + 256;
    for (size_t k = 0; k < sizeof order / sizeof *order; k++)
        for (int32_t i = 0; i < N_PIECES; i++)
            if (strcmp(pieces[i], order[k]) == 0 && bits[i / 64] >> i % 64 & 1)
                return i;
    return -1;
}

/* True when the text was brought to an end. */
static int walk(struct grammar_masks *m, struct buf *text)
{
    struct hasten_error err;
    struct grammar_state *s = NULL;
    uint64_t bits[(N_PIECES + 257 + 63) / 64];
    int32_t n = 0, ended = 0;
    if (grammar_start(m, &s, &err))
        return 0;
    for (int i = 0; i < MOST && !ended && !grammar_mask(s, bits, &n, &err) && n; i++) {
        int32_t id = i > PATIENCE + (int)below(50) ? shortest(bits) : -1;
        for (int tries = 0; id < 0 && tries < 2; tries++) { /* pieces rather than bytes, spaces rather not */
            id = pick(bits, below((uint32_t)n));
            if (tries == 0 && (id >= N_PIECES || pieces[id][0] == ' ' || pieces[id][0] == '\n') &&
                id != N_PIECES + 256)
                id = -1;
        }
        if (grammar_accept(s, id, &err))
            break;
        if (id == N_PIECES + 256)
            ended = 1;
        else if (id < N_PIECES)
            buf_puts(text, pieces[id]);
        else
            buf_putc(text, (char)(id - N_PIECES));
    }
    grammar_end(s);
    return ended;
}

static hasten_status answer(const json_t *q, const struct token_trie *t, json_t *a, struct hasten_error *err)
{
    struct buf gbnf = {0}, text = {0};
    struct grammar *g = NULL;
    struct grammar_masks *m = NULL;
    const json_t *one, *schema = json_object_get(q, "schema"), *regex = json_object_get(q, "regex");
    size_t i;
    long long unfinished = 0;
    hasten_status st;
    if (regex) {
        st = regex_grammar(json_string_value(regex), json_string_length(regex), &gbnf, err);
    } else {
        char *dumped = json_dumps(schema, JSON_ENCODE_ANY);
        st = json_schema_grammar(dumped, strlen(dumped), &gbnf, err);
        mem_free(dumped);
    }
    if (!st)
        st = grammar_open("grammar", gbnf.data, gbnf.len, &g, err);
    if (!st)
        st = grammar_masks_open(g, t, GRAMMAR_TRIE, false, &m, err);
    if (!st) {
        json_t *fits = json_array(), *walks = json_array();
        json_array_foreach(json_object_get(q, "texts"), i, one)
        {
            bool whole = false, beginning;
            st = grammar_matches(g, json_string_value(one), json_string_length(one), &whole, &beginning, err);
            json_array_append_new(fits, json_boolean(whole));
        }
        seed = (uint64_t)json_integer_value(json_object_get(q, "seed"));
        for (long long k = json_integer_value(json_object_get(q, "walks")); k > 0; k--) {
            buf_clear(&text);
            if (walk(m, &text))
                json_array_append_new(walks, json_stringn(text.data ? text.data : "", text.len));
            else
                unfinished++;
        }
        json_object_set_new(a, "fits", fits);
        json_object_set_new(a, "walks", walks);
        json_object_set_new(a, "unfinished", json_integer(unfinished));
    }
    if (json_is_true(json_object_get(q, "gbnf")) && gbnf.data)
        json_object_set_new(a, "gbnf", json_string(gbnf.data));
    grammar_masks_close(m);
    grammar_close(g);
    buf_free(&gbnf);
    buf_free(&text);
    return st;
}

int main(void)
{
    struct hasten_error err = {0};
    json_set_alloc_funcs(mem_alloc, mem_free);
    struct token_trie *t = vocabulary();
    json_t *q;
    while (t && (q = json_loadf(stdin, JSON_DISABLE_EOF_CHECK, NULL))) {
        json_t *a = json_object();
        const hasten_status st = answer(q, t, a, &err);
        if (st) {
            json_object_set_new(a, "error", json_string(err.message));
            json_object_set_new(a, "status", json_integer(st));
        }
        json_dumpf(a, stdout, JSON_COMPACT);
        putchar('\n');
        fflush(stdout);
        json_decref(a);
        json_decref(q);
    }
    token_trie_close(t);
    return t ? 0 : 1;
}
