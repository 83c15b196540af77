/* See wrong.h. Each is the method `window` with one fault. */
#include "wrong.h"
#include "engine/attend.h"
#include <stdatomic.h>

static _Atomic int calls; /* what no method may have: a memory beside the sequence's */
static void *leak;

struct knobs {
    int32_t recent;
};
static const struct knob table[] = {{"recent", KNOB_INT, offsetof(struct knobs, recent), 1, 1 << 20, "40",
                                     NULL, "", "entries that are read"}};
static const struct knob silent[] = {
    {"recent", KNOB_INT, offsetof(struct knobs, recent), 1, 1 << 20, "40", NULL, "", ""}};

static void keep_recent(uint64_t *seen, int32_t n, int32_t recent)
{
    attend_clear(seen, 0, n > recent ? n - recent : 0);
}

/* The window is one short even at its neutral setting. */
static void never_neutral(const void *state, const void *seq, const struct attend_query *q, uint64_t *seen,
                          int64_t stride, void *scratch)
{
    const struct knobs *k = state;
    (void)seq, (void)stride, (void)scratch;
    keep_recent(seen, q->kv.n, k->recent < q->kv.n ? k->recent : q->kv.n - 1);
}

/* Does nothing at all. */
static void idle(const void *state, const void *seq, const struct attend_query *q, uint64_t *seen,
                 int64_t stride, void *scratch)
{
    (void)state, (void)seq, (void)q, (void)seen, (void)stride, (void)scratch;
}

/* Decides by how often it was called. */
static void counts_calls(const void *state, const void *seq, const struct attend_query *q, uint64_t *seen,
                         int64_t stride, void *scratch)
{
    const struct knobs *k = state;
    (void)seq, (void)stride, (void)scratch;
    if (k->recent < 1000)
        keep_recent(seen, q->kv.n, k->recent + atomic_fetch_add(&calls, 1) % 3);
}

/* Keeps in a sequence's state how far it ever was, and never takes it back. */
struct state {
    int32_t longest;
};
static size_t state_bytes(const struct method_site *site, const void *knobs)
{
    (void)site, (void)knobs;
    return sizeof(struct state);
}
static void note_length(const void *state, void *seq, const struct kv_view *kv, int32_t from, void *scratch)
{
    struct state *s = seq;
    (void)state, (void)from, (void)scratch;
    if (kv->layer == 0 && kv->head_kv == 0)
        s->longest = kv->n > s->longest ? kv->n : s->longest;
}
static void by_longest(const void *state, const void *seq, const struct attend_query *q, uint64_t *seen,
                       int64_t stride, void *scratch)
{
    const struct knobs *k = state;
    const struct state *s = seq;
    (void)stride, (void)scratch;
    if (k->recent < 1000)
        keep_recent(seen, q->kv.n, k->recent + s->longest / 64);
}

/* Right, but allocates while tokens flow. */
static void allocates(const void *state, const void *seq, const struct attend_query *q, uint64_t *seen,
                      int64_t stride, void *scratch)
{
    const struct knobs *k = state;
    (void)seq, (void)stride, (void)scratch;
    mem_free(mem_alloc(16));
    keep_recent(seen, q->kv.n, k->recent);
}

static void honest(const void *state, const void *seq, const struct attend_query *q, uint64_t *seen,
                   int64_t stride, void *scratch)
{
    const struct knobs *k = state;
    (void)seq, (void)stride, (void)scratch;
    keep_recent(seen, q->kv.n, k->recent);
}

/* Takes memory that it did not announce. */
static hasten_status greedy(const struct method_site *site, const void *knobs, void **state,
                            struct hasten_error *err)
{
    (void)site, (void)err;
    leak = mem_calloc(1, (size_t)256 << 20);
    *state = (void *)(uintptr_t)knobs;
    return leak ? HASTEN_OK : HASTEN_ERR_MEMORY;
}

static void let_go(void *state)
{
    (void)state;
    mem_free(leak);
    leak = NULL;
}

#define WRONG(id, fn, ...)                                                                                   \
    static const struct attend_ops id##_ops = {.select = fn};                                                \
    static const struct method id = {.name = #id,                                                            \
                                     .title = "wrong",                                                       \
                                     .paper = "none",                                                        \
                                     .stage = STAGE_ATTEND,                                                  \
                                     .guarantee = METHOD_APPROXIMATE,                                        \
                                     .exact_to = "nothing",                                                  \
                                     .role = "select",                                                       \
                                     .knobs = table,                                                         \
                                     .n_knobs = 1,                                                           \
                                     .knobs_bytes = sizeof(struct knobs),                                    \
                                     .exercise = "recent=40",                                                \
                                     .neutral = "recent=1000000",                                            \
                                     .text = "for tests",                                                    \
                                     .attend = &id##_ops,                                                    \
                                     __VA_ARGS__}
WRONG(wrong_neutral, never_neutral, .traits = 0);
WRONG(wrong_idle, idle, .traits = 0);
WRONG(wrong_impure, counts_calls, .traits = 0);
WRONG(wrong_allocates, allocates, .traits = 0);
WRONG(wrong_greedy, honest, .attach = greedy, .detach = let_go);
WRONG(wrong_silent, honest, .traits = METHOD_SEQUENCE_SCOPE);
static const struct attend_ops longest_ops = {.append = note_length, .select = by_longest};

static struct method wrong_truncate, wrong_help;

static struct method changed(const struct method *from)
{
    return *from;
}

const struct wrong_method wrong_methods[] = {
    {&wrong_neutral, "neutral setting"},   {&wrong_idle, "does nothing"},
    {&wrong_impure, "other bits"},         {&wrong_truncate, "other bits"},
    {&wrong_allocates, "allocates while"}, {&wrong_greedy, "more than was planned"},
    {&wrong_help, "knob without help"},    {NULL, NULL}};

__attribute__((constructor)) static void make_others(void)
{
    wrong_truncate = changed(&wrong_silent);
    wrong_truncate.name = "wrong_truncate";
    wrong_truncate.seq_bytes = state_bytes;
    wrong_truncate.attend = &longest_ops;
    wrong_help = changed(&wrong_silent);
    wrong_help.name = "wrong_help";
    wrong_help.knobs = silent;
}
