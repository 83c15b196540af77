/* Grammars, masks and the state of a sequence (grammar.h): which engine does what, one lock around what sequences share,
 * and the bound on what is remembered. When that is reached all is forgotten, and a sequence that comes by again is
 * parsed again from its first token. */
#include "sample/grammar.h"
#include "base/file.h"
#include "base/limits.h"
#include "sample/mask_tree.h"
#include "sample/scan.h"
#include <pthread.h>

struct grammar {
    char *name;
    struct gbnf *gbnf;
    struct network net;
};

struct named_token { /* by the grammar; it reads as one byte */
    int32_t id;
    uint8_t byte;
};

struct grammar_masks {
    struct named_token named[LIMIT_GRAMMAR_TOKENS];
    int n_named;
    const struct grammar *g;
    const struct token_trie *trie;
    enum grammar_engine engine;
    bool never_end;
    struct scan_rules rules; /* GRAMMAR_SCAN */
    pthread_mutex_t lock;    /* of what follows: GRAMMAR_TRIE */
    struct stacks stacks;
    struct mask_tree tree;
    uint32_t generation; /* how often all was forgotten */
};

struct grammar_state {
    struct grammar_masks *m;
    LIST(int32_t) tokens;
    bool ended;
    uint32_t generation;  /* GRAMMAR_TRIE: of the parses */
    LIST(int32_t) parses; /* parses.at[i] is behind i tokens */
    struct scan scan;     /* GRAMMAR_SCAN */
    LIST(int64_t) places; /* the scan's position behind i tokens */
};

/* ---- grammars ------------------------------------------------------------------------------------------- */

hasten_status grammar_open(const char *name, const char *text, size_t len, struct grammar **out,
                           struct hasten_error *err)
{
    struct grammar *g = mem_calloc(1, sizeof *g);
    *out = NULL;
    if (g)
        g->name = mem_strndup(name, strlen(name));
    hasten_status st =
        g && g->name ? HASTEN_OK : error_set(err, HASTEN_ERR_MEMORY, "%s: out of memory", name);
    if (!st)
        st = gbnf_parse(name, text, len, &g->gbnf, err);
    if (!st)
        st = network_build(name, g->gbnf, &g->net, err);
    if (st)
        grammar_close(g);
    else
        *out = g;
    return st;
}

hasten_status grammar_open_file(const char *path, struct grammar **out, struct hasten_error *err)
{
    char *text = NULL;
    size_t len = 0;
    *out = NULL;
    hasten_status st = file_slurp(path, LIMIT_GRAMMAR_BYTES, &text, &len, err);
    if (!st)
        st = grammar_open(strcmp(path, "-") == 0 ? "stdin" : path, text, len, out, err);
    mem_free(text);
    return st;
}

void grammar_close(struct grammar *g)
{
    if (!g)
        return;
    gbnf_free(g->gbnf);
    network_free(&g->net);
    mem_free(g->name);
    mem_free(g);
}

int32_t grammar_n_rules(const struct grammar *g)
{
    return (int32_t)g->gbnf->rules.n;
}

bool grammar_names_tokens(const struct grammar *g)
{
    return g->gbnf->tokens.n > 0;
}

/* ---- what sequences share ------------------------------------------------------------------------------- */

static hasten_status no_memory(struct hasten_error *err)
{
    return error_set(err, HASTEN_ERR_MEMORY, "grammar: out of memory");
}

static size_t remembered(const struct grammar_masks *m)
{
    return m->stacks.bytes + m->tree.bytes;
}

static void forget(struct grammar_masks *m)
{
    stacks_clear(&m->stacks);
    mask_tree_clear(&m->tree);
}

static int remember(struct grammar_masks *m)
{
    m->stacks.net = &m->g->net;
    return stacks_open(&m->stacks) || mask_tree_open(&m->tree, &m->g->net, m->trie, &m->stacks);
}

/* Which tokens the grammar's names are. */
static hasten_status find_named(struct grammar_masks *m, struct hasten_error *err)
{
    const struct gbnf *g = m->g->gbnf;
    for (int i = 0; i < (int)g->tokens.n; i++) {
        const struct gbnf_token *t = &g->tokens.at[i];
        const int32_t id = t->len ? token_trie_find(m->trie, t->name, (size_t)t->len) : t->id;
        if (t->len && id < 0)
            return error_set(err, HASTEN_ERR_USAGE, "%s: the vocabulary has no token %.*s", m->g->name,
                             t->len < 64 ? (int)t->len : 64, t->name);
        if (id >= m->trie->n_vocab || token_ends(m->trie, id))
            return error_set(err, HASTEN_ERR_USAGE, "%s: token %d %s", m->g->name, (int)id,
                             id >= m->trie->n_vocab ? "is not in the vocabulary"
                                                    : "ends a turn (an answer ends where the grammar does)");
        m->named[m->n_named++] = (struct named_token){id, (uint8_t)(GBNF_TOKEN_BYTE + i)};
    }
    return HASTEN_OK;
}

hasten_status grammar_masks_open(const struct grammar *g, const struct token_trie *t,
                                 enum grammar_engine engine, bool never_end, struct grammar_masks **out,
                                 struct hasten_error *err)
{
    struct grammar_masks *m = mem_calloc(1, sizeof *m);
    *out = NULL;
    if (!m)
        return no_memory(err);
    m->g = g;
    m->trie = t;
    m->engine = engine;
    m->never_end = never_end;
    pthread_mutex_init(&m->lock, NULL);
    hasten_status st = find_named(m, err);
    if (!st && engine == GRAMMAR_SCAN)
        st = scan_rules_open(g->name, g->gbnf, &m->rules, err);
    else if (!st && remember(m))
        st = no_memory(err);
    if (st)
        grammar_masks_close(m);
    else
        *out = m;
    return st;
}

void grammar_masks_close(struct grammar_masks *m)
{
    if (!m)
        return;
    forget(m);
    scan_rules_close(&m->rules);
    pthread_mutex_destroy(&m->lock);
    mem_free(m);
}

int32_t grammar_masks_n_words(const struct grammar_masks *m)
{
    return m->trie->n_words;
}

size_t grammar_masks_bytes(struct grammar_masks *m)
{
    pthread_mutex_lock(&m->lock);
    const size_t n = remembered(m);
    pthread_mutex_unlock(&m->lock);
    return n;
}

/* ---- engine: trie (the lock is held) -------------------------------------------------------------------- */

static int32_t parse_of(const struct grammar_state *s)
{
    return s->parses.at[s->parses.n - 1];
}

/* The parse behind one more token; PARSE_DEAD, PARSE_FAILED. */
static int32_t parse_token(struct grammar_masks *m, int32_t parse, int32_t token)
{
    const uint32_t *at = m->trie->text_at;
    for (int i = 0; i < m->n_named; i++)
        if (m->named[i].id == token) {
            const int32_t next = stacks_next(&m->stacks, parse, m->named[i].byte);
            if (next != PARSE_DEAD)
                return next;
        }
    if (at[token] == at[token + 1])
        return PARSE_DEAD;
    for (uint32_t i = at[token]; i < at[token + 1] && parse >= 0; i++)
        parse = stacks_next(&m->stacks, parse, (uint8_t)m->trie->text.data[i]);
    return parse;
}

/* Parses all tokens again, after what they had led to was forgotten. */
static hasten_status parse_again(struct grammar_state *s, struct hasten_error *err)
{
    struct grammar_masks *m = s->m;
    int32_t parse = stacks_start(&m->stacks);
    s->parses.n = 0;
    int bad = parse < 0 || LIST_PUSH(&s->parses, parse);
    for (int64_t i = 0; i < s->tokens.n && !bad; i++) {
        parse = parse_token(m, parse, s->tokens.at[i]);
        bad = parse < 0 || LIST_PUSH(&s->parses, parse);
    }
    if (!bad && remembered(m) <= LIMIT_GRAMMAR_MEMORY) {
        s->generation = m->generation;
        return HASTEN_OK;
    }
    s->parses.n = 0;
    if (bad)
        return no_memory(err);
    return error_set(
        err, HASTEN_ERR_LIMIT,
        "%s: this text needs more than %lld MiB of parses (expected a grammar that is less ambiguous)",
        m->g->name, (long long)(LIMIT_GRAMMAR_MEMORY >> 20));
}

/* Before anything is asked of the trie engine: too much remembered is forgotten, and the sequence's parses are made to
 * be of what is remembered now. */
static hasten_status settle(struct grammar_state *s, struct hasten_error *err)
{
    struct grammar_masks *m = s->m;
    if (remembered(m) > LIMIT_GRAMMAR_MEMORY || !m->tree.path) {
        forget(m);
        m->generation++;
        if (remember(m)) {
            forget(m);
            return no_memory(err);
        }
    }
    return s->generation == m->generation && s->parses.n ? HASTEN_OK : parse_again(s, err);
}

static hasten_status trie_accept(struct grammar_state *s, int32_t token, bool *fits, struct hasten_error *err)
{
    struct grammar_masks *m = s->m;
    pthread_mutex_lock(&m->lock);
    hasten_status st = settle(s, err);
    if (!st) {
        const int32_t next = parse_token(m, parse_of(s), token);
        *fits = next >= 0;
        if (next == PARSE_FAILED || (next >= 0 && LIST_PUSH(&s->parses, next)))
            st = no_memory(err);
    }
    pthread_mutex_unlock(&m->lock);
    return st;
}

/* Adds the tokens that the grammar names here. */
static int add_named(struct grammar_state *s, uint64_t *bits, int32_t *n)
{
    struct grammar_masks *m = s->m;
    for (int i = 0; i < m->n_named; i++) {
        const int32_t id = m->named[i].id;
        const int32_t next = stacks_next(&m->stacks, parse_of(s), m->named[i].byte);
        if (next == PARSE_FAILED)
            return -1;
        if (next != PARSE_DEAD && !(bits[id / 64] >> id % 64 & 1)) {
            bits[id / 64] |= 1ull << id % 64;
            ++*n;
        }
    }
    return 0;
}

static hasten_status trie_mask(struct grammar_state *s, uint64_t *bits, int32_t *n, struct hasten_error *err)
{
    struct grammar_masks *m = s->m;
    pthread_mutex_lock(&m->lock);
    hasten_status st = settle(s, err);
    if (!st) {
        *n = mask_tree_mask(&m->tree, parse_of(s), bits);
        if (*n < 0 || add_named(s, bits, n))
            st = no_memory(err);
    }
    pthread_mutex_unlock(&m->lock);
    return st;
}

static hasten_status trie_complete(struct grammar_state *s, bool *complete, struct hasten_error *err)
{
    struct grammar_masks *m = s->m;
    pthread_mutex_lock(&m->lock);
    hasten_status st = settle(s, err);
    if (!st)
        *complete = m->stacks.parses.at[parse_of(s)].complete;
    pthread_mutex_unlock(&m->lock);
    return st;
}

/* ---- engine: scan --------------------------------------------------------------------------------------- */

static int try_token(struct grammar_state *s, int32_t token)
{
    const struct token_trie *t = s->m->trie;
    for (int i = 0; i < s->m->n_named; i++)
        if (s->m->named[i].id == token) {
            const int st = scan_byte(&s->scan, s->m->named[i].byte);
            if (st)
                return st;
        }
    if (t->text_at[token] == t->text_at[token + 1])
        return 0;
    return scan_bytes(&s->scan, t->text.data + t->text_at[token], t->text_at[token + 1] - t->text_at[token]);
}

static hasten_status scan_accept(struct grammar_state *s, int32_t token, bool *fits, struct hasten_error *err)
{
    const int st = try_token(s, token);
    *fits = st == 1;
    if (st == 1 && LIST_PUSH(&s->places, scan_position(&s->scan))) {
        scan_truncate(&s->scan, s->places.at[s->places.n - 1]);
        return no_memory(err);
    }
    return st < 0 ? no_memory(err) : HASTEN_OK;
}

static hasten_status scan_mask(struct grammar_state *s, uint64_t *bits, int32_t *n, struct hasten_error *err)
{
    const struct token_trie *t = s->m->trie;
    const int64_t here = scan_position(&s->scan);
    memset(bits, 0, (size_t)t->n_words * sizeof *bits);
    *n = 0;
    for (int32_t id = 0; id < t->n_vocab; id++) {
        if (token_ends(t, id))
            continue;
        const int st = try_token(s, id);
        if (st < 0)
            return no_memory(err);
        if (st == 1) {
            bits[id / 64] |= 1ull << id % 64;
            ++*n;
            scan_truncate(&s->scan, here);
        }
    }
    return HASTEN_OK;
}

/* ---- sequences ------------------------------------------------------------------------------------------ */

hasten_status grammar_start(struct grammar_masks *m, struct grammar_state **out, struct hasten_error *err)
{
    struct grammar_state *s = mem_calloc(1, sizeof *s);
    *out = NULL;
    if (!s)
        return no_memory(err);
    s->m = m;
    if (m->engine == GRAMMAR_SCAN && (scan_start(&s->scan, &m->rules) < 0 || LIST_PUSH(&s->places, 0))) {
        grammar_end(s);
        return no_memory(err);
    }
    *out = s;
    return HASTEN_OK;
}

hasten_status grammar_clone(const struct grammar_state *s, struct grammar_state **out,
                            struct hasten_error *err)
{
    struct grammar_state *c = mem_calloc(1, sizeof *c);
    *out = NULL;
    if (!c)
        return no_memory(err);
    c->m = s->m;
    c->ended = s->ended;
    c->generation = s->generation;
    int bad = s->m->engine == GRAMMAR_SCAN ? scan_copy(&s->scan, &c->scan) : 0;
    for (int64_t i = 0; i < s->tokens.n && !bad; i++)
        bad = LIST_PUSH(&c->tokens, s->tokens.at[i]);
    for (int64_t i = 0; i < s->parses.n && !bad; i++)
        bad = LIST_PUSH(&c->parses, s->parses.at[i]);
    for (int64_t i = 0; i < s->places.n && !bad; i++)
        bad = LIST_PUSH(&c->places, s->places.at[i]);
    if (bad) {
        grammar_end(c);
        return no_memory(err);
    }
    *out = c;
    return HASTEN_OK;
}

void grammar_end(struct grammar_state *s)
{
    if (!s)
        return;
    scan_free(&s->scan);
    LIST_FREE(&s->tokens);
    LIST_FREE(&s->parses);
    LIST_FREE(&s->places);
    mem_free(s);
}

int64_t grammar_n_tokens(const struct grammar_state *s)
{
    return s->tokens.n + s->ended;
}

hasten_status grammar_complete(struct grammar_state *s, bool *complete, struct hasten_error *err)
{
    if (s->m->engine == GRAMMAR_TRIE)
        return trie_complete(s, complete, err);
    *complete = s->scan.complete;
    return HASTEN_OK;
}

hasten_status grammar_mask(struct grammar_state *s, uint64_t *bits, int32_t *n_allowed,
                           struct hasten_error *err)
{
    const struct token_trie *t = s->m->trie;
    *n_allowed = 0;
    if (s->ended) {
        memset(bits, 0, (size_t)t->n_words * sizeof *bits);
        return HASTEN_OK;
    }
    bool complete = false;
    hasten_status st = s->m->engine == GRAMMAR_TRIE ? trie_mask(s, bits, n_allowed, err)
                                                    : scan_mask(s, bits, n_allowed, err);
    if (!st && !s->m->never_end)
        st = grammar_complete(s, &complete, err);
    if (st || !complete)
        return st;
    for (int32_t i = 0; i < t->n_words; i++)
        bits[i] |= t->ends[i];
    *n_allowed += t->n_ends;
    return HASTEN_OK;
}

static hasten_status accept_end(struct grammar_state *s, bool *fits, struct hasten_error *err)
{
    hasten_status st = s->m->never_end ? HASTEN_OK : grammar_complete(s, fits, err);
    if (!st && *fits)
        s->ended = true;
    return st;
}

hasten_status grammar_accept(struct grammar_state *s, int32_t token, struct hasten_error *err)
{
    const struct token_trie *t = s->m->trie;
    const bool known = token >= 0 && token < t->n_vocab && !s->ended;
    hasten_status st = HASTEN_OK;
    bool fits = false;
    if (known && token_ends(t, token))
        st = accept_end(s, &fits, err);
    else if (known) {
        if (s->tokens.n == s->tokens.cap &&
            list_grow((void *)&s->tokens.at, &s->tokens.cap, sizeof *s->tokens.at))
            return no_memory(err);
        st = s->m->engine == GRAMMAR_TRIE ? trie_accept(s, token, &fits, err)
                                          : scan_accept(s, token, &fits, err);
        if (!st && fits)
            s->tokens.at[s->tokens.n++] = token;
    }
    if (!st && !fits)
        st = error_set(err, HASTEN_ERR_USAGE, "grammar: token %d is not allowed behind %lld tokens",
                       (int)token, (long long)s->tokens.n);
    return st;
}

hasten_status grammar_rollback(struct grammar_state *s, int64_t n, struct hasten_error *err)
{
    if (n < 0 || n > grammar_n_tokens(s))
        return error_set(err, HASTEN_ERR_USAGE,
                         "grammar: %lld tokens to be taken back (expected at most the %lld accepted)",
                         (long long)n, (long long)grammar_n_tokens(s));
    if (n && s->ended) {
        s->ended = false;
        n--;
    }
    s->tokens.n -= n;
    if (s->m->engine == GRAMMAR_SCAN) {
        s->places.n -= n;
        scan_truncate(&s->scan, s->places.at[s->places.n - 1]);
    } else if (s->parses.n > s->tokens.n + 1) {
        s->parses.n = s->tokens.n + 1;
    }
    return HASTEN_OK;
}

hasten_status grammar_forced(struct grammar_state *s, uint64_t *bits, int32_t *token,
                             struct hasten_error *err)
{
    int32_t n;
    *token = -1;
    hasten_status st = grammar_mask(s, bits, &n, err);
    for (int32_t i = 0; i < s->m->trie->n_words && !st && n == 1; i++)
        if (bits[i])
            *token = i * 64 + __builtin_ctzll(bits[i]);
    return st;
}

/* ---- without a vocabulary --------------------------------------------------------------------------------- */

hasten_status grammar_matches(const struct grammar *g, const char *text, size_t len, bool *whole,
                              bool *beginning, struct hasten_error *err)
{
    struct stacks s = {.net = &g->net};
    int32_t parse = stacks_open(&s) ? PARSE_FAILED : stacks_start(&s);
    for (size_t i = 0; i < len && parse >= 0; i++)
        parse = stacks_next(&s, parse, (uint8_t)text[i]);
    *beginning = parse >= 0;
    *whole = parse >= 0 && s.parses.at[parse].complete;
    stacks_clear(&s);
    return parse == PARSE_FAILED ? no_memory(err) : HASTEN_OK;
}
