/* What can be tried (search.h): methods as the registry has them, and the settings of an engine that change speed. */
#include "tune/search.h"
#include "hasten/hasten.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

struct tune_candidate *tune_add(struct tune_search *s, struct hasten_error *err)
{
    if (!s->c)
        s->c = mem_calloc(TUNE_MAX_CANDIDATES, sizeof *s->c);
    if (!s->c || s->n == TUNE_MAX_CANDIDATES) {
        error_set(err, HASTEN_ERR_MEMORY, "tune: %s", s->c ? "too many candidates" : "out of memory");
        return NULL;
    }
    struct tune_candidate *c = &s->c[s->n++];
    *c = (struct tune_candidate){.kv_type = -1, .exact = true};
    return c;
}

void tune_search_free(struct tune_search *s)
{
    for (int32_t i = 0; i < s->n; i++)
        mem_free(s->c[i].pairs);
    mem_free(s->c);
    *s = (struct tune_search){0};
}

static const char *kv_name(int32_t type)
{
    static const char *const names[] = {"f16", "f32", "bf16", "q8", "q4"};
    return names[type];
}

hasten_status tune_describe(const struct tune_candidate *c, struct buf *out)
{
    int rc = buf_puts(out, "");
    const char *plus = "";
    for (int32_t i = 0; i < c->n_use; i++, plus = " + ")
        rc |= buf_printf(out, "%s%s %s%s%s", plus, method_stage_option(c->use[i].m->stage), c->use[i].m->name,
                         *c->use[i].knobs ? ":" : "", c->use[i].knobs);
    if (c->kv_type >= 0) {
        rc |= buf_printf(out, "%scache-type %s", plus, kv_name(c->kv_type));
        plus = " + ";
    }
    if (c->n_threads) {
        rc |= buf_printf(out, "%sthreads %d", plus, (int)c->n_threads);
        plus = " + ";
    }
    if (c->n_batch)
        rc |= buf_printf(out, "%sbatch-size %d", plus, (int)c->n_batch);
    return rc ? HASTEN_ERR_MEMORY : HASTEN_OK;
}

/* ---- methods -------------------------------------------------------------------------------------------------- */

/* Why a method is no candidate at all; NULL: it is one. */
static const char *not_tried(const struct method *m)
{
    switch (m->stage) {
    case STAGE_WEIGHTS:
    case STAGE_DEPTH:
    case STAGE_ATTEND:
    case STAGE_CACHE:
    case STAGE_DRAFT:
        break;
    case STAGE_STOP:
    case STAGE_CONTEXT:
        return "not tried: it changes what is read or said, which KL at the same text does not show";
    case STAGE_SAMPLE:
        return "not tried: it belongs to a question";
    case STAGE_STORE:
    case STAGE_SCHEDULE:
        return "not tried: it shows in the traffic of several requests, not in one answer";
    case STAGE_DECIDE:
    case STAGE_MODALITY:
    case METHOD_STAGES:
        return "not tried: it is not about the speed of answers";
    }
    if (m->traits & METHOD_FOR_TESTS)
        return "not tried: it is for comparison, not for work";
    return m->tries && !*m->tries ? "not tried: alone it makes nothing faster" : NULL;
}

static hasten_status add_method(struct tune_search *s, const struct method *m, const char *knobs,
                                const char *why, double max_kl, struct hasten_error *err)
{
    struct tune_candidate *c = tune_add(s, err);
    if (!c)
        return HASTEN_ERR_MEMORY;
    c->use[c->n_use++] = (struct tune_use){m, knobs};
    c->exact = m->guarantee != METHOD_APPROXIMATE;
    if (!why && !c->exact && max_kl <= 0)
        why = "not tried: approximate, and --max-kl is 0";
    if (why) {
        c->verdict = TUNE_REJECTED;
        snprintf(c->why, sizeof c->why, "%s", why);
    }
    return HASTEN_OK;
}

/* Each of the settings that a method is worth trying with; `tries` holds them as strings one behind the other. */
static hasten_status add_methods(struct tune_search *s, double max_kl, struct hasten_error *err)
{
    int32_t n;
    const struct method *const *all = methods_all(&n);
    hasten_status st = HASTEN_OK;
    for (int32_t i = 0; i < n && !st; i++) {
        const struct method *m = all[i];
        const char *why = not_tried(m);
        if (why || !m->tries) {
            st = add_method(s, m, "", why, max_kl, err);
            continue;
        }
        for (const char *t = m->tries; *t && !st; t += strlen(t) + 1)
            st = add_method(s, m, t, NULL, max_kl, err);
    }
    return st;
}

/* ---- settings ------------------------------------------------------------------------------------------------- */

static hasten_status add_setting(struct tune_search *s, int32_t n_threads, int32_t n_batch, int32_t kv_type,
                                 double max_kl, struct hasten_error *err)
{
    struct tune_candidate *c = tune_add(s, err);
    if (!c)
        return HASTEN_ERR_MEMORY;
    c->n_threads = n_threads;
    c->n_batch = n_batch;
    c->kv_type = kv_type;
    c->exact = kv_type < 0;
    if (!c->exact && max_kl <= 0) {
        c->verdict = TUNE_REJECTED;
        snprintf(c->why, sizeof c->why, "not tried: approximate, and --max-kl is 0");
    }
    return HASTEN_OK;
}

hasten_status tune_candidates(struct tune_search *s, int32_t n_threads, double max_kl,
                              struct hasten_error *err)
{
    hasten_status st = add_methods(s, max_kl, err);
    static const int32_t batches[] = {128, 1024}, kinds[] = {HASTEN_KV_BF16}; /* the others are methods */
    if (!st && n_threads > 1)
        st = add_setting(s, n_threads - 1, 0, -1, max_kl, err);
    if (!st && n_threads > 3)
        st = add_setting(s, n_threads / 2, 0, -1, max_kl, err);
    for (int i = 0; i < 2 && !st; i++)
        st = add_setting(s, 0, batches[i], -1, max_kl, err);
    for (int i = 0; i < 1 && !st; i++)
        st = add_setting(s, 0, 0, kinds[i], max_kl, err);
    return st;
}
