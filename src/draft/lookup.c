/* Prompt lookup: what followed the last words when they stood in the text before. No state: the path is searched each
 * time, from its end, which at 32,000 tokens takes some 20 microseconds beside a step of many milliseconds, and has
 * nothing that could fail to follow a cut or a fork. */
#include "engine/draft.h"
#include <string.h>

struct lookup_knobs {
    int32_t max, min, gamma;
};

static const struct knob lookup_table[] = {
    {"max", KNOB_INT, offsetof(struct lookup_knobs, max), 1, 8, "3", NULL, "tokens",
     "the longest end of the text that is looked up"},
    {"min", KNOB_INT, offsetof(struct lookup_knobs, min), 1, 8, "1", NULL, "tokens",
     "the shortest; longer ones are tried first"},
    {"gamma", KNOB_INT, offsetof(struct lookup_knobs, gamma), 1, DRAFT_MAX, "10", NULL, "tokens",
     "tokens proposed at most"},
};

static hasten_status lookup_check(const struct method_site *site, const void *knobs, struct hasten_error *err)
{
    const struct lookup_knobs *k = knobs;
    (void)site;
    if (k->min > k->max)
        return error_set(err, HASTEN_ERR_USAGE,
                         "--draft lookup:min: found %d (expected at most max, which is %d)", (int)k->min,
                         (int)k->max);
    return HASTEN_OK;
}

static int32_t lookup_most(const void *state)
{
    return ((const struct lookup_knobs *)state)->gamma;
}

/* How many of the tokens before `at` equal those at the end of path[n], at most `most`. */
static int32_t equal_before(const int32_t *path, int64_t n, int64_t at, int32_t most)
{
    int32_t k = 0;
    while (k < most && k < at && path[at - 1 - k] == path[n - 1 - k])
        k++;
    return k;
}

/* The place behind the latest occurrence of the longest end that occurs before; 0: none. */
static int64_t find(const struct lookup_knobs *k, const int32_t *path, int64_t n, int32_t *length)
{
    int64_t best = 0;
    *length = k->min - 1;
    for (int64_t at = n - 1; at > 0 && *length < k->max; at--) {
        if (path[at - 1] != path[n - 1])
            continue;
        const int32_t got = equal_before(path, n, at, k->max);
        if (got > *length) {
            *length = got;
            best = at;
        }
    }
    return best;
}

static hasten_status lookup_propose(const struct draft_self *self, const struct draft_view *v,
                                    struct draft_proposal *p, struct hasten_error *err)
{
    const struct lookup_knobs *k = self->state;
    int32_t length;
    (void)err;
    const int64_t at = find(k, v->path, v->n, &length);
    if (at == 0)
        return HASTEN_OK;
    /* What follows; where that reaches the end of the text, the text goes round. */
    for (p->n = 0; p->n < p->max; p->n++) {
        const int64_t from = at + p->n;
        p->ids[p->n] = from < v->n ? v->path[from] : p->ids[from - v->n];
        p->conf[p->n] = (float)length / (float)k->max;
    }
    return HASTEN_OK;
}

static const struct draft_ops lookup_ops = {.most = lookup_most, .propose = lookup_propose};

const struct method method_lookup = {
    .name = "lookup",
    .title = "proposes what followed the last tokens when they stood in the text before",
    .paper = "Saxena, Prompt Lookup Decoding, 2023 (github.com/apoorvumang/prompt-lookup-decoding)",
    .stage = STAGE_DRAFT,
    .guarantee = METHOD_EXACT,
    .exact_to = "the plain engine with the same other methods: the same bits at any temperature",
    .role = "propose",
    .knobs = lookup_table,
    .n_knobs = sizeof lookup_table / sizeof *lookup_table,
    .knobs_bytes = sizeof(struct lookup_knobs),
    .tries = "gamma=10\0gamma=4,min=2\0max=4,gamma=24\0",
    .exercise = "gamma=6",
    .neutral = "gamma=1",
    .traits = METHOD_SEQUENCE_SCOPE,
    .text =
        "Pays where an answer repeats its prompt: edits of a file, quotations, extraction, JSON with recurring keys. "
        "Elsewhere few tokens stand; the controller (--draft verify:ctl=on, the default) then lets proposals pass. It costs "
        "no memory and no training.",
    .check = lookup_check,
    .hosted = &lookup_ops,
};
