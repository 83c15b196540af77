/* A hit gives the bits of a miss: random trees of prompts go through an engine with a store, beside an engine without one
 * that computes each prompt anew, and the logits of every request are compared with memcmp. What is taken begins as the
 * prompt does and was given under the same scope; pages and sequences all come back. Pools, slots and limits are small, so
 * that what is kept is evicted, cut and shared all the time; freed pages hold NaN.
 *
 *     test_store MODEL N_TREES [METHOD_STAGE SPEC]...
 *     test_store MODEL N_TREES methods     so many for each method of the engine's stages
 *     test_store MODEL N_TREES disk FOLDER with a tier on disk, in a folder that is emptied for each tree
 *     test_store MODEL 0 rules             what is given up first, and what pages that are needed cost
 *     test_store MODEL N_TREES wrong       a store that looks at no tokens, and one that looks at no scope, are caught */
#include "base/file.h"
#include "base/mem.h"
#include "base/rng.h"
#include "engine/engine.h"
#include "engine/store.h"
#include "harness.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define N_CTX 256
#define N_HELD 3     /* sequences in use at once, at most */
#define N_PROMPTS 40 /* of a tree */
#define N_KINDS 5    /* tokens that prompts are made of */
#define VOCAB_MOST 1024

static uint64_t seed, counter;
static uint32_t chance(uint32_t n)
{
    uint32_t r[4];
    philox4x32((const uint32_t[4]){(uint32_t)counter++, 0, 0, 5}, (const uint32_t[2]){(uint32_t)seed, 9}, r);
    return r[0] % n;
}

struct prompt {
    int32_t ids[N_CTX];
    int32_t n;      /* of the prompt */
    int32_t length; /* with the answer */
    uint64_t scope;
    bool given;
};

struct held {
    struct hasten_seq *seq;
    int prompt;
};

struct world {
    const struct hasten_model *model;
    struct hasten_engine *e, *plain; /* with the store; without */
    struct store *store;
    struct prompt prompt[N_PROMPTS];
    int n_prompts;
    struct held held[N_HELD];
    int n_held;
    int64_t n_requests, n_hits, n_full;
    const char *problem;
};

static struct hasten_error err;

static void problem(struct world *w, const char *what)
{
    if (!w->problem)
        w->problem = what;
}

/* ---- running -------------------------------------------------------------------------------------------------- */

struct row {
    float v[VOCAB_MOST];
};

static int keep(void *ctx, const float *logits, const struct hasten_logits_row *rows, int32_t n_rows,
                int32_t n_vocab)
{
    (void)rows;
    memcpy(ctx, logits + (int64_t)(n_rows - 1) * n_vocab, (size_t)n_vocab * sizeof *logits);
    return 0;
}

/* Appends ids [length of s, n) in steps of `chunk`; the last row. */
static hasten_status run(struct hasten_seq *s, const int32_t *ids, int32_t n, int32_t chunk, struct row *out)
{
    hasten_status st = HASTEN_OK;
    while (hasten_seq_length(s) < n && !st) {
        const int32_t at = hasten_seq_length(s), some = n - at < chunk ? n - at : chunk;
        st = hasten_step(
            s->engine, &(struct hasten_item){.seq = s, .tokens = ids + at, .n = some, .want_from = some - 1},
            1, keep, out, NULL, &err);
    }
    return st;
}

static int32_t token(void)
{
    return 60 + (int32_t)chance(N_KINDS);
}

/* The beginning of an earlier one, and something new. */
static void make_prompt(struct world *w, struct prompt *p)
{
    const struct prompt *from = w->n_prompts ? &w->prompt[chance((uint32_t)w->n_prompts)] : NULL;
    *p = (struct prompt){.scope = 1 + chance(5) / 4};
    if (from && chance(6)) {
        p->n = 1 + (int32_t)chance((uint32_t)from->length);
        memcpy(p->ids, from->ids, (size_t)p->n * sizeof *p->ids);
        p->scope = chance(8) ? from->scope : p->scope;
    }
    const int32_t more = 1 + (int32_t)chance(chance(4) ? 30 : 120);
    for (int32_t i = 0; i < more && p->n < N_CTX - 20; i++)
        p->ids[p->n++] = token();
    p->length = p->n + (int32_t)chance(16);
    for (int32_t i = p->n; i < p->length; i++)
        p->ids[i] = token();
}

/* Was what s holds ever given, under the prompt's scope? (It was computed for it, then.) */
static bool was_given(const struct world *w, const struct prompt *p, int32_t n)
{
    for (int i = 0; i < w->n_prompts; i++)
        if (w->prompt[i].given && w->prompt[i].scope == p->scope && w->prompt[i].length >= n &&
            memcmp(w->prompt[i].ids, p->ids, (size_t)n * sizeof *p->ids) == 0)
            return true;
    return false;
}

static void let_go(struct world *w)
{
    const int i = (int)chance((uint32_t)w->n_held);
    struct prompt *p = &w->prompt[w->held[i].prompt];
    if (chance(8)) {
        p->given = true;
        store_give(w->store, p->scope, w->held[i].seq);
    } else {
        hasten_seq_close(w->held[i].seq);
    }
    w->held[i] = w->held[--w->n_held];
}

/* Prompt and answer, from what the store has, and from nothing: the same rows. */
static void compare(struct world *w, const struct prompt *p, struct hasten_seq *s)
{
    struct row a = {{0}}, b = {{0}}, c = {{0}}, d = {{0}};
    struct hasten_seq *fresh = NULL;
    hasten_status st = hasten_seq_announce(s, p->n, &err);
    st = st ? st : run(s, p->ids, p->n, 1 + (int32_t)chance(50), &a);
    st = st ? st : run(s, p->ids, p->length, 1, &c);
    if (st == HASTEN_ERR_FULL) { /* others hold the pages: ordinary, and what is held stays as it is */
        w->n_full++;
        return;
    }
    die_unless_ok(st, &err, "a step with a store");
    die_unless_ok(hasten_seq_open(w->plain, &fresh, &err), &err, "a sequence");
    die_unless_ok(hasten_seq_announce(fresh, p->n, &err), &err, "announcing");
    die_unless_ok(run(fresh, p->ids, p->n, 64, &b), &err, "a step");
    die_unless_ok(run(fresh, p->ids, p->length, 1, &d), &err, "a step");
    hasten_seq_close(fresh);
    if (memcmp(&a, &b, sizeof a) || memcmp(&c, &d, sizeof c))
        problem(w, "a hit gives other bits");
}

/* Some tokens more, beside a fresh run of all. */
static void go_on(struct world *w, struct prompt *p, struct hasten_seq *s)
{
    struct row a = {{0}}, b = {{0}};
    struct hasten_seq *fresh = NULL;
    const int32_t more = 1 + (int32_t)chance(4);
    if (p->length < p->n || p->length + more > N_CTX)
        return;
    for (int32_t i = 0; i < more; i++)
        p->ids[p->length + i] = token();
    const hasten_status st = run(s, p->ids, p->length + more, 1, &a);
    if (st == HASTEN_ERR_FULL)
        return;
    die_unless_ok(st, &err, "a step with a store");
    die_unless_ok(hasten_seq_open(w->plain, &fresh, &err), &err, "a sequence");
    die_unless_ok(hasten_seq_announce(fresh, p->n, &err), &err, "announcing");
    die_unless_ok(run(fresh, p->ids, p->n, 64, &b), &err, "a step");
    die_unless_ok(run(fresh, p->ids, p->length + more, 1, &b), &err, "a step");
    hasten_seq_close(fresh);
    if (memcmp(&a, &b, sizeof a))
        problem(w, "what goes on beside what was shared gives other bits");
}

static void request(struct world *w)
{
    struct prompt *p = &w->prompt[w->n_prompts];
    struct hasten_seq *s = NULL;
    make_prompt(w, p);
    while (w->n_held == N_HELD || (w->n_held && chance(2)))
        let_go(w);
    die_unless_ok(store_take(w->store, p->scope, p->ids, p->n, &s, &err), &err, "taking");
    const int32_t n = hasten_seq_length(s);
    w->n_requests++;
    w->n_hits += n > 0;
    if (n >= p->n)
        problem(w, "nothing of the prompt is left to compute");
    else if (memcmp(hasten_seq_tokens(s), p->ids, (size_t)n * sizeof *p->ids))
        problem(w, "what was taken begins otherwise");
    else if (n && !was_given(w, p, n))
        problem(w, "what was taken was not given under this scope");
    if (!w->problem)
        compare(w, p, s);
    if (chance(4) == 0) { /* while it is in use: whatever others do with it must not show */
        store_share(w->store, p->scope, s);
        p->given = true;
        p->length = hasten_seq_length(s);
        go_on(w, p, s);
    }
    p->length = hasten_seq_length(s); /* less than asked for where pages ran out */
    if (p->length == 0) {
        hasten_seq_close(s);
        return;
    }
    w->held[w->n_held++] = (struct held){s, w->n_prompts++};
}

/* ---- a tree --------------------------------------------------------------------------------------------------- */

static void figures(struct world *w, int slots, uint64_t limit)
{
    struct store_figures f;
    store_figures(w->store, &f);
    if (f.entries > slots || (f.bytes > limit && limit != UINT64_MAX) || f.hits > f.queries ||
        f.hit_tokens > f.asked_tokens || f.positions < 0)
        problem(w, "figures that cannot be");
}

static void leave(struct world *w)
{
    struct hasten_counters c;
    for (int i = 0; i < w->n_held; i++)
        hasten_seq_close(w->held[i].seq);
    store_close(w->store);
    hasten_engine_counters(w->e, &c);
    if (c.kv_pages_used)
        problem(w, "pages are left when the store is closed");
    for (int32_t i = 0; i < w->e->settings.n_seq_max; i++)
        if (w->e->seqs[i].open)
            problem(w, "a sequence is left when the store is closed");
    hasten_engine_close(w->e);
}

static struct hasten_engine_settings settings_of(const struct hasten_method_use *use, int n)
{
    struct hasten_engine_settings s;
    hasten_engine_default_settings(&s);
    s.n_threads = 1;
    s.n_ctx = N_CTX;
    s.n_batch = 64;
    s.n_seq_max = N_HELD;
    s.poison = true;
    s.methods = use;
    s.n_methods = n;
    return s;
}

static const char *disk_folder; /* NULL: none */
static int64_t n_disk_hits;

static void empty_folder(const char *folder)
{
    struct file_names f = {0};
    char path[1200];
    die_unless_ok(file_list_if_any(folder, &f, &err), &err, "listing");
    for (size_t i = 0; i < f.n; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, f.names[i]);
        unlink(path);
    }
    file_names_free(&f);
}

static const char *tree(struct world *w, struct hasten_method_use *use, int n_methods)
{
    static const int32_t pools[] = {N_CTX, 2 * N_CTX, N_HELD * N_CTX, (N_HELD + 1) * N_CTX};
    const int slots = 1 + (int)chance(disk_folder ? 2 : 7);
    const uint64_t limit = chance(3) ? UINT64_MAX : (uint64_t)chance(400) * 1024;
    char spec[700];
    if (!use[0].method) {
        const int at = snprintf(spec, sizeof spec, "apc:slots=%d,min=%u,limit=%lld", slots, 1 + chance(20),
                                (long long)(limit == UINT64_MAX ? 1ll << 40 : (long long)limit));
        if (disk_folder) {
            empty_folder(disk_folder);
            snprintf(spec + at, sizeof spec - (size_t)at, ",dir=%s,disk=%d", disk_folder,
                     chance(2) ? 200000 : 1 << 30);
        }
        use[0] = (struct hasten_method_use){"store", spec, NULL};
    }
    struct hasten_engine_settings s = settings_of(use, n_methods);
    s.kv_positions = pools[chance(4)];
    die_unless_ok(hasten_engine_open(w->model, &s, &w->e, &err), &err, "opening an engine");
    die_unless_ok(store_open(w->e, &w->store, &err), &err, "opening a store");
    w->n_prompts = w->n_held = 0;
    w->problem = NULL;
    for (int i = 0; i < N_PROMPTS && !w->problem; i++) {
        request(w);
        if (!use[0].method)
            figures(w, slots, limit);
    }
    struct store_figures f;
    store_figures(w->store, &f);
    n_disk_hits += (int64_t)f.disk_hits;
    if (f.disk_failures)
        problem(w, "a file could not be read or written");
    leave(w);
    if (!use[0].method)
        use[0] = (struct hasten_method_use){0};
    return w->problem;
}

/* ---- stores that are wrong ------------------------------------------------------------------------------------ */

struct wrong {
    struct hasten_engine *e;
    struct hasten_seq *last;
    uint64_t scope;
    bool any_scope;
};

static hasten_status wrong_open(struct hasten_engine *e, bool any_scope, void **store)
{
    struct wrong *x = mem_calloc(1, sizeof *x);
    if (!x)
        return HASTEN_ERR_MEMORY;
    x->e = e;
    x->any_scope = any_scope;
    *store = x;
    return HASTEN_OK;
}

static hasten_status open_tokens(struct hasten_engine *e, const void *state, void **store,
                                 struct hasten_error *er)
{
    (void)state, (void)er;
    return wrong_open(e, false, store);
}

static hasten_status open_scope(struct hasten_engine *e, const void *state, void **store,
                                struct hasten_error *er)
{
    (void)state, (void)er;
    return wrong_open(e, true, store);
}

static void wrong_close(void *store)
{
    hasten_seq_close(((struct wrong *)store)->last);
    mem_free(store);
}

static hasten_status wrong_take(void *store, uint64_t scope, const int32_t *ids, int64_t n,
                                struct hasten_seq **out, struct hasten_error *er)
{
    struct wrong *x = store;
    int32_t same = 0;
    if (!x->last || (!x->any_scope && x->scope != scope))
        return hasten_seq_open(x->e, out, er);
    const int32_t most = x->last->length < n - 1 ? x->last->length : (int32_t)(n - 1);
    while (same < most && x->last->tokens[same] == ids[same])
        same++;
    return hasten_seq_fork(x->last, x->any_scope ? same : most, out, er);
}

static void wrong_give(void *store, uint64_t scope, struct hasten_seq *s)
{
    struct wrong *x = store;
    hasten_seq_close(x->last);
    x->last = s;
    x->scope = scope;
}

static bool wrong_room(void *store, int64_t pages)
{
    struct wrong *x = store;
    hasten_seq_close(x->last);
    x->last = NULL;
    return x->e->kv.n_free >= pages;
}

static void wrong_figures(const void *store, struct store_figures *out)
{
    (void)store;
    *out = (struct store_figures){0};
}

static int32_t one_more(const struct method_site *site, const void *knobs)
{
    (void)site, (void)knobs;
    return 1;
}

static int caught(struct world *w, bool scope, int n_trees)
{
    const struct store_ops ops = {
        scope ? open_scope : open_tokens, wrong_close, wrong_take, wrong_give, wrong_room, wrong_figures};
    const struct method m = {.name = "wrong", .stage = STAGE_STORE, .sequences = one_more, .hosted = &ops};
    struct hasten_method_use use[] = {{NULL, "", &m}};
    for (int i = 0; i < n_trees; i++) {
        seed = (uint64_t)i;
        counter = 0;
        const char *what = tree(w, use, 1);
        if (what) {
            printf("a store that looks at no %s: %s (tree %d)\n", scope ? "scope" : "tokens", what, i);
            return 1;
        }
    }
    printf("NOT CAUGHT: a store that looks at no %s\n", scope ? "scope" : "tokens");
    return 0;
}

/* ---- rules ---------------------------------------------------------------------------------------------------- */

/* A sequence of n tokens, all of the kind, into the store. */
static void give(struct world *w, uint64_t scope, int32_t kind, int32_t n)
{
    struct row row;
    struct hasten_seq *s = NULL;
    int32_t ids[N_CTX];
    for (int32_t i = 0; i < n; i++)
        ids[i] = kind;
    die_unless_ok(store_take(w->store, scope, ids, n, &s, &err), &err, "taking");
    die_unless_ok(run(s, ids, n, N_CTX, &row), &err, "a step");
    store_give(w->store, scope, s);
}

/* How much of it the store has. */
static int32_t held(struct world *w, uint64_t scope, int32_t kind, int32_t n)
{
    struct hasten_seq *s = NULL;
    int32_t ids[N_CTX];
    for (int32_t i = 0; i < n; i++)
        ids[i] = kind;
    die_unless_ok(store_take(w->store, scope, ids, n, &s, &err), &err, "taking");
    const int32_t length = hasten_seq_length(s);
    hasten_seq_close(s);
    return length;
}

static void open_world(struct world *w, const char *spec, int64_t kv_positions)
{
    const struct hasten_method_use use = {"store", spec, NULL};
    struct hasten_engine_settings s = settings_of(&use, 1);
    s.kv_positions = kv_positions;
    die_unless_ok(hasten_engine_open(w->model, &s, &w->e, &err), &err, "opening an engine");
    die_unless_ok(store_open(w->e, &w->store, &err), &err, "opening a store");
    w->n_held = 0;
}

static void must(struct world *w, bool good, const char *what)
{
    if (!good)
        printf("FAILED: %s\n", what);
    if (!good)
        problem(w, what);
}

static int rules(struct world *w)
{
    struct store *second = NULL;
    struct store_figures f;
    open_world(w, "apc:slots=2,min=1", 0);
    must(w, store_open(w->e, &second, &err) == HASTEN_ERR_USAGE, "two stores of one engine");
    must(w, store_take(w->store, 1, NULL, 0, &(struct hasten_seq *){NULL}, &err) == HASTEN_ERR_USAGE,
         "no tokens");
    give(w, 1, 60, 100);
    give(w, 1, 61, 100);
    must(w, held(w, 1, 60, 101) == 100 && held(w, 1, 60, 100) == 99, "all but the last token");
    must(w, held(w, 2, 60, 101) == 0, "another scope");
    give(w, 1, 62, 100);
    must(w, held(w, 1, 61, 101) == 0 && held(w, 1, 60, 101) == 100, "what was of no use goes first");
    give(w, 1, 60, 150); /* all of the shorter one stands in it */
    store_figures(w->store, &f);
    must(w, f.entries == 2 && f.positions == 250, "a beginning is kept twice");
    leave(w);

    open_world(w, "apc:slots=8,min=1", N_CTX); /* as many pages as one long sequence needs */
    give(w, 1, 60, 200);
    give(w, 1, 61, 150); /* which needs pages of the other: its end goes, not all of it */
    must(w, held(w, 1, 61, 151) == 150, "what was just computed");
    const int32_t rest = held(w, 1, 60, 201);
    must(w, rest >= 64 && rest < 200, "the end goes first");
    must(w, store_make_room(w->store, w->e->kv.n_blocks), "all pages can be had back");
    store_figures(w->store, &f);
    must(w, f.entries == 0 && f.evictions >= 3 && f.evicted_tokens == 350, "what was given up is counted");
    must(w, !store_make_room(w->store, w->e->kv.n_blocks + 1), "more pages than there are");
    leave(w);

    open_world(w, "apc:slots=1,min=1", 0); /* shared while it is in use, in the place of what was of no use */
    struct hasten_seq *s = NULL;
    give(w, 1, 60, 100);
    die_unless_ok(store_take(w->store, 1, (int32_t[]){70, 70}, 2, &s, &err), &err, "taking");
    die_unless_ok(run(s, (int32_t[]){70, 70}, 2, 2, &(struct row){{0}}), &err, "a step");
    for (int i = 0; i < N_HELD - 1; i++)
        die_unless_ok(hasten_seq_open(w->e, &w->held[w->n_held++].seq, &err), &err, "a sequence");
    store_share(w->store, 1, s);
    hasten_seq_close(w->held[--w->n_held].seq);
    must(w, held(w, 1, 70, 3) == 2 && held(w, 1, 60, 101) == 0, "what is in use is kept too");
    store_give(w->store, 1, s);
    leave(w);

    open_world(w, "apc:slots=8,min=50,limit=0", 0);
    give(w, 1, 60, 100);
    must(w, held(w, 1, 60, 101) == 0, "limit=0 keeps nothing");
    leave(w);
    open_world(w, "apc:slots=8,min=50", 0);
    give(w, 1, 60, 49);
    must(w, held(w, 1, 60, 50) == 0, "shorter than min");
    leave(w);
    printf("rules: %s\n", w->problem ? w->problem : "hold");
    return w->problem != NULL;
}

static int each_method(struct world *w, int n_trees)
{
    int32_t n;
    const struct method *const *all = methods_all(&n);
    struct hasten_method_use use[2] = {{0}};
    int bad = 0;
    for (int32_t i = 0; i < n; i++) {
        if (!all[i]->attend && !all[i]->cache && !all[i]->depth && !all[i]->weights)
            continue;
        use[1] = (struct hasten_method_use){NULL, all[i]->exercise ? all[i]->exercise : "", all[i]};
        struct hasten_engine_settings s = settings_of(use + 1, 1);
        die_unless_ok(hasten_engine_open(w->model, &s, &w->plain, &err), &err, "opening an engine");
        w->n_requests = w->n_hits = 0;
        for (int j = 0; j < n_trees; j++) {
            seed = (uint64_t)j;
            counter = 0;
            const char *what = tree(w, use, 2);
            if (what)
                printf("FAILED %s, tree %d: %s\n", all[i]->name, j, what);
            bad += what != NULL;
        }
        printf("%-10s %lld requests, %lld with a hit\n", all[i]->name, (long long)w->n_requests,
               (long long)w->n_hits);
        hasten_engine_close(w->plain);
    }
    return bad != 0;
}

int main(int argc, char **argv)
{
    static struct world w;
    struct hasten_method_use use[8] = {{0}};
    if (argc < 3) {
        fprintf(stderr, "usage: test_store MODEL N_TREES [wrong | STAGE SPEC ...]\n");
        return 2;
    }
    struct hasten_model *m = open_or_exit(argv[1]);
    const int n_trees = atoi(argv[2]);
    int n_methods = 1, rc = 0;
    const bool wrong = argc == 4 && strcmp(argv[3], "wrong") == 0;
    if (argc == 5 && strcmp(argv[3], "disk") == 0)
        disk_folder = argv[4];
    for (int i = 3; i + 1 < argc && n_methods < 8 && !disk_folder; i += 2)
        use[n_methods++] = (struct hasten_method_use){argv[i], argv[i + 1], NULL};
    w.model = m;
    if (argc == 4 && (strcmp(argv[3], "rules") == 0 || strcmp(argv[3], "methods") == 0)) {
        rc = argv[3][0] == 'r' ? rules(&w) : each_method(&w, n_trees);
        hasten_model_close(m);
        return rc;
    }
    struct hasten_engine_settings s = settings_of(use + 1, n_methods - 1);
    die_unless_ok(hasten_engine_open(m, &s, &w.plain, &err), &err, "opening an engine");
    if (wrong)
        rc = !(caught(&w, false, n_trees) & caught(&w, true, n_trees));
    for (int i = 0; i < n_trees && !rc && !wrong; i++) {
        seed = (uint64_t)i;
        counter = 0;
        const char *what = tree(&w, use, n_methods);
        if (what)
            printf("tree %d: %s\n", i, what);
        rc = what != NULL;
    }
    if (disk_folder)
        printf("%lld answers from disk\n", (long long)n_disk_hits);
    if (disk_folder && n_disk_hits == 0) { /* how many depends on how fast the disk is */
        rc = 1;
    }
    printf("%d trees, %lld requests, %lld with a hit, %lld out of pages\n", n_trees, (long long)w.n_requests,
           (long long)w.n_hits, (long long)w.n_full);
    if (!wrong && w.n_hits * 4 < w.n_requests && n_methods == 1) {
        printf("too few hits\n");
        rc = 1;
    }
    hasten_engine_close(w.plain);
    hasten_model_close(m);
    return rc;
}
