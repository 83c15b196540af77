/* Budget forcing: the length of thinking is held between two bounds by putting in what ends it, or what goes on with it.
 * All it keeps of a sequence are counters. */
#include "stop/thinking.h"
#include <string.h>

struct budget_knobs {
    int32_t max, min, rounds;
    const char *word, *opener, *open, *close;
};
#define AT(field) offsetof(struct budget_knobs, field)

static const struct knob budget_table[] = {
    {"max", KNOB_INT, AT(max), -1, LIMIT_CONTEXT, "512", NULL, "tokens",
     "thinking is ended when it is so long; -1: never"},
    {"min", KNOB_INT, AT(min), 0, LIMIT_CONTEXT, "0", NULL, "tokens", "thinking goes on until it is so long"},
    {"rounds", KNOB_INT, AT(rounds), 0, 1000, "0", NULL, "times",
     "so many times thinking goes on, however long it is"},
    {"word", KNOB_TEXT, AT(word), 0, 0, "Wait", NULL, NULL, "what it goes on with; \\n is a new line"},
    {"opener", KNOB_TEXT, AT(opener), 0, 0, "\\n\\n", NULL, NULL,
     "what follows the end of thinking that is put in"},
    {"open", KNOB_TEXT, AT(open), 0, 0, NULL, NULL, NULL,
     "what begins thinking [of the vocabulary or template]"},
    {"close", KNOB_TEXT, AT(close), 0, 0, NULL, NULL, NULL, "what ends it"},
};

struct budget {
    const struct budget_knobs *knobs;
    struct thinking thinking;
    struct tokens ending, going_on; /* what is put in; going_on: the word */
    struct tokens patched;          /* going_on with what stood before a delimiter in its first token */
};

struct budget_seq {
    int64_t from;   /* where this stretch of thinking began; -1: it does not think */
    int64_t before; /* tokens of earlier stretches */
    int32_t rounds;
};

/* ---- for the engine ------------------------------------------------------------------------------------------- */

static bool neutral(const struct budget_knobs *k)
{
    return k->max < 0 && k->min == 0 && k->rounds == 0;
}

static hasten_status named(hasten_status st, struct hasten_error *err)
{
    if (st)
        error_prefix(err, "--stop-when budget");
    return st;
}

static hasten_status budget_check(const struct method_site *site, const void *knobs, struct hasten_error *err)
{
    const struct budget_knobs *k = knobs;
    struct thinking t;
    if (k->max >= 0 && k->min > k->max)
        return error_set(err, HASTEN_ERR_USAGE,
                         "--stop-when budget:min: found %d (expected at most max, which is %d)", (int)k->min,
                         (int)k->max);
    const hasten_status st = named(thinking_open(site, k->open, k->close, &t, err), err);
    const bool none = !st && t.close.len == 0 && !neutral(k);
    if (!st)
        thinking_close(&t);
    return none
               ? error_set(
                     err, HASTEN_ERR_USAGE,
                     "--stop-when budget: needs a model that marks its thinking: found no delimiter in its vocabulary "
                     "or chat template (expected <think>, or the knobs open and close)")
               : st;
}

static void budget_detach(void *state)
{
    struct budget *b = state;
    if (!b)
        return;
    thinking_close(&b->thinking);
    tokens_free(&b->ending);
    tokens_free(&b->going_on);
    tokens_free(&b->patched);
    mem_free(b);
}

static hasten_status fill(const struct method_site *site, const struct budget_knobs *k, struct budget *b,
                          struct hasten_error *err)
{
    b->knobs = k;
    hasten_status st = thinking_open(site, k->open, k->close, &b->thinking, err);
    if (!st && b->thinking.close.len)
        st = thinking_encode(&b->thinking, b->thinking.close.text, &b->ending, err);
    if (!st)
        st = thinking_encode(&b->thinking, k->opener, &b->ending, err);
    if (!st)
        st = thinking_encode(&b->thinking, k->word, &b->going_on, err);
    return named(st, err);
}

static hasten_status budget_attach(const struct method_site *site, const void *knobs, void **state,
                                   struct hasten_error *err)
{
    struct budget *b = mem_calloc(1, sizeof *b);
    if (!b)
        return error_set(err, HASTEN_ERR_MEMORY, "--stop-when budget: out of memory");
    const hasten_status st = fill(site, knobs, b, err);
    if (st)
        budget_detach(b);
    else
        *state = b;
    return st;
}

static size_t budget_seq_bytes(const struct method_site *site, const void *knobs)
{
    (void)site, (void)knobs;
    return sizeof(struct budget_seq);
}

/* ---- for the loop --------------------------------------------------------------------------------------------- */

/* A delimiter of several tokens has been taken but for its last when it is known. */
static int32_t budget_reach(const void *state)
{
    const struct budget *b = state;
    return neutral(b->knobs) || b->thinking.close.len == 0 ? 0 : b->thinking.close.most - 1;
}

static void budget_begin(const void *state, void *seq, const struct stop_view *v)
{
    const struct budget *b = state;
    struct budget_seq *s = seq;
    *s = (struct budget_seq){.from = thinking_begun(&b->thinking, v->path, v->n) ? v->n : -1};
}

static int64_t thought(const struct budget_seq *s, int64_t n)
{
    return s->before + (s->from < 0 ? 0 : n - s->from);
}

static bool budget_watch(const void *state, const void *seq, const struct stop_view *v, int32_t id)
{
    const struct budget *b = state;
    const struct budget_seq *s = seq;
    int64_t start;
    int32_t before;
    if (neutral(b->knobs))
        return false;
    if (s->from < 0)
        return thinking_ends(&b->thinking, &b->thinking.open, v->path, v->n, id, &start, &before);
    return (b->knobs->max >= 0 && thought(s, v->n) >= b->knobs->max) || vocab_is_eog(b->thinking.vocab, id) ||
           thinking_ends(&b->thinking, &b->thinking.close, v->path, v->n, id, &start, &before);
}

static void leave(struct budget_seq *s, int64_t n)
{
    s->before = thought(s, n);
    s->from = -1;
}

/* The word in place of a delimiter that begins in token `start`, of which `before` bytes stay. */
static hasten_status go_on(struct budget *b, const struct stop_view *v, int64_t start, int32_t before,
                           int32_t id, struct stop_verdict *out, struct hasten_error *err)
{
    struct buf bytes = {0};
    const struct tokens *put = &b->going_on;
    hasten_status st = HASTEN_OK;
    if (before) {
        b->patched.n = 0;
        st = vocab_token_bytes(b->thinking.vocab, start < v->n ? v->path[start] : id, true, &bytes, err);
        if (!st)
            st = vocab_encode(b->thinking.vocab, bytes.data, (size_t)before, VOCAB_NO_PREFIX, &b->patched,
                              err);
        if (!st)
            st = thinking_encode(&b->thinking, b->knobs->word, &b->patched, err);
        put = &b->patched;
    }
    buf_free(&bytes);
    *out = (struct stop_verdict){STOP_INJECT, start, put->ids, (int32_t)put->n};
    return st;
}

static hasten_status budget_decide(const void *state, void *seq, const struct stop_view *v, int32_t id,
                                   struct stop_verdict *out, struct hasten_error *err)
{
    struct budget *b =
        (struct budget *)(uintptr_t)state; /* its lists of tokens are scratch of the loop's thread */
    const struct budget_knobs *k = b->knobs;
    struct budget_seq *s = seq;
    int64_t start = v->n;
    int32_t before = 0;
    if (s->from < 0) {
        s->from = v->n + 1;
        return HASTEN_OK;
    }
    const bool closes = thinking_ends(&b->thinking, &b->thinking.close, v->path, v->n, id, &start, &before);
    if (closes || vocab_is_eog(b->thinking.vocab, id)) {
        start = start < s->from ? s->from : start;
        if (thought(s, start) < k->min || s->rounds < k->rounds) {
            s->rounds++;
            return go_on(b, v, start, before, id, out, err);
        }
        leave(s, start);
        return HASTEN_OK;
    }
    start = thinking_broken_off(&b->thinking, &b->thinking.close, v->path, v->n);
    start = start < s->from ? v->n : start;
    leave(s, start);
    *out = (struct stop_verdict){STOP_INJECT, start, b->ending.ids, (int32_t)b->ending.n};
    return HASTEN_OK;
}

/* What another method put in may begin or end thinking. */
static void budget_injected(const void *state, void *seq, const struct stop_view *v, int64_t from)
{
    const struct budget *b = state;
    struct budget_seq *s = seq;
    int64_t start;
    int32_t before;
    for (int64_t i = from; i < v->n; i++)
        if (s->from < 0 &&
            thinking_ends(&b->thinking, &b->thinking.open, v->path, i, v->path[i], &start, &before))
            s->from = i + 1;
        else if (s->from >= 0 &&
                 thinking_ends(&b->thinking, &b->thinking.close, v->path, i, v->path[i], &start, &before))
            leave(s, start);
}

static const struct stop_ops budget_ops = {.reach = budget_reach,
                                           .begin = budget_begin,
                                           .watch = budget_watch,
                                           .decide = budget_decide,
                                           .injected = budget_injected};

const struct method method_budget = {
    .name = "budget",
    .title = "holds the length of thinking between two bounds",
    .paper = "Muennighoff et al., s1: Simple test-time scaling, arXiv:2501.19393 (budget forcing)",
    .stage = STAGE_STOP,
    .guarantee = METHOD_APPROXIMATE,
    .exact_to =
        "the plain engine while thinking stays between min and max; beyond, what is put in is not the model's choice",
    .role = "budget",
    .knobs = budget_table,
    .n_knobs = sizeof budget_table / sizeof *budget_table,
    .knobs_bytes = sizeof(struct budget_knobs),
    .exercise = "max=16,open=<think>,close=</think>",
    .neutral = "max=-1,min=0,rounds=0",
    .traits = METHOD_SEQUENCE_SCOPE,
    .text =
        "When thinking has max tokens, the token chosen next is dropped and the end of thinking put in, with the opener of "
        "the answer. When the model ends it before min, or for the first `rounds` times, its delimiter is dropped (it is never "
        "shown) and the word put in. Tokens put in count as tokens of the answer. Thinking that the chat template begins "
        "counts from the answer's first token.",
    .check = budget_check,
    .attach = budget_attach,
    .detach = budget_detach,
    .seq_bytes = budget_seq_bytes,
    .hosted = &budget_ops,
};
