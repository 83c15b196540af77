/* Two drafters for tests and comparison, which know the answer from a file: one proposes it (no drafter can be better),
 * one proposes anything but it (none can be worse). */
#include "base/file.h"
#include "base/json.h"
#include "engine/draft.h"
#include <string.h>

struct oracle_knobs {
    int32_t gamma;
    const char *ids;
};
struct oracle {
    int32_t gamma, n_vocab;
    int32_t *ids; /* [n] the answer; NULL: not known */
    int64_t n;
};

#define GAMMA_KNOB                                                                                           \
    {                                                                                                        \
        "gamma", KNOB_INT, offsetof(struct oracle_knobs, gamma), 1, DRAFT_MAX, "4", NULL, "tokens",          \
            "tokens proposed"                                                                                \
    }
#define IDS_KNOB(help)                                                                                       \
    {                                                                                                        \
        "ids", KNOB_TEXT, offsetof(struct oracle_knobs, ids), 0, 0, NULL, NULL, NULL, help                   \
    }
static const struct knob oracle_table[] = {
    GAMMA_KNOB, IDS_KNOB("a file with the answer: a JSON array of ids, or what `run --json` prints")};
static const struct knob adversary_table[] = {
    GAMMA_KNOB, IDS_KNOB("a file with the answer, of which no token is proposed at its place [any tokens]")};

static hasten_status read_ids(const char *path, const json_t *v, struct oracle *o, struct hasten_error *err)
{
    if (json_is_object(v))
        v = json_object_get(v, "tokens");
    if (!json_is_array(v))
        return error_set(err, HASTEN_ERR_FILE,
                         "%s: no token ids (expected a JSON array, or an object with \"tokens\")", path);
    o->n = (int64_t)json_array_size(v);
    o->ids = mem_array((size_t)o->n + 1, sizeof *o->ids);
    if (!o->ids)
        return error_set(err, HASTEN_ERR_MEMORY, "%s: out of memory", path);
    for (int64_t i = 0; i < o->n; i++) {
        const json_t *x = json_array_get(v, (size_t)i);
        if (!json_is_integer(x) || json_integer_value(x) < 0 || json_integer_value(x) >= o->n_vocab)
            return error_set(err, HASTEN_ERR_FILE, "%s: element %lld is not a token id (expected 0 to %d)",
                             path, (long long)i, (int)o->n_vocab - 1);
        o->ids[i] = (int32_t)json_integer_value(x);
    }
    return HASTEN_OK;
}

static void oracle_detach(void *state)
{
    struct oracle *o = state;
    if (o)
        mem_free(o->ids);
    mem_free(o);
}

static hasten_status read_file(const char *path, struct oracle *o, struct hasten_error *err)
{
    char *text = NULL;
    size_t len = 0;
    json_t *v = NULL;
    hasten_status st = file_slurp(path, LIMIT_JSON_BYTES, &text, &len, err);
    if (!st)
        st = json_parse(path, text, len, &v, err);
    if (!st)
        st = read_ids(path, v, o, err);
    json_decref(v);
    mem_free(text);
    return st;
}

static hasten_status oracle_attach(const struct method_site *site, const void *knobs, void **state,
                                   struct hasten_error *err)
{
    const struct oracle_knobs *k = knobs;
    struct oracle *o = mem_calloc(1, sizeof *o);
    if (!o)
        return error_set(err, HASTEN_ERR_MEMORY, "--draft oracle: out of memory");
    o->gamma = k->gamma;
    o->n_vocab = site->desc->n_vocab;
    const hasten_status st = k->ids ? read_file(k->ids, o, err) : HASTEN_OK;
    if (st)
        oracle_detach(o);
    else
        *state = o;
    return st;
}

static hasten_status oracle_check(const struct method_site *site, const void *knobs, struct hasten_error *err)
{
    (void)site;
    return ((const struct oracle_knobs *)knobs)->ids
               ? HASTEN_OK
               : error_set(err, HASTEN_ERR_USAGE,
                           "--draft oracle:ids: found none (expected a file with the answer)");
}

static int32_t oracle_most(const void *state)
{
    return ((const struct oracle *)state)->gamma;
}

static hasten_status oracle_propose(const struct draft_self *self, const struct draft_view *v,
                                    struct draft_proposal *p, struct hasten_error *err)
{
    const struct oracle *o = self->state;
    const int64_t at = v->n - v->n_prompt;
    (void)err;
    for (; p->n < p->max && at + p->n < o->n; p->n++) {
        p->ids[p->n] = o->ids[at + p->n];
        p->conf[p->n] = 1;
    }
    return HASTEN_OK;
}

static hasten_status adversary_propose(const struct draft_self *self, const struct draft_view *v,
                                       struct draft_proposal *p, struct hasten_error *err)
{
    const struct oracle *o = self->state;
    const int64_t at = v->n - v->n_prompt;
    (void)err;
    for (; p->n < p->max; p->n++) {
        const uint64_t hash = (uint64_t)(v->n + p->n) * 0x9e3779b97f4a7c15u;
        p->ids[p->n] = (int32_t)((hash >> 32) % (uint64_t)o->n_vocab);
        if (at + p->n < o->n && p->ids[p->n] == o->ids[at + p->n])
            p->ids[p->n] = (p->ids[p->n] + 1) % o->n_vocab;
        p->conf[p->n] = 1;
    }
    return HASTEN_OK;
}

static const struct draft_ops oracle_ops = {.most = oracle_most, .propose = oracle_propose},
                              adversary_ops = {.most = oracle_most, .propose = adversary_propose};

const struct method method_draft_oracle = {
    .name = "oracle",
    .title = "proposes the answer itself, from a file",
    .paper = "none: the bound of every drafter",
    .stage = STAGE_DRAFT,
    .guarantee = METHOD_EXACT,
    .exact_to = "the plain engine with the same other methods: the same bits at any temperature",
    .role = "propose",
    .knobs = oracle_table,
    .n_knobs = sizeof oracle_table / sizeof *oracle_table,
    .knobs_bytes = sizeof(struct oracle_knobs),
    .traits = METHOD_SEQUENCE_SCOPE | METHOD_FOR_TESTS,
    .text =
        "Run once with --json > FILE, then with --draft oracle:ids=FILE and the same seed: what checking gamma tokens a "
        "pass can gain at most on this machine.",
    .check = oracle_check,
    .attach = oracle_attach,
    .detach = oracle_detach,
    .hosted = &oracle_ops,
};

const struct method method_adversary = {
    .name = "adversary",
    .title = "proposes tokens that are not the answer",
    .paper = "none: the worst drafter there can be",
    .stage = STAGE_DRAFT,
    .guarantee = METHOD_EXACT,
    .exact_to = "the plain engine with the same other methods: the same bits at any temperature",
    .role = "propose",
    .knobs = adversary_table,
    .n_knobs = sizeof adversary_table / sizeof *adversary_table,
    .knobs_bytes = sizeof(struct oracle_knobs),
    .exercise = "gamma=4",
    .neutral = "gamma=1",
    .traits = METHOD_SEQUENCE_SCOPE | METHOD_FOR_TESTS,
    .text =
        "Shows what drafting costs when nothing stands, and that nothing of what was proposed is left anywhere.",
    .attach = oracle_attach,
    .detach = oracle_detach,
    .hosted = &adversary_ops,
};
