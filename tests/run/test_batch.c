/* Continuous batching (run/batch.h): whatever the company, a job is what it is alone, to the bit; cancels give back
 * exactly what was taken; when pages run out all the same end, without much being computed twice; owners, priorities,
 * deadlines and limits hold; one job's failure is nobody else's; and a scheduler that mixes rows is found out. */
#include "base/clock.h"
#include "crowd.h"
#include "tiny_model.h"
#include "world.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#define TINY "test_batch.gguf"
#define SCRIPT "test_batch.txt"
#define HASH "script:hash=11,length=40"
#define N_MIXED 16

/* A prompt of n tokens: a common beginning, then words of its own. */
static void draw_prompt(uint64_t *rng, int32_t n_vocab, int32_t n_common, int32_t n, int32_t *out)
{
    uint64_t common = 77;
    const uint64_t most = n_vocab < 200 ? (uint64_t)n_vocab - 40 : 90;
    for (int32_t i = 0; i < n; i++) {
        out[i] = 35 + (int32_t)draw(i < n_common ? &common : rng, most);
        if (i >= 6 && i >= n_common && draw(rng, 3) > 0)
            out[i] = out[i - 5]; /* something to look up */
    }
}

static void draw_member(struct member *m, struct crowd *c, uint64_t *rng, int32_t most, int32_t n_predict,
                        int n_laws)
{
    int32_t ids[512];
    const int32_t n = 1 + (int32_t)draw(rng, (uint64_t)most);
    draw_prompt(rng, hasten_model_n_vocab(c->model), draw(rng, 2) ? n / 2 : 0, n, ids);
    member_open(m, c, ids, n, (int32_t)draw(rng, (uint64_t)n_predict + 1));
    member_set_law(m, (int)draw(rng, (uint64_t)n_laws), draw(rng, 1000));
}

/* ---- the same bits -------------------------------------------------------------------------------------------- */

static void mixed(const char *path, uint64_t seed, int32_t n_threads, int32_t n_batch, int32_t n_seq,
                  double itl_target, const char *const *specs)
{
    struct hasten_model *model = world_model(path);
    struct hasten_engine_settings s;
    struct member m[N_MIXED];
    struct crowd c;
    struct batch_figures f;
    hasten_engine_default_settings(&s);
    s.n_threads = n_threads;
    s.n_batch = n_batch;
    s.n_seq_max = n_seq;
    s.n_ctx = 300;
    crowd_open(&c, model, specs, &s, &(struct batch_settings){.itl_target = itl_target});
    for (int i = 0; i < N_MIXED; i++) {
        draw_member(&m[i], &c, &seed, i % 4 ? 40 : 200, 40, N_LAWS);
        member_submit(&m[i]);
        if (draw(&seed, 3) == 0)
            batch_turn(c.batch);
    }
    crowd_run(&c);
    for (int i = 0; i < N_MIXED; i++) {
        assert_int_equal(m[i].n_ended, 1);
        if (m[i].status)
            fail_msg("%s", m[i].sentence);
        member_must_equal_alone(&m[i]);
        assert_true(m[i].n_progress > 0);
        assert_true(m[i].times.first >= m[i].times.admitted && m[i].times.done >= m[i].times.first);
    }
    batch_figures(c.batch, &f);
    assert_int_equal(f.finished, N_MIXED);
    crowd_must_be_empty(&c);
    for (int i = 0; i < N_MIXED; i++)
        member_close(&m[i]);
    crowd_close(&c);
    hasten_model_close(model);
}

static void mixed_as_alone(void **state)
{
    (void)state;
    static const char *const lookup[] = {"draft lookup:gamma=5", "draft verify:ctl=off", NULL};
    static const char *const controlled[] = {"draft lookup", "schedule sjf", NULL};
    mixed(TINY, 1, 1, 512, 16, 0, NULL);
    mixed(TINY, 2, 2, 23, 7, 0, lookup);
    mixed(TINY, 3, 2, 64, 16, 0.5, controlled);
    mixed(TINY, 4, 1, 3, 3, 0, lookup);
    for (uint64_t seed = 5; seed < 12; seed++)
        mixed(HASH, seed, 1, 1 + (int32_t)(seed * seed % 60), 2 + (int32_t)seed, (double)(seed % 2),
              seed % 3 ? lookup : NULL);
}

/* n answers to one prompt: it is read once. */
static void one_prompt_is_read_once(void **state)
{
    (void)state;
    struct hasten_model *model = world_model(TINY);
    struct hasten_engine_settings s;
    struct member m[6];
    struct crowd c;
    int32_t ids[150];
    uint64_t rng = 5;
    hasten_engine_default_settings(&s);
    s.n_seq_max = 6;
    s.n_batch = 32;
    crowd_open(&c, model, NULL, &s, NULL);
    draw_prompt(&rng, hasten_model_n_vocab(model), 0, 150, ids);
    for (int i = 0; i < 6; i++) {
        member_open(&m[i], &c, ids, 150, 20);
        member_set_law(&m[i], i == 5 ? 2 : 1, 3);
        m[i].law.settings.stream = (uint32_t)i;
        m[i].job.scope = i == 5;
        member_submit(&m[i]);
    }
    crowd_run(&c);
    for (int i = 0; i < 6; i++) {
        member_must_equal_alone(&m[i]);
        assert_true(i == 0 || i == 5 ? m[i].answer.cached_n == 0 : m[i].answer.cached_n == 149);
        for (int j = 1; j < i && i < 5; j++) /* the streams differ */
            assert_true(m[j].answer.text.len != m[i].answer.text.len ||
                        memcmp(m[j].answer.text.data, m[i].answer.text.data, m[i].answer.text.len) != 0);
    }
    crowd_must_be_empty(&c);
    for (int i = 0; i < 6; i++)
        member_close(&m[i]);
    crowd_close(&c);
    hasten_model_close(model);
}

/* Rows that go to the wrong job: every second step, the items change places. */
static int mix_rows(void *ctx, const float *logits, const struct hasten_logits_row *rows, int32_t n_rows,
                    int32_t n_vocab)
{
    struct job *const *of_item = ctx;
    for (int32_t i = 0; i < n_rows; i++) {
        const int32_t other = rows[n_rows - 1 - i].item;
        run_take(of_item[other]->run, logits + (int64_t)i * n_vocab);
    }
    return 0;
}

static void mixed_rows_are_caught(void **state)
{
    (void)state;
    struct hasten_model *model = world_model(TINY);
    struct hasten_engine_settings s;
    struct member m[2];
    struct crowd c;
    uint64_t rng = 9;
    int32_t ids[40];
    hasten_engine_default_settings(&s);
    s.n_seq_max = 2;
    crowd_open(&c, model, NULL, &s, NULL);
    c.batch->deal = mix_rows;
    for (int i = 0; i < 2; i++) {
        draw_prompt(&rng, hasten_model_n_vocab(model), 0, 30, ids);
        member_open(&m[i], &c, ids, 30, 20);
        member_submit(&m[i]);
    }
    crowd_run(&c);
    assert_false(member_equals_alone(&m[0]) && member_equals_alone(&m[1]));
    for (int i = 0; i < 2; i++)
        member_close(&m[i]);
    crowd_close(&c);
    hasten_model_close(model);
}

/* ---- cancels -------------------------------------------------------------------------------------------------- */

static void cancels_give_all_back(void **state)
{
    (void)state;
    struct hasten_model *model = world_model(HASH);
    struct hasten_engine_settings s;
    struct crowd c;
    struct mem_stats before, after;
    uint64_t rng = 21, ids[24], n_cancelled = 0;
    hasten_engine_default_settings(&s);
    s.n_seq_max = 8;
    s.n_batch = 40;
    s.n_ctx = 256;
    s.kv_positions = 700;
    crowd_open(&c, model, (const char *const[]){"draft lookup", NULL}, &s, NULL);
    for (int round = 0; round < 60; round++) {
        struct member m[24];
        if (round == 2)
            mem_stats_get(&before);
        for (int i = 0; i < 24; i++) {
            draw_member(&m[i], &c, &rng, 100, 50, 5); /* a grammar keeps what it has found out */
            member_submit(&m[i]);
            ids[i] = m[i].id;
        }
        bool more = true;
        for (int turn = 0; more; turn++) {
            more = batch_turn(c.batch);
            for (int k = 0; k < 2; k++) {
                const uint64_t i = draw(&rng, 60);
                if (i < 24) {
                    const bool was = m[i].n_ended == 0;
                    assert_int_equal(batch_cancel(c.batch, ids[i]), was);
                    assert_int_equal(m[i].n_ended, 1);
                    assert_false(batch_cancel(c.batch, ids[i]));
                }
            }
        }
        crowd_must_be_empty(&c);
        for (int i = 0; i < 24; i++) {
            assert_int_equal(m[i].n_ended, 1);
            assert_true(m[i].status == HASTEN_OK || m[i].status == HASTEN_ERR_CANCELLED);
            n_cancelled += m[i].status == HASTEN_ERR_CANCELLED;
            member_must_equal_alone(&m[i]);
            member_close(&m[i]);
        }
    }
    mem_stats_get(&after);
    assert_int_equal(after.live_bytes, before.live_bytes);
    assert_true(n_cancelled > 200);
    crowd_close(&c);
    hasten_model_close(model);
}

static struct member *victim;

static void cancel_victim(struct member *m)
{
    if (m->n_shown == 3)
        assert_true(batch_cancel(m->crowd->batch, victim->id));
}

static void cancel_itself(struct member *m)
{
    if (m->n_shown == 3)
        assert_true(batch_cancel(m->crowd->batch, m->id));
}

/* From within a step: it goes on for all, and the cancelled ones end in the next turn. */
static void cancels_from_callbacks(void **state)
{
    (void)state;
    struct hasten_model *model = world_model("script:hash=4,length=0");
    struct member m[3];
    struct hasten_engine_settings s;
    struct crowd c;
    hasten_engine_default_settings(&s);
    s.n_seq_max = 3;
    crowd_open(&c, model, NULL, &s, NULL);
    for (int i = 0; i < 3; i++) {
        member_open(&m[i], &c, (const int32_t[]){65 + i, 66}, 2, 30);
        member_submit(&m[i]);
    }
    victim = &m[0];
    m[1].on_show = cancel_victim;
    m[2].on_show = cancel_itself;
    crowd_run(&c);
    assert_int_equal(m[0].status, HASTEN_ERR_CANCELLED);
    assert_int_equal(m[1].status, HASTEN_OK);
    assert_int_equal(m[2].status, HASTEN_ERR_CANCELLED);
    assert_int_equal(m[0].answer.finish, FINISH_INTERRUPTED);
    for (int i = 0; i < 3; i++) {
        assert_true(m[i].answer.ids.n >= 3 && m[i].answer.ids.n <= (i == 1 ? 30 : 4));
        member_must_equal_alone(&m[i]);
        member_close(&m[i]);
    }
    crowd_must_be_empty(&c);
    crowd_close(&c);
    hasten_model_close(model);
}

static struct member *to_submit;

static void submit_next(struct member *m)
{
    (void)m;
    struct hasten_error err;
    const hasten_status st = batch_submit(to_submit->crowd->batch, &to_submit->job, &to_submit->id, &err);
    assert_true(st == HASTEN_OK || st == HASTEN_ERR_CANCELLED);
}

/* Closing ends everything, even if a callback wants to go on; a job may follow another from its callback. */
static void closing_ends_all(void **state)
{
    (void)state;
    struct hasten_model *model = world_model("script:hash=4,length=0");
    struct member m[4];
    struct crowd c;
    crowd_open(&c, model, NULL, NULL, NULL);
    for (int i = 0; i < 4; i++)
        member_open(&m[i], &c, (const int32_t[]){65 + i}, 1, i == 0 ? 3 : 100);
    to_submit = &m[3];
    m[0].on_done = submit_next;
    for (int i = 0; i < 3; i++)
        member_submit(&m[i]);
    for (int i = 0; i < 10; i++)
        assert_true(batch_turn(c.batch));
    assert_int_equal(m[0].status, HASTEN_OK);
    assert_int_equal(m[0].n_ended, 1);
    m[1].on_done = submit_next;
    batch_close(c.batch);
    c.batch = NULL;
    for (int i = 1; i < 4; i++) {
        assert_int_equal(m[i].n_ended, 1);
        assert_int_equal(m[i].status, HASTEN_ERR_CANCELLED);
    }
    for (int i = 0; i < 4; i++)
        member_close(&m[i]);
    crowd_close(&c);
    hasten_model_close(model);
}

/* ---- out of pages --------------------------------------------------------------------------------------------- */

/* Four times as many jobs as there are pages for: all end, and little is computed twice. */
static void pressure(const char *path, uint64_t seed, int n, const char *const *specs)
{
    struct hasten_model *model = world_model(path);
    struct hasten_engine_settings s;
    struct member *m = calloc((size_t)n, sizeof *m);
    struct crowd c;
    struct batch_figures f;
    assert_non_null(m);
    hasten_engine_default_settings(&s);
    s.n_seq_max = n;
    s.n_batch = 64;
    s.n_ctx = 320;
    s.kv_positions =
        64; /* and a page for each further sequence: n pages, where each job needs four or five */
    crowd_open(&c, model, specs, &s, NULL);
    for (int i = 0; i < n; i++) {
        int32_t ids[64];
        draw_prompt(&seed, hasten_model_n_vocab(model), 0, 40 + i % 20, ids);
        member_open(&m[i], &c, ids, 40 + i % 20, 200);
        member_set_law(&m[i], i % 3, seed);
        member_submit(&m[i]);
    }
    crowd_run(&c);
    batch_figures(c.batch, &f);
    for (int i = 0; i < n; i++) {
        if (m[i].status)
            fail_msg("%s", m[i].sentence);
        member_must_equal_alone(&m[i]);
        member_close(&m[i]);
    }
    if (5 * f.recomputed > f.rows)
        fail_msg("%llu of %llu rows were computed again", (unsigned long long)f.recomputed,
                 (unsigned long long)f.rows);
    print_message("%d jobs: %llu turns, %llu rows, %llu again, %llu preemptions\n", n,
                  (unsigned long long)f.turns, (unsigned long long)f.rows, (unsigned long long)f.recomputed,
                  (unsigned long long)f.preemptions);
    crowd_must_be_empty(&c);
    crowd_close(&c);
    free(m);
    hasten_model_close(model);
}

static void out_of_pages(void **state)
{
    (void)state;
    pressure("script:hash=3,length=0", 1, 16, NULL);
    pressure("script:hash=3,length=100", 2, 40, NULL);
    pressure(TINY, 3, 6, (const char *const[]){"draft lookup:gamma=4", NULL});
}

/* What can never be, is said: at once, or when the only one is without room. */
static void a_job_that_cannot_fit(void **state)
{
    (void)state;
    struct hasten_model *model = world_model("script:hash=3,length=0");
    struct hasten_engine_settings s;
    struct hasten_error err;
    struct member m[3];
    struct crowd c;
    int32_t ids[400];
    uint64_t rng = 1;
    hasten_engine_default_settings(&s);
    s.n_seq_max = 3;
    s.n_ctx = 300;
    s.kv_positions = 64; /* and a page for each further sequence: three */
    crowd_open(&c, model, NULL, &s, NULL);
    draw_prompt(&rng, 250, 0, 400, ids);
    member_open(&m[0], &c, ids, 301, 5);
    assert_int_equal(batch_submit(c.batch, &m[0].job, NULL, &err), HASTEN_ERR_LIMIT);
    assert_non_null(strstr(err.message, "the prompt has 301 tokens"));
    member_close(&m[0]);
    member_open(&m[0], &c, ids, 193, 5);
    assert_int_equal(batch_submit(c.batch, &m[0].job, NULL, &err), HASTEN_ERR_LIMIT);
    assert_non_null(strstr(err.message, "KV pages"));
    member_close(&m[0]);
    member_open(&m[0], &c, ids, 164, 60);
    member_open(&m[1], &c, ids + 3, 20, 20);
    member_open(&m[2], &c, ids + 5, 20, 100);
    for (int i = 0; i < 3; i++)
        member_submit(&m[i]);
    crowd_run(&c);
    assert_int_equal(m[0].status, HASTEN_ERR_FULL);
    assert_non_null(strstr(m[0].sentence, "holds 192 positions"));
    assert_int_equal(m[0].answer.ids.n, 29);
    assert_int_equal(m[1].status, HASTEN_OK);
    assert_int_equal(m[2].status, HASTEN_OK);
    for (int i = 0; i < 3; i++) {
        if (i > 0)
            member_must_equal_alone(&m[i]);
        member_close(&m[i]);
    }
    crowd_must_be_empty(&c);
    crowd_close(&c);
    hasten_model_close(model);
}

/* ---- order ---------------------------------------------------------------------------------------------------- */

static int32_t n_done;

static void note_order(struct member *m)
{
    m->tag = n_done++;
}

#define N_QUEUE 12
/* One slot; lengths, owners and priorities as given; tag: when each ended. */
static void queue_of(const char *const *specs, struct crowd *c, struct member *m, const int32_t *length,
                     const uint64_t *owner, const int32_t *priority, int n)
{
    uint64_t rng = 3;
    n_done = 0;
    crowd_open(c, world_model("script:hash=3,length=0"), specs, NULL, NULL);
    for (int i = 0; i < n; i++) {
        int32_t ids[300];
        draw_prompt(&rng, 250, 0, length[i], ids);
        member_open(&m[i], c, ids, length[i], 4);
        m[i].on_done = note_order;
        m[i].job.owner = owner ? owner[i] : 0;
        m[i].job.priority = priority ? priority[i] : 0;
        member_submit(&m[i]);
    }
    crowd_run(c);
}

static void close_queue(struct crowd *c, struct member *m, int n)
{
    struct hasten_model *model = (struct hasten_model *)(uintptr_t)c->model;
    for (int i = 0; i < n; i++) {
        member_must_equal_alone(&m[i]);
        member_close(&m[i]);
    }
    crowd_close(c);
    hasten_model_close(model);
}

static void orders_of_the_queue(void **state)
{
    (void)state;
    struct crowd c;
    struct member m[N_QUEUE];
    const int32_t length[4] = {100, 50, 10, 30};
    queue_of(NULL, &c, m, length, NULL, NULL, 4);
    for (int i = 0; i < 4; i++)
        assert_int_equal(m[i].tag, i);
    close_queue(&c, m, 4);
    queue_of((const char *const[]){"schedule sjf", NULL}, &c, m, length, NULL, NULL, 4);
    assert_int_equal(m[2].tag, 0);
    assert_int_equal(m[3].tag, 1);
    assert_int_equal(m[1].tag, 2);
    assert_int_equal(m[0].tag, 3);
    close_queue(&c, m, 4);
    queue_of((const char *const[]){"schedule sjf", NULL}, &c, m, length, NULL, (const int32_t[]){0, 0, -1, 7},
             4);
    assert_int_equal(m[3].tag, 0);
    assert_int_equal(m[1].tag, 1);
    assert_int_equal(m[0].tag, 2);
    assert_int_equal(m[2].tag, 3);
    close_queue(&c, m, 4);
}

/* An owner who floods the queue does not keep another waiting. */
static void owners_are_dealt_fairly(void **state)
{
    (void)state;
    struct crowd c;
    struct member m[N_QUEUE];
    int32_t length[N_QUEUE];
    uint64_t owner[N_QUEUE];
    for (int i = 0; i < N_QUEUE; i++) {
        length[i] = i == N_QUEUE - 2 ? 60 : 20;
        owner[i] = i >= N_QUEUE - 2 ? 5 : 9; /* the last two are another's */
    }
    queue_of(NULL, &c, m, length, owner, NULL, N_QUEUE);
    assert_int_equal(m[N_QUEUE - 2].tag, 1);   /* behind one of the first owner's */
    assert_in_range(m[N_QUEUE - 1].tag, 3, 5); /* when as many tokens were the other's */
    close_queue(&c, m, N_QUEUE);
}

/* Waiting makes a long job's place better: who comes later by more than its work takes does not overtake it. */
static void the_long_do_not_starve(void **state)
{
    (void)state;
    struct hasten_model *model = world_model("script:hash=3,length=0");
    struct crowd c;
    struct member m[N_QUEUE];
    uint64_t rng = 3, now = 1;
    int32_t ids[300];
    crowd_open(&c, model, (const char *const[]){"schedule sjf:age=100,answer=0", NULL}, NULL, NULL);
    draw_prompt(&rng, 250, 0, 200, ids);
    n_done = 0;
    clock_set_fake(1, now, 0);
    for (int i = 0; i < N_QUEUE; i++) {
        member_open(&m[i], &c, ids + i, i == 1 ? 180 : 20, 4); /* of 1.6 s more work */
        m[i].on_done = note_order;
    }
    for (int i = 0; i < N_QUEUE; i++, now += 300000000) { /* one more every 0.3 s, as fast as they are done */
        clock_set_fake(1, now, 0);
        member_submit(&m[i]);
        while (i >= 2 && m[i].n_ended == 0 && m[1].n_ended == 0)
            batch_turn(c.batch);
    }
    crowd_run(&c);
    clock_set_fake(0, 0, 0);
    assert_in_range(m[1].tag, 5, 7);
    for (int i = 0; i < N_QUEUE; i++)
        member_close(&m[i]);
    crowd_close(&c);
    hasten_model_close(model);
}

/* ---- what steps cost ------------------------------------------------------------------------------------------ */

static void must_be_near(double x, double want, double part)
{
    if (!(x > want * (1 - part) && x < want * (1 + part)))
        fail_msg("%g (expected about %g)", x, want);
}

static void costs_are_learned(void **state)
{
    (void)state;
    struct step_cost c = {0};
    uint64_t rng = 3;
    assert_true(cost_of(&c, 5) == 0);
    assert_int_equal(cost_rows_within(&c, 512, 100), 64); /* nothing is known: not all at once */
    for (int i = 0; i < 2000; i++) {
        const int32_t rows = 1 + (int32_t)(i < 200 ? draw(&rng, 8) : draw(&rng, 300));
        cost_note(&c, rows, 10 + 0.5 * rows);
    }
    for (int32_t rows = 1; rows <= 300; rows += 1 + rows / 3)
        must_be_near(cost_of(&c, rows), 10 + 0.5 * rows, 0.08);
    for (int32_t rows = 1; rows < 600; rows++)
        assert_true(cost_of(&c, rows + 1) >= cost_of(&c, rows));
    must_be_near(cost_rows_within(&c, 512, 60), 100, 0.1);
    must_be_near(cost_rows_within(&c, 512, 110), 200, 0.1);
    assert_int_equal(cost_rows_within(&c, 20, 110), 20);
    assert_int_equal(cost_rows_within(&c, 512, 1), 1);
    cost_note(&c, 100, 5000); /* a disturbance counts as double, and is forgotten */
    assert_true(cost_of(&c, 100) < 100);
    for (int i = 0; i < 20; i++)
        cost_note(&c, 100, 60);
    must_be_near(cost_of(&c, 100), 60, 0.05);
}

static struct batch *slow_batch;
static double longest, last_step;
static uint64_t slow_now;

/* A step takes 4 ms and 0.25 for each row, on a clock of ours. */
static int deal_slowly(void *ctx, const float *logits, const struct hasten_logits_row *rows, int32_t n_rows,
                       int32_t n_vocab)
{
    struct job *const *of_item = ctx;
    if (last_step == 0) {
        last_step = 4 + 0.25 * slow_batch->n_rows;
        slow_now += (uint64_t)(last_step * 1e6);
        clock_set_fake(1, slow_now, 0);
    }
    for (int32_t i = 0; i < n_rows; i++)
        run_take(of_item[rows[i].item]->run, logits + (int64_t)i * n_vocab);
    return 0;
}

/* Answers keep their pace while long prompts come; without a target they do not. Returns the steps that all took. */
static int paced(double target)
{
    struct hasten_model *model = world_model("script:hash=3,length=0");
    struct hasten_engine_settings s;
    struct member m[6];
    struct crowd c;
    uint64_t rng = 8;
    int32_t ids[400];
    int n = 0;
    hasten_engine_default_settings(&s);
    s.n_seq_max = 6;
    slow_now = 1;
    longest = 0;
    clock_set_fake(1, slow_now, 0);
    crowd_open(&c, model, NULL, &s, &(struct batch_settings){.itl_target = target});
    c.batch->deal = deal_slowly;
    slow_batch = c.batch;
    for (int i = 0; i < 6; i++) {
        draw_prompt(&rng, 250, 0, 400, ids);
        member_open(&m[i], &c, ids, i < 3 ? 5 : 400, i < 3 ? 110 : 3);
    }
    for (int i = 0; i < 3; i++)
        member_submit(&m[i]);
    for (bool more = true; more; n++) {
        last_step = 0;
        more = batch_turn(c.batch);
        if (n == 10)
            for (int i = 3; i < 6; i++)
                member_submit(&m[i]);
        if (n > 10 + (target > 0 ? 10 : 0) && m[0].n_ended == 0 && last_step > longest)
            longest = last_step;
    }
    clock_set_fake(0, 0, 0);
    for (int i = 0; i < 6; i++) {
        assert_int_equal(m[i].status, HASTEN_OK);
        assert_true(i < 3 || m[i].times.first < m[0].times.done); /* prompts are read meanwhile */
        member_must_equal_alone(&m[i]);
    }
    for (int i = 0; i < 6; i++)
        member_close(&m[i]);
    crowd_close(&c);
    hasten_model_close(model);
    return n;
}

static void answers_keep_their_pace(void **state)
{
    (void)state;
    paced(0);
    assert_true(longest > 100); /* 512 rows take 132 ms */
    paced(20);
    assert_true(longest > 12 && longest < 22);
    paced(0.001); /* impossible: prompts still get 16 rows a step */
    assert_true(longest <= 4 + 0.25 * (6 + 16));
}

/* ---- limits and failures -------------------------------------------------------------------------------------- */

static void deadlines_and_a_full_queue(void **state)
{
    (void)state;
    struct hasten_model *model = world_model("script:hash=3,length=0");
    struct hasten_error err;
    struct crowd c;
    struct member m[5];
    volatile int flag = 0;
    clock_set_fake(1, 1000, 0);
    crowd_open(&c, model, NULL, NULL, &(struct batch_settings){.n_slots = 1, .queue_limit = 3});
    for (int i = 0; i < 5; i++)
        member_open(&m[i], &c, (const int32_t[]){65 + i}, 1, 50);
    m[0].job.deadline = 2000;
    m[1].job.deadline = 1500;
    m[2].job.task.cancel = &flag;
    for (int i = 0; i < 4; i++)
        member_submit(&m[i]);
    assert_int_equal(batch_submit(c.batch, &m[4].job, NULL, &err), HASTEN_ERR_FULL);
    for (int i = 0; i < 10; i++)
        batch_turn(c.batch);
    clock_set_fake(1, 1500, 0);
    batch_turn(c.batch);
    assert_int_equal(m[1].status, HASTEN_ERR_TIMEOUT);
    assert_non_null(strstr(m[1].sentence, "while it waited"));
    assert_int_equal(m[0].n_ended, 0);
    clock_set_fake(1, 2000, 0);
    flag = 1;
    batch_turn(c.batch);
    assert_int_equal(m[0].status, HASTEN_ERR_TIMEOUT);
    assert_int_equal(m[0].answer.finish, FINISH_INTERRUPTED);
    assert_int_equal(m[0].answer.ids.n, 11);
    assert_int_equal(m[0].shown.len, m[0].answer.text.len);
    assert_int_equal(m[2].status, HASTEN_ERR_CANCELLED);
    member_submit(&m[4]);
    crowd_run(&c);
    clock_set_fake(0, 0, 0);
    for (int i = 0; i < 5; i++) {
        member_must_equal_alone(&m[i]);
        member_close(&m[i]);
    }
    crowd_must_be_empty(&c);
    crowd_close(&c);
    hasten_model_close(model);
}

static struct hasten_model *scripted(const char *rules)
{
    FILE *f = fopen(SCRIPT, "w");
    assert_non_null(f);
    fputs(rules, f);
    fclose(f);
    return world_model("script:" SCRIPT);
}

/* Rows without a number, and readers that go away. */
static void failures_are_ones_own(void **state)
{
    (void)state;
    struct hasten_model *model = scripted("after \"A:\": \"the answer of A is a long one\" eos\n"
                                          "after \"B:\": \"then nothing\" nan\n"
                                          "after \"C:\": \"and C goes on as well\" eos\n");
    static const char *const prompts[] = {"A:", "B:", "C:", "A: A:", "B:B:"};
    struct hasten_engine_settings s;
    struct member m[5];
    struct crowd c;
    hasten_engine_default_settings(&s);
    s.n_seq_max = 5;
    crowd_open(&c, model, NULL, &s, NULL);
    for (int i = 0; i < 5; i++) {
        struct tokens ids = world_ids(model, prompts[i]);
        member_open(&m[i], &c, ids.ids, ids.n, -1);
        tokens_free(&ids);
        m[i].fail_show = i == 3 ? 5 : 0;
        member_submit(&m[i]);
    }
    crowd_run(&c);
    static const hasten_status want[] = {HASTEN_OK, HASTEN_ERR_NON_FINITE, HASTEN_OK, HASTEN_ERR_DISK,
                                         HASTEN_ERR_NON_FINITE};
    for (int i = 0; i < 5; i++) {
        assert_int_equal(m[i].n_ended, 1);
        assert_int_equal(m[i].status, want[i]);
        if (want[i] == HASTEN_OK)
            member_must_equal_alone(&m[i]);
    }
    assert_string_equal(m[1].answer.text.data, "then nothing");
    assert_string_equal(m[2].answer.text.data, "and C goes on as well");
    crowd_must_be_empty(&c);
    for (int i = 0; i < 5; i++)
        member_close(&m[i]);
    crowd_close(&c);
    hasten_model_close(model);
}

static void settings_out_of_range(void **state)
{
    (void)state;
    struct hasten_model *model = world_model(HASH);
    struct hasten_error err;
    struct batch *b = NULL;
    struct crowd c;
    crowd_open(&c, model, NULL, NULL, NULL);
    const struct batch_settings bad[] = {
        {.n_slots = -1}, {.queue_limit = -1}, {.queue_limit = LIMIT_QUEUE + 1}, {.itl_target = -0.5}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(batch_open(c.engine, &bad[i], &b, &err), HASTEN_ERR_USAGE);
    assert_null(b);
    crowd_close(&c);
    crowd_open(&c, model, NULL, NULL, &(struct batch_settings){.queue_limit = LIMIT_QUEUE});
    crowd_close(&c);
    hasten_model_close(model);
}

/* More owners than are remembered: one after another, and all at once. */
static void owners_beyond_the_bound(void **state)
{
    (void)state;
    struct hasten_model *model = world_model(HASH);
    struct batch_figures f;
    struct member m;
    struct crowd c;
    const int32_t n = LIMIT_OWNERS + 100;
    crowd_open(&c, model, NULL, NULL, &(struct batch_settings){.queue_limit = n});
    member_open(&m, &c, (const int32_t[]){65}, 1, 0);
    m.job.done = NULL;
    m.job.progress = NULL;
    m.job.task.show = NULL;
    for (int at_once = 0; at_once < 2; at_once++) {
        for (int32_t i = 0; i < n; i++) {
            struct hasten_error err;
            m.job.owner = (uint64_t)i + 1;
            if (batch_submit(c.batch, &m.job, NULL, &err))
                fail_msg("%s", err.message);
            if (!at_once)
                crowd_run(&c);
        }
        crowd_run(&c);
        assert_true(at_once ? c.batch->n_owners == n : c.batch->n_owners == LIMIT_OWNERS);
    }
    batch_figures(c.batch, &f);
    assert_int_equal(f.finished, 2 * n);
    crowd_must_be_empty(&c);
    member_close(&m);
    crowd_close(&c);
    hasten_model_close(model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(mixed_as_alone),
                                       cmocka_unit_test(one_prompt_is_read_once),
                                       cmocka_unit_test(mixed_rows_are_caught),
                                       cmocka_unit_test(cancels_give_all_back),
                                       cmocka_unit_test(cancels_from_callbacks),
                                       cmocka_unit_test(closing_ends_all),
                                       cmocka_unit_test(out_of_pages),
                                       cmocka_unit_test(a_job_that_cannot_fit),
                                       cmocka_unit_test(orders_of_the_queue),
                                       cmocka_unit_test(owners_are_dealt_fairly),
                                       cmocka_unit_test(the_long_do_not_starve),
                                       cmocka_unit_test(costs_are_learned),
                                       cmocka_unit_test(answers_keep_their_pace),
                                       cmocka_unit_test(deadlines_and_a_full_queue),
                                       cmocka_unit_test(failures_are_ones_own),
                                       cmocka_unit_test(settings_out_of_range),
                                       cmocka_unit_test(owners_beyond_the_bound)};
    struct tiny_options o;
    if (tiny_options_default("llama", 1, &o) || tiny_model_save(&o, TINY)) {
        fprintf(stderr, TINY ": cannot be written\n");
        return 1;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
