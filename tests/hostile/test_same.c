/* The same bits under load: one request is answered again and again in random company, and every answer must be the
 * first one. What changes from time to time: threads, rows of a pass, how the prompt is cut, how many others share the
 * steps and how long they are, whether one of them is cancelled in the middle, forks, wrong ends that are taken back.
 *
 *     test_same REPEATS [SEED]
 *
 * Half of the repeats choose greedily, half with temperature 1 and a seed; both must give one distinct output each, in
 * tokens and in the bits of every row of logits that was chosen from. */
#include "base/mem.h"
#include "base/rng.h"
#include "engine/engine.h"
#include "harness.h"
#include "sample/sampler.h"
#include "tiny_model.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define N_PROMPT 70 /* more than a page of KV */
#define N_ANSWER 6
#define N_VOCAB 512
#define MOST_OTHERS 6
#define N_CTX 160

struct dice {
    uint64_t seed;
    uint32_t n;
};

static int roll(struct dice *d, int below)
{
    const uint32_t key[2] = {(uint32_t)d->seed, (uint32_t)(d->seed >> 32)};
    uint32_t r[4];
    philox4x32((const uint32_t[4]){d->n++, 0, 0, 3}, key, r);
    return (int)(r[0] % (uint32_t)below);
}

struct answer {
    int32_t tokens[N_ANSWER];
    float logits[N_ANSWER][N_VOCAB];
};

struct world {
    struct hasten_engine *e;
    struct hasten_seq *seq, *other[MOST_OTHERS];
    int n_others;
    struct dice dice;
    float *row; /* where the watched row goes */
    int watched;
};

static int keep(void *ctx, const float *logits, const struct hasten_logits_row *rows, int32_t n_rows,
                int32_t n_vocab)
{
    struct world *w = ctx;
    for (int32_t i = 0; i < n_rows; i++)
        if (rows[i].item == w->watched)
            memcpy(w->row, logits + (int64_t)i * n_vocab, (size_t)n_vocab * sizeof *logits);
    return 0;
}

static struct hasten_seq *open_seq(struct world *w)
{
    struct hasten_error err = {0};
    struct hasten_seq *s = NULL;
    die_unless_ok(hasten_seq_open(w->e, &s, &err), &err, "a sequence");
    return s;
}

/* Somebody comes, goes, is cut back. */
static void move_company(struct world *w)
{
    struct hasten_error err = {0};
    if (roll(&w->dice, 3) == 0 && w->n_others < MOST_OTHERS)
        w->other[w->n_others++] = open_seq(w);
    if (roll(&w->dice, 5) == 0 && w->n_others > 0)
        hasten_seq_close(w->other[--w->n_others]);
    for (int i = 0; i < w->n_others; i++)
        if (hasten_seq_length(w->other[i]) > N_CTX - 20)
            die_unless_ok(hasten_seq_truncate(w->other[i], roll(&w->dice, 10), &err), &err, "truncating");
}

/* A step of tokens[0, n) in company; the last row goes to row, if it is not NULL. */
static void step(struct world *w, const int32_t *tokens, int32_t n, float *row)
{
    static int32_t noise[MOST_OTHERS][16];
    struct hasten_item items[MOST_OTHERS + 1];
    struct hasten_error err = {0};
    int n_items = 0;
    move_company(w);
    const int place = roll(&w->dice, w->n_others + 1);
    w->row = row;
    for (int i = 0; i <= w->n_others; i++) {
        if (i == place) {
            w->watched = n_items;
            items[n_items++] =
                (struct hasten_item){.seq = w->seq, .tokens = tokens, .n = n, .want_from = row ? n - 1 : n};
        }
        if (i == w->n_others || roll(&w->dice, 4) == 0)
            continue;
        const int32_t m = 1 + roll(&w->dice, roll(&w->dice, 3) ? 2 : 16);
        random_tokens(w->dice.seed + w->dice.n, N_VOCAB, noise[i], m);
        items[n_items++] = (struct hasten_item){
            .seq = w->other[i], .tokens = noise[i], .n = m, .want_from = roll(&w->dice, m + 1)};
    }
    if (roll(&w->dice, 6) == 0) { /* the step is cancelled, and asked for again */
        const int cancel = 1;
        if (hasten_step(w->e, items, n_items, keep, w, &cancel, &err) != HASTEN_ERR_CANCELLED) {
            fprintf(stderr, "FAILED: a cancelled step ended otherwise: %s\n", err.message);
            exit(1);
        }
    }
    die_unless_ok(hasten_step(w->e, items, n_items, keep, w, NULL, &err), &err, "a step");
}

/* Wrong tokens that are taken back, or a fork that goes on in the sequence's place. */
static void wander(struct world *w)
{
    struct hasten_error err = {0};
    const int32_t at = hasten_seq_length(w->seq);
    int32_t wrong[20];
    if (at == 0 || roll(&w->dice, 4))
        return;
    random_tokens(w->dice.seed, N_VOCAB, wrong, 20);
    if (roll(&w->dice, 2)) {
        step(w, wrong, 1 + roll(&w->dice, 20), NULL);
        die_unless_ok(hasten_seq_truncate(w->seq, at, &err), &err, "truncating");
        return;
    }
    struct hasten_seq *fork = NULL;
    die_unless_ok(hasten_seq_fork(w->seq, at, &fork, &err), &err, "forking");
    step(w, wrong, 3, NULL); /* the parent goes astray, and ends */
    hasten_seq_close(w->seq);
    w->seq = fork;
}

static void answer(struct world *w, struct sampler *s, const struct sampler_settings *settings,
                   const int32_t *prompt, struct answer *out)
{
    int32_t path[N_PROMPT + N_ANSWER];
    struct hasten_error err = {0};
    memcpy(path, prompt, N_PROMPT * sizeof *path);
    w->seq = open_seq(w);
    for (int32_t at = 0; at < N_PROMPT;) {
        const int32_t most = roll(&w->dice, 3) ? 40 : 5, left = N_PROMPT - at,
                      want = 1 + roll(&w->dice, most), n = want < left ? want : left;
        wander(w);
        step(w, prompt + at, n, at + n == N_PROMPT ? out->logits[0] : NULL);
        at += n;
    }
    for (int32_t i = 0; i < N_ANSWER; i++) {
        struct token_logprob chosen;
        const int32_t n = N_PROMPT + i;
        die_unless_ok(sampler_choose(s, NULL, settings, out->logits[i], path, n, n, &chosen, NULL, &err),
                      &err, "sampling");
        path[n] = out->tokens[i] = chosen.id;
        wander(w);
        if (i + 1 < N_ANSWER)
            step(w, &path[n], 1, out->logits[i + 1]);
    }
    hasten_seq_close(w->seq);
}

static struct hasten_engine *engine_of(const struct hasten_model *m, struct dice *d)
{
    static const int threads[] = {1, 2, 4}, batches[] = {1, 2, 3, 8, 17, 32};
    struct hasten_engine_settings s;
    struct hasten_engine *e = NULL;
    struct hasten_error err = {0};
    hasten_engine_default_settings(&s);
    s.n_threads = threads[roll(d, 3)];
    s.n_batch = batches[roll(d, 6)];
    s.n_ctx = N_CTX;
    s.n_seq_max = MOST_OTHERS + 3;
    s.in_place = roll(d, 2);
    s.poison = true;
    die_unless_ok(hasten_engine_open(m, &s, &e, &err), &err, "opening an engine");
    return e;
}

static struct hasten_model *make_model(void)
{
    char path[] = "/tmp/hasten-same-XXXXXX";
    struct tiny_options o;
    const int fd = mkstemp(path);
    if (fd < 0 || close(fd) || tiny_options_default("llama", 9, &o) || tiny_options_set(&o, "n_layer=2") ||
        tiny_model_save(&o, path)) {
        fprintf(stderr, "FAILED: no model could be made\n");
        exit(1);
    }
    struct hasten_model *m = open_or_exit(path);
    unlink(path);
    return m;
}

int main(int argc, char **argv)
{
    static struct answer first[2], got;
    const int repeats = argc > 1 ? atoi(argv[1]) : 1000;
    struct world w = {.dice = {argc > 2 ? strtoull(argv[2], NULL, 10) : 1, 0}};
    struct hasten_model *m = make_model();
    struct sampler *sampler = NULL;
    struct sampler_settings settings[2];
    struct hasten_error err = {0};
    int32_t prompt[N_PROMPT];
    int n_different = 0;
    for (int i = 0; i < 2; i++) {
        sampler_default_settings(&settings[i]);
        settings[i].temperature = (float)i;
        settings[i].seed = 42;
    }
    random_tokens(77, N_VOCAB, prompt, N_PROMPT);
    die_unless_ok(sampler_open(N_VOCAB, &sampler, &err), &err, "a sampler");
    for (int i = 0; i < repeats; i++) {
        if (i % 25 == 0) { /* a new engine */
            hasten_engine_close(w.e);
            w.e = engine_of(m, &w.dice);
            w.n_others = 0;
        }
        answer(&w, sampler, &settings[i % 2], prompt, i < 2 ? &first[i] : &got);
        if (i >= 2 && memcmp(&first[i % 2], &got, sizeof got)) {
            fprintf(stderr, "FAILED: repeat %d differs from the first\n", i);
            n_different++;
        }
    }
    const int distinct = memcmp(first[0].tokens, first[1].tokens, sizeof first[0].tokens) != 0;
    printf("%d repeats in random company: %d differ (expected 0); greedy and sampled answers %s\n", repeats,
           n_different, distinct ? "differ, as they should" : "are the same");
    hasten_engine_close(w.e);
    sampler_close(sampler);
    hasten_model_close(m);
    return n_different || !distinct || repeats < 4 ? 1 : 0;
}
