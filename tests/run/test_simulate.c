/* A simulation of a batch from one seed: jobs of all kinds come, are cancelled, run into deadlines, lose their readers,
 * while pages, slots and rows are scarce and the clock is ours. After every event what must hold is looked at, every
 * answer is compared with what it is alone, and nobody waits for ever.
 *
 *     test_simulate [FIRST_SEED [COUNT [MODEL [bleed]]]]
 *
 * bleed: eight at a time, each prompt with a mark of its own behind a common beginning, three of ten aborted, a store that
 * has to give up something all the time, drafts: nobody must get anything of another. */
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

#define MOST_JOBS 100
#define N_CTX 384
#define TINY "test_simulate.gguf" /* this name: the tiny model is written first */

static uint64_t first_seed = 1, n_seeds = 20, seed_now, n_events;
static const char *model_path = "script:hash=1,length=90";
static bool bleed;
static uint64_t n_jobs, n_ended_early, n_hit_tokens, n_evicted, n_preempted, n_recomputed;

struct simulation {
    struct crowd crowd;
    struct member m[MOST_JOBS];
    int32_t n, n_wanted; /* submitted; to be */
    uint64_t rng, now;
    uint64_t n_refused;
};
static struct simulation *sim; /* of callbacks */

static bool chance(uint64_t one_in)
{
    return draw(&sim->rng, one_in) == 0;
}

static void tick(uint64_t most_us)
{
    sim->now += draw(&sim->rng, most_us * 1000 + 1);
    clock_set_fake(1, sim->now, 0);
}

/* ---- what must hold ------------------------------------------------------------------------------------------- */

/* Every page is held as often as its count says; the free ones are free. */
static void check_pages(const struct hasten_engine *e)
{
    const struct kv_pool *p = &e->kv;
    static int32_t held[4096];
    int64_t n_free = 0;
    assert_true(p->n_blocks <= 4096);
    memset(held, 0, (size_t)p->n_blocks * sizeof *held);
    for (int32_t i = 0; i < e->settings.n_seq_max; i++) {
        const struct hasten_seq *s = &e->seqs[i];
        for (int32_t lane = 0; s->open && lane < p->n_lanes; lane++)
            for (int32_t page = 0; page < kv_pages(&s->kv, lane); page++)
                held[s->kv.table[(int64_t)page * p->n_lanes + lane]]++;
    }
    for (int64_t i = 0; i < p->n_blocks; i++) {
        if (held[i] != p->refs[i] && (held[i] || p->refs[i] > 0))
            fail_msg("page %lld: counted %d times, held %d times", (long long)i, (int)p->refs[i],
                     (int)held[i]);
        n_free += held[i] == 0;
    }
    assert_int_equal(n_free, p->n_free);
}

static void check_lists(const struct batch *b)
{
    assert_true(b->n_run <= b->settings.n_slots);
    int32_t n = 0;
    for (int32_t i = 0; i < b->n_run; i++) {
        const struct job *j = b->run[i], *before = i ? b->run[i - 1] : NULL;
        assert_non_null(j->run);
        if (before && (before->ask.priority < j->ask.priority ||
                       (before->ask.priority == j->ask.priority && before->order > j->order)))
            fail_msg("jobs %llu and %llu are out of rank", (unsigned long long)before->id,
                     (unsigned long long)j->id);
        const int32_t *path;
        assert_true(hasten_seq_length(j->seq) <= run_path(j->run, &path));
    }
    for (int32_t i = 0; i < b->n_wait; i++)
        assert_null(b->wait[i]->run);
    for (int32_t i = 0; i < sim->n; i++) {
        assert_in_range(sim->m[i].n_ended, 0, 1);
        n += sim->m[i].n_ended == 0;
    }
    assert_int_equal(n, b->n_run + b->n_wait);
}

static void event(void)
{
    n_events++;
    if (sim->crowd.batch->busy)
        return; /* in the middle of something */
    check_pages(sim->crowd.engine);
    check_lists(sim->crowd.batch);
}

/* ---- jobs ----------------------------------------------------------------------------------------------------- */

static void submit_one(void);

static void when_shown(struct member *m)
{
    n_events++;
    tick(300);
    if (bleed && m->n_shown == m->tag)
        batch_cancel(m->crowd->batch, m->id);
    if (!bleed && chance(60))
        batch_cancel(m->crowd->batch, sim->m[draw(&sim->rng, (uint64_t)sim->n)].id);
}

static void when_done(struct member *m)
{
    n_events++;
    assert_true(m->status == HASTEN_OK || m->status == HASTEN_ERR_CANCELLED ||
                m->status == HASTEN_ERR_TIMEOUT || (m->status == HASTEN_ERR_DISK && m->fail_show));
    if (chance(12) && !m->crowd->batch->closing)
        submit_one();
}

/* Prompts come in families with a common beginning. */
static int64_t draw_ids(int32_t *ids)
{
    uint64_t *rng = &sim->rng, family = draw(rng, 3);
    const int32_t n_common = (int32_t)draw(rng, 3) * 45, n = n_common + 1 + (int32_t)draw(rng, 60);
    for (int32_t i = 0; i < n; i++)
        ids[i] = 35 + (int32_t)draw(i < n_common ? &family : rng, 60);
    for (int32_t i = n_common + 4; i < n; i++)
        ids[i] = draw(rng, 3) ? ids[i - 3] : ids[i];
    return n;
}

static void submit_one(void)
{
    int32_t ids[N_CTX];
    struct hasten_error err;
    uint64_t *rng = &sim->rng;
    if (sim->n == sim->n_wanted)
        return;
    struct member *m = &sim->m[sim->n];
    const int64_t n = draw_ids(ids);
    member_open(m, &sim->crowd, ids, n, draw(rng, 3) ? (int32_t)draw(rng, 160) : -1);
    member_set_law(m, (int)draw(rng, N_LAWS), draw(rng, 100));
    m->job.scope = draw(rng, 2);
    m->job.owner = draw(rng, 4);
    m->job.priority = chance(3) ? (int32_t)draw(rng, 3) - 1 : 0;
    m->tag = bleed && draw(rng, 2) ? 1 + (int32_t)draw(rng, 12) : 0; /* aborted at this piece of text */
    m->job.deadline = !bleed && chance(10) ? sim->now + draw(rng, 60000000) : 0;
    m->fail_show = !bleed && chance(25) ? 1 + (int32_t)draw(rng, 6) : 0;
    m->on_show = when_shown;
    m->on_done = when_done;
    const hasten_status st = batch_submit(sim->crowd.batch, &m->job, &m->id, &err);
    if (st == HASTEN_ERR_FULL) {
        sim->n_refused++;
        member_close(m);
        return;
    }
    if (st)
        fail_msg("%s", err.message);
    sim->n++;
    event();
}

/* ---- a world -------------------------------------------------------------------------------------------------- */

static void open_simulation(const struct hasten_model *model)
{
    uint64_t *rng = &sim->rng;
    struct hasten_engine_settings s;
    static const int32_t batches[] = {1, 7, 32, 100, 512};
    static const char *const orders[] = {"schedule fcfs", "schedule sjf", "schedule sjf:age=1000,answer=0.5"};
    static const char *const stores[] = {"store apc:slots=3,min=8", "store apc", "store apc:slots=12,min=1"};
    const char *specs[5];
    int n = 0;
    if (bleed || draw(rng, 2))
        specs[n++] = stores[draw(rng, 3)];
    if (bleed || draw(rng, 3)) {
        specs[n++] = draw(rng, 2) ? "draft lookup:gamma=6" : "draft lookup:gamma=30,max=2";
        if (draw(rng, 2))
            specs[n++] = "draft verify:ctl=off";
    }
    if (draw(rng, 2))
        specs[n++] = orders[draw(rng, 3)];
    specs[n] = NULL;
    hasten_engine_default_settings(&s);
    s.n_ctx = N_CTX;
    s.n_seq_max = 1 + (int32_t)draw(rng, 12);
    s.n_batch = batches[draw(rng, 5)];
    s.n_logits = 1 + (int32_t)draw(rng, 9);
    s.n_seq_max = bleed ? 8 : s.n_seq_max;
    /* From what one job may need, six pages, to plenty; each sequence but one brings a page. */
    s.kv_positions = N_CTX + (int64_t)draw(rng, bleed ? 3 : 8) * KV_PAGE - (s.n_seq_max - 1) * KV_PAGE;
    const int64_t most = (int64_t)N_CTX * s.n_seq_max;
    s.kv_positions = s.kv_positions < KV_PAGE ? KV_PAGE : s.kv_positions > most ? most : s.kv_positions;
    const struct batch_settings b = {.n_slots = bleed ? 8 : (int32_t)draw(rng, 9),
                                     .queue_limit = bleed ? MOST_JOBS : 1 + (int32_t)draw(rng, 30),
                                     .itl_target = draw(rng, 3) ? 0 : 0.2 * (double)draw(rng, 10)};
    crowd_open(&sim->crowd, model, specs, &s, &b);
    if (draw(rng, 2))
        sim->crowd.batch->expected = 0; /* too many are let in */
    sim->n_wanted = bleed ? MOST_JOBS : 20 + (int32_t)draw(rng, MOST_JOBS - 20);
}

/* Something was done, or somebody ended. */
static void must_move(const struct batch_figures *a, int32_t ended_before)
{
    struct batch_figures b;
    int32_t ended = 0;
    batch_figures(sim->crowd.batch, &b);
    for (int32_t i = 0; i < sim->n; i++)
        ended += sim->m[i].n_ended;
    if (b.running + b.waiting > 0 && b.rows == a->rows && ended == ended_before)
        fail_msg("a turn did nothing: %d run, %d of them paused, %d wait", (int)b.running, (int)b.paused,
                 (int)b.waiting);
}

static void one_turn(void)
{
    struct batch_figures f;
    int32_t ended = 0;
    batch_figures(sim->crowd.batch, &f);
    for (int32_t i = 0; i < sim->n; i++)
        ended += sim->m[i].n_ended;
    batch_turn(sim->crowd.batch);
    must_move(&f, ended);
    event();
}

static void finish_simulation(void)
{
    struct batch_figures f;
    uint64_t n[4] = {0};
    batch_figures(sim->crowd.batch, &f);
    n_hit_tokens += f.store.hit_tokens;
    n_evicted += f.store.evictions;
    n_preempted += f.preemptions;
    n_recomputed += f.recomputed;
    if (!store_keeps(sim->crowd.batch->store))
        crowd_must_be_empty(&sim->crowd);
    for (int32_t i = 0; i < sim->n; i++) {
        struct member *m = &sim->m[i];
        assert_int_equal(m->n_ended, 1);
        member_must_equal_alone(m);
        n[m->status == HASTEN_OK              ? 0
          : m->status == HASTEN_ERR_CANCELLED ? 1
          : m->status == HASTEN_ERR_TIMEOUT   ? 2
                                              : 3]++;
        member_close(m);
    }
    batch_figures(sim->crowd.batch, &f);
    assert_int_equal(f.submitted, sim->n);
    assert_int_equal(f.refused, sim->n_refused);
    assert_int_equal(f.finished, n[0]);
    assert_int_equal(f.cancelled, n[1]);
    assert_int_equal(f.timed_out, n[2]);
    assert_int_equal(f.failed, n[3]);
    n_jobs += f.submitted;
    n_ended_early += f.submitted - f.finished;
    batch_close(sim->crowd.batch);
    sim->crowd.batch = NULL;
    assert_int_equal(sim->crowd.engine->kv.n_free, sim->crowd.engine->kv.n_blocks);
}

static void simulate(const struct hasten_model *model, uint64_t seed)
{
    struct mem_stats before, after;
    mem_stats_get(&before);
    *sim = (struct simulation){.rng = seed * 0x51ed2701, .now = 1};
    clock_set_fake(1, sim->now, 0);
    open_simulation(model);
    const uint64_t rush = 1 + draw(&sim->rng, 6);
    while (sim->n < sim->n_wanted || sim->crowd.batch->n_run + sim->crowd.batch->n_wait > 0) {
        tick(2000);
        if (chance(rush))
            submit_one();
        if (sim->n && !bleed && chance(8)) {
            batch_cancel(sim->crowd.batch, sim->m[draw(&sim->rng, (uint64_t)sim->n)].id);
            event();
        }
        one_turn();
    }
    finish_simulation();
    clock_set_fake(0, 0, 0);
    crowd_close(&sim->crowd);
    mem_stats_get(&after);
    assert_int_equal(after.live_bytes, before.live_bytes);
}

static void all_seeds(void **state)
{
    (void)state;
    struct hasten_model *model = world_model(model_path);
    sim = calloc(1, sizeof *sim);
    assert_non_null(sim);
    const uint64_t t0 = clock_now_ns();
    for (seed_now = first_seed; seed_now < first_seed + n_seeds; seed_now++)
        simulate(model, seed_now);
    const double s = (double)(clock_now_ns() - t0) * 1e-9;
    print_message("%llu preemptions, %llu rows again\n", (unsigned long long)n_preempted,
                  (unsigned long long)n_recomputed);
    print_message("%llu jobs, %llu of them ended early; %llu tokens from the store, %llu evictions\n",
                  (unsigned long long)n_jobs, (unsigned long long)n_ended_early,
                  (unsigned long long)n_hit_tokens, (unsigned long long)n_evicted);
    assert_true(n_jobs < 500 || (n_preempted > n_jobs / 40 && n_recomputed > n_preempted));
    assert_true(n_jobs < 500 || (n_hit_tokens > n_jobs && n_evicted > n_jobs / 20));
    print_message("%llu seeds, %llu events in %.1f s: %.0f a minute\n", (unsigned long long)n_seeds,
                  (unsigned long long)n_events, s, 60 * (double)n_events / s);
    free(sim);
    hasten_model_close(model);
}

static int say_seed(void **state)
{
    (void)state;
    if (seed_now < first_seed + n_seeds)
        print_message("it was seed %llu\n", (unsigned long long)seed_now);
    return 0;
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test_teardown(all_seeds, say_seed)};
    if (argc > 1)
        first_seed = strtoull(argv[1], NULL, 10);
    if (argc > 2)
        n_seeds = strtoull(argv[2], NULL, 10);
    if (argc > 3)
        model_path = argv[3];
    bleed = argc > 4 && strcmp(argv[4], "bleed") == 0;
    struct tiny_options o;
    if (strcmp(model_path, TINY) == 0 &&
        (tiny_options_default("llama", 1, &o) || tiny_model_save(&o, TINY))) {
        fprintf(stderr, TINY ": cannot be written\n");
        return 1;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
