/* The loop of one answer (generate.h). The engine computes, the sampler chooses, the detokeniser decides what
 * may be shown; this file only lets them take turns and counts. */
#include "cli/generate.h"
#include "base/clock.h"
#include <jansson.h>
#include <math.h>
#include <string.h>

struct pick { /* what the sink needs to turn the last row into a token */
    const struct sampling *law;
    const struct tokens *path;
    struct grammar_state *grammar; /* NULL without one */
    struct token_logprob chosen, top[64];
    hasten_status status;
    struct hasten_error *err;
    bool done, none; /* none: the grammar allows no token */
};

/* The mask here, without what the bias forbids; *n: how many tokens it allows. */
static hasten_status mask_here(const struct pick *p, int32_t *n)
{
    const struct sampler_settings *law = &p->law->settings;
    uint64_t *mask = p->law->mask;
    hasten_status st = grammar_mask(p->grammar, mask, n, p->err);
    for (int32_t i = 0; i < law->n_bias && !st; i++) {
        const int32_t id = law->bias[i].id;
        if (isinf(law->bias[i].bias) && mask[id / 64] >> id % 64 & 1) {
            mask[id / 64] &= ~(1ull << id % 64);
            --*n;
        }
    }
    return st;
}

static hasten_status choose(struct pick *p, const float *row)
{
    struct sampler_settings law = p->law->settings;
    p->none = false;
    if (p->grammar) {
        int32_t n;
        hasten_status st = mask_here(p, &n);
        p->none = n == 0;
        if (st || p->none)
            return st;
        law.mask = p->law->mask;
    }
    return sampler_choose(p->law->sampler, p->law->memory, &law, row, p->path->ids, p->path->n, p->path->n,
                          &p->chosen, p->law->logprobs ? p->top : NULL, p->err);
}

static int pick_token(void *ctx, const float *logits, const struct hasten_logits_row *rows, int32_t n_rows,
                      int32_t n_vocab)
{
    (void)rows;
    struct pick *p = ctx;
    const float *row = logits + (int64_t)(n_rows - 1) * n_vocab;
    p->status = choose(p, row);
    p->done = true;
    return 0;
}

/* Appends tokens[n] to the sequence; with pick, chooses the token that follows. */
static hasten_status step(struct session *s, const int32_t *tokens, int32_t n, struct pick *pick,
                          const volatile int *cancel, struct hasten_error *err)
{
    struct hasten_item item = {.seq = s->seq, .tokens = tokens, .n = n, .want_from = pick ? n - 1 : n};
    if (pick)
        pick->done = false;
    hasten_status st = hasten_step(s->engine, &item, 1, pick ? pick_token : NULL, pick, cancel, err);
    if (st || !pick)
        return st;
    return pick->done ? pick->status
                      : error_set(err, HASTEN_ERR_INTERNAL, "generating: the step gave no logits");
}

static hasten_status prefill(struct session *s, const struct tokens *ids, struct pick *pick, struct ui *ui,
                             struct answer *out, const volatile int *cancel, struct hasten_error *err)
{
    int32_t have = hasten_seq_length(s->seq), n = (int32_t)ids->n, keep = 0;
    const int32_t *held = hasten_seq_tokens(s->seq);
    while (keep < have && keep < n - 1 && held[keep] == ids->ids[keep])
        keep++;
    hasten_status st = keep < have ? hasten_seq_truncate(s->seq, keep, err) : HASTEN_OK;
    sampler_memory_truncate(pick->law->memory, keep);
    uint64_t t0 = clock_now_ns();
    st = st ? st : hasten_seq_announce(s->seq, n, err);
    out->cached_n = keep;
    out->prompt_n = n;
    for (int32_t at = keep; at < n && !st;) {
        int32_t rows = n - at < s->settings.n_batch ? n - at : s->settings.n_batch;
        st = step(s, ids->ids + at, rows, at + rows == n ? pick : NULL, cancel, err);
        at += rows;
        if (at < n)
            ui_progress(ui, "prefill", (uint64_t)(at - keep), (uint64_t)(n - keep), "tokens", t0);
    }
    ui_progress_end(ui);
    out->prompt_ms = (double)(clock_now_ns() - t0) / 1e6;
    return st;
}

static hasten_status note_logprobs(const struct sampling *law, const struct pick *p, struct answer *a,
                                   struct hasten_error *err)
{
    int64_t at = a->ids.n - 1, n_top = law->settings.n_logprobs;
    if (at >= a->cap_logprobs) {
        int64_t cap = a->cap_logprobs ? 2 * a->cap_logprobs : 64;
        struct token_logprob *c = mem_realloc(a->chosen, (size_t)cap * sizeof *c);
        a->chosen = c ? c : a->chosen;
        struct token_logprob *t = mem_realloc(a->top, (size_t)(cap * n_top + 1) * sizeof *t);
        a->top = t ? t : a->top;
        if (!c || !t)
            return error_set(err, HASTEN_ERR_MEMORY, "generating: out of memory");
        a->cap_logprobs = cap;
    }
    a->chosen[at] = p->chosen;
    memcpy(a->top + at * n_top, p->top, (size_t)n_top * sizeof *p->top);
    return HASTEN_OK;
}

/* Gives out what became showable since `shown`. */
static int show_more(const struct answer *a, size_t *shown, answer_fn show, void *ctx)
{
    size_t from = *shown;
    *shown = a->text.len;
    return show && a->text.len > from ? show(ctx, a->text.data + from, a->text.len - from) : 0;
}

/* The answer at work. */
struct decoding {
    struct session *s;
    const struct sampling *law;
    struct tokens *path;
    struct pick *pick;
    struct detok *detok;
    answer_fn show;
    void *show_ctx;
    struct answer *out;
    size_t shown;
    struct tokens ahead; /* taken into the answer, not yet in the sequence */
    bool ended;
    struct hasten_error *err;
};

static hasten_status show_answer(struct decoding *d)
{
    return show_more(d->out, &d->shown, d->show, d->show_ctx)
               ? error_set(d->err, HASTEN_ERR_DISK,
                           "writing the answer: stdout is closed or full (expected room)")
               : HASTEN_OK;
}

static hasten_status end_answer(struct decoding *d, enum finish finish)
{
    d->ended = true;
    d->out->finish = finish;
    return HASTEN_OK;
}

/* No token can follow: well if the text is complete. */
static hasten_status end_without_token(struct decoding *d)
{
    bool complete;
    hasten_status st = grammar_complete(d->pick->grammar, &complete, d->err);
    return st ? st : end_answer(d, complete ? FINISH_STOP : FINISH_GRAMMAR);
}

/* One more token of the answer: into the text, and to be read by the model before the next is chosen. */
static hasten_status take_token(struct decoding *d, int32_t id)
{
    const struct sampling *law = d->law;
    struct answer *out = d->out;
    bool stopped = false;
    hasten_status st = HASTEN_OK;
    out->predicted_n++;
    if (vocab_is_eog(d->s->vocab, id))
        return end_answer(d, FINISH_STOP);
    if (d->pick->grammar && (st = grammar_accept(d->pick->grammar, id, d->err)))
        return st;
    if (tokens_push(&out->ids, id) || tokens_push(d->path, id) || tokens_push(&d->ahead, id))
        return error_set(d->err, HASTEN_ERR_MEMORY, "generating: out of memory");
    if (law->logprobs && (st = note_logprobs(law, d->pick, out, d->err)))
        return st;
    if ((st = detok_push(d->detok, id, &out->text, &stopped, d->err)) || (st = show_answer(d)))
        return st;
    if (stopped) {
        out->by_stop_string = true;
        return end_answer(d, FINISH_STOP);
    }
    const int64_t length = hasten_seq_length(d->s->seq) + d->ahead.n - 1;
    if ((law->n_predict >= 0 && out->ids.n >= law->n_predict) || length >= hasten_engine_n_ctx(d->s->engine))
        return end_answer(d, FINISH_LENGTH);
    return HASTEN_OK;
}

/* Tokens that alone are allowed need no logits. (Log-probabilities and mirostat do; and the next step is bounded.) */
static hasten_status take_forced(struct decoding *d)
{
    const struct sampling *law = d->law;
    while (d->pick->grammar && !law->logprobs && !law->memory && !d->ended &&
           d->ahead.n < d->s->settings.n_batch) {
        int32_t n = 0, id = 0;
        hasten_status st = mask_here(d->pick, &n);
        if (st || n != 1)
            return st;
        while (!law->mask[id / 64])
            id += 64;
        st = take_token(d, id + __builtin_ctzll(law->mask[id / 64]));
        if (st)
            return st;
    }
    return HASTEN_OK;
}

static hasten_status decode(struct decoding *d, const volatile int *cancel)
{
    hasten_status st = HASTEN_OK;
    d->shown = d->out->text.len;
    if (d->law->n_predict == 0)
        end_answer(d, FINISH_LENGTH);
    while (!d->ended && !st) {
        d->ahead.n = 0;
        st = d->pick->none ? end_without_token(d) : take_token(d, d->pick->chosen.id);
        if (!st)
            st = take_forced(d);
        if (st || d->ended)
            break;
        st = *cancel ? HASTEN_ERR_CANCELLED
                     : step(d->s, d->ahead.ids, (int32_t)d->ahead.n, d->pick, cancel, d->err);
        if (st == HASTEN_ERR_CANCELLED)
            d->out->finish = FINISH_INTERRUPTED;
    }
    tokens_free(&d->ahead);
    if (st && st != HASTEN_ERR_CANCELLED)
        return st;
    st = detok_finish(d->detok, &d->out->text, d->err);
    return st ? st : show_answer(d);
}

hasten_status answer_generate(struct session *s, const struct sampling *law, const int32_t *ids, int64_t n,
                              answer_fn show, void *show_ctx, struct ui *ui, struct answer *out,
                              struct hasten_error *err)
{
    int32_t n_ctx = hasten_engine_n_ctx(s->engine);
    if (n < 1)
        return error_set(err, HASTEN_ERR_USAGE,
                         "generating: the prompt has no tokens (expected at least one)");
    if (n > n_ctx)
        return error_set(
            err, HASTEN_ERR_FULL,
            "generating: the prompt has %lld tokens, the context holds %d (expected fewer, or a larger -c)",
            (long long)n, (int)n_ctx);
    struct tokens path = {0};
    struct detok *detok = NULL;
    hasten_status st = HASTEN_OK;
    for (int64_t i = 0; i < n && !st; i++)
        if (tokens_push(&path, ids[i]))
            st = error_set(err, HASTEN_ERR_MEMORY, "generating: out of memory");
    if (!st)
        st = detok_open(s->vocab, law->stops, law->n_stops, false, true, &detok, err);
    const volatile int *cancel = interrupt_arm();
    struct pick pick = {.law = law, .path = &path, .err = err};
    if (!st && law->masks)
        st = grammar_start(law->masks, &pick.grammar, err);
    if (!st)
        st = prefill(s, &path, &pick, ui, out, cancel, err);
    if (st == HASTEN_ERR_CANCELLED) {
        out->finish = FINISH_INTERRUPTED;
        st = HASTEN_OK;
    } else if (!st) {
        uint64_t t0 = clock_now_ns();
        struct decoding d = {.s = s,
                             .law = law,
                             .path = &path,
                             .pick = &pick,
                             .detok = detok,
                             .show = show,
                             .show_ctx = show_ctx,
                             .out = out,
                             .err = err};
        st = decode(&d, cancel);
        out->predicted_ms = (double)(clock_now_ns() - t0) / 1e6;
    }
    interrupt_disarm();
    grammar_end(pick.grammar);
    detok_close(detok);
    tokens_free(&path);
    return st;
}

void answer_free(struct answer *a)
{
    buf_free(&a->text);
    tokens_free(&a->ids);
    mem_free(a->chosen);
    mem_free(a->top);
    *a = (struct answer){0};
}

/* ---- JSON ---------------------------------------------------------------------------------------------- */

static json_t *logprob_json(const struct session *s, const struct token_logprob *t)
{
    struct buf b = {0};
    struct hasten_error err;
    json_t *v = NULL;
    if (!vocab_token_bytes(s->vocab, t->id, true, &b, &err))
        v = json_pack("{s:i, s:o, s:f}", "id", (int)t->id, "token", json_bytes(b.data ? b.data : "", b.len),
                      "logprob", (double)t->logprob);
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
    json_t *timings = json_pack("{s:i, s:f, s:i, s:f, s:i}", "prompt_n", (int)(a->prompt_n - a->cached_n),
                                "prompt_ms", a->prompt_ms, "predicted_n", (int)a->predicted_n, "predicted_ms",
                                a->predicted_ms, "cached_n", (int)a->cached_n);
    json_t *v =
        json_pack("{s:o, s:o, s:s, s:I, s:o}", "text",
                  json_bytes(a->text.data ? a->text.data : "", a->text.len), "tokens", ids, "finish_reason",
                  names[a->finish], "seed", (json_int_t)law->settings.seed, "timings", timings);
    json_put(&v, "methods", methods_json(&s->settings));
    if (law->logprobs)
        json_put(&v, "logprobs", logprobs_json(s, law, a));
    return v;
}
