/* See harness.h. */
#include "harness.h"
#include "base/rng.h"
#include "engine/engine.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void die_unless_ok(hasten_status st, const struct hasten_error *err, const char *what)
{
    if (st == HASTEN_OK)
        return;
    fprintf(stderr, "FAILED: %s: %s\n", what, err->message);
    exit(1);
}

struct hasten_model *open_or_exit(const char *path)
{
    struct hasten_model *m = NULL;
    struct hasten_error err = {0};
    die_unless_ok(hasten_model_open(path, &m, &err), &err, "opening a model");
    return m;
}

struct hasten_lora_use adapter_or_exit(const struct hasten_model *m, const char *path, float scale)
{
    struct hasten_lora *l = NULL;
    struct hasten_error err = {0};
    die_unless_ok(hasten_lora_open(m, path, &l, &err), &err, "opening an adapter");
    return (struct hasten_lora_use){l, scale};
}

const char *spec_text(const struct run_spec *s, char *out, size_t out_size)
{
    static const char *const kv[] = {"f16", "f32", "bf16", "q8", "q4"};
    snprintf(out, out_size, "%d threads, chunk %d, batch %d, %d neighbours%s%s%s%s%s%s, kv %s", s->n_threads,
             s->chunk, s->n_batch, s->n_neighbours, s->forked ? ", forked" : "",
             s->restored == 2 ? ", restored as plain"
             : s->restored    ? ", restored"
                              : "",
             s->regrown ? ", regrown" : "",
             s->plain      ? ", plain"
             : s->in_place ? ", in place"
                           : "",
             s->reference ? ", reference" : "", s->hasty ? ", hasty" : "", kv[s->kv]);
    return out;
}

void random_tokens(uint64_t seed, int32_t n_vocab, int32_t *out, int32_t n)
{
    const uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
    for (int32_t i = 0; i < n; i++) {
        uint32_t r[4];
        philox4x32((const uint32_t[4]){(uint32_t)i, 0, 0, 7}, key, r);
        out[i] = (int32_t)(r[0] % (uint32_t)n_vocab);
    }
}

int32_t first_difference(const float *a, const float *b, int32_t n, int32_t n_vocab)
{
    for (int32_t i = 0; i < n; i++)
        if (memcmp(a + (int64_t)i * n_vocab, b + (int64_t)i * n_vocab, (size_t)n_vocab * sizeof *a))
            return i;
    return -1;
}

/* One run in progress. */
struct run {
    const struct run_spec *spec;
    struct hasten_engine *engine;
    struct hasten_seq *seq, *other[NEIGHBOURS_MAX];
    const int32_t *tokens;
    int32_t n, n_vocab;
    float *logits; /* [n × n_vocab] */
    int32_t base;  /* position of row 0 of the watched item */
    int watched;   /* item whose logits are kept */
    int n_steps;
};

static int keep(void *ctx, const float *logits, const struct hasten_logits_row *rows, int32_t n_rows,
                int32_t n_vocab)
{
    struct run *r = ctx;
    for (int32_t i = 0; i < n_rows; i++)
        if (rows[i].item == r->watched)
            memcpy(r->logits + (int64_t)(r->base + rows[i].row) * n_vocab, logits + (int64_t)i * n_vocab,
                   (size_t)n_vocab * sizeof *logits);
    return 0;
}

static void step(struct run *r, const struct hasten_item *items, int n_items, int watched)
{
    struct hasten_error err = {0};
    r->watched = watched;
    if (watched >= 0)
        r->base = hasten_seq_length(items[watched].seq);
    die_unless_ok(hasten_step(r->engine, items, n_items, watched >= 0 ? keep : NULL, r, NULL, &err), &err,
                  "a step");
    r->n_steps++;
}

/* A wrong tail, appended and cut away again: must leave no trace. */
static void go_astray(struct run *r, struct hasten_seq *s, int32_t n)
{
    struct hasten_error err = {0};
    int32_t wrong[96];
    const int32_t keep_n = hasten_seq_length(s), room = hasten_engine_n_ctx(r->engine) - keep_n;
    n = n < room ? n : room;
    if (n < 1)
        return;
    random_tokens(99 + (uint64_t)keep_n, r->n_vocab, wrong, n);
    step(r, &(struct hasten_item){.seq = s, .tokens = wrong, .n = n, .want_from = n}, 1, -1);
    die_unless_ok(hasten_seq_truncate(s, keep_n, &err), &err, "truncating");
}

/* Appends tokens[from, to) of the watched sequence in chunks, with neighbours going their own ways beside it. */
static void advance(struct run *r, int32_t from, int32_t to)
{
    int32_t noise[NEIGHBOURS_MAX][16];
    struct hasten_error err = {0};
    for (int32_t at = from; at < to;) {
        struct hasten_item items[1 + NEIGHBOURS_MAX];
        const int32_t left = to - at, n = r->spec->chunk && r->spec->chunk < left ? r->spec->chunk : left;
        int n_items = 0, watched = 0;
        for (int j = 0; j < r->spec->n_neighbours; j++) {
            const int32_t m = 1 + (at + 5 * j + r->n_steps) % 16;
            if (hasten_seq_length(r->other[j]) + m > hasten_engine_n_ctx(r->engine))
                die_unless_ok(hasten_seq_truncate(r->other[j], 3, &err), &err, "truncating a neighbour");
            random_tokens(1000u + (uint64_t)at * 7 + (uint64_t)j, r->n_vocab, noise[j], m);
            items[n_items++] = (struct hasten_item){
                .seq = r->other[j], .tokens = noise[j], .n = m, .want_from = j == 1 ? 0 : m};
            if (j == 0) { /* the watched item is neither first nor last */
                watched = n_items;
                items[n_items++] =
                    (struct hasten_item){.seq = r->seq, .tokens = r->tokens + at, .n = n, .want_from = 0};
            }
        }
        if (!r->spec->n_neighbours)
            items[n_items++] =
                (struct hasten_item){.seq = r->seq, .tokens = r->tokens + at, .n = n, .want_from = 0};
        step(r, items, n_items, watched);
        at += n;
        if (r->spec->regrown && r->n_steps % 3 == 0)
            go_astray(r, r->seq, 1 + at % 96);
    }
}

static void open_run(struct run *r, const struct hasten_model *m, bool plain)
{
    struct hasten_engine_settings s;
    struct hasten_error err = {0};
    hasten_engine_default_settings(&s);
    s.n_threads = r->spec->n_threads;
    s.n_ctx = r->n + 128;
    s.n_seq_max = 2 + NEIGHBOURS_MAX;
    s.n_batch = r->spec->n_batch;
    s.n_logits = 1 + (r->spec->chunk + r->spec->n_batch) % 64; /* another constant that must not show */
    s.plain = plain;
    s.in_place = r->spec->in_place;
    s.reference = r->spec->reference;
    s.kv_type = r->spec->kv;
    s.loras = r->spec->loras;
    s.n_loras = r->spec->n_loras;
    s.methods = r->spec->methods;
    s.n_methods = r->spec->n_methods;
    s.poison = true;
    die_unless_ok(hasten_engine_open(m, &s, &r->engine, &err), &err, "opening an engine");
#if !defined(__SANITIZE_THREAD__)
    if (r->spec->hasty)
        pool_set_patience(r->engine->pool, 0);
#endif
    for (int j = 0; j < r->spec->n_neighbours; j++)
        die_unless_ok(hasten_seq_open(r->engine, &r->other[j], &err), &err, "opening a neighbour");
}

static void open_seq(struct run *r)
{
    struct hasten_error err = {0};
    die_unless_ok(hasten_seq_open(r->engine, &r->seq, &err), &err, "opening a sequence");
    if (r->spec->n_prompt > 0)
        die_unless_ok(hasten_seq_announce(r->seq, r->spec->n_prompt, &err), &err, "announcing");
}

/* The first n positions, and a wrong end that was cut away, go to a file; another engine takes them from there. */
static void save_and_restore(struct run *r, const struct hasten_model *m, int32_t n)
{
    char path[64];
    struct hasten_error err = {0};
    snprintf(path, sizeof path, "/tmp/hasten-restored-%ld.seq", (long)getpid());
    advance(r, 0, n);
    go_astray(r, r->seq, 41);
    die_unless_ok(hasten_seq_save(r->seq, path, &err), &err, "saving");
    hasten_engine_close(r->engine);
    open_run(r, m, r->spec->restored == 2 || r->spec->plain);
    die_unless_ok(hasten_seq_load(r->engine, path, &r->seq, &err), &err, "restoring");
    unlink(path);
}

float *run_logits(const struct hasten_model *m, const struct run_spec *s, const int32_t *tokens, int32_t n)
{
    struct hasten_error err = {0};
    struct run r = {.spec = s, .tokens = tokens, .n = n, .n_vocab = hasten_model_n_vocab(m)};
    r.logits = malloc((size_t)n * (size_t)r.n_vocab * sizeof *r.logits);
    if (!r.logits) {
        fprintf(stderr, "FAILED: no memory for logits\n");
        exit(1);
    }
    memset(r.logits, 0xa5, (size_t)n * (size_t)r.n_vocab * sizeof *r.logits);
    open_run(&r, m, s->plain);
    open_seq(&r);
    int32_t at = 0;
    if (s->restored) {
        at = n * 3 / 7 + 1;
        save_and_restore(&r, m, at);
    }
    if (s->forked) {
        at = n * 2 / 5 + 1; /* not at a page's border for the lengths used */
        struct hasten_seq *parent = r.seq;
        advance(&r, 0, at);
        go_astray(&r, parent, 41);
        int32_t wrong[7];
        random_tokens(5, r.n_vocab, wrong, 7);
        step(&r, &(struct hasten_item){.seq = parent, .tokens = wrong, .n = 7, .want_from = 7}, 1, -1);
        die_unless_ok(hasten_seq_fork(parent, at, &r.seq, &err), &err, "forking");
        step(&r, &(struct hasten_item){.seq = parent, .tokens = wrong, .n = 7, .want_from = 7}, 1,
             -1); /* the parent's page is copied now, not ours */
    }
    advance(&r, at, n);
    hasten_engine_close(r.engine);
    return r.logits;
}
