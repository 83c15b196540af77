/* The contract of methods that the loop of an answer drives (stages draft and stop): what contract.c asks of logits, of
 * answers. For each method:
 *     neutral    at its neutral setting the answer is the plain engine's
 *     works      exact: the same at its exercise setting, and it was at work; approximate: another answer
 *     invariant  the same answer for any threads, batches, neighbours; on a fork; on a sequence that answered before and
 *                was cut back; on one that a store kept (which holds nothing else than it should); by the plain twins
 *     faults     a failed allocation is an error with a sentence or changes nothing, and nothing leaks; an answer that is
 *                cancelled leaves nothing behind
 * Drafters answer with a tiny model, and whatever acts on thinking with a scripted one that thinks. Of a pair: the same
 * for the two together, and a drafter changes nothing of what the other makes. */
#include "contract.h"
#include "engine/store.h"
#include "model/loaded.h"
#include "run/run.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define N_ANSWER 40
#define REPEATED 24 /* tokens of the prompt that come again, so that there is something to look up */

struct setup { /* how an answer comes about */
    int n_threads, n_batch;
    bool neighbour, forked, again, plain, stored;
    float temperature;
};

struct said {
    struct answer answer;
    float *row;         /* logits behind the answer and one more token */
    const char *broken; /* NULL, or what a store did wrong */
};

struct scene {
    const struct hasten_model *model;
    struct hasten_engine *e;
    struct hasten_seq *seq, *other;
    struct speculation *drafts, *other_drafts;
    struct store *store;
    const char *broken; /* NULL, or what a store did wrong */
    struct sampler *sampler;
    struct sampling law;
    struct tokens prompt;
    struct hasten_error err;
};

static void must(hasten_status st, struct scene *s, const char *what)
{
    die_unless_ok(st, &s->err, what);
}

/* ---- one answer ----------------------------------------------------------------------------------------------- */

static hasten_status open_scene(const struct hasten_model *m, const struct hasten_method_use *use, int n,
                                const struct setup *how, struct scene *s)
{
    struct hasten_engine_settings set;
    hasten_engine_default_settings(&set);
    set.n_threads = how->n_threads;
    set.n_batch = how->n_batch;
    set.n_ctx = 512;
    set.n_seq_max = 4;
    set.plain = how->plain;
    set.methods = use;
    set.n_methods = n;
    set.poison = true;
    s->model = m;
    hasten_status st = hasten_engine_open(m, &set, &s->e, &s->err);
    if (!st)
        st = hasten_seq_open(s->e, &s->seq, &s->err);
    if (!st)
        st = speculation_open(s->e, &s->drafts, &s->err);
    if (!st)
        st = sampler_open(hasten_model_n_vocab(m), &s->sampler, &s->err);
    sampler_default_settings(&s->law.settings);
    s->law.settings.temperature = how->temperature;
    s->law.settings.seed = 11;
    s->law.sampler = s->sampler;
    s->law.n_predict = N_ANSWER;
    return st;
}

static void close_scene(struct scene *s)
{
    speculation_close(s->drafts);
    speculation_close(s->other_drafts);
    store_close(s->store);
    hasten_engine_close(s->e);
    sampler_close(s->sampler);
    tokens_free(&s->prompt);
}

/* "Q:" of a model that thinks; of another some tokens, and their first ones once more. */
static hasten_status make_prompt(struct scene *s, const struct contract *c)
{
    const struct vocab *v = model_vocab(s->model);
    if (s->model != c->model)
        return vocab_encode(v, "Q:", 2, VOCAB_BOS, &s->prompt, &s->err);
    for (int i = 0; i < 90; i++)
        if (tokens_push(&s->prompt, c->tokens[i < 60 ? i : (i - 60) % REPEATED]))
            return error_set(&s->err, HASTEN_ERR_MEMORY, "out of memory");
    return HASTEN_OK;
}

static struct run_task task_of(struct scene *s, struct hasten_seq *seq, struct speculation *drafts)
{
    return (struct run_task){.engine = s->e,
                             .seq = seq,
                             .vocab = model_vocab(s->model),
                             .law = &s->law,
                             .ids = s->prompt.ids,
                             .n = s->prompt.n,
                             .drafts = drafts};
}

struct together {
    struct run *run[2];
    int owner[2]; /* of an item */
    bool wants[2];
};

static int take_rows(void *ctx, const float *logits, const struct hasten_logits_row *rows, int32_t n_rows,
                     int32_t n_vocab)
{
    struct together *t = ctx;
    for (int32_t i = 0; i < n_rows; i++) {
        const int r = t->owner[rows[i].item];
        if (t->wants[r])
            t->wants[r] = run_take(t->run[r], logits + (int64_t)i * n_vocab);
    }
    return 0;
}

/* Two answers in the same steps; the second has another prompt. */
static hasten_status answer_beside(struct scene *s, const struct run_task *first, struct answer *out)
{
    struct together t = {0};
    struct answer beside = {0};
    struct run_task second = task_of(s, s->other, s->other_drafts);
    second.n -= second.n > 7 ? 7 : 0;
    hasten_status st = run_open(first, out, &t.run[0], &s->err);
    if (!st)
        st = run_open(&second, &beside, &t.run[1], &s->err);
    while (!st) {
        struct hasten_item items[2];
        int n = 0;
        for (int r = 1; r >= 0; r--)
            if (run_next(t.run[r], s->e->settings.n_batch, &items[n])) {
                t.wants[r] = true;
                t.owner[n++] = r;
            }
        if (n == 0)
            break;
        const hasten_status stepped = hasten_step(s->e, items, n, take_rows, &t, NULL, &s->err);
        for (int i = 0; i < n && !st; i++)
            st = run_after(t.run[t.owner[i]], stepped, &s->err);
    }
    run_close(t.run[0]);
    run_close(t.run[1]);
    answer_free(&beside);
    return st;
}

/* The sequence answers to something else first, with other noise; what it holds of that goes. */
static hasten_status go_astray(struct scene *s, bool fork)
{
    struct answer a = {0};
    struct run_task task = task_of(s, s->seq, s->drafts);
    task.n -= task.n > 5 ? 5 : 0;
    s->law.settings.seed = 12;
    hasten_status st = run_answer(&task, NULL, NULL, &a, &s->err);
    s->law.settings.seed = 11;
    answer_free(&a);
    if (st || !fork)
        return st;
    const int32_t n = hasten_seq_length(s->seq), at = n < 20 ? n : 20;
    struct speculation *drafts = NULL;
    st = hasten_seq_fork(s->seq, at, &s->other, &s->err);
    if (!st)
        st = speculation_fork(s->drafts, at, &drafts, &s->err);
    if (st)
        return st;
    hasten_seq_close(s->seq);
    speculation_close(s->drafts);
    s->seq = s->other;
    s->drafts = drafts;
    return HASTEN_OK;
}

/* A sequence from the store, which may hold a beginning of the prompt and nothing else. */
static hasten_status take(struct scene *s, uint64_t scope, struct hasten_error *err)
{
    const hasten_status st = store_take(s->store, scope, s->prompt.ids, s->prompt.n, &s->seq, err);
    const int32_t n = st ? 0 : hasten_seq_length(s->seq);
    if (n >= s->prompt.n)
        s->broken = "a store gives more than a prompt needs";
    for (int32_t i = 0; i < n && i < s->prompt.n; i++)
        if (hasten_seq_tokens(s->seq)[i] != s->prompt.ids[i])
            s->broken = "a store gives other tokens than were asked for";
    if (n > 0 && scope == 2)
        s->broken = "a store gives what belongs to another scope";
    return st;
}

/* The answer is made once, given to a store, and made again from what the store has. */
static hasten_status keep_and_take(struct scene *s)
{
    struct answer first = {0};
    hasten_seq_close(s->seq);
    s->seq = NULL;
    hasten_status st = store_open(s->e, &s->store, &s->err);
    if (!st)
        st = take(s, 1, &s->err);
    struct run_task task = task_of(s, s->seq, s->drafts);
    if (!st)
        st = run_answer(&task, NULL, NULL, &first, &s->err);
    answer_free(&first);
    if (s->seq)
        store_give(s->store, 1, s->seq);
    s->seq = NULL;
    if (!st)
        st = take(s, 2, &s->err);
    if (s->seq)
        store_give(s->store, 2, s->seq);
    s->seq = NULL;
    return st ? st : take(s, 1, &s->err);
}

static hasten_status answer_as(struct scene *s, const struct setup *how, const volatile int *cancel,
                               struct answer *out)
{
    if (how->stored) {
        const hasten_status kept = keep_and_take(s);
        if (kept)
            return kept;
    }
    hasten_status st = how->forked || how->again ? go_astray(s, how->forked) : HASTEN_OK;
    struct run_task task = task_of(s, s->seq, s->drafts);
    task.cancel = cancel;
    if (st || !how->neighbour)
        return st ? st : run_answer(&task, NULL, NULL, out, &s->err);
    st = hasten_seq_open(s->e, &s->other, &s->err);
    if (!st)
        st = speculation_open(s->e, &s->other_drafts, &s->err);
    return st ? st : answer_beside(s, &task, out);
}

static int keep_row(void *ctx, const float *logits, const struct hasten_logits_row *rows, int32_t n_rows,
                    int32_t n_vocab)
{
    (void)rows, (void)n_rows;
    memcpy(ctx, logits, (size_t)n_vocab * sizeof *logits);
    return 0;
}

/* Logits behind one more token: what the sequence holds. */
static float *one_more(struct scene *s)
{
    const int32_t token = 3;
    const struct hasten_item item = {.seq = s->seq, .tokens = &token, .n = 1, .want_from = 0};
    float *row = calloc((size_t)hasten_model_n_vocab(s->model), sizeof *row);
    if (!row)
        exit(1);
    must(hasten_step(s->e, &item, 1, keep_row, row, NULL, &s->err), s, "one more token");
    return row;
}

static struct said say(const struct contract *c, const struct hasten_model *m,
                       const struct hasten_method_use *use, int n, const struct setup *how)
{
    struct scene s = {0};
    struct said out = {0};
    must(open_scene(m, use, n, how, &s), &s, "a scene");
    must(make_prompt(&s, c), &s, "a prompt");
    must(answer_as(&s, how, NULL, &out.answer), &s, "an answer");
    out.row = one_more(&s);
    out.broken = s.broken;
    close_scene(&s);
    return out;
}

static void said_free(struct said *s)
{
    answer_free(&s->answer);
    free(s->row);
}

static bool same_answers(const struct answer *x, const struct answer *y)
{
    return x->ids.n == y->ids.n && x->finish == y->finish && x->predicted_n == y->predicted_n &&
           x->injected_n == y->injected_n && x->text.len == y->text.len &&
           (x->text.len == 0 || memcmp(x->text.data, y->text.data, x->text.len) == 0) &&
           (x->ids.n == 0 || memcmp(x->ids.ids, y->ids.ids, (size_t)x->ids.n * sizeof *x->ids.ids) == 0);
}

static bool same(const struct hasten_model *m, const struct said *a, const struct said *b)
{
    return same_answers(&a->answer, &b->answer) &&
           memcmp(a->row, b->row, (size_t)hasten_model_n_vocab(m) * sizeof *a->row) == 0;
}

/* ---- checks --------------------------------------------------------------------------------------------------- */

static const struct setup setups[] = {
    {.n_threads = 1, .n_batch = 512},
    {.n_threads = 2, .n_batch = 19, .neighbour = true},
    {.n_threads = 2, .n_batch = 64, .forked = true},
    {.n_threads = 1, .n_batch = 33, .again = true},
    {.n_threads = 2, .n_batch = 512, .stored = true},
    {.n_threads = 2, .n_batch = 512, .plain = true},
};
static const char *const setup_names[] = {"1 thread", "a neighbour",  "a fork",
                                          "cut back", "from a store", "the plain twins"};
#define N_SETUPS ((int)(sizeof setups / sizeof *setups))

static void invariant(struct contract *c, const char *name, const struct hasten_model *m,
                      const struct hasten_method_use *use, int n, int n_setups)
{
    for (int warm = 0; warm < 2; warm++) {
        const float temperature = warm ? 0.9f : 0;
        struct said base =
            say(c, m, use, n, &(struct setup){.n_threads = 2, .n_batch = 512, .temperature = temperature});
        for (int i = 0; i < n_setups; i++) {
            struct setup how = setups[i];
            how.temperature = temperature;
            struct said got = say(c, m, use, n, &how);
            check(c, same(m, &base, &got), name, "another answer", setup_names[i]);
            check(c, !got.broken, name, got.broken ? got.broken : "", "");
            said_free(&got);
        }
        said_free(&base);
    }
}

static const struct setup usual = {.n_threads = 2, .n_batch = 512};

static void neutral(struct contract *c, const struct method *m, const struct hasten_model *model,
                    const struct said *plain)
{
    const struct hasten_method_use use = {NULL, m->neutral, m};
    struct said got = say(c, model, &use, 1, &usual);
    check(c, same(model, plain, &got), m->name, "not the plain engine's answer at its neutral setting",
          m->neutral);
    said_free(&got);
}

static void works(struct contract *c, const struct method *m, const struct hasten_model *model,
                  const struct hasten_method_use *use, const struct said *plain)
{
    const bool drafts = m->stage == STAGE_DRAFT && strcmp(m->role, "propose") == 0;
    struct said got = say(c, model, use, 1, &usual);
    if (m->guarantee == METHOD_APPROXIMATE)
        check(c, !same_answers(&plain->answer, &got.answer), m->name, "does nothing at its exercise setting",
              m->exercise);
    else
        check(c, same(model, plain, &got), m->name, "exact, and not the plain engine's answer", m->exercise);
    /* The controller waits to see what a plain step costs; then it tries. */
    check(c, !drafts || got.answer.drafted_n > 0, m->name, "proposes nothing at its exercise setting",
          m->exercise);
    said_free(&got);
}

/* ---- faults --------------------------------------------------------------------------------------------------- */

static bool fails_well(struct contract *c, const char *name, const struct hasten_model *m,
                       const struct hasten_method_use *use, uint64_t n, const struct answer *want)
{
    struct scene s = {0};
    struct answer got = {0};
    struct mem_stats before, after;
    const struct setup how = {.n_threads = 1, .n_batch = 512};
    char at[40];
    snprintf(at, sizeof at, "allocation %llu", (unsigned long long)n);
    mem_stats_get(&before);
    mem_fail_at(n, 0);
    hasten_status st = open_scene(m, use, 1, &how, &s);
    if (!st)
        st = make_prompt(&s, c);
    if (!st)
        st = answer_as(&s, &how, NULL, &got);
    const bool injected = mem_fail_count() > 0;
    mem_fail_at(0, 0);
    if (st)
        check(c, st == HASTEN_ERR_MEMORY && s.err.message[0], name,
              "a failed allocation is not said to be one", s.err.message[0] ? s.err.message : at);
    else
        check(c, same_answers(want, &got), name, "another answer after a failed allocation", at);
    answer_free(&got);
    close_scene(&s);
    mem_stats_get(&after);
    check(c, after.live_bytes == before.live_bytes, name, "leaks when an allocation fails", at);
    return injected;
}

struct cancelling {
    volatile int flag;
    int32_t left;
};

static int count_down(void *ctx, const char *bytes, size_t len)
{
    struct cancelling *k = ctx;
    (void)bytes, (void)len;
    if (k->left > 0 && --k->left == 0)
        k->flag = 1;
    return 0;
}

/* Cancelled when the nth piece of text was shown; then the same sequence answers the whole. */
static bool cancels_well(struct contract *c, const char *name, const struct hasten_model *m,
                         const struct hasten_method_use *use, int32_t n, const struct answer *want)
{
    struct scene s = {0};
    struct answer got = {0}, whole = {0};
    struct cancelling k = {0, n};
    must(open_scene(m, use, 1, &(struct setup){.n_threads = 1, .n_batch = 512}, &s), &s, "a scene");
    must(make_prompt(&s, c), &s, "a prompt");
    struct run_task task = task_of(&s, s.seq, s.drafts);
    task.cancel = &k.flag;
    task.show = count_down;
    task.show_ctx = &k;
    must(run_answer(&task, NULL, NULL, &got, &s.err), &s, "an answer");
    const bool was = got.finish == FINISH_INTERRUPTED;
    check(c, was || same_answers(want, &got), name, "another answer though it was not cancelled", "");
    task = task_of(&s, s.seq, s.drafts);
    must(run_answer(&task, NULL, NULL, &whole, &s.err), &s, "an answer");
    check(c, same_answers(want, &whole), name, "another answer after one that was cancelled", "");
    answer_free(&got);
    answer_free(&whole);
    close_scene(&s);
    return was;
}

static void hosted_faults(struct contract *c, const char *name, const struct hasten_model *m,
                          const struct hasten_method_use *use)
{
    struct said want = say(c, m, use, 1, &(struct setup){.n_threads = 1, .n_batch = 512});
    const uint64_t shift = (uint64_t)(unsigned char)name[0] % (uint64_t)c->every;
    for (uint64_t n = 1 + shift; fails_well(c, name, m, use, n, &want.answer); n += (uint64_t)c->every) {
    }
    for (int32_t n = 1; cancels_well(c, name, m, use, n, &want.answer); n += c->every > 1 ? 5 : 1) {
    }
    said_free(&want);
}

/* ---- all ------------------------------------------------------------------------------------------------------ */

/* The model to answer with: one that thinks, where that is what the method is about. */
static struct hasten_model *model_for(const struct contract *c, const struct hasten_method_use *use, int n)
{
    bool thinks = false;
    for (int i = 0; i < n; i++)
        thinks |= ((const struct method *)use[i].method)->stage == STAGE_STOP;
    return open_or_exit(thinks ? "script:" CONTRACT_SCRIPT : c->path);
}

/* The contract's own model and tokens belong together. */
static void use_model(struct contract *own, const struct contract *c, struct hasten_model *m,
                      const struct hasten_method_use *use, int n)
{
    bool thinks = false;
    for (int i = 0; i < n; i++)
        thinks |= ((const struct method *)use[i].method)->stage == STAGE_STOP;
    *own = *c;
    own->model = thinks ? c->model : m;
}

static void take_counts(struct contract *c, const struct contract *own)
{
    c->n_checks = own->n_checks;
    c->n_failed = own->n_failed;
    c->n_expected = own->n_expected;
}

void hosted(struct contract *c, const struct method *m)
{
    const struct hasten_method_use use = {NULL, m->exercise ? m->exercise : "", m};
    if (!m->exercise)
        return; /* what it needs is a file: its own tests make one */
    struct contract own;
    struct hasten_model *model = model_for(c, &use, 1);
    use_model(&own, c, model, &use, 1);
    struct said plain = say(&own, model, NULL, 0, &usual);
    if (m->neutral)
        neutral(&own, m, model, &plain);
    works(&own, m, model, &use, &plain);
    invariant(&own, m->name, model, &use, 1, N_SETUPS);
    hosted_faults(&own, m->name, model, &use);
    said_free(&plain);
    hasten_model_close(model);
    take_counts(c, &own);
}

static bool drafter(const struct hasten_method_use *use)
{
    return ((const struct method *)use->method)->stage == STAGE_DRAFT;
}

void hosted_pair(struct contract *c, const char *name, const struct hasten_method_use use[2])
{
    struct contract own;
    struct hasten_model *model = model_for(c, use, 2);
    struct hasten_engine_settings set;
    struct hasten_plan plan;
    struct hasten_error err;
    hasten_engine_default_settings(&set);
    set.n_seq_max = 4;
    set.methods = use;
    set.n_methods = 2;
    if (hasten_engine_plan(model, &set, &plan, &err)) { /* a scripted model has no layers to leave out */
        check(c, err.status == HASTEN_ERR_USAGE && err.message[0], name, "refused without a sentence",
              err.message);
        hasten_model_close(model);
        return;
    }
    use_model(&own, c, model, use, 2);
    invariant(&own, name, model, use, 2, 5);
    if (drafter(&use[0]) != drafter(&use[1])) {
        struct said both = say(&own, model, use, 2, &usual),
                    alone = say(&own, model, drafter(&use[0]) ? &use[1] : &use[0], 1, &usual);
        check(&own, same(model, &both, &alone), name, "drafting changes what the other method makes", "");
        said_free(&both);
        said_free(&alone);
    }
    take_counts(c, &own);
    hasten_model_close(model);
}
