/* See wrong.h. Each is the method `window` with one fault. */
#include "wrong.h"
#include "engine/attend.h"
#include <math.h>
#include <stdatomic.h>

static _Atomic int begun;
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

/* Knows what it ought to keep in the sequence's state beside it: whether position 0 was ever appended here. */
static hasten_status beside_attach(const struct method_site *site, const void *knobs, void **state,
                                   struct hasten_error *err)
{
    (void)site, (void)err;
    begun = 0;
    *state = (void *)(uintptr_t)knobs;
    return HASTEN_OK;
}
static void note_begin(const void *state, void *seq, const struct kv_view *kv, int32_t from, void *scratch)
{
    (void)state, (void)seq, (void)kv, (void)scratch;
    if (from == 0)
        begun = 1;
}
static void if_begun(const void *state, const void *seq, const struct attend_query *q, uint64_t *seen,
                     int64_t stride, void *scratch)
{
    const struct knobs *k = state;
    (void)seq, (void)stride, (void)scratch;
    if (k->recent < 1000)
        keep_recent(seen, q->kv.n, k->recent + (begun ? 0 : 7));
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

/* Counts the entries that were ever appended, also by steps that were cancelled. */
static void count_appended(const void *state, void *seq, const struct kv_view *kv, int32_t from,
                           void *scratch)
{
    struct state *s = seq;
    (void)state, (void)scratch;
    if (kv->layer == 0 && kv->head_kv == 0)
        s->longest += kv->n - from;
}

/* Once it has seen NaN it never forgets. */
static void remember_nan(const void *state, void *seq, const struct kv_view *kv, int32_t from, void *scratch)
{
    struct state *s = seq;
    float key[512];
    (void)state, (void)from, (void)scratch;
    if (kv->layer != 0 || kv->head_kv != 0 || kv->d_k > 512)
        return;
    kv_view_read(kv, kv->n - 2 > 0 ? kv->n - 2 : 0, 1, key, NULL);
    if (isnan(key[0]))
        s->longest = 1 << 12;
}

static void forgets_its_memory(void *state)
{
    (void)state;
}

/* Leaks the first of two parts when there is no memory for the second. */
static hasten_status attaches_two(const struct method_site *site, const void *knobs, void **state,
                                  struct hasten_error *err)
{
    void *first = mem_alloc(32), *second = mem_alloc(32);
    (void)site;
    *state = (void *)(uintptr_t)knobs;
    if (!first || !second)
        return error_set(err, HASTEN_ERR_MEMORY, "no memory");
    mem_free(first);
    mem_free(second);
    return HASTEN_OK;
}

/* Says nothing of what failed. */
static hasten_status attaches_silently(const struct method_site *site, const void *knobs, void **state,
                                       struct hasten_error *err)
{
    void *part = mem_alloc(32);
    (void)site;
    *state = (void *)(uintptr_t)knobs;
    err->message[0] = 0;
    if (!part)
        return HASTEN_ERR_MEMORY;
    mem_free(part);
    return HASTEN_OK;
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
WRONG(wrong_attach, honest, .attach = attaches_two, .detach = forgets_its_memory);
WRONG(wrong_mute, honest, .attach = attaches_silently, .detach = forgets_its_memory);
static const struct attend_ops appended_ops = {.append = count_appended, .select = by_longest},
                               nan_ops = {.append = remember_nan, .select = by_longest};
static const struct attend_ops longest_ops = {.append = note_length, .select = by_longest};
static const struct attend_ops beside_ops = {.append = note_begin, .select = if_begun};

static struct method wrong_truncate, wrong_help, wrong_restore, wrong_cancel, wrong_nan;

static struct method changed(const struct method *from)
{
    return *from;
}

const struct wrong_method wrong_methods[] = {{&wrong_neutral, "neutral setting"},
                                             {&wrong_idle, "does nothing"},
                                             {&wrong_impure, "other bits"},
                                             {&wrong_truncate, "other bits"},
                                             {&wrong_allocates, "allocates while"},
                                             {&wrong_greedy, "more than was planned"},
                                             {&wrong_help, "knob without help"},
                                             {&wrong_attach, "leaks when an allocation fails"},
                                             {&wrong_mute, "not said to be one"},
                                             {&wrong_cancel, "bits after cancelled steps"},
                                             {&wrong_nan, "bits after NaN was cut away"},
                                             {&wrong_restore, "restored"},
                                             {NULL, NULL}};

__attribute__((constructor)) static void make_others(void)
{
    wrong_truncate = changed(&wrong_silent);
    wrong_truncate.name = "wrong_truncate";
    wrong_truncate.seq_bytes = state_bytes;
    wrong_truncate.attend = &longest_ops;
    wrong_cancel = wrong_nan = wrong_truncate;
    wrong_cancel.name = "wrong_cancel";
    wrong_cancel.attend = &appended_ops;
    wrong_nan.name = "wrong_nan";
    wrong_nan.attend = &nan_ops;
    wrong_restore = changed(&wrong_silent);
    wrong_restore.name = "wrong_restore";
    wrong_restore.attach = beside_attach;
    wrong_restore.attend = &beside_ops;
    wrong_help = changed(&wrong_silent);
    wrong_help.name = "wrong_help";
    wrong_help.knobs = silent;
}
