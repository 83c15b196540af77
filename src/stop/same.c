/* Answer consistency: after each chunk of reasoning a branch is made to answer; when the last answers agree, the
 * reasoning ends. Keeps a hash of the last answer and how often it came in a row. */
#include "engine/branch.h"
#include "stop/thinking.h"
#include <string.h>

#define ANSWER_TOKENS 256

struct same_knobs {
    int32_t n, tokens;
    int every;
    const char *ask, *open, *close;
};
enum {
    EVERY_PARA,
    EVERY_LINE,
    EVERY_SENTENCE
};
#define AT(field) offsetof(struct same_knobs, field)

static const struct knob same_table[] = {
    {"n", KNOB_INT, AT(n), 0, 1000, "3", NULL, "answers", "so many equal ones in a row are enough; 0: never"},
    {"every", KNOB_CHOICE, AT(every), 0, 0, "para", "para|line|sentence", NULL,
     "what a chunk of reasoning is"},
    {"tokens", KNOB_INT, AT(tokens), 1, ANSWER_TOKENS, "20", NULL, "tokens", "of an answer, at most"},
    {"ask", KNOB_TEXT, AT(ask), 0, 0, "The final answer is", NULL, NULL,
     "what makes it answer, behind the end of thinking; \\n is a new line"},
    {"open", KNOB_TEXT, AT(open), 0, 0, NULL, NULL, NULL,
     "what begins thinking [of the vocabulary or template]"},
    {"close", KNOB_TEXT, AT(close), 0, 0, NULL, NULL, NULL, "what ends it"},
};

struct same {
    const struct same_knobs *knobs;
    struct thinking thinking; /* without delimiters the whole answer is reasoning */
    struct tokens ask;
};

struct same_seq {
    int64_t from;   /* where reasoning began; -1: it does not reason, or no longer */
    int64_t asked;  /* length of the path when a branch was last asked */
    uint64_t last;  /* hash of its answer */
    int32_t n_same; /* answers equal to it in a row, itself among them; 0: none yet */
    bool over;      /* the answer is being given */
};

static hasten_status named(hasten_status st, struct hasten_error *err)
{
    if (st)
        error_prefix(err, "--stop-when same");
    return st;
}

static void same_detach(void *state)
{
    struct same *m = state;
    if (!m)
        return;
    thinking_close(&m->thinking);
    tokens_free(&m->ask);
    mem_free(m);
}

static hasten_status fill(const struct method_site *site, const struct same_knobs *k, struct same *m,
                          struct hasten_error *err)
{
    m->knobs = k;
    hasten_status st = thinking_open(site, k->open, k->close, &m->thinking, err);
    if (!st && m->thinking.close.len)
        st = thinking_encode(&m->thinking, m->thinking.close.text, &m->ask, err);
    if (!st && m->thinking.close.len)
        st = thinking_encode(&m->thinking, "\\n\\n", &m->ask, err);
    if (!st)
        st = thinking_encode(&m->thinking, k->ask, &m->ask, err);
    return st;
}

static hasten_status same_attach(const struct method_site *site, const void *knobs, void **state,
                                 struct hasten_error *err)
{
    struct same *m = mem_calloc(1, sizeof *m);
    if (!m)
        return error_set(err, HASTEN_ERR_MEMORY, "--stop-when same: out of memory");
    const hasten_status st = named(fill(site, knobs, m, err), err);
    if (st)
        same_detach(m);
    else
        *state = m;
    return st;
}

static hasten_status same_check(const struct method_site *site, const void *knobs, struct hasten_error *err)
{
    void *state = NULL;
    const hasten_status st = same_attach(site, knobs, &state, err);
    same_detach(state);
    return st;
}

static size_t same_seq_bytes(const struct method_site *site, const void *knobs)
{
    (void)site, (void)knobs;
    return sizeof(struct same_seq);
}

/* ---- for the loop --------------------------------------------------------------------------------------------- */

static void same_begin(const void *state, void *seq, const struct stop_view *v)
{
    const struct same *m = state;
    const bool reasons = m->thinking.open.len == 0 || thinking_begun(&m->thinking, v->path, v->n);
    *(struct same_seq *)seq = (struct same_seq){.from = reasons ? v->n : -1, .asked = v->n};
}

/* Do the tokens behind the last question end a chunk? */
static bool chunk_ends(const struct same *m, const struct same_seq *s, const struct stop_view *v)
{
    struct buf *text = m->thinking.text;
    struct hasten_error err;
    bool ends = false;
    buf_clear(text);
    const int64_t first = v->n - 3 > s->asked ? v->n - 3 : s->asked;
    for (int64_t i = first; i < v->n; i++)
        if (vocab_token_bytes(m->thinking.vocab, v->path[i], false, text, &err))
            break;
    const char *end = text->data ? text->data + text->len : NULL;
    if (text->len >= 2 && m->knobs->every == EVERY_PARA)
        ends = end[-1] == '\n' && end[-2] == '\n';
    else if (text->len && m->knobs->every == EVERY_LINE)
        ends = end[-1] == '\n';
    else if (text->len)
        ends = strchr(".!?\n", end[-1]) && end[-1];
    return ends;
}

static bool same_watch(const void *state, const void *seq, const struct stop_view *v, int32_t id)
{
    const struct same *m = state;
    const struct same_seq *s = seq;
    int64_t start;
    int32_t before;
    if (m->knobs->n == 0 || s->over)
        return false;
    if (s->from < 0)
        return thinking_ends(&m->thinking, &m->thinking.open, v->path, v->n, id, &start, &before);
    return thinking_ends(&m->thinking, &m->thinking.close, v->path, v->n, id, &start, &before) ||
           (v->n > s->asked && !vocab_is_eog(m->thinking.vocab, id) && chunk_ends(m, s, v));
}

struct ending {
    const struct vocab *vocab;
    struct buf *text; /* scratch */
};

/* An answer ends with its turn, or at a token that ends a line. */
static bool ends_answer(const void *ctx, int32_t id)
{
    const struct ending *e = ctx;
    struct hasten_error err;
    buf_clear(e->text);
    return vocab_is_eog(e->vocab, id) || vocab_token_bytes(e->vocab, id, false, e->text, &err) ||
           (e->text->len && memchr(e->text->data, '\n', e->text->len));
}

/* Letters in lower case and digits, the rest of ASCII left out: FNV-1a (Fowler, Noll, Vo). 0: nothing is left. A point
 * between digits counts. */
static uint64_t hash_of(const char *text, size_t len)
{
    uint64_t h = 0xcbf29ce484222325u;
    bool any = false;
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)text[i];
        const bool digit = c >= '0' && c <= '9', upper = c >= 'A' && c <= 'Z', lower = c >= 'a' && c <= 'z';
        const bool point = c == '.' && i + 1 < len && text[i + 1] >= '0' && text[i + 1] <= '9';
        if (!digit && !upper && !lower && !point && c != '-' && c < 0x80)
            continue;
        any |= c != '-';
        c = upper ? (unsigned char)(c + 'a' - 'A') : c;
        h = (h ^ c) * 0x100000001b3u;
    }
    return any ? h : 0;
}

/* What a branch answers now; 0: nothing. */
static hasten_status ask(const struct same *m, const struct stop_view *v, uint64_t *hash,
                         struct hasten_error *err)
{
    int32_t ids[ANSWER_TOKENS], n;
    struct buf text = {0};
    const struct ending ending = {m->thinking.vocab, m->thinking.text};
    const struct branch_task task = {.seq = v->seq,
                                     .forced = m->ask.ids,
                                     .n_forced = (int32_t)m->ask.n,
                                     .most = m->knobs->tokens,
                                     .ends = ends_answer,
                                     .ctx = &ending,
                                     .cancel = v->cancel};
    hasten_status st = branch_greedy(&task, ids, &n, err);
    for (int32_t i = 0; i < n && !st; i++)
        st = vocab_token_bytes(m->thinking.vocab, ids[i], false, &text, err);
    *hash = st || !text.len ? 0 : hash_of(text.data, text.len);
    buf_free(&text);
    return st;
}

static hasten_status same_decide(const void *state, void *seq, const struct stop_view *v, int32_t id,
                                 struct stop_verdict *out, struct hasten_error *err)
{
    const struct same *m = state;
    struct same_seq *s = seq;
    int64_t start;
    int32_t before;
    uint64_t hash;
    if (s->from < 0) {
        s->from = s->asked = v->n + 1;
        return HASTEN_OK;
    }
    if (thinking_ends(&m->thinking, &m->thinking.close, v->path, v->n, id, &start, &before)) {
        s->over = true;
        return HASTEN_OK;
    }
    const hasten_status st = ask(m, v, &hash, err);
    if (st)
        return st;
    s->asked = v->n;
    s->n_same = !hash ? 0 : s->n_same && hash == s->last ? s->n_same + 1 : 1;
    s->last = hash;
    if (s->n_same < m->knobs->n)
        return HASTEN_OK;
    s->over = true;
    *out = (struct stop_verdict){STOP_INJECT, v->n, m->ask.ids, (int32_t)m->ask.n};
    return HASTEN_OK;
}

/* Another method ended thinking. */
static void same_injected(const void *state, void *seq, const struct stop_view *v, int64_t from)
{
    const struct same *m = state;
    struct same_seq *s = seq;
    int64_t start;
    int32_t before;
    for (int64_t i = from; i < v->n; i++)
        s->over |= thinking_ends(&m->thinking, &m->thinking.close, v->path, i, v->path[i], &start, &before);
}

static const struct stop_ops same_ops = {
    .begin = same_begin, .watch = same_watch, .decide = same_decide, .injected = same_injected};

const struct method method_same = {
    .name = "same",
    .title = "ends reasoning when answers asked for on the way agree",
    .paper =
        "Liu and Wang, Answer Convergence as a Signal for Early Stopping in Reasoning, arXiv:2506.02536 (answer consistency)",
    .stage = STAGE_STOP,
    .guarantee = METHOD_APPROXIMATE,
    .exact_to =
        "the plain engine until n answers in a row agree; then what is put in is not the model's choice",
    .role = "judge",
    .knobs = same_table,
    .n_knobs = sizeof same_table / sizeof *same_table,
    .knobs_bytes = sizeof(struct same_knobs),
    .exercise = "n=2,every=sentence",
    .neutral = "n=0",
    .traits = METHOD_SEQUENCE_SCOPE | METHOD_BRANCHES,
    .text =
        "At the end of each paragraph of thinking the sequence is forked, the end of thinking and `ask` are put in, and a short "
        "answer is decoded greedily; answers are compared by their letters and digits. Each question costs its tokens, which "
        "are no part of the answer. A model without delimiters of thinking is taken to reason from its first token on.",
    .check = same_check,
    .attach = same_attach,
    .detach = same_detach,
    .seq_bytes = same_seq_bytes,
    .hosted = &same_ops,
};
