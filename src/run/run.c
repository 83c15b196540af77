/* The state machine of an answer (run.h): which tokens go into the next step, which rows of it count, what remains of
 * it in the sequence. Whether the prompt is being read or an answer written makes no difference to a step: tokens of the
 * path that the sequence does not hold are due, and what is proposed may follow them. */
#include "base/clock.h"
#include "engine/context.h"
#include "engine/modality.h"
#include "run/inside.h"
#include <string.h>

/* What a method of the stage stop puts in is not of the grammar. */
static hasten_status check_grammar(const struct run_task *t, struct hasten_error *err)
{
    const struct method_set *set = &t->engine->methods;
    for (int32_t i = 0; t->law->masks && i < set->n; i++)
        if (set->use[i].m->stage == STAGE_STOP)
            return error_set(
                err, HASTEN_ERR_USAGE,
                "--stop-when %s and a grammar cannot be used together: what it puts in is not of the grammar",
                set->use[i].m->name);
    return HASTEN_OK;
}

static hasten_status check_prompt(const struct run_task *t, struct hasten_error *err)
{
    const int32_t n_vocab = hasten_model_n_vocab(t->engine->model);
    if (t->n < 1)
        return error_set(err, HASTEN_ERR_USAGE,
                         "generating: the prompt has no tokens (expected at least one)");
    for (int64_t i = 0; i < t->n; i++)
        if (t->ids[i] < 0 || t->ids[i] >= n_vocab)
            return error_set(err, HASTEN_ERR_USAGE,
                             "generating: the prompt's token %lld is %d (expected 0 to %d)", (long long)i,
                             (int)t->ids[i], (int)n_vocab - 1);
    return HASTEN_OK;
}

static hasten_status check_length(const struct hasten_engine *e, int64_t n, struct hasten_error *err)
{
    const int32_t n_ctx = hasten_engine_n_ctx(e);
    return n <= n_ctx
               ? HASTEN_OK
               : error_set(
                     err, HASTEN_ERR_FULL,
                     "generating: the prompt has %lld tokens, the context holds %d (expected fewer, or a "
                     "larger -c)",
                     (long long)n, (int)n_ctx);
}

/* What the stages context and modality make of the prompt. */
static hasten_status make_prompt(struct run *r, struct hasten_error *err)
{
    struct hasten_engine *e = r->task.engine;
    for (int32_t i = 0; i < e->methods.n; i++) {
        const struct method_use *u = &e->methods.use[i];
        if (u->m->stage == STAGE_MODALITY)
            ((const struct modality_ops *)u->m->hosted)->rows(u->state, &r->soft, &r->n_soft);
    }
    if (!context_is_used(e))
        return check_length(e, r->n_soft + r->task.n, err);
    const hasten_status st = context_shorten(e, r->task.ids, r->task.n, r->task.cancel, &r->read, err);
    if (st)
        return st;
    r->out->dropped_n = (int32_t)(r->task.n - r->read.n);
    r->task.ids = r->read.ids;
    r->task.n = r->read.n;
    return check_length(e, r->n_soft + r->task.n, err);
}

hasten_status run_check(const struct run_task *t, struct hasten_error *err)
{
    hasten_status st = check_prompt(t, err);
    if (!st)
        st = check_grammar(t, err);
    return st || context_is_used(t->engine) ? st : check_length(t->engine, t->n, err);
}

/* The sequence and the sampler's memory keep what they share with the prompt, but its last token. */
static hasten_status keep_prefix(struct run *r, struct hasten_error *err)
{
    struct hasten_seq *seq = r->task.seq;
    const int32_t have = hasten_seq_length(seq), n = (int32_t)r->n_prompt, *held = hasten_seq_tokens(seq);
    int32_t keep = 0;
    while (keep < have && keep < n - 1 && held[keep] == r->path[keep])
        keep++;
    hasten_status st = keep < have ? hasten_seq_truncate(seq, keep, err) : HASTEN_OK;
    sampler_memory_truncate(r->task.law->memory, keep);
    r->out->cached_n = keep;
    r->out->prompt_n = n;
    return st ? st : hasten_seq_announce(seq, r->task.n_announced ? r->task.n_announced : n, err);
}

static hasten_status open_memory(struct run *r, struct hasten_error *err)
{
    const size_t n = (size_t)r->n_ctx + 1;
    r->reach = stopping_reach(r->task.engine);
    r->path = mem_array(n + DRAFT_MAX, sizeof *r->path);
    r->ends = r->reach ? mem_array(n, sizeof *r->ends) : NULL;
    if (!r->path || (r->reach && !r->ends))
        return error_set(err, HASTEN_ERR_MEMORY, "generating: out of memory");
    const int32_t d = r->task.engine->model->desc.d_model;
    for (int32_t i = 0; i < r->n_soft; i++)
        r->path[i] = hasten_soft_tag(r->soft + (int64_t)i * d, d);
    memcpy(r->path + r->n_soft, r->task.ids, (size_t)r->task.n * sizeof *r->path);
    r->n_path = r->n_prompt = r->n_soft + r->task.n;
    return HASTEN_OK;
}

static hasten_status open_grammar(struct run *r, struct hasten_error *err)
{
    struct grammar_masks *masks = r->task.law->masks;
    r->mask = mem_calloc((size_t)grammar_masks_n_words(masks), sizeof *r->mask);
    return r->mask ? grammar_start(masks, &r->grammar, err)
                   : error_set(err, HASTEN_ERR_MEMORY, "generating: out of memory");
}

static hasten_status begin(struct run *r, struct hasten_error *err)
{
    const struct sampling *law = r->task.law;
    const uint64_t t0 = clock_now_ns();
    hasten_status st = make_prompt(r, err);
    if (!st)
        st = open_memory(r, err);
    if (!st)
        st = detok_open(r->task.vocab, law->stops, law->n_stops, run_shows_tokens(law), true, &r->detok, err);
    if (!st && law->masks)
        st = open_grammar(r, err);
    if (!st && !r->task.drafts) {
        st = speculation_open(r->task.engine, &r->own_drafts, err);
        r->drafts = r->own_drafts;
    }
    if (!st)
        st = keep_prefix(r, err);
    if (st)
        return st;
    stopping_begin(r);
    r->reading = true;
    r->t0 = context_is_used(r->task.engine) ? t0 : clock_now_ns();
    return HASTEN_OK;
}

hasten_status run_open(const struct run_task *t, struct answer *out, struct run **run,
                       struct hasten_error *err)
{
    hasten_status st = run_check(t, err);
    if (st)
        return st;
    struct run *r = mem_calloc(1, sizeof *r);
    if (!r)
        return error_set(err, HASTEN_ERR_MEMORY, "generating: out of memory");
    r->task = *t;
    r->out = out;
    r->drafts = t->drafts;
    r->n_ctx = hasten_engine_n_ctx(t->engine);
    st = begin(r, err);
    if (st)
        run_close(r);
    else
        *run = r;
    return st;
}

void run_close(struct run *r)
{
    if (!r)
        return;
    detok_close(r->detok);
    grammar_end(r->grammar);
    mem_free(r->mask);
    speculation_close(r->own_drafts);
    mem_free(r->path);
    mem_free(r->ends);
    tokens_free(&r->read);
    mem_free(r);
}

/* ---- a step --------------------------------------------------------------------------------------------------- */

/* How many tokens are worth proposing: what the answer, the context and the rows left have room for. */
static int32_t room_for_drafts(const struct run *r, int32_t max_rows)
{
    const struct sampling *law = r->task.law;
    int64_t most = DRAFT_MAX;
    const int64_t left = law->n_predict - r->out->ids.n - 1, rows = max_rows - r->n_due,
                  context = r->n_ctx - r->n_path;
    if (law->n_predict >= 0 && left < most)
        most = left;
    if (r->task.engine->methods.caching
            .use) { /* what may not stand must not make the cache give up entries */
        const int64_t before = cache_next(r->task.engine, r->task.seq, r->base) - r->n_path - 1;
        most = before < most ? before : most;
    }
    most = rows < most ? rows : most;
    most = context < most ? context : most;
    return most > 0 ? (int32_t)most : 0;
}

static struct hasten_item item_of(struct run *r)
{
    const int64_t d = r->task.engine->model->desc.d_model;
    return (struct hasten_item){.seq = r->task.seq,
                                .tokens = r->soft_item ? NULL : r->path + r->base,
                                .n = r->n_due + r->n_drafts,
                                .want_from = r->sampling ? r->n_due - 1 : r->n_due,
                                .mask = choose_mask(r),
                                .embd = r->soft_item ? r->soft + r->base * d : NULL};
}

bool run_next(struct run *r, int32_t max_rows, struct hasten_item *item)
{
    if (r->done)
        return false;
    r->base = hasten_seq_length(r->task.seq);
    r->n_due = (int32_t)r->n_path - r->base;
    r->soft_item = r->base < r->n_soft; /* an item of these alone */
    if (r->soft_item)
        r->n_due = r->n_soft - r->base;
    r->sampling = !r->soft_item && r->n_due <= max_rows;
    r->n_due = r->n_due <= max_rows ? r->n_due : max_rows;
    r->n_taken = r->n_stood = r->n_drafts = 0;
    r->expected = r->sampling ? 1 : 0;
    r->watched = false;
    r->status = HASTEN_OK;
    r->step_t0 = clock_now_ns();
    if (r->sampling && !r->reading && !r->crowded)
        r->n_drafts = speculation_propose(r, room_for_drafts(r, max_rows), &r->status, &r->err);
    *item = item_of(r);
    return true;
}

double run_company(struct run *r, const struct draft_company *with)
{
    r->company = with;
    return r->expected;
}

bool run_drop_drafts(struct run *r, struct hasten_item *item)
{
    if (!r->n_drafts)
        return false;
    r->n_drafts = 0;
    *item = item_of(r);
    return true;
}

bool run_take(struct run *r, const float *row)
{
    if (r->status || r->done || r->watched || r->n_taken > r->n_stood)
        return false;
    r->status = choose_token(r, row, &r->err);
    if (r->status)
        return false;
    if (r->done) {
        r->n_taken++;
        return false;
    }
    const bool stood =
        r->n_taken < r->n_drafts && speculation_accepts(r->drafts, r->chosen.id, r->path[r->n_path]);
    if (stood)
        r->chosen.id = r->path[r->n_path];
    r->n_stood += stood;
    r->n_taken++;
    r->watched = stopping_watch(r, r->chosen.id);
    if (r->watched)
        return false;
    r->status = commit_chosen(r, &r->err);
    return stood && !r->status && !r->done;
}

static void note_time(struct run *r)
{
    const uint64_t now = clock_now_ns();
    double *ms = r->reading ? &r->out->prompt_ms : &r->out->predicted_ms;
    *ms = (double)(now - r->t0) / 1e6;
}

/* What the sequence holds of the step's rows: those of tokens on the path. */
static hasten_status cut_rows(struct run *r, struct hasten_error *err)
{
    const int32_t keep = r->base + r->n_due + r->n_taken - 1;
    return keep < hasten_seq_length(r->task.seq) ? hasten_seq_truncate(r->task.seq, keep, err) : HASTEN_OK;
}

static hasten_status after_sampling(struct run *r, struct hasten_error *err)
{
    if (r->n_taken == 0)
        return error_set(err, HASTEN_ERR_INTERNAL, "generating: the step gave no logits");
    r->out->passes += !r->reading;
    r->out->drafted_n += r->n_drafts;
    r->out->accepted_n += r->n_stood;
    hasten_status st = cut_rows(r, err);
    if (!st)
        speculation_outcome(r, (double)(clock_now_ns() - r->step_t0) / 1e6);
    if (!st && r->watched)
        st = stopping_decide(r, err);
    if (!st && !r->done)
        st = choose_forced(r, err);
    if (st)
        return st;
    note_time(r);
    if (r->reading)
        r->t0 = clock_now_ns();
    r->reading = false;
    return HASTEN_OK;
}

hasten_status run_interrupt(struct run *r, struct hasten_error *err)
{
    note_time(r);
    return commit_finish(r, FINISH_INTERRUPTED, err);
}

hasten_status run_after(struct run *r, hasten_status st, struct hasten_error *err)
{
    if (r->status) {
        *err = r->err;
        return r->status;
    }
    if (st == HASTEN_ERR_CANCELLED)
        return r->done ? HASTEN_OK : run_interrupt(r, err);
    if (st == HASTEN_ERR_FULL && r->n_drafts > 0 && r->n_taken == 0) {
        r->crowded =
            true; /* no pages for tokens that may not stand; there may be some for those that are due */
        return HASTEN_OK;
    }
    r->crowded = false;
    return st || !r->sampling ? st : after_sampling(r, err);
}

bool run_reading(const struct run *r, uint64_t *done, uint64_t *total)
{
    *total = (uint64_t)(r->n_prompt - r->out->cached_n);
    const int32_t have = hasten_seq_length(r->task.seq) - r->out->cached_n;
    *done = !r->reading ? *total : have > 0 ? (uint64_t)have : 0; /* less than none: it was cut back */
    return r->reading;
}

bool run_done(const struct run *r)
{
    return r->done;
}

int64_t run_path(const struct run *r, const int32_t **ids)
{
    *ids = r->path;
    return r->n_path;
}

/* ---- one sequence --------------------------------------------------------------------------------------------- */

int run_take_rows(void *ctx, const float *logits, const struct hasten_logits_row *rows, int32_t n_rows,
                  int32_t n_vocab)
{
    (void)rows;
    for (int32_t i = 0; i < n_rows; i++)
        if (!run_take(ctx, logits + (int64_t)i * n_vocab))
            return 1;
    return 0;
}

hasten_status run_answer(const struct run_task *t, run_progress_fn progress, void *progress_ctx,
                         struct answer *out, struct hasten_error *err)
{
    struct run *r = NULL;
    struct hasten_item item;
    uint64_t done, total;
    bool reading = true;
    hasten_status st = run_open(t, out, &r, err);
    while (!st && run_next(r, t->engine->settings.n_batch, &item)) {
        if (t->cancel && *t->cancel) {
            st = run_interrupt(r, err);
            continue;
        }
        st = hasten_step(t->engine, &item, 1, r->sampling ? run_take_rows : NULL, r, t->cancel, err);
        st = run_after(r, st, err);
        if (progress && reading && !st) {
            reading = run_reading(r, &done, &total);
            progress(progress_ctx, done, total);
        }
    }
    run_close(r);
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
