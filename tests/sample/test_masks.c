/* Masks of grammars: the trie engine gives the scan's masks bit for bit on random walks over several grammars and
 * vocabularies; what was taken back is as it was; a character may be cut by tokens; what is remembered is bounded; two
 * threads may share it.
 *
 *     test_masks [MODEL.gguf...]      more vocabularies, of models */
#include "base/limits.h"
#include "base/mem.h"
#include "base/rng.h"
#include "formats/gguf.h"
#include "grammars.h"
#include "sample/grammar.h"
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const char *const grammars[] = {
    JSON_GRAMMAR,
    C_GRAMMAR,
    "root ::= e\ne ::= e [-+] t | t\nt ::= t [*/] f | f\nf ::= \"(\" e \")\" | [0-9]+",
    "root ::= a\na ::= b \"x\" | \"p\"\nb ::= c \"y\" | \"q\"\nc ::= a \"z\" | b \"w\"",
    "root ::= \"\\n\"? (\"(\" root \")\" | \"[\" root \"]\")*",
    "root ::= [+-]? [0-9]+ (\", \" [+-]? [0-9]+)*",
    "root ::= root root | [a-c] | \"(\" root \")\"",
    "root ::= [^a-z \\n]{1,20} (\".\" | \"\xE2\x80\xA6\")",
    "root ::= pair (\"\\n\" pair)*\npair ::= [a-z]+ \"=\" (pair | [0-9a-z ]+ | \"'\" .* \"'\")",
    "root ::= a | b\na ::= \"the \" a | \"the end\"\nb ::= \"the \" b | \"the start\"",
    "root ::= \"\"",
};
#define N_GRAMMARS (sizeof grammars / sizeof *grammars)

static uint64_t seed = 1;

static uint32_t random_below(uint32_t n)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((seed >> 33) % n);
}

/* ---- vocabularies ------------------------------------------------------------------------------------------- */

/* Bytes, runs of what the grammars say, the same text twice, no text, characters cut in two, an end, and more. */
static struct token_trie *small_vocabulary(void)
{
    static const char pieces[] =
        "{\"a\":1,}[](){};=+-*/ \n\t.'0123456789abcxyzpqw_ifelsethend\xC3\xA9\xE2\x80\xA6\xF0\x9F\x98\x80";
    enum {
        N = 700
    };
    static char text[N][8];
    static struct gguf_str tokens[N];
    static uint8_t ends[N];
    struct hasten_error err;
    struct token_trie *t;
    for (int i = 0; i < N; i++) {
        size_t len = i < 256 ? 1 : 1 + random_below(6);
        const size_t from = random_below((uint32_t)(sizeof pieces - 8));
        text[i][0] = (char)i;
        if (i >= 256 && i % 3)
            memcpy(text[i], pieces + from, len);
        else if (i >= 256)
            for (size_t k = 0; k < len; k++)
                text[i][k] = pieces[random_below(sizeof pieces - 1)];
        if (i == 300)
            len = 0;
        tokens[i] = (struct gguf_str){text[i], len};
        ends[i] = i == 301 || i == 699;
    }
    assert_int_equal(token_trie_of(tokens, ends, N, &t, &err), HASTEN_OK);
    return t;
}

static struct token_trie *vocabulary_of(const char *path, int32_t *n_vocab)
{
    struct hasten_error err = {0};
    struct gguf *g;
    struct vocab *v;
    struct token_trie *t;
    if (gguf_open(path, &g, &err) || vocab_open(g, &v, &err))
        fail_msg("%s", err.message);
    *n_vocab = vocab_size(v) + 64; /* some rows beyond */
    assert_int_equal(token_trie_open(v, *n_vocab, &t, &err), HASTEN_OK);
    vocab_close(v);
    gguf_close(g);
    return t;
}

/* ---- random walks --------------------------------------------------------------------------------------------- */

struct pair { /* a grammar and a vocabulary in both engines */
    struct grammar *g;
    struct grammar_masks *m[2];
    struct grammar_state *s[2];
    uint64_t *bits[2];
    int32_t n_words;
};

static void pair_open(struct pair *p, const char *grammar, const struct token_trie *t)
{
    struct hasten_error err = {0};
    if (grammar_open("g", grammar, strlen(grammar), &p->g, &err))
        fail_msg("%s", err.message);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(grammar_masks_open(p->g, t, i ? GRAMMAR_SCAN : GRAMMAR_TRIE, false, &p->m[i], &err),
                         HASTEN_OK);
        assert_int_equal(grammar_start(p->m[i], &p->s[i], &err), HASTEN_OK);
        p->n_words = grammar_masks_n_words(p->m[i]);
        p->bits[i] = mem_array((size_t)p->n_words, sizeof(uint64_t));
    }
}

static void pair_close(struct pair *p)
{
    for (int i = 0; i < 2; i++) {
        grammar_end(p->s[i]);
        grammar_masks_close(p->m[i]);
        mem_free(p->bits[i]);
    }
    grammar_close(p->g);
}

/* Both masks, equal; returns how many tokens they allow. */
static int32_t masks(struct pair *p)
{
    struct hasten_error err = {0};
    int32_t n[2];
    bool complete[2];
    for (int i = 0; i < 2; i++) {
        if (grammar_mask(p->s[i], p->bits[i], &n[i], &err))
            fail_msg("%s", err.message);
        assert_int_equal(grammar_complete(p->s[i], &complete[i], &err), HASTEN_OK);
    }
    assert_int_equal(n[0], n[1]);
    assert_int_equal(complete[0], complete[1]);
    assert_memory_equal(p->bits[0], p->bits[1], (size_t)p->n_words * sizeof(uint64_t));
    int32_t count = 0;
    for (int32_t i = 0; i < p->n_words; i++)
        count += __builtin_popcountll(p->bits[0][i]);
    assert_int_equal(count, n[0]);
    return count;
}

static int32_t random_allowed(const struct pair *p, int32_t n)
{
    uint32_t k = random_below((uint32_t)n);
    for (int32_t i = 0; i < p->n_words; i++)
        for (uint64_t left = p->bits[0][i]; left; left &= left - 1)
            if (k-- == 0)
                return i * 64 + __builtin_ctzll(left);
    return -1;
}

static void accept(struct pair *p, int32_t token, bool fits)
{
    struct hasten_error err;
    for (int i = 0; i < 2; i++)
        assert_int_equal(grammar_accept(p->s[i], token, &err), fits ? HASTEN_OK : HASTEN_ERR_USAGE);
}

/* One walk: masks are equal all the way; a token that is not allowed is refused; steps back, and a clone, are as what
 * they came from. Returns the masks compared. */
static int walk(struct pair *p, const struct token_trie *t, int32_t n_vocab, int n_steps)
{
    struct hasten_error err;
    int compared = 0;
    (void)t;
    for (int step = 0; step < n_steps; step++, compared++) {
        const int32_t n = masks(p);
        if (n == 0)
            break;
        const int32_t no = (int32_t)random_below((uint32_t)n_vocab);
        if (!(p->bits[0][no / 64] >> no % 64 & 1))
            accept(p, no, false);
        const int32_t token = random_allowed(p, n);
        uint64_t *before = mem_array((size_t)p->n_words, sizeof *before);
        memcpy(before, p->bits[0], (size_t)p->n_words * sizeof *before);
        accept(p, token, true);
        if (random_below(4) == 0) {
            for (int i = 0; i < 2; i++)
                assert_int_equal(grammar_rollback(p->s[i], 1, &err), HASTEN_OK);
            assert_int_equal(masks(p), n);
            assert_memory_equal(before, p->bits[0], (size_t)p->n_words * sizeof *before);
            for (int i = 0; i < 2; i++) {
                struct grammar_state *c;
                assert_int_equal(grammar_clone(p->s[i], &c, &err), HASTEN_OK);
                grammar_end(p->s[i]);
                p->s[i] = c;
            }
            accept(p, token, true);
        }
        mem_free(before);
    }
    return compared;
}

static void back_to_the_start(struct pair *p)
{
    struct hasten_error err;
    for (int i = 0; i < 2; i++) {
        const int64_t n = grammar_n_tokens(p->s[i]);
        assert_int_equal(grammar_rollback(p->s[i], n + 1, &err), HASTEN_ERR_USAGE);
        assert_int_equal(grammar_rollback(p->s[i], n, &err), HASTEN_OK);
        assert_int_equal(grammar_n_tokens(p->s[i]), 0);
    }
}

static int walks(const struct token_trie *t, int32_t n_vocab, size_t n_grammars, int n_walks, int n_steps)
{
    int compared = 0;
    for (size_t g = 0; g < n_grammars; g++) {
        struct pair p;
        pair_open(&p, grammars[g], t);
        for (int w = 0; w < n_walks; w++) {
            compared += walk(&p, t, n_vocab, n_steps);
            back_to_the_start(&p);
        }
        pair_close(&p);
    }
    return compared;
}

static void engines_agree_on_a_small_vocabulary(void **state)
{
    (void)state;
    struct token_trie *t = small_vocabulary();
    print_message("%d masks compared\n", walks(t, 700, N_GRAMMARS, 12, 40));
    token_trie_close(t);
}

static int n_models;
static char **models;

static void engines_agree_on_vocabularies_of_models(void **state)
{
    (void)state;
    for (int i = 0; i < n_models; i++) {
        int32_t n_vocab;
        struct token_trie *t = vocabulary_of(models[i], &n_vocab);
        print_message("%d masks of %d tokens compared\n", walks(t, n_vocab, 3, 1, n_vocab < 100000 ? 12 : 4),
                      (int)n_vocab);
        token_trie_close(t);
    }
}

/* ---- by hand --------------------------------------------------------------------------------------------------- */

static int32_t allowed_ids(struct grammar_state *s, int32_t ids[16])
{
    struct hasten_error err;
    uint64_t bits[4] = {0};
    int32_t n, k = 0;
    assert_int_equal(grammar_mask(s, bits, &n, &err), HASTEN_OK);
    for (int i = 0; i < 256 && k < 16; i++)
        if (bits[i / 64] >> i % 64 & 1)
            ids[k++] = i;
    assert_int_equal(k, n);
    return n;
}

static void a_character_may_be_cut(void **state)
{
    (void)state;
    /* 0: e, 1: first byte of é, 2: its second, 3: é, 4: é!, 5: second byte and !, 6: end, 7: nothing, 8: U+2026's first two */
    static const struct gguf_str text[] = {{"e", 1},        {"\xC3", 1},      {"\xA9", 1},
                                           {"\xC3\xA9", 2}, {"\xC3\xA9!", 3}, {"\xA9!", 2},
                                           {"</s>", 4},     {"", 0},          {"\xE2\x80", 2}};
    static const uint8_t ends[9] = {[6] = 1};
    struct hasten_error err;
    struct token_trie *t;
    assert_int_equal(token_trie_of(text, ends, 9, &t, &err), HASTEN_OK);
    for (int engine = 0; engine < 2; engine++) {
        struct pair p;
        int32_t ids[16], forced;
        uint64_t bits[1];
        pair_open(&p, "root ::= \"\xC3\xA9\" \"!\"?", t);
        struct grammar_state *s = p.s[engine];
        assert_int_equal(allowed_ids(s, ids), 3);
        assert_int_equal(ids[0], 1);
        assert_int_equal(ids[2], 4);
        assert_int_equal(grammar_accept(s, 2, &err), HASTEN_ERR_USAGE);
        assert_string_equal(err.message, "grammar: token 2 is not allowed behind 0 tokens");
        assert_int_equal(grammar_accept(s, 6, &err), HASTEN_ERR_USAGE);
        assert_int_equal(grammar_accept(s, 7, &err), HASTEN_ERR_USAGE);
        assert_int_equal(grammar_accept(s, -1, &err), HASTEN_ERR_USAGE);
        assert_int_equal(grammar_accept(s, 9, &err), HASTEN_ERR_USAGE);
        assert_int_equal(grammar_accept(s, 1, &err), HASTEN_OK);
        assert_int_equal(allowed_ids(s, ids), 2);
        assert_int_equal(ids[0], 2);
        assert_int_equal(ids[1], 5);
        assert_int_equal(grammar_forced(s, bits, &forced, &err), HASTEN_OK);
        assert_int_equal(forced, -1);
        assert_int_equal(grammar_accept(s, 5, &err), HASTEN_OK);
        assert_int_equal(grammar_forced(s, bits, &forced, &err), HASTEN_OK);
        assert_int_equal(forced, 6);
        assert_int_equal(grammar_accept(s, 6, &err), HASTEN_OK);
        assert_int_equal(grammar_n_tokens(s), 3);
        assert_int_equal(allowed_ids(s, ids), 0);
        assert_int_equal(grammar_accept(s, 6, &err), HASTEN_ERR_USAGE);
        assert_int_equal(grammar_rollback(s, 2, &err), HASTEN_OK);
        assert_int_equal(allowed_ids(s, ids), 2);
        pair_close(&p);
        pair_open(&p, "root ::= \"\xE2\x80\xA6\"", t); /* no token can go on: no error, and not complete */
        assert_int_equal(grammar_accept(p.s[engine], 8, &err), HASTEN_OK);
        assert_int_equal(allowed_ids(p.s[engine], ids), 0);
        pair_close(&p);
    }
    token_trie_close(t);
}

static void never_end_means_never(void **state)
{
    (void)state;
    static const struct gguf_str text[] = {{"a", 1}, {"", 0}};
    static const uint8_t ends[] = {0, 1};
    struct hasten_error err;
    struct token_trie *t;
    struct grammar *g;
    struct grammar_masks *m;
    struct grammar_state *s;
    int32_t ids[16];
    assert_int_equal(token_trie_of(text, ends, 2, &t, &err), HASTEN_OK);
    assert_int_equal(grammar_open("g", "root ::= \"a\"*", 13, &g, &err), HASTEN_OK);
    assert_int_equal(grammar_masks_open(g, t, GRAMMAR_TRIE, true, &m, &err), HASTEN_OK);
    assert_int_equal(grammar_start(m, &s, &err), HASTEN_OK);
    assert_int_equal(allowed_ids(s, ids), 1);
    assert_int_equal(grammar_accept(s, 1, &err), HASTEN_ERR_USAGE);
    grammar_end(s);
    grammar_masks_close(m);
    grammar_close(g);
    token_trie_close(t);
}

/* ---- what is remembered ------------------------------------------------------------------------------------------ */

/* A grammar whose parses are never twice the same: what is remembered is forgotten in time, and masks stay right. */
static void memory_is_bounded(void **state)
{
    (void)state;
    struct token_trie *t = small_vocabulary();
    struct hasten_error err = {0};
    struct grammar *g;
    struct grammar_masks *m;
    struct grammar_state *s, *other;
    const char *text = "root ::= (\"(\" root \")\")? | \"[\" root \"]\"";
    uint64_t bits[11], again[11];
    size_t most = 0;
    int32_t n;
    assert_int_equal(grammar_open("g", text, strlen(text), &g, &err), HASTEN_OK);
    assert_int_equal(grammar_masks_open(g, t, GRAMMAR_TRIE, false, &m, &err), HASTEN_OK);
    assert_int_equal(grammar_start(m, &s, &err), HASTEN_OK);
    assert_int_equal(grammar_start(m, &other, &err), HASTEN_OK);
    assert_int_equal(grammar_accept(other, '(', &err), HASTEN_OK);
    assert_int_equal(grammar_mask(other, bits, &n, &err), HASTEN_OK);
    hasten_status st = HASTEN_OK;
    for (int i = 0; i < 1000000 && !st; i++) {
        st = grammar_accept(s, random_below(2) ? '(' : '[', &err);
        const size_t now = grammar_masks_bytes(m);
        most = now > most ? now : most;
    }
    assert_int_equal(st, HASTEN_ERR_LIMIT); /* the text alone needs more */
    assert_in_range(most, LIMIT_GRAMMAR_MEMORY, LIMIT_GRAMMAR_MEMORY + (LIMIT_GRAMMAR_MEMORY >> 2));
    assert_int_equal(grammar_mask(other, again, &n, &err), HASTEN_OK);
    assert_memory_equal(bits, again, sizeof bits);
    assert_true(grammar_masks_bytes(m) < LIMIT_GRAMMAR_MEMORY / 16);
    grammar_end(s);
    grammar_end(other);
    grammar_masks_close(m);
    grammar_close(g);
    token_trie_close(t);
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    struct token_trie *t = small_vocabulary();
    struct hasten_error err;
    struct grammar *g;
    struct mem_stats before, after;
    assert_int_equal(grammar_open("g", grammars[2], strlen(grammars[2]), &g, &err), HASTEN_OK);
    mem_stats_get(&before);
    for (int engine = 0; engine < 2; engine++)
        for (uint64_t k = 1;; k++) {
            struct grammar_masks *m = NULL;
            struct grammar_state *s = NULL, *c = NULL;
            uint64_t bits[11];
            int32_t n;
            mem_fail_at(k, 0);
            hasten_status st =
                grammar_masks_open(g, t, engine ? GRAMMAR_SCAN : GRAMMAR_TRIE, false, &m, &err);
            st = st ? st : grammar_start(m, &s, &err);
            st = st ? st : grammar_accept(s, '(', &err);
            st = st ? st : grammar_accept(s, '1', &err);
            st = st ? st : grammar_mask(s, bits, &n, &err);
            st = st ? st : grammar_clone(s, &c, &err);
            st = st ? st : grammar_accept(c, ')', &err);
            st = st ? st : grammar_mask(c, bits, &n, &err);
            const bool failed = mem_fail_count() > 0;
            mem_fail_at(0, 0);
            assert_int_equal(st, failed ? HASTEN_ERR_MEMORY : HASTEN_OK);
            if (s && failed) { /* the sequence is as it was, and goes on */
                const int64_t had = grammar_n_tokens(s);
                if (had < 1)
                    assert_int_equal(grammar_accept(s, '(', &err), HASTEN_OK);
                if (had < 2)
                    assert_int_equal(grammar_accept(s, '1', &err), HASTEN_OK);
                assert_int_equal(grammar_mask(s, bits, &n, &err), HASTEN_OK);
                assert_true(bits[0] >> ')' & 1);
            }
            grammar_end(s);
            grammar_end(c);
            grammar_masks_close(m);
            mem_stats_get(&after);
            assert_int_equal(after.live_bytes, before.live_bytes);
            if (!failed)
                break;
        }
    grammar_close(g);
    token_trie_close(t);
}

/* ---- threads ------------------------------------------------------------------------------------------------------ */

struct worker {
    struct grammar_masks *m;
    uint64_t sum;
};

static void *walk_alone(void *ctx)
{
    struct worker *w = ctx;
    struct hasten_error err;
    struct grammar_state *s;
    uint64_t bits[11];
    if (grammar_start(w->m, &s, &err))
        return NULL;
    for (uint32_t i = 0; i < 300; i++) {
        int32_t n = 0, k = 0;
        if (grammar_mask(s, bits, &n, &err) || n == 0)
            break;
        for (int32_t id = 0, left = (int32_t)(i * 7919u % (uint32_t)n); left >= 0; id++) {
            left -= (int32_t)(bits[id / 64] >> id % 64 & 1);
            k = id;
        }
        for (int j = 0; j < 11; j++)
            w->sum = w->sum * 31 + bits[j];
        if (grammar_accept(s, k, &err))
            break;
    }
    grammar_end(s);
    return NULL;
}

static void threads_share_masks(void **state)
{
    (void)state;
    struct token_trie *t = small_vocabulary();
    struct hasten_error err;
    struct grammar *g;
    struct worker w[4] = {{0}};
    pthread_t threads[4];
    assert_int_equal(grammar_open("g", JSON_GRAMMAR, strlen(JSON_GRAMMAR), &g, &err), HASTEN_OK);
    assert_int_equal(grammar_masks_open(g, t, GRAMMAR_TRIE, false, &w[0].m, &err), HASTEN_OK);
    for (int i = 0; i < 4; i++) {
        w[i].m = w[0].m;
        assert_int_equal(pthread_create(&threads[i], NULL, walk_alone, &w[i]), 0);
    }
    for (int i = 0; i < 4; i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(w[i].sum, w[0].sum);
    }
    assert_int_not_equal(w[0].sum, 0);
    grammar_masks_close(w[0].m);
    grammar_close(g);
    token_trie_close(t);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(engines_agree_on_a_small_vocabulary),
        cmocka_unit_test(engines_agree_on_vocabularies_of_models),
        cmocka_unit_test(a_character_may_be_cut),
        cmocka_unit_test(never_end_means_never),
        cmocka_unit_test(memory_is_bounded),
        cmocka_unit_test(every_allocation_may_fail),
        cmocka_unit_test(threads_share_masks),
    };
    n_models = argc - 1;
    models = argv + 1;
    return cmocka_run_group_tests_name("masks", tests, NULL, NULL);
}
