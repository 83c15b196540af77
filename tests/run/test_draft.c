/* Drafting changes no bit: every drafter, under every law, gives the plain engine's tokens, log-probabilities, text and
 * cache; ends in the middle of a block are cut where plain cuts; and an acceptor that is wrong is found out. With a
 * model's path as argument: the same, short, on it. */
#include "model/loaded.h"
#include "tiny_model.h"
#include "world.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#define TINY "test_draft.gguf"
#define ANSWER "test_draft_answer.json"
#define PROMPT "The water of the river and the water of the sea and the water"

static const char *model_path = TINY;
static bool real_model;
static int32_t n_predict = 60;

static void set_law(struct sampling *l, int which)
{
    struct sampler_settings *s = &l->settings;
    sampler_default_settings(s);
    s->seed = 7;
    s->temperature = which == 0 ? 0 : which == 1 ? 0.8f : 1.3f;
    if (which == 2) {
        s->repeat_penalty = 1.3f;
        s->presence_penalty = 0.2f;
        s->frequency_penalty = 0.1f;
        s->dry_multiplier = 0.8f;
        s->top_k = 0;
    }
    if (which == 3)
        s->mirostat = 2;
    s->n_logprobs = 2;
    l->logprobs = true;
    l->n_predict = n_predict;
}
#define N_LAWS 4

/* The plain answer, into ANSWER too. */
static void plain_answer(struct world *w, const struct tokens *ids, struct answer *out)
{
    world_answer(w, ids->ids, ids->n, out);
    FILE *f = fopen(ANSWER, "w");
    assert_non_null(f);
    fputc('[', f);
    for (int64_t i = 0; i < out->ids.n; i++)
        fprintf(f, "%s%d", i ? "," : "", (int)out->ids.ids[i]);
    fputc(']', f);
    fclose(f);
}

static const char *const drafts[] = {"draft lookup",
                                     "draft lookup:max=8,min=2,gamma=64",
                                     "draft oracle:ids=" ANSWER ",gamma=1",
                                     "draft oracle:ids=" ANSWER ",gamma=7",
                                     "draft adversary:ids=" ANSWER ",gamma=5",
                                     "draft adversary:gamma=64"};
#define N_DRAFTS ((int)(sizeof drafts / sizeof *drafts))

/* One drafter beside the plain run `a`, whose answer is x; how many tokens it drafted. */
static int32_t drafted_equal(struct world *a, const struct answer *x, const struct tokens *ids, int law,
                             const char *draft, const char *verify)
{
    struct world b;
    struct answer y;
    char what[128];
    snprintf(what, sizeof what, "%s, %s, law %d", draft, verify, law);
    world_open(&b, a->model, (const char *const[]){draft, verify, NULL}, 0, 0);
    set_law(&b.law, law);
    world_answer(&b, ids->ids, ids->n, &y);
    answer_must_equal(a, x, &b, &y, what);
    assert_true(y.accepted_n <= y.drafted_n);
    const int32_t n = y.drafted_n;
    answer_free(&y);
    world_close(&b);
    return n;
}

static void any_drafter_any_law(void **state)
{
    (void)state;
    struct hasten_model *m = world_model(model_path);
    struct tokens ids = world_ids(m, PROMPT);
    int64_t n_drafted[N_DRAFTS] = {0};
    for (int law = 0; law < N_LAWS; law += real_model ? 2 : 1) {
        struct world a;
        struct answer x;
        world_open(&a, m, NULL, 0, 0);
        set_law(&a.law, law);
        plain_answer(&a, &ids, &x);
        for (int i = 0; i < N_DRAFTS; i += real_model ? 3 : 1) {
            n_drafted[i] += drafted_equal(&a, &x, &ids, law, drafts[i], "draft verify:ctl=off");
            if (!real_model)
                drafted_equal(&a, &x, &ids, law, drafts[i], "draft verify:ctl=on");
        }
        answer_free(&x);
        world_close(&a);
    }
    for (int i = 0; i < N_DRAFTS; i += real_model ? 3 : 1)
        assert_true(n_drafted[i] > 0);
    tokens_free(&ids);
    hasten_model_close(m);
}

/* Every token that stands saves a pass, and nothing else does. */
static void passes_are_counted(void **state)
{
    (void)state;
    struct hasten_model *m = world_model(model_path);
    struct tokens ids = world_ids(m, PROMPT);
    for (int gamma = 1; gamma <= 8; gamma += gamma < 3 ? 1 : 5) {
        struct world w;
        struct answer x, y;
        char oracle[64], adversary[64];
        snprintf(oracle, sizeof oracle, "draft oracle:ids=" ANSWER ",gamma=%d", gamma);
        snprintf(adversary, sizeof adversary, "draft adversary:ids=" ANSWER ",gamma=%d", gamma);
        world_open(&w, m, NULL, 0, 0);
        w.law.n_predict = n_predict;
        plain_answer(&w, &ids, &x);
        world_close(&w);
        assert_int_equal(x.passes, x.predicted_n - 1);
        world_open(&w, m, (const char *const[]){oracle, "draft verify:ctl=off", NULL}, 0, 0);
        w.law.n_predict = n_predict;
        world_answer(&w, ids.ids, ids.n, &y);
        assert_int_equal(y.passes, (x.predicted_n - 1 + gamma) / (gamma + 1));
        assert_int_equal(y.predicted_n, x.predicted_n);
        assert_int_equal(y.accepted_n + y.passes + 1, y.predicted_n);
        answer_free(&y);
        world_close(&w);
        world_open(&w, m, (const char *const[]){adversary, "draft verify:ctl=off", NULL}, 0, 0);
        w.law.n_predict = n_predict;
        world_answer(&w, ids.ids, ids.n, &y);
        assert_int_equal(y.passes, y.predicted_n - 1);
        assert_int_equal(y.accepted_n, 0);
        answer_free(&x);
        answer_free(&y);
        world_close(&w);
    }
    tokens_free(&ids);
    hasten_model_close(m);
}

/* ---- ends ----------------------------------------------------------------------------------------------------- */

/* The plain answer and one with the spec, under what `set` makes of the law, must be equal. */
static void compare(const struct hasten_model *m, const char *spec, const struct tokens *ids, int32_t n_ctx,
                    int32_t predict, const char *stop, const char *what)
{
    struct world a, b;
    struct answer x, y;
    struct gguf_str text = {stop, stop ? strlen(stop) : 0};
    world_open(&a, m, NULL, n_ctx, 0);
    world_open(&b, m, (const char *const[]){spec, "draft verify:ctl=off", NULL}, n_ctx, 0);
    a.law.n_predict = b.law.n_predict = predict;
    if (stop) {
        a.law.stops = b.law.stops = &text;
        a.law.n_stops = b.law.n_stops = 1;
    }
    world_answer(&a, ids->ids, ids->n, &x);
    world_answer(&b, ids->ids, ids->n, &y);
    answer_must_equal(&a, &x, &b, &y, what);
    answer_free(&x);
    answer_free(&y);
    world_close(&a);
    world_close(&b);
}

static void ends_within_a_block(void **state)
{
    (void)state;
    struct hasten_model *m = world_model("script:hash=6,length=30");
    struct tokens ids = world_ids(m, "ends");
    struct world w;
    struct answer x;
    char what[64];
    world_open(&w, m, NULL, 0, 0);
    plain_answer(&w, &ids, &x); /* to the end token */
    assert_int_equal(x.finish, FINISH_STOP);
    assert_true(x.ids.n > 12 && x.text.len > 12);
    for (int gamma = 1; gamma < 12; gamma += 5) {
        char spec[64];
        snprintf(spec, sizeof spec, "draft oracle:ids=" ANSWER ",gamma=%d", gamma);
        compare(m, spec, &ids, 0, -1, NULL, "the model's end");
        for (int32_t n = 0; n < 13; n++) {
            snprintf(what, sizeof what, "gamma %d, place %d", gamma, (int)n);
            compare(m, spec, &ids, 0, n, NULL, what);
            compare(m, spec, &ids, (int32_t)ids.n + n, -1, NULL, what);
            char stop[3] = {x.text.data[n], x.text.data[n + 1], 0};
            compare(m, spec, &ids, 0, -1, stop, what);
        }
    }
    answer_free(&x);
    world_close(&w);
    tokens_free(&ids);
    hasten_model_close(m);
}

static int cancel_at(void *ctx, const char *bytes, size_t len)
{
    volatile int *cancel = ctx;
    (void)bytes, (void)len;
    cancel[0] = --cancel[1] <= 0;
    return 0;
}

static void interrupted_anywhere(void **state)
{
    (void)state;
    struct hasten_model *m = world_model(TINY);
    struct tokens ids = world_ids(m, PROMPT);
    struct world a, b;
    struct answer x;
    world_open(&a, m, NULL, 0, 0);
    a.law.n_predict = 40;
    plain_answer(&a, &ids, &x);
    for (int k = 1; k < 20; k++) {
        volatile int cancel[2] = {0, k};
        struct answer y = {0};
        struct hasten_error err;
        world_open(&b, m, (const char *const[]){drafts[3], NULL}, 0, 0);
        b.law.n_predict = 40;
        const struct run_task task = {.engine = b.engine,
                                      .seq = b.seq,
                                      .vocab = model_vocab(m),
                                      .law = &b.law,
                                      .ids = ids.ids,
                                      .n = ids.n,
                                      .show = cancel_at,
                                      .show_ctx = (void *)(uintptr_t)cancel,
                                      .cancel = cancel};
        if (run_answer(&task, NULL, NULL, &y, &err))
            fail_msg("%s", err.message);
        assert_int_equal(y.finish, FINISH_INTERRUPTED);
        assert_true(y.ids.n > 0 && y.ids.n <= x.ids.n);
        assert_memory_equal(y.ids.ids, x.ids.ids, (size_t)y.ids.n * sizeof *y.ids.ids);
        answer_free(&y);
        world_answer(&b, ids.ids, ids.n, &y); /* the sequence is fit for another */
        answer_must_equal(&a, &x, &b, &y, "after an interruption");
        answer_free(&y);
        world_close(&b);
    }
    answer_free(&x);
    world_close(&a);
    tokens_free(&ids);
    hasten_model_close(m);
}

/* ---- what is wrong is found out ------------------------------------------------------------------------------- */

static bool accept_all(const void *s, int32_t own, int32_t drafted)
{
    (void)s, (void)own, (void)drafted;
    return true;
}

static bool never(const void *s)
{
    (void)s;
    return false;
}

static const struct draft_ops wrong_ops = {.accept = accept_all, .controlled = never};
static const struct method wrong = {.name = "wrong",
                                    .title = "",
                                    .paper = "",
                                    .exact_to = "",
                                    .stage = STAGE_DRAFT,
                                    .role = "verify",
                                    .knobs_bytes = 1,
                                    .hosted = &wrong_ops};

static void a_wrong_acceptor_is_caught(void **state)
{
    (void)state;
    struct hasten_model *m = world_model(model_path);
    struct tokens ids = world_ids(m, PROMPT);
    struct world a, b;
    struct answer x, y;
    world_open(&a, m, NULL, 0, 0);
    world_open_with(&b, m, &wrong, (const char *const[]){drafts[4], NULL}, 0);
    a.law.n_predict = b.law.n_predict = 12;
    plain_answer(&a, &ids, &x);
    world_answer(&b, ids.ids, ids.n, &y);
    assert_false(world_equal(&a, &x, &b, &y));
    answer_free(&x);
    answer_free(&y);
    world_close(&a);
    world_close(&b);
    tokens_free(&ids);
    hasten_model_close(m);
}

/* ---- a drafter with more than a flat state -------------------------------------------------------------------- */

struct diary { /* what it knows of the path */
    int32_t ids[1024];
    int64_t n;
};
static int n_diaries, n_cuts, n_outcomes;

static hasten_status diary_open(const void *s, void **opened, struct hasten_error *err)
{
    (void)s, (void)err;
    *opened = calloc(1, sizeof(struct diary));
    n_diaries++;
    return HASTEN_OK;
}

static hasten_status diary_fork(const void *s, const void *opened, void **out, struct hasten_error *err)
{
    const hasten_status st = diary_open(s, out, err);
    memcpy(*out, opened, sizeof(struct diary));
    return st;
}

static void diary_truncate(const void *s, void *opened, int64_t n)
{
    struct diary *d = opened;
    (void)s;
    assert_true(n <= d->n);
    d->n = n;
    n_cuts++;
}

static void diary_close(const void *s, void *opened)
{
    (void)s;
    free(opened);
    n_diaries--;
}

static int32_t diary_most(const void *s)
{
    (void)s;
    return 2;
}

static hasten_status diary_propose(const struct draft_self *self, const struct draft_view *v,
                                   struct draft_proposal *p, struct hasten_error *err)
{
    struct diary *d = self->opened;
    (void)err;
    assert_true(d->n <= v->n && v->n < 1024);
    assert_memory_equal(d->ids, v->path, (size_t)d->n * sizeof *d->ids);
    memcpy(d->ids + d->n, v->path + d->n, (size_t)(v->n - d->n) * sizeof *d->ids);
    d->n = v->n;
    p->ids[0] = v->path[v->n - 1];
    p->ids[1] = -5; /* no token: the rest is not taken */
    p->n = 2;
    return HASTEN_OK;
}

static void diary_outcome(const struct draft_self *self, const struct draft_view *v, int32_t n_checked,
                          int32_t n_stood)
{
    (void)self, (void)v;
    assert_int_equal(n_checked, 1);
    assert_in_range(n_stood, 0, 1);
    n_outcomes++;
}

static const struct draft_ops diary_ops = {.most = diary_most,
                                           .propose = diary_propose,
                                           .outcome = diary_outcome,
                                           .open = diary_open,
                                           .fork = diary_fork,
                                           .truncate = diary_truncate,
                                           .close = diary_close};
static const struct method diary = {.name = "diary",
                                    .title = "",
                                    .paper = "",
                                    .exact_to = "",
                                    .stage = STAGE_DRAFT,
                                    .role = "propose",
                                    .knobs_bytes = 1,
                                    .hosted = &diary_ops};

static void opened_states_follow_the_path(void **state)
{
    (void)state;
    struct hasten_model *m = world_model(TINY);
    struct tokens ids = world_ids(m, PROMPT), other = world_ids(m, "The water of the hill is");
    struct hasten_error err;
    struct world w;
    struct speculation *s = NULL, *f = NULL;
    world_open_with(&w, m, &diary, (const char *const[]){"draft verify:ctl=off", NULL}, 0);
    w.law.n_predict = 10;
    assert_int_equal(speculation_open(w.engine, &s, &err), HASTEN_OK);
    for (int i = 0; i < 3; i++) { /* the same sequence: another prompt, then the first again */
        const struct tokens *p = i == 1 ? &other : &ids;
        struct answer a = {0};
        const struct run_task task = {.engine = w.engine,
                                      .seq = w.seq,
                                      .vocab = model_vocab(m),
                                      .law = &w.law,
                                      .ids = p->ids,
                                      .n = p->n,
                                      .drafts = i == 2 ? f : s};
        if (run_answer(&task, NULL, NULL, &a, &err))
            fail_msg("%s", err.message);
        answer_free(&a);
        if (i == 1)
            assert_int_equal(speculation_fork(s, 3, &f, &err), HASTEN_OK);
    }
    assert_int_equal(n_diaries, 2);
    assert_true(n_cuts >= 2 && n_outcomes > 10);
    speculation_close(s);
    speculation_close(f);
    assert_int_equal(n_diaries, 0);
    world_close(&w);
    tokens_free(&ids);
    tokens_free(&other);
    hasten_model_close(m);
}

/* ---- several in a step, memory that runs out ------------------------------------------------------------------ */

#define N_TOGETHER 3
struct crowd {
    struct run *run[N_TOGETHER];
    struct run *of_item[N_TOGETHER];
};

static int share_rows(void *ctx, const float *logits, const struct hasten_logits_row *rows, int32_t n_rows,
                      int32_t n_vocab)
{
    const struct crowd *c = ctx;
    for (int32_t i = 0; i < n_rows; i++)
        run_take(c->of_item[rows[i].item], logits + (int64_t)i * n_vocab);
    return 0;
}

static void together_as_alone(void **state)
{
    (void)state;
    static const char *const prompts[N_TOGETHER] = {PROMPT, "The sea", "and the hill and the hill and the"};
    struct hasten_model *m = world_model(TINY);
    struct hasten_error err;
    struct world w, alone;
    struct crowd c = {0};
    struct answer a[N_TOGETHER] = {0}, x;
    struct tokens ids[N_TOGETHER];
    struct sampling law[N_TOGETHER];
    struct hasten_seq *seq[N_TOGETHER];
    world_open(&w, m, (const char *const[]){"draft lookup:gamma=6", NULL}, 0, N_TOGETHER + 1);
    for (int i = 0; i < N_TOGETHER; i++) {
        law[i] = w.law;
        law[i].n_predict = 20 + 9 * i;
        law[i].settings.temperature = 0.4f * (float)i;
        ids[i] = world_ids(m, prompts[i]);
        assert_int_equal(hasten_seq_open(w.engine, &seq[i], &err), HASTEN_OK);
        const struct run_task task = {.engine = w.engine,
                                      .seq = seq[i],
                                      .vocab = model_vocab(m),
                                      .law = &law[i],
                                      .ids = ids[i].ids,
                                      .n = ids[i].n};
        assert_int_equal(run_open(&task, &a[i], &c.run[i], &err), HASTEN_OK);
    }
    for (;;) {
        struct hasten_item item[N_TOGETHER];
        int n = 0;
        for (int i = 0; i < N_TOGETHER; i++)
            if (run_next(c.run[i], 512, &item[n]))
                c.of_item[n++] = c.run[i];
        if (n == 0)
            break;
        const hasten_status st = hasten_step(w.engine, item, n, share_rows, &c, NULL, &err);
        for (int i = 0; i < n; i++)
            if (run_after(c.of_item[i], st, &err))
                fail_msg("%s", err.message);
    }
    world_open(&alone, m, NULL, 0, 0);
    for (int i = 0; i < N_TOGETHER; i++) {
        run_close(c.run[i]);
        alone.law = law[i];
        alone.law.sampler = alone.sampler;
        alone.law.memory = alone.memory;
        world_answer(&alone, ids[i].ids, ids[i].n, &x);
        struct hasten_seq *own = w.seq;
        w.seq = seq[i];
        answer_must_equal(&alone, &x, &w, &a[i], prompts[i]);
        w.seq = own;
        answer_free(&x);
        answer_free(&a[i]);
        tokens_free(&ids[i]);
        hasten_seq_close(seq[i]);
    }
    world_close(&w);
    world_close(&alone);
    hasten_model_close(m);
}

static void any_allocation_may_fail(void **state)
{
    (void)state;
    struct hasten_model *m = world_model(TINY);
    struct tokens ids = world_ids(m, PROMPT);
    struct world w;
    struct mem_stats before, after;
    uint64_t failed = 0;
    world_open(&w, m, (const char *const[]){"draft lookup:gamma=3", NULL}, 0, 0);
    w.law.n_predict = 8;
    mem_stats_get(&before);
    for (uint64_t n = 1;; n++) {
        struct answer a = {0};
        struct hasten_error err;
        const struct run_task task = {.engine = w.engine,
                                      .seq = w.seq,
                                      .vocab = model_vocab(m),
                                      .law = &w.law,
                                      .ids = ids.ids,
                                      .n = ids.n};
        mem_fail_at(n, 0);
        const hasten_status st = run_answer(&task, NULL, NULL, &a, &err);
        const uint64_t injected = mem_fail_count();
        mem_fail_at(0, 0);
        answer_free(&a);
        assert_true(st == HASTEN_OK || (injected && st == HASTEN_ERR_MEMORY));
        mem_stats_get(&after);
        assert_int_equal(after.live_bytes, before.live_bytes);
        failed += st != HASTEN_OK;
        if (injected == 0)
            break;
    }
    assert_true(failed > 3);
    world_close(&w);
    tokens_free(&ids);
    hasten_model_close(m);
}

/* Fewer pages than drafts would like: what is due still goes through. */
static void drafts_give_way_to_what_is_due(void **state)
{
    (void)state;
    struct hasten_model *m = world_model(TINY);
    struct tokens ids = world_ids(m, PROMPT);
    struct world a, b;
    struct answer x, y;
    world_open(&a, m, NULL, 0, 0);
    world_open(&b, m, (const char *const[]){"draft adversary:gamma=64", "draft verify:ctl=off", NULL}, 0, 0);
    struct hasten_error err;
    hasten_seq_close(b.seq);
    hasten_engine_close(b.engine);
    b.settings.kv_positions = 64; /* one page */
    assert_int_equal(hasten_engine_open(m, &b.settings, &b.engine, &err), HASTEN_OK);
    assert_int_equal(hasten_seq_open(b.engine, &b.seq, &err), HASTEN_OK);
    a.law.n_predict = b.law.n_predict = 64 - (int32_t)ids.n;
    world_answer(&a, ids.ids, ids.n, &x);
    world_answer(&b, ids.ids, ids.n, &y);
    assert_int_equal(x.ids.n, y.ids.n);
    assert_memory_equal(x.ids.ids, y.ids.ids, (size_t)x.ids.n * sizeof *x.ids.ids);
    answer_free(&x);
    answer_free(&y);
    world_close(&a);
    world_close(&b);
    tokens_free(&ids);
    hasten_model_close(m);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest real[] = {cmocka_unit_test(any_drafter_any_law),
                                      cmocka_unit_test(a_wrong_acceptor_is_caught)},
                            all[] = {cmocka_unit_test(any_drafter_any_law),
                                     cmocka_unit_test(passes_are_counted),
                                     cmocka_unit_test(ends_within_a_block),
                                     cmocka_unit_test(interrupted_anywhere),
                                     cmocka_unit_test(a_wrong_acceptor_is_caught),
                                     cmocka_unit_test(opened_states_follow_the_path),
                                     cmocka_unit_test(together_as_alone),
                                     cmocka_unit_test(any_allocation_may_fail),
                                     cmocka_unit_test(drafts_give_way_to_what_is_due)};
    if (argc > 1) {
        model_path = argv[1];
        real_model = true;
        n_predict = 16;
        return cmocka_run_group_tests(real, NULL, NULL);
    }
    struct tiny_options o;
    if (tiny_options_default("llama", 1, &o) || tiny_model_save(&o, TINY)) {
        fprintf(stderr, TINY ": cannot be written\n");
        return 1;
    }
    return cmocka_run_group_tests(all, NULL, NULL);
}
