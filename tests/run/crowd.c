/* See crowd.h. */
#include "crowd.h"
#include "model/loaded.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#define METHODS 4

static void must(hasten_status st, const struct hasten_error *err)
{
    if (st)
        fail_msg("%s", err->message);
}

uint64_t draw(uint64_t *state, uint64_t n)
{ /* SplitMix64 (Steele, Lea, Flood, 2014) */
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return (z ^ z >> 31) % n;
}

/* ---- the engine and its batch --------------------------------------------------------------------------------- */

static int32_t set_methods(const char *const *specs, struct hasten_method_use *use, char stage[][16])
{
    int32_t n = 0;
    for (; specs && specs[n]; n++) {
        const size_t len = strcspn(specs[n], " ");
        snprintf(stage[n], 16, "%.*s", (int)len, specs[n]);
        use[n] = (struct hasten_method_use){stage[n], specs[n] + len + 1, NULL};
    }
    return n;
}

static void open_grammar(struct crowd *c)
{
    static const char text[] = "root ::= [0-9a-z] ([,;] [0-9a-z]+)*";
    struct hasten_error err;
    const int32_t n_vocab = hasten_model_n_vocab(c->model);
    must(grammar_open("crowd", text, strlen(text), &c->grammar, &err), &err);
    must(token_trie_open(model_vocab(c->model), n_vocab, &c->trie, &err), &err);
    must(grammar_masks_open(c->grammar, c->trie, GRAMMAR_TRIE, false, &c->masks, &err), &err);
}

void crowd_open(struct crowd *c, const struct hasten_model *m, const char *const *specs,
                const struct hasten_engine_settings *settings, const struct batch_settings *batch)
{
    struct hasten_error err;
    struct hasten_engine_settings s;
    struct hasten_method_use use[METHODS];
    char stage[METHODS][16];
    *c = (struct crowd){.model = m};
    hasten_engine_default_settings(&s);
    if (settings)
        s = *settings;
    s.n_threads = s.n_threads ? s.n_threads : 1;
    s.n_ctx = s.n_ctx ? s.n_ctx : 512;
    s.poison = true;
    s.methods = use;
    s.n_methods = set_methods(specs, use, stage);
    must(hasten_engine_open(m, &s, &c->engine, &err), &err);
    must(batch_open(c->engine, batch ? batch : &(struct batch_settings){0}, &c->batch, &err), &err);
    must(sampler_open(hasten_model_n_vocab(m), &c->sampler, &err), &err);
    s.n_methods = 0;
    s.n_seq_max = 1;
    s.kv_positions = 0;
    s.n_batch = 512;
    s.n_threads = 1;
    must(hasten_engine_open(m, &s, &c->plain, &err), &err);
    must(hasten_seq_open(c->plain, &c->plain_seq, &err), &err);
    must(sampler_open(hasten_model_n_vocab(m), &c->plain_sampler, &err), &err);
    open_grammar(c);
}

void crowd_close(struct crowd *c)
{
    batch_close(c->batch);
    hasten_engine_close(c->engine);
    sampler_close(c->sampler);
    hasten_engine_close(c->plain);
    sampler_close(c->plain_sampler);
    grammar_masks_close(c->masks);
    token_trie_close(c->trie);
    grammar_close(c->grammar);
    *c = (struct crowd){0};
}

void crowd_run(struct crowd *c)
{
    while (batch_turn(c->batch))
        ;
}

void crowd_must_be_empty(struct crowd *c)
{
    struct batch_figures f;
    batch_figures(c->batch, &f);
    assert_int_equal(f.running, 0);
    assert_int_equal(f.waiting, 0);
    assert_int_equal(f.pages_used, 0);
    for (int32_t i = 0; i < c->engine->settings.n_seq_max; i++)
        assert_false(c->engine->seqs[i].open);
}

/* ---- members -------------------------------------------------------------------------------------------------- */

static int on_show(void *ctx, const char *bytes, size_t len)
{
    struct member *m = ctx;
    if (++m->n_shown == m->fail_show)
        return 1;
    assert_int_equal(buf_put(&m->shown, bytes, len), 0);
    if (m->on_show)
        m->on_show(m);
    return 0;
}

static void on_progress(void *ctx, uint64_t done, uint64_t total)
{
    struct member *m = ctx;
    assert_true(done <= total);
    assert_int_equal(m->n_ended, 0);
    m->n_progress++;
}

static void on_done(void *ctx, hasten_status st, const struct hasten_error *err)
{
    struct member *m = ctx;
    m->n_ended++;
    m->status = st;
    assert_true((st == HASTEN_OK) == (err == NULL));
    if (err)
        snprintf(m->sentence, sizeof m->sentence, "%s", err->message);
    if (m->on_done)
        m->on_done(m);
}

void member_open(struct member *m, struct crowd *c, const int32_t *ids, int64_t n, int32_t n_predict)
{
    *m = (struct member){.crowd = c};
    for (int64_t i = 0; i < n; i++)
        assert_int_equal(tokens_push(&m->ids, ids[i]), 0);
    sampler_default_settings(&m->law.settings);
    m->law.settings.temperature = 0;
    m->law.sampler = c->sampler;
    m->law.n_predict = n_predict;
    m->job = (struct batch_job){.task = {.vocab = model_vocab(c->model),
                                         .law = &m->law,
                                         .ids = m->ids.ids,
                                         .n = m->ids.n,
                                         .show = on_show,
                                         .show_ctx = m},
                                .answer = &m->answer,
                                .progress = on_progress,
                                .done = on_done,
                                .ctx = m,
                                .times = &m->times};
}

void member_close(struct member *m)
{
    tokens_free(&m->ids);
    answer_free(&m->answer);
    buf_free(&m->shown);
    sampler_memory_close(m->law.memory);
    *m = (struct member){0};
}

void member_set_law(struct member *m, int which, uint64_t seed)
{
    static struct gguf_str stops[] = {{"e ", 2}, {"qz", 2}};
    struct sampler_settings *s = &m->law.settings;
    struct hasten_error err;
    s->seed = seed;
    s->temperature = which == 0 ? 0 : 0.9f;
    if (which == 2) {
        s->repeat_penalty = 1.2f;
        s->dry_multiplier = 0.8f;
        s->top_k = 0;
    }
    if (which == 3) {
        s->mirostat = 2;
        must(sampler_memory_open(&m->law.memory, &err), &err);
    }
    if (which == 4) {
        s->n_logprobs = 3;
        m->law.logprobs = true;
    }
    if (which == 5) {
        m->law.grammar = m->crowd->grammar;
        m->law.trie = m->crowd->trie;
        m->law.masks = m->crowd->masks;
    }
    if (which == 6) {
        m->law.stops = stops;
        m->law.n_stops = 2;
    }
}

void member_submit(struct member *m)
{
    struct hasten_error err;
    must(batch_submit(m->crowd->batch, &m->job, &m->id, &err), &err);
}

void member_alone(struct member *m, struct answer *out)
{
    struct crowd *c = m->crowd;
    struct hasten_error err;
    struct sampling law = m->law;
    law.sampler = c->plain_sampler;
    law.memory = NULL;
    if (m->law.memory)
        must(sampler_memory_open(&law.memory, &err), &err);
    must(hasten_seq_truncate(c->plain_seq, 0, &err), &err);
    const struct run_task task = {.engine = c->plain,
                                  .seq = c->plain_seq,
                                  .vocab = model_vocab(c->model),
                                  .law = &law,
                                  .ids = m->ids.ids,
                                  .n = m->ids.n};
    *out = (struct answer){0};
    const hasten_status st = run_answer(&task, NULL, NULL, out, &err);
    sampler_memory_close(law.memory);
    must(st, &err);
}

static bool begins(const void *whole, int64_t n_whole, const void *part, int64_t n_part)
{
    return n_part <= n_whole && (n_part == 0 || memcmp(whole, part, (size_t)n_part) == 0);
}

bool member_equals_alone(struct member *m)
{
    struct answer x;
    const struct answer *a = &m->answer;
    member_alone(m, &x);
    const size_t id = sizeof *x.ids.ids, lp = sizeof *x.chosen;
    bool same = begins(x.ids.ids, x.ids.n * (int64_t)id, a->ids.ids, a->ids.n * (int64_t)id) &&
                (!a->chosen || begins(x.chosen, x.ids.n * (int64_t)lp, a->chosen, a->ids.n * (int64_t)lp));
    if (m->status == HASTEN_OK)
        same = same && a->ids.n == x.ids.n && a->finish == x.finish && a->predicted_n == x.predicted_n &&
               a->by_stop_string == x.by_stop_string && a->text.len == x.text.len &&
               begins(x.text.data, (int64_t)x.text.len, a->text.data, (int64_t)a->text.len);
    if (m->status != HASTEN_ERR_DISK)
        same = same && m->shown.len <= a->text.len &&
               begins(a->text.data, (int64_t)a->text.len, m->shown.data, (int64_t)m->shown.len);
    if (m->status == HASTEN_OK)
        same = same && m->shown.len == a->text.len;
    answer_free(&x);
    return same;
}

void member_must_equal_alone(struct member *m)
{
    struct answer x;
    if (member_equals_alone(m))
        return;
    member_alone(m, &x);
    fail_msg("job %llu (%lld prompt tokens, status %d, tag %d): %lld tokens\n%s\nalone %lld tokens\n%s",
             (unsigned long long)m->id, (long long)m->ids.n, (int)m->status, (int)m->tag,
             (long long)m->answer.ids.n, m->answer.text.data ? m->answer.text.data : "", (long long)x.ids.n,
             x.text.data ? x.text.data : "");
}
