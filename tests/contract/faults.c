/* Faults that every method must stand (contract.c): allocations that fail, steps that are cancelled in the middle, NaN in
 * the cache. The scenario is small, so that it can be run hundreds of times: a prompt, a fork, some tokens. */
#include "contract.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define N_READ 70 /* beyond a page */
#define N_DECODE 6
#define N_ALL (N_READ + N_DECODE)

struct scene {
    struct hasten_engine *e;
    struct hasten_seq *a, *b; /* b: a fork of a, or a neighbour */
    float *rows;              /* [N_ALL × n_vocab] of a */
    int32_t base, n_vocab;
};

static int keep(void *ctx, const float *logits, const struct hasten_logits_row *rows, int32_t n_rows,
                int32_t n_vocab)
{
    struct scene *s = ctx;
    for (int32_t i = 0; i < n_rows; i++)
        if (rows[i].item == 0)
            memcpy(s->rows + (int64_t)(s->base + rows[i].row) * n_vocab, logits + (int64_t)i * n_vocab,
                   (size_t)n_vocab * sizeof *logits);
    return 0;
}

static hasten_status open_scene(const struct contract *c, const struct hasten_method_use *use,
                                struct scene *s, struct hasten_error *err)
{
    struct hasten_engine_settings set;
    hasten_engine_default_settings(&set);
    set.n_threads = 1;
    set.n_ctx = N_ALL + 64;
    set.n_seq_max = 3;
    set.n_batch = 48; /* the prompt takes two passes */
    set.methods = use;
    set.n_methods = use ? 1 : 0;
    set.poison = true;
    hasten_status st = hasten_engine_open(c->model, &set, &s->e, err);
    if (!st)
        st = hasten_seq_open(s->e, &s->a, err);
    return st ? st : hasten_seq_announce(s->a, N_READ, err);
}

/* Tokens [from, to) of a in one step. */
static hasten_status read_on(const struct contract *c, struct scene *s, int32_t from, int32_t to,
                             const volatile int *cancel, struct hasten_error *err)
{
    const struct hasten_item item = {.seq = s->a, .tokens = c->tokens + from, .n = to - from, .want_from = 0};
    s->base = from;
    return hasten_step(s->e, &item, 1, keep, s, cancel, err);
}

/* The whole scene: the prompt, a fork, then token by token. rows: [N_ALL × n_vocab], the caller's. */
static hasten_status play(const struct contract *c, const struct hasten_method_use *use, float *rows,
                          struct hasten_error *err)
{
    struct scene s = {.rows = rows, .n_vocab = hasten_model_n_vocab(c->model)};
    hasten_status st = open_scene(c, use, &s, err);
    if (!st)
        st = read_on(c, &s, 0, N_READ, NULL, err);
    if (!st)
        st = hasten_seq_fork(s.a, N_READ - 3, &s.b, err);
    for (int32_t i = N_READ; i < N_ALL && !st; i++)
        st = read_on(c, &s, i, i + 1, NULL, err);
    hasten_engine_close(s.e);
    return st;
}

static float *new_rows(const struct contract *c)
{
    float *rows = calloc((size_t)N_ALL * (size_t)hasten_model_n_vocab(c->model), sizeof *rows);
    if (!rows) {
        printf("FAILED: no memory for logits\n");
        exit(1);
    }
    return rows;
}

static bool equal(const struct contract *c, const float *a, const float *b, int32_t n)
{
    return first_difference(a, b, n, hasten_model_n_vocab(c->model)) < 0;
}

/* ---- allocations ---------------------------------------------------------------------------------------------- */

/* The nth allocation fails: an error of memory with a sentence, or the same bits; and nothing is left allocated. */
static bool fails_well(struct contract *c, const struct method *m, const struct hasten_method_use *use,
                       uint64_t n, const float *want, float *rows)
{
    struct hasten_error err = {0};
    struct mem_stats before, after;
    char at[40];
    snprintf(at, sizeof at, "allocation %llu", (unsigned long long)n);
    mem_stats_get(&before);
    mem_fail_at(n, 0);
    const hasten_status st = play(c, use, rows, &err);
    const bool injected = mem_fail_count() > 0;
    mem_fail_at(0, 0);
    mem_stats_get(&after);
    check(c, after.live_bytes == before.live_bytes, m->name, "leaks when an allocation fails", at);
    if (st)
        check(c, st == HASTEN_ERR_MEMORY && err.message[0], m->name,
              "a failed allocation is not said to be one", err.message[0] ? err.message : at);
    else
        check(c, equal(c, want, rows, N_ALL), m->name, "other bits after a failed allocation", at);
    return injected;
}

/* ---- cancelling ----------------------------------------------------------------------------------------------- */

struct cancelling {
    volatile int flag;
    int32_t left; /* calls until it is set */
};

static void count_down(void *ctx, const struct tap_linear_input *in)
{
    struct cancelling *k = ctx;
    (void)in;
    if (k->left > 0 && --k->left == 0)
        k->flag = 1;
}

/* Each step is cancelled at its nth matrix product, then done again: no trace. Whether any step was. */
static bool cancels_well(struct contract *c, const struct method *m, const struct hasten_method_use *use,
                         int32_t n, const float *want, float *rows)
{
    struct scene s = {.rows = rows, .n_vocab = hasten_model_n_vocab(c->model)};
    struct hasten_error err = {0};
    struct cancelling k = {0};
    struct tap_linear_input_sub sub = {.fn = count_down, .ctx = &k};
    bool any = false;
    die_unless_ok(open_scene(c, use, &s, &err), &err, "a scene");
    tap_linear_input_add(s.e, &sub);
    for (int32_t from = 0, to = N_READ; from < N_ALL; from = to, to++) {
        k = (struct cancelling){0, n};
        hasten_status st = read_on(c, &s, from, to, &k.flag, &err);
        if (st == HASTEN_ERR_CANCELLED) {
            any = true;
            check(c, hasten_seq_length(s.a) == from, m->name, "a cancelled step left positions", "");
            k.left = 0;
            st = read_on(c, &s, from, to, NULL, &err);
        }
        die_unless_ok(st, &err, "a step");
    }
    tap_linear_input_remove(s.e, &sub);
    hasten_engine_close(s.e);
    char at[40];
    snprintf(at, sizeof at, "product %d", (int)n);
    check(c, equal(c, want, rows, N_ALL), m->name, "other bits after cancelled steps", at);
    return any;
}

/* ---- NaN ------------------------------------------------------------------------------------------------------ */

/* All bits of the page of a position, in every lane: NaN in any floating type; whole numbers of q8 have NaN scales. */
static void plant(const struct hasten_engine *e, const struct hasten_seq *s, int32_t position)
{
    for (int32_t lane = 0; lane < e->kv.n_lanes; lane++) {
        const int32_t page = position / KV_PAGE;
        if (page < kv_pages(&s->kv, lane))
            memset(e->kv.base + (size_t)s->kv.table[(int64_t)page * e->kv.n_lanes + lane] * e->kv.block_bytes,
                   0xff, e->kv.block_bytes);
    }
}

/* a and its neighbour b share steps; a's second page is NaN for a while. b's bits do not change, and once a was cut back
 * to before that page, neither do a's. */
static void contains_nan(struct contract *c, const struct method *m, const struct hasten_method_use *use,
                         const float *want, float *rows)
{
    struct scene s = {.n_vocab = hasten_model_n_vocab(c->model)};
    struct hasten_error err = {0};
    float *other = new_rows(c);
    s.rows = other;
    die_unless_ok(open_scene(c, use, &s, &err), &err, "a scene");
    die_unless_ok(hasten_seq_open(s.e, &s.b, &err), &err, "a neighbour");
    die_unless_ok(hasten_seq_announce(s.b, N_READ, &err), &err, "announcing");
    struct hasten_seq *a = s.a, *b = s.b;
    die_unless_ok(read_on(c, &s, 0, N_READ, NULL, &err), &err, "a prompt");
    s.a = b;
    die_unless_ok(read_on(c, &s, 0, N_READ, NULL, &err), &err, "a prompt");
    plant(s.e, a, KV_PAGE);
    for (int32_t i = N_READ; i < N_ALL; i++) {
        const struct hasten_item items[] = {{.seq = b, .tokens = c->tokens + i, .n = 1, .want_from = 0},
                                            {.seq = a, .tokens = c->tokens + i, .n = 1, .want_from = 0}};
        s.base = i;
        const hasten_status st = hasten_step(s.e, items, 2, keep, &s, NULL, &err);
        check(c, !st || st == HASTEN_ERR_NON_FINITE, m->name, "NaN in the cache ends a step otherwise",
              err.message);
    }
    check(c, equal(c, want, other, N_ALL), m->name, "NaN in the cache of a sequence changes its neighbour",
          "");
    s.a = a;
    s.rows = rows;
    die_unless_ok(hasten_seq_truncate(a, KV_PAGE, &err), &err, "cutting back");
    memcpy(rows, want, (size_t)KV_PAGE * (size_t)s.n_vocab * sizeof *rows);
    die_unless_ok(read_on(c, &s, KV_PAGE, N_READ, NULL, &err), &err, "reading again");
    for (int32_t i = N_READ; i < N_ALL; i++)
        die_unless_ok(read_on(c, &s, i, i + 1, NULL, &err), &err, "a step");
    check(c, equal(c, want, rows, N_ALL), m->name, "other bits after NaN was cut away", "");
    hasten_engine_close(s.e);
    free(other);
}

/* ---- all ------------------------------------------------------------------------------------------------------ */

void faults(struct contract *c, const struct method *m, const struct hasten_method_use *use)
{
#if defined(__SANITIZE_THREAD__)
    (void)c, (void)m, (void)use; /* one thread works here */
    return;
#endif
    struct hasten_error err = {0};
    float *want = new_rows(c), *rows = new_rows(c);
    die_unless_ok(play(c, use, want, &err), &err, "a scene");
    /* Not the same places for every method, so that together they cover them. */
    const uint64_t shift = (uint64_t)(unsigned char)m->name[0] % (uint64_t)c->every;
    for (uint64_t n = 1 + shift; fails_well(c, m, use, n, want, rows); n += (uint64_t)c->every) {
    }
    for (int32_t n = 1; cancels_well(c, m, use, n, want, rows); n += (c->every + 2) / 3) {
    }
    contains_nan(c, m, use, want, rows);
    free(want);
    free(rows);
}
