/* Taking a token into an answer: path, ids, log-probabilities, text, and what ends the answer. Owns the order in which
 * these are looked at; with and without a drafter it is this one. */
#include "run/inside.h"
#include <math.h>
#include <string.h>

static hasten_status no_memory(struct hasten_error *err)
{
    return error_set(err, HASTEN_ERR_MEMORY, "generating: out of memory");
}

static hasten_status note_logprobs(struct run *r, bool injected, struct hasten_error *err)
{
    struct answer *a = r->out;
    const int64_t at = a->ids.n - 1, n_top = r->task.law->settings.n_logprobs;
    if (at >= a->cap_logprobs) {
        const int64_t cap = a->cap_logprobs ? 2 * a->cap_logprobs : 64;
        struct token_logprob *c = mem_realloc(a->chosen, (size_t)cap * sizeof *c);
        a->chosen = c ? c : a->chosen;
        struct token_logprob *t = mem_realloc(a->top, (size_t)(cap * n_top + 1) * sizeof *t);
        a->top = t ? t : a->top;
        if (!c || !t)
            return no_memory(err);
        a->cap_logprobs = cap;
    }
    a->chosen[at] = injected ? (struct token_logprob){a->ids.ids[at], NAN} : r->chosen;
    for (int64_t i = 0; i < n_top; i++)
        a->top[at * n_top + i] = injected ? (struct token_logprob){-1, -INFINITY} : r->top[i];
    return HASTEN_OK;
}

/* Gives out what may be shown: all but what a stop method may still take back. */
static hasten_status show_more(struct run *r, bool all, struct hasten_error *err)
{
    const struct answer *a = r->out;
    size_t to = a->text.len;
    if (r->reach && !all)
        to = a->ids.n > r->reach ? r->ends[a->ids.n - 1 - r->reach] : 0;
    const size_t from = r->shown;
    if (to <= from)
        return HASTEN_OK;
    r->shown = to;
    if (r->task.show && r->task.show(r->task.show_ctx, a->text.data + from, to - from))
        return error_set(err, HASTEN_ERR_DISK,
                         "writing the answer: stdout is closed or full (expected room)");
    return HASTEN_OK;
}

hasten_status commit_finish(struct run *r, enum finish how, struct hasten_error *err)
{
    r->done = true;
    r->out->finish = how;
    const hasten_status st = detok_finish(r->detok, &r->out->text, err);
    return st ? st : show_more(r, true, err);
}

static hasten_status commit_token(struct run *r, int32_t id, bool injected, struct hasten_error *err)
{
    struct answer *a = r->out;
    const struct sampling *law = r->task.law;
    bool stopped = false;
    hasten_status st = r->grammar ? grammar_accept(r->grammar, id, err) : HASTEN_OK;
    if (st)
        return st;
    if (tokens_push(&a->ids, id))
        return no_memory(err);
    r->path[r->n_path++] = id;
    st = law->logprobs ? note_logprobs(r, injected, err) : HASTEN_OK;
    if (!st)
        st = detok_push(r->detok, id, &a->text, &stopped, err);
    if (st)
        return st;
    if (r->ends)
        r->ends[a->ids.n - 1] = a->text.len;
    if (stopped) {
        a->by_stop_string = true;
        return commit_finish(r, FINISH_STOP, err);
    }
    if ((law->n_predict >= 0 && a->ids.n >= law->n_predict) || r->n_path > r->n_ctx)
        return commit_finish(r, FINISH_LENGTH, err);
    return show_more(r, false, err);
}

hasten_status commit_chosen(struct run *r, struct hasten_error *err)
{
    if (r->task.law->n_predict == 0)
        return commit_finish(r, FINISH_LENGTH, err);
    r->out->predicted_n++;
    if (vocab_is_eog(r->task.vocab, r->chosen.id))
        return commit_finish(r, FINISH_STOP, err);
    return commit_token(r, r->chosen.id, false, err);
}

hasten_status commit_injected(struct run *r, const int32_t *ids, int32_t n, struct hasten_error *err)
{
    hasten_status st = r->task.law->n_predict == 0 ? commit_finish(r, FINISH_LENGTH, err) : HASTEN_OK;
    for (int32_t i = 0; i < n && !st && !r->done; i++) {
        st = commit_token(r, ids[i], true, err);
        r->out->injected_n++;
    }
    return st;
}

/* The text of the tokens that stay, as it was when the last of them had come. */
static hasten_status say_again(struct run *r, struct hasten_error *err)
{
    struct answer *a = r->out;
    const struct sampling *law = r->task.law;
    struct detok *d = NULL;
    bool stopped;
    hasten_status st =
        detok_open(r->task.vocab, law->stops, law->n_stops, run_shows_tokens(law), true, &d, err);
    if (st)
        return st;
    detok_close(r->detok);
    r->detok = d;
    a->text.len = 0;
    for (int64_t i = 0; i < a->ids.n && !st; i++)
        st = detok_push(d, a->ids.ids[i], &a->text, &stopped, err);
    return st;
}

hasten_status commit_cut(struct run *r, int64_t n_keep, struct hasten_error *err)
{
    const int64_t n_cut = r->n_path - n_keep;
    if (n_cut == 0)
        return HASTEN_OK;
    if (n_cut < 0 || n_cut > r->reach || n_cut > r->out->ids.n)
        return error_set(err, HASTEN_ERR_INTERNAL,
                         "--stop-when: a method cuts back %lld tokens (expected 0 to %d)", (long long)n_cut,
                         (int)r->reach);
    r->n_path = n_keep;
    r->out->ids.n -= n_cut;
    hasten_status st = HASTEN_OK;
    if (hasten_seq_length(r->task.seq) > n_keep)
        st = hasten_seq_truncate(r->task.seq, (int32_t)n_keep, err);
    return st ? st : say_again(r, err);
}
