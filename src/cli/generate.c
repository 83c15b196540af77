/* One answer on a terminal (generate.h): the loop itself is src/run/; here is what the command adds, Ctrl-C, progress
 * and JSON. */
#include "cli/generate.h"
#include "base/clock.h"
#include "engine/engine.h"
#include <jansson.h>
#include <math.h>

struct reading {
    struct ui *ui;
    uint64_t t0;
    struct session *session;
    const struct answer *answer;
};

static void show_reading(void *ctx, uint64_t done, uint64_t total)
{
    const struct reading *r = ctx;
    if (done < total) {
        ui_progress(r->ui, "prefill", done, total, "tokens", r->t0);
        return;
    }
    ui_progress_end(r->ui);
    prompt_cache_save(r->session, false, r->answer->cached_n, r->ui);
}

/* Where the sequence would have to be cut back for a prompt (an edited turn, another answer), the store gets it as it is,
 * and gives one that begins as the prompt does. */
static hasten_status choose_sequence(struct session *s, const int32_t *ids, int64_t n,
                                     struct hasten_error *err)
{
    const int32_t have = hasten_seq_length(s->seq), *held = hasten_seq_tokens(s->seq);
    int32_t keep = 0;
    while (keep < have && keep < n - 1 && held[keep] == ids[keep])
        keep++;
    if ((keep == have && have > 0) || n < 1 || !store_keeps(s->store))
        return HASTEN_OK;
    store_give(s->store, 0, s->seq);
    s->seq = NULL;
    hasten_status st = store_take(s->store, 0, ids, n, &s->seq, err);
    if (st) /* a session always has one */
        hasten_seq_open(s->engine, &s->seq, NULL);
    return st;
}

hasten_status answer_generate(struct session *s, const struct sampling *law, const int32_t *ids, int64_t n,
                              answer_fn show, void *show_ctx, struct ui *ui, struct answer *out,
                              struct hasten_error *err)
{
    hasten_status st = s->drafts ? HASTEN_OK : speculation_open(s->engine, &s->drafts, err);
    st = st ? st : choose_sequence(s, ids, n, err);
    if (st)
        return st;
    struct reading reading = {ui, clock_now_ns(), s, out};
    const struct run_task task = {.engine = s->engine,
                                  .seq = s->seq,
                                  .vocab = s->vocab,
                                  .law = law,
                                  .ids = ids,
                                  .n = n,
                                  .drafts = s->drafts,
                                  .show = show,
                                  .show_ctx = show_ctx,
                                  .cancel = interrupt_arm()};
    st = run_answer(&task, show_reading, &reading, out, err);
    ui_progress_end(ui);
    if (!st)
        prompt_cache_save(s, true, 0, ui);
    interrupt_disarm();
    return st;
}

/* ---- JSON ---------------------------------------------------------------------------------------------- */

static json_t *logprob_json(const struct session *s, const struct token_logprob *t)
{
    struct buf b = {0};
    struct hasten_error err;
    json_t *v = NULL;
    if (!vocab_token_bytes(s->vocab, t->id, true, &b, &err))
        v = json_pack("{s:i, s:o, s:o}", "id", (int)t->id, "token", json_bytes(b.data ? b.data : "", b.len),
                      "logprob", isnan(t->logprob) ? json_null() : json_real((double)t->logprob));
    buf_free(&b);
    return v;
}

static json_t *logprobs_json(const struct session *s, const struct sampling *law, const struct answer *a)
{
    json_t *list = json_array();
    for (int64_t i = 0; i < a->ids.n; i++) {
        json_t *one = logprob_json(s, &a->chosen[i]), *top = json_array();
        for (int32_t j = 0; j < law->settings.n_logprobs; j++) {
            const struct token_logprob *t = &a->top[i * law->settings.n_logprobs + j];
            if (t->id >= 0)
                json_add(&top, logprob_json(s, t));
        }
        json_put(&one, "top", top);
        json_add(&list, one);
    }
    return list;
}

json_t *answer_json(const struct session *s, const struct sampling *law, const struct answer *a)
{
    static const char *const names[] = {"stop", "length", "interrupted", "grammar"};
    json_t *ids = json_array();
    for (int64_t i = 0; i < a->ids.n; i++)
        json_add(&ids, json_integer(a->ids.ids[i]));
    json_t *timings = json_pack("{s:i, s:f, s:i, s:f, s:i, s:i, s:i, s:i, s:i}", "prompt_n",
                                (int)(a->prompt_n - a->cached_n), "prompt_ms", a->prompt_ms, "predicted_n",
                                (int)a->predicted_n, "predicted_ms", a->predicted_ms, "cached_n",
                                (int)a->cached_n, "passes", (int)a->passes, "drafted_n", (int)a->drafted_n,
                                "accepted_n", (int)a->accepted_n, "injected_n", (int)a->injected_n);
    if (a->dropped_n)
        json_put(&timings, "dropped_n", json_integer(a->dropped_n));
    json_t *v =
        json_pack("{s:o, s:o, s:s, s:I, s:o}", "text",
                  json_bytes(a->text.data ? a->text.data : "", a->text.len), "tokens", ids, "finish_reason",
                  names[a->finish], "seed", (json_int_t)law->settings.seed, "timings", timings);
    json_put(&v, "methods", methods_json(&s->settings));
    if (s->engine->methods.heading.use) /* what probabilities are among */
        json_put(&v, "head_tokens", json_integer(s->engine->methods.heading.n));
    if (law->logprobs)
        json_put(&v, "logprobs", logprobs_json(s, law, a));
    return v;
}
