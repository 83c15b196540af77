/* Selective Context: what the model could have guessed is left out of the prompt. The prompt is read once, whole, in a
 * sequence of its own; what each token told the model, -log p of it, is averaged over units, and the units that told
 * least go until as many tokens are left as asked for. */
#include "engine/context.h"
#include "base/sort.h"
#include "engine/engine.h"
#include "kernels/look.h"
#include "text/vocab.h"
#include <math.h>
#include <string.h>

struct selective_knobs {
    float ratio;
    int unit;
    int32_t last;
};
enum {
    UNIT_WORD,
    UNIT_TOKEN,
    UNIT_SENTENCE
};

static const struct knob selective_table[] = {
    {"ratio", KNOB_FLOAT, offsetof(struct selective_knobs, ratio), 0, 1, "0.5", NULL, NULL,
     "the share of the prompt's tokens that stays; 1: all"},
    {"unit", KNOB_CHOICE, offsetof(struct selective_knobs, unit), 0, 0, "word", "word|token|sentence", NULL,
     "what stays or goes together"},
    {"last", KNOB_INT, offsetof(struct selective_knobs, last), 0, LIMIT_CONTEXT, "64", NULL, "tokens",
     "the end of the prompt, which stays: there questions stand"},
};

/* ---- what each token told ------------------------------------------------------------------------------------- */

struct telling {
    const int32_t *ids; /* of the window */
    int64_t n;
    float *told; /* [n] of the window; that of its first token is not known */
    int64_t at;  /* of the step's first row */
};

/* -log p of the token that follows each row. A row with nothing finite tells everything. */
static int take_rows(void *ctx, const float *logits, const struct hasten_logits_row *rows, int32_t n_rows,
                     int32_t n_vocab)
{
    struct telling *t = ctx;
    for (int32_t i = 0; i < n_rows; i++) {
        const float *row = logits + (int64_t)i * n_vocab;
        const int64_t next = t->at + rows[i].row + 1;
        float max = -INFINITY, sum = 0;
        if (next >= t->n)
            continue;
        look_softmax_add(row, n_vocab, &max, &sum);
        const float told = max + logf(sum) - row[t->ids[next]];
        t->told[next] = told >= 0 ? told : told < 0 ? 0 : INFINITY;
    }
    return 0;
}

/* The prompt in windows of the context. */
static hasten_status read_prompt(const struct context_view *v, float *told, struct hasten_error *err)
{
    struct hasten_engine *e = v->engine;
    const int64_t n_ctx = e->settings.n_ctx, n_batch = e->settings.n_batch;
    struct hasten_seq *seq = NULL;
    hasten_status st = hasten_seq_open(e, &seq, err);
    for (int64_t from = 0; from < v->n && !st; from += n_ctx) {
        struct telling t = {v->ids + from, v->n - from < n_ctx ? v->n - from : n_ctx, told + from, 0};
        told[from] = INFINITY;
        st = hasten_seq_truncate(seq, 0, err);
        for (; t.at < t.n && !st; t.at += n_batch) {
            const int32_t n = (int32_t)(t.n - t.at < n_batch ? t.n - t.at : n_batch);
            const struct hasten_item item = {.seq = seq, .tokens = t.ids + t.at, .n = n};
            st = hasten_step(e, &item, 1, take_rows, &t, v->cancel, err);
        }
    }
    hasten_seq_close(seq);
    return st;
}

/* ---- units ---------------------------------------------------------------------------------------------------- */

static bool is_blank(char c)
{
    return c == ' ' || c == '\n' || c == '\t' || c == '\r';
}

static bool is_end(char c)
{
    return c == '.' || c == '!' || c == '?' || c == '\n';
}

/* first [n]: 1 where a unit begins. */
static hasten_status find_units(const struct context_view *v, int unit, uint8_t *first,
                                struct hasten_error *err)
{
    const struct vocab *vocab = model_vocab(v->engine->model);
    struct buf b = {0};
    char before = '\n';
    bool ended = true; /* a sentence is over but for blanks */
    hasten_status st = HASTEN_OK;
    for (int64_t i = 0; i < v->n && !st; i++) {
        buf_clear(&b);
        st = vocab_token_bytes(vocab, v->ids[i], false, &b, err);
        const bool blank = b.len && is_blank(b.data[0]), edge = i == 0 || v->fixed[i] != v->fixed[i - 1];
        first[i] = edge || unit == UNIT_TOKEN ||
                   (unit == UNIT_WORD ? blank || is_blank(before) : ended && !(b.len == 1 && blank));
        if (first[i])
            ended = false;
        for (size_t j = 0; j < b.len; j++)
            ended = is_end(b.data[j]) || (ended && is_blank(b.data[j]));
        before = b.len ? b.data[b.len - 1] : before;
    }
    buf_free(&b);
    return st;
}

struct unit {
    uint64_t key; /* first: what it told, as bits that order as numbers do */
    int64_t begin, end;
};

static uint64_t key_of(float mean)
{
    uint32_t bits;
    memcpy(&bits, &mean, sizeof bits); /* not negative */
    return bits;
}

/* Units that may go, with what they told on average; how many. */
static int64_t gather_units(const struct context_view *v, const struct selective_knobs *k,
                            const uint8_t *first, const float *told, struct unit *units)
{
    int64_t n = 0;
    for (int64_t i = 0, end; i < v->n; i = end) {
        double sum = 0;
        for (end = i; end == i || (end < v->n && !first[end]); end++)
            sum += (double)told[end];
        if (!v->fixed[i] && end <= v->n - k->last && isfinite(sum))
            units[n++] = (struct unit){key_of((float)(sum / (double)(end - i))), i, end};
    }
    return n;
}

/* ---- the method ----------------------------------------------------------------------------------------------- */

/* Those that told least first, of equals the earlier; none that would leave fewer than asked for. */
static void drop_units(const struct unit *units, const uint32_t *order, int64_t n, int64_t to_go,
                       uint8_t *keep)
{
    for (int64_t i = 0; i < n && to_go > 0; i++) {
        const struct unit *u = &units[order[i]];
        if (u->end - u->begin > to_go)
            continue;
        memset(keep + u->begin, 0, (size_t)(u->end - u->begin));
        to_go -= u->end - u->begin;
    }
}

static hasten_status selective_select(const void *state, const struct context_view *v, uint8_t *keep,
                                      struct hasten_error *err)
{
    const struct selective_knobs *k = state;
    const size_t n = (size_t)v->n;
    const int64_t to_go = v->n - (int64_t)ceil((double)k->ratio * (double)v->n);
    if (to_go <= 0)
        return HASTEN_OK;
    float *told = mem_array(n, sizeof *told);
    uint8_t *first = mem_calloc(n, 1);
    struct unit *units = mem_array(n, sizeof *units);
    uint32_t *order = mem_array(n, sizeof *order);
    hasten_status st = HASTEN_OK;
    if (!told || !first || !units || !order)
        st = error_set(err, HASTEN_ERR_MEMORY, "--context selective: out of memory for %zu tokens", n);
    if (!st)
        st = read_prompt(v, told, err);
    if (!st)
        st = find_units(v, k->unit, first, err);
    if (!st) {
        const int64_t n_units = gather_units(v, k, first, told, units);
        sort_indices(order, (size_t)n_units, &units->key, sizeof *units);
        drop_units(units, order, n_units, to_go, keep);
    }
    mem_free(told);
    mem_free(first);
    mem_free(units);
    mem_free(order);
    return st;
}

static const struct context_ops selective_ops = {.select = selective_select};

const struct method method_selective = {
    .name = "selective",
    .title = "leaves out what the model could have guessed",
    .paper = "Li et al., Compressing Context to Enhance Inference Efficiency of LLMs, arXiv:2310.06201",
    .stage = STAGE_CONTEXT,
    .guarantee = METHOD_APPROXIMATE,
    .exact_to = "the plain engine given the shorter prompt",
    .role = "shorten",
    .knobs = selective_table,
    .n_knobs = sizeof selective_table / sizeof *selective_table,
    .knobs_bytes = sizeof(struct selective_knobs),
    .exercise = "ratio=0.5,last=4",
    .neutral = "ratio=1",
    .traits = METHOD_BRANCHES,
    .needs = METHOD_NEEDS_DECODER,
    .text =
        "The model judges its own prompt: a whole pass with all logits, which costs about two prefills, and is paid back "
        "by long answers and the room in the cache, never by the time to the first token (a smaller helper is to come). "
        "What a unit tells is the mean over its tokens, so that long ones are not preferred (our choice; the paper sums "
        "over phrases). Control tokens, roles' names beside them and the last tokens stay. Prompts longer than the context are "
        "read in windows of it.",
    .hosted = &selective_ops,
};
