/* Methods of the loop of an answer that are wrong on purpose (wrong.h). */
#include "base/mem.h"
#include "engine/draft.h"
#include "engine/stop.h"
#include "engine/store.h"
#include "wrong.h"
#include <string.h>

/* ---- the stage draft ------------------------------------------------------------------------------------------ */

static int32_t two(const void *state)
{
    (void)state;
    return 2;
}

static hasten_status says_nothing(const struct draft_self *self, const struct draft_view *v,
                                  struct draft_proposal *p, struct hasten_error *err)
{
    (void)self, (void)v, (void)p, (void)err;
    return HASTEN_OK;
}

static hasten_status opens_two(const void *state, void **opened, struct hasten_error *err)
{
    void **two_parts = mem_calloc(2, sizeof *two_parts);
    (void)state;
    if (two_parts)
        two_parts[0] = mem_alloc(8);
    const bool good = two_parts && two_parts[0];
    *opened = good ? two_parts : NULL; /* leaks one of two */
    return good ? HASTEN_OK : error_set(err, HASTEN_ERR_MEMORY, "no memory");
}

static hasten_status forks_two(const void *state, const void *opened, void **out, struct hasten_error *err)
{
    (void)opened;
    return opens_two(state, out, err);
}

static void truncates_two(const void *state, void *opened, int64_t n)
{
    (void)state, (void)opened, (void)n;
}

static void closes_two(const void *state, void *opened)
{
    void **two_parts = opened;
    (void)state;
    mem_free(two_parts[0]);
    mem_free(two_parts);
}

static hasten_status one_token(const struct draft_self *self, const struct draft_view *v,
                               struct draft_proposal *p, struct hasten_error *err)
{
    (void)self, (void)err;
    p->ids[0] = v->path[0];
    p->n = 1;
    return HASTEN_OK;
}

static const struct draft_ops silent_ops = {.most = two, .propose = says_nothing},
                              leak_ops = {.most = two,
                                          .propose = one_token,
                                          .open = opens_two,
                                          .fork = forks_two,
                                          .truncate = truncates_two,
                                          .close = closes_two};

/* ---- the stage stop ------------------------------------------------------------------------------------------- */

static int32_t answers_begun; /* what no method may have: a memory beside the sequence's */

static void counts_answers(const void *state, void *seq, const struct stop_view *v)
{
    (void)state, (void)seq, (void)v;
    answers_begun++;
}

static bool at_some_token(const void *state, const void *seq, const struct stop_view *v, int32_t id)
{
    (void)state, (void)seq, (void)id;
    return v->n - v->n_prompt == 3 + answers_begun % 5;
}

static bool at_fifth_token(const void *state, const void *seq, const struct stop_view *v, int32_t id)
{
    (void)state, (void)seq, (void)id;
    return v->n - v->n_prompt == 5;
}

static void begins(const void *state, void *seq, const struct stop_view *v)
{
    (void)state, (void)seq, (void)v;
}

static hasten_status ends(const void *state, void *seq, const struct stop_view *v, int32_t id,
                          struct stop_verdict *out, struct hasten_error *err)
{
    (void)state, (void)seq, (void)v, (void)id, (void)err;
    out->act = STOP_END;
    return HASTEN_OK;
}

static const struct stop_ops counting_ops = {.begin = counts_answers, .watch = at_some_token, .decide = ends},
                             always_ops = {.begin = begins, .watch = at_fifth_token, .decide = ends};

/* ---- the stage store ------------------------------------------------------------------------------------------ */

struct one_place {
    struct hasten_engine *e;
    struct hasten_seq *kept;
};

static hasten_status opens_place(struct hasten_engine *e, const void *state, void **store,
                                 struct hasten_error *err)
{
    struct one_place *p = mem_calloc(1, sizeof *p);
    (void)state;
    if (!p)
        return error_set(err, HASTEN_ERR_MEMORY, "no memory");
    p->e = e;
    *store = p;
    return HASTEN_OK;
}

static void closes_place(void *store)
{
    struct one_place *p = store;
    hasten_seq_close(p->kept);
    mem_free(p);
}

/* Whatever was given last, whoever asks. */
static hasten_status takes_any(void *store, uint64_t scope, const int32_t *ids, int64_t n,
                               struct hasten_seq **out, struct hasten_error *err)
{
    struct one_place *p = store;
    (void)scope, (void)ids;
    if (!p->kept)
        return hasten_seq_open(p->e, out, err);
    *out = p->kept;
    p->kept = NULL;
    return hasten_seq_truncate(*out, hasten_seq_length(*out) < n ? hasten_seq_length(*out) : (int32_t)n - 1,
                               err);
}

/* The same, and all of it. */
static hasten_status takes_all(void *store, uint64_t scope, const int32_t *ids, int64_t n,
                               struct hasten_seq **out, struct hasten_error *err)
{
    struct one_place *p = store;
    (void)ids, (void)n;
    if (!p->kept || scope == 2)
        return hasten_seq_open(p->e, out, err);
    *out = p->kept;
    p->kept = NULL;
    return HASTEN_OK;
}

static void gives(void *store, uint64_t scope, struct hasten_seq *seq)
{
    struct one_place *p = store;
    if (scope == 2 || p->kept)
        hasten_seq_close(seq);
    else
        p->kept = seq;
}

static bool has_no_room(void *store, int64_t pages)
{
    (void)store, (void)pages;
    return false;
}

static void knows_nothing(const void *store, struct store_figures *out)
{
    (void)store;
    *out = (struct store_figures){0};
}

#define STORE_OPS(how)                                                                                       \
    {                                                                                                        \
        .open = opens_place, .close = closes_place, .take = how, .give = gives, .make_room = has_no_room,    \
        .figures = knows_nothing                                                                             \
    }
static const struct store_ops any_ops = STORE_OPS(takes_any), all_ops = STORE_OPS(takes_all);

#define WRONG_HOSTED(id, its_stage, its_guarantee, its_role, ops, ...)                                       \
    static const struct method id = {.name = #id,                                                            \
                                     .title = "wrong",                                                       \
                                     .paper = "none",                                                        \
                                     .stage = its_stage,                                                     \
                                     .guarantee = its_guarantee,                                             \
                                     .exact_to = "nothing",                                                  \
                                     .role = its_role,                                                       \
                                     .exercise = "",                                                         \
                                     .text = "for tests",                                                    \
                                     .hosted = &(ops),                                                       \
                                     __VA_ARGS__}

WRONG_HOSTED(wrong_silent_drafter, STAGE_DRAFT, METHOD_EXACT, "propose", silent_ops, .traits = 0);
WRONG_HOSTED(wrong_leak, STAGE_DRAFT, METHOD_EXACT, "propose", leak_ops, .traits = 0);
WRONG_HOSTED(wrong_counting, STAGE_STOP, METHOD_APPROXIMATE, "judge", counting_ops, .traits = 0);
WRONG_HOSTED(wrong_never_neutral, STAGE_STOP, METHOD_APPROXIMATE, "judge", always_ops, .neutral = "");
WRONG_HOSTED(wrong_exact, STAGE_STOP, METHOD_EXACT, "judge", always_ops, .traits = 0);

WRONG_HOSTED(wrong_scope, STAGE_STORE, METHOD_EXACT, "keep", any_ops, .traits = 0);
WRONG_HOSTED(wrong_length, STAGE_STORE, METHOD_EXACT, "keep", all_ops, .traits = 0);

const struct wrong_method wrong_hosted[] = {{&wrong_scope, "belongs to another scope"},
                                            {&wrong_length, "more than a prompt needs"},
                                            {&wrong_silent_drafter, "proposes nothing"},
                                            {&wrong_leak, "leaks when an allocation fails"},
                                            {&wrong_counting, "another answer"},
                                            {&wrong_never_neutral, "answer at its neutral setting"},
                                            {&wrong_exact, "exact, and not the plain engine's answer"},
                                            {NULL, NULL}};
